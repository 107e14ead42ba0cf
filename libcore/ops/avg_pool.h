/* The geometry of average pooling, read from attributes and checked once for shape rules and kernels of every device.
 * Plain C and C++17. */
#pragma once

#include "core/op.h"
#include "core/random/rng.h"

/* Index 0 is the height, 1 the width. Images are [N,C,in[0],in[1]], averages [N,C,out[0],out[1]]. */
typedef struct dl_average {
    long N, C, in[2], out[2], k[2], stride[2], pad[2];
    bool adaptive;  /* windows of about in / out pixels that cover the image; k, stride and pad mean nothing */
    bool count_pad; /* count padding among the pixels of a window */
} dl_average;

/* The geometry of a call of avg_pool2d, adaptive_pool2d or of their gradients' rows. */
dl_status dl_average_of(const dl_call *c, dl_average *g);

/* The pixels [*lo, *hi) of window i in direction d, and how many count. */
DL_HD void dl_average_window(const dl_average *g, int d, long i, long *lo, long *hi, long *count) {
    if (g->adaptive) {
        *lo = i * g->in[d] / g->out[d];
        *hi = ((i + 1) * g->in[d] + g->out[d] - 1) / g->out[d];
        *count = *hi - *lo;
        return;
    }
    long from = i * g->stride[d] - g->pad[d], to = from + g->k[d];
    if (to > g->in[d] + g->pad[d]) to = g->in[d] + g->pad[d];
    *count = to - from;
    *lo = from < 0 ? 0 : from;
    *hi = to > g->in[d] ? g->in[d] : to;
    if (!g->count_pad) *count = *hi > *lo ? *hi - *lo : 1;
}

/* The windows [*lo, *hi) that hold pixel i. */
DL_HD void dl_average_cover(const dl_average *g, int d, long i, long *lo, long *hi) {
    if (g->adaptive) {
        *lo = i * g->out[d] / g->in[d];
        *hi = ((i + 1) * g->out[d] + g->in[d] - 1) / g->in[d];
        return;
    }
    long first = i + g->pad[d] - g->k[d] + 1;
    *lo = first <= 0 ? 0 : (first + g->stride[d] - 1) / g->stride[d];
    *hi = (i + g->pad[d]) / g->stride[d] + 1;
    if (*hi > g->out[d]) *hi = g->out[d];
}
