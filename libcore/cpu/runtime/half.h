/* Conversion of runs of 16-bit floats from and to f32, at every instruction level. */
#pragma once

#include "cpu/runtime/simd.h"

DL_SIMD_DECL(void, dl_f16_up, (long n, const unsigned short *src, float *dst));
DL_SIMD_DECL(void, dl_f16_down, (long n, const float *src, unsigned short *dst));
DL_SIMD_DECL(void, dl_bf16_up, (long n, const unsigned short *src, float *dst));
DL_SIMD_DECL(void, dl_bf16_down, (long n, const float *src, unsigned short *dst));
