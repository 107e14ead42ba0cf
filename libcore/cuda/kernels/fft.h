/* What the kernels of Fourier transforms need beside cuFFT. */
#pragma once

#include "cuda/runtime/base.h"

DL_C_BEGIN
enum { DL_FFT_OTHERS = 2 }; /* dimensions that are transformed at once, beside the last */
/* The elements of a contiguous tensor times a number. */
dl_status dl_fft_scale(dl_gpu *g, dl_tensor *t, double by);
/* Times a number, frequencies along `rank` dimensions from d on, of which the last has half of those of n real numbers:
 * with what makes the numbers of its first and, of an even n, of its last one not real taken out. */
dl_status dl_fft_half(dl_gpu *g, dl_tensor *to, const dl_tensor *from, int d, int rank, long n, double by);
DL_C_END
