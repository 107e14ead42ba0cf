/* Kernel of batch_norm. Sums go over parts of fixed size (an image's plane, or a stretch of rows when channels are
 * innermost) whose results are added in order, so that they do not depend on the number of threads. */
#include "autograd/nonfinite.h"
#include "cpu/kernels/norm/norm.h"
#include "cpu/runtime/iter.h"
#include "ops/rules/norm.h"

#include <math.h>
#include <string.h>

/* x in memory as parts: [parts][C][rows] planes, or [parts * rows][C] with channels innermost. Rows of few channels are
 * taken some at a time, as one of `wide` columns. */
typedef struct parts {
    dl_dtype t;
    bool planes;
    long C, wide, total; /* values a channel */
    long n, rows;        /* parts, and rows of all but the last */
    long chunk, chunks;
} parts;

/* How many rows are one: as many as fit, and leave none. */
static long rows_in_one(long rows, long C) {
    long n = C ? DL_NORM_CHANNELS / C : 1;
    while (n > 1 && rows % n) n--;
    return n > 1 ? n : 1;
}

static long wide_rows(const parts *p) { return p->wide ? p->total * p->C / p->wide : 0; }

/* False when the memory order is neither of the two. */
static bool parts_of(const dl_tensor *x, parts *p) {
    long C = x->shape[1];
    *p = (parts){.t = x->dtype, .C = C, .wide = C, .total = C ? x->numel / C : 0};
    if (dl_is_contiguous(x) && x->ndim > 2) {
        p->planes = true;
        p->n = x->shape[0];
        p->rows = p->n ? p->total / p->n : 0;
        p->chunk = 1;
    } else if (dl_is_contiguous(x) || (x->stride[1] == 1 && dl_is_dense(x))) {
        p->wide = C * rows_in_one(p->total, C);
        const long rows = wide_rows(p);
        p->rows = (rows + 63) / 64 < 64 ? 64 : (rows + 63) / 64;
        p->n = (rows + p->rows - 1) / p->rows;
        p->chunk = DL_NORM_CHANNELS;
    } else {
        return false;
    }
    p->chunks = (p->wide + p->chunk - 1) / p->chunk;
    return true;
}

/* Task k: its columns, its rows, and (returned) the offset of its first element. */
static long part_at(const parts *p, long k, long *c0, long *nc, long *rows, long *stride) {
    const long part = k / p->chunks, left = wide_rows(p) - part * p->rows;
    *c0 = k % p->chunks * p->chunk;
    *nc = p->wide - *c0 < p->chunk ? p->wide - *c0 : p->chunk;
    *stride = p->planes ? 1 : p->wide;
    *rows = p->planes || left > p->rows ? p->rows : left;
    return p->planes ? (part * p->C + *c0) * p->rows : part * p->rows * p->wide + *c0;
}

/* Numbers of channels as those of columns: to[wide]. */
static void spread(const parts *p, double *to) {
    for (long i = p->C; i < p->wide; i++) to[i] = to[i - p->C];
}

static const dl_norm_loops *loops(const parts *p) { return &DL_SIMD_PICK(dl_norm)[p->t]; }

/* Those of parts and of columns in order, as of channel_sums. */
static void join(const parts *p, const double *each, bool plain, double *sum, double *more) {
    const long rows = wide_rows(p);
    for (long i = 0; i < p->C; i++) sum[i] = more[i] = 0;
    for (long part = 0, before = 0; part < p->n; part++, each += 2 * p->wide) {
        const long left = rows - part * p->rows, n = left < p->rows ? left : p->rows;
        for (long from = 0; from < p->wide; from += p->C, before += n)
            for (long i = 0; i < p->C; i++)
                if (plain)
                    sum[i] += each[from + i], more[i] += each[p->wide + from + i];
                else
                    dl_norm_merge(before, &sum[i], &more[i], n, each[from + i], each[p->wide + from + i]);
    }
}

/* Two numbers a channel, in sum[C] and more[C]: without g mean and sum of (x - mean)**2, else sums of g and of
 * g * (x - mean). */
static dl_status channel_sums(const parts *p, const char *x, const char *g, const double *mean, double *sum,
                              double *more) {
    long es = dl_dtype_size(p->t), count = p->n * p->wide * 2;
    double *each = dl_host_alloc((size_t)(count + 1) * sizeof *each);
    if (!each) return dl_failed();
    memset(each, 0, (size_t)count * sizeof *each);
    const dl_norm_loops *f = loops(p);
    dl_stop stop = dl_stop_begin();
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(p->total * p->C))
    for (long k = 0; k < p->n * p->chunks; k++) {
        if (dl_stop_asked(&stop)) continue;
        long c0, nc, rows, stride, at = part_at(p, k, &c0, &nc, &rows, &stride) * es;
        double *mine = each + k / p->chunks * p->wide * 2 + c0;
        if (g)
            f->grad_sums(x + at, g + at, rows, stride, nc, mean + c0, mine, mine + p->wide);
        else
            f->moments(x + at, rows, stride, nc, mine, mine + p->wide);
        dl_fp_hand_over();
    }
    dl_stop_end(&stop);
    join(p, each, g != NULL, sum, more);
    dl_host_free(each, (size_t)(count + 1) * sizeof *each);
    return DL_OK;
}

