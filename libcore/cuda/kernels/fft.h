/* What the kernels of Fourier transforms need beside cuFFT. */
#pragma once

#include "cuda/runtime/base.h"

DL_C_BEGIN
/* The elements of a contiguous tensor times a number. */
dl_status dl_fft_scale(dl_gpu *g, dl_tensor *t, double by);
/* The frequencies of n real numbers, along dimension d, times a number, without what has to be 0 in them. */
dl_status dl_fft_half(dl_gpu *g, dl_tensor *to, const dl_tensor *from, int d, long n, double by);
DL_C_END
