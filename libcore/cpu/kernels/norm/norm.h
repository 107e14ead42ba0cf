/* Loops over channels, for batch norm: norm_simd.c defines them, norm.c runs them. */
#pragma once

#include "core/op.h"
#include "cpu/runtime/simd.h"

enum {
    DL_NORM_CHANNELS = 64,
    DL_NORM_PIECE = 4096,   /* elements whose moments are taken about one number */
    DL_NORM_STRETCH = 1024, /* of a plane, added up in the element type */
};

/* Each takes `rows` rows of `nc` channels side by side, at most DL_NORM_CHANNELS; row r starts at r * stride. One
 * channel with stride 1 is a plane. Arrays of doubles hold one number a channel; sums of gradients are added to. 16
 * bits are computed in f32. */
typedef struct dl_norm_loops {
    /* means, and sums of (x - mean)**2 */
    void (*moments)(const void *x, long rows, long stride, long nc, double *mean, double *square);
    /* y = (x - mean) * scale + shift; y may be x */
    void (*apply)(const void *x, void *y, long rows, long stride, long nc, const double *mean, const double *scale,
                  const double *shift);
    /* sums of g, and of g * (x - mean) */
    void (*grad_sums)(const void *x, const void *g, long rows, long stride, long nc, const double *mean, double *sg,
                      double *sgx);
    /* dx = g * a + (x - mean) * b + c; dx may be g */
    void (*grad_apply)(const void *x, const void *g, void *dx, long rows, long stride, long nc, const double *mean,
                       const double *a, const double *b, const double *c);
} dl_norm_loops;

DL_SIMD_DECL(extern const dl_norm_loops, dl_norm, [DL_NDTYPE]); /* of floats */

/* How many of n values, or of n rows, deviations are taken about the mean of. */
static inline long dl_norm_first(long n) { return n <= 16 ? n : (n + 15) / 16 < 16 ? 16 : (n + 15) / 16; }

/* The moments of n values, without rounding errors of large means, merged into those of `before` others. */
static inline void dl_norm_merge(long before, double *mean, double *square, long n, double m, double s) {
    if (!before) {
        *mean = m, *square = s;
        return;
    }
    const double share = (double)n / (double)(before + n), apart = m - *mean;
    *mean += apart * share;
    *square += s + apart * apart * share * (double)before;
}
