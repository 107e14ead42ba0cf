/* Conversion of runs of 16-bit floats from and to f32, and products of them, at every instruction level. */
#pragma once

#include "cpu/runtime/simd.h"

DL_SIMD_DECL(void, dl_f16_up, (long n, const unsigned short *src, float *dst));
DL_SIMD_DECL(void, dl_f16_down, (long n, const float *src, unsigned short *dst));
DL_SIMD_DECL(void, dl_bf16_up, (long n, const unsigned short *src, float *dst));
DL_SIMD_DECL(void, dl_bf16_down, (long n, const float *src, unsigned short *dst));
/* How many are infinite or no number. */
DL_SIMD_DECL(long, dl_bf16_odd, (long n, const unsigned short *x));
/* The bits of the smallest and the largest of n numbers, at least one, of a type in which infinity has these bits; both
 * are no number where one is none. */
DL_SIMD_DECL(void, dl_half_extremes, (long n, const unsigned short *x, unsigned short infinity, unsigned short to[2]));
/* Products of bf16 raise no flag: tells the watch for NaN where dense results have infinities or NaN. */
void dl_cpu_look_bf16(const void *x, long n);
/* The sum of n products, in f32. */
DL_SIMD_DECL(float, dl_f16_dot, (long n, const unsigned short *x, const unsigned short *y));
DL_SIMD_DECL(float, dl_bf16_dot, (long n, const unsigned short *x, const unsigned short *y));
/* sum[c] = x[r][c] * w[r] over all rows, in f32; rows of x are `stride` apart. */
DL_SIMD_DECL(void, dl_f16_weighted,
             (long rows, long columns, const unsigned short *x, long stride, const float *w, float *sum));
DL_SIMD_DECL(void, dl_bf16_weighted,
             (long rows, long columns, const unsigned short *x, long stride, const float *w, float *sum));
