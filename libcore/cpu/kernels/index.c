/* Kernels that concatenate, and that read or add by index. */
#include "core/scope.h"
#include "cpu/kernels/indices.h"
#include "cpu/kernels/pointwise/pointwise.h"
#include "ops/infer.h"
#include "ops/rules/index.h"
#include "ops/rules/reduce.h"

#include <string.h>

dl_tensor *dl_cpu_indices(dl_tensor *index, int dim, long size) {
    bool usable = index->dtype == DL_I64 && dl_is_contiguous(index);
    const long *given = dl_ptr(index);
    unsigned long signs = 0; /* of what is negative, or leaves something negative; any CPU compares these in vectors */
    dl_stop stop = dl_stop_begin();
    if (usable)
        DL_CPU_EACH (i, index->numel, &stop)
            signs |= (unsigned long)given[i] | ((unsigned long)(size - 1) - (unsigned long)given[i]);
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

static dl_status run_cat(dl_call *c) {
    dl_tensor *o = c->out[0];
    int dim;
    along(c, o, &dim);
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

/* Adds to x at indices; `arg` is a dl_index_walk. */
#define SCATTER(name, T, OP)                                                                                           \
    static void name(long n, char **p, const long *s, void *arg) {                                                     \
        dl_index_walk *w = arg;                                                                                        \
        char *x = p[0], *index = p[1], *v = p[2];                                                                      \
        const bool dense = s[0] == 0 && s[1] == sizeof(long) && s[2] == sizeof(T) && w->step == sizeof(T);             \
        for (long m; dense && n > 0; n -= m, index += m * s[1], v += m * s[2]) {                                       \
            m = n < DL_INDEX_BLOCK ? n : DL_INDEX_BLOCK;                                                               \
            if (!dl_indices_fit(w, (const long *)index, m)) return;                                                    \
            for (long i = 0; i < m; i++) {                                                                             \
                T *at = (T *)x + ((const long *)index)[i];                                                             \
                *at = (T)(*at OP((const T *)v)[i]);                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        for (long i = 0; i < n; i++, x += s[0], index += s[1], v += s[2]) {                                            \
            if (!dl_indices_fit(w, (const long *)index, 1)) return;                                                    \
            T *at = (T *)(x + *(const long *)index * w->step);                                                         \
            *at = (T)(*at OP * (const T *)v);                                                                          \
        }                                                                                                              \
    }
SCATTER(scatter_bool, unsigned char, |)
SCATTER(scatter_u8, unsigned char, +)
SCATTER(scatter_i32, unsigned, +)
SCATTER(scatter_i64, unsigned long, +)
SCATTER(scatter_f32, float, +)
SCATTER(scatter_f64, double, +)
static const dl_loop scatter_loops[DL_NDTYPE] = {
    [DL_BOOL] = scatter_bool, [DL_U8] = scatter_u8,   [DL_I32] = scatter_i32,
    [DL_I64] = scatter_i64,   [DL_F32] = scatter_f32, [DL_F64] = scatter_f64};

/* out[outer][index[i]][inner] += source[outer][i][inner]; a task takes a band of `inner`, so that each element gets
 * its parts in order. */
typedef struct addition {
    selection s;
    dl_loop add, element;
    long outer, esize, band;
    dl_stop *stop;
} addition;

static void add_band(void *arg, long t) {
    const addition *a = arg;
    long lo = t * a->band, w = a->s.inner - lo < a->band ? a->s.inner - lo : a->band;
    const long stride[3] = {a->esize, a->esize, a->esize};
    if (w <= 0) return;
    DL_CPU_EACH (k, a->outer * a->s.n, a->stop) {
        char *at = a->s.o + ((k / a->s.n * a->s.size + a->s.index[k % a->s.n]) * a->s.inner + lo) * a->esize;
        char *p[3] = {at, at, (char *)a->s.x + (k * a->s.inner + lo) * a->esize};
        a->add(w, p, stride, NULL);
    }
}

/* One element an index. */
static void add_elements(const addition *a) {
    const long stride[3] = {0, sizeof(long), a->esize};
    for (long k = 0; k < a->outer; k++)
        for (long i = 0, n; i < a->s.n && !dl_stop_asked(a->stop); i += n) {
            n = a->s.n - i < DL_ITER_BLOCK ? a->s.n - i : DL_ITER_BLOCK;
            char *p[3] = {a->s.o + k * a->s.size * a->esize, (char *)(a->s.index + i),
                          (char *)a->s.x + (k * a->s.n + i) * a->esize};
            a->element(n, p, stride, &(dl_index_walk){a->esize, a->s.size, 0});
        }
}

static dl_status plain_index_add(dl_call *c) {
    dl_tensor *x = c->in[0], *v = INPUT(c, INDEX_ADD_SOURCE), *o = c->out[0];
    int dim;
    long size = along(c, x, &dim);
    dl_tensor *index = dl_cpu_indices(c->in[1], dim, size);
    if (!index) return dl_failed();
    dl_cpu_copy(o, x);
    dl_stop stop = dl_stop_begin();
    addition a = {{dl_ptr(o), dl_ptr(v), dl_ptr(index), index->numel, size, product(x, dim + 1, x->ndim)},
                  DL_LOOP_OF(add, o->dtype),
                  scatter_loops[o->dtype],
                  product(x, 0, dim),
                  (long)dl_esize(o),
                  0,
                  &stop};
    int threads = a.s.inner >= 256 ? dl_cpu_threads(v->numel) : 1;
    a.band = ((a.s.inner + threads - 1) / threads + 15) / 16 * 16;
    if (a.s.inner == 1)
        add_elements(&a);
    else
        dl_cpu_for(threads, threads, add_band, &a);
    dl_stop_end(&stop);
    dl_unref(index);
    return DL_OK;
}
static dl_status run_index_add(dl_call *c) {
    return dl_cpu_via_f32(c, plain_index_add, !dl_is_contiguous(INPUT(c, INDEX_ADD_SOURCE)));
}
const dl_kernel dl_cpu_index_add = {.run = run_index_add, .dtypes = DL_ANY};

/* ---- elements by a tensor of indices */

/* One operand is the tensor that is read or written at the indices, without `dim`; `arg` is a dl_index_walk. */
#define GATHER(name, T)                                                                                                \
    static void name(long n, char **p, const long *s, void *arg) {                                                     \
        dl_index_walk *w = arg;                                                                                        \
        char *o = p[0], *x = p[1], *index = p[2];                                                                      \
        const bool dense = s[0] == sizeof(T) && s[1] == 0 && s[2] == sizeof(long) && w->step == sizeof(T);             \
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
    dl_iter_operand(&it, dl_ptr(index), DL_I64, o->ndim, o->shape, index->stride);
    dl_iter_end(&it);
    dl_iter_run(&it, loop[dl_esize(x)], w);
}

static dl_status run_gather(dl_call *c) {
    dl_tensor *x = c->in[0];
    int dim;
    const long size = along(c, x, &dim);
    dl_index_walk w = {(x->ndim ? x->stride[dim] : 0) * (long)dl_esize(x), size, 0};
    DL_OWNED dl_tensor *index = dl_cpu_indices_to_check(c->in[1], dim, size);
    if (!index) return dl_failed();
    gather_at(c, index, dim, &w);
    if (!w.wrong) return DL_OK;
    DL_OWNED dl_tensor *made = dl_cpu_indices(c->in[1], dim, size);
    if (made) gather_at(c, made, dim, &w);
    return made ? DL_OK : dl_failed();
}
const dl_kernel dl_cpu_gather = {.run = run_gather, .dtypes = DL_ANY};

/* On one thread, because two indices may name one element. Along `dim` the parts are added in order. */
static void add_at(const dl_call *c, const dl_tensor *index, int dim, dl_index_walk *w) {
    dl_tensor *v = INPUT(c, INDEX_ADD_SOURCE), *o = c->out[0];
    dl_cpu_copy(o, c->in[0]);
    dl_iter it;
    dl_iter_begin(&it, v->ndim, v->shape);
    without_dim(&it, o, dim, v->shape);
    dl_iter_operand(&it, dl_ptr(index), DL_I64, v->ndim, v->shape, index->stride);
    dl_iter_operand(&it, dl_ptr(v), v->dtype, v->ndim, v->shape, v->stride);
    dl_iter_end(&it);
    dl_iter_run_serial(&it, scatter_loops[o->dtype], w);
}

static dl_status plain_scatter_add(dl_call *c) {
    dl_tensor *o = c->out[0];
    int dim;
    const long size = along(c, c->in[0], &dim);
    dl_index_walk w = {(o->ndim ? o->stride[dim] : 0) * (long)dl_esize(o), size, 0};
    DL_OWNED dl_tensor *index = dl_cpu_indices_to_check(c->in[1], dim, size);
    if (!index) return dl_failed();
    add_at(c, index, dim, &w);
    if (!w.wrong) return DL_OK;
    DL_OWNED dl_tensor *made = dl_cpu_indices(c->in[1], dim, size);
    if (made) add_at(c, made, dim, &w);
    return made ? DL_OK : dl_failed();
}
DL_CPU_KERNEL(scatter_add, plain_scatter_add, false, DL_ANY)

/* ---- indices of values, values of indices */

static dl_status run_nonzero(dl_call *c) {
    const dl_tensor *x = c->in[0];
    long *o = dl_ptr(c->out[0]), at[DL_MAX_DIM] = {0}, left = c->out[0]->shape[0];
    dl_tensor *is = dl_tensor_empty(x->ndim, x->shape, DL_BOOL, 0);
    if (!is) return dl_failed();
    dl_cpu_copy(is, x);
    const unsigned char *p = dl_ptr(is);
    dl_stop stop = dl_stop_begin();
    DL_CPU_EACH (i, is->numel, &stop) {
        if (p[i] && left) {
            memcpy(o, at, (size_t)x->ndim * sizeof *o);
            o += x->ndim;
            left--;
        }
        for (int d = x->ndim - 1; d >= 0 && ++at[d] == x->shape[d]; d--) at[d] = 0;
    }
    dl_stop_end(&stop);
    dl_unref(is);
    return DL_OK;
}
const dl_kernel dl_cpu_nonzero = {.run = run_nonzero, .dtypes = DL_ANY};

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
