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
    bool done = false;
    DL_TRY(dl_conv_volume_of(c, &g));
    if (!c->out[0]->numel) return DL_OK;
    if (c->dtype == DL_F32) DL_TRY(dl_conv_dnnl_by_parts(c, &g, &done));
    return done ? DL_OK : by_images(c);
}

DL_CPU_KERNEL(conv_volume, conv_volumes, false, DL_FLOATS)
DL_CPU_KERNEL(conv_volume_dx, conv_volumes, false, DL_FLOATS)
DL_CPU_KERNEL(conv_volume_dw, conv_volumes, false, DL_FLOATS)
