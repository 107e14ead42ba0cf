/* Kernels that concatenate, and that read or add by index. */
#include "core/scope.h"
#include "cpu/kernels/indices.h"
#include "cpu/kernels/pointwise/pointwise.h"
#include "cpu/runtime/copy.h"
#include "dlcore/view.h"
#include "ops/infer.h"
#include "ops/rules/index.h"
#include "ops/rules/reduce.h"

#include <string.h>

enum { SHORTEST_BAND = 32 }; /* elements that a thread adds at an index */

dl_tensor *dl_cpu_indices(dl_tensor *index, int dim, long size) {
    bool usable = index->dtype == DL_I64 && dl_is_contiguous(index);
    const long *given = dl_ptr(index);
    unsigned long signs = 0;
    dl_stop stop = dl_stop_begin();
    for (long at = 0, n; usable && at < index->numel && !dl_stop_asked(&stop); at += n) {
        n = index->numel - at < DL_ITER_BLOCK ? index->numel - at : DL_ITER_BLOCK;
        signs |= DL_SIMD_PICK(dl_index_signs)(n, given + at, size);
    }
    if (dl_stop_end(&stop)) return dl_interrupt_check(), NULL;
    if (usable && !(signs >> 63)) return dl_ref(index);
    dl_tensor *own = dl_tensor_empty(index->ndim, index->shape, DL_I64, 0);
    if (!own) return NULL;
    dl_cpu_copy(own, index);
    long *p = dl_ptr(own);
    for (int64_t i = 0; i < own->numel; i++) {
        long at = p[i] < 0 ? p[i] + size : p[i];
        if (at < 0 || at >= size) {
            dl_fail_index(p[i], dim, size);
            dl_unref(own);
            return NULL;
        }
        p[i] = at;
    }
    return own;
}

dl_tensor *dl_cpu_without_repeats(dl_tensor *index, int dim) {
    const long one = 1;
    dl_tensor *t = dl_ref(index);
    for (int d = 0; t && d < t->ndim; d++) {
        if (d == dim || t->shape[d] < 2 || t->stride[d]) continue;
        DL_OWNED dl_tensor *old = t;
        t = dl_slice(old, d, NULL, &one, 1);
    }
    return t;
}

/* The dimension of attribute 0 and the size of a tensor there; 0-d tensors have one of size 1. */
static long along(const dl_call *c, const dl_tensor *t, int *dim) {
    *dim =
        (int)(ATTR_I(c, INDEXED_DIM) < 0 ? ATTR_I(c, INDEXED_DIM) + (t->ndim ? t->ndim : 1) : ATTR_I(c, INDEXED_DIM));
    return t->ndim ? t->shape[*dim] : 1;
}

static long product(const dl_tensor *t, int from, int to) {
    long n = 1;
    for (int d = from; d < to && d < t->ndim; d++) n *= t->shape[d];
    return n;
}

/* ---- concatenation and reversal */

/* Parts of one element each in a last dimension, as stack makes them: written all at once, so that each line of memory
 * is written once. */
static bool weave(const dl_call *c, int dim) {
    const dl_tensor *o = c->out[0];
    const long *shape = c->in[0]->shape;
    int parts = c->nin;
    if (parts < 2 || parts >= DL_ITER_MAX || dim != o->ndim - 1 || o->stride[dim] != 1 || o->shape[dim] != parts)
        return false;
    for (int i = 0; i < parts; i++)
        if (c->in[i]->shape[dim] != 1 || c->in[i]->dtype != o->dtype) return false;
    dl_iter it;
    dl_iter_begin(&it, o->ndim, shape);
    dl_iter_operand(&it, dl_ptr(o), (dl_dtype)o->dtype, o->ndim, shape, o->stride);
    for (int i = 0; i < parts; i++)
        dl_iter_operand(&it, dl_ptr(c->in[i]), (dl_dtype)o->dtype, o->ndim, shape, c->in[i]->stride);
    dl_iter_end(&it);
    dl_iter_run(&it, DL_SIMD_PICK(dl_weave_loop)[dl_esize(o)], &parts);
    return true;
}

