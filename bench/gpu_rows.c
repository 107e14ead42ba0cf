/* Times of the other ops on the GPU, for bench/gpu_rows.py, which runs this beside PyTorch:
 * "name<TAB>milliseconds<TAB>rate<TAB>unit". Usage: bench_gpu_rows [part of a name]. */
#include "gpu_measure.h"

#define N28 ((double)(1 << 28) * 1e-9)
#define N26 ((double)(1 << 26) * 1e-9)
#define IMAGE (128.0 * 64 * 112 * 112 * 1e-9)

static dl_tensor *a, *b, *wide, *half, *whole, *truth, *column, *cube, *few_rows, *short_rows;
static dl_tensor *image, *last, *small_image, *mix, *first_of, *last_of, *reversed, *swapped, *doubled, *every_other;
static dl_tensor *leaf, *leaf_half, *target, *labels, *logits, *scale, *shift;
static dl_tensor *pick_rows, *pick_cols, *places, *parts, *some, *chance, *bf_rows, *bf_scale, *bf_shift;
static dl_tensor *table, *tokens, *rows, *one_row, *query;
static const long zero = 0, one = 1, two = 2, three = 3, seven = 7, hw[2] = {2, 3}, pads[4] = {1, 1, 1, 1};
static const long w768 = 768, n22 = 1 << 22;
static const double low = -0.5, high = 0.5;

/* Forward and backward of y = expr, a function of the tensors that follow. */
#define STEP(expr, ...)                                                                                                \
    (dl_grad_mode(1), bench_step(expr, (dl_tensor *[]){__VA_ARGS__},                                                   \
                                 (int)(sizeof((dl_tensor *[]){__VA_ARGS__}) / sizeof(dl_tensor *))))

static dl_tensor *pair(dl_tensor *first, dl_tensor *second) {
    dl_unref(second);
    return first;
}
/* Sums in any order, as PyTorch makes them. */
static dl_tensor *kept;
#define UNORDERED(expr) (dl_deterministic_set(0), kept = (expr), dl_deterministic_set(1), kept)

static dl_tensor *best_of_rows(void) {
    dl_tensor *index = NULL, *v = dl_max_dim(wide, 1, 0, &index);
    return v ? pair(v, index) : NULL;
}

/* All of the last dimension, or the first k. */
static dl_tensor *sorted(dl_tensor *x, long k) {
    dl_tensor *places = NULL, *values = k ? dl_topk(x, k, -1, 1, &places) : dl_sort(x, -1, 0, &places);
    return values ? pair(values, places) : NULL;
}
static dl_tensor *attended(int causal) {
    return dl_scaled_dot_product_attention(query, query, query, NULL, NULL, 0, causal, NULL, 0);
}

