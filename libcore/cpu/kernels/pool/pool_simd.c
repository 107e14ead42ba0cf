/* Loops of max pooling. A NaN wins, the last one if there are several; among equal values the first. A window without
 * pixels has the place DL_NO_PIXEL. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/pool/pool.h"
#include "cpu/runtime/vec.h"

#include <math.h>

/* n / by, rounded up. Short rows would spend their time in divisions. */
static inline long divided_up(long n, long by) { return by == 1 ? n : by == 2 ? (n + 1) / 2 : (n + by - 1) / by; }

/* Positions of direction d whose tap k lies inside the image: [*lo, *hi). */
static void inside(const dl_conv *g, int d, long k, long *lo, long *hi) {
    long off = k * g->dil[d] - g->pad[d], s = g->stride[d], room = g->in[d] - off;
    *lo = off >= 0 ? 0 : divided_up(-off, s);
    *hi = room <= 0 ? 0 : divided_up(room, s);
    if (*hi > g->out[d]) *hi = g->out[d];
}

/* First tap of a window along direction d that lies inside, and its place there; g->k[d] taps where none does. */
static long first_tap(const dl_conv *g, int d, long pos, long *at) {
    long start = pos * g->stride[d] - g->pad[d], k = start < 0 ? divided_up(-start, g->dil[d]) : 0;
    *at = start + k * g->dil[d];
    return *at < g->in[d] ? k : g->k[d];
}

/* Where the search for the largest pixel starts: the first one inside, which wins if all are -inf. */
static long first_place(const dl_conv *g, long ky, long row, long kx, long col) {
    return ky < g->k[0] && kx < g->k[1] ? row * g->in[1] + col : DL_NO_PIXEL;
}

#define BOTH_REALS "cpu/kernels/pool/pool_simd.c"
#include "cpu/runtime/both_reals.def"

const dl_pool_loop DL_SIMD_NAME(dl_pool_plane)[2][2] = {{plane_values_f32, plane_values_f64}, {plane_f32, plane_f64}};
const dl_pool_loop DL_SIMD_NAME(dl_pool_channels)[2][2] = {{channels_values_f32, channels_values_f64},
                                                           {channels_f32, channels_f64}};
const dl_pool_loop DL_SIMD_NAME(dl_pool_parts)[2] = {parts_f32, parts_f64};

#else

enum { S(WIDE) = 512 };
#define INT_LAST (sizeof(INT) == 4 ? (INT)0x7fffffff : (INT)0x7fffffffffffffff)

/* One tap of every window in a stretch of a row; STEP is a constant where that helps. The first tap of all wins. What
 * is inlined here is made twice: `placed` says whether places are wanted. */
#define INLINED static inline __attribute__((always_inline))
#define TAP(STEP, FIRST, PLACE)                                                                                        \
    for (long i = lo; i < hi; i++) {                                                                                   \
        REAL v = src[i * (STEP)];                                                                                      \
        int wins = (FIRST) | (v > best[i]) | (v != v);                                                                 \
        best[i] = wins ? v : best[i];                                                                                  \
        if (placed) place[i] = wins ? (PLACE) : place[i];                                                              \
    }
#define TAPS(FIRST)                                                                                                    \
    if (step == 1)                                                                                                     \
        TAP(1, FIRST, here)                                                                                            \
    else if (step == 2)                                                                                                \
        TAP(2, FIRST, here)                                                                                            \
    else                                                                                                               \
        TAP(step, FIRST, here)

/* Windows lo .. hi of a stretch, before their first tap: it wins even if it is -inf. Places of a stretch are less by
 * i * jump, and INT_LAST where there is none. */
INLINED void S(begin)(const dl_conv *g, long y, long from, long lo, long hi, REAL *best, INT *place,
                      const bool placed) {
    if (!placed) {
        for (long i = lo; i < hi; i++) best[i] = (REAL)-INFINITY;
        return;
    }
    long row, col, ky = first_tap(g, 0, y, &row), kx;
    for (long i = lo; i < hi; i++) {
        kx = first_tap(g, 1, from + i, &col);
        const long at = first_place(g, ky, row, kx, col);
        best[i] = (REAL)-INFINITY, place[i] = at == DL_NO_PIXEL ? INT_LAST : (INT)(at - i * g->stride[1]);
    }
}

