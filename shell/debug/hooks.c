/* Functions of the language that look at gradients and at results of layers: on_grad, on_forward; the share of dead
 * units. */
#include <stdlib.h>

#include "commands/nets/nets.h"
#include "lang/command.h"
#include "dlcore/compare.h"
#include "dlcore/reduce.h"

/* Calls the function; a tensor that it returns takes the place of the value. */
static dl_status call(void *ctx, dl_tensor *value, dl_tensor **instead) {
    dlsh_callback *cb = ctx;
    dlsh_value out = dlsh_void();
    DLSH_DROPPED dlsh_value in = dlsh_tensor(dl_ref(value));
    dl_status st = dlsh_call(cb->session, cb->fn, &(dlsh_callargs){1, &in, NULL}, &out);
    if (st) return st;
    if (out.type == DLSH_TENSOR)
        *instead = dl_ref(out.as.tensor);
    else if (out.type != DLSH_NONE && out.type != DLSH_VOID)
        st = dlsh_fail(DL_ERR_TYPE, "return a tensor, or nothing", "a hook returned %s", dlsh_a(out));
    dlsh_drop(out);
    return st;
}

/* The function's callback; *fn NULL: the hooks are to be removed. */
static dl_status callback(const dlsh_args *a, dl_hook_fn **fn, dlsh_callback **cb) {
    const dlsh_value *f = dlsh_arg(a, "fn");
    *fn = NULL, *cb = NULL;
    if (!f || f->type == DLSH_NONE) return DL_OK;
    if (!dlsh_callable(*f))
        return dlsh_arg_fail(a, "fn", DL_ERR_TYPE, "on_grad(x, fn (g) { print(norm(g)) })",
                             "a hook is a function of one argument, not %s", dlsh_a(*f));
    *fn = call;
    *cb = dlsh_callback_new(dlsh_arg_session(a), *f);
    return *cb ? DL_OK : dl_failed();
}

static dl_status on_grad_run(const dlsh_args *a, dlsh_value *result) {
    dl_hook_fn *fn;
    dlsh_callback *cb;
    *result = dlsh_none();
    DLSH_TRY(callback(a, &fn, &cb));
    return dl_on_grad(dlsh_arg_tensor(a, "x"), fn, cb, dlsh_callback_free);
}

/* ---- hooks that can be taken away one by one */

typedef struct hook {
    int refs; /* of the tensor and of the handle */
    int removed;
    dlsh_callback *cb;
} hook;

static void hook_unref(void *self) {
    hook *h = self;
    if (--h->refs) return;
    dlsh_callback_free(h->cb);
    free(h);
}

static dl_status call_hook(void *ctx, dl_tensor *value, dl_tensor **instead) {
    const hook *h = ctx;
    return h->removed ? DL_OK : call(h->cb, value, instead);
}

static dl_status remove_run(const dlsh_args *a, dlsh_value *result) {
    ((hook *)dlsh_arg_self(a))->removed = 1;
    *result = dlsh_none();
    return DL_OK;
}

static dl_status hook_text(void *self, struct dlsh_buf *out) {
    dlsh_buf_puts(out, ((const hook *)self)->removed ? "<hook, removed>" : "<hook>");
    return DL_OK;
}

static const dlsh_command hook_methods[] = {
    DLSH_ACT_ROW("remove", remove_run, "h.remove()", "The function is not called any more.",
                 .examples = "w = param(ones(2)); h = w.register_hook(fn (g) { print(g) }); h.remove()"),
    {0}};

const dlsh_class dlsh_hook_class = {.name = "hook",
                                    .doc = "A function that looks at gradients, as register_hook gives it.",
                                    .destroy = hook_unref,
                                    .text = hook_text,
                                    .methods = hook_methods};

static dl_status register_hook_run(const dlsh_args *a, dlsh_value *result) {
    dl_hook_fn *fn;
    dlsh_callback *cb;
    DLSH_TRY(callback(a, &fn, &cb));
    if (!cb)
        return dlsh_arg_fail(a, "fn", DL_ERR_TYPE, "h.remove() removes the hook h", "a hook is a function, not none");
    hook *h = calloc(1, sizeof *h);
    if (!h) return dlsh_callback_free(cb), dlsh_no_memory("a hook");
    *h = (hook){.refs = 2, .cb = cb};
    dl_status st = dl_on_grad(dlsh_arg_tensor(a, "x"), call_hook, h, hook_unref); /* it releases h when it fails */
    if (st) return hook_unref(h), st;
    return dlsh_give(dlsh_new_handle(&dlsh_hook_class, h), result);
}