#define CASES(X)                                                                                                       \
    X(exp, 8 * N28, dl_exp(a))                                                                                         \
    X(sigmoid_bf16, 4 * N28, dl_sigmoid(half))                                                                         \
    X(pow, 12 * N28, dl_pow(b, b))                                                                                     \
    X(clamp, 8 * N28, dl_clamp(a, &low, &high))                                                                        \
    X(lt, 9 * N28, dl_lt(a, b))                                                                                        \
    X(where, 13 * N28, dl_where(truth, a, b))                                                                          \
    X(add_i64, 24 * N26, dl_add(whole, whole))                                                                         \
    X(add_column, 8 * N28, dl_add(wide, column))                                                                       \
    X(to_bf16, 6 * N28, dl_to(a, DL_BF16))                                                                             \
    X(to_f32, 6 * N28, dl_to(half, DL_F32))                                                                            \
    X(to_bool, 5 * N28, dl_to(a, DL_BOOL))                                                                             \
    X(copy_every_other, 6 * N28, dl_contiguous(every_other))                                                           \
    X(mean_middle, 4 * N28, dl_mean(cube, &one, 1, 0))                                                                 \
    X(sum_few_rows, 4 * N28, dl_sum(few_rows, &one, 1, 0))                                                             \
    X(sum_short_rows, 4 * N28, dl_sum(short_rows, &one, 1, 0))                                                         \
    X(amax, 4 * N28, dl_amax(a, NULL, 0, 0))                                                                           \
    X(amax_rows, 4 * N28, dl_amax(wide, &one, 1, 0))                                                                   \
    X(argmax, 4 * N28, dl_argmax(a, NULL, 0))                                                                          \
    X(argmax_rows, 4 * N28, dl_argmax(wide, &one, 0))                                                                  \
    X(argmax_cols, 4 * N28, dl_argmax(wide, &zero, 0))                                                                 \
    X(max_dim_rows, 4 * N28, best_of_rows())                                                                           \
    X(any, 1 * N28, dl_any(truth, NULL, 0, 0))                                                                         \
    X(prod_rows, 4 * N28, dl_prod(wide, &one, 0))                                                                      \
    X(var, 4 * N28, dl_var(a, NULL, 0, 1, 0))                                                                          \
    X(var_rows, 4 * N28, dl_var(wide, &one, 1, 1, 0))                                                                  \
    X(std_cols, 4 * N28, dl_std(wide, &zero, 1, 1, 0))                                                                 \
    X(norm, 4 * N28, dl_norm(a, NULL, 0, 0, 2))                                                                        \
    X(norm_rows, 4 * N28, dl_norm(wide, &one, 1, 0, 2))                                                                \
    X(cumsum_rows, 8 * N28, dl_cumsum(wide, 1))                                                                        \
    X(cumsum_cols, 8 * N28, dl_cumsum(a, 0))                                                                           \
    X(cumsum_short, 8 * N28, dl_cumsum(short_rows, 1))                                                                 \
    X(cumsum_i64, 16 * N26, dl_cumsum(whole, 0))                                                                       \
    X(cumsum_bf16, 4 * N28, dl_cumsum(half, 1))                                                                        \
    X(cat_rows, 16 * N28, dl_cat((dl_tensor *[]){a, b}, 2, 0))                                                         \
    X(cat_cols, 16 * N28, dl_cat((dl_tensor *[]){a, b}, 2, 1))                                                         \
    X(stack_last, 16 * N28, dl_stack((dl_tensor *[]){a, b}, 2, 2))                                                     \
    X(pad, 8 * IMAGE, dl_pad(image, pads, 4, 0, "constant"))                                                           \
    X(pad_reflect, 8 * IMAGE, dl_pad(image, pads, 4, 0, "reflect"))                                                    \
    X(pad_circular, 8 * IMAGE, dl_pad(image, pads, 4, 0, "circular"))                                                  \
    X(flip_cols, 8 * N28, dl_flip(a, &one, 1))                                                                         \
    X(flip_rows, 8 * N28, dl_flip(a, &zero, 1))                                                                        \
    X(to_last, 8 * IMAGE, dl_contiguous(last_of))                                                                      \
    X(to_first, 8 * IMAGE, dl_contiguous(first_of))                                                                    \
    X(turn_3, 8 * N28, dl_contiguous(reversed))                                                                        \
    X(swap_3, 8 * N28, dl_contiguous(swapped))                                                                         \
    X(turn_f64, 16 * N26, dl_contiguous(doubled))                                                                      \
    X(select_cols, 8 * N26, dl_index_select(wide, pick_cols, 1))                                                       \
    X(gather_cols, 16 * N26, dl_gather(mix, places, 1))                                                                \
    X(gather_step, 16 * N26, STEP(dl_gather(leaf, places, 1), leaf))                                                   \
    X(scatter_rows, 16 * N26, dl_scatter_add(mix, places, parts, 1))                                                   \
    X(gather_step_any, 16 * N26, UNORDERED(STEP(dl_gather(leaf, places, 1), leaf)))                                    \
    X(scatter_rows_any, 16 * N26, UNORDERED(dl_scatter_add(mix, places, parts, 1)))                                    \
    X(index_add_any, 16 * N26, UNORDERED(dl_index_add(mix, pick_rows, parts, 0)))                                      \
    X(index_add, 16 * N26, dl_index_add(mix, pick_rows, parts, 0))                                                     \
    X(one_hot, 8 * 65536 * 1000 * 1e-9, dl_one_hot(labels, 1000))                                                      \
    X(nonzero_2, 16 * N26 / 2, dl_nonzero(some))                                                                       \
    X(max_pool_2, 4 * IMAGE * 1.75, dl_max_pool2d(image, &two, 1, NULL, 0, NULL, 0, NULL, 0, 0))                       \
    X(max_pool_2_step, 4 * IMAGE * 3.5, STEP(dl_max_pool2d(image, &two, 1, NULL, 0, NULL, 0, NULL, 0, 0), image))      \
    X(avg_pool_3, 4 * IMAGE * 1.25, dl_avg_pool2d(image, &three, 1, &two, 1, &one, 1, 0, 1))                           \
    X(avg_pool_3_step, 4 * IMAGE * 2.5, STEP(dl_avg_pool2d(image, &three, 1, &two, 1, &one, 1, 0, 1), image))          \
    X(avg_pool_2_last, 5 * IMAGE, dl_avg_pool2d(last, &two, 1, NULL, 0, NULL, 0, 0, 1))                                \
    X(avg_pool_2_step, 10 * IMAGE, STEP(dl_avg_pool2d(image, &two, 1, NULL, 0, NULL, 0, 0, 1), image))                 \
    X(avg_pool_2_step_last, 10 * IMAGE, STEP(dl_avg_pool2d(last, &two, 1, NULL, 0, NULL, 0, 0, 1), last))              \
    X(adaptive_pool_7, 4 * IMAGE, dl_adaptive_avg_pool2d(small_image, &seven, 1))                                      \
    X(adaptive_pool_step, 8 * IMAGE, STEP(dl_adaptive_avg_pool2d(image, (long[]){5, 9}, 2), image))                    \
    X(global_pool_step, 8 * IMAGE, STEP(dl_mean(image, hw, 2, 1), image))                                              \
    X(global_pool_last, 4 * IMAGE, dl_mean(last, hw, 2, 1))                                                            \
    X(dropout_step, 15 * N26, STEP(dl_dropout(leaf, 0.1, 1), leaf))                                                    \
    X(elu_step, 16 * N26, STEP(dl_elu(leaf, 1), leaf))                                                                 \
    X(relu_step, 16 * N26, STEP(dl_relu(leaf), leaf))                                                                  \
    X(gelu_step_bf16, 8 * N26, STEP(dl_gelu(leaf_half, "none"), leaf_half))                                            \
    X(layer_norm_768_bf16, 4 * 65536 * 768 * 1e-9, dl_layer_norm(bf_rows, bf_scale, bf_shift, &w768, 1, 1e-5))         \
    X(layer_norm_768_step, 10 * 65536 * 768 * 1e-9,                                                                    \
      STEP(dl_layer_norm(bf_rows, bf_scale, bf_shift, &w768, 1, 1e-5), bf_rows, bf_scale, bf_shift))                   \
    X(rms_norm_768_bf16, 4 * 65536 * 768 * 1e-9, dl_rms_norm(bf_rows, bf_scale, &w768, 1, NULL))                       \
    X(rms_norm_768_step, 10 * 65536 * 768 * 1e-9,                                                                      \
      STEP(dl_rms_norm(bf_rows, bf_scale, &w768, 1, NULL), bf_rows, bf_scale))                                         \
    X(sort_short, 16 * N28, sorted(wide, 0))                                                                           \
    X(sort_rows, 16 * N26, sorted(mix, 0))                                                                             \
    X(sort_one, 16 * N26, sorted(one_row, 0))                                                                          \
    X(sort_i64, 24 * N26, sorted(whole, 0))                                                                            \
    X(topk_short, 4 * 65536 * 1000 * 1e-9, sorted(logits, 10))                                                         \
    X(topk_rows, 4 * N26, sorted(mix, 50))                                                                             \
    X(topk_one, 4 * N26, sorted(one_row, 50))                                                                          \
    X(tril, 8 * N28, dl_tril(a, 0))                                                                                    \
    X(attention, 4 * 16 * 12 * 1024 * 64 * 2 * 1e-9, attended(0))                                                      \
    X(attention_causal, 4 * 16 * 12 * 1024 * 64 * 2 * 1e-9, attended(1))                                               \
    X(group_norm, 8 * IMAGE, dl_group_norm(image, scale, shift, 8, 1e-5))                                              \
    X(group_norm_step, 20 * IMAGE, STEP(dl_group_norm(image, scale, shift, 8, 1e-5), image, scale, shift))             \
    X(mse_step, 12 * N26, STEP(dl_mse_loss(leaf, target, NULL, "mean"), leaf))                                         \
    X(l1_step, 12 * N26, STEP(dl_l1_loss(leaf, target, NULL, "mean"), leaf))                                           \
    X(bce_step, 12 * N26, STEP(dl_binary_cross_entropy_with_logits(leaf, chance, NULL, NULL, "mean"), leaf))           \
    X(nll_step, 8 * 65536 * 1000 * 1e-9, STEP(dl_nll_loss(logits, labels, NULL, "mean", -100), logits))                \
    X(rand, 4 * N28, dl_rand(dl_shape(a), 2, DL_F32, GPU))                                                             \
    X(randint, 8 * N26, dl_randint(0, 1000, (long[]){1 << 26}, 1, DL_I64, GPU))                                        \
    X(bernoulli, 8 * N26, dl_bernoulli(chance))                                                                        \
    X(randperm, 8 * n22 * 1e-9, dl_randperm(n22, DL_I64, GPU))                                                         \
    X(full, 4 * N28, dl_full(dl_shape(a), 2, 1.5, DL_F32, GPU))                                                        \
    X(full_bf16, 2 * N28, dl_full(dl_shape(a), 2, 1.5, DL_BF16, GPU))                                                  \
    X(arange, 8 * N26, dl_arange(1 << 26, NULL, 1, DL_I64, GPU))                                                       \
    X(eye, 4 * N28, dl_eye(1 << 14, NULL, DL_F32, GPU))                                                                \
    X(embedding_bf16, 4 * 65536 * 768 * 1e-9, dl_embedding(tokens, table, NULL))                                       \
    X(outer_sum, 4 * N28, dl_add(rows, column))