/* Outputs from .. from + n of row y. */
INLINED void S(stretch)(const dl_conv *g, const dl_image *x, const REAL *image, long y, long from, long n,
                        REAL *restrict best, INT *restrict place, const bool placed) {
    const INT jump = (INT)g->stride[1];
    long row, step = jump * x->sw;
    long ky = first_tap(g, 0, y, &row);
    const long width = g->in[1];
    bool first = true;
    for (; ky < g->k[0] && row < g->in[0]; ky++, row += g->dil[0])
        for (long kx = 0; kx < g->k[1]; kx++) {
            long lo, hi, col = from * jump + kx * g->dil[1] - g->pad[1];
            inside(g, 1, kx, &lo, &hi);
            lo = lo > from ? lo - from : 0;
            hi = hi - from < n ? hi - from : n;
            const REAL *src = image + row * x->sh + col * x->sw;
            const INT here = (INT)(row * width + col);
            if (!first) {
                TAPS(0)
                continue;
            }
            first = false;
            if (hi < lo) hi = lo;
            S(begin)(g, y, from, 0, lo < n ? lo : n, best, place, placed);
            S(begin)(g, y, from, hi, n, best, place, placed);
            TAPS(1)
        }
    if (first) S(begin)(g, y, from, 0, n, best, place, placed);
}

static inline long S(place_of)(INT place, long more) { return place == INT_LAST ? DL_NO_PIXEL : place + more; }

INLINED void S(pool_plane)(const dl_conv *g, const dl_image *x, const dl_image *o, const dl_image *index, long n,
                           long c, const bool placed) {
    REAL values[S(WIDE)];
    INT place[S(WIDE)];
    const REAL *image = (const REAL *)x->p + n * x->sn + c * x->sc;
    const long jump = g->stride[1];
    for (long y = 0; y < g->out[0]; y++)
        for (long from = 0; from < g->out[1]; from += S(WIDE)) {
            long w = g->out[1] - from < S(WIDE) ? g->out[1] - from : S(WIDE);
            REAL *op = (REAL *)o->p + n * o->sn + c * o->sc + y * o->sh + from * o->sw;
            const bool dense = o->sw == 1;
            S(stretch)(g, x, image, y, from, w, dense ? op : values, place, placed);
            for (long i = 0; i < w && !dense; i++) op[i * o->sw] = values[i];
            if (!placed) continue;
            long *ip = (long *)index->p + n * index->sn + c * index->sc + y * index->sh + from * index->sw;
            if (index->sw == 1)
                for (long i = 0; i < w; i++) ip[i] = S(place_of)(place[i], i * jump);
            else
                for (long i = 0; i < w; i++) ip[i * index->sw] = S(place_of)(place[i], i * jump);
        }
}

INLINED void S(pool_channels)(const dl_conv *g, const dl_image *x, const dl_image *o, const dl_image *index, long n,
                              long c, const bool placed) {
    const REAL *image = (const REAL *)x->p + n * x->sn + c;
    for (long y = 0; y < g->out[0]; y++)
        for (long w = 0; w < g->out[1]; w++) {
            long row, col, ky = first_tap(g, 0, y, &row), kx0 = first_tap(g, 1, w, &col);
            VEC best = S(dl_vset)((REAL)-INFINITY);
            VINT place = (VINT){0} + (INT)first_place(g, ky, row, kx0, col);
            for (; ky < g->k[0] && row < g->in[0]; ky++, row += g->dil[0]) {
                long at = col;
                for (long kx = kx0; kx < g->k[1] && at < g->in[1]; kx++, at += g->dil[1]) {
                    VEC v = S(dl_vload)(image + row * x->sh + at * x->sw);
                    VINT wins = (v > best) | (v != v), here = (VINT){0} + (INT)(row * g->in[1] + at);
                    best = S(dl_vsel)(wins, v, best);
                    if (placed) place = (here & wins) | (place & ~wins);
                }
            }
            S(dl_vstore)((REAL *)o->p + n * o->sn + c + y * o->sh + w * o->sw, best);
            if (!placed) continue;
            long *ip = (long *)index->p + n * index->sn + c + y * index->sh + w * index->sw;
            for (int i = 0; i < S(DL_LANES); i++) ip[i] = place[i];
        }
}

#define POOL_LOOP(name, of, placed)                                                                                    \
    static void S(name)(const dl_conv *g, const dl_image *x, const dl_image *o, const dl_image *index, long n,         \
                        long c) {                                                                                      \
        S(of)(g, x, o, index, n, c, placed);                                                                           \
    }
POOL_LOOP(plane, pool_plane, true)
POOL_LOOP(plane_values, pool_plane, false)
POOL_LOOP(channels, pool_channels, true)
POOL_LOOP(channels_values, pool_channels, false)
#undef POOL_LOOP

