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
#endif