static double get(const dl_tensor *t, long i) {
    return dl_load_f64((char *)dl_ptr(t) + i * t->stride[0] * (long)dl_esize(t), t->dtype);
}
static void put(dl_tensor *t, long i, double v) {
    dl_store_f64((char *)dl_ptr(t) + i * t->stride[0] * (long)dl_esize(t), t->dtype, v);
}

/* Statistics of the batch into `mean` and `var`; running ones move towards them, with Bessel's correction. */
static dl_status batch_statistics(const dl_call *c, const parts *p, const char *x, double *mean, double *var) {
    dl_tensor *means = INPUT(c, BATCHNORM_RUNNING_MEAN), *vars = INPUT(c, BATCHNORM_RUNNING_VAR);
    double n = (double)p->total, m = ATTR_F(c, BATCHNORM_MOMENTUM);
    if (!p->total) { /* no elements: running statistics stay */
        for (long i = 0; i < p->C; i++) mean[i] = var[i] = 0;
        return DL_OK;
    }
    DL_TRY(channel_sums(p, x, NULL, NULL, mean, var));
    for (long i = 0; i < p->C; i++) {
        var[i] /= n;
        if (!means) continue;
        put(means, i, (1 - m) * get(means, i) + m * mean[i]);
        put(vars, i, (1 - m) * get(vars, i) + m * var[i] * n / (n - 1));
    }
    return DL_OK;
}

/* y = (x - mean) * rstd * weight + bias; x and y of one memory order. work: 4 * wide doubles. */
static dl_status normalise(const dl_call *c, const parts *p, const char *x, char *y, double *work) {
    double *mean = work, *var = mean + p->wide, *scale = var + p->wide, *shift = scale + p->wide;
    dl_tensor *weight = INPUT(c, BATCHNORM_WEIGHT), *bias = INPUT(c, BATCHNORM_BIAS);
    if (ATTR_I(c, BATCHNORM_TRAINING)) DL_TRY(batch_statistics(c, p, x, mean, var));
    for (long i = 0; i < p->C; i++) {
        if (!ATTR_I(c, BATCHNORM_TRAINING))
            mean[i] = get(INPUT(c, BATCHNORM_RUNNING_MEAN), i), var[i] = get(INPUT(c, BATCHNORM_RUNNING_VAR), i);
        double rstd = 1 / sqrt(var[i] + ATTR_F(c, BATCHNORM_EPS));
        put(OUTPUT(c, BATCHNORM_MEAN), i, mean[i]);
        put(OUTPUT(c, BATCHNORM_RSTD), i, rstd);
        scale[i] = rstd * (weight ? get(weight, i) : 1);
        shift[i] = bias ? get(bias, i) : 0;
    }
    spread(p, mean), spread(p, scale), spread(p, shift);
    const dl_norm_loops *f = loops(p);
    long es = dl_dtype_size(p->t);
    dl_stop stop = dl_stop_begin();
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(p->total * p->C))
    for (long k = 0; k < p->n * p->chunks; k++) {
        if (dl_stop_asked(&stop)) continue;
        long c0, nc, rows, stride, at = part_at(p, k, &c0, &nc, &rows, &stride) * es;
        f->apply(x + at, y + at, rows, stride, nc, mean + c0, scale + c0, shift + c0);
        dl_fp_hand_over();
    }
    dl_stop_end(&stop);
    return DL_OK;
}

/* A tensor for results: `of` itself, or a contiguous one where loops cannot write to it as it is. */
static dl_tensor *workable(dl_tensor *of) {
    parts p;
    return parts_of(of, &p) ? dl_ref(of) : dl_tensor_empty(of->ndim, of->shape, of->dtype, 0);
}

static dl_status batch_norm_run(dl_call *c) {
    dl_tensor *y = workable(c->out[0]), *x = y ? dl_cpu_strided_like(c->in[0], y) : NULL;
    parts p = {0};
    if (x) parts_of(y, &p);
    const size_t bytes = (size_t)(4 * p.wide + 1) * sizeof(double);
    double *work = x ? dl_host_alloc(bytes) : NULL;
    dl_status s = work ? DL_OK : dl_failed();
    if (s == DL_OK) s = normalise(c, &p, dl_ptr(x), dl_ptr(y), work);
    if (s == DL_OK && y != c->out[0]) dl_cpu_copy(c->out[0], y);
    if (work) dl_host_free(work, bytes);
    dl_unref(x);
    dl_unref(y);
    return s;
}

/* ---- gradient */

