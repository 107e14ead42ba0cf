/* recompute(FN, X...), also called checkpoint: a function whose activations are not kept but computed again when
 * gradients pass. */
#include <stdlib.h>

#include "commands/families.h"
#include "commands/nets/nets.h"
#include "lang/command.h"

enum { MOST = 8 }; /* results */

/* A call: the function, and its arguments with none in the places of tensors. */
typedef struct call {
    dlsh_session *session;
    dlsh_value fn, args;
    int list; /* the function gives a list */
    int refs; /* of the caller, and of the library */
} call;

static void call_free(void *self) {
    call *c = self;
    if (--c->refs) return;
    dlsh_drop(c->fn);
    dlsh_drop(c->args);
    free(c);
}

static dl_status take_results(call *c, dlsh_value v, dl_tensor **out, int *n) {
    c->list = v.type == DLSH_LIST;
    const dlsh_value *items = c->list ? v.as.list->items : &v;
    const int count = c->list ? v.as.list->n : 1;
    int good = count >= 1 && count <= MOST;
    for (int i = 0; i < count && good; i++) good = items[i].type == DLSH_TENSOR;
    if (!good)
        return dlsh_fail(DL_ERR_TYPE, "return a tensor",
                         "a function that is computed again gives a tensor, or 1 to 8 in "
                         "a list, not %s",
                         dlsh_a(v));
    for (; *n < count; ++*n) out[*n] = dl_ref(items[*n].as.tensor);
    return DL_OK;
}

/* A dl_tensor_fn. */
static int run(dl_tensor **in, DLSH_UNUSED int nin, dl_tensor **out, DLSH_UNUSED int max_out, void *arg) {
    call *c = arg;
    const dlsh_list *given = c->args.as.list;
    DLSH_FREED dlsh_value *values = malloc((size_t)(given->n + 1) * sizeof *values);
    DLSH_DROPPED dlsh_value v = dlsh_void();
    int n = 0, used = 0;
    if (!values) return dlsh_no_memory("arguments"), -1;
    for (int i = 0; i < given->n; i++)
        values[i] =
            given->items[i].type == DLSH_VOID ? (dlsh_value){DLSH_TENSOR, {.tensor = in[used++]}} : given->items[i];
    dl_status st = dlsh_call(c->session, c->fn, &(dlsh_callargs){given->n, values, NULL}, &v);
    if (!st) st = take_results(c, v, out, &n);
    return st ? -1 : n;
}

static call *call_new(const dlsh_args *a) {
    call *c = malloc(sizeof *c);
    if (!c) return dlsh_no_memory("a call"), NULL;
    *c =
        (call){.session = dlsh_arg_session(a), .fn = dlsh_ref(*dlsh_arg(a, "fn")), .args = dlsh_new_list(0), .refs = 2};
    for (int i = 0; i < dlsh_arg_count(a, "args") && !dlsh_failed(c->args); i++) {
        dlsh_value v = *dlsh_arg_at(a, "args", i);
        if (dlsh_list_push(c->args.as.list, v.type == DLSH_TENSOR ? dlsh_void() : dlsh_ref(v))) break;
    }
    if (!dlsh_failed(c->args) && c->args.as.list->n == dlsh_arg_count(a, "args")) return c;
    c->refs = 1;
    return call_free(c), NULL;
}

static dl_status give(const call *c, dl_tensor **out, int n, dlsh_value *result) {
    if (!c->list) return *result = dlsh_tensor(out[0]), DL_OK;
    dlsh_value list = dlsh_new_list(n);
    dl_status st = dlsh_failed(list) ? dl_failed() : DL_OK;
    for (int i = 0; i < n; i++)
        if (st)
            dl_unref(out[i]);
        else
            st = dlsh_list_push(list.as.list, dlsh_tensor(out[i]));
    return dlsh_give_filled(st, list, result);
}

/* A function of one tensor. */
static dl_status recompute_call(dlsh_session *session, dlsh_value fn, const dlsh_value *x, dlsh_value *result) {
    dl_tensor *in[1] = {x->as.tensor}, *out[MOST] = {0};
    int nout = 0;
    call *c = malloc(sizeof *c);
    if (!c) return dlsh_no_memory("a call");
    *c = (call){.session = session, .fn = dlsh_ref(fn), .args = dlsh_new_list(1), .refs = 2};
    if (dlsh_failed(c->args) || dlsh_list_push(c->args.as.list, dlsh_void()))
        return c->refs = 1, call_free(c), dl_failed();
    dl_status st = dl_recompute(run, c, call_free, in, 1, out, &nout);
    if (!st) st = give(c, out, nout, result);
    call_free(c);
    return st;
}

static dl_status recompute_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *in[DL_MAX_RESULTS], *out[MOST] = {0};
    int n = 0, nout = 0;
    if (!dlsh_callable(*dlsh_arg(a, "fn")))
        return dlsh_arg_fail(a, "fn", DL_ERR_TYPE, "recompute(m.body, x)", "give a function or a net, not %s",
                             dlsh_a(*dlsh_arg(a, "fn")));
    for (int i = 0; i < dlsh_arg_count(a, "args"); i++) {
        const dlsh_value *v = dlsh_arg_at(a, "args", i);
        if (v->type != DLSH_TENSOR) continue;
        if (n == DL_MAX_RESULTS)
            return dlsh_arg_fail(a, "args", DL_ERR_VALUE, NULL, "at most %d tensors, got more", DL_MAX_RESULTS);
        in[n++] = v->as.tensor;
    }
    call *c = call_new(a);
    if (!c) return dl_failed();
    dl_status st = dl_recompute(run, c, call_free, in, n, out, &nout);
    if (!st) st = give(c, out, nout, result);
    call_free(c);
    return st;
}

