/* Scores of attention as all its kernels see them: which keys a query sees, scale and mask, and what dropout leaves. */
#pragma once

#include "core/random/rng_math.h"
#include "cuda/kernels/attention/attention.h"
#include "cuda/runtime/types.cuh"

/* What is the same for all rows. Row r of a chunk is query `row` + r % rows of head r / rows of the chunk, whose heads
 * of keys begin at `first`. */
struct rows_of {
    long heads, kv_heads, group, rows_all, keys; /* of the op */
    long first, member, row, rows, cols;         /* of the chunk: cols keys are looked at */
    bool causal, added, from_i64;
    double scale, least, kept; /* of dropout: words below least are left out; least 0: none */
    const char *mask;
    long step[4]; /* of the mask, in elements */
    const void *lengths;
    const unsigned long *seed;
    double *stats;
    const double *mean;
};

struct place {
    long n, h, i, count; /* sequence, head, query, and how many keys it sees */
    long at;             /* of the query among all */
};

/* Query i of head h of sequence n, of which `cols` keys are looked at. */
__device__ inline place place_at(const rows_of &c, long n, long h, long i, long cols) {
    place p;
    p.n = n, p.h = h, p.i = i;
    p.at = (p.n * c.heads + p.h) * c.rows_all + p.i;
    p.count = c.causal && p.i + 1 < cols ? p.i + 1 : cols;
    if (c.lengths) {
        long len = c.from_i64 ? ((const long *)c.lengths)[p.n] : ((const int *)c.lengths)[p.n];
        p.count = len < p.count ? (len < 0 ? 0 : len) : p.count;
    }
    return p;
}
__device__ inline place place_of(const rows_of &c, long r) {
    const long head = c.first + r / c.rows;
    return place_at(c, head / c.kv_heads, head % c.kv_heads * c.group + c.member, c.row + r % c.rows, c.cols);
}

/* A score as the softmax sees it, from a product times the scale, and from a product. */
template <class T> __device__ inline T masked(const rows_of &c, const place &p, T x, long j) {
    if (!c.mask) return x;
    long m = p.n * c.step[0] + p.h * c.step[1] + p.i * c.step[2] + j * c.step[3];
    if (c.added) return x + ((const T *)c.mask)[m];
    return ((const bool *)c.mask)[m] ? x : -(T)INFINITY;
}
template <class T> __device__ inline T score(const rows_of &c, const place &p, T x, long j) {
    return masked(c, p, x * (T)c.scale, j);
}

/* What dropout multiplies a weight by. */
template <class T> __device__ inline T keep(const rows_of &c, const place &p, dl_rng_key key, long j) {
    if (c.least == 0) return 1;
    return (double)dl_rng_word(key, (uint64_t)(p.at * c.keys + j)) >= c.least ? (T)c.kept : T(0);
}
__device__ inline dl_rng_key key_of(const rows_of &c) {
    dl_rng_key k = {0, 0, DL_STREAM_DROPOUT};
    if (c.seed) k.seed = c.seed[0], k.call = c.seed[1] >> 8;
    return k;
}

/* Of all rows; a chunk is still to be chosen. */
static inline rows_of rows_of_run(const dl_attention_run *r, const double *mean) {
    const dl_attention_sizes *a = &r->a;
    rows_of c = {};
    c.heads = a->heads, c.kv_heads = a->kv_heads, c.group = a->group, c.rows_all = a->rows, c.keys = a->keys;
    c.causal = a->causal, c.scale = a->scale, c.stats = (double *)dl_ptr(r->stats), c.mean = mean;
    if (a->dropout > 0) {
        c.seed = (const unsigned long *)dl_ptr(r->seed);
        c.least = a->dropout < 1 ? (double)dl_rng_threshold(a->dropout) : 4294967296.0;
        c.kept = a->dropout < 1 ? 1 / (1 - a->dropout) : 0;
    }
    if (r->lengths) c.lengths = dl_ptr(r->lengths), c.from_i64 = r->lengths->dtype == DL_I64;
    if (!r->mask) return c;
    c.mask = (const char *)dl_ptr(r->mask), c.added = r->mask->dtype != DL_BOOL;
    for (int i = 0; i < 4; i++) c.step[i] = r->mask->shape[i] > 1 ? r->mask->stride[i] : 0;
    return c;
}