typedef struct norm_grad {
    parts p;
    dl_tensor *x, *g, *dx; /* of one memory order; dx NULL when not needed */
    double *mean, *rstd, *sum, *sumx, *a, *b, *c;
} norm_grad;

/* dx = g * a + (x - mean) * b + c, from dx = rstd w (g - mean(g) - xhat mean(g xhat)); without the means in evaluation.
 */
static void coefficients(norm_grad *n, const dl_tensor *w, bool training) {
    double m = (double)n->p.total;
    for (long i = 0; i < n->p.C; i++) {
        double r = n->rstd[i];
        n->a[i] = r * (w ? get(w, i) : 1);
        n->b[i] = training ? -n->a[i] * r * r * n->sumx[i] / m : 0;
        n->c[i] = training ? -n->a[i] * n->sum[i] / m : 0;
    }
    spread(&n->p, n->a), spread(&n->p, n->b), spread(&n->p, n->c);
}

static void apply_grad(const norm_grad *n) {
    const dl_norm_loops *f = loops(&n->p);
    const parts *p = &n->p;
    long es = dl_dtype_size(p->t);
    char *x = dl_ptr(n->x), *g = dl_ptr(n->g), *dx = dl_ptr(n->dx);
    dl_stop stop = dl_stop_begin();
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(p->total * p->C))
    for (long k = 0; k < p->n * p->chunks; k++) {
        if (dl_stop_asked(&stop)) continue;
        long c0, nc, rows, stride, at = part_at(p, k, &c0, &nc, &rows, &stride) * es;
        f->grad_apply(x + at, g + at, dx + at, rows, stride, nc, n->mean + c0, n->a + c0, n->b + c0, n->c + c0);
        dl_fp_hand_over();
    }
    dl_stop_end(&stop);
}

static dl_tensor *vector(dl_back *b, long n, dl_dtype t) { return T(dl_tensor_empty(1, &n, t, 0)); }

/* dweight = sum(g * xhat), dbias = sum(g). */
static dl_status give_vectors(dl_back *b, const norm_grad *n) {
    const int vectors[] = {DL_IN_BATCHNORM_WEIGHT, DL_IN_BATCHNORM_BIAS};
    for (int k = 0; k < 2; k++) {
        int i = vectors[k];
        if (!DL_NEED(i)) continue;
        dl_tensor *d = vector(b, n->p.C, dl_in_meta(b, i)->dtype);
        if (!d) return dl_failed();
        for (long c = 0; c < n->p.C; c++) put(d, c, i == DL_IN_BATCHNORM_WEIGHT ? n->sumx[c] * n->rstd[c] : n->sum[c]);
        DL_TRY(dl_give(b, i, dl_ref(d)));
    }
    return DL_OK;
}

static dl_status batch_norm_grad(dl_back *b) {
    bool training = ATTR_I(b, BATCHNORM_TRAINING);
    bool weight = b->nin > DL_IN_BATCHNORM_WEIGHT && META(BATCHNORM_WEIGHT)->ndim;
    dl_tensor *x = IN_(BATCHNORM_INPUT), *w = weight ? IN_(BATCHNORM_WEIGHT) : NULL;
    dl_tensor *mean = OUT_(BATCHNORM_MEAN), *rstd = OUT_(BATCHNORM_RSTD);
    if (!x || !mean || !rstd) return dl_fail_null("the input");
    norm_grad n = {.dx = T(workable(x))};
    if (n.dx == x) n.dx = T(dl_cpu_empty_like(x)); /* x is fine as it is; dx needs memory of its own */
    n.x = n.dx ? T(dl_cpu_strided_like(x, n.dx)) : NULL;
    n.g = n.x ? T(dl_cpu_strided_like(G0, n.dx)) : NULL;
    if (!n.g) return dl_failed();
    parts_of(n.dx, &n.p);
    dl_tensor *work = vector(b, 7 * n.p.wide, DL_F64);
    if (!work) return dl_failed();
    double **slot[] = {&n.mean, &n.rstd, &n.sum, &n.sumx, &n.a, &n.b, &n.c};
    for (int i = 0; i < 7; i++) *slot[i] = (double *)dl_ptr(work) + i * n.p.wide;
    for (long i = 0; i < n.p.C; i++) n.mean[i] = get(mean, i), n.rstd[i] = get(rstd, i);
    spread(&n.p, n.mean);
    DL_TRY(channel_sums(&n.p, dl_ptr(n.x), dl_ptr(n.g), n.mean, n.sum, n.sumx));
    DL_TRY(give_vectors(b, &n));
    if (!DL_NEED(0)) return DL_OK;
    coefficients(&n, w, training);
    apply_grad(&n);
    return dl_give(b, 0, dl_ref(n.dx));
}

const dl_kernel dl_cpu_batch_norm = {.run = batch_norm_run, .fused_grad = batch_norm_grad, .dtypes = DL_FLOATS};