#define CASE(name, work, expr)                                                                                         \
    static dl_tensor *name##_run(void) { return expr; }
CASES(CASE)
static const bench_case cases[] = {
#define ROW(name, work, expr) {#name, "GB", work, name##_run},
    CASES(ROW)};

static dl_tensor *made(int dtype, int n, const long *shape) { return dl_randn(shape, n, dtype, GPU); }
#define NORMAL(dtype, ...) made(dtype, (int)(sizeof((long[]){__VA_ARGS__}) / sizeof(long)), (long[]){__VA_ARGS__})
static dl_tensor *numbers(long below, int n, const long *shape) { return dl_randint(0, below, shape, n, DL_I64, GPU); }
static dl_tensor *wants(dl_tensor *t) { return dl_set_requires_grad(t, 1) == DL_OK ? t : NULL; }
static dl_tensor *turned(dl_tensor *t, int n, const long *order) { return dl_permute(t, order, n); }

static void make_views(void) {
    every_other = dl_slice(NORMAL(DL_F32, 1 << 14, 1 << 15), 1, NULL, NULL, 2);
    last_of = turned(image, 4, (long[]){0, 2, 3, 1}),
    first_of = turned(NORMAL(DL_F32, 128, 112, 112, 64), 4, (long[]){0, 3, 1, 2});
    reversed = turned(NORMAL(DL_F32, 512, 1024, 512), 3, (long[]){2, 1, 0});
    swapped = turned(NORMAL(DL_F32, 512, 1024, 512), 3, (long[]){1, 0, 2});
    doubled = turned(NORMAL(DL_F64, 8192, 8192), 2, (long[]){1, 0});
}

