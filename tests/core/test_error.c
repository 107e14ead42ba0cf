/* The error record: storing, taking it over, composing it into one line. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>
#include <pthread.h>

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
    assert_string_equal(dl_errmsg(), "outer, in matmul: got 2, want 3 (f32[2], f32[3])");
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

static void *fail_elsewhere(void *first) {
    dl_fail_hint(DL_ERR_UNSUPPORTED, "a remedy", "a worker's cause");
    dl_first_error_keep(first);
    return NULL;
}

/* A record made in another thread becomes the caller's: code, message and remedy. */
static void workers_hand_over_the_first(void **state) {
    (void)state;
    dl_first_error first = {0};
    dl_error_clear();
    assert_int_equal(dl_first_error_raise(&first), DL_OK);
    for (int i = 0; i < 2; i++) {
        pthread_t worker;
        assert_int_equal(pthread_create(&worker, NULL, fail_elsewhere, &first), 0);
        pthread_join(worker, NULL);
    }
    dl_fail(DL_ERR_IO, "what the caller had before");
    assert_int_equal(dl_first_error_raise(&first), DL_ERR_UNSUPPORTED);
    assert_int_equal(dl_failed(), DL_ERR_UNSUPPORTED);
    assert_string_equal(dl_errmsg(), "a worker's cause");
    assert_string_equal(dl_error_last()->hint, "a remedy");
    dl_error_clear();
}

/* The code of a failure is never DL_OK. */
static void a_failure_has_a_code(void **state) {
    (void)state;
    dl_error_clear();
    assert_int_equal(dl_failed(), DL_ERR_INTERNAL);
    assert_int_equal(dl_error_last()->code, DL_ERR_INTERNAL);
    dl_error_clear();
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
        cmocka_unit_test(workers_hand_over_the_first),
        cmocka_unit_test(a_failure_has_a_code),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(nearest_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
