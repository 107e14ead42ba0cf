/* Norm and limits of a list of gradients (optim/clip.c). */
#pragma once

#include "core/op.h"

/* The norm of all together; in fixed order, so that it repeats bit for bit. */
dl_status dl_grads_norm(dl_tensor *const *grad, long n, double *norm);
/* Multiplies them, in place. */
dl_status dl_grads_scale(dl_tensor *const *grad, long n, double factor);
/* Limits every element to -max..max, in place; NaN stays. */
dl_status dl_grads_clamp(dl_tensor *const *grad, long n, double max);

/* What limits gradients of this norm to `max` (0: no limit). A NaN is left to be seen; the small number is PyTorch's.
 */
static inline double dl_clip_factor(double max, double norm) {
    double factor = max / (norm + 1e-6);
    return max > 0 && factor < 1 ? factor : 1;
}
