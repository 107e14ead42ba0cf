/* C text that is nested deeply, or long: a message instead of an overrun stack, and time that grows as the text does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "ffi/cparse/proto.h"
#include "lang/session.h"

static dl_status parse(const dlsh_buf *text, unsigned flags, dlsh_cerror *e) {
    dlsh_cspace *c = dlsh_cspace_new();
    dlsh_cdecls d = {0};
    assert_non_null(c);
    dl_status st = dlsh_c_parse(c, text->s, text->n, flags, &d, e);
    for (int i = 0; !st && i < d.n && i < 10; i++) {
        dlsh_buf b = {0};
        dlsh_c_print(&b, d.items[i].type, d.items[i].name);
        dlsh_buf_free(&b);
    }
    if (!st) st = dlsh_c_enter_macros(c, &d);
    dlsh_cdecls_free(&d);
    dlsh_cspace_free(c);
    return st;
}

/* ---------------------------------------------------------------- depth */

/* `open` so many times, the middle, `close` as often; %d in them is the number of the level. */
typedef struct nest {
    const char *before, *open, *middle, *close, *after;
} nest;

static const nest nests[] = {
    {"", "struct a {", "", "", ""},
    {"", "struct a%d {", "int x;", "} f;", ""},
    {"struct s {", "struct {", "int x%d;", "};", "};"},
    {"", "union u%d { struct s%d {", "int x;", "} a; } b;", ""},
    {"int ", "*", "f(void)", "", ";"},
    {"int ", "*const ", "f", "", ";"},
    {"int ", "(", "f", ")", "(void);"},
    {"int ", "(*", "f", ")(void)", ";"},
    {"int ", "(*", "f", ")[2]", ";"},
    {"int f", "[2]", "", "", ";"},
    {"int f(int a", "[2]", "", "", ");"},
    {"int f(int n, int a", "[n]", "", "", ");"},
    {"int f(", "int g(", "", ")", ");"},
    {"int f(", "int (", "", ")", ");"},
    {"int f(", "struct s%d { int (*g)(", "", "); }", ");"},
    {"enum e { A = ", "(", "1", ")", "};"},
    {"enum e { A = ", "- ", "1", "", "};"},
    {"enum e { A = ", "!", "1", "", "};"},
    {"enum e { A = ", "(int)", "1", "", "};"},
    {"enum e { A = ", "1 ? 2 : ", "3", "", "};"},
    {"enum e { A = ", "1 ? ", "3", " : 4", "};"},
    {"enum e { A = ", "sizeof(int[", "1", "])", "};"},
    {"struct s { int a : ", "(", "3", ")", "; };"},
    {"int f(int n, int a[", "(", "n", ")", "]);"},
    {"int f(int n, int a[", "n + ", "n", "", "]);"},
    {"int f(void) __attribute__", "(", "", ")", ";"},
    {"int f[] = ", "{", "1", "}", ";"},
};

static void repeat(dlsh_buf *b, const char *s, int n) {
    for (int i = 0; i < n; i++) dlsh_buf_printf(b, s, i, i);
}

static void check_nest(const nest *k, int n, unsigned flags) {
    dlsh_buf text = {0};
    dlsh_cerror e;
    dlsh_buf_puts(&text, k->before);
    repeat(&text, k->open, n);
    dlsh_buf_printf(&text, k->middle, n);
    repeat(&text, k->close, n);
    dlsh_buf_puts(&text, k->after);
    assert_false(text.failed);
    dl_status st = parse(&text, flags, &e);
    if (st != DL_OK && st != DL_ERR_SYNTAX) fail_msg("%s%s: status %d", k->before, k->open, st);
    if (st && n > 300 && !strstr(e.message, "nested too deeply")) fail_msg("%s%s: %s", k->before, k->open, e.message);
    if (st && n < 60 && *k->close) fail_msg("%s%s: %s", k->before, k->open, e.message);
    dlsh_buf_free(&text);
}

static void test_depth(void **state) {
    static const int levels[] = {30, 199, 20000, 100000};
    (void)state;
    for (size_t i = 0; i < sizeof nests / sizeof *nests; i++)
        for (size_t k = 0; k < sizeof levels / sizeof *levels; k++) {
            check_nest(&nests[i], levels[k], 0);
            check_nest(&nests[i], levels[k], DLSH_C_LENIENT | DLSH_C_MACROS);
        }
}