/* ---- checkpoint_sequential(LAYERS, SEGMENTS, X) */

/* One after the other: what the function of a segment does. */
static dl_status segment_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_list *layers = dlsh_arg(a, "layers")->as.list;
    DLSH_DROPPED dlsh_value x = dlsh_ref(*dlsh_arg(a, "x"));
    for (int i = 0; i < layers->n; i++) {
        DLSH_DROPPED dlsh_value y = dlsh_void();
        DLSH_TRY(dlsh_call(dlsh_arg_session(a), layers->items[i], &(dlsh_callargs){1, &x, NULL}, &y));
        dlsh_value was = x;
        x = y, y = was;
    }
    return dlsh_hand_over(&x, result);
}
static const dlsh_command segment_row = DLSH_FN_ROW(
    "segment", segment_run, "segment(LAYERS, X)", "What checkpoint_sequential makes of some layers.",
    DLSH_PARAMS({"layers", .want = "list", .doc = "layers"}, {"x", .want = "tensor", .doc = "their input"}));

static dlsh_value layer_at(dlsh_value layers, int i) {
    const dl_module *net = dlsh_unwrap(layers, &dlsh_net_class);
    return net ? dlsh_net_value(dl_module_at(net, i)) : dlsh_ref(layers.as.list->items[i]);
}

/* Layers from .. to, with their activations or without them. */
static dl_status run_segment(const dlsh_args *a, int from, int to, int kept, dlsh_value *x) {
    DLSH_DROPPED dlsh_value some = dlsh_new_list(to - from), y = dlsh_void();
    if (dlsh_failed(some)) return dl_failed();
    for (int i = from; i < to; i++) DLSH_TRY(dlsh_append(some, layer_at(*dlsh_arg(a, "layers"), i)));
    DLSH_DROPPED dlsh_value f = dlsh_new_method(some, (dlsh_value){DLSH_BUILTIN, {.builtin = &segment_row}});
    if (dlsh_failed(f)) return dl_failed();
    if (x->type != DLSH_TENSOR)
        return dlsh_arg_fail(a, "layers", DL_ERR_TYPE, "recompute(FN, X, ...) takes several",
                             "layer %d gave %s, and the next one takes a tensor", from - 1, dlsh_a(*x));
    if (kept)
        DLSH_TRY(dlsh_call(dlsh_arg_session(a), f, &(dlsh_callargs){1, x, NULL}, &y));
    else
        DLSH_TRY(recompute_call(dlsh_arg_session(a), f, x, &y));
    dlsh_value was = *x;
    *x = y, y = was;
    return DL_OK;
}

static dl_status sequential_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value layers = *dlsh_arg(a, "layers");
    const dl_module *net = dlsh_unwrap(layers, &dlsh_net_class);
    const int n = net ? dl_module_count(net) : layers.as.list->n;
    const long segments = dlsh_arg_int(a, "segments");
    for (int i = 0; !net && i < n; i++)
        if (!dlsh_callable(layers.as.list->items[i]))
            return dlsh_arg_fail(a, "layers", DL_ERR_TYPE, NULL, "item %d of the list is not a layer but %s", i,
                                 dlsh_a(layers.as.list->items[i]));
    if (segments < 1 || segments > n)
        return dlsh_arg_fail(a, "segments", DL_ERR_VALUE, NULL, "%d layers are 1 to %d segments, not %ld", n, n,
                             segments);
    const int size = n / (int)segments;
    DLSH_DROPPED dlsh_value x = dlsh_ref(*dlsh_arg(a, "x"));
    for (int i = 0; i < segments; i++) {
        const int last = i == segments - 1;
        DLSH_TRY(run_segment(a, i * size, last ? n : (i + 1) * size, last, &x));
    }
    return dlsh_hand_over(&x, result);
}

#define AS_PYTORCH                                                                                                     \
    DLSH_OPTIONS({"use_reentrant", DLSH_OPT_BOOL, NULL, .doc = "as PyTorch has it: both values do the same"},          \
                 {"preserve_rng_state", DLSH_OPT_BOOL, "true", .doc = "as PyTorch has it: it always is"})
const dlsh_command recompute_commands[] = {
    DLSH_FN_ROW(
        "recompute", recompute_run, "recompute(FN, X, ...)",
        "FN(X, ...), whose activations are not kept: backward calls FN again, with the same random numbers, so that "
        "dropout draws the same. Saves memory for the time of a second forward pass. FN, a function or a net, gives a "
        "tensor or a list of them; parameters that it uses get their gradients. Running statistics of batchnorm move "
        "in both calls. Also called checkpoint(FN, X, ...).",
        DLSH_PARAMS({"fn", .doc = "a function or a net"}, {"args", .flags = DLSH_VARIADIC, .doc = "its arguments"}),
        AS_PYTORCH,
        .examples = "net m { body: chain { linear 64 -> relu -> dropout 0.5 }; linear 2; forward(x) { return "
                    "linear0(recompute(body, x)) } }"),
    DLSH_FN_ROW(
        "checkpoint_sequential", sequential_run, "checkpoint_sequential(LAYERS, SEGMENTS, X)",
        "The output of layers one after another, in segments that recompute calls; the activations of the last "
        "segment are kept.",
        DLSH_PARAMS({"layers", .want = "net|list", .doc = "a chain of layers, or a list of layers or functions"},
                    {"segments", .want = "int", .doc = "how many segments of about the same number of layers"},
                    {"x", .want = "tensor", .doc = "the input"}),
        AS_PYTORCH, .examples = "checkpoint_sequential([relu, tanh, sin, cos], 2, randn(3))"),
    {0}};
