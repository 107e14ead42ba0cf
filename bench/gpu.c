/* Times of single ops on the GPU, for bench/gpu.py, which runs this beside PyTorch: one line each, "name<TAB>
 * milliseconds<TAB>rate<TAB>unit", the least of several runs of a full queue. Usage: bench_gpu [part of a name]. */
#include "gpu_measure.h"

static dl_tensor *a, *b, *wide, *square, *turned, *m1, *m4, *m8, *h8, *small;
static dl_tensor *half, *half_wide, *half_turned, *bias, *words, *image[2], *last[2], *scale[2], *shift[2];
static dl_tensor *logits, *labels, *batch, *weight, *short_bias;
static dl_tensor *word_labels, *hundreds, *planes, *wants_wide, *column;
static const long one = 1, zero = 0;

/* Computes y, a function of in[0 .. n - 1], and its gradients, which are dropped. */
static dl_tensor *both_ways(dl_tensor *y, dl_tensor **in, int n) {
    dl_tensor *grad[3] = {NULL}, *seed = y && dl_ndim(y) ? in[0] : NULL;
    if (y && dl_gradients(y, seed, in, n, 0, 0, grad) != DL_OK) {
        dl_unref(y);
        return NULL;
    }
    for (int i = 0; i < n; i++) dl_unref(grad[i]);
    return y;
}

static dl_tensor *norm_step(dl_tensor *x, int k) {
    dl_tensor *in[3] = {x, scale[k], shift[k]};
    dl_grad_mode(1);
    dl_tensor *y = both_ways(dl_batch_norm(x, NULL, NULL, scale[k], shift[k], 1, 0.1, 1e-5), in, 3);
    dl_grad_mode(0);
    return y;
}

static dl_tensor *lse_step(void) {
    dl_grad_mode(1);
    dl_tensor *y = dl_logsumexp(wants_wide, &one, 1, 0), *grad = NULL;
    dl_status s = y ? dl_gradients(y, column, &wants_wide, 1, 0, 0, &grad) : DL_ERR_MEMORY;
    dl_grad_mode(0);
    dl_unref(grad);
    if (s == DL_OK) return y;
    dl_unref(y);
    return NULL;
}

static dl_tensor *word_step(void) {
    dl_grad_mode(1);
    dl_tensor *y = both_ways(dl_cross_entropy(words, word_labels, NULL, "mean", -100, 0), &words, 1);
    dl_grad_mode(0);
    return y;
}

static dl_tensor *loss_step(void) {
    dl_grad_mode(1);
    dl_tensor *y = both_ways(dl_cross_entropy(logits, labels, NULL, "mean", -100, 0), &logits, 1);
    dl_grad_mode(0);
    return y;
}

/* Name, work of one run, its unit ("GB" or "TFLOP"), the call. */
#define CASES(X)                                                                                                       \
    X(copy, 8.0 * (1 << 28) * 1e-9, "GB", dl_clone(a))                                                                 \
    X(add, 12.0 * (1 << 28) * 1e-9, "GB", dl_add(a, b))                                                                \
    X(tanh, 8.0 * (1 << 28) * 1e-9, "GB", dl_tanh(a))                                                                  \
    X(gelu, 8.0 * (1 << 28) * 1e-9, "GB", dl_gelu(a, "none"))                                                          \
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
    X(copy_bf16, 4.0 * (1 << 28) * 1e-9, "GB", dl_clone(half))                                                         \
    X(tanh_bf16, 4.0 * (1 << 28) * 1e-9, "GB", dl_tanh(half))                                                          \
    X(sum_rows_bf16, 2.0 * (1 << 28) * 1e-9, "GB", dl_sum(half_wide, &one, 1, 0))                                      \
    X(softmax_bf16, 4.0 * (1 << 28) * 1e-9, "GB", dl_softmax(half_wide, 1))                                            \
    X(transpose_bf16, 4.0 * (1 << 28) * 1e-9, "GB", dl_contiguous(half_turned))                                        \
    X(add_bias, 8.0 * (1 << 28) * 1e-9, "GB", dl_add(wide, bias))                                                      \
    X(log_softmax_50257, 8.0 * 4096 * 50257 * 1e-9, "GB", dl_log_softmax(words, 1))                                    \
    X(cross_entropy_50257, 12.0 * 4096 * 50257 * 1e-9, "GB", word_step())                                              \
    X(softmax_rows_100, 8.0 * 100 * (1 << 20) * 1e-9, "GB", dl_softmax(hundreds, 1))                                   \
    X(softmax_cols, 8.0 * (1 << 28) * 1e-9, "GB", dl_softmax(planes, 1))                                               \
    X(logsumexp_step, 12.0 * (1 << 28) * 1e-9, "GB", lse_step())                                                       \
    X(norm_56, 28.0 * 64 * 64 * 56 * 56 * 1e-9, "GB", norm_step(image[0], 0))                                          \
    X(norm_56_last, 28.0 * 64 * 64 * 56 * 56 * 1e-9, "GB", norm_step(last[0], 0))                                      \
    X(norm_32, 28.0 * 512 * 64 * 32 * 32 * 1e-9, "GB", norm_step(image[1], 1))                                         \
    X(norm_32_last, 28.0 * 512 * 64 * 32 * 32 * 1e-9, "GB", norm_step(last[1], 1))                                     \
    X(empty_small, 1e-6, "M", dl_tensor_empty(2, dl_shape(small), DL_F32, GPU))                                        \
    X(add_small, 1e-6, "M", dl_add(small, small))                                                                      \
    X(sum_small, 1e-6, "M", dl_sum(small, NULL, 0, 0))                                                                 \
    X(softmax_small, 1e-6, "M", dl_softmax(small, 1))                                                                  \
    X(linear_small, 1e-6, "M", dl_linear(batch, weight, short_bias))                                                   \
    X(cross_entropy_small, 1e-6, "M", loss_step())

