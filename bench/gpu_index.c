/* Times of pooling, dropout, gather, sums by index, running sums and norms of rows on the GPU, for bench/gpu_index.py,
 * which runs this beside PyTorch: "name<TAB>milliseconds<TAB>rate<TAB>unit". Usage: bench_gpu_index [part of a name].
 */
#include "gpu_measure.h"

static dl_tensor *flat, *half, *image, *last, *digits, *picks, *table, *tokens, *rows, *scale, *shift, *small, *places,
    *parts;
static const long two = 2, three = 3, one = 1, width = 1024;

static dl_tensor *pooled(dl_tensor *x) {
    dl_grad_mode(1);
    return bench_step(dl_max_pool2d(x, &three, 1, &two, 1, &one, 1, NULL, 0, 0), &x, 1);
}
static dl_tensor *embedded(void) {
    dl_grad_mode(1);
    return bench_step(dl_embedding(tokens, table, NULL), &table, 1);
}
static dl_tensor *normed(void) {
    dl_tensor *in[3] = {rows, scale, shift};
    dl_grad_mode(1);
    return bench_step(dl_layer_norm(rows, scale, shift, &width, 1, 1e-5), in, 3);
}

/* Sums in any order. */
static dl_tensor *kept;
#define UNORDERED(expr) (dl_deterministic_set(0), kept = (expr), dl_deterministic_set(1), kept)

#define IMAGE (128.0 * 64 * 112 * 112 * 1e-9)
#define ROWS (65536.0 * 1024 * 1e-9)
#define CASES(X)                                                                                                       \
    X(dropout, 9.0 * (1 << 28) * 1e-9, dl_dropout(flat, 0.1, 1))                                                       \
    X(dropout_bf16, 5.0 * (1 << 28) * 1e-9, dl_dropout(half, 0.1, 1))                                                  \
    X(cumsum, 8.0 * (1 << 28) * 1e-9, dl_cumsum(flat, 0))                                                              \
    X(max_pool_step, (2 * 4 + 0.25 * 32) * IMAGE, pooled(image))                                                       \
    X(max_pool_step_last, (2 * 4 + 0.25 * 32) * IMAGE, pooled(last))                                                   \
    X(avg_pool_1, 4 * IMAGE, dl_adaptive_avg_pool2d(image, &one, 1))                                                   \
    X(avg_pool_2, 5 * IMAGE, dl_avg_pool2d(image, &two, 1, NULL, 0, NULL, 0, 0, 1))                                    \
    X(batch_gather, 8.0 * 65536 * 784 * 1e-9, dl_index_select(digits, picks, 0))                                       \
    X(embedding_step, (8.0 * 32768 + 8.0 * 50257) * 768 * 1e-9, embedded())                                            \
    X(layer_norm, 8 * ROWS, dl_layer_norm(rows, scale, shift, &width, 1, 1e-5))                                        \
    X(layer_norm_step, 32 * ROWS, normed())                                                                            \
    X(scatter_add, 12.0 * (1 << 22) * 1e-9, dl_scatter_add(small, places, parts, 0))                                   \
    X(scatter_add_any, 12.0 * (1 << 22) * 1e-9, UNORDERED(dl_scatter_add(small, places, parts, 0)))                    \
    X(nonzero, 8.0 * (1 << 22) * 1e-9, dl_nonzero(parts))

#define CASE(name, work, expr)                                                                                         \
    static dl_tensor *name##_run(void) { return expr; }
CASES(CASE)
static const bench_case cases[] = {
#define ROW(name, work, expr) {#name, "GB", work, name##_run},
    CASES(ROW)};

static dl_tensor *normal(int n, const long *shape) { return dl_randn(shape, n, DL_F32, GPU); }
static dl_tensor *numbers(long high, long n) { return dl_randint(0, high, &n, 1, DL_I64, GPU); }
static dl_tensor *wants(dl_tensor *t) { return dl_set_requires_grad(t, 1) == DL_OK ? t : NULL; }

static void make(void) {
    const long many = 1 << 28, images[4] = {128, 64, 112, 112}, across[4] = {112 * 112 * 64, 1, 112 * 64, 64};
    const long mnist[2] = {60000, 784}, words[2] = {50257, 768}, wide[2] = {65536, 1024}, few = 1 << 20, more = 1 << 22;
    flat = normal(1, &many), half = dl_to(flat, DL_BF16);
    image = wants(normal(4, images)), last = wants(dl_restride(image, across, 4));
    digits = normal(2, mnist), picks = numbers(60000, 65536);
    table = wants(normal(2, words)), tokens = numbers(50257, 32768);
    rows = wants(normal(2, wide)), scale = wants(normal(1, &width)), shift = wants(normal(1, &width));
    small = normal(1, &few), places = numbers(1 << 20, more), parts = normal(1, &more);
}

int main(int argc, char **argv) { return bench_main(argc, argv, cases, sizeof cases / sizeof *cases, make); }
