/* Images [N,C,H,W] of any strides as operands of an iteration over pixels: a pixel's plane in another image, its row
 * and its column. */
#ifndef DL_CUDA_IMAGES_CUH
#define DL_CUDA_IMAGES_CUH

#include "cuda/iter.cuh"

/* A plane of an image batch: steps of its rows and columns, in elements. */
typedef struct dl_plane {
    long h, w;
} dl_plane;
static inline dl_plane dl_plane_of(const dl_tensor *t) { return {t->stride[2], t->stride[3]}; }

/* An iteration over the pixels of t, whose operand 0 it is. */
static inline void dl_it_pixels(dl_it *it, const dl_tensor *t) {
    dl_it_begin(it, 4, t->shape);
    dl_it_tensor(it, t);
}
/* The plane of `t` that belongs to a pixel. */
static inline void dl_it_plane(dl_it *it, const dl_tensor *over, const dl_tensor *t) {
    long stride[4] = {t->stride[0], t->stride[1], 0, 0};
    dl_it_operand(it, dl_ptr(t), dl_esize(t), 4, over->shape, stride);
}
/* Row and column of a pixel. */
static inline void dl_it_row_col(dl_it *it, const dl_tensor *over) {
    const long row[4] = {0, 0, 1, 0}, col[4] = {0, 0, 0, 1};
    dl_it_count(it, 4, over->shape, row);
    dl_it_count(it, 4, over->shape, col);
}

#endif
