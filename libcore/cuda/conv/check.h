/* Accuracy check of a convolution algorithm. Fast algorithms (Winograd, Fourier transforms) may lose digits: each
 * candidate runs on random numbers, and its result is compared with the one computed in f64. */
#pragma once

#include "cuda/conv/conv.h"

DL_C_BEGIN

typedef struct dl_conv_check {
    dl_conv_job job; /* the job to check, with random operands of its own */
    dl_tensor *exact;
    double allowed;
} dl_conv_check;

/* False: there is no check (no memory, or operands too large to be worth it). */
bool dl_conv_check_begin(dl_conv_check *c, const dl_conv_job *job);
/* Error of the output of c->job divided by the error allowed to a plain sum in f32: at most 1 is accurate enough.
 * Negative: it could not be computed. */
double dl_conv_check_off(dl_conv_check *c);
void dl_conv_check_end(dl_conv_check *c);

/* cuda/conv/check.cu. Fills p with numbers in (-1, 1) that depend on the seed alone; and the distance |a - b| / |b| of
 * n numbers in f64, negative when it could not be computed. */
dl_status dl_conv_draw(dl_gpu *g, float *p, long n, unsigned seed);
double dl_conv_distance(dl_gpu *g, const double *a, const double *b, long n);

DL_C_END
