/* Kernel of dropout. The mask of element i, in logical order, is word i % 4 of block i / 4 of the call's random
 * numbers, compared with a threshold; it does not depend on strides or threads. */
#include "cpu/kernels/dropout.h"
#include "cpu/runtime/iter.h"
#include "cpu/kernels/random.h"
#include "ops/rules/norm.h"

#include <string.h>

enum { RUN = 4096 }; /* elements; random words come in fours */

/* All words of the call in the memory order of y, which is not the logical one. */
static dl_tensor *words_like(const dl_tensor *y, dl_rng_key key) {
    dl_tensor *flat = dl_tensor_empty(y->ndim, y->shape, DL_I32, 0);
    dl_tensor *w = flat ? dl_tensor_empty(y->ndim, y->shape, DL_I32, 0) : NULL;
    if (w) {
        uint32_t *p = dl_ptr(flat);
        dl_stop stop = dl_stop_begin();
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(2 * y->numel))
        for (long i = 0; i < y->numel; i += RUN)
            if (!dl_stop_asked(&stop))
                DL_SIMD_PICK(dl_random_words)(key, (uint64_t)i, y->numel - i < RUN ? y->numel - i : RUN, p + i);
        dl_stop_end(&stop);
        memcpy(w->stride, y->stride, sizeof w->stride);
        dl_cpu_copy(w, flat);
    }
    dl_unref(flat);
    return w;
}

/* x, y and mask have one dense memory order; `words` is NULL when that is the logical order. */
static void all_runs(const dl_tensor *x, dl_tensor *y, dl_tensor *mask, const dl_tensor *words, dl_rng_key key,
                     double p) {
    bool none =
        p == 1; /* every element is dropped: by a scale of 0, since no threshold of 32 bits is above all words */
    uint32_t least = none ? 0 : (uint32_t)dl_rng_threshold(p);
    double scale = none ? 0 : 1 / (1 - p);
    long es = (long)dl_esize(y);
    char *xp = dl_ptr(x), *yp = dl_ptr(y);
    unsigned char *mp = dl_ptr(mask);
    dl_dropout_loop loop = DL_SIMD_PICK(dl_dropout)[y->dtype == DL_F64];
    dl_stop stop = dl_stop_begin();
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(4 * y->numel))
    for (long i = 0; i < y->numel; i += RUN) {
        if (dl_stop_asked(&stop)) continue;
        uint32_t own[RUN];
        long n = y->numel - i < RUN ? y->numel - i : RUN;
        const uint32_t *w = words ? (uint32_t *)dl_ptr(words) + i : own;
        if (!words) DL_SIMD_PICK(dl_random_words)(key, (uint64_t)i, n, own);
        loop(n, w, least, scale, xp + i * es, yp + i * es, mp + i);
    }
    dl_stop_end(&stop);
    if (none) memset(mp, 0, (size_t)mask->numel);
}

static dl_status fill(const dl_call *c, dl_tensor *y, dl_tensor *mask) {
    dl_rng_key key = dl_rng_key_of(c);
    bool logical = dl_is_contiguous(y);
    dl_tensor *x = dl_cpu_strided_like(c->in[0], y), *words = x && !logical ? words_like(y, key) : NULL;
    bool good = x && (words || logical);
    if (good) all_runs(x, y, mask, words, key, ATTR_F(c, DROPOUT_P));
    dl_unref(x);
    dl_unref(words);
    return good ? DL_OK : dl_failed();
}

/* The f32 output of a 16-bit call is contiguous, so the mask goes through a contiguous one as well. */
static dl_status dropout_float(dl_call *c) {
    dl_tensor *y = c->out[0], *mask = c->out[1];
    if (!y->numel) return DL_OK;
    if (!memcmp(y->stride, mask->stride, (size_t)y->ndim * sizeof *y->stride)) return fill(c, y, mask);
    dl_tensor *own = dl_tensor_empty(y->ndim, y->shape, DL_BOOL, 0);
    dl_status s = own ? fill(c, y, own) : dl_failed();
    if (s == DL_OK) dl_cpu_copy(mask, own);
    dl_unref(own);
    return s;
}

/* Not training: the output is the input itself. */
static dl_status dropout_run(dl_call *c) {
    return ATTR_I(c, DROPOUT_TRAINING) ? dl_cpu_via_f32(c, dropout_float, false) : DL_OK;
}

const dl_kernel dl_cpu_dropout = {.run = dropout_run, .dtypes = DL_FLOATS};
