/* The parser of C declarations: what it makes of each kind, where it finds mistakes, and that sizes and offsets are the
 * compiler's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "ffi/cparse/proto.h"

typedef struct fixture {
    dlsh_cspace *c;
    dlsh_cdecls d;
    dlsh_cerror e;
} fixture;

static fixture parse(const char *text, unsigned flags, dl_status want) {
    fixture f = {.c = dlsh_cspace_new()};
    assert_non_null(f.c);
    dl_status st = dlsh_c_parse(f.c, text, strlen(text), flags, &f.d, &f.e);
    if (st != want) print_error("%s: %s\n", text, f.e.message);
    assert_int_equal(st, want);
    return f;
}

static void done(fixture *f) {
    dlsh_cdecls_free(&f->d);
    dlsh_cspace_free(f->c);
}

/* ---------------------------------------------------------------- types */

static void test_types(void **state) {
    static const struct {
        const char *source, *printed;
    } cases[] = {
        {"int f(void);", "int f(void)"},
        {"long unsigned int long f(short, char c);", "unsigned long long f(short, char)"},
        {"const char *f(const char *const *p);", "const char *f(const char *const *)"},
        {"double (*f(int n, void (*g)(int)))(double);", "double (*f(int, void (*)(int)))(double)"},
        {"int (*(*f)(int (*)(char)))[2];", "int (*(*f)(int (*)(char)))[2]"},
        {"int f(int a[3], int b[], int c[][4]);", "int f(int *, int *, int (*)[4])"},
        {"extern const float x[2][3];", "const float x[2][3]"},
        {"int (f)(int, ...);", "int f(int, ...)"},
        {"int (((f)))(int, ...);", "int f(int, ...)"},
        {"struct s { int a; } f(struct s v, const struct s *p);", "struct s f(struct s, const struct s *)"},
        {"typedef struct { int a; } t; t *f(t);", "t *f(t)"},
        {"enum e { A } f(enum e);", "enum e f(enum e)"},
        {"size_t f(uint8_t *p, FILE *to);", "unsigned long f(unsigned char *, FILE *)"},
        {"static inline int f(int a) { return a; }", "int f(int)"},
        {"char *const volatile f;", "char *const f"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = parse(cases[i].source, 0, DL_OK);
        assert_int_equal(f.d.n, 1);
        dlsh_buf b = {0};
        dlsh_c_print(&b, f.d.items[0].type, f.d.items[0].name);
        assert_string_equal(dlsh_buf_text(&b), cases[i].printed);
        dlsh_buf_free(&b);
        done(&f);
    }
}

static void test_interned(void **state) {
    (void)state;
    fixture f = parse("int *a; int *b; const int *c; int (*f)(int *, char); int (*g)(int *, char);", 0, DL_OK);
    assert_ptr_equal(f.d.items[0].type, f.d.items[1].type);
    assert_ptr_not_equal(f.d.items[0].type, f.d.items[2].type);
    assert_ptr_equal(f.d.items[3].type, f.d.items[4].type);
    assert_true(dlsh_c_same(f.d.items[0].type, f.d.items[2].type, 0));
    done(&f);
}

/* ---------------------------------------------------------------- layout */

struct mixed {
    char c;
    double d;
    short s[3];
    struct {
        int x;
        char y;
    } in;
    union {
        float f;
        long l;
    };
    char last;
};
struct bits {
    unsigned a : 3, b : 7;
    int c : 20;
    unsigned d : 5;
    unsigned long e : 40, f : 30;
    char g;
};

static void test_layout(void **state) {
    static const char source[] =
        "struct mixed { char c; double d; short s[3]; struct { int x; char y; } in; union { float f; long l; }; char "
        "last; };"
        "struct bits { unsigned a : 3, b : 7; int c : 20; unsigned d : 5; unsigned long e : 40, f : 30; char g; };";
    size_t at;
    (void)state;
    fixture f = parse(source, 0, DL_OK);
    const dlsh_ctype *m = dlsh_c_find_tag(f.c, DLSH_C_STRUCT, "mixed", 5),
                     *b = dlsh_c_find_tag(f.c, DLSH_C_STRUCT, "bits", 4);
    assert_int_equal(m->size, sizeof(struct mixed));
    assert_int_equal(m->align, _Alignof(struct mixed));
    assert_non_null(dlsh_c_field(m, "in", &at));
    assert_int_equal(at, offsetof(struct mixed, in));
    assert_non_null(dlsh_c_field(m, "l", &at));
    assert_int_equal(at, offsetof(struct mixed, l));
    assert_non_null(dlsh_c_field(m, "last", &at));
    assert_int_equal(at, offsetof(struct mixed, last));
    assert_null(dlsh_c_field(m, "nothing", &at));
    assert_int_equal(b->size, sizeof(struct bits));
    assert_non_null(dlsh_c_field(b, "g", &at));
    assert_int_equal(at, offsetof(struct bits, g));
    struct bits v = {0};
    unsigned char bytes[sizeof v];
    for (long i = 0; i < b->n; i++) { /* each bit-field alone: its lowest bit is where the compiler has it */
        if (!b->fields[i].bits) continue;
        memset(&v, 0, sizeof v);
        switch (i) {
        case 0: v.a = 1; break;
        case 1: v.b = 1; break;
        case 2: v.c = 1; break;
        case 3: v.d = 1; break;
        case 4: v.e = 1; break;
        default: v.f = 1;
        }
        memcpy(bytes, &v, sizeof v);
        size_t bit = 8 * b->fields[i].offset + (size_t)b->fields[i].bit_at;
        assert_int_equal(bytes[bit / 8], 1 << bit % 8);
    }
    done(&f);
}

/* ---------------------------------------------------------------- contracts and constants */

static void test_contracts(void **state) {
    (void)state;
    fixture f =
        parse("owned(g) char *f(int n, int m, const float x[n][m], out double y[2 * n + 1], inout int *k, int out);", 0,
              DL_OK);
    const dlsh_cproto *p = f.d.items[0].proto;
    assert_int_equal(p->flags, DLSH_C_OWNED);
    assert_string_equal(p->release, "g");
    assert_int_equal(p->nparams, 6);
    assert_int_equal(p->params[2].len->op, '*');
    assert_int_equal(p->params[2].type->base->kind, DLSH_C_FLOAT);
    assert_true(p->params[2].type->base->is_const);
    assert_true(p->params[3].flags & DLSH_C_OUT);
    assert_int_equal(p->params[3].len->op, '+');
    assert_true(p->params[4].flags & DLSH_C_INOUT);
    assert_int_equal(p->params[5].flags, 0);
    assert_string_equal(p->params[5].name, "out");
    assert_string_equal(
        p->text, "owned(g) char *f(int n, int m, const float x[n][m], out double y[2 * n + 1], inout int *k, int out)");
    done(&f);
}

static long constant(const fixture *f, const char *name) {
    const dlsh_cname *n = dlsh_c_find(f->c, name, strlen(name));
    assert_non_null(n);
    assert_int_equal(n->kind, DLSH_C_CONSTANT);
    return n->i;
}

static void test_constants(void **state) {
    (void)state;
    fixture f =
        parse("#define LATE (EARLY << 2)\n#define EARLY 5u\n#define NEG ((int)-1)\n#define BIG ((size_t)~0 >> 60)\n"
              "#define TEXT \"a\" \"\\x41\"\n#define HALF .5\n#define CALL(x) x\n#define WORD other\n"
              "enum e { A, B = sizeof(long) * 2, C, D = 'a' + (1 ? 2 : 3), E = -1 };",
              DLSH_C_MACROS, DL_OK);
    assert_int_equal(dlsh_c_enter_macros(f.c, &f.d), DL_OK);
    assert_int_equal(constant(&f, "LATE"), 20);
    assert_int_equal(constant(&f, "NEG"), -1);
    assert_int_equal(constant(&f, "BIG"), 15);
    assert_int_equal(constant(&f, "C"), 17);
    assert_int_equal(constant(&f, "D"), 'a' + 2);
    assert_int_equal(constant(&f, "E"), -1);
    assert_string_equal(dlsh_c_find(f.c, "TEXT", 4)->s, "aA");
    assert_true(dlsh_c_find(f.c, "HALF", 4)->f == 0.5);
    assert_null(dlsh_c_find(f.c, "CALL", 4));
    assert_null(dlsh_c_find(f.c, "WORD", 4));
    done(&f);
}

/* ---------------------------------------------------------------- mistakes */

static void test_errors(void **state) {
    static const struct {
        const char *source, *message;
        int line, col;
    } cases[] = {
        {"int f(int", "expected ',' or ')' after a parameter, found the end of the C text", 1, 10},
        {"int f(\n  foo x);", "unknown C type 'foo'", 2, 3},
        {"int long float f(void);", "these words make no C type", 1, 1},
        {"struct s { int a; int a; };", "two fields are called 'a'", 1, 23},
        {"struct s { struct t x; };", "field 'x' has the incomplete type struct t", 1, 21},
        {"int f(float x[k]);", "no parameter is called 'k'", 1, 15},
        {"int f(float n, float x[n]);", "the length 'n' is not an integer", 1, 24},
        {"int f(void x, int y);", "a parameter cannot be void", 1, 7},
        {"int f(void)[3];", "expected ';' after the declaration, found '['", 1, 12},
        {"int f[3](void);", "there are no arrays of int (void)", 1, 6},
        {"int x[-2];", "an array cannot have -2 elements", 1, 6},
        {"/* open", "expected a C type", 1, 1},
        {"enum { A = b };", "expected a constant, found 'b'", 1, 12},
        {"typedef int t; typedef long t;", "'t' is the type int already, not long", 1, 29},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = parse(cases[i].source, 0, DL_ERR_SYNTAX);
        if (strncmp(f.e.message, cases[i].message, strlen(cases[i].message)) &&
            strcmp(f.e.message, "this comment does not end"))
            fail_msg("%s: %s", cases[i].source, f.e.message);
        assert_int_equal(f.e.line, cases[i].line);
        assert_int_equal(f.e.col, cases[i].col);
        assert_int_equal(f.d.n, 0);
        assert_int_equal(dlsh_c_savepoint(f.c), 0);
        done(&f);
    }
}

/* Reading a header continues after a declaration that is not understood. */
static void test_lenient(void **state) {
    (void)state;
    fixture f =
        parse("# 1 \"x.h\"\nint first(void);\nextern __int128 q(void) __attribute__((const));\nint odd(nonsense);\n"
              "static inline nonsense g(int a) { if (a) { return; } }\n_Complex double z(int);\nint last(void);\n",
              DLSH_C_LENIENT, DL_OK);
    assert_string_equal(f.d.items[0].name, "first");
    assert_string_equal(f.d.items[f.d.n - 1].name, "last");
    for (int i = 0; i < f.d.n; i++) assert_string_not_equal(f.d.items[i].name, "odd");
    done(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),     cmocka_unit_test(test_interned),  cmocka_unit_test(test_layout),
        cmocka_unit_test(test_contracts), cmocka_unit_test(test_constants), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_lenient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
