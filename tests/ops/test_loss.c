/* cross_entropy: the fused gradient against the rule made of rows, labels that are wrong or ignored, large and infinite
 * logits. */
#include "support/tensors.h"
#include "dlcore/all.h"

static const char *const reductions[] = {"mean", "sum", "none"};

/* Labels for logits of this shape, every class and label 1 among them. */
static dl_tensor *labels_for(int ndim, const long *shape) {
    long n[DL_MAX_DIM] = {0}, k = 0, total = 1;
    for (int i = 0; i < ndim; i++)
        if (i != 1) n[k++] = shape[i], total *= shape[i];
    dl_tensor *t = must(dl_tensor_empty((int)k, n, DL_I64, 0));
    for (long i = 0; i < total; i++) ((long *)dl_data(t))[i] = (i * 7 + i / 3) % shape[1];
    return t;
}

static void one_case(int ndim, const long *shape, dl_tensor *weight, const char *reduction, long ignore,
                     double smooth) {
    dl_tensor *x = leaf(drawn(1, ndim, shape, DL_F64)), *y = labels_for(ndim, shape);
    dl_tensor *l = must(dl_cross_entropy(x, y, weight, reduction, ignore, smooth));
    rules_agree(l, &x, 1, 1e-12, reduction);
    dl_unref(x), dl_unref(y), dl_unref(l);
}

static void fused_gradient_is_the_rule(void **state) {
    (void)state;
    static const struct {
        int ndim;
        long shape[4];
    } shapes[] = {{2, {4, 5}}, {2, {1, 3}}, {3, {3, 4, 2}}, {4, {2, 3, 9, 11}}, {2, {70, 33}}};
    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        dl_tensor *w = drawn(2, 1, &shapes[s].shape[1], DL_F64), *weight = must(dl_exp(w));
        for (int r = 0; r < 3; r++)
            for (int ignore = -100; ignore <= 1; ignore += 101)
                for (double smooth = 0; smooth < 0.3; smooth += 0.15) {
                    one_case(shapes[s].ndim, shapes[s].shape, NULL, reductions[r], ignore, smooth);
                    one_case(shapes[s].ndim, shapes[s].shape, weight, reductions[r], ignore, smooth);
                }
        dl_unref(w), dl_unref(weight);
    }
}

/* The gradient with respect to logits that are a transposed view reaches them in their own order. */
static void strided_logits(void **state) {
    (void)state;
    dl_tensor *x = leaf(drawn(3, 2, SHAPE(6, 4), DL_F64)), *v = must(dl_permute(x, SHAPE(1, 0), 2));
    dl_tensor *y = labels(4, SHAPE(0, 5, 2, 1)), *l = must(dl_cross_entropy(v, y, NULL, "mean", -100, 0.1));
    rules_agree(l, &x, 1, 1e-12, "transposed");
    dl_unref(x), dl_unref(v), dl_unref(y), dl_unref(l);
}

static void a_wrong_label_is_named(void **state) {
    (void)state;
    dl_tensor *x = drawn(4, 3, SHAPE(2, 3, 2), DL_F32);
    dl_tensor *y = must(dl_tensor_from(2, SHAPE(2, 2), DL_I64, 0, SHAPE(0, 1, 3, 2)));
    fails(dl_cross_entropy(x, y, NULL, "mean", -100, 0), DL_ERR_INDEX, "label 3 at position [1,0]");
    ((long *)dl_data(y))[2] = -1;
    fails(dl_cross_entropy(x, y, NULL, "mean", -100, 0), DL_ERR_INDEX, "label -1 at position [1,0]");
    dl_unref(must(dl_cross_entropy(x, y, NULL, "mean", -1, 0)));
    dl_tensor *f = must(dl_to(y, DL_F32)), *few = labels(1, SHAPE(0));
    fails(dl_cross_entropy(x, f, NULL, "mean", -100, 0), DL_ERR_DTYPE, "labels must be i64");
    fails(dl_cross_entropy(x, few, NULL, "mean", -100, 0), DL_ERR_SHAPE, "labels have shape [1]");
    fails(dl_cross_entropy(x, y, NULL, "average", -1, 0), DL_ERR_VALUE, "'average'");
    dl_unref(x), dl_unref(y), dl_unref(f), dl_unref(few);
}

static double item(dl_tensor *t) {
    double v = 0;
    ok(dl_item_f(must(t), &v));
    dl_unref(t);
    return v;
}

static void nothing_counts(void **state) {
    (void)state;
    dl_tensor *x = drawn(5, 2, SHAPE(2, 3), DL_F32), *y = labels(2, SHAPE(-100, -100));
    assert_true(isnan(item(dl_cross_entropy(x, y, NULL, "mean", -100, 0))));
    assert_true(item(dl_cross_entropy(x, y, NULL, "sum", -100, 0)) == 0);
    dl_unref(x), dl_unref(y);
}

