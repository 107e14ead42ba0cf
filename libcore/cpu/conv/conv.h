/* The paths of convolution on the CPU: im2col with matrix products serves everything and is the reference; oneDNN, when
 * it can be loaded, serves f32 faster. */
#ifndef DL_CPU_CONV_H
#define DL_CPU_CONV_H

#include "ops/conv.h"

/* Runs a call by oneDNN. *done false without a failure: not offered here (no library, or it refuses these shapes). */
dl_status dl_conv_dnnl(const dl_call *c, const dl_conv *g, bool *done);
/* Is this a strided 1x1 convolution without padding, and which one of stride 1 computes it over the pixels it sees? */
bool dl_conv_lessens(const dl_conv *g);
dl_conv dl_conv_less(const dl_conv *g);
/* f32; `seen` is channels-last, [N,C,out[0],out[1]]. image to seen, and back into an image that owns dense memory, with
 * zeros for the pixels that are not seen. */
void dl_conv_see(const dl_conv *g, dl_tensor *seen, const dl_tensor *image);
void dl_conv_spread(const dl_conv *g, dl_tensor *image, const dl_tensor *seen);
/* Turns the path by oneDNN on or off, for tests; returns the former setting. */
bool dl_conv_dnnl_enable(bool on);
#endif
