/* Kernels of joining and reversing: strided copies. */
#include "cuda/runtime/base.h"
#include "ops/names/index.h"

static dl_status run_cat(dl_call *c) {
    dl_tensor *o = c->out[0];
    DL_USE_GPU(g, c->device);
    int dim = 0;
    DL_TRY(dl_dim_norm(ATTR_I(c, CAT_DIM), o->ndim, &dim));
    char *at = dl_ptr(o);
    for (int i = 0; i < c->nin; i++) {
        const dl_tensor *x = c->in[i];
        DL_TRY(dl_cuda_copy_strided(g, x->ndim, x->shape, at, o->dtype, o->stride, dl_ptr(x), x->dtype, x->stride));
        at += x->shape[dim] * o->stride[dim] * (long)dl_esize(o);
    }
    return DL_OK;
}
const dl_kernel dl_cuda_cat = {.run = run_cat, .dtypes = DL_ALL};

static dl_status run_flip(dl_call *c) {
    const dl_tensor *x = c->in[0], *o = c->out[0];
    DL_USE_GPU(g, c->device);
    const char *from = NULL;
    long stride[DL_MAX_DIM];
    DL_TRY(dl_flip_source(c, &from, stride));
    return dl_cuda_copy_strided(g, x->ndim, x->shape, dl_ptr(o), o->dtype, o->stride, from, x->dtype, stride);
}
const dl_kernel dl_cuda_flip = {.run = run_flip, .dtypes = DL_ALL};
