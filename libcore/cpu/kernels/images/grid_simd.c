/* Loops of images read at places of a grid, see grid.h. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/images/grid.h"
#include "cpu/runtime/vec.h"

#define BOTH_REALS "cpu/kernels/images/grid_simd.c"
#include "cpu/runtime/both_reals.def"

#define LOOPS(t)                                                                                                       \
    { find_##t, read_##t, spread_##t, slopes_##t }
const dl_grid_loops DL_SIMD_NAME(dl_grid_rows)[2] = {LOOPS(f32), LOOPS(f64)};

#else

#define INLINE static inline __attribute__((always_inline))
#define AT S(at)
#define READ_AS S(read_as)
#define SLOPES_AS S(slopes_as)
#define FIND_AS S(find_as)

/* Term k of place i at [k * count + i]; pixel: -1 outside. */
typedef struct S(terms) {
    bool inside; /* all of them */
    int32_t pixel[DL_GRID_SPACE];
    REAL weight[DL_GRID_SPACE], slope[DL_GRID_DIMS][DL_GRID_SPACE];
} S(terms);
_Static_assert(sizeof(S(terms)) <= DL_GRID_BYTES, "room of terms");

/* With a mode that is known beforehand. */
INLINE void S(find_as)(const dl_grid_job *j, const dl_grid_mode mode, long image, long from, long count,
                       const bool slopes, S(terms) * all) {
    static const int taps[] = {2, 1, 4};
    dl_grid grid = j->grid;
    const int dims = grid.dims;
    int32_t outside = 0;
    grid.mode = mode, grid.taps = taps[mode];
    for (long i = 0; i < count; i++) {
        dl_grid_tap tap[DL_GRID_DIMS];
        const REAL *at = (const REAL *)j->at + (image * j->places + from + i) * dims;
        for (int d = 0; d < dims; d++) /* the grid names the last direction first */
            dl_grid_taps(&grid, d, (double)at[dims - 1 - d], &tap[d]);
        for (int k = 0; k < j->terms; k++) {
            const dl_grid_term t = dl_grid_term_at(&grid, tap, k);
            const long to = k * count + i;
            all->pixel[to] = (int32_t)t.pixel, all->weight[to] = (REAL)t.weight;
            outside |= all->pixel[to];
            for (int d = 0; slopes && d < dims; d++) all->slope[d][to] = (REAL)t.slope[d];
        }
    }
    all->inside = outside >= 0;
}

static void S(find)(const dl_grid_job *j, long image, long from, long count, bool slopes, void *all) {
    switch (j->grid.mode) {
    case DL_GRID_LINEAR:
        if (slopes)
            FIND_AS(j, DL_GRID_LINEAR, image, from, count, true, all);
        else
            FIND_AS(j, DL_GRID_LINEAR, image, from, count, false, all);
        return;
    case DL_GRID_CUBIC:
        if (slopes)
            FIND_AS(j, DL_GRID_CUBIC, image, from, count, true, all);
        else
            FIND_AS(j, DL_GRID_CUBIC, image, from, count, false, all);
        return;
    default: FIND_AS(j, DL_GRID_NEAREST, image, from, count, slopes, all);
    }
}

INLINE REAL S(at)(const REAL *x, int32_t pixel, const bool inside) { return inside || pixel >= 0 ? x[pixel] : 0; }

INLINE void S(read_as)(const S(terms) * all, const int terms, const bool inside, const REAL *restrict x,
                       REAL *restrict out, long count) {
    for (long i = 0; i < count; i++) {
        REAL sum = 0;
        for (int k = 0; k < terms; k++) sum += all->weight[k * count + i] * AT(x, all->pixel[k * count + i], inside);
        out[i] = sum;
    }
}

/* BODY with numbers of terms and `inside` as constants. */
#define EACH_FORM(terms, in, BODY)                                                                                     \
    switch ((terms)*2 + (in)) {                                                                                        \
    case 2: BODY(1, false); break;                                                                                     \
    case 3: BODY(1, true); break;                                                                                      \
    case 8: BODY(4, false); break;                                                                                     \
    case 9: BODY(4, true); break;                                                                                      \
    case 16: BODY(8, false); break;                                                                                    \
    case 17: BODY(8, true); break;                                                                                     \
    case 32: BODY(16, false); break;                                                                                   \
    default: BODY(16, true);                                                                                           \
    }

static void S(read)(const dl_grid_job *j, const void *all_, long plane, long from, long count) {
    const S(terms) *all = all_;
    const REAL *x = (const REAL *)j->x + plane * j->pixels;
    REAL *out = (REAL *)j->out + plane * j->places + from;
#define BODY(n, in) READ_AS(all, n, in, x, out, count)
    EACH_FORM(j->terms, all->inside, BODY)
#undef BODY
}

static void S(spread)(const dl_grid_job *j, const void *all_, long plane, long from, long count) {
    const S(terms) *all = all_;
    const REAL *g = (const REAL *)j->g + plane * j->places + from;
    REAL *dx = (REAL *)j->dx + plane * j->pixels;
    for (int k = 0; k < j->terms; k++) {
        const int32_t *pixel = all->pixel + k * count;
        const REAL *w = all->weight + k * count;
        if (all->inside)
            for (long i = 0; i < count; i++) dx[pixel[i]] += w[i] * g[i];
        else
            for (long i = 0; i < count; i++)
                if (pixel[i] >= 0) dx[pixel[i]] += w[i] * g[i];
    }
}

/* sum += g times the slope by number d of the grid */
INLINE void S(slopes_as)(const S(terms) * all, int d, const int terms, const bool inside, const REAL *restrict x,
                         const REAL *restrict g, double *restrict sum, long count) {
    const REAL *slope = all->slope[d];
    for (long i = 0; i < count; i++) {
        REAL each = 0;
        for (int k = 0; k < terms; k++) each += slope[k * count + i] * AT(x, all->pixel[k * count + i], inside);
        sum[i] += (double)(each * g[i]);
    }
}

static void S(slopes)(const dl_grid_job *j, const void *all_, long image, long from, long count) {
    const S(terms) *all = all_;
    const int dims = j->grid.dims;
    double sum[DL_GRID_SPACE / 4];
    for (int d = 0; d < dims; d++) {
        for (long i = 0; i < count; i++) sum[i] = 0;
        for (long c = 0; c < j->c; c++) {
            const long plane = image * j->c + c;
            const REAL *g = (const REAL *)j->g + plane * j->places + from, *x = (const REAL *)j->x + plane * j->pixels;
#define BODY(n, in) SLOPES_AS(all, d, n, in, x, g, sum, count)
            EACH_FORM(j->terms, all->inside, BODY)
#undef BODY
        }
        for (long i = 0; i < count; i++)
            ((REAL *)j->dgrid)[(image * j->places + from + i + 1) * dims - 1 - d] = (REAL)sum[i];
    }
}

#undef EACH_FORM
#undef INLINE
#undef AT
#undef READ_AS
#undef SLOPES_AS
#undef FIND_AS
#endif
