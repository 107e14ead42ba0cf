/* Loops along rows, for softmax and cross_entropy: rows_simd.c defines them, softmax.c and loss.c run them. */
#pragma once

#include "core/op.h"
#include "cpu/runtime/simd.h"

enum { DL_COLUMNS = 64 };

/* Each takes `nc` rows of d elements that lie side by side: element i of row c at [i * stride + c]; nc at most
 * DL_COLUMNS. A single contiguous row (nc = 1, stride = 1) has loops of its own. */
typedef struct dl_row_loops {
    void (*softmax)(const void *x, void *y, long d, long stride, long nc, bool log);
    void (*softmax_grad)(const void *y, const void *g, void *dx, long d, long stride, long nc, bool log);
    /* Largest element, and the logarithm of the sum of exponentials less that. */
    void (*logsum)(const void *x, long d, long stride, long nc, double *top, double *logsum);
    /* dx = scale * e ** (x - lse) */
    void (*exp_scaled)(const void *x, void *dx, long d, long stride, long nc, const double *lse, const double *scale);
} dl_row_loops;

DL_SIMD_DECL(extern const dl_row_loops, dl_rows, [2]); /* f32, f64 */

static inline const dl_row_loops *dl_rows_of(dl_dtype t) { return &DL_SIMD_PICK(dl_rows)[t == DL_F64]; }

/* A dense tensor as [outer][d][inner] around dimension dim, by its strides. */
typedef struct dl_rows_shape {
    long outer, d, inner, blocks; /* blocks of columns in `inner` */
} dl_rows_shape;
/* Block i of outer * blocks: first element, and number of columns. */
static inline long dl_rows_at(const dl_rows_shape *r, long i, long *nc) {
    long col = i % r->blocks * DL_COLUMNS;
    *nc = r->inner - col < DL_COLUMNS ? r->inner - col : DL_COLUMNS;
    return i / r->blocks * r->d * r->inner + col;
}
