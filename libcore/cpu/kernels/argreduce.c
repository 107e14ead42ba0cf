/* Kernels of argmax, argmin, max_dim and min_dim: the value is reduced first, then its first index is searched. */
#include "cpu/kernels/reduce.h"
#include "ops/infer.h"
#include "ops/rules/reduce.h"

/* x, which is contiguous, as [outer][n][inner], n being the dimensions that are reduced. */
typedef struct view3 {
    long outer, n, inner;
} view3;

static view3 around(const dl_tensor *x, unsigned mask) {
    view3 v = {1, 1, 1};
    for (int d = 0; d < x->ndim; d++) {
        if (mask >> d & 1)
            v.n *= x->shape[d];
        else if (mask >> d)
            v.outer *= x->shape[d];
        else
            v.inner *= x->shape[d];
    }
    return v;
}

typedef struct search {
    const dl_finder *f;
    const char *x, *value; /* value[outer][inner] */
    long *index, size, tiles;
    view3 v;
} search;

static void find_tile(void *arg, long i) {
    const search *s = arg;
    view3 v = s->v;
    long o = i / s->tiles, lo = i % s->tiles * DL_REDUCE_TILE, at = o * v.inner + lo;
    long width = v.inner - lo < DL_REDUCE_TILE ? v.inner - lo : DL_REDUCE_TILE;
    const char *from = s->x + (o * v.n * v.inner + lo) * s->size, *value = s->value + at * s->size;
    if (v.inner == 1)
        s->index[at] = s->f->row(v.n, from, s->size, value);
    else
        s->f->cols(v.n, width, from, v.inner * s->size, value, s->index + at);
}

/* index[outer][inner] of the first occurrence of each value. */
static void find_all(const dl_tensor *x, view3 v, const char *value, long *index) {
    search s = {.f = &DL_SIMD_PICK(dl_finder_table)[x->dtype],
                .x = dl_ptr(x),
                .value = value,
                .index = index,
                .size = (long)dl_esize(x),
                .tiles = (v.inner + DL_REDUCE_TILE - 1) / DL_REDUCE_TILE,
                .v = v};
    dl_cpu_for(v.outer * s.tiles, dl_cpu_threads(x->numel), find_tile, &s);
}

/* value may be NULL, when only the index is wanted. */
static dl_status run(dl_call *c, dl_reduce_id id, dl_tensor *value, dl_tensor *index) {
    dl_tensor *x = c->in[0], *v = value ? dl_ref(value) : NULL;
    unsigned mask;
    DL_TRY(dl_reduced_dims(c->op, c->attr, x->ndim, &mask));
    if (!index->numel) return dl_unref(v), DL_OK;
    if (!v && !(v = dl_tensor_empty(index->ndim, index->shape, x->dtype, 0))) return dl_failed();
    dl_status s = dl_cpu_reduce(id, x, mask, NULL, dl_ptr(v));
    if (s == DL_OK) find_all(x, around(x, mask), dl_ptr(v), dl_ptr(index));
    dl_unref(v);
    return s;
}

#define INDEX(name, id, value, index)                                                                                  \
    static dl_status plain_##name(dl_call *c) { return run(c, id, value, index); }                                     \
    DL_CPU_KERNEL(name, plain_##name, true, DL_ANY)

INDEX(argmax, DL_R_MAX, NULL, c->out[0])
INDEX(argmin, DL_R_MIN, NULL, c->out[0])
INDEX(max_dim, DL_R_MAX, c->out[0], c->out[1])
INDEX(min_dim, DL_R_MIN, c->out[0], c->out[1])
