/* gradcheck of nodes: a rule that is right by itself and whose derivative is wrong is found by second alone. */
#include "support/tensors.h"

#include "autograd/tape.h"
#include "debug/debug.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/reduce.h"
#include "view/sink.h"

static dlsh_buf told;
static int rows;
static void keep_text(dlsh_sink *s, const char *b, size_t n) { (void)s, dlsh_buf_add(&told, b, n); }
static dl_status no_value(dlsh_sink *s, dlsh_value v) { return (void)s, (void)v, DL_OK; }
static dl_status keep_table(dlsh_sink *s, const dlsh_table *t) {
    (void)s;
    rows += t->nrows;
    for (int i = 0; i < 2 * (t->nrows > 0); i++) {
        ok(dlsh_text(&told, t->cells[i]));
        dlsh_buf_puts(&told, "|");
    }
    return DL_OK;
}
static void no_error(dlsh_sink *s, const dlsh_diag *d) { (void)s, (void)d; }
static void no_flush(dlsh_sink *s) { (void)s; }
static const dlsh_sink_ops ops = {
    .text = keep_text, .value = no_value, .table = keep_table, .error = no_error, .flush = no_flush};
static dlsh_sink sink = {&ops};

/* g * (1 - y * y), with y cut off from its history: right as a gradient, and its derivative lacks a term. */
static dl_status without_history(dl_back *b) {
    dl_tensor *y = dl_tmp(b, dl_detach(dl_saved_out(b, 0)));
    dl_tensor *square = y ? dl_tmp(b, dl_mul(y, y)) : NULL, *lost = square ? dl_tmp(b, dl_mul(b->g[0], square)) : NULL;
    return lost ? dl_give(b, 0, dl_sub(b->g[0], lost)) : DL_ERR_MEMORY;
}

static dl_tensor *loss_of(dl_tensor *x, const char *op) {
    dl_tensor *y[8] = {NULL};
    int n = 0;
    ok(dl_op_call(op, &x, 1, NULL, y, &n));
    dl_tensor *loss = must(dl_sum(y[0], NULL, 0, 0));
    dl_unref(y[0]);
    return loss;
}

static dlsh_nodecheck check(dlsh_session *s, dl_tensor *x, const char *op, int second) {
    dlsh_nodecheck sum;
    dl_tensor *loss = loss_of(x, op);
    rows = 0;
    dlsh_buf_free(&told);
    ok(dlsh_nodecheck_run(s, &sink, loss, second, &sum));
    dl_unref(loss);
    return sum;
}

static void a_wrong_derivative_of_a_rule(void **state) {
    (void)state;
    static dl_op row;
    static dl_kernel kernel;
    row = *dl_op_find("tanh");
    kernel = *row.kernel[DL_BACKEND_CPU];
    kernel.fused_grad = NULL;
    row.kernel[DL_BACKEND_CPU] = &kernel;
    row.name = "tanh_cut";
    row.id = -1;
    row.grad = without_history;
    ok(dl_op_register(&row));

    dlsh_services services = {0};
    dlsh_session *s = dlsh_session_new(&sink, &services);
    assert_non_null(s);
    dl_tensor *x = drawn(3, 1, SHAPE(3), DL_F32);
    ok(dl_set_requires_grad(x, 1));
    assert_int_equal(check(s, x, "tanh", 1).failed, 0);
    assert_int_equal(check(s, x, "tanh_cut", 0).failed, 0);
    assert_int_equal(rows, 0);
    dlsh_nodecheck sum = check(s, x, "tanh_cut", 1);
    assert_int_equal(sum.failed, 1);
    assert_int_equal(sum.without, 0);
    assert_int_equal(rows, 1);
    assert_memory_equal(dlsh_buf_text(&told), "tanh_cut", 8);
    assert_non_null(strstr(dlsh_buf_text(&told), "|second, operand 0["));
    dlsh_buf_free(&told);
    dl_unref(x);
    dlsh_session_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_wrong_derivative_of_a_rule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
