/* Kernel of dropout. The mask of element i, in logical order, is word i % 4 of block i / 4 of the call's random
 * numbers, compared with a threshold; it does not depend on strides or threads. */
#include "cpu/dropout.h"
#include "cpu/iter.h"
#include "cpu/random.h"
#include "ops/rules.h"

#include <string.h>

enum { RUN = 4096 };

/* Offset, in elements, of the first element of row `row` (all dimensions but the last). */
static long row_offset(const dl_tensor *t, long row) {
    long at = 0;
    for (int i = t->ndim - 2; i >= 0; row /= t->shape[i--]) at += row % t->shape[i] * t->stride[i];
    return at;
}

/* Runs of at most RUN elements along the last dimension; a contiguous tensor is a single row. Output and mask have one
 * memory order. */
static void all_runs(const dl_call *c, double p) {
    const dl_tensor *x = c->in[0], *y = c->out[0], *mask = c->out[1];
    bool flat = dl_is_contiguous(x) && dl_is_contiguous(y);
    long width = flat || !y->ndim ? y->numel : y->shape[y->ndim - 1], chunks = (width + RUN - 1) / RUN;
    long last = y->ndim - 1, es = (long)dl_esize(y), rows = y->numel / width;
    long xs = flat || last < 0 ? 1 : x->stride[last], ys = flat || last < 0 ? 1 : y->stride[last];
    bool none = p == 1; /* a word is at least 2**32 never: nothing is kept, by a scale of 0 */
    uint32_t least = none ? 0 : (uint32_t)dl_rng_threshold(p);
    dl_rng_key key = dl_rng_key_of(c);
    dl_dropout_loop loop = DL_SIMD_PICK(dl_dropout)[y->dtype == DL_F64];
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(4 * y->numel))
    for (long r = 0; r < rows * chunks; r++) {
        uint32_t w[RUN + 4];
        long row = r / chunks, from = r % chunks * RUN, n = width - from < RUN ? width - from : RUN;
        long xo = (flat ? 0 : row_offset(x, row)) + from * xs, yo = (flat ? 0 : row_offset(y, row)) + from * ys;
        long first = row * width + from, before = first % 4; /* words come in fours */
        DL_SIMD_PICK(dl_random_words)(key, (uint64_t)(first - before), n + before, w);
        loop(n, w + before, least, none ? 0 : 1 / (1 - p), (char *)dl_ptr(x) + xo * es, xs, (char *)dl_ptr(y) + yo * es,
             (unsigned char *)dl_ptr(mask) + yo, ys);
    }
    if (none) memset(dl_ptr(mask), 0, (size_t)mask->numel);
}

/* The f32 output of a 16-bit call is contiguous, so the mask goes through a contiguous one as well. */
static dl_status dropout_float(dl_call *c) {
    if (!c->out[0]->numel) return DL_OK;
    dl_call own = *c;
    dl_tensor *out[2] = {c->out[0], c->out[1]};
    own.out = out;
    bool alike = !memcmp(out[0]->stride, out[1]->stride, (size_t)out[0]->ndim * sizeof *out[0]->stride);
    if (!alike) out[1] = dl_tensor_empty(out[0]->ndim, out[0]->shape, DL_BOOL, 0);
    if (!out[1]) return dl_error_last()->code;
    all_runs(&own, c->attr[0].u.f);
    if (alike) return DL_OK;
    dl_cpu_copy(c->out[1], out[1]);
    dl_unref(out[1]);
    return DL_OK;
}

/* Not training: the output is the input itself. */
static dl_status dropout_run(dl_call *c) {
    if (!c->attr[1].u.i) return DL_OK;
    return DL_BIT(c->dtype) & DL_HALVES ? dl_cpu_via_f32(c, dropout_float, false) : dropout_float(c);
}

const dl_kernel dl_cpu_dropout = {.run = dropout_run, .dtypes = DL_FLOATS};
