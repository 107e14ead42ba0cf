/* Loops over channels, for batch norm: norm_simd.c defines them, norm.c runs them. */
#pragma once

#include "core/op.h"
#include "cpu/runtime/simd.h"

enum { DL_NORM_CHANNELS = 64 };

/* Each takes `rows` rows of `nc` channels side by side, at most DL_NORM_CHANNELS; row r starts at r * stride. One
 * channel with stride 1 is a plane. Arrays of doubles hold one number a channel; sums are added to. */
typedef struct dl_norm_loops {
    void (*sum)(const void *x, long rows, long stride, long nc, double *sum);
    /* sum of (x - mean)**2 */
    void (*deviation)(const void *x, long rows, long stride, long nc, const double *mean, double *sum);
    /* y = (x - mean) * scale + shift */
    void (*apply)(const void *x, void *y, long rows, long stride, long nc, const double *mean, const double *scale,
                  const double *shift);
    /* sums of g, and of g * (x - mean) */
    void (*grad_sums)(const void *x, const void *g, long rows, long stride, long nc, const double *mean, double *sg,
                      double *sgx);
    /* dx = g * a + (x - mean) * b + c */
    void (*grad_apply)(const void *x, const void *g, void *dx, long rows, long stride, long nc, const double *mean,
                       const double *a, const double *b, const double *c);
} dl_norm_loops;

DL_SIMD_DECL(extern const dl_norm_loops, dl_norm, [2]); /* f32, f64 */