static dl_status on_forward_run(const dlsh_args *a, dlsh_value *result) {
    dl_hook_fn *fn;
    dlsh_callback *cb;
    *result = dlsh_none();
    DLSH_TRY(callback(a, &fn, &cb));
    return dl_on_forward(dlsh_arg_handle(a, "layer", &dlsh_net_class), fn, cb, dlsh_callback_free);
}

/* Units are channels, or the features of rows; one is dead when it is 0, or less, in all samples. By ops, so that it
 * stays on the device; NaN is alive. */
static dl_status dead_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *x = dlsh_arg_tensor(a, "x");
    const int nd = dl_ndim(x);
    long over[8];
    int n = 0;
    DLSH_SCOPED_GRAD_MODE(0);
    for (int i = 0; i < nd; i++)
        if (nd > 1 && i != 1) over[n++] = i;
    DLSH_OWNED dl_tensor *zero = dl_scalar_f(0), *low = zero ? dl_le(x, zero) : NULL;
    DLSH_OWNED dl_tensor *dead = low && n ? dl_all(low, over, n, 0) : low ? dl_ref(low) : NULL;
    DLSH_OWNED dl_tensor *f = dead ? dl_to_dtype(dead, DL_F32) : NULL;
    dl_tensor *share = f ? dl_mean(f, NULL, 0, 0) : NULL;
    return share ? dlsh_give(dlsh_tensor(share), result) : dl_failed();
}

const dlsh_command hooks_commands[] = {
    DLSH_ROW("on_grad", DLSH_ONLY_FUNCTION | DLSH_ACTS, on_grad_run, "on_grad(x, fn)",
             "Calls fn with the gradient of x at each backward pass: of a parameter before it is added to x.grad, of a "
             "result before it goes on. A tensor that fn returns takes its place. on_grad(x, none) removes the hooks "
             "of x.",
             DLSH_PARAMS({"x", .want = "tensor", .doc = "a tensor that needs a gradient"},
                         {"fn", .doc = "a function of the gradient, or none"}),
             .examples =
                 "w = param(ones(2)); on_grad(w, fn (g) { return clamp(g, -1, 1) }); backward sum(w * 5); w.grad"),
    DLSH_ROW("register_hook", DLSH_ONLY_FUNCTION | DLSH_ACTS, register_hook_run, "x.register_hook(fn)",
             "As on_grad, with a handle h of this hook alone: h.remove() takes it away.",
             DLSH_PARAMS({"x", .want = "tensor", .doc = "a tensor that needs a gradient"},
                         {"fn", .doc = "a function of the gradient"}),
             .examples =
                 "w = param(ones(2)); h = w.register_hook(fn (g) { return g * 2 }); backward sum(w); h.remove()"),
    DLSH_ROW("on_forward", DLSH_ONLY_FUNCTION | DLSH_ACTS, on_forward_run, "on_forward(layer, fn)",
             "Calls fn with the result of a layer, or of a net, each time it runs. A tensor that fn returns takes its "
             "place. Steps of trainers are then not replayed as graphs. on_forward(layer, none) removes the hooks.",
             DLSH_PARAMS({"layer", .want = "net", .doc = "a net or a layer of one"},
                         {"fn", .doc = "a function of the result, or none"}),
             .examples = "net m { linear 4 -> relu -> linear 2 }; on_forward(m.relu0, fn (y) { print(dead(y)) }); "
                         "m(ones(3, 5));"),
    DLSH_ROW("dead", DLSH_ONLY_FUNCTION | DLSH_PURE, dead_run, "dead(x)",
             "The share of units of a result that are 0 or less in all samples: of channels, [N, C, ...], of features, "
             "[N, F], or of elements.",
             DLSH_PARAMS({"x", .want = "tensor", .doc = "a result, such as relu's"}),
             .examples = "dead(relu(tensor([[-1.0, 2.0], [-3.0, 4.0]])))"),
    {0}};