static void make_indices(void) {
    const long square[2] = {8192, 8192}, n = 256, rows_of = 8192, labelled = 65536, spoken = 65536;
    pick_cols = numbers(1024, 1, &n), pick_rows = numbers(8192, 1, &rows_of), places = numbers(8192, 2, square);
    labels = numbers(1000, 1, &labelled), tokens = numbers(50257, 1, &spoken);
    mix = NORMAL(DL_F32, 8192, 8192), parts = NORMAL(DL_F32, 8192, 8192), leaf = wants(NORMAL(DL_F32, 8192, 8192));
    target = NORMAL(DL_F32, 8192, 8192), chance = dl_rand(square, 2, DL_F32, GPU);
    one_row = dl_reshape(mix, (long[]){1 << 26}, 1), query = NORMAL(DL_BF16, 16, 12, 1024, 64);
    some = dl_lt(mix, parts), leaf_half = wants(NORMAL(DL_BF16, 8192, 8192));
    logits = wants(NORMAL(DL_F32, 65536, 1000)), table = NORMAL(DL_BF16, 50257, 768);
}

static void make(void) {
    const long across[4] = {112 * 112 * 64, 1, 112 * 64, 64};
    a = NORMAL(DL_F32, 1 << 14, 1 << 14), b = dl_rand(dl_shape(a), 2, DL_F32, GPU), half = dl_to(a, DL_BF16);
    wide = NORMAL(DL_F32, 1 << 18, 1 << 10), whole = numbers(100, 1, (long[]){1 << 26}), truth = dl_lt(a, b);
    column = NORMAL(DL_F32, 1 << 18, 1), rows = NORMAL(DL_F32, 1, 1 << 10), cube = NORMAL(DL_F32, 64, 64, 1 << 16);
    few_rows = NORMAL(DL_F32, 16, 1 << 24), short_rows = NORMAL(DL_F32, 1 << 22, 64);
    image = wants(NORMAL(DL_F32, 128, 64, 112, 112)), last = wants(dl_restride(image, across, 4));
    small_image = NORMAL(DL_F32, 128, 64, 112, 112), scale = wants(NORMAL(DL_F32, 64));
    shift = wants(NORMAL(DL_F32, 64)), bf_rows = wants(NORMAL(DL_BF16, 65536, 768));
    bf_scale = wants(NORMAL(DL_BF16, 768)), bf_shift = wants(NORMAL(DL_BF16, 768));
    make_views();
    make_indices();
}

int main(int argc, char **argv) { return bench_main(argc, argv, cases, sizeof cases / sizeof *cases, make); }
