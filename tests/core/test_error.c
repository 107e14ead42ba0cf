/* The error record: what is kept, handed over, and composed into one line. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>
#include "core/error.h"

static void records_detail(void **state) {
    (void)state;
    dl_error_clear();
    assert_null(dl_error_last());
    assert_string_equal(dl_errmsg(), "");
    dl_source_set("a.dlsh", 7);
    assert_int_equal(dl_fail_hint(DL_ERR_SHAPE, "transpose one", "got %d, want %d", 2, 3), DL_ERR_SHAPE);
    dl_error_context("matmul", "f32[2], f32[3]");
    dl_error_context("outer", "ignored");
    assert_string_equal(dl_errmsg(), "matmul: got 2, want 3 (f32[2], f32[3])");
    dl_error e;
    assert_int_equal(dl_error_take(&e), DL_ERR_SHAPE);
    assert_string_equal(e.hint, "transpose one");
    assert_string_equal(e.file, "a.dlsh");
    assert_int_equal(e.line, 7);
    assert_null(dl_error_last());
    assert_int_equal(dl_error_put(&e), DL_ERR_SHAPE);
    assert_string_equal(dl_error_last()->op, "matmul");
}

static void message_may_quote_itself(void **state) {
    (void)state;
    dl_fail(DL_ERR_IO, "disk full");
    dl_fail(DL_ERR_IO, "cannot save: %s", dl_error_last()->message);
    assert_string_equal(dl_errmsg(), "cannot save: disk full");
}

static void null_keeps_first_failure(void **state) {
    (void)state;
    dl_error_clear();
    assert_int_equal(dl_fail_null("x"), DL_ERR_VALUE);
    dl_fail(DL_ERR_DTYPE, "first");
    assert_int_equal(dl_fail_null("x"), DL_ERR_DTYPE);
    assert_string_equal(dl_errmsg(), "first");
}

static void every_status_has_a_name(void **state) {
    (void)state;
    assert_string_equal(dl_status_name(DL_OK), "ok");
    for (int s = 0; s <= DL_ERR_CRASH; s++) assert_string_not_equal(dl_status_name((dl_status)s), "unknown error");
    assert_string_equal(dl_status_name((dl_status)999), "unknown error");
}

static void nearest_word(void **state) {
    (void)state;
    const char *names[] = {"momentum", "nesterov", "lr"};
    assert_string_equal(dl_nearest("momentun", names, 3), "momentum");
    assert_string_equal(dl_nearest("rl", names, 3), "lr");
    assert_null(dl_nearest("batch", names, 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_detail),
        cmocka_unit_test(message_may_quote_itself),
        cmocka_unit_test(null_keeps_first_failure),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(nearest_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