static dl_status run_cat(dl_call *c) {
    dl_tensor *o = c->out[0];
    int dim;
    along(c, o, &dim);
    if (weave(c, dim)) return DL_OK;
    char *at = dl_ptr(o);
    for (int i = 0; i < c->nin; i++) {
        const dl_tensor *x = c->in[i];
        dl_cpu_copy_strided(x->ndim, x->shape, at, o->dtype, o->stride, dl_ptr(x), x->dtype, x->stride);
        at += x->shape[dim] * o->stride[dim] * (long)dl_esize(o);
    }
    return DL_OK;
}
const dl_kernel dl_cpu_cat = {.run = run_cat, .dtypes = DL_ALL};

static dl_status run_flip(dl_call *c) {
    const dl_tensor *x = c->in[0], *o = c->out[0];
    const char *from;
    long stride[DL_MAX_DIM];
    DL_TRY(dl_flip_source(c, &from, stride));
    dl_cpu_copy_strided(x->ndim, x->shape, dl_ptr(o), o->dtype, o->stride, from, x->dtype, stride);
    return DL_OK;
}
const dl_kernel dl_cpu_flip = {.run = run_flip, .dtypes = DL_ALL};

/* ---- parts by a list of indices */

/* The source contiguous: [outer][size][inner] bytes. */
typedef struct selection {
    char *o;
    const char *x;
    const long *index;
    long n, size, inner;
} selection;

/* Parts are taken by some at once, so that there is no division for each. */
typedef struct selecting {
    const selection *s;
    long parts, each;
} selecting;

static void select_parts(void *arg, long t) {
    const selecting *job = arg;
    const selection *s = job->s;
    const long end = (t + 1) * job->each < job->parts ? (t + 1) * job->each : job->parts;
    for (long k = t * job->each, count; k < end; k += count) {
        const long at = k % s->n, *index = s->index + at;
        const char *x = s->x + k / s->n * s->size * s->inner;
        char *o = s->o + k * s->inner;
        count = s->n - at < end - k ? s->n - at : end - k;
        if (s->inner == 4)
            for (long i = 0; i < count; i++) memcpy(o + i * 4, x + index[i] * 4, 4);
        else if (s->inner == 8)
            for (long i = 0; i < count; i++) memcpy(o + i * 8, x + index[i] * 8, 8);
        else
            for (long i = 0; i < count; i++) memcpy(o + i * s->inner, x + index[i] * s->inner, (size_t)s->inner);
    }
}

static void select_dense(selection s, long outer) {
    const int threads = dl_cpu_threads(outer * s.n * s.inner / 4);
    selecting job = {&s, outer * s.n, 1 + (1 << 18) / (s.inner + 16)};
    const long share = (job.parts + threads - 1) / threads;
    if (share && job.each > share) job.each = share;
    dl_cpu_for((job.parts + job.each - 1) / job.each, threads, select_parts, &job);
}

/* Any strides: one copy an index. */
static void select_strided(dl_tensor *o, const dl_tensor *x, const long *index, int dim, long n) {
    long shape[DL_MAX_DIM], size = (long)dl_esize(x);
    memcpy(shape, x->shape, sizeof shape);
    shape[dim] = 1;
    dl_stop stop = dl_stop_begin();
    for (long i = 0; i < n && !dl_stop_asked(&stop); i++)
        dl_cpu_copy_strided(x->ndim, shape, (char *)dl_ptr(o) + i * o->stride[dim] * size, o->dtype, o->stride,
                            (char *)dl_ptr(x) + index[i] * x->stride[dim] * size, x->dtype, x->stride);
    dl_stop_end(&stop);
}

/* Few parts are copied as they lie, for many all of x is laid out densely first. */
static dl_status run_index_select(dl_call *c) {
    dl_tensor *x = c->in[0], *o = c->out[0];
    int dim;
    long size = along(c, x, &dim);
    dl_tensor *index = dl_cpu_indices(c->in[1], dim, size);
    dl_tensor *dense = !index                                           ? NULL
                       : dl_is_contiguous(x) || o->numel < x->numel / 4 ? dl_ref(x)
                                                                        : dl_cpu_contiguous(x);
    if (dense && dl_is_contiguous(dense))
        select_dense((selection){dl_ptr(o), dl_ptr(dense), dl_ptr(index), index->numel, size,
                                 product(x, dim + 1, x->ndim) * (long)dl_esize(x)},
                     product(x, 0, dim));
    else if (dense)
        select_strided(o, x, dl_ptr(index), dim, index->numel);
    dl_unref(dense);
    dl_unref(index);
    return dense ? DL_OK : dl_failed();
}
const dl_kernel dl_cpu_index_select = {.run = run_index_select, .dtypes = DL_ANY};

