/* The golden file of parses fixes the grammar: sources, their trees, and the errors of texts that are not programs.
 *
 * parse.golden holds cases separated by blank lines: source lines after "> ", then the statements as s-expressions, or
 * "! line:col: message", "? hint", and "..." when more text could mend it. DLSH_UPDATE_GOLDEN=1 rewrites the results.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lang/parse/parse.h"
#include "lang/rows.h"

static const char *golden_path = "tests/lang/parse.golden";

static void parse_case(dlsh_buf *out, const char *source, size_t len) {
    dlsh_syntax_error err;
    dlsh_unit *u = dlsh_unit_new("golden", source, len);
    assert_non_null(u);
    if (dlsh_parse(u, find_test_row, NULL, &err)) {
        dlsh_buf_printf(out, "! %d:%d: %s\n", err.span.line, err.span.col, err.message);
        if (err.hint[0]) dlsh_buf_printf(out, "? %s\n", err.hint);
        if (err.at_end) dlsh_buf_puts(out, "...\n");
    } else
        for (int i = 0; i < u->root->nkids; i++) {
            dlsh_dump(out, u->root->kids[i]);
            dlsh_buf_puts(out, "\n");
        }
    dlsh_unit_drop(u);
}

/* Reads the golden file and returns it with every result computed again. */
static void recompute(FILE *f, dlsh_buf *expected, dlsh_buf *actual, int *cases) {
    char *line = NULL;
    size_t cap = 0;
    dlsh_buf source = {0};
    for (int open = 0;;) {
        ssize_t n = getline(&line, &cap, f);
        int source_line = n > 0 && line[0] == '>';
        if (open && !source_line) {
            parse_case(actual, dlsh_buf_text(&source), source.n);
            dlsh_buf_free(&source);
            open = 0;
            ++*cases;
        }
        if (n < 0) break;
        dlsh_buf_add(expected, line, (size_t)n);
        if (source_line) {
            const char *text = line[1] == ' ' ? line + 2 : line + 1;
            dlsh_buf_puts(&source, text);
            open = 1;
        }
        /* comments, source and blank lines are copied, results are not */
        if (source_line || line[0] == '#' || line[0] == '\n') dlsh_buf_add(actual, line, (size_t)n);
    }
    free(line);
}

static void test_golden(void **state) {
    dlsh_buf expected = {0}, actual = {0};
    int cases = 0;
    (void)state;
    FILE *f = fopen(golden_path, "r");
    assert_non_null(f);
    recompute(f, &expected, &actual, &cases);
    fclose(f);
    if (getenv("DLSH_UPDATE_GOLDEN")) {
        f = fopen(golden_path, "w");
        assert_non_null(f);
        fputs(dlsh_buf_text(&actual), f);
        fclose(f);
    } else
        assert_string_equal(dlsh_buf_text(&expected), dlsh_buf_text(&actual));
    assert_true(cases > 100);
    dlsh_buf_free(&expected);
    dlsh_buf_free(&actual);
}

/* Every proper start of a program either parses or fails at a place inside it: no crash, no endless loop. */
static void test_prefixes(void **state) {
    static const char *const programs[] = {
        "net m(c, s=1) { residual { conv c k=3 -> relu } shortcut { conv c k=1 stride=s } -> relu\nhead: linear 10 }\n",
        "fn f(a, b=[1, 2]) { if a > b[0] { return a } else if a { x.y[1:2, ...] += \"s\\n\" } }\n",
        "extern \"libm.so.6\" double hypot(double x, double y);\nC { int f(char *s) { return s[0] == '}'; } }\n",
        "for x, y in t.batches { step t 3 quiet epochs=2; time plot test/loss (a + b) 'c d' }\n",
        "try { assert 1 == 2 } catch e { run show 3 }\n"};
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (size_t n = 0; n <= strlen(programs[i]); n++) {
            dlsh_syntax_error err;
            dlsh_unit *u = dlsh_unit_new("prefix", programs[i], n);
            dl_status st = dlsh_parse(u, find_test_row, NULL, &err);
            if (n == strlen(programs[i])) assert_int_equal(st, DL_OK);
            if (st) {
                assert_true(err.span.start >= 0 && err.span.start <= (int)n);
                assert_true(err.message[0] != 0);
                assert_true(!err.at_end || err.span.start == (int)n || programs[i][err.span.start] == '\n');
            }
            dlsh_unit_drop(u);
        }
}

/* Deep nesting is an error, not a crash; so are long chains that would make a deep tree. */
static void test_depth(void **state) {
    static const char *const deep[][3] = {
        {"(", "1", ")"},    {"(", "a, b", ")"},    {"[", "", "]"},
        {"-", "1", ""},     {"f(", "", ")"},       {"if a { ", "", "}"},
        {"1 ** ", "1", ""}, {"1 ? ", "1", " : 1"}, {"fn () { return ", "1", "}"},
        {"a[", "0", "]"},   {"1 + ", "1", ""},     {"net m { repeat 2 { ", "relu", "} }"}};
    (void)state;
    for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
        dlsh_buf b = {0};
        for (int k = 0; k < 20000; k++) dlsh_buf_puts(&b, deep[i][0]);
        dlsh_buf_puts(&b, deep[i][1]);
        for (int k = 0; k < 20000; k++) dlsh_buf_puts(&b, deep[i][2]);
        dlsh_syntax_error err;
        dlsh_unit *u = dlsh_unit_new("deep", dlsh_buf_text(&b), b.n);
        assert_int_equal(dlsh_parse(u, find_test_row, NULL, &err), DL_ERR_SYNTAX);
        dlsh_unit_drop(u);
        dlsh_buf_free(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_prefixes),
                                       cmocka_unit_test(test_depth)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
