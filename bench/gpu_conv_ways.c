/* Times of single convolutions in f32 on the GPU, in shapes that common nets have, for bench/gpu_conv_ways.py: one line
 * each, "shape<TAB>what<TAB>milliseconds", "-" where no way may be chosen (DLCORE_CONV_WAYS). `what` is forward, dx
 * (the gradient of the images) or dw (of the weights). Usage: bench_gpu_conv_ways [part of a name] */
#include "gpu_measure.h"

static const struct {
    const char *name;
    long n, c, hw, o, k, stride, pad;
} shapes[] = {
    {"mnist 1>16 28 b64", 64, 1, 28, 16, 3, 1, 1},         {"mnist 1>32 28 b1024", 1024, 1, 28, 32, 3, 1, 1},
    {"mnist 16>32 14 b64", 64, 16, 14, 32, 3, 1, 1},       {"mnist 32>64 14 b1024", 1024, 32, 14, 64, 3, 1, 1},
    {"lenet 1>6 28 k5 b64", 64, 1, 28, 6, 5, 1, 2},        {"lenet 6>16 14 k5 b256", 256, 6, 14, 16, 5, 1, 0},
    {"cifar 3>32 32 b64", 64, 3, 32, 32, 3, 1, 1},         {"cifar 32>64 16 b64", 64, 32, 16, 64, 3, 1, 1},
    {"cifar 3>32 32 b1024", 1024, 3, 32, 32, 3, 1, 1},     {"cifar 32>64 16 b1024", 1024, 32, 16, 64, 3, 1, 1},
    {"resnet18c 3>64 32 b128", 128, 3, 32, 64, 3, 1, 1},   {"resnet18c 64>64 32 b128", 128, 64, 32, 64, 3, 1, 1},
    {"resnet18c 64>128 32 s2", 128, 64, 32, 128, 3, 2, 1}, {"resnet18c 128>128 16", 128, 128, 16, 128, 3, 1, 1},
    {"resnet18c 256>256 8", 128, 256, 8, 256, 3, 1, 1},    {"resnet18c 512>512 4", 128, 512, 4, 512, 3, 1, 1},
    {"stem 3>64 224 k7 s2 b32", 32, 3, 224, 64, 7, 2, 3},  {"resnet 64>64 56 b32", 32, 64, 56, 64, 3, 1, 1},
    {"resnet 128>128 28 b32", 32, 128, 28, 128, 3, 1, 1},  {"resnet 256>256 14 b32", 32, 256, 14, 256, 3, 1, 1},
    {"resnet 512>512 7 b32", 32, 512, 7, 512, 3, 1, 1},    {"vgg 3>64 224 b16", 16, 3, 224, 64, 3, 1, 1},
    {"alexnet 64>192 27 k5", 64, 64, 27, 192, 5, 1, 2},    {"unet 1>64 256 b4", 4, 1, 256, 64, 3, 1, 1},
    {"unet 64>64 256 b4", 4, 64, 256, 64, 3, 1, 1},        {"unet 256>128 64 b4", 4, 256, 64, 128, 3, 1, 1},
};

static dl_tensor *x, *w, *bias, *grad; /* grad: of the results */
static long stride, pad;

static int done(dl_tensor *t) {
    dl_unref(t);
    return t != NULL;
}

static int forward(const void *none) {
    (void)none;
    return done(dl_conv2d(x, w, NULL, &stride, 1, &pad, 1, NULL, 0, 1));
}

static int dx(const void *none) {
    (void)none;
    const long size[2] = {dl_shape(x)[2], dl_shape(x)[3]};
    return done(dl_conv2d_dx(grad, w, size, 2, &stride, 1, &pad, 1, NULL, 0, 1));
}

static int dw(const void *none) {
    (void)none;
    const long size[2] = {dl_shape(w)[2], dl_shape(w)[3]};
    return done(dl_conv2d_dw(grad, x, size, 2, &stride, 1, &pad, 1, NULL, 0, 1));
}

/* A convolution of few channels, with a bias, relu and pooling by 2x2: forward and the gradients of weight and bias. */
static int pooled_step(dl_tensor *(*make)(void)) {
    dl_grad_mode(1);
    dl_set_requires_grad(w, 1), dl_set_requires_grad(bias, 1);
    dl_tensor *y = make(), *out[2] = {NULL, NULL}, *sum = y ? dl_sum(y, NULL, 0, 0) : NULL;
    int good = sum && dl_gradients(sum, NULL, (dl_tensor *[]){w, bias}, 2, 0, 0, out) == DL_OK;
    dl_grad_mode(0);
    dl_unref(y), dl_unref(sum), dl_unref(out[0]), dl_unref(out[1]);
    return good;
}

static const long two = 2;

static dl_tensor *in_one(void) {
    return dl_conv2d_relu_max_pool2d(x, w, bias, &stride, 1, &pad, 1, NULL, 0, 1, &two, 1);
}

static dl_tensor *in_two(void) {
    dl_tensor *y = dl_conv2d(x, w, NULL, &stride, 1, &pad, 1, NULL, 0, 1);
    dl_tensor *p = y ? dl_relu_max_pool2d(y, bias, &two, 1, NULL, 0, NULL, 0, NULL, 0, 0) : NULL;
    dl_unref(y);
    return p;
}

static int step_in_one(const void *none) { return (void)none, pooled_step(in_one); }
static int step_in_two(const void *none) { return (void)none, pooled_step(in_two); }

static const struct {
    const char *name;
    int (*run)(const void *);
} kinds[] = {{"forward", forward}, {"dx", dx}, {"dw", dw}, {"pooled", step_in_one}, {"pooled apart", step_in_two}};

static dl_tensor *normal(long a, long b, long c, long d) { return dl_randn((long[]){a, b, c, d}, 4, DL_F32, GPU); }

static void report(const char *name, const char *what, double ms) {
    if (ms < 0)
        printf("%s\t%s\t-\n", name, what);
    else
        printf("%s\t%s\t%.4f\n", name, what, ms);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (!bench_begin()) return 0;
    dl_grad_mode(0);
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++) {
        if (argc > 1 && !strstr(shapes[i].name, argv[1])) continue;
        const char *name = shapes[i].name;
        stride = shapes[i].stride, pad = shapes[i].pad;
        long out = (shapes[i].hw + 2 * pad - shapes[i].k) / stride + 1;
        x = normal(shapes[i].n, shapes[i].c, shapes[i].hw, shapes[i].hw);
        w = normal(shapes[i].o, shapes[i].c, shapes[i].k, shapes[i].k);
        grad = normal(shapes[i].n, shapes[i].o, out, out);
        bias = dl_randn(&shapes[i].o, 1, DL_F32, GPU);
        if (!x || !w || !bias || !grad) return fprintf(stderr, "bench_gpu_conv_ways: %s\n", dl_errmsg()), 1;
        int pooled = shapes[i].c <= 4 && shapes[i].k == 3 && out <= 2 * 128;
        for (int k = 0; k < (pooled ? 5 : 3); k++) report(name, kinds[k].name, bench_time(kinds[k].run, NULL));
        dl_unref(x), dl_unref(w), dl_unref(bias), dl_unref(grad);
    }
    return 0;
}