/* out[outer][index[i]][inner] += source[outer][i][inner]; a task takes a range of `outer` or a band of `inner`, so that
 * each element gets its parts in order. */
typedef struct addition {
    selection s;
    dl_loop add;
    long outer, esize, each, band;
    dl_stop *stop;
} addition;

static void add_part(void *arg, long t) {
    const addition *a = arg;
    const long bands = (a->s.inner + a->band - 1) / a->band, from = t / bands * a->each, lo = t % bands * a->band;
    const long rows = a->outer - from < a->each ? a->outer - from : a->each;
    const long w = a->s.inner - lo < a->band ? a->s.inner - lo : a->band, stride[3] = {a->esize, a->esize, a->esize};
    const long at = from * a->s.size, v = from * a->s.n;
    DL_CPU_EACH (k, rows * a->s.n, a->stop) {
        char *o = a->s.o + ((at + k / a->s.n * a->s.size + a->s.index[k % a->s.n]) * a->s.inner + lo) * a->esize;
        char *p[3] = {o, o, (char *)a->s.x + ((v + k) * a->s.inner + lo) * a->esize};
        a->add(w, p, stride, NULL);
    }
}

static void add_parts(addition *a, int threads) {
    a->each = a->outer, a->band = a->s.inner;
    if (a->outer >= threads)
        a->each = (a->outer + threads - 1) / threads;
    else if (a->s.inner >= threads * SHORTEST_BAND)
        a->band = ((a->s.inner + threads - 1) / threads + 15) / 16 * 16;
    dl_cpu_for((a->outer + a->each - 1) / a->each * ((a->s.inner + a->band - 1) / a->band), threads, add_part, a);
}

/* Rows of 16 bits: the indices of each row are a list, so that a row is converted, summed in f32 and rounded once,
 * and those without an index are copied as they are. */

typedef struct half_addition {
    selection s;
    long *first, *next, each; /* of each place and of each index: the next index of that place, or -1 */
    dl_dtype t;
} half_addition;

enum { HALF_PIECE = 256 }; /* elements of a row that are summed at once */

static void add_to_row(const half_addition *a, long outer, long row) {
    _Alignas(64) float sum[HALF_PIECE], more[HALF_PIECE];
    const dl_loop add = DL_LOOP_OF(add, DL_F32);
    const long stride[3] = {sizeof(float), sizeof(float), sizeof(float)}, inner = a->s.inner;
    char *o = a->s.o + (outer * a->s.size + row) * inner * 2;
    const char *v = a->s.x + outer * a->s.n * inner * 2;
    for (long at = 0, n; at < inner; at += n) {
        n = inner - at < HALF_PIECE ? inner - at : HALF_PIECE;
        dl_cpu_half_to_f32(n, o + at * 2, a->t, sum);
        for (long i = a->first[row]; i >= 0; i = a->next[i]) {
            dl_cpu_half_to_f32(n, v + (i * inner + at) * 2, a->t, more);
            add(n, (char *[]){(char *)sum, (char *)sum, (char *)more}, stride, NULL);
        }
        dl_cpu_f32_to_half(n, sum, o + at * 2, a->t);
    }
}

static void add_to_rows(void *arg, long task) {
    const half_addition *a = arg;
    const long parts = (a->s.size + a->each - 1) / a->each, from = task % parts * a->each;
    const long end = from + a->each < a->s.size ? from + a->each : a->s.size;
    for (long row = from; row < end; row++)
        if (a->first[row] >= 0) add_to_row(a, task / parts, row);
}

static dl_status add_halves(selection s, long outer, dl_dtype t) {
    if (!s.n || !s.inner || !outer) return DL_OK;
    const size_t bytes = (size_t)(s.size + s.n) * sizeof(long);
    long *list = dl_host_alloc(bytes);
    if (!list) return dl_failed();
    const int threads = dl_cpu_threads(outer * s.n * s.inner);
    half_addition a = {s, list, list + s.size, 1 + (1 << 18) / (s.n / s.size + 1) / s.inner, t};
    if (a.each > (s.size + 4 * threads - 1) / (4 * threads)) a.each = (s.size + 4 * threads - 1) / (4 * threads);
    memset(a.first, 0xff, (size_t)s.size * sizeof(long));
    for (long i = s.n - 1; i >= 0; i--) a.next[i] = a.first[s.index[i]], a.first[s.index[i]] = i;
    dl_cpu_for(outer * ((s.size + a.each - 1) / a.each), threads, add_to_rows, &a);
    dl_host_free(list, bytes);
    return DL_OK;
}

