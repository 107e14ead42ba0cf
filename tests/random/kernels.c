/* Random convolutions, poolings, products, norms, reductions, losses and calls by index, with their gradients, against
 * f64: random shapes, small and odd, with 0 and 1 among the sizes, in random memory orders, in every floating type.
 *   random_kernels THREADS [KIND [FIRST [COUNT]]]      KIND is all, or one of the table `kinds`
 * A case depends on its kind and number alone. What fails is printed with the line that runs it alone; so is what
 * crashes. Meant for DLCORE_GUARD=1. */
#include "support/tensors.h"

#include "cpu/runtime/iter.h"
#include "dlcore/all.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { COUNT = 1200, MAX_IN = 6 };

/* What is computed: a call of the library over inputs of drawn shapes. */
typedef struct trial {
    uint64_t state; /* of its random numbers */
    char text[600];
    size_t used; /* of text */
    dl_dtype dtype;
    double tol;
    int n, trained; /* inputs; how many of them, the first, have gradients */
    int ndim[MAX_IN];
    long shape[MAX_IN][DL_MAX_DIM], below[MAX_IN]; /* not 0: an input of integers below that */
    bool absent[MAX_IN], positive[MAX_IN], no_halves;
    dl_tensor *(*call)(const struct trial *t, dl_tensor **in);
    long stride[2], pad[2], dil[2], k[2], groups, form;
} trial;

static int threads;
static char now[800]; /* for the handler of signals */

static uint64_t next(trial *t) { /* splitmix64 */
    uint64_t z = t->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static long pick(trial *t, long lo, long hi) { return lo + (long)(next(t) % (uint64_t)(hi - lo + 1)); }
static bool chance(trial *t, long one_in) { return pick(t, 1, one_in) == 1; }

/* Sizes about the widths of vectors, more often small. */
static long channels(trial *t) {
    static const long some[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65};
    return some[pick(t, 0, chance(t, 4) ? 20 : 13)];
}

static void say(trial *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->text + t->used, sizeof t->text - t->used, fmt, ap);
    va_end(ap);
    t->used += (size_t)n;
    assert_true(t->used < sizeof t->text);
}

static void input(trial *t, int ndim, const long *shape) {
    t->ndim[t->n] = ndim;
    memcpy(t->shape[t->n++], shape, (size_t)ndim * sizeof *shape);
}

/* ---- convolutions */

static dl_tensor *call_conv(const trial *t, dl_tensor **in) {
    return dl_conv2d(in[0], in[1], in[2], t->stride, 2, t->pad, 2, t->dil, 2, t->groups);
}

static dl_tensor *call_transposed(const trial *t, dl_tensor **in) {
    return dl_conv_transpose2d(in[0], in[1], in[2], t->stride, 2, t->pad, 2, NULL, 0, t->groups, t->dil, 2, NULL, 0);
}

static void window(trial *t, long most) {
    for (int d = 0; d < 2; d++) {
        t->k[d] = pick(t, 1, most);
        t->stride[d] = d && chance(t, 2) ? t->stride[0] : pick(t, 1, 3);
        t->pad[d] = chance(t, 2) ? 0 : pick(t, 0, 2);
        t->dil[d] = chance(t, 3) ? pick(t, 1, 3) : 1;
    }
}

static long extent(const trial *t, int d) { return t->dil[d] * (t->k[d] - 1) + 1 - 2 * t->pad[d]; }

static void draw_conv(trial *t) {
    bool transposed = chance(t, 5);
    long N = chance(t, 40) ? 0 : pick(t, 1, 4), size[2], c = channels(t), o = channels(t);
    window(t, chance(t, 2) ? 1 : 4);
    if (chance(t, 2)) t->pad[0] = t->pad[1] = 0;
    t->groups = chance(t, 4) ? pick(t, 1, 4) : 1;
    if (chance(t, 12)) t->groups = c, c = 1, o = pick(t, 1, 2);
    for (int d = 0; d < 2; d++) {
        size[d] = chance(t, 2) ? t->stride[d] * pick(t, 1, 9) : pick(t, 1, 24);
        if (size[d] < extent(t, d)) size[d] = extent(t, d);
    }
    t->tol = 1;
    t->call = transposed ? call_transposed : call_conv;
    t->trained = 3;
    input(t, 4, SHAPE(N, c * t->groups, size[0], size[1]));
    if (transposed)
        input(t, 4, SHAPE(c * t->groups, o, t->k[0], t->k[1]));
    else
        input(t, 4, SHAPE(o * t->groups, c, t->k[0], t->k[1]));
    input(t, 1, SHAPE(o * t->groups));
    t->absent[2] = chance(t, 2);
    say(t, "%s stride=[%ld,%ld] padding=[%ld,%ld] dilation=[%ld,%ld] groups=%ld",
        transposed ? "conv_transpose2d" : "conv2d", t->stride[0], t->stride[1], t->pad[0], t->pad[1], t->dil[0],
        t->dil[1], t->groups);
}

