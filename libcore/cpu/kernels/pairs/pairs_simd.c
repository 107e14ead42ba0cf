/* Loops of sums over pairs, see pairs.h. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/pairs/pairs.h"
#include "cpu/runtime/vec.h"

#include <math.h>
#include <stdlib.h>

#define BOTH_REALS "cpu/kernels/pairs/pairs_simd.c"
#include "cpu/runtime/both_reals.def"

#define LOOPS(t)                                                                                                       \
    { distances_##t, distances_back_##t, margins_##t, margins_back_##t }
const dl_pair_loops DL_SIMD_NAME(dl_pair)[2] = {LOOPS(f32), LOOPS(f64)};

#else

#define LANES ((long)(sizeof(VEC) / sizeof(REAL)))
#define IS_F32 (sizeof(REAL) == 4)

/* ---- distances: a term of the sum by a difference, and what the sum is in the end */

typedef enum S(norm) { S(zero), S(one), S(two), S(most), S(any) } S(norm);

static inline S(norm) S(norm_of)(double p) {
    return p == 0 ? S(zero) : p == 1 ? S(one) : p == 2 ? S(two) : p == (double)INFINITY ? S(most) : S(any);
}
static inline VINT S(sign_bit)(void) { return (VINT)S(dl_vset)((REAL)-0.0); }
static inline VEC S(size)(VEC v) { return (VEC)((VINT)v & ~S(sign_bit)()); }
static inline VEC S(powers)(VEC v, REAL p) {
    for (long i = 0; i < LANES; i++) v[i] = (REAL)pow((double)v[i], (double)p);
    return v;
}
static inline __attribute__((always_inline)) VEC S(joined)(S(norm) norm, VEC sum, VEC v, REAL p) {
    const VEC none = {0}, one = S(dl_vset)(1);
    switch (norm) {
    case S(zero): return sum + S(dl_vsel)((VINT)(v != 0), one, none);
    case S(one): return sum + S(size)(v);
    case S(two): return sum + v * v;
    case S(most):
        return S(dl_vsel)((VINT)S(size)(v) > (VINT)sum, S(size)(v), sum); /* as integers: NaN is the largest */
    default: return sum + S(powers)(S(size)(v), p);
    }
}

/* Of DL_PAIR_ROWS rows from i on the distances from a vector of rows from j on. */
static inline __attribute__((always_inline)) void S(tile)(const dl_pairs *t, S(norm) norm, long i, long j,
                                                          REAL (*out)[LANES]) {
    const REAL *x = t->x, *turned = (const REAL *)t->turned + j;
    VEC sum[DL_PAIR_ROWS] = {0};
    for (long d = 0; d < t->depth; d++, turned += t->wide) {
        const VEC v = S(dl_vload)(turned);
        for (int r = 0; r < DL_PAIR_ROWS; r++)
            sum[r] = S(joined)(norm, sum[r], v - x[(i + r) * t->row + d], (REAL)t->p);
    }
    for (int r = 0; r < DL_PAIR_ROWS; r++) {
        for (long k = 0; k < LANES; k++)
            out[r][k] = norm == S(two)   ? (IS_F32 ? (REAL)sqrtf((float)sum[r][k]) : (REAL)sqrt((double)sum[r][k]))
                        : norm == S(any) ? (REAL)pow((double)sum[r][k], 1 / t->p)
                                         : sum[r][k];
    }
}

/* Where the distance of rows i and j stands; without others, i < j. */
static inline long S(place)(const dl_pairs *t, long i, long j) {
    return j + (t->others ? i * t->m : i * (2 * t->n - i - 1) / 2 - i - 1);
}

static inline __attribute__((always_inline)) void S(rows_of_tile)(const dl_pairs *t, S(norm) norm, long i) {
    REAL line[DL_PAIR_ROWS][LANES];
    for (long j = t->others ? 0 : i + 1; j < t->m; j += LANES) {
        S(tile)(t, norm, i, j, line);
        for (long r = 0; r < DL_PAIR_ROWS && i + r < t->n; r++) {
            const long at = i + r, first = t->others ? 0 : at + 1, from = first > j ? first : j,
                       end = j + LANES < t->m ? j + LANES : t->m;
            REAL *out = (REAL *)t->out + S(place)(t, at, 0);
            if (from < end) memcpy(out + from, line[r] + (from - j), (size_t)(end - from) * sizeof *out);
        }
    }
}

static void S(distances)(const dl_pairs *t, long tile) {
    const long i = tile * DL_PAIR_ROWS;
    const S(norm) norm = S(norm_of)(t->p);
    switch (norm) {
    case S(zero): S(rows_of_tile)(t, S(zero), i); break;
    case S(one): S(rows_of_tile)(t, S(one), i); break;
    case S(two): S(rows_of_tile)(t, S(two), i); break;
    case S(most): S(rows_of_tile)(t, S(most), i); break;
    default: S(rows_of_tile)(t, S(any), i);
    }
}

/* The share of a difference v in the gradient of the distance: w is the gradient over what does not depend on v. */
static inline __attribute__((always_inline)) VEC S(share)(S(norm) norm, VEC v, REAL w, REAL distance, REAL p) {
    const VEC none = {0}, size = S(size)(v), signed_w = (VEC)(((VINT)v & S(sign_bit)()) ^ (VINT)S(dl_vset)(w));
    switch (norm) {
    case S(one): return (VEC)((VINT)signed_w & (VINT)(size > 0));
    case S(two): return v * w;
    case S(most): return (VEC)((VINT)signed_w & (VINT)(size - distance == 0));
    default: return S(dl_vsel)((VINT)(v == 0), none, signed_w * S(powers)(size, p - 1));
    }
}

