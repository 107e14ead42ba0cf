/* Times of convolutions on the GPU, for bench/gpu_conv.py, which runs this beside PyTorch: one line each, "name<TAB>
 * milliseconds". A name is shape_precision_layout_what; `both` is forward and both gradients. Usage: bench_gpu_conv
 * [part of a name [any]]; any: also algorithms that do not repeat bit for bit. */
#include "gpu_measure.h"

/* The same rows as in gpu_conv.py. */
static const struct {
    const char *name;
    long n, c, hw, o, k, stride, pad;
} shapes[] = {
    {"512x7x7", 32, 512, 7, 512, 3, 1, 1},   {"64x56x56", 64, 64, 56, 64, 3, 1, 1},
    {"256x56x56", 64, 256, 56, 64, 1, 1, 0}, {"3x224x224", 64, 3, 224, 64, 7, 2, 3},
    {"32x16x16", 256, 32, 16, 64, 3, 1, 1},
};

static dl_tensor *x, *w, *seed;
static long stride, pad;

static dl_tensor *conv(void) { return dl_conv2d(x, w, NULL, &stride, 1, &pad, 1, NULL, 0, 1); }

static int forward(const void *none) {
    (void)none;
    dl_tensor *y = conv();
    dl_unref(y);
    return y != NULL;
}

static int both(const void *none) {
    (void)none;
    dl_tensor *y = conv(), *in[2] = {x, w}, *grad[2] = {NULL, NULL};
    int good = y && dl_gradients(y, seed, in, 2, 0, 0, grad) == DL_OK;
    dl_unref(y), dl_unref(grad[0]), dl_unref(grad[1]);
    return good;
}

static dl_tensor *normal(long a, long b, long c, long d, int last) {
    const long shape[4] = {a, b, c, d}, inner[4] = {a, c, d, b}, back[4] = {0, 3, 1, 2};
    dl_tensor *t = dl_randn(last ? inner : shape, 4, DL_F32, GPU), *p = last ? dl_permute(t, back, 4) : dl_ref(t);
    dl_unref(t);
    return p;
}

static int fail(void) {
    fprintf(stderr, "bench_gpu_conv: %s\n", dl_errmsg());
    return 1;
}

static int report(const char *name, double ms) {
    if (ms < 0) return fail();
    printf("%s\t%.4f\n", name, ms);
    return fflush(stdout), 0;
}

static int run_case(int i, int tf32, int last, const char *only) {
    char name[2][80];
    int wanted = 0;
    for (int b = 0; b < 2; b++) {
        snprintf(name[b], sizeof name[b], "%s_%s_%s_%s", shapes[i].name, tf32 ? "tf32" : "f32", last ? "last" : "first",
                 b ? "both" : "forward");
        wanted |= !only || strstr(name[b], only);
    }
    if (!wanted) return 0;
    if (dl_precision_set(tf32 ? DL_PRECISION_TF32 : DL_PRECISION_F32) != DL_OK) return fail();
    stride = shapes[i].stride, pad = shapes[i].pad;
    x = normal(shapes[i].n, shapes[i].c, shapes[i].hw, shapes[i].hw, last);
    w = normal(shapes[i].o, shapes[i].c, shapes[i].k, shapes[i].k, last);
    long out = (shapes[i].hw + 2 * pad - shapes[i].k) / stride + 1;
    seed = normal(shapes[i].n, shapes[i].o, out, out, last);
    if (!x || !w || !seed) return fail();
    dl_grad_mode(0);
    int bad = report(name[0], bench_time(forward, NULL));
    dl_grad_mode(1);
    dl_set_requires_grad(x, 1), dl_set_requires_grad(w, 1);
    bad |= report(name[1], bench_time(both, NULL));
    dl_unref(x), dl_unref(w), dl_unref(seed);
    return bad;
}

static dl_module *block;

static int infer(const void *none) {
    (void)none;
    dl_tensor *y = dl_module_forward(block, x);
    dl_unref(y);
    return y != NULL;
}

static int train(const void *none) {
    (void)none;
    dl_tensor *y = dl_module_forward(block, x), *grad[4] = {NULL};
    dl_tensor *in[4] = {x, dl_module_tensor(block, "conv0.weight"), dl_module_tensor(block, "batchnorm0.weight"),
                        dl_module_tensor(block, "batchnorm0.bias")};
    int good = y && dl_gradients(y, seed, in, 4, 0, 0, grad) == DL_OK;
    dl_unref(y);
    for (int i = 0; i < 4; i++) dl_unref(grad[i]);
    return good;
}

static int run_block(int tf32, int last, const char *only) {
    const long shape[4] = {64, 64, 56, 56};
    char name[2][80];
    for (int b = 0; b < 2; b++)
        snprintf(name[b], sizeof name[b], "block_%s_%s_%s", tf32 ? "tf32" : "f32", last ? "last" : "first",
                 b ? "training" : "inference");
    if (only && !strstr(name[0], only) && !strstr(name[1], only)) return 0;
    if (dl_precision_set(tf32 ? DL_PRECISION_TF32 : DL_PRECISION_F32) != DL_OK) return fail();
    block = dl_net_parse("conv 64 k=3 pad=1 bias=false -> batchnorm -> relu");
    x = normal(shape[0], shape[1], shape[2], shape[3], last),
    seed = normal(shape[0], shape[1], shape[2], shape[3], last);
    if (!block || !x || !seed || dl_module_build(block, 4, shape, DL_F32, GPU) != DL_OK) return fail();
    dl_module_train(block, 0);
    dl_grad_mode(0);
    int bad = report(name[0], bench_time(infer, NULL));
    dl_grad_mode(1);
    dl_module_train(block, 1);
    dl_set_requires_grad(x, 1);
    bad |= report(name[1], bench_time(train, NULL));
    dl_unref(x), dl_unref(seed);
    dl_module_unref(block);
    return bad;
}

int main(int argc, char **argv) {
    if (!bench_begin()) return 0;
    dl_deterministic_set(!(argc > 2 && !strcmp(argv[2], "any")));
    int bad = 0;
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
        for (int k = 0; k < 4; k++) bad |= run_case(i, k >> 1, k & 1, argc > 1 ? argv[1] : NULL);
    for (int k = 0; k < 4; k++) bad |= run_block(k >> 1, k & 1, argc > 1 ? argv[1] : NULL);
    return bad;
}
