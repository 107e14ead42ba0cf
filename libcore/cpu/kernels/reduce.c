/* The driver of reductions, and their kernels. The kept dimensions are cut into tiles: single results where the reduced
 * elements are dense, else up to DL_REDUCE_TILE results side by side. The reduced dimensions are cut into pieces; the
 * pieces of long reductions are grouped, so that threads can share them. */
#include "core/scope.h"
#include "core/widening.h"
#include "cpu/kernels/pointwise/row_sum.h"
#include "cpu/kernels/reduce.h"
#include "cpu/runtime/half.h"
#include "ops/compose/rows/row_sum.h"
#include "ops/infer.h"
#include "ops/rules/reduce.h"

#include <math.h>
#include <string.h>

enum {
    FEW_TERMS = 16,
    FEW_WIDE = 16,
    ROW_PIECE = 32768,
    COLS_PIECE = 2048,
    GROUP = 65536,
    ENOUGH_TILES = 64,
    ROWS = 64,          /* single results that are stored together */
    SHORT = 32,         /* elements */
    LINE = 64,          /* bytes */
    COPIED_FROM = 4096, /* elements */
    EXTREMES = 4096,    /* elements of a piece whose extremes are sought */
    LEVELS = 20
};

typedef struct dim {
    long n, x, out; /* size, step in x in bytes, step in out in elements */
} dim;

typedef struct plan {
    const dl_reducer *r;
    const char *x, *m;
    char *out;
    dim kept[DL_MAX_DIM], red[DL_MAX_DIM];
    int nkept, nred;
    bool cols, few;       /* few: a handful of terms, each taken from many results at once */
    long width, tiles_in; /* of a tile; tiles along kept[0] */
    long terms, esize;
    dl_dtype half; /* of short rows of 16 bits, which are converted many at once; DL_F32: none */
    long tiles, chunk, per_row, pieces, group, groups;
    dl_stop *stop;
} plan;

/* ---- planning */

static bool before(const dim *a, const dim *b) { return a->x && (!b->x || a->x < b->x); }

/* Orders dimensions by their steps in memory, repeated ones last, and merges those that are one in memory. */
static int tidy(dim *d, int n) {
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && before(&d[j], &d[j - 1]); j--) {
            dim t = d[j];
            d[j] = d[j - 1], d[j - 1] = t;
        }
    int m = 0;
    for (int i = 0; i < n; i++) {
        dim *last = m ? &d[m - 1] : NULL;
        if (last && d[i].x == last->x * last->n && d[i].out == last->out * last->n)
            last->n *= d[i].n;
        else
            d[m++] = d[i];
    }
    if (!m) d[m++] = (dim){1, 0, 0};
    return m;
}

static void split(plan *p, const dl_tensor *x, unsigned mask) {
    long size = (long)dl_esize(x), step = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        dim v = {x->shape[d], x->stride[d] * size, 0};
        if (mask >> d & 1) {
            if (v.n != 1) p->red[p->nred++] = v;
            continue;
        }
        v.out = step;
        step *= v.n;
        if (v.n != 1) p->kept[p->nkept++] = v;
    }
    p->nkept = tidy(p->kept, p->nkept);
    p->nred = tidy(p->red, p->nred);
    p->cols = p->red[0].x != size && p->kept[0].x == size;
}

/* Depends on shape and strides alone, and so does the order of additions. */
static void measure(plan *p) {
    long n = p->kept[0].n;
    p->terms = 1;
    for (int d = 0; d < p->nred; d++) p->terms *= p->red[d].n;
    p->few = !p->cols && p->nred > 1 && p->terms <= FEW_TERMS && n >= FEW_WIDE;
    p->width = !p->cols && !p->few ? 1 : n < DL_REDUCE_TILE ? n : DL_REDUCE_TILE;
    p->tiles_in = (n + p->width - 1) / p->width;
    p->tiles = p->tiles_in;
    for (int d = 1; d < p->nkept; d++) p->tiles *= p->kept[d].n;
    p->chunk = p->cols ? COLS_PIECE : ROW_PIECE;
    p->per_row = (p->red[0].n + p->chunk - 1) / p->chunk;
    p->pieces = p->per_row;
    for (int d = 1; d < p->nred; d++) p->pieces *= p->red[d].n;
    long piece = (p->red[0].n < p->chunk ? p->red[0].n : p->chunk) * p->width;
    p->group = p->tiles >= ENOUGH_TILES ? p->pieces : GROUP / piece > 1 ? GROUP / piece : 1;
    p->groups = (p->pieces + p->group - 1) / p->group;
}

