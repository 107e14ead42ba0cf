/* Kernels of convolutions of volumes: oneDNN, and where it does not serve the images that a volume is seen as. */
#include "cpu/conv/conv.h"
#include "cpu/runtime/iter.h"
#include "core/mode.h"
#include "core/scope.h"
#include "ops/rules/conv.h"

/* The rows that the op is made of elsewhere. */
static dl_status by_images(dl_call *c) {
    DL_SCOPED_GRAD_MODE(0);
    dl_tensor *made[1] = {NULL};
    dl_call parts = *c;
    parts.out = made;
    DL_TRY(c->op->compose(&parts));
    DL_OWNED dl_tensor *y = made[0];
    dl_cpu_copy(c->out[0], y);
    return DL_OK;
}

static dl_status conv_volumes(dl_call *c) {
    dl_conv_nd g;
    bool done;
    DL_TRY(dl_conv_volume_of(c, &g));
    if (!c->out[0]->numel) return DL_OK;
    DL_TRY(dl_conv_dnnl(c, &g, &done));
    if (done) return DL_OK;
    return DL_BIT(c->dtype) & DL_HALVES ? dl_cpu_via_f32(c, conv_volumes, false) : by_images(c);
}

const dl_kernel dl_cpu_conv_volume = {.run = conv_volumes, .dtypes = DL_FLOATS};
const dl_kernel dl_cpu_conv_volume_dx = {.run = conv_volumes, .dtypes = DL_FLOATS};
const dl_kernel dl_cpu_conv_volume_dw = {.run = conv_volumes, .dtypes = DL_FLOATS};
