/* Places of a grid in images, for the kernels of every device: of each direction the pixels around a place, their
 * weights and the slopes of these. Plain C and C++17. */
#pragma once

#include "core/op.h"
#include "core/random/rng.h"
#include "core/tensor.h"

#include <math.h>
#include <string.h>

enum { DL_GRID_TAPS = 4, DL_GRID_TERMS = 16, DL_GRID_DIMS = 3 };
typedef enum dl_grid_mode { DL_GRID_LINEAR, DL_GRID_NEAREST, DL_GRID_CUBIC, DL_GRID_MODES } dl_grid_mode;
typedef enum dl_grid_padding { DL_GRID_ZEROS, DL_GRID_BORDER, DL_GRID_REFLECTION, DL_GRID_PADDINGS } dl_grid_padding;

/* Direction 0 is the first one behind the channels; the grid names the last one first. */
typedef struct dl_grid {
    int dims, taps;
    dl_grid_mode mode;
    dl_grid_padding padding;
    bool corners;
    long size[DL_GRID_DIMS];
} dl_grid;

/* The number of a name, or -1. */
static inline int dl_grid_name(const char *name, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (!strcmp(name, names[i])) return i;
    return -1;
}
static inline int dl_grid_mode_of(const char *name) {
    static const char *const names[] = {"bilinear", "nearest", "bicubic"};
    return dl_grid_name(name, names, DL_GRID_MODES);
}
static inline int dl_grid_padding_of(const char *name) {
    static const char *const names[] = {"zeros", "border", "reflection"};
    return dl_grid_name(name, names, DL_GRID_PADDINGS);
}

/* Of images x, [N,C,H,W] or [N,C,D,H,W], from attributes that are checked. */
static inline dl_grid dl_grid_of(const dl_tensor *x, const char *mode, const char *padding, bool corners) {
    static const int taps[] = {2, 1, 4};
    dl_grid g;
    g.mode = (dl_grid_mode)dl_grid_mode_of(mode), g.padding = (dl_grid_padding)dl_grid_padding_of(padding);
    g.dims = x->ndim - 2, g.taps = taps[g.mode], g.corners = corners;
    for (int i = 0; i < DL_GRID_DIMS; i++) g.size[i] = i < g.dims ? x->shape[2 + i] : 1;
    return g;
}

/* One direction of a place; at: -1 outside. */
typedef struct dl_grid_tap {
    long at[DL_GRID_TAPS];
    double weight[DL_GRID_TAPS], slope[DL_GRID_TAPS]; /* slope: of the weight, by the grid's number */
} dl_grid_tap;

/* A place moved into an image of n pixels, as the padding says; *slope is multiplied by that of the move. */
DL_HD double dl_grid_moved(const dl_grid *g, double at, long n, double *slope) {
    const double most = (double)(n - 1);
    if (g->padding == DL_GRID_ZEROS) return at;
    if (g->padding == DL_GRID_REFLECTION) {
        const double low = g->corners ? 0 : -0.5, high = g->corners ? most : most + 0.5, span = high - low;
        const double far = fabs(at - low), rest = fmod(far, span);
        const int odd = span > 0 && fmod(floor(far / span), 2.0) != 0;
        *slope *= span > 0 ? (at < low ? -1 : at > low ? 1 : 0) * (odd ? -1 : 1) : 0;
        at = span > 0 ? (odd ? high - rest : rest + low) : 0 * at;
    }
    if (!(at >= 0 && at <= most)) *slope = 0;
    return at < 0 ? 0 : at > most ? most : at;
}

DL_HD long dl_grid_pixel(double at, long n) { return at >= 0 && at <= (double)(n - 1) ? (long)at : -1; }

/* c3 t**3 + c2 t**2 + c1 t + c0 and its derivative: Keys, Cubic convolution interpolation (1981), with a = -0.75, of
 * the pixels next to a place and those behind them. */
DL_HD double dl_grid_cubic(int near, double t, double *slope) {
    const double a = -0.75, c3 = near ? a + 2 : a, c2 = near ? -(a + 3) : -2 * a, c1 = near ? 0 : a, c0 = near;
    *slope = (3 * c3 * t + 2 * c2) * t + c1;
    return ((c3 * t + c2) * t + c1) * t + c0;
}

/* Direction i of a place whose number in the grid is u. */
DL_HD void dl_grid_taps(const dl_grid *g, int i, double u, dl_grid_tap *tap) {
    const long n = g->size[i];
    double slope = g->corners ? (double)(n - 1) / 2 : (double)n / 2, none = 0;
    double at = u * slope + (double)(n - 1) / 2;
    if (g->mode != DL_GRID_CUBIC) at = dl_grid_moved(g, at, n, &slope);
    if (g->mode == DL_GRID_NEAREST) {
        tap->at[0] = dl_grid_pixel(rint(at), n), tap->weight[0] = 1, tap->slope[0] = 0;
        return;
    }
    const double low = floor(at), share = at - low;
    if (g->mode == DL_GRID_LINEAR) {
        tap->at[0] = dl_grid_pixel(low, n), tap->weight[0] = 1 - share, tap->slope[0] = -slope;
        tap->at[1] = dl_grid_pixel(low + 1, n), tap->weight[1] = share, tap->slope[1] = slope;
        return;
    }
    for (int k = 0; k < DL_GRID_TAPS; k++) {
        double by;
        tap->at[k] = dl_grid_pixel(rint(dl_grid_moved(g, low + k - 1, n, &none)), n);
        tap->weight[k] = dl_grid_cubic(k == 1 || k == 2, k < 2 ? share : 1 - share, &by);
        tap->slope[k] = k < 2 ? by * slope : -by * slope;
    }
}

/* A pixel of the terms whose sum a place is, and its weight; slope: of the weight by each of the grid's numbers, in the
 * order of directions. pixel: -1 outside. */
typedef struct dl_grid_term {
    long pixel;
    double weight, slope[DL_GRID_DIMS];
} dl_grid_term;

/* Term number k of a place whose directions are known. */
DL_HD dl_grid_term dl_grid_term_at(const dl_grid *g, const dl_grid_tap *tap, int k) {
    dl_grid_term t = {0, 1, {1, 1, 1}};
    for (int i = 0; i < g->dims; i++, k /= g->taps) {
        const int which = k % g->taps;
        const long at = tap[i].at[which];
        t.pixel = at < 0 || t.pixel < 0 ? -1 : t.pixel * g->size[i] + at;
        t.weight *= tap[i].weight[which];
        for (int j = 0; j < DL_GRID_DIMS; j++) t.slope[j] *= i == j ? tap[i].slope[which] : tap[i].weight[which];
    }
    return t;
}

static inline int dl_grid_terms(const dl_grid *g) {
    int n = 1;
    for (int i = 0; i < g->dims; i++) n *= g->taps;
    return n;
}