/* Results that are few elements apart, of elements that are far apart: read one result after another, each line of
 * memory would be read for each of its elements. */
static bool interleaved(const plan *p, const dl_tensor *x) {
    const dim *kept = &p->kept[0], *red = &p->red[0];
    return !p->cols && !p->few && x->numel >= COPIED_FROM && kept->n >= FEW_WIDE && red->n >= FEW_WIDE && kept->x > 0 &&
           kept->x < LINE && red->x >= kept->x * kept->n;
}

/* ---- running */

/* Partial results of pieces, joined like the carries of a binary counter, so that rounding errors grow slowly. */
typedef struct carry {
    double level[LEVELS][DL_REDUCE_TILE];
    unsigned used;
} carry;

static void push(const plan *p, carry *c, long width, void *acc) {
    size_t bytes = (size_t)(width * p->r->size);
    int k = 0;
    for (; c->used >> k & 1 && k < LEVELS - 1; k++) {
        p->r->join(width, c->level[k], acc);
        memcpy(acc, c->level[k], bytes);
        c->used &= ~(1u << k);
    }
    if (c->used >> k & 1)
        p->r->join(width, c->level[k], acc);
    else
        memcpy(c->level[k], acc, bytes);
    c->used |= 1u << k;
}

static void collect(const plan *p, carry *c, long width, void *acc) {
    bool first = true;
    for (int k = 0; k < LEVELS; k++) {
        if (!(c->used >> k & 1)) continue;
        if (!first) p->r->join(width, c->level[k], acc);
        memcpy(acc, c->level[k], (size_t)(width * p->r->size));
        first = false;
    }
}

typedef struct tile {
    const char *x;
    long out, width;
} tile;

static tile tile_at(const plan *p, long t) {
    long j = t % p->tiles_in * p->width, rest = t / p->tiles_in;
    tile r = {p->x + j * p->kept[0].x, j * p->kept[0].out, p->kept[0].n - j};
    if (r.width > p->width) r.width = p->width;
    for (int d = 1; d < p->nkept; d++) {
        long i = rest % p->kept[d].n;
        rest /= p->kept[d].n;
        r.x += i * p->kept[d].x;
        r.out += i * p->kept[d].out;
    }
    return r;
}

static void run_piece(const plan *p, const tile *t, long piece, void *acc) {
    long lo = piece % p->per_row * p->chunk, rest = piece / p->per_row, n = p->red[0].n - lo;
    const char *x = t->x + lo * p->red[0].x, *m = p->m ? p->m + t->out * p->r->result : NULL;
    for (int d = 1; d < p->nred; d++) {
        x += rest % p->red[d].n * p->red[d].x;
        rest /= p->red[d].n;
    }
    if (n > p->chunk) n = p->chunk;
    if (p->cols)
        p->r->cols(n, t->width, x, p->red[0].x, m, p->kept[0].out, acc);
    else
        p->r->row(n, x, p->red[0].x, m, acc);
}

static void run_group(const plan *p, const tile *t, long g, void *acc) {
    long lo = g * p->group, hi = lo + p->group < p->pieces ? lo + p->group : p->pieces;
    if (hi - lo == 1) {
        run_piece(p, t, lo, acc);
        return;
    }
    carry c;
    c.used = 0;
    for (long i = lo; i < hi && !dl_stop_asked(p->stop); i++) {
        run_piece(p, t, i, acc);
        push(p, &c, t->width, acc);
    }
    collect(p, &c, t->width, acc);
}

static void store(const plan *p, const tile *t, const void *acc) {
    p->r->store(t->width, acc, p->out + t->out * p->r->result, p->kept[0].out * p->r->result);
}

