/* Loops over the rows of sparse matrices, see sparse.h. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/sparse/sparse.h"
#include "cpu/runtime/vec.h"

/* Bytes of a vector that the instruction set of this level has registers for: wider ones would be kept in memory. */
#if DL_SIMD_LEVEL == 4
#define WIDTH 64
#elif DL_SIMD_LEVEL == 3
#define WIDTH 32
#else
#define WIDTH 16
#endif
typedef float native_f32 __attribute__((vector_size(WIDTH), aligned(4), may_alias));
typedef double native_f64 __attribute__((vector_size(WIDTH), aligned(8), may_alias));

enum {
    AHEAD = 8,  /* entries between the one that is computed and the one whose row is fetched into the cache */
    DOTS = 128, /* bytes of the sums of a product of two rows: the same lanes, and so the same bits, at every level */
};

static inline bool columns_fit(const dl_csr_job *j, long from, long to) {
    bool bad = false;
    for (long e = from; e < to; e++) bad |= (unsigned long)j->col[e] >= (unsigned long)j->cols;
    return !bad;
}

#define BOTH_REALS "cpu/kernels/sparse/sparse_simd.c"
#include "cpu/runtime/both_reals.def"

const dl_csr_loops DL_SIMD_NAME(dl_csr)[2] = {{spmm_f32, sddmm_f32}, {spmm_f64, sddmm_f64}};

#else

#define LANES ((long)(WIDTH / sizeof(REAL)))

/* Some vectors of one row of the result, in registers while the row's entries are gone through. */
#define VECTORS(name, count)                                                                                           \
    static inline void S(name)(const dl_csr_job *j, const REAL *right, REAL *out, long from, long to) {                \
        const REAL *v = j->values;                                                                                     \
        S(native) sum[count] = {0};                                                                                    \
        for (long e = from; e < to; e++) {                                                                             \
            const REAL *x = right + j->col[e] * j->right_step;                                                         \
            const REAL *next = right + j->col[e + AHEAD < to ? e + AHEAD : e] * j->right_step;                         \
            for (int i = 0; i < (count); i++) {                                                                        \
                if (i * WIDTH % 64 == 0) __builtin_prefetch(next + i * LANES);                                         \
                sum[i] += v[e] * *(const S(native) *)(x + i * LANES);                                                  \
            }                                                                                                          \
        }                                                                                                              \
        for (int i = 0; i < (count); i++) *(S(native) *)(out + i * LANES) = sum[i];                                    \
    }
VECTORS(eight_vectors, 8)
VECTORS(two_vectors, 2)
VECTORS(one_vector, 1)

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
        for (; c + 8 * LANES <= j->n; c += 8 * LANES) S(eight_vectors)(j, right + c, out + c, lo, hi);
        for (; c + 2 * LANES <= j->n; c += 2 * LANES) S(two_vectors)(j, right + c, out + c, lo, hi);
        if (c + LANES <= j->n) S(one_vector)(j, right + c, out + c, lo, hi), c += LANES;
        if (LANES > 8 && j->n - c >= 8) S(eight)(j, right + c, out + c, lo, hi), c += 8;
        if (LANES > 4 && j->n - c >= 4) S(fourth)(j, right + c, out + c, lo, hi), c += 4;
        if (LANES > 2 && j->n - c >= 2) S(pair)(j, right + c, out + c, lo, hi), c += 2;
        if (j->n - c >= 1) out[c] = S(single)(j, right + c, lo, hi);
    }
    return true;
}

/* The sum of all lanes of some vectors, of which the second half is added to the first until one is left. */
static inline REAL S(total)(S(native) * sum) {
    REAL t[WIDTH / sizeof(REAL)];
    for (int k = DOTS / WIDTH / 2; k; k /= 2)
        for (int i = 0; i < k; i++) sum[i] += sum[i + k];
    memcpy(t, sum, sizeof t);
    for (long w = LANES / 2; w; w /= 2)
        for (long i = 0; i < w; i++) t[i] += t[i + w];
    return t[0];
}

static inline REAL S(product)(const REAL *x, const REAL *y, long n) {
    const long all = DOTS / sizeof(REAL);
    REAL whole = 0, rest = 0;
    long i = 0;
    if (n >= all) {
        S(native) sum[DOTS / WIDTH] = {0};
        for (; i + all <= n; i += all)
            for (int k = 0; k < DOTS / WIDTH; k++)
                sum[k] += *(const S(native) *)(x + i + k * LANES) * *(const S(native) *)(y + i + k * LANES);
        whole = S(total)(sum);
    }
    for (; i < n; i++) rest += x[i] * y[i];
    return whole + rest;
}

static bool S(sddmm)(const dl_csr_job *j, long from, long to) {
    REAL *out = j->out;
    for (long r = from; r < to; r++) {
        const long lo = j->crow[r], hi = j->crow[r + 1];
        const REAL *left = (const REAL *)j->left + r * j->left_step;
        if (!columns_fit(j, lo, hi)) return false;
        for (long e = lo; e < hi; e++) {
            const REAL *next = (const REAL *)j->right + j->col[e + AHEAD < hi ? e + AHEAD : e] * j->right_step;
            for (long i = 0; i < j->n && i < 4 * 64 / (long)sizeof(REAL); i += 64 / (long)sizeof(REAL))
                __builtin_prefetch(next + i);
            out[e] = S(product)(left, (const REAL *)j->right + j->col[e] * j->right_step, j->n);
        }
    }
    return true;
}
#undef LANES
#undef VECTORS
#undef ELEMENTS
#endif
