/* The geometry of convolutions and pooling, read from attributes and checked once for shape rules and kernels. */
#ifndef DL_OPS_CONV_H
#define DL_OPS_CONV_H

#include "core/op.h"

/* Index 0 is the height, 1 the width. Images are [N,C,in[0],in[1]], results [N,O,out[0],out[1]]. */
typedef struct dl_conv {
    long N, C, O, groups;
    long in[2], out[2], k[2], stride[2], pad[2], dil[2];
} dl_conv;

/* Reads stride, padding, dilation and groups, the attributes of CONV_ATTR_ROWS, which start at a[0]. */
dl_status dl_conv_attrs(const dl_aval *a, dl_conv *g);
/* The geometry of a call of conv2d, conv2d_dx or conv2d_dw, with everything checked. */
dl_status dl_conv_of(const dl_call *c, dl_conv *g);
/* The geometry of max_pool2d; O is C. */
dl_status dl_pool_of(const dl_call *c, dl_conv *g);
/* One size for both directions or one each. `what` names the attribute in the error. */
dl_status dl_pair(const dl_aval *a, const char *what, long min, long out[2]);
/* Are the channels of this image batch the innermost dimension in memory? */
bool dl_channels_last(int ndim, const long *shape, const long *stride);

#endif
