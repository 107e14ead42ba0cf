/* Loops of layer_norm and rms_norm: layer_norm_simd.c defines them, layer_norm.c runs them. */
#pragma once

#include "core/op.h"
#include "cpu/runtime/simd.h"

/* On n contiguous rows of d elements, which stay in the cache; x, g and results are of the dtype, w and b, which may be
 * NULL, of f32 when that is one of 16 bits. mean NULL: rms_norm, which takes it for 0. */
typedef struct dl_layer_norm_loops {
    void (*rows)(const void *x, const void *w, const void *b, void *y, long n, long d, double eps, double *mean,
                 double *rstd);
    void (*grad_rows)(const void *x, const void *g, const void *w, void *dx, long n, long d, const double *mean,
                      const double *rstd);
    /* nc columns side by side, rows `stride` apart: dw += g * (x - mean) * rstd, db += g */
    void (*columns)(const void *x, const void *g, long n, long stride, long nc, const double *mean, const double *rstd,
                    double *dw, double *db);
} dl_layer_norm_loops;

DL_SIMD_DECL(extern const dl_layer_norm_loops, dl_layer_norm_rows, [DL_NDTYPE]); /* of floats */
