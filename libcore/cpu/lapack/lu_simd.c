/* Loops of LU, see lu.h. Includes itself once an element type. */
#ifndef REAL
#include "cpu/lapack/lu.h"
#include "cpu/runtime/vec.h"

#include <float.h>
#include <stdbool.h>

#define BOTH_REALS "cpu/lapack/lu_simd.c"
#include "cpu/runtime/both_reals.def"

const dl_lu_loops DL_SIMD_NAME(dl_lu)[2] = {{solve_f32, panel_f32}, {solve_f64, panel_f64}};

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

/* Rows of column j from row i on, COUNT vectors of them or, with a further argument of LOAD and STORE, the first lanes
 * of one: u[k] times column k of a is subtracted for each k < j. `most` is the largest magnitude of each lane so far.
 */
#define ROWS(COUNT, LOAD, STORE, ...)                                                                                  \
    do {                                                                                                               \
        VEC v[COUNT];                                                                                                  \
        for (int q = 0; q < (COUNT); q++) v[q] = LOAD(x + i + q * LANES __VA_ARGS__);                                  \
        for (long k = 0; k < j; k++)                                                                                   \
            for (int q = 0; q < (COUNT); q++) v[q] -= LOAD(a + k * lda + i + q * LANES __VA_ARGS__) * u[k];            \
        for (int q = 0; q < (COUNT); q++) {                                                                            \
            STORE(x + i + q * LANES, v[q] __VA_ARGS__);                                                                \
            const VEC size = S(dl_vsel)(v[q] < 0, -v[q], v[q]);                                                        \
            most = S(dl_vsel)(size > most, size, most);                                                                \
        }                                                                                                              \
    } while (0)

/* Column j below the rows of u; returns its largest magnitude. */
static REAL S(take_columns)(long j, long m, const REAL *a, long lda, const REAL *u, REAL *x) {
    VEC most = {0};
    long i = j;
    for (; i + 4 * LANES <= m; i += 4 * LANES) ROWS(4, S(dl_vload), S(dl_vstore));
    for (; i + LANES <= m; i += LANES) ROWS(1, S(dl_vload), S(dl_vstore));
    if (i < m) ROWS(1, S(dl_vloadn), S(dl_vstoren), , m - i);
    REAL lane[LANES], top = 0;
    memcpy(lane, &most, sizeof lane);
    for (long k = 0; k < LANES; k++) top = lane[k] > top ? lane[k] : top;
    return top;
}
#undef ROWS

static void S(exchange)(long n, REAL *a, long lda, long i, long k) {
    for (long c = 0; c < n && i != k; c++) {
        const REAL x = a[c * lda + i];
        a[c * lda + i] = a[c * lda + k], a[c * lda + k] = x;
    }
}

/* Column by column, each from those before it. */
static int S(panel)(long m, long n, void *p, long lda, int *pivots) {
    const REAL least = sizeof(REAL) == sizeof(double) ? (REAL)DBL_MIN : (REAL)FLT_MIN;
    REAL *a = p, u[DL_LU_COLUMNS];
    int info = 0;
    for (long j = 0; j < n; j++) {
        REAL *x = a + j * lda;
        for (long i = 0; i < j; i++) {
            for (long k = 0; k < i; k++) x[i] -= a[k * lda + i] * x[k];
            u[i] = x[i];
        }
        const REAL top = S(take_columns)(j, m, a, lda, u, x);
        long at = j;
        while (at < m && !((x[at] < 0 ? -x[at] : x[at]) == top)) at++;
        if (at == m) at = j; /* NaN alone */
        pivots[j] = (int)at + 1;
        S(exchange)(n, a, lda, j, at);
        if (x[j] == 0 && !info) info = (int)j + 1;
        if (x[j] == 0) continue;
        const bool tiny = x[j] < least && -x[j] < least; /* its reciprocal may overflow */
        const REAL by = tiny ? x[j] : 1 / x[j];
        for (long i = j + 1; i < m; i++) x[i] = tiny ? x[i] / by : x[i] * by;
    }
    return info;
}
#undef LANES
#endif
