/* The paths of convolution on the CPU: im2col with matrix products serves everything. */
#ifndef DL_CPU_CONV_H
#define DL_CPU_CONV_H

#include "ops/conv.h"

/* out, in[] and geometry as dl_call has them; every input of dtype f32 or f64. */
dl_status dl_conv_generic(const dl_call *c, const dl_conv *g);
#endif
