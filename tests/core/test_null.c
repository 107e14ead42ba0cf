/* NULL where an object is required: every function that makes or does something fails, and keeps the failure that made
 * the NULL, so that calls chain. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>
#include "dlcore.h"
#include "dlcore/arithmetic.h"

static dl_tensor *out[8];
static double number;
static long whole, index0;
static int count;
static dl_dtype dtype;
static dl_eval_result result;
static dl_gradcheck_report report;

/* Did it fail? */
#define MADE(call) ((call) == NULL)
#define DONE(call) ((call) != DL_OK)
#define CALLS(X)                                                                                                       \
    X(DONE(dl_error_put(NULL)))                                                                                        \
    X(DONE(dl_dtype_parse(NULL, &dtype)))                                                                              \
    X(DONE(dl_device_parse(NULL, &count)))                                                                             \
    X(MADE(dl_tensor_from(1, (long[]){2}, DL_F32, 0, NULL)))                                                           \
    X(MADE(dl_tensor_wrap(1, (long[]){2}, DL_F32, NULL, NULL, NULL)))                                                  \
    X(DONE(dl_tensor_set_name(NULL, "x")))                                                                             \
    X(DONE(dl_item_f(NULL, &number)))                                                                                  \
    X(DONE(dl_item_i(NULL, &whole)))                                                                                   \
    X(DONE(dl_read_f64(NULL, &number)))                                                                                \
    X(DONE(dl_read(NULL, &number)))                                                                                    \
    X(MADE(dl_to_dtype(NULL, DL_F64)))                                                                                 \
    X(MADE(dl_to_device(NULL, 0)))                                                                                     \
    X(MADE(dl_contiguous(NULL)))                                                                                       \
    X(DONE(dl_assign(NULL, NULL)))                                                                                     \
    X(DONE(dl_set_requires_grad(NULL, 1)))                                                                             \
    X(DONE(dl_set_grad(NULL, NULL)))                                                                                   \
    X(MADE(dl_detach(NULL)))                                                                                           \
    X(DONE(dl_backward(NULL, NULL, 0, 0)))                                                                             \
    X(DONE(dl_gradients(NULL, NULL, NULL, 0, 0, 0, NULL)))                                                             \
    X(DONE(dl_gradcheck(NULL, NULL, NULL, 0, 0, 0, &report)))                                                          \
    X(MADE(dl_tape_of(NULL)))                                                                                          \
    X(DONE(dl_op_call(NULL, NULL, 0, NULL, out, &count)))                                                              \
    X(MADE(dl_add(NULL, NULL)))                                                                                        \
    X(MADE(dl_dataset_open(NULL, NULL)))                                                                               \
    X(MADE(dl_dataset_from(NULL, NULL, NULL, NULL, NULL)))                                                             \
    X(DONE(dl_csv_read(NULL, ',', NULL, NULL)))                                                                        \
    X(MADE(dl_dataset_given(NULL)))                                                                                    \
    X(MADE(dl_dataset_view(NULL, NULL)))                                                                               \
    X(DONE(dl_dataset_random_split(NULL, DL_TRAIN, &whole, 1, 0, NULL)))                                               \
    X(DONE(dl_dataset_kfold(NULL, DL_TRAIN, &(dl_fold_spec){.k = 2}, NULL)))                                           \
    X(DONE(dl_dataset_counts(NULL, DL_TRAIN, &whole)))                                                                 \
    X(DONE(dl_dataset_range(NULL, DL_TRAIN, &number, &number)))                                                        \
    X(DONE(dl_dataset_gather(NULL, DL_TRAIN, &index0, 1, &out[0], &out[1])))                                           \
    X(MADE(dl_loader_new(NULL, DL_TRAIN, NULL)))                                                                       \
    X(DONE(dl_loader_next(NULL, &out[0], &out[1])))                                                                    \
    X(DONE(dl_loader_seek(NULL, 0, 0)))                                                                                \
    X(MADE(dl_net_parse(NULL)))                                                                                        \
    X(MADE(dl_module_function("f", (dl_code_spec){0})))                                                                \
    X(MADE(dl_module_copy(NULL)))                                                                                      \
    X(MADE(dl_module_forward(NULL, NULL)))                                                                             \
    X(DONE(dl_module_build(NULL, 0, NULL, DL_F32, 0)))                                                                 \
    X(DONE(dl_module_to(NULL, DL_F64, -1)))                                                                            \
    X(DONE(dl_module_set_name(NULL, "m")))                                                                             \
    X(MADE(dl_module_text(NULL)))                                                                                      \
    X(DONE(dl_module_set_tensor(NULL, "w", NULL)))                                                                     \
    X(MADE(dl_module_tensors(NULL, 3)))                                                                                \
    X(MADE(dl_module_summary(NULL, NULL, 0, 0)))                                                                       \
    X(DONE(dl_module_save(NULL, "x", NULL)))                                                                           \
    X(DONE(dl_module_load(NULL, "x")))                                                                                 \
    X(MADE(dl_optimizer_new(NULL, NULL, 0, NULL)))                                                                     \
    X(MADE(dl_optimizer_parse(NULL)))                                                                                  \
    X(DONE(dl_optimizer_group(NULL, "*", NULL, 0, NULL)))                                                              \
    X(DONE(dl_optimizer_add(NULL, "w", NULL)))                                                                         \
    X(DONE(dl_optimizer_add_module(NULL, NULL)))                                                                       \
    X(DONE(dl_optimizer_step(NULL)))                                                                                   \
    X(DONE(dl_optimizer_set_lr(NULL, 0.1)))                                                                            \
    X(MADE(dl_schedule_new(NULL, NULL, 0, NULL)))                                                                      \
    X(MADE(dl_schedule_parse(NULL)))                                                                                   \
    X(MADE(dl_schedule_function(NULL, NULL, NULL)))                                                                    \
    X(DONE(dl_schedule_lr(NULL, 1, 0, 0, &number)))                                                                    \
    X(DONE(dl_npy_write("x", NULL)))                                                                                   \
    X(DONE(dl_op_define(NULL)))                                                                                        \
    X(MADE(dl_to_dlpack(NULL)))                                                                                        \
    X(MADE(dl_to_dlpack_versioned(NULL, 0)))                                                                           \
    X(MADE(dl_from_dlpack(NULL)))                                                                                      \
    X(MADE(dl_from_dlpack_versioned(NULL)))                                                                            \
    X(DONE(dl_store_flush(NULL)))                                                                                      \
    X(MADE(dl_run_begin(NULL, NULL)))                                                                                  \
    X(MADE(dl_run_resume(NULL, 1, 0, 0)))                                                                              \
    X(DONE(dl_run_end(NULL, DL_RUN_FINISHED, NULL)))                                                                   \
    X(DONE(dl_metric(NULL, "loss", 0, 0)))                                                                             \
    X(MADE(dl_series_of(NULL, "loss")))                                                                                \
    X(DONE(dl_series_push(NULL, 0, 0)))                                                                                \
    X(DONE(dl_run_find(NULL, "1", &whole)))                                                                            \
    X(DONE(dl_run_find_deleted(NULL, "1", &whole)))                                                                    \
    X(DONE(dl_run_filter_check(NULL, "id = 1")))                                                                       \
    X(DONE(dl_run_filter_met(NULL, "id = 1", 0)))                                                                      \
    X(MADE(dl_run_query_list(NULL, NULL)))                                                                             \
    X(MADE(dl_run_show(NULL, 1)))                                                                                      \
    X(MADE(dl_run_compare(NULL, &index0, 1, 0)))                                                                       \
    X(MADE(dl_run_best(NULL, "loss", 0, NULL, 0)))                                                                     \
    X(MADE(dl_series_points(NULL, 1, "loss", 0)))                                                                      \
    X(MADE(dl_store_sql(NULL, "select 1")))                                                                            \
    X(MADE(dl_trainer_new(NULL)))                                                                                      \
    X(DONE(dl_trainer_forward(NULL)))                                                                                  \
    X(DONE(dl_trainer_backward(NULL)))                                                                                 \
    X(DONE(dl_trainer_update(NULL)))                                                                                   \
    X(DONE(dl_trainer_step(NULL)))                                                                                     \
    X(DONE(dl_trainer_train(NULL, 1, 0, NULL, NULL)))                                                                  \
    X(DONE(dl_trainer_eval(NULL, DL_TEST, &result)))                                                                   \
    X(DONE(dl_trainer_set_lr(NULL, 0.1)))                                                                              \
    X(DONE(dl_trainer_save(NULL, "x")))                                                                                \
    X(DONE(dl_trainer_load(NULL, "x")))