/* ---- few terms: those of one place of the reduced dimensions are laid out side by side */

#define SIDE_BY_SIDE(T)                                                                                                \
    static void side_by_side_##T(long n, const char *x, long step, void *out) {                                        \
        for (long i = 0; i < n; i++) ((T *)out)[i] = *(const T *)(x + i * step);                                       \
    }
SIDE_BY_SIDE(char)
SIDE_BY_SIDE(short)
SIDE_BY_SIDE(int)
SIDE_BY_SIDE(long)

static void run_few(void *arg, long i) {
    const plan *p = arg;
    static void (*const lay[9])(long, const char *, long, void *) = {
        [1] = side_by_side_char, [2] = side_by_side_short, [4] = side_by_side_int, [8] = side_by_side_long};
    double acc[DL_REDUCE_TILE], more[DL_REDUCE_TILE], line[DL_REDUCE_TILE];
    tile t = tile_at(p, i);
    const char *m = p->m ? p->m + t.out * p->r->result : NULL;
    for (long k = 0; k < p->terms; k++) {
        const char *x = t.x;
        for (long d = 0, rest = k; d < p->nred; rest /= p->red[d++].n) x += rest % p->red[d].n * p->red[d].x;
        lay[p->esize](t.width, x, p->kept[0].x, line);
        p->r->cols(1, t.width, (const char *)line, t.width * p->esize, m, p->kept[0].out, k ? more : acc);
        if (k) p->r->join(t.width, acc, more);
    }
    store(p, &t, acc);
}

typedef struct job {
    const plan *p;
    char *part;       /* results of groups; NULL when there is one group a tile */
    long bands, band; /* rows: results along kept[0] shared by tasks */
} job;

/* Single results of one piece each, without the bookkeeping of tiles. */
static void run_band(void *arg, long i) {
    const job *j = arg;
    const plan *p = j->p;
    long n = p->kept[0].n, lo = i % j->bands * j->band, hi = lo + j->band < n ? lo + j->band : n;
    long size = p->r->result, step = p->kept[0].out * size;
    tile t = tile_at(p, i / j->bands * n);
    const char *m = p->m ? p->m + t.out * size : NULL;
    char *out = p->out + t.out * size;
    const bool direct = p->r->size == size && step == size;
    const long length = p->red[0].n;
    long row = p->kept[0].x, next = p->red[0].x;
    double acc[ROWS];
    float wide[ROWS * SHORT];
    for (long k = lo, some; k < hi; k += some) {
        char *to = out + k * step, *at = direct ? to : (char *)acc;
        const char *x = t.x + k * p->kept[0].x;
        some = hi - k < ROWS ? hi - k : ROWS;
        if (p->half != DL_F32) {
            dl_cpu_half_to_f32(some * length, x, p->half, wide);
            x = (char *)wide, next = sizeof *wide, row = length * next;
        }
        for (long i = 0; i < some; i++)
            p->r->row(length, x + i * row, next, m ? m + (k + i) * step : m, at + i * p->r->size);
        if (!direct) p->r->store(some, acc, to, step);
    }
}

static void run_rows(const plan *p, int threads) {
    long n = p->kept[0].n, outer = p->tiles / n;
    long least = outer > 1 ? 1 : threads, blocks = n * p->red[0].n / DL_ITER_BLOCK;
    job j = {.p = p, .bands = blocks > least ? blocks : least};
    j.band = (n + j.bands - 1) / j.bands;
    j.bands = (n + j.band - 1) / j.band;
    dl_cpu_for(outer * j.bands, threads, run_band, &j);
}

static void run_task(void *arg, long i) {
    const job *j = arg;
    const plan *p = j->p;
    double acc[DL_REDUCE_TILE];
    tile t = tile_at(p, i / p->groups);
    run_group(p, &t, i % p->groups, j->part ? (void *)(j->part + i * p->width * (long)sizeof(double)) : acc);
    if (!j->part) store(p, &t, acc);
}

