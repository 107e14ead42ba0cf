/* A loop of LU, see lu.h. Includes itself once an element type. */
#ifndef REAL
#include "cpu/lapack/lu.h"
#include "cpu/runtime/vec.h"

#define BOTH_REALS "cpu/lapack/lu_simd.c"
#include "cpu/runtime/both_reals.def"

const dl_lu_solve DL_SIMD_NAME(dl_lu)[2] = {solve_f32, solve_f64};

#else

#define LANES ((long)(sizeof(VEC) / sizeof(REAL)))

/* Columns of the inverse of L, with zeros behind. */
static void S(invert)(long n, const REAL *l, long ldl, REAL (*to)[DL_LU_COLUMNS]) {
    memset(to, 0, (size_t)n * sizeof *to);
    for (long j = 0; j < n; j++) {
        to[j][j] = 1;
        for (long k = j; k < n; k++)
            for (long i = k + 1; i < n; i++) to[j][i] -= l[k * ldl + i] * to[j][k];
    }
}

/* COUNT columns of b, from b on, are multiplied by the inverse. */
#define COLUMNS(COUNT)                                                                                                 \
    do {                                                                                                               \
        VEC sum[COUNT][PARTS];                                                                                         \
        memset(sum, 0, sizeof sum);                                                                                    \
        for (long k = 0; k < n; k++)                                                                                   \
            for (int p = 0; p < PARTS; p++) {                                                                          \
                const VEC v = S(dl_vload)(inverse[k] + p * LANES);                                                     \
                for (int q = 0; q < (COUNT); q++) sum[q][p] += v * b[q * ldb + k];                                     \
            }                                                                                                          \
        for (int q = 0; q < (COUNT); q++) memcpy(b + q * ldb, sum[q], (size_t)n * sizeof *b);                          \
    } while (0)

static void S(solve)(long n, long c, const void *l, long ldl, void *right, long ldb) {
    enum { PARTS = DL_LU_COLUMNS / (sizeof(VEC) / sizeof(REAL)) };
    REAL inverse[DL_LU_COLUMNS][DL_LU_COLUMNS], *b = right;
    S(invert)(n, l, ldl, inverse);
    for (; c >= 4; c -= 4, b += 4 * ldb) COLUMNS(4);
    for (; c > 0; c--, b += ldb) COLUMNS(1);
}
#undef COLUMNS
#undef LANES
#endif