/* Names nest types, too: each declaration uses the one before. */
static void test_chains(void **state) {
    static const struct {
        const char *first, *next;
    } chains[] = {
        {"typedef int *t0;", "typedef t%d *t%d;"},
        {"typedef int t0[1];", "typedef t%d t%d[1];"},
        {"typedef int (*t0)(int);", "typedef int (*t%2$d)(t%1$d, t%1$d);"}, /* twice: its text doubles with each */
        {"typedef int (*t0)(int);", "typedef t%1$d (*t%2$d)(t%1$d);"},
        {"typedef struct { int x; } t0;", "typedef struct { t%d a; } t%d;"},
        {"typedef struct { int x; } t0;", "typedef struct { t%1$d a, b; } t%2$d;"}, /* its size doubles */
    };
    (void)state;
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
        for (int n = 30; n <= 30000; n *= 1000) {
            dlsh_buf text = {0};
            dlsh_cerror e;
            dlsh_buf_puts(&text, chains[i].first);
            for (int k = 0; k < n; k++) dlsh_buf_printf(&text, chains[i].next, k, k + 1);
            dlsh_buf_printf(&text, "void f(t%d *p);", n);
            dl_status st = parse(&text, 0, &e);
            assert_int_equal(st, n < 100 ? DL_OK : DL_ERR_SYNTAX);
            if (st && !strstr(e.message, "too deeply") && !strstr(e.message, "too large")) fail_msg("%s", e.message);
            dlsh_buf_free(&text);
        }
}

/* ---------------------------------------------------------------- length */

typedef struct large {
    const char *before, *line, *after;
} large;

static const large larges[] = {
    {"", "typedef int *(*t%d)(int);\n", ""},
    {"enum e {", "E%d,\n", "};"},
    {"enum e { Z = 1, ", "E%d = Z + %d,\n", "};"},
    {"enum e { Z = ", "1 + ", "1 };"},
    {"struct s {", "int a%d;\n", "};"},
    {"struct s { int ", "a%d, ", "z; };"},
    {"struct s {", "unsigned b%d : 3;\n", "};"},
    {"struct s {", "struct { int a%d; };\n", "};"},
    {"", "struct s%d { int a; struct s%d *next; };\n", ""},
    {"", "int f%d(int a, double *b);\n", ""},
    {"int ", "f%d(int a), ", "z(int);"},
    {"int a[] = {", "%d, ", "};"},
    {"char *a = \"", "xyz", "\";"},
    {"char *a = ", "\"xyz\"\n", ";"},
    {"/*", " * a\n", "*/ int f(void);"},
    {"", "/* a */ // b\n", "int f(void);"},
    {"", "#define M%d %d\n", "int f(void);"},
    {"", "#define M%d M0\n", "int f(void);"},
    {"", "#define M%d \"a\"\n#undef M%d\n", "int f(void);"},
    {"", "int f%d(void);\n", "int ?;"},
    {"", "nonsense f%d(void);\n", ""},
};

static double seconds_for(const large *k, size_t bytes, unsigned flags) {
    dlsh_buf text = {0};
    dlsh_cerror e;
    dlsh_buf_puts(&text, k->before);
    for (int i = 0; text.n < bytes; i++) dlsh_buf_printf(&text, k->line, i, i);
    dlsh_buf_puts(&text, k->after);
    assert_false(text.failed);
    clock_t start = clock();
    parse(&text, flags, &e);
    double took = (double)(clock() - start) / CLOCKS_PER_SEC;
    dlsh_buf_free(&text);
    return took;
}

/* Four times the text takes four times as long; a quadratic reader takes 16 times. */
static void test_length(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof larges / sizeof *larges; i++)
        for (unsigned lenient = 0; lenient < 2; lenient++) {
            unsigned flags = lenient ? DLSH_C_LENIENT | DLSH_C_MACROS : 0;
            double one = seconds_for(&larges[i], 250000, flags), four = seconds_for(&larges[i], 1000000, flags);
            if (four > 8 * one + 0.3) fail_msg("%s: %.2f s, %.2f s", larges[i].line, one, four);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
