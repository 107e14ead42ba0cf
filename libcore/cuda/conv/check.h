/* Is a way to compute a convolution exact enough? Fast algorithms (Winograd's, Fourier transforms) may lose digits:
 * each candidate runs on numbers drawn at random, and is held against the same in f64. */
#ifndef DL_CUDA_CONV_CHECK_H
#define DL_CUDA_CONV_CHECK_H

#include "cuda/conv/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dl_conv_check {
    dl_conv_job job; /* like the one given, on operands of its own */
    dl_tensor *exact;
    double allowed;
} dl_conv_check;

/* False: nothing is checked (no memory, or too large to be worth it). */
bool dl_conv_check_begin(dl_conv_check *c, const dl_conv_job *job);
/* How far off what stands in the output of c->job is, in what a plain sum in f32 is allowed: at most 1 is good.
 * Negative: that cannot be said. */
double dl_conv_check_off(dl_conv_check *c);
void dl_conv_check_end(dl_conv_check *c);

/* cuda/conv/check.cu. Numbers in (-1, 1), the same for the same seed, over memory of f32; and |a - b| / |b| of n
 * numbers in f64, negative when that cannot be said. */
dl_status dl_conv_draw(dl_gpu *g, float *p, long n, unsigned seed);
double dl_conv_distance(dl_gpu *g, const double *a, const double *b, long n);

#ifdef __cplusplus
}
#endif
#endif
