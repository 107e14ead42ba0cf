/* The geometry of convolutions and pooling, read from attributes and checked once for shape rules and kernels. */
#pragma once

#include "core/op.h"

/* Index 0 is the height, 1 the width. Images are [N,C,in[0],in[1]], results [N,O,out[0],out[1]]. */
typedef struct dl_conv {
    long N, C, O, groups;
    long in[2], out[2], k[2], stride[2], pad[2], dil[2];
} dl_conv;

/* The same of `dims` directions: height and width of images; depth, height and width of volumes. What is left of the
 * arrays is 0. */
typedef struct dl_conv_nd {
    long dims, N, C, O, groups;
    long in[3], out[3], k[3], stride[3], pad[3], dil[3];
} dl_conv_nd;
dl_conv_nd dl_conv_of_images(const dl_conv *g);
/* The dimension that is the i-th from the innermost one in memory, of `rank`: N, channels, and one for each direction.
 */
static inline int dl_conv_order(int rank, bool channels_last, int i) {
    return i == rank - 1 ? 0 : !channels_last ? rank - 1 - i : i ? rank - i : 1;
}
/* The geometry of a call of conv_volume, conv_volume_dx or conv_volume_dw, with everything checked. */
dl_status dl_conv_volume_of(const dl_call *c, dl_conv_nd *g);

/* Reads stride, padding, dilation and groups among the attributes of a row of the family CONV. */
dl_status dl_conv_attrs(const dl_aval *attr, dl_conv *g);
/* The geometry of a call of conv2d, conv2d_dx or conv2d_dw, with everything checked. */
dl_status dl_conv_of(const dl_call *c, dl_conv *g);
/* The call of conv2d, without a bias, inside one of conv2d_norm; `sub` borrows everything. */
void dl_conv_norm_inner(const dl_call *c, dl_call *sub);
/* A call of conv2d_relu_max_pool2d as two: conv2d without a bias into y, which is fresh, and relu_max_pool2d of it.
 * Borrows everything else. */
typedef struct dl_conv_pool {
    dl_call conv, pool;
    dl_tensor *y, *in[2];
    dl_aval attr[DL_MAX_ATTR];
} dl_conv_pool;
dl_status dl_conv_pool_begin(const dl_call *c, dl_conv_pool *p);
void dl_conv_pool_end(dl_conv_pool *p);
/* The place max_pool2d gives a window that sees no pixel, as those of dilated windows over padding may; its value is
 * -inf, and a gradient ends there. */
enum { DL_NO_PIXEL = -1 };
/* The geometry of max_pool2d; O is C. */
dl_status dl_pool_of(const dl_call *c, dl_conv *g);
/* One size for both directions or one each. `what` names the attribute in the error. */
dl_status dl_pair(const dl_aval *a, const char *what, long min, long out[2]);
/* padding="same" for one direction: *pad at both ends, and the result, 0 or 1, more at the end. */
static inline long dl_same_padding(long k, long dil, long *pad) {
    *pad = dil * (k - 1) / 2;
    return dil * (k - 1) % 2;
}
/* Are the channels of this batch of images or volumes the innermost dimension in memory? */
bool dl_channels_last(int ndim, const long *shape, const long *stride);
void dl_meta_channels_last(dl_meta *m);
/* The dtype and the layout of a result: channels last if the first operand has them so, or the device prefers it. */
void dl_conv_layout(const dl_call *c, dl_meta *m);
/* DL_ERR_SHAPE unless t is [N,C,H,W], or what `dims` says. */
dl_status dl_four_dims(const dl_tensor *t, const char *what, const char *dims);
/* Output size in each direction from input size; `what` says how a window is called. */
dl_status dl_window_sizes(dl_conv *g, bool ceil_mode, const char *what);
