/* Times of single ops on the CPU: one line each, "name<TAB>microseconds", the least of several runs. bench/ops.py runs
 * this beside PyTorch and prints the ratios. Usage: bench_ops [part of a name]. With BENCH_CPU_TIME set, it measures
 * the processor time of all threads, for machines with other load. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dlcore.h"

static double now(void) {
    struct timespec t;
    clock_gettime(getenv("BENCH_CPU_TIME") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Operands by size: a and b large, s and r small, t tiny; m a square matrix, i indices. */
static dl_tensor *a, *b, *s, *r, *t, *m, *mt, *rows, *bias, *index_large, *mask, *ints, *tall, *flat;

static const long zero = 0, one = 1, row = 1024;

/* All of the last dimension, or the first k. */
static dl_tensor *sorted(dl_tensor *x, long k) {
    dl_tensor *places = NULL, *values = k ? dl_topk(x, k, -1, 1, &places) : dl_sort(x, -1, 0, &places);
    dl_unref(places);
    return values;
}

static dl_tensor *wave[5];
static const long waves[5][2] = {{64, 256}, {64, 4096}, {8, 65536}, {1, 65536}, {64, 1000}};

typedef dl_tensor *(*body)(void);
#define CASE(name, expr)                                                                                               \
    static dl_tensor *name(void) { return expr; }
#define CASES(X)                                                                                                       \
    X(add_large, dl_add(a, b))                                                                                         \
    X(mul_large, dl_mul(a, b))                                                                                         \
    X(relu_large, dl_relu(a))                                                                                          \
    X(exp_large, dl_exp(a))                                                                                            \
    X(tanh_large, dl_tanh(a))                                                                                          \
    X(sigmoid_large, dl_sigmoid(a))                                                                                    \
    X(gelu_large, dl_gelu(a, "none"))                                                                                  \
    X(elu_large, dl_elu(a, 1))                                                                                         \
    X(log_large, dl_log(b))                                                                                            \
    X(gt_large, dl_gt(a, b))                                                                                           \
    X(where_large, dl_where(mask, a, b))                                                                               \
    X(clone_large, dl_clone(a))                                                                                        \
    X(to_f64_large, dl_to(a, DL_F64))                                                                                  \
    X(to_bf16_large, dl_to(a, DL_BF16))                                                                                \
    X(add_bias, dl_add(rows, bias))                                                                                    \
    X(add_transposed, dl_add(m, mt))                                                                                   \
    X(transpose_copy, dl_contiguous(mt))                                                                               \
    X(sum_all, dl_sum(m, NULL, 0, 0))                                                                                  \
    X(sum_rows, dl_sum(m, &one, 1, 0))                                                                                 \
    X(sum_cols, dl_sum(m, &zero, 1, 0))                                                                                \
    X(sum_cols_tall, dl_sum(tall, &zero, 1, 0))                                                                        \
    X(sum_rows_tall, dl_sum(tall, &one, 1, 0))                                                                         \
    X(amax_rows, dl_amax(m, &one, 1, 0))                                                                               \
    X(amax_cols, dl_amax(m, &zero, 1, 0))                                                                              \
    X(argmax_rows, dl_argmax(m, &one, 0))                                                                              \
    X(argmax_cols, dl_argmax(m, &zero, 0))                                                                             \
    X(logsumexp_rows, dl_logsumexp(m, &one, 1, 0))                                                                     \
    X(logsumexp_cols, dl_logsumexp(m, &zero, 1, 0))                                                                    \
    X(sum_int, dl_sum(ints, NULL, 0, 0))                                                                               \
    X(cumsum_rows, dl_cumsum(m, 1))                                                                                    \
    X(cumsum_cols, dl_cumsum(m, 0))                                                                                    \
    X(sort_rows, sorted(m, 0))                                                                                         \
    X(sort_flat, sorted(flat, 0))                                                                                      \
    X(topk_rows, sorted(m, 10))                                                                                        \
    X(rms_norm_rows, dl_rms_norm(rows, bias, &row, 1, NULL))                                                           \
    X(index_select_rows, dl_index_select(m, index_large, 0))                                                           \
    X(index_add_rows, dl_index_add(m, index_large, m, 0))                                                              \
    X(randn_large, dl_randn(dl_shape(a), dl_ndim(a), DL_F32, 0))                                                       \
    X(rand_large, dl_rand(dl_shape(a), dl_ndim(a), DL_F32, 0))                                                         \
    X(randperm_large, dl_randperm(100000, -1, 0))                                                                      \
    X(add_small, dl_add(s, s))                                                                                         \
    X(tanh_small, dl_tanh(s))                                                                                          \
    X(sum_small, dl_sum(s, NULL, 0, 0))                                                                                \
    X(sum_cols_small, dl_sum(r, &zero, 1, 0))                                                                          \
    X(add_tiny, dl_add(t, t))                                                                                          \
    X(relu_tiny, dl_relu(t))                                                                                           \
    X(sum_tiny, dl_sum(t, NULL, 0, 0))                                                                                 \
    X(fft_256, dl_fft(wave[0], NULL, -1, ""))                                                                          \
    X(fft_4096, dl_fft(wave[1], NULL, -1, ""))                                                                         \
    X(fft_65536, dl_fft(wave[2], NULL, -1, ""))                                                                        \
    X(fft_one_65536, dl_fft(wave[3], NULL, -1, ""))                                                                    \
    X(fft_1000, dl_fft(wave[4], NULL, -1, ""))                                                                         \
    X(rfft_1024, dl_rfft(a, NULL, -1, ""))                                                                             \
    X(mul_complex, dl_mul(wave[1], wave[1]))
CASES(CASE)

static const struct {
    const char *name;
    body run;
} cases[] = {
#define ROW(name, expr) {#name, name},
    CASES(ROW)};

static double measure(body run) {
    double best = 1e30;
    long n = 1;
    for (int k = 0; k < 12; k++) {
        double from = now();
        for (long i = 0; i < n; i++) {
            dl_tensor *x = run();
            if (!x) return -1;
            dl_unref(x);
        }
        double each = (now() - from) / (double)n;
        if (each < best) best = each;
        if (k == 0) n = each > 20000 ? 1 : (long)(20000 / (each + 0.01)) + 1;
    }
    return best;
}

static dl_tensor *normal(long n0, long n1) {
    long shape[2] = {n0, n1};
    return dl_randn(shape, 2, DL_F32, 0);
}

int main(int argc, char **argv) {
    const long dims[2] = {1, 0}, list = 2048, all = -1;
    dl_seed(1);
    a = normal(4096, 1024), s = normal(64, 64), r = normal(64, 10), t = normal(4, 4), m = normal(2048, 2048);
    b = dl_abs(normal(4096, 1024)), mt = dl_permute(m, dims, 2), rows = normal(4096, 1024), tall = normal(400000, 10);
    bias = dl_randn(&row, 1, DL_F32, 0), index_large = dl_randint(0, 2048, &list, 1, DL_I64, 0), mask = dl_gt(a, b);
    ints = dl_to(a, DL_I32), flat = dl_reshape(a, &all, 1);
    for (int i = 0; i < 5; i++) wave[i] = dl_randn(waves[i], 2, DL_C64, 0);
    dl_grad_mode(0);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc > 1 && !strstr(cases[i].name, argv[1])) continue;
        printf("%s\t%.3f\n", cases[i].name, measure(cases[i].run));
        fflush(stdout);
    }
    return 0;
}