static dl_status plain_index_add(dl_call *c) {
    dl_tensor *x = c->in[0], *v = INPUT(c, INDEX_ADD_SOURCE), *o = c->out[0];
    int dim;
    long size = along(c, x, &dim), inner = product(x, dim + 1, x->ndim);
    if (inner == 1) return dl_cpu_add_elements(c);
    dl_tensor *index = dl_cpu_indices(c->in[1], dim, size);
    if (!index) return dl_failed();
    dl_cpu_copy(o, x);
    dl_stop stop = dl_stop_begin();
    addition a = {.s = {dl_ptr(o), dl_ptr(v), dl_ptr(index), index->numel, size, inner},
                  .add = DL_LOOP_OF(add, o->dtype),
                  .outer = product(x, 0, dim),
                  .esize = (long)dl_esize(o),
                  .stop = &stop};
    if (v->numel) add_parts(&a, dl_cpu_threads(v->numel));
    dl_stop_end(&stop);
    dl_unref(index);
    return DL_OK;
}

static dl_status half_index_add(dl_call *c) {
    dl_tensor *x = c->in[0], *o = c->out[0];
    int dim;
    const long size = along(c, x, &dim);
    DL_OWNED dl_tensor *index = dl_cpu_indices(c->in[1], dim, size);
    DL_OWNED dl_tensor *v = index ? dl_cpu_contiguous(INPUT(c, INDEX_ADD_SOURCE)) : NULL;
    if (!v) return dl_failed();
    dl_cpu_copy(o, x);
    return add_halves(
        (selection){dl_ptr(o), dl_ptr(v), dl_ptr(index), index->numel, size, product(x, dim + 1, x->ndim)},
        product(x, 0, dim), o->dtype);
}

/* A few elements of a long list of 16 bits: sums in f32 at the places that have an index, and nowhere else. */
enum { FEW = 16 }; /* times as many are in the list */

static void add_few(unsigned short *o, const unsigned short *v, const long *index, long n, float *sum, dl_dtype t) {
    float wide[HALF_PIECE];
    unsigned short half[HALF_PIECE];
    dl_stop stop = dl_stop_begin();
    for (int pass = 0; pass < 3; pass++)
        for (long at = 0; at < n && !dl_stop_asked(&stop); at += HALF_PIECE) {
            const long m = n - at < HALF_PIECE ? n - at : HALF_PIECE, *to = index + at;
            if (pass < 2) {
                for (long i = 0; i < m; i++) half[i] = pass ? v[at + i] : o[to[i]];
                dl_cpu_half_to_f32(m, half, t, wide);
                for (long i = 0; i < m; i++) sum[to[i]] = pass ? sum[to[i]] + wide[i] : wide[i];
            } else {
                for (long i = 0; i < m; i++) wide[i] = sum[to[i]];
                dl_cpu_f32_to_half(m, wide, half, t);
                for (long i = 0; i < m; i++) o[to[i]] = half[i];
            }
        }
    dl_stop_end(&stop);
}

static dl_status add_few_halves(dl_call *c) {
    dl_tensor *o = c->out[0];
    const size_t bytes = (size_t)o->numel * sizeof(float);
    DL_OWNED dl_tensor *index = dl_cpu_indices(c->in[1], 0, o->numel);
    DL_OWNED dl_tensor *v = index ? dl_cpu_contiguous(INPUT(c, INDEX_ADD_SOURCE)) : NULL;
    float *sum = v ? dl_host_alloc(bytes) : NULL;
    if (!sum) return dl_failed();
    dl_cpu_copy(o, c->in[0]);
    add_few(dl_ptr(o), dl_ptr(v), dl_ptr(index), v->numel, sum, (dl_dtype)o->dtype);
    dl_host_free(sum, bytes);
    return DL_OK;
}

static dl_status run_index_add(dl_call *c) {
    int dim; /* elements are added from wherever they lie, rows from dense ones */
    const long size = along(c, c->in[0], &dim);
    const bool half = DL_BIT(c->dtype) & DL_HALVES;
    const bool rows = product(c->in[0], dim + 1, c->in[0]->ndim) != 1, dense = dl_is_contiguous(c->out[0]);
    if (rows && dense && half) return half_index_add(c);
    if (half && dense && c->out[0]->ndim == 1 && c->in[1]->numel <= size / FEW) return add_few_halves(c);
    return dl_cpu_via_f32(c, plain_index_add, rows && !dl_is_contiguous(INPUT(c, INDEX_ADD_SOURCE)));
}
const dl_kernel dl_cpu_index_add = {.run = run_index_add, .dtypes = DL_ANY};

