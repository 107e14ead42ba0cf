/* The paths of convolution on the CPU: im2col with matrix products serves everything and is the reference; oneDNN, when
 * it can be loaded, serves f32 faster, and bf16 where the processor multiplies such numbers. */
#pragma once

#include "ops/conv.h"

/* Runs a call of a convolution of images or volumes, or of a gradient of one, by oneDNN. *done stays false without an
 * error where there is no library or it refuses these shapes, or this dtype. Where it takes long, some examples of the
 * batch a call: a request to stop is seen between two of them. Gradients of weights of bf16 are summed up in f32 and
 * rounded once. */
dl_status dl_conv_dnnl(const dl_call *c, const dl_conv_nd *g, bool *done);
/* Is this a strided 1x1 convolution without padding? Then dl_conv_unstrided is the same over the pixels that it reads.
 */
bool dl_conv_is_strided_1x1(const dl_conv *g);
dl_conv dl_conv_unstrided(const dl_conv *g);
/* `dense` has the pixels that the windows read, channels-last, [N,C,out[0],out[1]]. From the image, and back into
 * an image that owns dense memory, with zeros for the other pixels. */
void dl_conv_gather_pixels(const dl_conv *g, dl_tensor *dense, const dl_tensor *image);
void dl_conv_scatter_pixels(const dl_conv *g, dl_tensor *image, const dl_tensor *dense);
/* Turns the path by oneDNN on or off, for tests; returns the former setting. */
bool dl_conv_dnnl_enable(bool on);