static void they_fail(void **state) {
    (void)state;
#define FAILS(call)                                                                                                    \
    dl_error_clear();                                                                                                  \
    if (!(call) || !dl_error_last()) fail_msg("no failure: %s", #call);
    CALLS(FAILS)
}

static void the_first_failure_is_kept(void **state) {
    (void)state;
    const dl_error first = {.code = DL_ERR_SHAPE, .message = "the first"};
#define KEEPS(call)                                                                                                    \
    dl_error_put(&first);                                                                                              \
    if (!(call) || !strstr(dl_errmsg(), "the first")) fail_msg("%s says: %s", #call, dl_errmsg());
    CALLS(KEEPS)
}

static void releasing_does_nothing(void **state) {
    (void)state;
    dl_unref(NULL), dl_dataset_unref(NULL), dl_loader_free(NULL), dl_module_unref(NULL), dl_optimizer_unref(NULL);
    dl_schedule_unref(NULL), dl_tape_free(NULL), dl_text_free(NULL), dl_module_list_free(NULL), dl_summary_free(NULL);
    dl_tensor_file_free(NULL), dl_run_list_free(NULL), dl_comparison_free(NULL), dl_ranking_free(NULL);
    dl_points_free(NULL), dl_rows_free(NULL), dl_trainer_free(NULL);
    assert_null(dl_ref(NULL));
    assert_null(dl_dataset_ref(NULL));
    assert_null(dl_loader_ref(NULL));
    assert_null(dl_module_ref(NULL));
    assert_null(dl_optimizer_ref(NULL));
    assert_null(dl_schedule_ref(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(they_fail), cmocka_unit_test(the_first_failure_is_kept),
                                       cmocka_unit_test(releasing_does_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
