/* Where in the grammar unfinished text ends, for completion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../../shell/front/scan.h"

static dlsh_cursor at(const char *text) { return dlsh_scan(text, strlen(text)); }

static void statements(void **state) {
    (void)state;
    assert_int_equal(at("a = 1; b").statement, 6);
    assert_int_equal(at("a = 1\nb").statement, 6);
    assert_int_equal(at("f(1,\n2").statement, 0);
    assert_int_equal(at("if x { y").statement, 6);
    assert_int_equal(at("if x { y }\nz").statement, 11);
    assert_int_equal(at("# ; {\nz").statement, 6);
    assert_int_equal(at("x = \";\" + y").statement, 0);
}

static void brackets(void **state) {
    (void)state;
    dlsh_cursor c = at("f(g(1), [2, ");
    assert_int_equal(c.open, '[');
    assert_int_equal(c.bracket, 8);
    assert_int_equal(at("f(g(1), ").bracket, 1);
    assert_int_equal(at("f(1)").open, 0);
    assert_int_equal(at("fn h(a) { b").open, 0);
    assert_int_equal(at(")]}").open, 0);
}

static void strings(void **state) {
    (void)state;
    dlsh_cursor c = at("read \"da");
    assert_int_equal(c.quote, '"');
    assert_int_equal(c.string, 6);
    assert_int_equal(at("read \"a\\\"b").quote, '"');
    assert_int_equal(at("read 'a'").quote, 0);
    assert_int_equal(at("x = \"\"\"a \" b\n; ").quote, '"');
    assert_int_equal(at("x = \"\"\"a \" b\n; \"\"\" + ").quote, 0);
    assert_int_equal(at("x = \"\"\"a;\"\"\" + ").statement, 0);
    assert_int_equal(at("x = \"\"; y").statement, 7);
    assert_true(at("x # 'no string").comment);
    assert_int_equal(at("x # 'no string").quote, 0);
}

static void nets(void **state) {
    (void)state;
    assert_true(at("net m {\n conv ").net);
    assert_true(at("net m {\n residual { lin").net);
    assert_false(at("net m {\n conv 3 }\n x").net);
    assert_false(at("if netto { x").net);
    assert_int_equal(at("net m {\n conv 3 -> relu\n lin").statement, 24);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(statements), cmocka_unit_test(brackets),
                                       cmocka_unit_test(strings), cmocka_unit_test(nets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
