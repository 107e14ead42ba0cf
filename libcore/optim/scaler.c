/* Scaling of losses in loops by hand with 16-bit floats: gradients that would vanish in f16 do not, and a step whose
 * gradients overflow is left out. The rule is PyTorch's GradScaler. */
#include <math.h>
#include <stdlib.h>

#include "core/scope.h"
#include "optim/clip.h"
#include "optim/optimizer.h"

dl_status dl_scaler_check(const dl_scaler *s) {
    if (!(s->scale > 0) || isinf(s->scale) || !(s->growth > 1) || !(s->backoff > 0 && s->backoff < 1) ||
        s->interval < 1)
        return dl_fail_hint(DL_ERR_VALUE, "grad_scaler(init_scale=65536, growth_factor=2, backoff_factor=0.5)",
                            "a scale is positive, it grows by a factor above 1 and shrinks by one between 0 and 1");
    return DL_OK;
}

/* The gradients of the optimizer's parameters; *n of them. NULL: a recorded failure. */
static dl_tensor **gradients(const dl_optimizer *o, long *n) {
    dl_tensor **g = malloc((size_t)(o->n + 1) * sizeof(dl_tensor *));
    if (!g) return dl_fail(DL_ERR_MEMORY, "no memory for a list of gradients"), NULL;
    *n = 0;
    for (long i = 0; i < o->n; i++)
        if (o->param[i].p->grad) g[(*n)++] = o->param[i].p->grad;
    return g;
}

dl_status dl_scaler_unscale(dl_scaler *s, dl_optimizer *o) {
    if (s->unscaled)
        return dl_fail_hint(DL_ERR_STATE, "s.update() ends a step", "the gradients of this step are unscaled already");
    long n;
    double norm = 0;
    dl_tensor **g = gradients(o, &n);
    if (!g) return dl_failed();
    DL_SCOPED_GRAD_MODE(0);
    dl_status st = n ? dl_grads_norm(g, n, &norm)
                     : dl_fail_hint(DL_ERR_STATE, "backward s.scale(loss)", "no parameter has a gradient");
    if (st == DL_OK && isfinite(norm)) st = dl_grads_scale(g, n, 1 / s->scale);
    free(g);
    if (st == DL_OK) s->unscaled = 1, s->overflow = !isfinite(norm);
    return st;
}

dl_status dl_scaler_step(dl_scaler *s, dl_optimizer *o, int *stepped) {
    *stepped = 0;
    if (!s->unscaled) DL_TRY(dl_scaler_unscale(s, o));
    if (s->overflow) return DL_OK;
    DL_TRY(dl_optimizer_step(o));
    *stepped = 1;
    return DL_OK;
}

void dl_scaler_update(dl_scaler *s) {
    if (!s->unscaled) return;
    if (s->overflow)
        s->scale *= s->backoff, s->good = 0;
    else if (++s->good == s->interval)
        s->scale *= s->growth, s->good = 0;
    s->unscaled = s->overflow = 0;
}
