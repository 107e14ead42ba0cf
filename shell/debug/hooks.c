/* Functions of the language that look at gradients and at results of layers: on_grad, on_forward; the share of dead
 * units. */
#include <stdlib.h>

#include "commands/nets/nets.h"
#include "lang/command.h"
#include "dlcore/compare.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

/* Calls the function; a tensor that it returns, also as the only item of a list, takes the place of the value. */
static dl_status call_with(const dlsh_callback *cb, const dlsh_value *in, int n, dl_tensor **instead) {
    DLSH_DROPPED dlsh_value out = dlsh_void();
    DLSH_TRY(dlsh_call(cb->session, cb->fn, &(dlsh_callargs){n, in, NULL}, &out));
    const dlsh_value v = out.type == DLSH_LIST && out.as.list->n == 1 ? *out.as.list->items : out;
    if (v.type == DLSH_TENSOR) return *instead = dl_ref(v.as.tensor), DL_OK;
    if (v.type == DLSH_NONE || v.type == DLSH_VOID) return DL_OK;
    return dlsh_fail(DL_ERR_TYPE, "return a tensor, or nothing", "a hook returned %s", dlsh_a(out));
}

static dl_status call(void *ctx, dl_tensor *value, dl_tensor **instead) {
    DLSH_DROPPED dlsh_value in = dlsh_tensor(dl_ref(value));
    return call_with(ctx, &in, 1, instead);
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
    int refs; /* of the tensor or layer, and of the handle */
    int removed;
    dlsh_callback *cb;
    dl_module *layer;        /* borrowed from the layer, which holds the hook */
    dl_optimizer *optimizer; /* the same */
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

/* fn(layer, [input], result), and before a layer fn(layer, [input]). */
static dl_status call_layer_hook(void *ctx, dl_tensor *value, dl_tensor **instead) {
    const hook *h = ctx;
    if (h->removed) return DL_OK;
    dl_tensor *input = dl_hook_input();
    DLSH_DROPPED dlsh_value layer = dlsh_net_value(h->layer),
                            in = DLSH_LIST_OF(dlsh_tensor(dl_ref(input ? input : value))),
                            out = dlsh_tensor(dl_ref(value));
    if (dlsh_failed(layer) || dlsh_failed(in)) return dl_failed();
    return call_with(h->cb, (dlsh_value[]){layer, in, out}, input ? 3 : 2, instead);
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
                                    .doc = "A function that looks at gradients or layers, as register_hook gives it.",
                                    .destroy = hook_unref,
                                    .text = hook_text,
                                    .methods = hook_methods};

/* A hook with two references; NULL: a recorded failure. */
static hook *hook_new(const dlsh_args *a, dl_module *layer) {
    dl_hook_fn *fn;
    dlsh_callback *cb;
    if (callback(a, &fn, &cb)) return NULL;
    if (!cb) {
        dlsh_arg_fail(a, "fn", DL_ERR_TYPE, "h.remove() removes the hook h", "a hook is a function, not none");
        return NULL;
    }
    hook *h = calloc(1, sizeof *h);
    if (!h) return dlsh_callback_free(cb), dlsh_no_memory("a hook"), NULL;
    *h = (hook){.refs = 2, .cb = cb, .layer = layer};
    return h;
}

/* st is that of adding h, which then has released it where it failed. */
static dl_status give_hook(dl_status st, hook *h, dlsh_value *result) {
    if (st) return hook_unref(h), st;
    return dlsh_give(dlsh_new_handle(&dlsh_hook_class, h), result);
}

static dl_status register_hook_run(const dlsh_args *a, dlsh_value *result) {
    hook *h = hook_new(a, NULL);
    return h ? give_hook(dl_on_grad(dlsh_arg_tensor(a, "x"), call_hook, h, hook_unref), h, result) : dl_failed();
}

/* fn(parameter), when its gradient is there; what it returns is ignored. */
static dl_status call_leaf_hook(void *ctx, dl_tensor *leaf, DLSH_UNUSED dl_tensor **instead) {
    const hook *h = ctx;
    if (h->removed) return DL_OK;
    DLSH_DROPPED dlsh_value in = dlsh_tensor(dl_ref(leaf)), out = dlsh_void();
    return dlsh_call(h->cb->session, h->cb->fn, &(dlsh_callargs){1, &in, NULL}, &out);
}

static dl_status register_accumulated_run(const dlsh_args *a, dlsh_value *result) {
    hook *h = hook_new(a, NULL);
    if (!h) return dl_failed();
    return give_hook(dl_on_accumulated(dlsh_arg_tensor(a, "x"), call_leaf_hook, h, hook_unref), h, result);
}

/* data: the hook runs before the layer. */
static dl_status register_layer_run(const dlsh_args *a, dlsh_value *result) {
    dl_module *m = dlsh_arg_handle(a, "layer", &dlsh_net_class);
    hook *h = hook_new(a, m);
    if (!h) return dl_failed();
    return give_hook((dlsh_arg_data(a) ? dl_before_forward : dl_on_forward)(m, call_layer_hook, h, hook_unref), h,
                     result);
}

/* fn(optimizer), before or behind a step; what it returns is ignored. */
static dl_status call_step_hook(void *ctx, DLSH_UNUSED dl_tensor *value, DLSH_UNUSED dl_tensor **instead) {
    const hook *h = ctx;
    if (h->removed) return DL_OK;
    DLSH_DROPPED dlsh_value o = dlsh_new_handle(&dlsh_optimizer_class, dl_optimizer_ref(h->optimizer)),
                            out = dlsh_void();
    if (dlsh_failed(o)) return dl_failed();
    return dlsh_call(h->cb->session, h->cb->fn, &(dlsh_callargs){1, &o, NULL}, &out);
}

/* data: the hook runs before the step. */
static dl_status register_step_run(const dlsh_args *a, dlsh_value *result) {
    hook *h = hook_new(a, NULL);
    if (!h) return dl_failed();
    h->optimizer = dlsh_arg_handle(a, "optimizer", &dlsh_optimizer_class);
    return give_hook((dlsh_arg_data(a) ? dl_before_step : dl_behind_step)(h->optimizer, call_step_hook, h, hook_unref),
                     h, result);
}

/* ---- gradients of layers: hooks at views of a layer's input and result, made anew in each forward pass */

typedef struct pass {
    int refs; /* of the layer's hook, and of the views */
    hook *h;
    int inside;    /* the input needs a gradient, too */
    dl_tensor *of; /* gradient of the result, once it is there */
} pass;

static void pass_unref(void *self) {
    pass *p = self;
    if (!p || --p->refs) return;
    hook_unref(p->h);
    dl_unref(p->of);
    free(p);
}

/* A hook at a layer, and the pass that is under way. */
typedef struct layer_hook {
    int refs; /* before and behind the layer */
    hook *h;
    int early; /* called with the gradient of the result alone, before it goes into the layer */
    pass *now;
} layer_hook;

static void layer_hook_unref(void *self) {
    layer_hook *l = self;
    if (--l->refs) return;
    pass_unref(l->now);
    hook_unref(l->h);
    free(l);
}

/* fn(layer, [gradient of the input], [gradient of the result]); without `in` a none stands for the first, and early
 * there is only the second. */
static dl_status call_with_gradients(const hook *h, dl_tensor *in, dl_tensor *of, int early, dl_tensor **instead) {
    DLSH_DROPPED dlsh_value layer = dlsh_net_value(h->layer),
                            first = DLSH_LIST_OF(in ? dlsh_tensor(dl_ref(in)) : dlsh_none()),
                            second = DLSH_LIST_OF(dlsh_tensor(dl_ref(of)));
    if (dlsh_failed(layer) || dlsh_failed(first) || dlsh_failed(second)) return dl_failed();
    dlsh_value all[3] = {layer, first, second};
    if (early) all[1] = second;
    return call_with(h->cb, all, early ? 2 : 3, instead);
}

static dl_status take_of_result(void *ctx, dl_tensor *g, dl_tensor **instead) {
    pass *p = ctx;
    if (p->h->removed) return DL_OK;
    dl_unref(p->of);
    p->of = dl_ref(g);
    dl_tensor *ignored = NULL;
    dl_status st = p->inside ? DL_OK : call_with_gradients(p->h, NULL, g, 0, &ignored);
    dl_unref(ignored);
    (void)instead;
    return st;
}

static dl_status take_of_input(void *ctx, dl_tensor *g, dl_tensor **instead) {
    const pass *p = ctx;
    return p->h->removed || !p->of ? DL_OK : call_with_gradients(p->h, g, p->of, 0, instead);
}

static dl_status take_early(void *ctx, dl_tensor *g, dl_tensor **instead) {
    const pass *p = ctx;
    return p->h->removed ? DL_OK : call_with_gradients(p->h, NULL, g, 1, instead);
}

/* A view in the place of the value, with a hook. */
static dl_status watch(pass *p, dl_tensor *value, dl_hook_fn *fn, dl_tensor **instead) {
    *instead = dl_expand(value, dl_shape(value), dl_ndim(value));
    if (!*instead) return dl_failed();
    p->refs++;
    return dl_on_grad(*instead, fn, p, pass_unref);
}

static int is_watched(const layer_hook *l, const dl_tensor *value) {
    return !l->h->removed && dl_grad_mode_get() && dl_requires_grad(value);
}

static dl_status before_layer(void *ctx, dl_tensor *value, dl_tensor **instead) {
    layer_hook *l = ctx;
    pass_unref(l->now);
    l->now = malloc(sizeof *l->now);
    if (!l->now) return dlsh_no_memory("a hook");
    *l->now = (pass){.refs = 1, .h = l->h, .inside = is_watched(l, value)};
    l->h->refs++;
    return l->now->inside && !l->early ? watch(l->now, value, take_of_input, instead) : DL_OK;
}

static dl_status behind_layer(void *ctx, dl_tensor *value, dl_tensor **instead) {
    layer_hook *l = ctx;
    pass *p = l->now;
    l->now = NULL;
    dl_status st = p && is_watched(l, value) ? watch(p, value, l->early ? take_early : take_of_result, instead) : DL_OK;
    pass_unref(p);
    return st;
}

static dl_status register_backward_run(const dlsh_args *a, dlsh_value *result) {
    dl_module *m = dlsh_arg_handle(a, "layer", &dlsh_net_class);
    hook *h = hook_new(a, m);
    layer_hook *l = h ? malloc(sizeof *l) : NULL;
    if (!l) return h ? h->refs = 1, hook_unref(h), dlsh_no_memory("a hook") : dl_failed();
    *l = (layer_hook){.refs = 2, .h = h, .early = dlsh_arg_data(a) != NULL};
    dl_status st = dl_before_forward(m, before_layer, l, layer_hook_unref);
    if (st)
        layer_hook_unref(l);
    else
        st = dl_on_forward(m, behind_layer, l, layer_hook_unref);
    return give_hook(st, h, result);
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
    DLSH_ROW("register_post_accumulate_grad_hook", DLSH_ONLY_FUNCTION | DLSH_ACTS, register_accumulated_run,
             "x.register_post_accumulate_grad_hook(fn)",
             "Calls fn with a parameter each time that a backward pass has added to its gradient, which fn may use and "
             "clear: a step of an optimizer in backward needs memory for no other gradient. h.remove() takes it away.",
             DLSH_PARAMS({"x", .want = "tensor", .doc = "a parameter"}, {"fn", .doc = "a function of the parameter"}),
             .examples =
                 "w = param(ones(2))\n"
                 "h = w.register_post_accumulate_grad_hook(fn (p) { no_grad { p -= 0.1 * p.grad }; p.grad = none })\n"
                 "backward sum(w * 5); w"),
    DLSH_ROW("on_forward", DLSH_ONLY_FUNCTION | DLSH_ACTS, on_forward_run, "on_forward(layer, fn)",
             "Calls fn with the result of a layer, or of a net, each time it runs. A tensor that fn returns takes its "
             "place. Steps of trainers are then not replayed as graphs. on_forward(layer, none) removes the hooks.",
             DLSH_PARAMS({"layer", .want = "net", .doc = "a net or a layer of one"},
                         {"fn", .doc = "a function of the result, or none"}),
             .examples = "net m { linear 4 -> relu -> linear 2 }; on_forward(m.relu0, fn (y) { print(dead(y)) }); "
                         "m(ones(3, 5));"),
    DLSH_ROW(
        "register_forward_hook", DLSH_ONLY_FUNCTION | DLSH_ACTS, register_layer_run, "m.register_forward_hook(fn)",
        "Calls fn(layer, input, output) each time a layer, or a net, has run; input is a list of its first input. A "
        "tensor that fn returns takes the place of the output. The result is a handle h: h.remove() takes the hook "
        "away.",
        DLSH_PARAMS({"layer", .want = "net", .doc = "a net or a layer of one"},
                    {"fn", .doc = "a function of layer, input and output"}),
        .examples = "net m { linear 4 -> relu }; h = m.linear0.register_forward_hook(fn (l, x, y) { print(y.shape) "
                    "}); m(ones(3, 5)); h.remove()"),
    DLSH_ROW(
        "register_forward_pre_hook", DLSH_ONLY_FUNCTION | DLSH_ACTS, register_layer_run,
        "m.register_forward_pre_hook(fn)",
        "The same before the layer runs, fn(layer, input); a tensor of the input's shape that fn returns takes its "
        "place.",
        DLSH_PARAMS({"layer", .want = "net", .doc = "a net or a layer of one"},
                    {"fn", .doc = "a function of layer and input"}),
        .data = "before",
        .examples = "net m { linear 4 -> relu }; h = m.relu0.register_forward_pre_hook(fn (l, x) { return x[0] * 2 "
                    "}); m(ones(3, 5)); h.remove()"),
    DLSH_ROW(
        "register_full_backward_hook", DLSH_ONLY_FUNCTION | DLSH_ACTS, register_backward_run,
        "m.register_full_backward_hook(fn)",
        "Calls fn(layer, grad_input, grad_output) when the gradients of a layer's, or a net's, first input and first "
        "result are there, each in a list; that of an input that needs none is none. A tensor that fn returns takes "
        "the place of the gradient of the input. The result is a handle h: h.remove() takes the hook away.",
        DLSH_PARAMS({"layer", .want = "net", .doc = "a net or a layer of one"},
                    {"fn", .doc = "a function of layer and gradients"}),
        .examples = "net m { linear 4 -> relu -> linear 2 }; h = m.relu0.register_full_backward_hook(fn (l, gx, gy) { "
                    "print(norm(gx[0]), norm(gy[0])) }); backward m(ones(3, 5)).sum(); h.remove()"),
    DLSH_ROW("register_full_backward_pre_hook", DLSH_ONLY_FUNCTION | DLSH_ACTS, register_backward_run,
             "m.register_full_backward_pre_hook(fn)",
             "Calls fn(layer, grad_output) with the gradient of a layer's first result, in a list, before it goes into "
             "the layer. A tensor that fn returns takes its place. The result is a handle as above.",
             DLSH_PARAMS({"layer", .want = "net", .doc = "a net or a layer of one"},
                         {"fn", .doc = "a function of layer and gradient"}),
             .data = "early",
             .examples =
                 "net m { linear 4 -> relu }; m.relu0.register_full_backward_pre_hook(fn (l, g) { return g[0] * 2 "
                 "})"),
    DLSH_ROW(
        "register_step_pre_hook", DLSH_ONLY_FUNCTION | DLSH_ACTS, register_step_run, "o.register_step_pre_hook(fn)",
        "Calls fn(optimizer) before each step of an optimizer, also of a trainer's t.opt: it may change gradients and "
        "options. Steps of trainers are then not replayed as graphs. The result is a handle h: h.remove() takes the "
        "hook away.",
        DLSH_PARAMS({"optimizer", .want = "optimizer", .doc = "whose steps"},
                    {"fn", .doc = "a function of the optimizer"}),
        .data = "before",
        .examples = "w = param(ones(2)); o = sgd([w], lr=0.1)\n"
                    "h = o.register_step_pre_hook(fn (o) { for p in o.parameters() { p.grad.clamp_(-1, 1) } })\n"
                    "backward (5 * w).sum(); o.step(); w; h.remove()"),
    DLSH_ROW("register_step_post_hook", DLSH_ONLY_FUNCTION | DLSH_ACTS, register_step_run,
             "o.register_step_post_hook(fn)",
             "The same behind each step: fn(optimizer) may look at the parameters, or change them.",
             DLSH_PARAMS({"optimizer", .want = "optimizer", .doc = "whose steps"},
                         {"fn", .doc = "a function of the optimizer"}),
             .examples = "w = param(ones(2)); o = sgd([w], lr=0.1)\n"
                         "h = o.register_step_post_hook(fn (o) { print(o.steps, w.tolist()) })\n"
                         "backward w.sum(); o.step(); h.remove()"),
    DLSH_ROW("dead", DLSH_ONLY_FUNCTION | DLSH_PURE, dead_run, "dead(x)",
             "The share of units of a result that are 0 or less in all samples: of channels, [N, C, ...], of features, "
             "[N, F], or of elements.",
             DLSH_PARAMS({"x", .want = "tensor", .doc = "a result, such as relu's"}),
             .examples = "dead(relu(tensor([[-1.0, 2.0], [-3.0, 4.0]])))"),
    {0}};
