/* What shape rules, gradient rules and kernels share: layouts, reduced dimensions, index operands. */
#pragma once

#include "ops/names.h"

/* A fresh contiguous result of the call's device. */
dl_meta dl_meta_fresh(const dl_call *c, dl_dtype dtype, int ndim, const long *shape);

/* The dimensions of a reduction (one, several, or none for all), of the attributes of its call, as bits. DL_ERR_INDEX;
 * DL_ERR_VALUE when one is named twice. */
dl_status dl_reduced_dims(const dl_op *op, const dl_aval *attr, int ndim, unsigned *mask);
/* Shape after reducing the dimensions in mask; with keep they stay with size 1. Returns the number of dimensions. */
int dl_reduced_shape(int ndim, const long *shape, unsigned mask, bool keep, long *out);

/* Where the kernel of flip begins to read its input, and its strides from there. */
dl_status dl_flip_source(const dl_call *c, const char **from, long stride[DL_MAX_DIM]);
/* The kernel of transfer, on the device that the source lives on: views are made contiguous, so that one copy moves
 * everything. */
dl_status dl_run_transfer(dl_call *c);

/* What sort and topk need of a device; `sort` takes contiguous tensors and sorts along the last dimension. */
typedef struct dl_sorter {
    dl_status (*sort)(const dl_tensor *x, bool down, dl_tensor *values, dl_tensor *places);
    dl_status (*copy)(dl_tensor *to, const dl_tensor *from);
} dl_sorter;
/* The kernel of sort and topk along any dimension, which becomes the last one first. */
dl_status dl_sort_along(const dl_call *c, long dim, bool down, const dl_sorter *device);

/* DL_ERR_DTYPE unless t is i64 or i32. */
dl_status dl_check_index(const dl_tensor *t);
/* DL_ERR_INDEX "index 7 is out of range for dimension 0 of size 5". */
dl_status dl_fail_index(long index, int dim, long size);
