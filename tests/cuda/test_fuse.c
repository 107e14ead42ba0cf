/* Layers that a chain runs as one against the same layers one by one: results, statistics and gradients, in training
 * and in evaluation, on the CPU and, where there is one, on a GPU. */
#include "cuda/gpu.h"

#include "autograd/tape.h"
#include "dlcore/arithmetic.h"
#include "dlcore/norm.h"
#include "nn/module.h"

#include <math.h>

static const char text[] =
    "conv 8 k=3 pad=1 -> batchnorm -> relu -> conv 6 k=3 stride=2 bias=false -> batchnorm -> relu";
enum { LAYERS = 6, PARAMS = 7 };
static const char *const params[PARAMS] = {"conv0.weight",    "conv0.bias",        "batchnorm0.weight",
                                           "batchnorm0.bias", "batchnorm1.weight", "batchnorm1.bias",
                                           "conv1.weight"};

static dl_module *net(int device) {
    dl_seed(4);
    dl_module *m = dl_net_parse(text);
    if (!m) fail_msg("%s", dl_errmsg());
    ok(dl_module_build(m, 4, SHAPE(4, 3, 12, 12), DL_F32, device));
    return m;
}

static dl_tensor *images(int device) {
    dl_tensor *x = drawn(9, 4, SHAPE(4, 3, 12, 12), DL_F32), *there = must(dl_to_device(x, device));
    dl_unref(x);
    return there;
}

static dl_tensor *one_by_one(dl_module *m, dl_tensor *x) {
    dl_tensor *at = dl_ref(x);
    for (int i = 0; i < LAYERS; i++) {
        dl_tensor *next = must(dl_module_forward(dl_module_find(m, dl_module_label(m, i)), at));
        dl_unref(at);
        at = next;
    }
    return at;
}

static void same(dl_tensor *a, dl_tensor *b, double tol, const char *what) {
    dl_tensor *x = must(dl_detach(a)), *y = must(dl_detach(b)), *p = must(dl_to_device(x, 0)),
              *q = must(dl_to_device(y, 0));
    near(p, q, tol, what);
    dl_unref(x), dl_unref(y), dl_unref(p), dl_unref(q);
}

/* Output and gradients of one training pass. */
static dl_tensor *train(dl_module *m, dl_tensor *x, bool joined, dl_tensor *grad[PARAMS + 1]) {
    dl_tensor *in[PARAMS + 1] = {x};
    for (int i = 0; i < PARAMS; i++) in[i + 1] = dl_module_tensor(m, params[i]);
    dl_tensor *y = joined ? must(dl_module_forward(m, x)) : one_by_one(m, x);
    dl_tensor *seed = drawn(5, 4, dl_shape(y), DL_F32), *there = must(dl_to_device(seed, dl_device_of(x)));
    assert_string_equal(y->node->op->name, joined ? "batch_norm_relu" : "relu");
    gradients(y, there, in, PARAMS + 1, 0, grad);
    dl_unref(seed), dl_unref(there);
    return y;
}

static void training_on(int device) {
    dl_module *a = net(device), *b = net(device);
    dl_tensor *x = leaf(images(device)), *ga[PARAMS + 1], *gb[PARAMS + 1];
    dl_module_train(a, 1), dl_module_train(b, 1);
    dl_tensor *p = train(a, x, true, ga), *q = train(b, x, false, gb);
    same(p, q, 0, "output");
    for (int i = 0; i <= PARAMS; i++) {
        same(ga[i], gb[i], 1e-6, i ? params[i - 1] : "gradient of the input");
        dl_unref(ga[i]), dl_unref(gb[i]);
    }
    same(dl_module_tensor(a, "batchnorm1.running_var"), dl_module_tensor(b, "batchnorm1.running_var"), 0, "statistics");
    dl_unref(x), dl_unref(p), dl_unref(q);
    dl_module_unref(a), dl_module_unref(b);
}

