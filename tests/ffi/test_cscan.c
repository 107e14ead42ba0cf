/* What C source declares, as later source has to see it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ffi/cparse/cscan.h"
#include "ffi/cparse/cwords.h"

static const struct {
    const char *text, *want; /* "KIND names : head", one a line */
} cases[] = {
    {"float sq(float x) { return x * x; }", "F sq : float sq(float x) @;\n"},
    {"int n = 3, *p, a[] = {1, {2}}; ", "V n p a : int n @, *p@, a[] @;\n"},
    {"static int hidden; static int f(void) { return 1; } int g(void);", "O hidden : \nO f : \nP g : int g(void);\n"},
    {"typedef struct { int x; } P; P origin;", "T P : typedef struct { int x; } P;\nV origin : P origin@;\n"},
    {"struct Q { struct Q *next; }; struct Q *head;",
     "T Q : struct Q { struct Q *next; };\nV head : struct Q *head@;\n"},
    {"enum color { RED, GREEN = 1 + (2), BLUE };",
     "T color RED GREEN BLUE : enum color { RED, GREEN = 1 + (2), BLUE };\n"},
    {"#include <math.h>\n#define N (1 + \\\n 2)\n#pragma once\nint (*cb)(int, int) = 0;",
     "D : #include <math.h>\nD N : #define N (1 + \\\n 2)\nO : \nV cb : int (*cb)(int, int) @;\n"},
    {"__attribute__((noinline)) double f(double x /* , { */) { if (x) { return 1; } return 2; } int after;",
     "F f : __attribute__((noinline)) double f(double x /* , { */) @;\nV after : int after@;\n"},
    {"extern int e; typedef int (*fn)(int); fn table[2]; int (*pick(int a))(float) { return 0; }",
     "P e : extern int e;\nT fn : typedef int (*fn)(int);\nV table : fn table[2]@;\nF pick : int (*pick(int a))(float) "
     "@;\n"},
    {"__global__ void k(float *x) { x[0] = 1; } void launch(float *x) { k<<<1, 1>>>(x); }",
     "O k : \nF launch : void launch(float *x) @;\n"},
    {"struct R make(int n) { struct R r = {n}; return r; }", "F make : struct R make(int n) @;\n"},
    {"const char *s = \"{;\"; char c = '}';", "V s : const char *s @;\nV c : char c @;\n"},
    {"unsigned long long big; _Alignas(64) float lanes[16];",
     "V big : unsigned long long big@;\nV lanes : _Alignas(64) float lanes[16]@;\n"},
    {"int broken( { ", ""},
};

static void items(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dlsh_citems c;
        dlsh_buf b = {0};
        assert_int_equal(dlsh_c_scan(cases[i].text, strlen(cases[i].text), &c), DL_OK);
        for (int k = 0; k < c.n; k++) {
            dlsh_citem *it = &c.items[k];
            dlsh_buf_printf(&b, "%c ", "DTPVFO"[it->kind]);
            for (int j = 0; j < it->nnames; j++) dlsh_buf_printf(&b, "%s ", it->names[j]);
            for (char *m = it->head; (m = strchr(m, DLSH_CI_PLACEHOLDER[0]));) *m = '@';
            dlsh_buf_printf(&b, ": %s\n", it->kind == DLSH_CI_OTHER ? "" : it->head);
        }
        if (*cases[i].want) assert_string_equal(dlsh_buf_text(&b), cases[i].want);
        dlsh_buf_free(&b);
        dlsh_citems_free(&c);
    }
}

static void mentions(void **state) {
    (void)state;
    static const char text[] = "// sq\n\"sq\" sqr(x) /* sq */ + s.n\n#define X zz(1)";
    assert_false(dlsh_c_mentions(text, "sq"));
    assert_true(dlsh_c_mentions(text, "sqr"));
    assert_true(dlsh_c_mentions(text, "zz"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(items), cmocka_unit_test(mentions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
