/* Loops of dropout: dropout_simd.c defines them, dropout.c runs them. */
#pragma once

#include "cpu/runtime/simd.h"

#include <stdint.h>

/* mask[i] = words[i] >= least, y[i] = x[i] * scale or * 0. */
typedef void (*dl_dropout_loop)(long n, const uint32_t *words, uint32_t least, double scale, const void *x, void *y,
                                unsigned char *mask);
DL_SIMD_DECL(extern const dl_dropout_loop, dl_dropout, [2]); /* f32, f64 */
