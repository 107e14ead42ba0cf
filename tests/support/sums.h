/* Losses, norms and their kin in 16 bits and in f32, on the CPU and the GPU, against f64: those that a GPU adds up
 * while it computes their terms, of shapes with and without vectors, of one block and of many, of operands that are
 * broadcast or turned; and their gradients. */
#ifndef TESTS_SUPPORT_SUMS_H
#define TESTS_SUPPORT_SUMS_H

#include "support/tensors.h"
#include "dlcore/view.h"

#include <limits.h>
#include <math.h>

enum { MOST = 3 }; /* operands */

static const struct call {
    const char *op, *attrs;
    int operands;
    bool rows; /* takes no numbers without dimensions */
} calls[] = {
    {"mse_loss", "reduction=sum", 2, false},
    {"mse_loss", NULL, 2, false},
    {"mse_loss", "reduction=none", 2, false},
    {"l1_loss", "reduction=sum", 2, false},
    {"smooth_l1_loss", "reduction=sum beta=0.3", 2, false},
    {"huber_loss", "reduction=sum delta=0.3", 2, false},
    {"huber_loss", "reduction=none delta=0.3", 2, false},
    {"poisson_nll_loss", "reduction=sum", 2, false},
    {"poisson_nll_loss", "reduction=sum log_input=false eps=0.01 full=true", 2, false},
    {"soft_margin_loss", "reduction=sum", 2, false},
    {"soft_margin_loss", "reduction=none", 2, false},
    {"hinge_embedding_loss", "reduction=sum margin=0.3", 2, false},
    {"margin_ranking_loss", "reduction=sum margin=0.3", 3, false},
    {"gaussian_nll_loss", "reduction=sum full=true", 3, false},
    {"triplet_margin_loss", "reduction=sum", 3, true},
    {"pairwise_distance", NULL, 2, true},
    {"pairwise_distance", "p=1 keepdim=true", 2, true},
    {"pairwise_distance", "p=3", 2, true},
    {"cosine_similarity", "dim=-1", 2, true},
    {"vecdot", NULL, 2, true},
    {"binary_cross_entropy", "reduction=sum", 3, false},
    {"kl_div", "reduction=sum", 2, false},
    {"kl_div", "reduction=sum log_target=true", 2, false},
    {"kl_div", "reduction=batchmean", 2, true},
    {"binary_cross_entropy", "reduction=sum", 2, false},
    {"binary_cross_entropy_with_logits", "reduction=sum", 2, false},
    {"binary_cross_entropy_with_logits", "reduction=none", 2, false},
    {"multilabel_soft_margin_loss", "reduction=sum", 2, true},
    {"dist", "p=1", 2, false},
    {"dist", NULL, 2, false},
    {"norm", NULL, 1, false},
    {"norm", "p=1", 1, false},
    {"norm", "p=1 dim=-1", 1, true},
    {"norm", "p=3 dim=-1 keepdim=true", 1, true},
    {"norm", "p=3 dim=0", 1, true},
    {"norm", "p=2.5", 1, false},
    {"vector_norm", "ord=2 dim=-1", 1, true},
    {"vector_norm", "ord=2 dim=0", 1, true},
    {"sum", "dim=0", 1, true},
    {"mean", "dim=0 keepdim=true", 1, true},
    {"std", "dim=-1 correction=0", 1, true},
    {"normalize", "dim=-1", 1, true},
    {"renorm", "p=2 dim=0 maxnorm=0.5", 1, true},
};

/* Numbers inside (0.05, 0.95), which 16 bits hold. */
static dl_tensor *made(int ndim, const long *shape, unsigned long seed) {
    dl_tensor *x = must(dl_tensor_empty(ndim, shape, DL_F64, 0));
    double *p = dl_data(x);
    for (long i = 0; i < dl_numel(x); i++) {
        unsigned long h = ((unsigned long)i + seed) * 0x9e3779b97f4a7c15u >> 40;
        p[i] = (double)(8 + h % 112) / 128;
    }
    return x;
}

static dl_tensor *run(const struct call *c, dl_tensor **in) {
    dl_tensor *out[8];
    int n = 0;
    if (dl_op_call(c->op, in, c->operands, c->attrs, out, &n) != DL_OK)
        fail_msg("%s %s: %s", c->op, c->attrs ? c->attrs : "", dl_error_last()->message);
    assert_int_equal(n, 1);
    return out[0];
}