static inline __attribute__((always_inline)) void S(row_back)(const dl_pairs *t, S(norm) norm, long i) {
    enum { WIDTH = 4 };
    const REAL *x = t->x, *y = t->y, *d = t->d, *g = t->g;
    REAL *out = (REAL *)t->out + i * t->depth;
    for (long from = 0; from < t->row; from += WIDTH * LANES) {
        const int width = (int)((t->row - from) / LANES < WIDTH ? (t->row - from) / LANES : WIDTH);
        VEC mine[WIDTH] = {0}, sum[WIDTH] = {0};
        for (int k = 0; k < width; k++) mine[k] = S(dl_vload)(x + i * t->row + from + k * LANES);
        for (long j = 0; j < t->m; j++) {
            if (j == i && !t->others) continue;
            const long at = t->others || i < j ? S(place)(t, i, j) : S(place)(t, j, i);
            const REAL far = d[at];
            if (far == 0) continue;
            const REAL w = norm == S(two) ? g[at] / far : norm == S(any) ? (REAL)(g[at] / pow(far, t->p - 1)) : g[at];
            const REAL *other = y + j * t->row + from;
            if (width == WIDTH)
                for (int k = 0; k < WIDTH; k++)
                    sum[k] += S(share)(norm, mine[k] - S(dl_vload)(other + k * LANES), w, far, (REAL)t->p);
            else
                for (int k = 0; k < width; k++)
                    sum[k] += S(share)(norm, mine[k] - S(dl_vload)(other + k * LANES), w, far, (REAL)t->p);
        }
        for (int k = 0; k < width; k++) {
            const long left = t->depth - from - k * LANES;
            S(dl_vstoren)(out + from + k * LANES, sum[k], left < LANES ? left : LANES);
        }
    }
}

static void S(distances_back)(const dl_pairs *t, long i) {
    switch (S(norm_of)(t->p)) {
    case S(one): S(row_back)(t, S(one), i); break;
    case S(two): S(row_back)(t, S(two), i); break;
    case S(most): S(row_back)(t, S(most), i); break;
    default: S(row_back)(t, S(any), i);
    }
}

/* ---- margins: of each label the sum over the classes that are none */

static inline long S(count_labels)(const dl_margins *m, const long *y) {
    long n = 0;
    while (n < m->classes && y[n] >= 0) n++;
    return n;
}

/* The scores of a row less infinity where the class is a label. */
static void S(others)(const dl_margins *m, long row, long labels, REAL *out) {
    memcpy(out, (const REAL *)m->x + row * m->classes, (size_t)m->classes * sizeof *out);
    for (long k = 0; k < labels; k++) out[m->y[row * m->classes + k]] = -(REAL)INFINITY;
}

enum { S(MOST) = 4096 };

static void S(margins)(const dl_margins *m, long row) {
    const long *y = m->y + row * m->classes, labels = S(count_labels)(m, y);
    const REAL *x = (const REAL *)m->x + row * m->classes;
    REAL room[S(MOST)], *other = m->classes <= S(MOST) ? room : malloc((size_t)m->classes * sizeof *other), sum = 0;
    if (other) S(others)(m, row, labels, other);
    for (long k = 0; other && k < labels; k++) {
        const REAL own = x[y[k]] - 1;
        VEC part = {0}, none = {0};
        for (long i = 0; i < m->classes; i += LANES) {
            const long left = m->classes - i;
            VEC gap = (left < LANES ? S(dl_vloadn)(other + i, left) : S(dl_vload)(other + i)) - own;
            if (left < LANES)
                for (long l = left; l < LANES; l++) gap[l] = 0;
            part += S(dl_vsel)((VINT)(gap < 0), none, gap);
        }
        sum += S(dl_vsum)(part);
    }
    ((REAL *)m->out)[row] = other ? sum / (REAL)m->classes : (REAL)NAN;
    if (other != room) free(other);
}

static void S(margins_back)(const dl_margins *m, long row) {
    const long *y = m->y + row * m->classes, labels = S(count_labels)(m, y);
    const REAL *x = (const REAL *)m->x + row * m->classes, by = ((const REAL *)m->g)[row] / (REAL)m->classes;
    REAL *out = (REAL *)m->out + row * m->classes, room[S(MOST)];
    REAL *other = m->classes <= S(MOST) ? room : malloc((size_t)m->classes * sizeof *other);
    if (other) S(others)(m, row, labels, other);
    for (long i = 0; i < m->classes; i++) out[i] = 0;
    for (long k = 0; other && k < labels; k++) {
        const REAL own = x[y[k]] - 1;
        REAL hits = 0;
        for (long i = 0; i < m->classes; i++) out[i] += other[i] > own ? 1 : 0;
        VEC part = {0}, none = {0}, one = S(dl_vset)(1);
        long i = 0;
        for (; i + LANES <= m->classes; i += LANES) part += S(dl_vsel)((VINT)(S(dl_vload)(other + i) > own), one, none);
        for (; i < m->classes; i++) hits += other[i] > own ? 1 : 0;
        out[y[k]] -= hits + S(dl_vsum)(part);
    }
    for (long i = 0; i < m->classes; i++) out[i] *= by;
    if (other != room) free(other);
}

#endif
