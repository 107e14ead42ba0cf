/* Conversion of runs of 16-bit floats from and to f32, and products of them, at every instruction level. */
#pragma once

#include "cpu/runtime/simd.h"

DL_SIMD_DECL(void, dl_f16_up, (long n, const unsigned short *src, float *dst));
DL_SIMD_DECL(void, dl_f16_down, (long n, const float *src, unsigned short *dst));
DL_SIMD_DECL(void, dl_bf16_up, (long n, const unsigned short *src, float *dst));
DL_SIMD_DECL(void, dl_bf16_down, (long n, const float *src, unsigned short *dst));
/* The sum of n products, in f32. */
DL_SIMD_DECL(float, dl_f16_dot, (long n, const unsigned short *x, const unsigned short *y));
DL_SIMD_DECL(float, dl_bf16_dot, (long n, const unsigned short *x, const unsigned short *y));
