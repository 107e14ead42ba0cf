/* Times of single ops on the GPU, for bench/gpu.py, which runs this beside PyTorch: one line each, "name<TAB>
 * milliseconds<TAB>rate<TAB>unit", the least of several runs of a full queue. Usage: bench_gpu [part of a name]. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "dlcore.h"

enum { GPU = 1 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static dl_tensor *a, *b, *wide, *square, *turned, *m1, *m4, *m8, *h8, *small;
static const long one = 1, zero = 0;

/* name, the work of one run, its unit ("GB" or "TFLOP"), the call */
#define CASES(X)                                                                                                       \
    X(copy, 8.0 * (1 << 28) * 1e-9, "GB", dl_clone(a))                                                                 \
    X(add, 12.0 * (1 << 28) * 1e-9, "GB", dl_add(a, b))                                                                \
    X(tanh, 8.0 * (1 << 28) * 1e-9, "GB", dl_tanh(a))                                                                  \
    X(gelu, 8.0 * (1 << 28) * 1e-9, "GB", dl_gelu(a))                                                                  \
    X(sum, 4.0 * (1 << 28) * 1e-9, "GB", dl_sum(a, NULL, 0, 0))                                                        \
    X(sum_rows, 4.0 * (1 << 28) * 1e-9, "GB", dl_sum(wide, &one, 1, 0))                                                \
    X(sum_cols, 4.0 * (1 << 28) * 1e-9, "GB", dl_sum(wide, &zero, 1, 0))                                               \
    X(softmax_1024, 8.0 * (1 << 28) * 1e-9, "GB", dl_softmax(wide, 1))                                                 \
    X(logsumexp_1024, 4.0 * (1 << 28) * 1e-9, "GB", dl_logsumexp(wide, &one, 1, 0))                                    \
    X(transpose_16384, 8.0 * (1 << 28) * 1e-9, "GB", dl_contiguous(turned))                                            \
    X(randn, 4.0 * (1 << 28) * 1e-9, "GB", dl_randn(dl_shape(a), dl_ndim(a), DL_F32, GPU))                             \
    X(matmul_1024, 2e-12 * 1024 * 1024 * 1024, "TFLOP", dl_matmul(m1, m1))                                             \
    X(matmul_4096, 2e-12 * 4096 * 4096 * 4096, "TFLOP", dl_matmul(m4, m4))                                             \
    X(matmul_8192, 2e-12 * 8192 * 8192 * 8192, "TFLOP", dl_matmul(m8, m8))                                             \
    X(matmul_8192_bf16, 2e-12 * 8192 * 8192 * 8192, "TFLOP", dl_matmul(h8, h8))                                        \
    X(add_small, 1e-6, "M", dl_add(small, small))

#define CASE(name, work, unit, expr)                                                                                   \
    static dl_tensor *name##_run(void) { return expr; }
CASES(CASE)

static const struct {
    const char *name, *unit;
    double work;
    dl_tensor *(*run)(void);
} cases[] = {
#define ROW(name, work, unit, expr) {#name, unit, work, name##_run},
    CASES(ROW)};

/* Milliseconds of one run; negative: the error is recorded. */
static double measure(dl_tensor *(*run)(void)) {
    double best = 1e30;
    int n = 3;
    for (int k = 0; k < 6; k++) {
        double from = now();
        for (int i = 0; i < n; i++) {
            dl_tensor *t = run();
            if (!t) return -1;
            dl_unref(t);
        }
        if (dl_device_synchronize(GPU) != DL_OK) return -1;
        double each = (now() - from) / n;
        if (k && each < best) best = each;
        if (k == 0) n = each > 30 ? 1 : (int)(30 / (each + 0.001)) + 1;
    }
    return best;
}

static dl_tensor *normal(long rows, long cols) {
    long shape[2] = {rows, cols};
    return dl_randn(shape, 2, DL_F32, GPU);
}

int main(int argc, char **argv) {
    const long flip[2] = {1, 0};
    char text[200] = "";
    if (dl_device_count() < 2) {
        printf("skipped: no GPU (%s)\n", dl_device_missing());
        return 0;
    }
    dl_device_describe(GPU, text, sizeof text);
    printf("# %s\n", text);
    dl_seed(1);
    dl_grad_mode(0);
    a = normal(1 << 14, 1 << 14), b = normal(1 << 14, 1 << 14), wide = normal(1 << 18, 1 << 10);
    square = normal(1 << 14, 1 << 14), turned = dl_permute(square, flip, 2), small = normal(64, 64);
    m1 = normal(1024, 1024), m4 = normal(4096, 4096), m8 = normal(8192, 8192), h8 = dl_to(m8, DL_BF16);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc > 1 && !strstr(cases[i].name, argv[1])) continue;
        double ms = measure(cases[i].run);
        if (ms < 0)
            printf("%s\tfailed: %s\n", cases[i].name, dl_errmsg());
        else
            printf("%s\t%.4f\t%.1f\t%s/s\n", cases[i].name, ms, cases[i].work / (ms * 1e-3), cases[i].unit);
        fflush(stdout);
    }
    return 0;
}