/* ---- elements by a tensor of indices */

/* One operand is the tensor that is read or written at the indices, without `dim`; `arg` is a dl_index_walk. */
#define GATHER(name, T)                                                                                                \
    static void name(long n, char **p, const long *s, void *arg) {                                                     \
        dl_index_walk *w = arg;                                                                                        \
        char *o = p[0], *x = p[1], *index = p[2];                                                                      \
        const bool dense = s[0] == sizeof(T) && s[1] == 0 && s[2] == sizeof(long) && w->step == sizeof(T);             \
        if (s[2] == 0 && s[0] == sizeof(T) && s[1] == sizeof(T)) { /* a row of one index */                            \
            if (dl_indices_fit(w, (const long *)index, 1))                                                             \
                memcpy(o, x + *(const long *)index * w->step, n * sizeof(T));                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (long m; dense && n > 0; n -= m, index += m * s[2], o += m * s[0]) {                                       \
            m = n < DL_INDEX_BLOCK ? n : DL_INDEX_BLOCK;                                                               \
            if (!dl_indices_fit(w, (const long *)index, m)) return;                                                    \
            for (long i = 0; i < m; i++) ((T *)o)[i] = ((const T *)x)[((const long *)index)[i]];                       \
        }                                                                                                              \
        for (long i = 0; i < n; i++, o += s[0], x += s[1], index += s[2]) {                                            \
            if (!dl_indices_fit(w, (const long *)index, 1)) return;                                                    \
            *(T *)o = *(const T *)(x + *(const long *)index * w->step);                                                \
        }                                                                                                              \
    }
GATHER(gather1, unsigned char)
GATHER(gather2, unsigned short)
GATHER(gather4, unsigned)
GATHER(gather8, unsigned long)

static void without_dim(dl_iter *it, dl_tensor *t, int dim, const long *shape) {
    long stride[DL_MAX_DIM];
    memcpy(stride, t->stride, sizeof stride);
    stride[dim] = 0;
    dl_iter_operand(it, dl_ptr(t), t->dtype, t->ndim, shape, stride);
}

static void gather_at(const dl_call *c, const dl_tensor *index, int dim, dl_index_walk *w) {
    static const dl_loop loop[9] = {[1] = gather1, [2] = gather2, [4] = gather4, [8] = gather8};
    dl_tensor *x = c->in[0], *o = c->out[0];
    dl_iter it;
    dl_iter_begin(&it, o->ndim, o->shape);
    dl_iter_operand(&it, dl_ptr(o), o->dtype, o->ndim, o->shape, o->stride);
    without_dim(&it, x, dim, o->shape);
    dl_iter_operand(&it, dl_ptr(index), DL_I64, o->ndim, index->shape, index->stride);
    dl_iter_end(&it);
    dl_iter_run(&it, loop[dl_esize(x)], w);
}

static dl_status run_gather(dl_call *c) {
    dl_tensor *x = c->in[0];
    int dim;
    const long size = along(c, x, &dim);
    dl_index_walk w = {(x->ndim ? x->stride[dim] : 0) * (long)dl_esize(x), size, 0};
    DL_OWNED dl_tensor *given = dl_cpu_without_repeats(c->in[1], dim);
    DL_OWNED dl_tensor *index = given ? dl_cpu_indices_to_check(given, dim, size) : NULL;
    if (!index) return dl_failed();
    gather_at(c, index, dim, &w);
    if (!w.wrong) return DL_OK;
    DL_OWNED dl_tensor *made = dl_cpu_indices(given, dim, size);
    if (made) gather_at(c, made, dim, &w);
    return made ? DL_OK : dl_failed();
}
const dl_kernel dl_cpu_gather = {.run = run_gather, .dtypes = DL_ANY};

/* ---- indices of values, values of indices */

/* A task finds the places in a range of x: first how many there are, then, when those before it are known, where. */
typedef struct finding {
    const unsigned char *is;
    const dl_tensor *x;
    long numel, each, *before, *out, rows; /* before[i]: how many lie in front of range i + 1 */
} finding;

static void count_some(void *arg, long t) {
    const finding *f = arg;
    const long from = t * f->each, end = from + f->each < f->numel ? from + f->each : f->numel;
    long count = 0;
    for (long i = from; i < end; i++) count += f->is[i] != 0;
    f->before[t + 1] = count;
}

/* Numbers of the true ones among n from `from` on, without a branch on what is found. */
static long true_ones(const unsigned char *is, long from, long n, long *at) {
    long count = 0;
    for (long i = 0; i < n; i++) {
        at[count] = from + i;
        count += is[i] != 0;
    }
    return count;
}

static void find_some(void *arg, long t) {
    enum { FEW = 512 };
    const finding *f = arg;
    const int dims = f->x->ndim;
    const long row = dims ? f->x->shape[dims - 1] : 1;
    long at[DL_MAX_DIM] = {0}, end = (t + 1) * f->each < f->numel ? (t + 1) * f->each : f->numel, few[FEW], n;
    long *o = f->out + f->before[t] * dims, left = f->rows - f->before[t], rest = t * f->each;
    for (int d = dims - 1; d >= 0; d--) at[d] = rest % f->x->shape[d], rest /= f->x->shape[d];
    for (long i = t * f->each; i < end && left > 0; i += n) {
        long *last = dims ? &at[dims - 1] : &rest;
        n = row - *last < end - i ? row - *last : end - i;
        if (n > FEW) n = FEW;
        long count = true_ones(f->is + i, *last, n, few);
        count = count < left ? count : left;
        for (long k = 0; k < count; k++, o += dims) {
            for (int d = 0; d + 1 < dims; d++) o[d] = at[d];
            if (dims) o[dims - 1] = few[k];
        }
        left -= count, *last += n;
        for (int d = dims - 1; d > 0 && at[d] == f->x->shape[d]; d--) at[d] = 0, at[d - 1]++;
    }
}

static dl_status run_nonzero(dl_call *c) {
    dl_tensor *x = c->in[0];
    DL_OWNED dl_tensor *is = x->dtype == DL_BOOL && dl_is_contiguous(x) ? dl_ref(x) : NULL;
    if (!is && (is = dl_tensor_empty(x->ndim, x->shape, DL_BOOL, 0))) dl_cpu_copy(is, x);
    if (!is) return dl_failed();
    const int threads = dl_cpu_threads(x->numel);
    finding f = {dl_ptr(is), x, x->numel, DL_ITER_BLOCK, NULL, dl_ptr(c->out[0]), c->out[0]->shape[0]};
    if (f.each > (f.numel + threads - 1) / threads) f.each = (f.numel + threads - 1) / threads;
    const long parts = f.each ? (f.numel + f.each - 1) / f.each : 0;
    const size_t bytes = (size_t)(parts + 1) * sizeof *f.before;
    if (!(f.before = dl_host_alloc(bytes))) return dl_failed();
    memset(f.before, 0, bytes);
    dl_cpu_for(parts, threads, count_some, &f);
    for (long i = 0; i < parts; i++) f.before[i + 1] += f.before[i];
    dl_cpu_for(parts, threads, find_some, &f);
    dl_host_free(f.before, bytes);
    return DL_OK;
}
const dl_kernel dl_cpu_nonzero = {.run = run_nonzero, .dtypes = DL_ANY};
DL_CPU_MADE_OF_ROWS(place_masked)
DL_CPU_MADE_OF_ROWS(nonzero_static)

static dl_status run_one_hot(dl_call *c) {
    dl_tensor *o = c->out[0];
    long width = o->shape[o->ndim - 1], n = c->in[0]->numel;
    dl_tensor *label = dl_tensor_empty(c->in[0]->ndim, c->in[0]->shape, DL_I64, 0);
    if (!label) return dl_failed();
    dl_cpu_copy(label, c->in[0]);
    const long *p = dl_ptr(label);
    long *q = dl_ptr(o);
    dl_status s = DL_OK;
    dl_stop stop = dl_stop_begin();
    dl_cpu_clear(q, (size_t)o->numel * sizeof *q);
    DL_CPU_EACH (i, n, &stop) {
        if (s != DL_OK) break;
        if (p[i] < 0 || p[i] >= width)
            s = dl_fail(DL_ERR_INDEX, "label %ld is outside 0 .. %ld", p[i], width - 1);
        else
            q[i * width + p[i]] = 1;
    }
    dl_stop_end(&stop);
    dl_unref(label);
    return s;
}
const dl_kernel dl_cpu_one_hot = {.run = run_one_hot, .dtypes = DL_ANY};
