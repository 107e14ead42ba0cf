/* Products of small matrices, where a BLAS call costs more than the work. Four rows by one vector of columns at a time;
 * the right operand is packed when its columns do not lie in whole vectors. Includes itself once an element type. */
#ifndef REAL
#include "cpu/runtime/gemm.h"
#include "cpu/runtime/simd.h"
#include "cpu/runtime/vec.h"

#define BOTH_REALS "cpu/runtime/tiny_simd.c"
#include "cpu/runtime/both_reals.def"

#else
enum { S(MAX_PACK) = 8192 };

/* Rows i .. i + ROWS of c, columns j .. j + n of at most one vector. */
#define BLOCK(ROWS)                                                                                                    \
    do {                                                                                                               \
        VEC acc[ROWS];                                                                                                 \
        for (int r = 0; r < ROWS; r++) acc[r] = (VEC){0};                                                              \
        for (long l = 0; l < k; l++) {                                                                                 \
            VEC v = S(dl_vload)(bp + l * bs + j);                                                                      \
            for (int r = 0; r < ROWS; r++) acc[r] += ap[(i + r) * a.rs + l * a.cs] * v;                                \
        }                                                                                                              \
        for (int r = 0; r < ROWS; r++) {                                                                               \
            REAL *cr = cp + (i + r) * c.rs + j;                                                                        \
            if (n - j >= lanes)                                                                                        \
                S(dl_vstore)(cr, add ? acc[r] + S(dl_vload)(cr) : acc[r]);                                             \
            else                                                                                                       \
                S(dl_vstoren)(cr, add ? acc[r] + S(dl_vloadn)(cr, n - j) : acc[r], n - j);                             \
        }                                                                                                              \
    } while (0)

/* False when the right operand is too large to pack. c.cs is 1. */
bool DL_SIMD_NAME(S(dl_tiny_gemm))(long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add) {
    enum { lanes = S(DL_LANES) };
    REAL pack[S(MAX_PACK)];
    const REAL *ap = a.p, *bp = b.p;
    REAL *cp = c.p;
    long bs = b.rs;
    if (b.cs != 1 || n % lanes) {
        bs = (n + lanes - 1) / lanes * lanes;
        if (bs * k > S(MAX_PACK)) return false;
        for (long l = 0; l < k; l++) {
            for (long j = 0; j < n; j++) pack[l * bs + j] = bp[l * b.rs + j * b.cs];
            for (long j = n; j < bs; j++) pack[l * bs + j] = 0;
        }
        bp = pack;
    }
    for (long j = 0; j < n; j += lanes) {
        long i = 0;
        for (; i + 8 <= m; i += 8) BLOCK(8);
        for (; i + 4 <= m; i += 4) BLOCK(4);
        for (; i < m; i++) BLOCK(1);
    }
    return true;
}
#undef BLOCK

/* Sums of products of ROWS rows of a and COLS columns of b, which both lie densely along k. */
#define DOTS(ROWS, COLS)                                                                                               \
    do {                                                                                                               \
        VEC acc[ROWS][COLS], v[ROWS];                                                                                  \
        memset(acc, 0, sizeof acc);                                                                                    \
        for (long l = 0, left; l < k; l += lanes) {                                                                    \
            left = k - l;                                                                                              \
            for (int r = 0; r < (ROWS); r++) v[r] = S(part)(ap + (i + r) * a.rs + l, left);                            \
            for (int q = 0; q < (COLS); q++) {                                                                         \
                const VEC w = S(part)(bp + (j + q) * b.cs + l, left);                                                  \
                for (int r = 0; r < (ROWS); r++) acc[r][q] += v[r] * w;                                                \
            }                                                                                                          \
        }                                                                                                              \
        for (int r = 0; r < (ROWS); r++)                                                                               \
            for (int q = 0; q < (COLS); q++) {                                                                         \
                REAL *to = cp + (i + r) * c.rs + (j + q) * c.cs;                                                       \
                *to = S(dl_vsum)(acc[r][q]) + (add ? *to : 0);                                                         \
            }                                                                                                          \
    } while (0)

static inline __attribute__((always_inline)) VEC S(part)(const REAL *p, long left) {
    return left < S(DL_LANES) ? S(dl_vloadn)(p, left) : S(dl_vload)(p);
}

void DL_SIMD_NAME(S(dl_dots))(long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add) {
    enum { lanes = S(DL_LANES) };
    const REAL *ap = a.p, *bp = b.p;
    REAL *cp = c.p;
    long i, j = 0;
    for (; j + 4 <= n; j += 4) {
        for (i = 0; i + 4 <= m; i += 4) DOTS(4, 4);
        for (; i + 2 <= m; i += 2) DOTS(2, 4);
        for (; i < m; i++) DOTS(1, 4);
    }
    for (; j < n; j++) {
        for (i = 0; i + 4 <= m; i += 4) DOTS(4, 1);
        for (; i < m; i++) DOTS(1, 1);
    }
}
#undef DOTS
#endif