/* ---- pooling */

static dl_tensor *call_pool(const trial *t, dl_tensor **in) {
    switch (t->form) {
    case 0: return dl_max_pool2d(in[0], t->k, 2, t->stride, 2, t->pad, 2, t->dil, 2, (int)t->groups);
    case 1: return dl_avg_pool2d(in[0], t->k, 2, t->stride, 2, t->pad, 2, (int)t->groups, (int)t->dil[0] & 1);
    case 2: return dl_adaptive_avg_pool2d(in[0], t->k, 2);
    default: return dl_relu_max_pool2d(in[0], in[1], t->k, 2, t->stride, 2, t->pad, 2, t->dil, 2, (int)t->groups);
    }
}

static void draw_pool(trial *t) {
    static const char *const names[] = {"max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "relu_max_pool2d"};
    long c = channels(t), size[2];
    window(t, 4);
    t->form = pick(t, 0, 3), t->groups = chance(t, 3); /* ceil_mode */
    for (int d = 0; d < 2; d++) {
        if (t->pad[d] > t->k[d] / 2) t->pad[d] = t->k[d] / 2;
        size[d] = pick(t, 1, 24);
        if (t->pad[d] && t->dil[d] > 1 && size[d] % 2) size[d] = 1; /* where some windows see no pixel */
        if (size[d] < extent(t, d)) size[d] = extent(t, d);
    }
    t->tol = 1;
    t->call = call_pool;
    input(t, 4, SHAPE(chance(t, 40) ? 0 : pick(t, 1, 4), c, size[0], size[1]));
    if (t->form == 3) input(t, 1, &c);
    t->no_halves = t->form == 3; /* sums rounded to 16 bits can be equal: another place is then the largest */
    t->trained = t->n;
    say(t, "%s kernel=[%ld,%ld] stride=[%ld,%ld] padding=[%ld,%ld] dilation=[%ld,%ld] ceil_mode=%ld", names[t->form],
        t->k[0], t->k[1], t->stride[0], t->stride[1], t->pad[0], t->pad[1], t->dil[0], t->dil[1], t->groups);
}

/* ---- products */

static dl_tensor *call_product(const trial *t, dl_tensor **in) {
    return t->form ? dl_linear(in[0], in[1], in[2]) : dl_matmul(in[0], in[1]);
}

static long side(trial *t) { return chance(t, 30) ? 0 : chance(t, 4) ? pick(t, 60, 130) : channels(t); }

static void draw_product(trial *t) {
    long m = side(t), n = side(t), k = side(t), a[DL_MAX_DIM], b[DL_MAX_DIM];
    int batch = (int)pick(t, 0, 2);
    t->form = chance(t, 3);
    t->tol = 1;
    t->call = call_product;
    for (int i = 0; i < batch; i++) { /* one of the operands may repeat */
        a[i] = b[i] = pick(t, 1, 3);
        if (chance(t, 4)) (chance(t, 2) ? a : b)[i] = 1;
    }
    if (t->form) {
        a[batch] = m, a[batch + 1] = k;
        input(t, batch + 2, a), input(t, 2, SHAPE(n, k)), input(t, 1, &n);
        t->absent[2] = chance(t, 2);
    } else {
        bool row = chance(t, 6), column = chance(t, 6);
        a[batch] = m, a[batch + 1] = k, b[batch] = k, b[batch + 1] = n;
        input(t, row ? 1 : batch + 2, row ? &k : a);
        int skip = chance(t, 3) && batch ? 1 : 0; /* fewer dimensions on the right */
        input(t, column ? 1 : batch + 2 - skip, column ? &k : b + skip);
    }
    t->trained = t->n;
    say(t, "%s", t->form ? "linear" : "matmul");
}

/* ---- norms */

static dl_tensor *call_norm(const trial *t, dl_tensor **in) {
    const double eps = 0.05;
    int last = t->ndim[0];
    const long *tail = t->shape[0] + last - t->k[0];
    switch (t->form) {
    case 0: return dl_batch_norm(in[0], in[3], in[4], in[1], in[2], (int)t->groups, 0.1, eps);
    case 1: return dl_batch_norm_relu(in[0], in[3], in[4], in[1], in[2], (int)t->groups, 0.1, eps);
    case 2: return dl_group_norm(in[0], in[1], in[2], t->groups, eps);
    case 3: return dl_layer_norm(in[0], in[1], in[2], tail, (int)t->k[0], eps);
    case 4: return dl_rms_norm(in[0], in[1], tail, (int)t->k[0], &eps);
    case 5: return dl_softmax(in[0], t->k[0]);
    default: return dl_log_softmax(in[0], t->k[0]);
    }
}

static void draw_norm(trial *t) {
    static const char *const names[] = {"batch_norm", "batch_norm_relu", "group_norm", "layer_norm",
                                        "rms_norm",   "softmax",         "log_softmax"};
    long x[4] = {pick(t, 1, 5), channels(t), pick(t, 1, 9), pick(t, 1, 9)}, c;
    int ndim = (int)pick(t, 2, 4);
    t->form = pick(t, 0, 6);
    t->call = call_norm;
    t->tol = 40;
    t->groups = t->form == 2 ? pick(t, 1, 4) : pick(t, 0, 1); /* of group_norm; training of batch_norm */
    if (t->form == 2) x[1] *= t->groups;
    if (t->form < 2 && t->groups) x[0]++; /* statistics want two values */
    c = x[1];
    t->k[0] = t->form > 4 ? pick(t, 0, ndim - 1) : pick(t, 1, ndim - 1); /* dim; normalised dimensions */
    if (t->form > 2 && chance(t, 30)) x[0] = 0;
    input(t, ndim, x);
    if (t->form < 3)
        input(t, 1, &c), input(t, 1, &c);
    else if (t->form < 5)
        input(t, (int)t->k[0], x + ndim - t->k[0]);
    if (t->form == 3) input(t, (int)t->k[0], x + ndim - t->k[0]);
    t->trained = t->n;
    if (t->form < 2) input(t, 1, &c), input(t, 1, &c), t->positive[4] = true;
    if (t->form > 0 && t->form < 5) t->absent[1] = t->form > 1 && chance(t, 3), t->absent[2] = t->absent[1];
    say(t, "%s k=%ld groups=%ld", names[t->form], t->k[0], t->groups);
}

/* ---- reductions */

enum { SUM, MEAN, VAR, LOGSUMEXP, AMAX, SQUARE_SUM, NORM, PROD, CUMSUM, MAX_DIM, NREDUCTION };

/* `groups` has a bit for each dimension that is reduced, k[0] is the first of them. */
static dl_tensor *call_reduce(const trial *t, dl_tensor **in) {
    long dims[DL_MAX_DIM];
    int n = 0, keep = (int)t->pad[0];
    for (int d = 0; d < t->ndim[0]; d++)
        if (t->groups >> d & 1) dims[n++] = d;
    dl_tensor *index = NULL, *y;
    switch (t->form) {
    case SUM: return dl_sum(in[0], dims, n, keep);
    case MEAN: return dl_mean(in[0], dims, n, keep);
    case VAR: return dl_var(in[0], dims, n, t->pad[1], keep);
    case LOGSUMEXP: return dl_logsumexp(in[0], dims, n, keep);
    case AMAX: return dl_amax(in[0], dims, n, keep);
    case SQUARE_SUM: return dl_square_sum(in[0], dims, n, keep);
    case NORM: return dl_norm(in[0], dims, n, keep, (double)t->stride[0]);
    case PROD: return dl_prod(in[0], &t->k[0], keep);
    case CUMSUM: return dl_cumsum(in[0], t->k[0]);
    default: y = dl_max_dim(in[0], t->k[0], keep, &index); return dl_unref(index), y;
    }
}

static void draw_reduce(trial *t) {
    static const char *const names[] = {"sum",        "mean", "var",  "logsumexp", "amax",
                                        "square_sum", "norm", "prod", "cumsum",    "max_dim"};
    long x[4], terms = 1, last = 0;
    int ndim = (int)pick(t, 1, 4);
    bool large = chance(t, 6);
    for (int d = 0; d < ndim; d++) x[d] = large ? pick(t, 1, 5) : pick(t, 1, 17);
    t->form = pick(t, 0, NREDUCTION - 1);
    if (large && t->form != PROD) x[pick(t, 0, ndim - 1)] = pick(t, 60, 3000);
    t->k[0] = pick(t, 0, ndim - 1);
    t->groups = t->form >= PROD ? 1 << t->k[0] : pick(t, 1, (1 << ndim) - 1);
    if (chance(t, 30) && t->form != AMAX && t->form < PROD) x[pick(t, 0, ndim - 1)] = 0;
    for (int d = 0; d < ndim; d++)
        if (t->groups >> d & 1) terms *= x[d], last = d;
    t->pad[0] = chance(t, 3), t->pad[1] = pick(t, 0, 1), t->stride[0] = pick(t, 1, 3);
    if (t->form == VAR && terms < 2) x[last] += 2; /* an empty one stays one */
    t->tol = 10;
    t->call = call_reduce;
    input(t, ndim, x);
    t->positive[0] = t->no_halves = t->form == PROD; /* it would pass what f16 holds */
    t->trained = t->n;
    say(t, "%s dims=%ld keepdim=%ld p=%ld correction=%ld", names[t->form], t->groups, t->pad[0], t->stride[0],
        t->pad[1]);
}

/* ---- losses */

enum { CROSS_ENTROPY, NLL, MSE, L1, SMOOTH_L1, HUBER, BINARY, KL, NLOSS };

static dl_tensor *call_loss(const trial *t, dl_tensor **in) {
    static const char *const hows[] = {"mean", "sum", "none"};
    const char *how = hows[t->groups];
    double half = 0.5 * (double)t->stride[0];
    switch (t->form) {
    case CROSS_ENTROPY: return dl_cross_entropy(in[0], in[2], in[1], how, t->pad[0], t->pad[1] ? 0.1 : 0);
    case NLL: return dl_nll_loss(in[0], in[2], in[1], how, t->pad[0]);
    case MSE: return dl_mse_loss(in[0], in[1], NULL, how);
    case L1: return dl_l1_loss(in[0], in[1], NULL, how);
    case SMOOTH_L1: return dl_smooth_l1_loss(in[0], in[1], how, half);
    case HUBER: return dl_huber_loss(in[0], in[1], NULL, how, half);
    case BINARY: return dl_binary_cross_entropy_with_logits(in[0], in[1], NULL, NULL, how);
    default: return dl_kl_div(in[0], in[1], how, (int)t->pad[1]);
    }
}

static void draw_loss(trial *t) {
    static const char *const names[] = {"cross_entropy",
                                        "nll_loss",
                                        "mse_loss",
                                        "l1_loss",
                                        "smooth_l1_loss",
                                        "huber_loss",
                                        "binary_cross_entropy_with_logits",
                                        "kl_div"};
    long x[4] = {chance(t, 30) ? 0 : pick(t, 1, 9), channels(t), pick(t, 1, 9), pick(t, 1, 9)},
         y[3] = {x[0], x[2], x[3]};
    int ndim = (int)pick(t, 2, 4);
    t->form = pick(t, 0, NLOSS - 1);
    t->groups = pick(t, 0, 2), t->stride[0] = pick(t, 1, 3);
    t->pad[0] = chance(t, 3) ? pick(t, 0, x[1] - 1) : -100, t->pad[1] = pick(t, 0, 1);
    t->tol = 10;
    t->call = call_loss;
    t->no_halves = t->form == KL; /* terms of either sign, each rounded */
    input(t, ndim, x);
    if (t->form <= NLL) {
        t->trained = 1;
        input(t, 1, &x[1]), t->positive[1] = true, t->absent[1] = chance(t, 2);
        input(t, ndim - 1, y), t->below[2] = x[1];
    } else {
        input(t, ndim, x);
        t->positive[1] = t->form == KL && !t->pad[1];
        t->trained = t->n;
    }
    say(t, "%s reduction=%ld ignore_index=%ld option=%ld beta=%ld/2", names[t->form], t->groups, t->pad[0], t->pad[1],
        t->stride[0]);
}

/* ---- by index */

enum { INDEX_SELECT, INDEX_ADD, GATHER, SCATTER_ADD, EMBEDDING, CAT, SORT, TOPK, NINDEX };

/* k[0] is the dimension. */
static dl_tensor *call_index(const trial *t, dl_tensor **in) {
    dl_tensor *at = NULL, *y;
    switch (t->form) {
    case INDEX_SELECT: return dl_index_select(in[0], in[1], t->k[0]);
    case INDEX_ADD: return dl_index_add(in[0], in[2], in[1], t->k[0]);
    case GATHER: return dl_gather(in[0], in[1], t->k[0]);
    case SCATTER_ADD: return dl_scatter_add(in[0], in[2], in[1], t->k[0]);
    case EMBEDDING: return dl_embedding(in[1], in[0], t->pad[0] ? &t->pad[1] : NULL);
    case CAT: return dl_cat(in, 3, t->k[0]);
    case SORT: y = dl_sort(in[0], t->k[0], (int)t->pad[0], &at); break;
    default: y = dl_topk(in[0], t->k[1], t->k[0], (int)t->pad[0], &at);
    }
    dl_unref(at);
    return y;
}

static void draw_index(trial *t) {
    static const char *const names[] = {"index_select", "index_add", "gather", "scatter_add",
                                        "embedding",    "cat",       "sort",   "topk"};
    long x[4] = {pick(t, 1, 9), channels(t), pick(t, 1, 9), pick(t, 1, 40)}, y[4], n;
    int ndim = (int)pick(t, 1, 4);
    t->form = pick(t, 0, NINDEX - 1);
    if (t->form == EMBEDDING) ndim = 2;
    long d = t->form == EMBEDDING ? 0 : pick(t, 0, ndim - 1), size = x[d];
    t->k[0] = d, t->k[1] = pick(t, 0, size);
    t->pad[0] = pick(t, 0, 1), t->pad[1] = pick(t, 0, size - 1);
    n = chance(t, 20) ? 0 : chance(t, 8) ? pick(t, 100, 600) : pick(t, 1, 20);
    t->tol = 4;
    t->call = call_index;
    memcpy(y, x, sizeof y);
    y[d] = n;
    input(t, ndim, x);
    if (t->form == INDEX_ADD || t->form == SCATTER_ADD || t->form == CAT) input(t, ndim, y);
    if (t->form == CAT) input(t, ndim, x);
    t->trained = t->n;
    if (t->form == INDEX_SELECT || t->form == INDEX_ADD)
        t->below[t->n] = size, input(t, 1, &n);
    else if (t->form == GATHER || t->form == SCATTER_ADD)
        t->below[t->n] = size, input(t, ndim, y);
    else if (t->form == EMBEDDING)
        t->below[t->n] = size, input(t, 2, SHAPE(pick(t, 1, 4), n));
    say(t, "%s dim=%ld k=%ld option=%ld,%ld", names[t->form], d, t->k[1], t->pad[0], t->pad[1]);
}

/* ---- the trial */

static const struct {
    const char *name;
    void (*draw)(trial *);
} kinds[] = {{"conv", draw_conv},     {"pool", draw_pool}, {"product", draw_product}, {"norm", draw_norm},
             {"reduce", draw_reduce}, {"loss", draw_loss}, {"index", draw_index}};

enum { NKIND = sizeof kinds / sizeof *kinds };

/* The same values in another memory order, dense. */
static dl_tensor *reordered(trial *t, dl_tensor *x, bool last) {
    static const int channels_last[] = {1, 3, 2, 0};
    int ndim = dl_ndim(x), order[DL_MAX_DIM];
    long stride[DL_MAX_DIM], step = 1;
    for (int i = 0; i < ndim; i++) order[i] = i;
    for (int i = ndim - 1; i > 0; i--) {
        int j = (int)pick(t, 0, i), o = order[i];
        order[i] = order[j], order[j] = o;
    }
    if (last && ndim == 4) memcpy(order, channels_last, sizeof channels_last);
    for (int i = 0; i < ndim; i++) stride[order[i]] = step, step *= dl_shape(x)[order[i]] ? dl_shape(x)[order[i]] : 1;
    return must(dl_restride(x, stride, ndim));
}

/* The same values as a part of a larger tensor, every step-th. */
static dl_tensor *part(trial *t, dl_tensor *x) {
    int ndim = dl_ndim(x);
    long size[DL_MAX_DIM], from = pick(t, 0, 2), step = pick(t, 1, 2), d = pick(t, 0, ndim - 1);
    memcpy(size, dl_shape(x), (size_t)ndim * sizeof *size);
    long stop = from + step * size[d];
    size[d] = stop + pick(t, 0, 1);
    double outside = dl_dtype_is_float(dl_dtype_of(x)) ? NAN : 1e9; /* elements that may not be read */
    dl_tensor *whole = must(dl_tensor_full(ndim, size, dl_dtype_of(x), 0, outside));
    dl_tensor *view = must(dl_slice(whole, d, &from, &stop, step));
    ok(dl_assign(view, x));
    dl_tensor *out = must(dl_detach(view));
    dl_unref(whole), dl_unref(view);
    return out;
}

/* A dimension of which every index is the same memory. */
static dl_tensor *repeated(trial *t, dl_tensor *x) {
    int ndim = dl_ndim(x);
    long d = pick(t, 0, ndim - 1), from = 0, to = 1;
    if (!dl_shape(x)[d]) return dl_ref(x);
    dl_tensor *one = must(dl_slice(x, d, &from, &to, 1)), *all = must(dl_expand(one, dl_shape(x), ndim));
    dl_tensor *out = must(dl_detach(all));
    dl_unref(one), dl_unref(all);
    return out;
}

static dl_tensor *laid_out(trial *t, dl_tensor *x) {
    long how = dl_ndim(x) ? pick(t, 0, 7) : 0;
    dl_tensor *out = how < 2   ? dl_ref(x)
                     : how < 4 ? reordered(t, x, true)
                     : how < 5 ? reordered(t, x, false)
                     : how < 7 ? part(t, x)
                               : repeated(t, x);
    dl_unref(x);
    return out;
}

static dl_tensor *integers(trial *t, int i) {
    dl_tensor *x = must(dl_tensor_empty(t->ndim[i], t->shape[i], chance(t, 4) ? DL_I32 : DL_I64, 0));
    for (long j = 0; j < dl_numel(x); j++)
        dl_store_f64((char *)dl_data(x) + j * dl_dtype_size(dl_dtype_of(x)), dl_dtype_of(x),
                     (double)pick(t, 0, t->below[i] - 1));
    return laid_out(t, x);
}

static dl_tensor *made(trial *t, int i) {
    if (t->below[i]) return integers(t, i);
    dl_tensor *x = drawn((unsigned)next(t), t->ndim[i], t->shape[i], DL_F32);
    float *v = dl_data(x);
    for (long j = 0; t->positive[i] && j < dl_numel(x); j++) v[j] = fabsf(v[j]) + 0.5f;
    dl_tensor *own = must(dl_to(x, (int)t->dtype));
    dl_unref(x);
    return i < t->trained ? laid_out(t, own) : own;
}

static dl_tensor *wide(dl_tensor *x) {
    dl_tensor *to = must(dl_to(x, DL_F64)), *flat = must(dl_contiguous(to)), *own = must(dl_clone(flat));
    dl_unref(to), dl_unref(flat);
    return own;
}

/* |a - b| against |b| and, for results that vanish, against one unit an element. */
static void compare(const trial *t, const dl_tensor *a, const dl_tensor *b, const char *what, int which) {
    static const double units[] = {[DL_F16] = 4e-3, [DL_BF16] = 4e-2, [DL_F32] = 5e-6, [DL_F64] = 1e-14};
    double *x = values(a), *y = values(b), num = 0, den = 0, unit = units[t->dtype],
           scale = t->dtype < DL_F32 ? 1 : t->tol;
    assert_int_equal(dl_numel(a), dl_numel(b));
    for (long i = 0; i < dl_numel(a); i++) {
        if (x[i] == y[i] && isinf(y[i])) continue; /* the largest of a window that sees no pixel */
        if (t->dtype == DL_F16 && isinf(x[i]) && fabs(y[i]) > 65504) continue; /* more than f16 holds */
        if (isnan(x[i]) && isnan(y[i])) continue;                              /* the mean of nothing */
        num += (x[i] - y[i]) * (x[i] - y[i]), den += y[i] * y[i];
    }
    free(x), free(y);
    double limit = unit * scale * (sqrt(den) + 0.1 * sqrt((double)dl_numel(a)));
    if (!(sqrt(num) <= limit))
        fail_msg("%s\n%s %d is off by %g, at most %g allowed", now, what, which, sqrt(num), limit);
}

static void compare_gradients(trial *t, dl_tensor *y, dl_tensor *want, dl_tensor **in, dl_tensor **ref) {
    dl_tensor *seed = laid_out(t, drawn((unsigned)next(t), dl_ndim(y), dl_shape(y), dl_dtype_of(y))),
              *same = wide(seed);
    dl_tensor *a[MAX_IN], *b[MAX_IN], *from[MAX_IN], *base[MAX_IN];
    int n = 0;
    for (int i = 0; i < t->trained; i++)
        if (in[i]) from[n] = in[i], base[n++] = ref[i];
    if (dl_gradients(y, seed, from, n, 0, 0, a) != DL_OK || dl_gradients(want, same, base, n, 0, 0, b) != DL_OK)
        fail_msg("%s\n%s", now, dl_errmsg());
    for (int i = 0; i < n; i++) {
        compare(t, must(a[i]), must(b[i]), "gradient", i);
        dl_unref(a[i]), dl_unref(b[i]);
    }
    dl_unref(seed), dl_unref(same);
}

static void run(trial *t) {
    dl_tensor *in[MAX_IN] = {0}, *ref[MAX_IN] = {0};
    for (int i = 0; i < t->n; i++) {
        if (t->absent[i]) continue;
        in[i] = made(t, i);
        ref[i] = t->below[i] ? dl_ref(in[i]) : wide(in[i]);
        if (i < t->trained) leaf(in[i]), leaf(ref[i]);
    }
    dl_tensor *y = t->call(t, in), *want = t->call(t, ref);
    if (!y != !want) fail_msg("%s\n%s", now, dl_errmsg());
    if (y) {
        compare(t, y, want, "result", 0);
        for (int i = t->trained; i < t->n; i++)
            if (in[i] && !t->below[i]) compare(t, in[i], ref[i], "statistics", i);
        compare_gradients(t, y, want, in, ref);
    } else { /* windows larger than the image */
        assert_int_equal(dl_failed(), DL_ERR_SHAPE);
    }
    for (int i = 0; i < t->n; i++) dl_unref(in[i]), dl_unref(ref[i]);
    dl_unref(y), dl_unref(want);
}

static void describe(trial *t, const char *kind, long number) {
    static const dl_dtype types[] = {DL_F32, DL_F32, DL_F32, DL_F32, DL_F64, DL_BF16, DL_F16};
    t->dtype = types[pick(t, 0, t->no_halves ? 4 : 6)];
    say(t, " %s", dl_dtype_name(t->dtype));
    for (int i = 0; i < t->n; i++) say(t, " %s", t->absent[i] ? "none" : dl_shape_text(t->ndim[i], t->shape[i]));
    snprintf(now, sizeof now, "%s\nalone: DLCORE_GUARD=1 random_kernels %d %s %ld 1", t->text, threads, kind, number);
}

static struct {
    const char *kind;
    long first, count;
} asked = {"all", 0, COUNT};

static void died(int signal_number) {
    static const char head[] = "\nthe process died in: ";
    ssize_t n = write(STDERR_FILENO, head, sizeof head - 1);
    n += write(STDERR_FILENO, now, strlen(now));
    n += write(STDERR_FILENO, "\n", 1);
    (void)n; /* nothing is left to be done when writing fails */
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* In place of the handlers that cmocka sets around a test. */
static void watch(void) {
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    for (unsigned i = 0; i < sizeof deadly / sizeof *deadly; i++) signal(deadly[i], died);
}

static void run_kind(void **state) {
    long kind = (long)(intptr_t)*state;
    if (strcmp(asked.kind, "all") != 0 && strcmp(asked.kind, kinds[kind].name) != 0) return;
    watch();
    for (long i = asked.first; i < asked.first + asked.count; i++) {
        trial t = {.state = (uint64_t)(kind << 32) + (uint64_t)i, .groups = 1};
        kinds[kind].draw(&t);
        describe(&t, kinds[kind].name, i);
        run(&t);
    }
}

int main(int argc, char **argv) {
    threads = argc > 1 ? atoi(argv[1]) : 1;
    if (argc > 2) asked.kind = argv[2];
    if (argc > 3) asked.first = atol(argv[3]);
    if (argc > 4) asked.count = atol(argv[4]);
    if (dl_threads_set(threads) != DL_OK) return 2;
    dl_cpu_grain(1); /* all of them, for small shapes, too */
    struct CMUnitTest tests[NKIND];
    for (long i = 0; i < NKIND; i++)
        tests[i] =
            (struct CMUnitTest){.name = kinds[i].name, .test_func = run_kind, .initial_state = (void *)(intptr_t)i};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
