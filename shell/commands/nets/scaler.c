/* grad_scaler(...): loss scaling in loops by hand. */
#include <stdlib.h>

#include "commands/history/history.h"
#include "commands/nets/nets.h"
#include "commands/nets/scaler.h"
#include "dlcore/arithmetic.h"

static dl_status text(void *self, dlsh_buf *out) {
    const dl_scaler *s = self;
    dlsh_buf_printf(out, "<grad_scaler: scale %g>", s->scale);
    return DL_OK;
}

DLSH_GETTER(get_scale, dlsh_float(((const dl_scaler *)self)->scale))
static dl_status set_scale(void *self, dlsh_value v) {
    if (!dlsh_is_number(v)) return dlsh_fail(DL_ERR_TYPE, NULL, "scale must be a number, got %s", dlsh_type_name(v));
    dl_scaler *s = self, changed = *s;
    changed.scale = dlsh_number(v);
    DLSH_TRY(dl_scaler_check(&changed));
    *s = changed;
    return DL_OK;
}

static const dlsh_field fields[] = {{"factor", "what losses are multiplied by; can be set", get_scale, set_scale},
                                    {NULL, NULL, NULL, NULL}};

static dl_status get_scale_run(const dlsh_args *a, dlsh_value *result) { return get_scale(dlsh_arg_self(a), result); }

static dl_status scale_run(const dlsh_args *a, dlsh_value *result) {
    const dl_scaler *s = dlsh_arg_self(a);
    dl_tensor *factor = dl_scalar_f(s->scale), *y = factor ? dl_mul(dlsh_arg_tensor(a, "loss"), factor) : NULL;
    dl_unref(factor);
    return dlsh_give(dlsh_tensor(y), result);
}

static dl_status unscale_run(const dlsh_args *a) {
    return dl_scaler_unscale(dlsh_arg_self(a), dlsh_arg_handle(a, "optimizer", &dlsh_optimizer_class));
}

static dl_status step_run(const dlsh_args *a, dlsh_value *result) {
    int stepped = 0;
    dl_optimizer *o = dlsh_arg_handle(a, "optimizer", &dlsh_optimizer_class);
    dl_look *look = dlsh_update_before(o);
    dl_status st = dl_scaler_step(dlsh_arg_self(a), o, &stepped);
    dlsh_update_after(look, o, st || stepped ? st : DL_ERR_VALUE);
    DLSH_TRY(st);
    *result = dlsh_bool(stepped);
    return DL_OK;
}

static dl_status update_run(const dlsh_args *a) {
    dl_scaler_update(dlsh_arg_self(a));
    return DL_OK;
}

static const dlsh_param of_optimizer[] = {{"optimizer", .want = "optimizer", .doc = "whose gradients"}, {0}};
static const dlsh_command methods[] = {
    DLSH_FN_ROW("scale", scale_run, "s.scale(LOSS)", "The loss times the factor, for backward.",
                DLSH_PARAMS({"loss", .want = "tensor", .doc = "the loss"}), .examples = "backward s.scale(l)"),
    DLSH_FN_ROW("get_scale", get_scale_run, "s.get_scale()", "The same as s.factor."),
    DLSH_FN_ROW("unscale_", unscale_run, "s.unscale_(OPTIMIZER)",
                "Divides the gradients by the factor, so that they can be clipped; without this call, step does it.",
                .params = of_optimizer),
    DLSH_ACT_ROW("step", step_run, "s.step(OPTIMIZER)",
                 "Makes the optimizer's step, or skips it when a gradient is not finite; returns whether it was made.",
                 .params = of_optimizer, .examples = "s.step(o)\ns.update()"),
    DLSH_FN_ROW("update", update_run, "s.update()",
                "Ends a step: decreases the factor after an overflow, and increases it after many steps without one."),
    {0}};

const dlsh_class dlsh_scaler_class = {.name = "grad_scaler",
                                      .doc = "Scales losses, so that gradients in f16 do not vanish.",
                                      .destroy = free,
                                      .held = dlsh_held_little,
                                      .text = text,
                                      .fields = fields,
                                      .methods = methods};

dlsh_value dlsh_scaler_value(dl_scaler is) {
    if (dl_scaler_check(&is) != DL_OK) return dlsh_void();
    dl_scaler *s = malloc(sizeof *s);
    if (!s) return dlsh_no_memory("the scale of a loss"), dlsh_void();
    *s = is;
    return dlsh_new_handle(&dlsh_scaler_class, s);
}

dl_status dlsh_grad_scaler_run(const dlsh_args *a, dlsh_value *result) {
    return dlsh_give(dlsh_scaler_value((dl_scaler){.scale = dlsh_arg_float(a, "init_scale"),
                                                   .growth = dlsh_arg_float(a, "growth_factor"),
                                                   .backoff = dlsh_arg_float(a, "backoff_factor"),
                                                   .interval = dlsh_arg_int(a, "growth_interval")}),
                     result);
}
