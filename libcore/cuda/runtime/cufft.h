/* cuFFT, loaded when it is first needed, and its plans, which are kept. */
#pragma once

#include "cuda/runtime/base.h"

#include <cufftXt.h>

/* clang-format moves these lines at every run. */
/* clang-format off */
#define DL_FFT_LIST(X)                                                                                                 \
    X(cufftCreate) X(cufftDestroy) X(cufftSetAutoAllocation) X(cufftXtMakePlanMany) X(cufftSetStream)                  \
    X(cufftSetWorkArea) X(cufftXtExec)

typedef struct dl_fft_calls {
#define X(name) __typeof__(name) *name;
    DL_FFT_LIST(X)
#undef X
} dl_fft_calls;
/* clang-format on */

enum { DL_FFT_RANK = 3 }; /* dimensions of one transform at most */

/* `batch` transforms of n[0] * n[1] * ... elements, which are `step` apart, each transform `next` from the one before;
 * of real numbers on either side, the other one has n / 2 + 1 of the n along the last dimension. */
typedef struct dl_fft_shape {
    int device, rank;
    cudaDataType from, to, in; /* `in`: the type that is computed with */
    long n[DL_FFT_RANK], step, batch, next_in, next_out;
} dl_fft_shape;

/* A plan in use, by one thread at a time: begin takes it and its memory, end gives them back. DL_ERR_UNSUPPORTED when
 * cuFFT is missing. */
typedef struct dl_fft_use {
    const dl_fft_calls *f;
    cufftHandle plan;
    dl_gpu *gpu;
    void *work;
} dl_fft_use;
dl_status dl_fft_begin(dl_gpu *g, const dl_fft_shape *s, dl_fft_use *u);
void dl_fft_end(dl_fft_use *u);
/* DL_ERR_DEVICE naming the step that failed. */
dl_status dl_fft_check(cufftResult r, const char *what);
