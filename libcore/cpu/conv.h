/* The paths of convolution on the CPU: im2col with matrix products serves everything and is the reference; oneDNN, when
 * it can be loaded, serves f32 faster. */
#ifndef DL_CPU_CONV_H
#define DL_CPU_CONV_H

#include "ops/conv.h"

/* Runs a call by oneDNN. False: not offered here (no library, or it refuses these shapes); nothing was written. */
bool dl_conv_dnnl(const dl_call *c, const dl_conv *g);
/* Turns the path by oneDNN on or off, for tests; returns the former setting. */
bool dl_conv_dnnl_enable(bool on);
#endif
