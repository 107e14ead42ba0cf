/* Loops of sums of a few elements along a dimension: resample_simd.c defines them, resample.c runs them. */
#pragma once

#include <stdint.h>

#include "cpu/runtime/simd.h"

typedef struct dl_resampling {
    long terms, n, count, inner; /* [rows, n, inner] becomes [rows, count, inner] */
    const void *x, *weight;      /* weight: [terms, count], NULL: ones */
    const int32_t *index;        /* [terms, count], -1: no element */
    void *out;
} dl_resampling;

typedef void (*dl_resample_loop)(const dl_resampling *j, long row);
DL_SIMD_DECL(extern const dl_resample_loop, dl_resample_rows, [2]); /* f32, f64 */
