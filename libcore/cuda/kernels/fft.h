/* What the kernels of Fourier transforms need beside cuFFT. */
#pragma once

#include "cuda/runtime/base.h"

DL_C_BEGIN
/* The elements of a contiguous tensor times a number. */
dl_status dl_fft_scale(dl_gpu *g, dl_tensor *t, double by);
DL_C_END