#define CASE(name, work, unit, expr)                                                                                   \
    static dl_tensor *name##_run(void) { return expr; }
CASES(CASE)

static const bench_case cases[] = {
#define ROW(name, work, unit, expr) {#name, unit, work, name##_run},
    CASES(ROW)};

static dl_tensor *normal(long rows, long cols) {
    long shape[2] = {rows, cols};
    return dl_randn(shape, 2, DL_F32, GPU);
}

static dl_tensor *wants(dl_tensor *t) { return dl_set_requires_grad(t, 1) == DL_OK ? t : NULL; }

/* Images with channels first and with channels last in memory, and the weights of a norm. */
static void images(int k, long n, long side) {
    const long shape[4] = {n, 64, side, side}, across[4] = {side * side * 64, 1, side * 64, 64}, c = 64;
    image[k] = wants(dl_randn(shape, 4, DL_F32, GPU));
    last[k] = wants(dl_restride(image[k], across, 4));
    scale[k] = wants(dl_randn(&c, 1, DL_F32, GPU)), shift[k] = wants(dl_randn(&c, 1, DL_F32, GPU));
}

static void make_rows(void) {
    const long n = 4096, many = 1 << 18, plane[3] = {64, 64, 1 << 16};
    word_labels = dl_randint(0, 50257, &n, 1, DL_I64, GPU);
    hundreds = normal(1 << 20, 100), planes = dl_randn(plane, 3, DL_F32, GPU);
    wants_wide = wants(normal(1 << 18, 1 << 10)), column = dl_randn(&many, 1, DL_F32, GPU);
}

static void make_more(void) {
    const long flip[2] = {1, 0}, n = 1 << 10, count = 64, ten = 10;
    half = dl_to(a, DL_BF16), half_wide = dl_to(wide, DL_BF16);
    dl_tensor *half_square = dl_to(square, DL_BF16);
    half_turned = dl_permute(half_square, flip, 2);
    bias = dl_randn(&n, 1, DL_F32, GPU), words = wants(normal(4096, 50257));
    make_rows();
    images(0, 64, 56);
    images(1, 512, 32);
    logits = wants(normal(64, 10)), labels = dl_randint(0, 10, &count, 1, DL_I64, GPU);
    batch = normal(64, 784), weight = normal(10, 784), short_bias = dl_randn(&ten, 1, DL_F32, GPU);
}

static void make(void) {
    const long flip[2] = {1, 0};
    a = normal(1 << 14, 1 << 14), b = normal(1 << 14, 1 << 14), wide = normal(1 << 18, 1 << 10);
    square = normal(1 << 14, 1 << 14), turned = dl_permute(square, flip, 2), small = normal(64, 64);
    m1 = normal(1024, 1024), m4 = normal(4096, 4096), m8 = normal(8192, 8192), h8 = dl_to(m8, DL_BF16);
    make_more();
}

int main(int argc, char **argv) { return bench_main(argc, argv, cases, sizeof cases / sizeof *cases, make); }