static void evaluation_on(int device, double tol) {
    dl_module *m = net(device);
    dl_tensor *x = images(device);
    for (int i = 0; i < 3; i++) dl_unref(must(dl_module_forward(m, x))); /* statistics of their own */
    dl_module_train(m, 0);
    dl_tensor *recorded = must(dl_module_forward(m, x));
    assert_true(dl_requires_grad(recorded));
    dl_grad_mode(0);
    dl_tensor *joined = must(dl_module_forward(m, x)), *single = one_by_one(m, x);
    dl_grad_mode(1);
    same(joined, single, tol, "evaluation");
    same(joined, recorded, tol, "evaluation while recording");
    dl_unref(x), dl_unref(recorded), dl_unref(joined), dl_unref(single);
    dl_module_unref(m);
}

static void rules_on(int device) {
    dl_tensor *x = leaf(images(device)), *w = must(dl_tensor_full(1, SHAPE(3), DL_F32, device, 1.5));
    dl_tensor *b = must(dl_tensor_full(1, SHAPE(3), DL_F32, device, -0.25)), *in[] = {x, leaf(w), leaf(b)};
    dl_tensor *y = must(dl_batch_norm_relu(x, NULL, NULL, w, b, 1, 0.1, 1e-5)), *fused[3], *composite[3];
    dl_tensor *seed = drawn(5, 4, dl_shape(y), DL_F32), *there = must(dl_to_device(seed, device));
    gradients(y, there, in, 3, 0, fused);
    gradients(y, there, in, 3, 1, composite);
    for (int i = 0; i < 3; i++) {
        same(fused[i], composite[i], 2e-6, "fused against composite");
        dl_unref(fused[i]), dl_unref(composite[i]);
    }
    dl_unref(x), dl_unref(w), dl_unref(b), dl_unref(y), dl_unref(seed), dl_unref(there);
}

/* Convolution, relu and max pooling: the windows tile the first images, not the second ones. */
enum { POOLED = 7, POOLED_PARAMS = 4 };
static void pooled_on(int device) {
    static const char *const names[] = {"conv0.weight", "conv0.bias", "conv1.weight", "conv1.bias"};
    dl_seed(4);
    dl_module *m = dl_net_parse("conv 8 k=3 pad=1 -> relu -> maxpool 2 -> conv 6 k=3 pad=1 -> relu -> maxpool 3 "
                                "stride=2 padding=1 -> relu -> maxpool 2 stride=1");
    if (!m) fail_msg("%s", dl_errmsg());
    ok(dl_module_build(m, 4, SHAPE(4, 3, 16, 12), DL_F32, device));
    dl_tensor *drawn_x = drawn(9, 4, SHAPE(4, 3, 16, 12), DL_F32), *x = leaf(must(dl_to_device(drawn_x, device)));
    dl_tensor *in[POOLED_PARAMS + 1] = {x}, *grad[2][POOLED_PARAMS + 1], *y[2] = {must(dl_module_forward(m, x))};
    for (int i = 0; i < POOLED_PARAMS; i++) in[i + 1] = dl_module_tensor(m, names[i]);
    dl_tensor *at = dl_ref(x);
    for (int i = 0; i <= POOLED; i++) {
        dl_tensor *next = must(dl_module_forward(dl_module_find(m, dl_module_label(m, i)), at));
        dl_unref(at);
        at = next;
    }
    y[1] = at;
    assert_string_equal(y[0]->node->op->name, device ? "relu_max_pool2d" : "max_pool2d");
    assert_string_equal(y[1]->node->op->name, "max_pool2d");
    same(y[0], y[1], 0, "output");
    dl_tensor *seed = drawn(5, 4, dl_shape(at), DL_F32), *there = must(dl_to_device(seed, device));
    for (int k = 0; k < 2; k++) gradients(y[k], there, in, POOLED_PARAMS + 1, 0, grad[k]);
    for (int i = 0; i <= POOLED_PARAMS; i++) {
        same(grad[0][i], grad[1][i], 1e-6, i ? names[i - 1] : "gradient of the input");
        dl_unref(grad[0][i]), dl_unref(grad[1][i]);
    }
    dl_unref(drawn_x), dl_unref(x), dl_unref(seed), dl_unref(there), dl_unref(y[0]), dl_unref(y[1]);
    dl_module_unref(m);
}