/* The columns from .. from + n of rows top .. end, each by itself. */
static void S(down)(const dl_image *x, const REAL *image, long width, long top, long end, long from, long n, REAL *best,
                    INT *place) {
    for (long i = 0; i < n; i++) best[i] = (REAL)-INFINITY, place[i] = (INT)(top * width + from + i);
    for (long row = top; row < end; row++) {
        const REAL *src = image + row * x->sh + from * x->sw;
        const INT here = (INT)(row * width + from);
        const long lo = 0, hi = n;
        const bool placed = true;
        if (x->sw == 1)
            TAP(1, 0, here + (INT)i)
        else
            TAP(x->sw, 0, here + (INT)i)
    }
}

/* The best of n columns: the largest value of the first place, or a NaN of the last one. */
static void S(across)(const REAL *best, const INT *place, long n, REAL *value, INT *where) {
    enum { L = S(DL_LANES) };
    REAL top = best[0], lane[L];
    INT at = INT_LAST, nan = 0, first[L];
    long i = 1;
    if (n >= L) {
        VEC most = S(dl_vload)(best), v;
        for (i = L; i + L <= n; i += L) v = S(dl_vload)(best + i), most = S(dl_vsel)(v > most, v, most);
        S(dl_vstore)(lane, most);
        for (long w = L / 2; w; w /= 2)
            for (long j = 0; j < w; j++) lane[j] = lane[j + w] > lane[j] ? lane[j + w] : lane[j];
        top = lane[0];
    }
    for (; i < n; i++) top = best[i] > top ? best[i] : top;
    if ((i = n >= L ? n / L * L : 0)) {
        const VINT none = (VINT){0} + INT_LAST;
        VINT lowest = none, odd = {0}, less, here;
        for (long k = 0; k < i; k += L) {
            const VEC v = S(dl_vload)(best + k);
            const VINT is = v == S(dl_vset)(top);
            memcpy(&here, place + k, sizeof here);
            here = (here & is) | (none & ~is), less = here < lowest;
            lowest = (here & less) | (lowest & ~less), odd |= v != v;
        }
        memcpy(first, &odd, sizeof first);
        for (long j = 0; j < L; j++) nan |= first[j];
        memcpy(first, &lowest, sizeof first);
        for (long j = 0; j < L; j++) at = first[j] < at ? first[j] : at;
    }
    for (; i < n; i++) {
        INT here = best[i] == top ? place[i] : INT_LAST;
        at = here < at ? here : at, nan |= best[i] != best[i];
    }
    if (nan) at = -1;
    for (i = 0; nan && i < n; i++)
        if (best[i] != best[i] && place[i] > at) top = best[i], at = place[i];
    *value = top, *where = at;
}

/* Columns by stretches; of a wide image each stretch of a window is joined with the best of those before it. */
static void S(parts)(const dl_conv *g, const dl_image *x, const dl_image *o, const dl_image *index, long n, long c) {
    REAL best[S(WIDE) + 1], value;
    INT place[S(WIDE) + 1], where;
    const REAL *image = (const REAL *)x->p + n * x->sn + c * x->sc;
    const long width = g->in[1];
    for (long y = 0; y < g->out[0]; y++) {
        const long top = dl_part_begin(y, g->out[0], g->in[0]), end = dl_part_end(y, g->out[0], g->in[0]);
        REAL *op = (REAL *)o->p + n * o->sn + c * o->sc + y * o->sh;
        long *ip = (long *)index->p + n * index->sn + c * index->sc + y * index->sh;
        if (width <= S(WIDE)) S(down)(x, image, width, top, end, 0, width, best, place);
        for (long i = 0; i < g->out[1]; i++) {
            const long lo = dl_part_begin(i, g->out[1], width), hi = dl_part_end(i, g->out[1], width);
            if (width <= S(WIDE)) S(across)(best + lo, place + lo, hi - lo, &value, &where);
            for (long from = lo; width > S(WIDE) && from < hi; from += S(WIDE)) {
                const long w = hi - from < S(WIDE) ? hi - from : S(WIDE), kept = from > lo;
                S(down)(x, image, width, top, end, from, w, best + kept, place + kept);
                S(across)(best, place, w + kept, &value, &where);
                best[0] = value, place[0] = where;
            }
            op[i * o->sw] = value, ip[i * index->sw] = where;
        }
    }
}
#undef INLINED
#undef TAP
#undef TAPS
#undef INT_LAST
#endif
