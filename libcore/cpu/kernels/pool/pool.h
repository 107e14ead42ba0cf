/* Loops of max pooling: pool_simd.c defines them, pool.c runs them. */
#pragma once

#include "cpu/runtime/simd.h"
#include "ops/conv.h"

/* Strides of a 4-d tensor, in elements, and its first element. */
typedef struct dl_image {
    char *p;
    long sn, sc, sh, sw;
} dl_image;
static inline dl_image dl_image_of(const dl_tensor *t) {
    return (dl_image){(char *)dl_ptr(t), t->stride[0], t->stride[1], t->stride[2], t->stride[3]};
}

/* One image plane: output [out h, out w] and indices of channel c of image n. */
typedef void (*dl_pool_loop)(const dl_conv *g, const dl_image *x, const dl_image *o, const dl_image *index, long n,
                             long c);

/* Where the part i of `parts` of n begins, and where it ends, windows that may overlap. */
static inline long dl_part_begin(long i, long parts, long n) { return i * n / parts; }
static inline long dl_part_end(long i, long parts, long n) { return ((i + 1) * n + parts - 1) / parts; }
/* The same for windows that divide the plane, of which in and out are sizes. */
DL_SIMD_DECL(extern const dl_pool_loop, dl_pool_parts, [2]);

/* [without or with places][f32 or f64]: for any strides, one channel; for channels-last images of at least one vector
 * of channels, the vector that starts at c. */
DL_SIMD_DECL(extern const dl_pool_loop, dl_pool_plane, [2][2]);
DL_SIMD_DECL(extern const dl_pool_loop, dl_pool_channels, [2][2]);
