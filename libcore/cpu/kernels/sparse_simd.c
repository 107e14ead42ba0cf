/* Loops over the rows of sparse matrices, see sparse.h. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/sparse.h"
#include "cpu/runtime/vec.h"

enum { AHEAD = 8 }; /* entries between the one that is computed and the one whose row is fetched into the cache */

static inline bool columns_fit(const dl_csr_job *j, long from, long to) {
    bool bad = false;
    for (long e = from; e < to; e++) bad |= (unsigned long)j->col[e] >= (unsigned long)j->cols;
    return !bad;
}

#define BOTH_REALS "cpu/kernels/sparse_simd.c"
#include "cpu/runtime/both_reals.def"

const dl_csr_loops DL_SIMD_NAME(dl_csr)[2] = {{spmm_f32, sddmm_f32}, {spmm_f64, sddmm_f64}};

#else

#define LANES ((long)(sizeof(VEC) / sizeof(REAL)))

/* Some vectors of one row of the result, in registers while the row's entries are gone through. */
#define VECTORS(name, count)                                                                                           \
    static inline void S(name)(const dl_csr_job *j, const REAL *right, REAL *out, long from, long to) {                \
        const REAL *v = j->values;                                                                                     \
        VEC sum[count] = {0};                                                                                          \
        for (long e = from; e < to; e++) {                                                                             \
            const REAL *x = right + j->col[e] * j->right_step;                                                         \
            const REAL *next = right + j->col[e + AHEAD < to ? e + AHEAD : e] * j->right_step;                         \
            VEC k = S(dl_vset)(v[e]);                                                                                  \
            for (int i = 0; i < (count); i++) {                                                                        \
                __builtin_prefetch(next + i * LANES);                                                                  \
                sum[i] += k * S(dl_vload)(x + i * LANES);                                                              \
            }                                                                                                          \
        }                                                                                                              \
        for (int i = 0; i < (count); i++) S(dl_vstore)(out + i * LANES, sum[i]);                                       \
    }
VECTORS(four, 4)
VECTORS(one, 1)

/* The same for fewer elements than a vector has. */
#define ELEMENTS(name, count)                                                                                          \
    static inline void S(name)(const dl_csr_job *j, const REAL *right, REAL *out, long from, long to) {                \
        const REAL *v = j->values;                                                                                     \
        REAL sum[count] = {0};                                                                                         \
        for (long e = from; e < to; e++) {                                                                             \
            const REAL *x = right + j->col[e] * j->right_step;                                                         \
            for (int i = 0; i < (count); i++) sum[i] += v[e] * x[i];                                                   \
        }                                                                                                              \
        for (int i = 0; i < (count); i++) out[i] = sum[i];                                                             \
    }
ELEMENTS(eight, 8)
ELEMENTS(fourth, 4)
ELEMENTS(pair, 2)

/* One element: four sums, so that an addition need not wait for the one before. */
static inline REAL S(single)(const dl_csr_job *j, const REAL *right, long from, long to) {
    const REAL *v = j->values;
    REAL sum[4] = {0};
    long e = from;
    for (; e + 4 <= to; e += 4)
        for (int i = 0; i < 4; i++) sum[i] += v[e + i] * right[j->col[e + i] * j->right_step];
    for (int i = 0; e < to; e++, i++) sum[i] += v[e] * right[j->col[e] * j->right_step];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static bool S(spmm)(const dl_csr_job *j, long from, long to) {
    const REAL *right = j->right;
    for (long r = from; r < to; r++) {
        const long lo = j->crow[r], hi = j->crow[r + 1];
        REAL *out = (REAL *)j->out + r * j->n;
        long c = 0;
        if (!columns_fit(j, lo, hi)) return false;
        for (; c + 4 * LANES <= j->n; c += 4 * LANES) S(four)(j, right + c, out + c, lo, hi);
        for (; c + LANES <= j->n; c += LANES) S(one)(j, right + c, out + c, lo, hi);
        if (LANES > 8 && j->n - c >= 8) S(eight)(j, right + c, out + c, lo, hi), c += 8;
        if (j->n - c >= 4) S(fourth)(j, right + c, out + c, lo, hi), c += 4;
        if (j->n - c >= 2) S(pair)(j, right + c, out + c, lo, hi), c += 2;
        if (j->n - c >= 1) out[c] = S(single)(j, right + c, lo, hi);
    }
    return true;
}

static inline REAL S(product)(const REAL *x, const REAL *y, long n) {
    VEC sum[2] = {0};
    long i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (int k = 0; k < 2; k++) sum[k] += S(dl_vload)(x + i + k * LANES) * S(dl_vload)(y + i + k * LANES);
    if (i + LANES <= n) sum[0] += S(dl_vload)(x + i) * S(dl_vload)(y + i), i += LANES;
    REAL rest = 0;
    for (; i < n; i++) rest += x[i] * y[i];
    return n < LANES ? rest : S(dl_vsum)(sum[0] + sum[1]) + rest;
}

static bool S(sddmm)(const dl_csr_job *j, long from, long to) {
    REAL *out = j->out;
    for (long r = from; r < to; r++) {
        const long lo = j->crow[r], hi = j->crow[r + 1];
        const REAL *left = (const REAL *)j->left + r * j->left_step;
        if (!columns_fit(j, lo, hi)) return false;
        for (long e = lo; e < hi; e++)
            out[e] = S(product)(left, (const REAL *)j->right + j->col[e] * j->right_step, j->n);
    }
    return true;
}
#undef LANES
#undef VECTORS
#undef ELEMENTS
#endif