/* The first convolution of a net, pooled by tiles, in one kernel, against the layers one by one; the windows of the
 * second size do not cover the last row and column. */
static void first_on(int device, long channels, long high, long wide) {
    static const char *const names[] = {"conv0.weight", "conv0.bias"};
    dl_seed(6);
    dl_module *m = dl_net_parse("conv 40 k=3 pad=1 -> relu -> maxpool 2");
    if (!m) fail_msg("%s", dl_errmsg());
    ok(dl_module_build(m, 4, SHAPE(5, channels, high, wide), DL_F32, device));
    dl_tensor *drawn_x = drawn(9, 4, SHAPE(5, channels, high, wide), DL_F32), *x = must(dl_to_device(drawn_x, device));
    dl_tensor *in[2] = {dl_module_tensor(m, names[0]), dl_module_tensor(m, names[1])}, *grad[3][2], *y[2],
              *at = dl_ref(x);
    y[0] = must(dl_module_forward(m, x));
    for (int i = 0; i < 3; i++) {
        dl_tensor *next = must(dl_module_forward(dl_module_find(m, dl_module_label(m, i)), at));
        dl_unref(at);
        at = next;
    }
    y[1] = at;
    assert_string_equal(y[0]->node->op->name, device ? "conv2d_relu_max_pool2d" : "max_pool2d");
    same(y[0], y[1], 3e-7, "output");
    dl_tensor *seed = drawn(5, 4, dl_shape(at), DL_F32), *there = must(dl_to_device(seed, device));
    for (int k = 0; k < 3; k++) gradients(y[k % 2], there, in, 2, k == 2, grad[k]); /* the last by the composite rule */
    for (int i = 0; i < 2; i++) {
        same(grad[0][i], grad[1][i], 2e-6, names[i]);
        same(grad[2][i], grad[1][i], 2e-6, names[i]);
        for (int k = 0; k < 3; k++) dl_unref(grad[k][i]);
    }
    dl_unref(drawn_x), dl_unref(x), dl_unref(seed), dl_unref(there), dl_unref(y[0]), dl_unref(y[1]);
    dl_module_unref(m);
}

/* The norm of the relu within, from sums of squares that the kernel gives beside, against that of the layers one by
 * one. given: are there sums? -1: that depends on the layout of the convolution. */
static void norm_within(const char *net, long channels, long high, long wide, double scale, dl_dtype dtype, int given) {
    dl_seed(6);
    dl_module *m = dl_net_parse(net);
    if (!m) fail_msg("%s", dl_errmsg());
    ok(dl_module_build(m, 4, SHAPE(5, channels, high, wide), dtype, GPU));
    dl_module_train(m, 1);
    dl_tensor *drawn_x = drawn(9, 4, SHAPE(5, channels, high, wide), DL_F32), *factor = must(dl_scalar_f(scale)),
              *scaled = must(dl_mul(drawn_x, factor)), *low = must(dl_to_dtype(scaled, dtype)),
              *x = must(dl_to_device(low, GPU)), *at = dl_ref(x);
    dl_module *relu = dl_module_find(m, "relu0");
    dl_module_keep(relu, 1), dl_module_keep(relu, DL_KEEPS_NORM);
    dl_unref(must(dl_module_forward(m, x)));
    const int there = dl_module_kept_squares(relu);
    if (given >= 0) assert_int_equal(there, given);
    dl_tensor *kept = must(dl_to_device(dl_module_kept(relu), 0)), *wide_kept = must(dl_to_dtype(kept, DL_F64));
    double sum = 0, expected = 0;
    for (long i = 0; i < dl_numel(wide_kept); i++) {
        const double v = ((double *)dl_data(wide_kept))[i];
        sum += there ? v : v * v;
    }
    dl_module_keep(relu, 0), dl_module_keep(relu, -DL_KEEPS_NORM);
    for (int i = 0; i < 2; i++) {
        dl_tensor *next = must(dl_module_forward(dl_module_find(m, dl_module_label(m, i)), at));
        dl_unref(at);
        at = next;
    }
    dl_tensor *back = must(dl_to_device(at, 0)), *wide_back = must(dl_to_dtype(back, DL_F64));
    for (long i = 0; i < dl_numel(wide_back); i++) {
        const double v = ((double *)dl_data(wide_back))[i];
        expected += v * v;
    }
    if (!(fabs(sum - expected) <= (dtype == DL_F32 ? 1e-5 : 1e-2) * expected))
        fail_msg("%s of %ld x %ld: squares %g, not %g", net, high, wide, sum, expected);
    dl_unref(drawn_x), dl_unref(factor), dl_unref(scaled), dl_unref(low), dl_unref(x), dl_unref(at), dl_unref(kept);
    dl_unref(wide_kept), dl_unref(back), dl_unref(wide_back);
    dl_module_unref(m);
}

