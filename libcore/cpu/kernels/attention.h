/* Loops of attention along the rows of a block of scores: attention_simd.c defines them, attention.c runs them. */
#pragma once

#include "cpu/runtime/simd.h"

#include <stdbool.h>

/* The state of one query: the largest score so far, and the sum of exponentials less it. */
typedef struct dl_soft {
    double top, sum;
} dl_soft;

typedef struct dl_attention_loops {
    /* x = x * scale, plus the mask (added), or -inf where the mask is false; the mask `step` elements apart */
    void (*mask)(void *x, long n, double scale, const void *mask, long step, bool added);
    /* x = e ** (x * scale - top) with the state brought up to date, and the n_out sums of the row to it */
    void (*soften)(void *x, long n, double scale, dl_soft *s, void *out, long n_out);
    /* x = e ** (x * scale - lse) */
    void (*again)(void *x, long n, double scale, double lse);
    /* x *= scale */
    void (*scaled)(void *x, long n, double scale);
    /* d = p * (d - mean) * scale */
    void (*grad)(const void *p, void *d, long n, double mean, double scale);
    double (*dot)(const void *x, const void *y, long n);
} dl_attention_loops;

DL_SIMD_DECL(extern const dl_attention_loops, dl_attention_rows, [2]); /* f32, f64 */
