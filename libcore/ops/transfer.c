/* Copies between devices: shape, gradient, and the kernel of every device. */
#include "core/device/device.h"
#include "core/scope.h"
#include "ops/infer.h"
#include "dlcore/copy.h"
#include "ops/rules/copy.h"

INFER_RULE(transfer) {
    DL_TRY(dl_device_check((int)ATTR_I(c, TRANSFER_DEVICE)));
    *out = dl_meta_like(c->in[0], c->in[0]->ndim, c->in[0]->shape);
    out->device = (int)ATTR_I(c, TRANSFER_DEVICE);
    return DL_OK;
}

RULE(transfer, dl_transfer(G0, dl_in_meta(b, 0)->device))

dl_status dl_run_transfer(dl_call *c) {
    DL_OWNED dl_tensor *x = dl_contiguous(c->in[0]);
    if (!x) return dl_failed();
    return dl_device_copy(dl_ptr(c->out[0]), c->out[0]->st->device, dl_ptr(x), x->st->device,
                          (size_t)x->numel * dl_esize(x));
}

const dl_kernel dl_cpu_transfer = {.run = dl_run_transfer, .dtypes = DL_ALL};