static void norms_gpu(void **state) {
    (void)state;
    NEEDS_GPU();
    static const char first[] = "conv 40 k=3 pad=1 -> relu -> maxpool 2",
                      second[] = "conv 8 k=3 pad=1 -> relu -> maxpool 2";
    for (long channels = 1; channels <= 4; channels++) {
        norm_within(first, channels, 16, 12, 1, DL_F32, 1), norm_within(first, channels, 6, 256, 1, DL_F32, 1);
        norm_within(first, channels, 10, 30, 1e21, DL_F32, 1); /* an odd number of windows; squares do not fit f32 */
        norm_within(first, channels, 9, 31, 1, DL_F32, 0);     /* windows leave a row out */
    }
    norm_within(second, 6, 16, 12, 1, DL_F32, -1), norm_within(second, 6, 16, 12, 1, DL_BF16, -1);
    norm_within("conv 8 k=3 pad=1 -> relu -> maxpool 3 stride=2", 6, 16, 12, 1, DL_F32, 0);
}

static void first_cpu(void **state) { (void)state, first_on(0, 3, 16, 12); }
static void first_gpu(void **state) {
    (void)state;
    NEEDS_GPU();
    for (long channels = 1; channels <= 4; channels++)
        first_on(GPU, channels, 16, 12), first_on(GPU, channels, 9, 31), first_on(GPU, channels, 6, 270);
}

static void training_cpu(void **state) { (void)state, training_on(0); }
static void evaluation_cpu(void **state) { (void)state, evaluation_on(0, 1e-6); }
static void rules_cpu(void **state) { (void)state, rules_on(0); }
static void pooled_cpu(void **state) { (void)state, pooled_on(0); }

static void training_gpu(void **state) {
    (void)state;
    NEEDS_GPU();
    training_on(GPU);
}
static void evaluation_gpu(void **state) {
    (void)state;
    NEEDS_GPU();
    evaluation_on(GPU, 1e-6);
    ok(dl_precision_set(DL_PRECISION_BF16));
    evaluation_on(GPU, 2e-2);
    ok(dl_precision_set(DL_PRECISION_F32));
}
static void rules_gpu(void **state) {
    (void)state;
    NEEDS_GPU();
    rules_on(GPU);
}
static void pooled_gpu(void **state) {
    (void)state;
    NEEDS_GPU();
    pooled_on(GPU);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_cpu), cmocka_unit_test(evaluation_cpu), cmocka_unit_test(rules_cpu),
        cmocka_unit_test(training_gpu), cmocka_unit_test(evaluation_gpu), cmocka_unit_test(rules_gpu),
        cmocka_unit_test(pooled_cpu),   cmocka_unit_test(pooled_gpu),     cmocka_unit_test(first_cpu),
        cmocka_unit_test(first_gpu),    cmocka_unit_test(norms_gpu),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