static void check_near(const struct call *c, dl_tensor *got, dl_tensor *want, int dtype, int device, const char *what) {
    dl_tensor *home = must(dl_to_device(must(got), 0)), *back = must(dl_to_dtype(home, DL_F64)),
              *flat = must(dl_contiguous(back)), *to = must(dl_contiguous(want));
    const double *a = dl_data(flat), *b = dl_data(to), share = dtype == DL_BF16 ? 0.012 : dtype == DL_F16 ? 2e-3 : 1e-5;
    assert_int_equal(dl_dtype_of(got), dtype);
    assert_int_equal(dl_numel(flat), dl_numel(to));
    for (long i = 0; i < dl_numel(flat); i++)
        if (!(fabs(a[i] - b[i]) <= share * fabs(b[i]) + 1e-6) && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("%s of %s %s in %s on device %d at %ld of %ld: %g, not %g", what, c->op, c->attrs ? c->attrs : "",
                     dl_dtype_name((dl_dtype)dtype), device, i, (long)dl_numel(flat), a[i], b[i]);
    dl_unref(home), dl_unref(back), dl_unref(flat), dl_unref(to);
}

/* The same numbers elsewhere, in another dtype: a leaf. */
static dl_tensor *moved(dl_tensor *x, int dtype, int device, bool turned) {
    dl_tensor *t = must(dl_to_dtype(x, dtype)), *there = must(dl_to_device(t, device));
    dl_tensor *other = turned ? must(dl_permute(there, (const long[]){1, 0}, 2)) : must(dl_ref(there));
    dl_unref(t), dl_unref(there);
    return other;
}

/* Sums in f16 end at 65504. */
static bool fits(long numel, int dtype) { return dtype != DL_F16 || numel < 10000; }

static void compare(const struct call *c, int ndim, const long *shape, int dtype, int device, bool turned) {
    dl_tensor *x[MOST], *there[MOST], *wide[MOST];
    for (int i = 0; i < MOST; i++) x[i] = made(ndim, shape, (unsigned long)i * 1000002 + 1);
    for (int i = 0; i < MOST; i++)
        wide[i] = moved(x[i], DL_F64, 0, turned), there[i] = moved(x[i], dtype, device, turned);
    dl_tensor *want = run(c, wide), *got = run(c, there);
    check_near(c, got, want, dtype, device, "the result");
    dl_unref(want), dl_unref(got);
    for (int i = 0; i < MOST; i++) dl_unref(x[i]), dl_unref(wide[i]), dl_unref(there[i]);
}

static void compare_gradients(const struct call *c, int ndim, const long *shape, int dtype, int device) {
    dl_tensor *x[MOST], *there[MOST], *wide[MOST];
    for (int i = 0; i < MOST; i++) {
        x[i] = made(ndim, shape, (unsigned long)i * 1000002 + 1);
        wide[i] = moved(x[i], DL_F64, 0, false), there[i] = moved(x[i], dtype, device, false);
        assert_int_equal(dl_set_requires_grad(wide[i], 1), DL_OK);
        assert_int_equal(dl_set_requires_grad(there[i], 1), DL_OK);
    }
    dl_tensor *want = run(c, wide), *got = run(c, there);
    assert_int_equal(dl_backward(want, NULL, 0, 0), DL_OK);
    if (dl_backward(got, NULL, 0, 0) != DL_OK) fail_msg("%s: %s", c->op, dl_error_last()->message);
    check_near(c, got, want, dtype, device, "the result with history");
    for (int i = 0; i < c->operands; i++) { /* targets may have none */
        assert_int_equal(!dl_grad(there[i]), !dl_grad(wide[i]));
        if (dl_grad(wide[i])) check_near(c, dl_grad(there[i]), dl_grad(wide[i]), dtype, device, "a gradient");
    }
    dl_unref(want), dl_unref(got);
    for (int i = 0; i < MOST; i++) dl_unref(x[i]), dl_unref(wide[i]), dl_unref(there[i]);
}

static const int dtypes[] = {DL_F32, DL_BF16, DL_F16, DL_F64};

static void on_all_devices(void (*test)(const struct call *c, int dtype, int device)) {
    const int devices = dl_device_count() > 1 ? 2 : 1;
    for (int device = 0; device < devices; device++)
        for (unsigned k = 0; k < sizeof calls / sizeof *calls; k++)
            for (unsigned t = 0; t < sizeof dtypes / sizeof *dtypes; t++) test(&calls[k], dtypes[t], device);
}

/* The device is the host's memory, and rules make what a GPU has kernels for. */
static bool by_rules;

static void results_of(const struct call *c, int dtype, int device) {
    static const long shapes[][2] = {{3, 4},    {40, 70},  {7, 1},     {1, 9},       {2, 3000},
                                     {3000, 3}, {301, 10}, {1031, 33}, {1000, 1003}, {700, 1024}};
    const long most = device && (!by_rules || dtype == DL_F32) ? LONG_MAX : 100000; /* others have no blocks */
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (fits(shapes[i][0] * shapes[i][1], dtype) && shapes[i][0] * shapes[i][1] < most) {
            compare(c, 2, shapes[i], dtype, device, false);
            compare(c, 2, shapes[i], dtype, device, true);
        }
    if (!c->rows) compare(c, 0, NULL, dtype, device, false);
    if (!c->rows && (!c->attrs || strstr(c->attrs, "sum"))) compare(c, 2, (long[]){0, 3}, dtype, device, false);
}

/* Gradients that rules make round in each row: 16 bits are too few to compare them. */
static void gradients_of(const struct call *c, int dtype, int device) {
    if (!c->attrs || !strstr(c->attrs, "sum") || (by_rules && (dtype == DL_BF16 || dtype == DL_F16))) return;
    compare_gradients(c, 2, (long[]){40, 70}, dtype, device);
    compare_gradients(c, 2, (long[]){3, 5}, dtype, device);
}

static void results(void **state) {
    (void)state;
    on_all_devices(results_of);
}

static void their_gradients(void **state) {
    (void)state;
    on_all_devices(gradients_of);
}

static int run_sums(const char *filter) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(results), cmocka_unit_test(their_gradients)};
    if (filter) cmocka_set_test_filter(filter);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