static void run_tiles(const plan *p, char *part, int threads) {
    long size = p->width * (long)sizeof(double);
    job j = {.p = p, .part = part};
    dl_cpu_for(p->tiles * p->groups, threads, run_task, &j);
    for (long k = 0; part && k < p->tiles && !dl_stop_asked(p->stop); k++) {
        tile t = tile_at(p, k);
        char *a = part + k * p->groups * size;
        for (long step = 1; step < p->groups; step *= 2)
            for (long g = 0; g + step < p->groups; g += 2 * step)
                p->r->join(t.width, a + g * size, a + (g + step) * size);
        store(p, &t, a);
    }
}

static void fill(void *out, long n, dl_dtype dtype, double value) {
    for (long i = 0; i < n; i++) dl_store_f64((char *)out + i * dl_dtype_size(dtype), dtype, value);
}

/* Elements of one result. */
static long terms(const dl_tensor *x, unsigned mask) {
    long n = 1;
    for (int d = 0; d < x->ndim; d++) n *= mask >> d & 1 ? x->shape[d] : 1;
    return n;
}

static dl_tensor *dense_copy(const dl_tensor *x) {
    dl_tensor *dense = dl_tensor_empty(x->ndim, x->shape, x->dtype, 0);
    if (dense) dl_cpu_copy(dense, x);
    return dense;
}

dl_status dl_cpu_reduce(dl_reduce_id id, const dl_tensor *x, unsigned mask, const void *m, void *out) {
    plan p = {.x = dl_ptr(x), .m = m, .out = out, .esize = (long)dl_esize(x), .half = DL_F32};
    const bool half = DL_BIT(x->dtype) & DL_HALVES;
    const dl_dtype t = half ? DL_F32 : x->dtype;
    if (id == DL_R_SUM && t == DL_F32 && terms(x, mask) <= DL_REDUCE_FEW) id = DL_R_SUM_FEW;
    p.r = &DL_SIMD_PICK(dl_reducer_table)[id][x->dtype];
    if (!x->numel) {
        long n = 1;
        for (int d = 0; d < x->ndim; d++) n *= mask >> d & 1 ? 1 : x->shape[d];
        fill(out, n, p.r->result == 1 ? DL_BOOL : dl_dtype_is_float(t) ? t : DL_I64, p.r->identity);
        return DL_OK;
    }
    split(&p, x, mask);
    measure(&p);
    if (interleaved(&p, x)) {
        DL_OWNED dl_tensor *dense = dense_copy(x);
        return dense ? dl_cpu_reduce(id, dense, mask, m, out) : dl_failed();
    }
    int threads = dl_cpu_threads(x->numel);
    dl_stop stop = dl_stop_begin();
    p.stop = &stop;
    if (p.few) return dl_cpu_for(p.tiles, threads, run_few, &p), dl_stop_end(&stop), DL_OK;
    if (!p.cols && p.pieces == 1) {
        if (half && p.red[0].n < SHORT && p.red[0].x == p.esize && p.kept[0].x == p.red[0].n * p.esize)
            p.half = x->dtype, p.r = &DL_SIMD_PICK(dl_reducer_table)[id][t];
        return run_rows(&p, threads), DL_OK;
    }
    size_t bytes = p.groups > 1 ? (size_t)(p.tiles * p.groups * p.width) * sizeof(double) : 0;
    char *part = bytes ? dl_host_alloc(bytes) : NULL;
    if (bytes && !part) return dl_failed();
    run_tiles(&p, part, threads);
    dl_stop_end(&stop);
    if (part) dl_host_free(part, bytes);
    return DL_OK;
}

/* ---- kernels */

static dl_status run(dl_call *c, dl_reduce_id id) {
    unsigned mask;
    DL_TRY(dl_reduced_dims(c->op, c->attr, c->in[0]->ndim, &mask));
    return dl_cpu_reduce(id, c->in[0], mask, NULL, dl_ptr(c->out[0]));
}

/* A kernel by a function that takes 16 bits as they are, as dl_cpu_reduce does. */
#define KERNEL(name, function, set)                                                                                    \
    static dl_status run_##name(dl_call *c) { return dl_cpu_results_via_f32(c, function); }                            \
    const dl_kernel dl_cpu_##name = {.run = run_##name, .dtypes = set, .flags = DL_K_WIDE};

