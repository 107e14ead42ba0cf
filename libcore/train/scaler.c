/* Loss scaling under f16 on the CPU: gradients of a loss made larger do not vanish in 16 bits. Where they overflow the
 * step is left out and the scale halved; after DL_SCALE_GROWTH good steps it is doubled. Accelerators do the same by
 * themselves (cuda/control.cu). */
#include <math.h>

#include "core/mode.h"
#include "optim/optimizer.h"
#include "train/ahead.h"

bool dl_scaler_on(const dl_trainer *t) {
    (void)t;
    return dl_precision_get() == DL_PRECISION_F16;
}

double dl_scaler_scale(dl_trainer *t) {
    if (!dl_scaler_on(t)) return 1;
    if (!(t->loss_scale > 0)) t->loss_scale = DL_SCALE_FIRST;
    return t->loss_scale;
}

dl_status dl_scaler_unscale(dl_trainer *t, bool *skip) {
    *skip = false;
    if (!dl_scaler_on(t)) return DL_OK;
    double scale = dl_scaler_scale(t);
    DL_TRY(dl_clip_grad_norm(t->param, t->nparam, 0, &t->grad_norm));
    t->grad_norm /= scale;
    if (isfinite(t->grad_norm) && isfinite(t->last_loss)) {
        if (++t->loss_scale_good == DL_SCALE_GROWTH) t->loss_scale *= 2, t->loss_scale_good = 0;
        return dl_scale_grads(t->param, t->nparam, 1 / scale);
    }
    if (scale <= 1) {
        DL_TRY(dl_trainer_check_finite(t, t->last_loss, "the loss"));
        DL_TRY(dl_trainer_check_finite(t, t->grad_norm, "the norm of the gradient"));
    }
    t->loss_scale = fmax(scale / 2, 1), t->loss_scale_good = 0;
    return *skip = true, DL_OK;
}

dl_status dl_scaler_read(dl_trainer *t, double state[2]) {
    if (t->ahead && t->ahead->scaled) {
        dl_control c;
        DL_TRY(dl_device_copy(&c, 0, t->ahead->control, t->device, sizeof c));
        t->loss_scale = c.scale, t->loss_scale_good = c.good;
    }
    state[0] = t->loss_scale, state[1] = t->loss_scale_good;
    return DL_OK;
}
