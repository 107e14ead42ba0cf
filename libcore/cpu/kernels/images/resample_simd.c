/* Loops of sums of a few elements along a dimension, see resample.h. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/images/resample.h"
#include "cpu/runtime/vec.h"

#include <stdbool.h>

#define BOTH_REALS "cpu/kernels/images/resample_simd.c"
#include "cpu/runtime/both_reals.def"

const dl_resample_loop DL_SIMD_NAME(dl_resample_rows)[2] = {row_f32, row_f64};

#else

/* ---- elements one by one */

static inline REAL S(pick)(const REAL *x, int32_t at) {
    const REAL v = x[at < 0 ? 0 : at];
    return at < 0 ? 0 : v;
}

static void S(single)(const dl_resampling *j, const REAL *restrict x, REAL *restrict out) {
    const int32_t *restrict a = j->index, *restrict b = a + j->count;
    const REAL *restrict u = j->weight, *restrict v = u ? u + j->count : NULL;
    if (j->terms == 1 && !u)
        for (long i = 0; i < j->count; i++) out[i] = S(pick)(x, a[i]);
    else if (j->terms == 2 && !u)
        for (long i = 0; i < j->count; i++) out[i] = S(pick)(x, a[i]) + S(pick)(x, b[i]);
    else if (j->terms == 2)
        for (long i = 0; i < j->count; i++) out[i] = u[i] * S(pick)(x, a[i]) + v[i] * S(pick)(x, b[i]);
    else {
        for (long i = 0; i < j->count; i++) out[i] = 0;
        for (long k = 0; k < j->terms; k++, a += j->count, u += u ? j->count : 0) {
            if (u)
                for (long i = 0; i < j->count; i++) out[i] += u[i] * S(pick)(x, a[i]);
            else
                for (long i = 0; i < j->count; i++) out[i] += S(pick)(x, a[i]);
        }
    }
}

/* ---- lines of `inner` elements */

static void S(add_line)(long n, const REAL *restrict x, REAL w, bool first, REAL *restrict out) {
    if (first)
        for (long i = 0; i < n; i++) out[i] = w * x[i];
    else
        for (long i = 0; i < n; i++) out[i] += w * x[i];
}
static void S(two_lines)(long n, const REAL *restrict x, REAL u, const REAL *restrict y, REAL v, REAL *restrict out) {
    for (long i = 0; i < n; i++) out[i] = u * x[i] + v * y[i];
}

static void S(line)(const dl_resampling *j, const REAL *x, long i, REAL *out) {
    const REAL *w = j->weight;
    const int32_t a = j->index[i], b = j->terms == 2 ? j->index[j->count + i] : -1;
    if (!w && j->terms == 1 && a >= 0) {
        memcpy(out, x + a * j->inner, (size_t)j->inner * sizeof *out);
        return;
    }
    if (a >= 0 && b >= 0) {
        S(two_lines)(j->inner, x + a * j->inner, w ? w[i] : 1, x + b * j->inner, w ? w[j->count + i] : 1, out);
        return;
    }
    bool first = true;
    for (long k = 0; k < j->terms; k++) {
        const int32_t at = j->index[k * j->count + i];
        if (at < 0) continue;
        S(add_line)(j->inner, x + at * j->inner, w ? w[k * j->count + i] : 1, first, out);
        first = false;
    }
    if (first) memset(out, 0, (size_t)j->inner * sizeof *out);
}

static void S(row)(const dl_resampling *j, long row) {
    const REAL *x = (const REAL *)j->x + row * j->n * j->inner;
    REAL *out = (REAL *)j->out + row * j->count * j->inner;
    if (j->inner == 1)
        S(single)(j, x, out);
    else
        for (long i = 0; i < j->count; i++) S(line)(j, x, i, out + i * j->inner);
}

#endif