static void has_no_gradient(dl_tensor *l, dl_tensor *x) {
    dl_tensor *g;
    gradients(must(l), NULL, &x, 1, 0, &g);
    double *v = values(g);
    for (long i = 0; i < dl_numel(g); i++) assert_true(v[i] == 0);
    free(v);
    dl_unref(l), dl_unref(g);
}

/* In every dtype, by the fused gradient and by the one made of rows; an infinite logit that is ignored counts nothing,
 * too. */
static void nothing_counts_in_gradients(void **state) {
    (void)state;
    static const dl_dtype types[] = {DL_F64, DL_F32, DL_BF16, DL_F16};
    const long shape[2] = {2, 3};
    dl_tensor *y = labels(2, SHAPE(0, 0)), *mixed = labels(2, SHAPE(0, 1));
    for (int i = 0; i < 4; i++) {
        dl_tensor *x = leaf(drawn(6, 2, shape, types[i])), *p = must(dl_log_softmax(x, 1));
        has_no_gradient(dl_cross_entropy(x, y, NULL, "mean", 0, 0.1), x);
        has_no_gradient(dl_nll_loss(p, y, NULL, "mean", 0), x);
        assert_true(isnan(item(dl_nll_loss(p, y, NULL, "mean", 0))));
        dl_store_f64(dl_data(p), types[i], -INFINITY);
        assert_true(isfinite(item(dl_nll_loss(p, mixed, NULL, "mean", 0))));
        dl_unref(x), dl_unref(p);
    }
    dl_unref(y), dl_unref(mixed);
}

/* A common offset of the logits changes neither loss nor gradient, even where it takes most of the digits. */
static void large_logits_keep_their_digits(void **state) {
    (void)state;
    dl_tensor *y = labels(1, SHAPE(1)), *g[2];
    for (int k = 0; k < 2; k++) {
        float base = k ? 65536.0f : 0.0f, v[3] = {base + 0.5f, base + 1.5f, base - 1.0f};
        dl_tensor *x = leaf(must(dl_tensor_from(2, SHAPE(1, 3), DL_F32, 0, v)));
        dl_tensor *l = must(dl_cross_entropy(x, y, NULL, "sum", -100, 0));
        gradients(l, NULL, &x, 1, 0, &g[k]);
        dl_unref(x), dl_unref(l);
    }
    near(g[1], g[0], 1e-6, "gradient");
    dl_unref(y), dl_unref(g[0]), dl_unref(g[1]);
}

static void infinite_logits(void **state) {
    (void)state;
    float v[] = {-INFINITY, 0, 0, -INFINITY, -INFINITY, -INFINITY};
    dl_tensor *x = must(dl_tensor_from(2, SHAPE(2, 3), DL_F32, 0, v)), *y = labels(2, SHAPE(1, 1));
    dl_tensor *l = must(dl_cross_entropy(x, y, NULL, "none", -100, 0));
    double *got = values(l);
    assert_true(fabs(got[0] - log(2)) < 1e-6);
    assert_true(isnan(got[1]));
    free(got);
    dl_unref(x), dl_unref(y), dl_unref(l);
}

/* At 0, where a sum of max(x, 0) and ln(1 + e**-|x|) has no derivative of its own, and far out. */
static void binary_cross_entropy_is_smooth(void **state) {
    (void)state;
    double v[] = {0, 40, -40, 40, -40}, t[] = {0.25, 1, 0, 0, 1};
    dl_tensor *x = leaf(must(dl_tensor_from(1, SHAPE(5), DL_F64, 0, v))), *g;
    dl_tensor *y = must(dl_tensor_from(1, SHAPE(5), DL_F64, 0, t));
    dl_tensor *l = must(dl_binary_cross_entropy_with_logits(x, y, NULL, NULL, "none")),
              *seed = drawn(0, 1, SHAPE(5), DL_F64);
    for (int i = 0; i < 5; i++) ((double *)dl_data(seed))[i] = 1;
    gradients(l, seed, &x, 1, 0, &g);
    double *loss = values(l), *grad = values(g);
    double want[] = {log(2), exp(-40), exp(-40), 40, 40}, slope[] = {0.25, -exp(-40), exp(-40), 1, -1};
    for (int i = 0; i < 5; i++) {
        assert_true(fabs(loss[i] - want[i]) <= 1e-12 * want[i]);
        assert_true(fabs(grad[i] - slope[i]) <= 1e-12 * fabs(slope[i]));
    }
    free(loss), free(grad);
    dl_unref(x), dl_unref(y), dl_unref(l), dl_unref(seed), dl_unref(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_gradient_is_the_rule),
        cmocka_unit_test(strided_logits),
        cmocka_unit_test(a_wrong_label_is_named),
        cmocka_unit_test(nothing_counts),
        cmocka_unit_test(nothing_counts_in_gradients),
        cmocka_unit_test(large_logits_keep_their_digits),
        cmocka_unit_test(infinite_logits),
        cmocka_unit_test(binary_cross_entropy_is_smooth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