#define SIMPLE(name, id, set)                                                                                          \
    static dl_status plain_##name(dl_call *c) { return run(c, id); }                                                   \
    KERNEL(name, plain_##name, set)

static dl_status plain_sum(dl_call *c) { return run(c, DL_R_SUM); }
static dl_status run_sum(dl_call *c) { return c->nin > 1 ? dl_cpu_row_sum(c) : dl_cpu_results_via_f32(c, plain_sum); }
const dl_kernel dl_cpu_sum = {.run = run_sum, .dtypes = DL_ANY, .flags = DL_K_WIDE | DL_K_SUMS_ROWS};
SIMPLE(prod, DL_R_PROD, DL_ANY)
SIMPLE(amax, DL_R_MAX, DL_ANY)
SIMPLE(amin, DL_R_MIN, DL_ANY)
SIMPLE(any, DL_R_ANY, DL_ANY)
SIMPLE(all, DL_R_ALL, DL_ANY)

/* Of all elements, in pieces that the second reduction finds in the cache; those of pieces of 16 bits are converted. */
typedef struct extremes {
    const dl_reducer *r[2];
    const char *x;
    dl_dtype half;
    long n, esize, size, pieces; /* size: of an element that is compared */
    char *part;                  /* the smallest of pieces, and the largest */
} extremes;

static void extremes_of_piece(void *arg, long i) {
    const extremes *e = arg;
    const long from = i * EXTREMES, n = e->n - from < EXTREMES ? e->n - from : EXTREMES;
    const char *x = e->x + from * e->esize;
    char *to[2] = {e->part + i * e->size, e->part + (e->pieces + i) * e->size};
    unsigned short half[2];
    if (e->half != DL_F32)
        DL_SIMD_PICK(dl_half_extremes)(n, (const void *)x, e->half == DL_F16 ? 0x7c00 : 0x7f80, half);
    for (int k = 0; k < 2; k++)
        if (e->half != DL_F32)
            dl_cpu_half_to_f32(1, &half[k], e->half, (float *)to[k]);
        else
            e->r[k]->row(n, x, e->size, NULL, to[k]);
}

static dl_status all_extremes(const dl_call *c) {
    const dl_tensor *x = c->in[0];
    const bool half = DL_BIT(x->dtype) & DL_HALVES;
    const dl_dtype t = half ? DL_F32 : x->dtype;
    extremes e = {.x = dl_ptr(x), .half = half ? x->dtype : DL_F32, .n = x->numel, .size = dl_dtype_size(t)};
    e.esize = (long)dl_esize(x), e.pieces = (e.n + EXTREMES - 1) / EXTREMES;
    for (int k = 0; k < 2; k++) e.r[k] = &DL_SIMD_PICK(dl_reducer_table)[k ? DL_R_MAX : DL_R_MIN][t];
    const size_t bytes = (size_t)(2 * e.pieces * e.size);
    if (!(e.part = dl_host_alloc(bytes))) return dl_failed();
    dl_cpu_for(e.pieces, dl_cpu_threads(e.n), extremes_of_piece, &e);
    for (int k = 0; k < 2; k++) {
        double acc;
        e.r[k]->row(e.pieces, e.part + k * e.pieces * e.size, e.size, NULL, &acc);
        e.r[k]->store(1, &acc, dl_ptr(c->out[k]), e.r[k]->result);
    }
    return dl_host_free(e.part, bytes), DL_OK;
}

static dl_status plain_extremes(dl_call *c) {
    unsigned mask;
    DL_TRY(dl_reduced_dims(c->op, c->attr, c->in[0]->ndim, &mask));
    if (c->out[0]->numel == 1 && c->in[0]->numel && dl_is_contiguous(c->in[0])) return all_extremes(c);
    DL_TRY(dl_cpu_reduce(DL_R_MIN, c->in[0], mask, NULL, dl_ptr(c->out[0])));
    return dl_cpu_reduce(DL_R_MAX, c->in[0], mask, NULL, dl_ptr(c->out[1]));
}
KERNEL(extremes, plain_extremes, DL_ANY)

/* Elements that become one result. */
static double each(const dl_call *c) {
    return c->out[0]->numel ? (double)c->in[0]->numel / (double)c->out[0]->numel : 1;
}

static void divide(dl_tensor *t, double n) {
    float *few = dl_ptr(t), by = (float)n;
    double *wide = dl_ptr(t);
    if (t->dtype == DL_F32)
        for (int64_t i = 0; i < t->numel; i++) few[i] /= by;
    else
        for (int64_t i = 0; i < t->numel; i++) wide[i] /= n;
}

static dl_status plain_mean(dl_call *c) {
    DL_TRY(run(c, DL_R_SUM));
    divide(c->out[0], each(c));
    return DL_OK;
}
KERNEL(mean, plain_mean, DL_FLOATS)

/* A divisor below 0 counts as 0. */
static dl_status plain_var(dl_call *c) {
    dl_tensor *x = c->in[0], *o = c->out[0], *m = OUTPUT(c, VAR_MEAN);
    double n = each(c), free = n - (double)ATTR_I(c, VAR_CORRECTION);
    unsigned mask;
    dl_status s = dl_reduced_dims(c->op, c->attr, x->ndim, &mask);
    if (s == DL_OK) s = dl_cpu_reduce(DL_R_SUM, x, mask, NULL, dl_ptr(m));
    if (s == DL_OK) divide(m, n);
    if (s == DL_OK) s = dl_cpu_reduce(DL_R_SUMSQUARE, x, mask, dl_ptr(m), dl_ptr(o));
    if (s == DL_OK) divide(o, free > 0 ? free : 0);
    return s;
}
KERNEL(var, plain_var, DL_FLOATS)

SIMPLE(square_sum, DL_R_SUMSQUARE, DL_FLOATS)
static dl_status plain_root_square_sum(dl_call *c) {
    dl_tensor *o = c->out[0];
    DL_TRY(run(c, DL_R_SUMSQUARE));
    float *few = dl_ptr(o);
    double *wide = dl_ptr(o);
    for (int64_t i = 0; i < o->numel; i++)
        if (o->dtype == DL_F32)
            few[i] = sqrtf(few[i]);
        else
            wide[i] = sqrt(wide[i]);
    return DL_OK;
}
KERNEL(root_square_sum, plain_root_square_sum, DL_FLOATS)
SIMPLE(magnitude_sum, DL_R_SUMABS, DL_FLOATS)
SIMPLE(known_sum, DL_R_SUMKNOWN, DL_FLOATS)

/* ln(sum(e**(x - max))) + max; an infinite largest value is not subtracted. */
static dl_status plain_logsumexp(dl_call *c) {
    dl_tensor *x = c->in[0], *o = c->out[0];
    unsigned mask;
    DL_TRY(dl_reduced_dims(c->op, c->attr, x->ndim, &mask));
    if (!x->numel) {
        fill(dl_ptr(o), o->numel, o->dtype, -INFINITY);
        return DL_OK;
    }
    dl_tensor *m = dl_tensor_empty(o->ndim, o->shape, o->dtype, 0);
    if (!m) return dl_failed();
    dl_status s = dl_cpu_reduce(DL_R_MAX, x, mask, NULL, dl_ptr(m));
    char *p = dl_ptr(m), *q = dl_ptr(o);
    dl_dtype t = o->dtype;
    size_t size = dl_esize(o);
    for (int64_t i = 0; i < o->numel && s == DL_OK; i++)
        if (isinf(dl_load_f64(p + (size_t)i * size, t))) dl_store_f64(p + (size_t)i * size, t, 0);
    if (s == DL_OK) s = dl_cpu_reduce(DL_R_SUMEXP, x, mask, p, q);
    for (int64_t i = 0; i < o->numel && s == DL_OK; i++, p += size, q += size)
        dl_store_f64(q, t, log(dl_load_f64(q, t)) + dl_load_f64(p, t));
    dl_unref(m);
    return s;
}
KERNEL(logsumexp, plain_logsumexp, DL_FLOATS)
