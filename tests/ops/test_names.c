/* The names of the op table, and independence of the order of values in a call: this file and other tests of ops run a
 * second time with that order reversed (REVERSED), with the same results. */
#include "ops/ops.h"

#include "dlcore_ops.h"
#include "dlcore/view.h"
#include "ops/names/all.h"

#ifndef REVERSED
#define REVERSED 0
#endif

static void places_follow_the_build(void **state) {
    (void)state;
    assert_int_equal(DL_A_SLICE_DIM, REVERSED ? 3 : 0);
    assert_int_equal(DL_A_SLICE_STEP, REVERSED ? 0 : 3);
    const dl_op *op = dl_op_row(DL_OP_slice);
    assert_string_equal(op->attrs[DL_A_SLICE_START].name, "start");
    assert_int_equal(op->defaults[DL_A_SLICE_STEP].u.i, 1);
    assert_int_equal(dl_attr_index(op, "end"), DL_A_SLICE_END);
}

/* Rows of a family have shared attributes at the same place, in whatever order a row lists them. */
static void families_agree(void **state) {
    (void)state;
    static const int rows[] = {
        DL_OP_conv2d,          DL_OP_conv2d_dx, DL_OP_conv2d_dw, DL_OP_conv2d_norm, DL_OP_conv2d_relu_max_pool2d,
        DL_OP_conv_transpose2d};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(dl_op_row(rows[i])->attrs[DL_A_CONV_DILATION].name, "dilation");
        assert_string_equal(dl_op_row(rows[i])->attrs[DL_A_CONV_GROUPS].name, "groups");
    }
    assert_string_equal(dl_op_row(DL_OP_var)->attrs[DL_A_REDUCE_KEEPDIM].name, "keepdim");
    assert_int_equal(DL_A_VAR_KEEPDIM, DL_A_REDUCE_KEEPDIM);
    assert_int_equal(DL_IN_LAYERNORM_WEIGHT, 1);
}

static void names_become_bits(void **state) {
    (void)state;
    const dl_op *norm = dl_op_row(DL_OP_batch_norm), *step = dl_op_row(DL_OP_index_add);
    assert_int_equal(norm->save_in, 1 << DL_IN_BATCH_NORM_INPUT | 1 << DL_IN_BATCH_NORM_WEIGHT);
    assert_int_equal(norm->save_out, 1 << DL_OUT_BATCH_NORM_MEAN | 1 << DL_OUT_BATCH_NORM_RSTD);
    assert_int_equal(norm->mutates, 1 << DL_IN_BATCH_NORM_RUNNING_MEAN | 1 << DL_IN_BATCH_NORM_RUNNING_VAR);
    assert_int_equal(step->nondiff_in, 1 << DL_IN_INDEX_ADD_INDEX);
}

/* Users see arguments in the order of the row, or of ORDER. */
static void order_stays(void **state) {
    (void)state;
    static const char *const want[][8] = {{"slice", "input", "dim", "start", "end", "step"},
                                          {"layer_norm", "input", "normalized_shape", "weight", "bias", "eps"},
                                          {"var", "input", "dim", "correction", "keepdim"},
                                          {"full", "size", "fill_value", "dtype", "device"}};
    for (unsigned i = 0; i < sizeof want / sizeof *want; i++) {
        dl_op_info op;
        assert_true(dl_op_describe_name(want[i][0], &op));
        for (int k = 0; want[i][k + 1]; k++) assert_string_equal(op.args[k].name, want[i][k + 1]);
    }
    IS(dl_slice(V(0, 1, 2, 3, 4), 0, (const long[]){1}, (const long[]){5}, 2), 1, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(places_follow_the_build, drop),
        cmocka_unit_test_teardown(families_agree, drop),
        cmocka_unit_test_teardown(names_become_bits, drop),
        cmocka_unit_test_teardown(order_stays, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
