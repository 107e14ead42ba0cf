/* autograd_function(FORWARD, BACKWARD): functions of the language whose gradient is a function of the language.
 *
 * The result is computed without a history. where(true, result, 0) then ties it to the inputs: the zero is a sum of no
 * elements of each. One hook at the result takes its gradient; one at each input gives what BACKWARD makes of it in the
 * place of the zeros that arrive there. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "commands/families.h"
#include "commands/nets/nets.h"
#include "dlcore/arithmetic.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "lang/command.h"

enum { MOST = 8 }; /* tensors among the arguments, and results */

/* Fields of ctx that have a meaning. */
static const char saved[] = "saved_tensors", constants[] = "non_differentiable", needed[] = "needs_input_grad";

typedef struct function {
    dlsh_session *session;
    dlsh_value forward, backward;
} function;

/* ---------------------------------------------------------------- a call, for its backward passes */

typedef struct call {
    int refs;
    unsigned long number; /* of its parts on the tape; 0: they are not one by themselves */
    struct call *next;    /* whose history is alive, too */
    dlsh_session *session;
    dlsh_value forward, backward, ctx;
    int nargs, nout;
    dlsh_value args[MOST];  /* those that need no gradient; a graph keeps of the others what it needs */
    dl_tensor *out[MOST];   /* results without history: a gradient that does not arrive is zeros of their form */
    int constant[MOST];     /* results that ctx.mark_non_differentiable names */
    dl_tensor *kept[MOST];  /* results as ctx has them, without a history; NULL: it does not have this one */
    dl_tensor *g[MOST];     /* gradients of the results in this pass */
    dl_hook_place at[MOST]; /* and where these results are in the history */
    unsigned long pass;
    int ndifferentiated, left; /* arguments that get gradients, and those that have not yet */
    dlsh_value gin;            /* list of the gradients of the arguments; VOID: not computed yet in this pass */
} call;

/* One hook: of argument or result number i. */
typedef struct tie {
    call *of;
    int i;
} tie;

/* Calls with a history. */
static call *alive;
static pthread_mutex_t alive_lock = PTHREAD_MUTEX_INITIALIZER;

static void enlist(call *c) {
    pthread_mutex_lock(&alive_lock);
    c->next = alive;
    alive = c;
    pthread_mutex_unlock(&alive_lock);
}

static void delist(const call *c) {
    pthread_mutex_lock(&alive_lock);
    call **p = &alive;
    while (*p && *p != c) p = &(*p)->next;
    if (*p) *p = c->next;
    pthread_mutex_unlock(&alive_lock);
}

static const call *find_call(unsigned long number) {
    pthread_mutex_lock(&alive_lock);
    const call *c = alive;
    while (c && c->number != number) c = c->next;
    pthread_mutex_unlock(&alive_lock);
    return c;
}

static void call_unref(call *c) {
    if (--c->refs) return;
    if (c->number) delist(c);
    for (int i = 0; i < c->nargs && i < MOST; i++) dlsh_drop(c->args[i]);
    for (int k = 0; k < c->nout; k++) DLSH_UNREF(c->out[k], c->g[k], c->kept[k]);
    dlsh_drop(c->gin);
    dlsh_drop(c->ctx);
    dlsh_drop(c->backward);
    dlsh_drop(c->forward);
    free(c);
}

static void untie(void *self) {
    tie *t = self;
    call_unref(t->of);
    free(t);
}

static dl_status tie_to(call *c, int i, dl_tensor *t, dl_hook_fn *hook) {
    tie *new = malloc(sizeof *new);
    if (!new) return dlsh_no_memory("a function's gradient");
    *new = (tie){c, i};
    c->refs++;
    return dl_on_grad(t, hook, new, untie);
}

static void forget_gradients(call *c) {
    for (int k = 0; k < c->nout; k++) dl_unref(c->g[k]), c->g[k] = NULL;
    dlsh_drop(c->gin);
    c->gin = dlsh_void();
}

/* The first gradient of a pass forgets those of the one before. */
static dl_status take_gradient(void *self, dl_tensor *g, DLSH_UNUSED dl_tensor **instead) {
    tie *t = self;
    call *c = t->of;
    const unsigned long pass = dl_hook_here().pass;
    if (!dlsh_failed(c->gin) || c->pass != pass) {
        forget_gradients(c);
        c->pass = pass;
    }
    dl_unref(c->g[t->i]);
    c->g[t->i] = dl_ref(g);
    c->at[t->i] = dl_hook_here();
    c->left = c->ndifferentiated;
    return DL_OK;
}

/* Of one argument the gradient itself, of several a list. */
static dl_status check_gradients(call *c, dlsh_value *v) {
    if (c->nargs == 1 && v->type != DLSH_LIST) {
        dlsh_value one = *v;
        *v = DLSH_LIST_OF(one);
    }
    if (dlsh_failed(*v)) return dl_failed();
    if (v->type == DLSH_LIST && v->as.list->n == c->nargs) return DL_OK;
    return dlsh_fail(DL_ERR_VALUE, "return a list with a gradient, or none, for each",
                     "the backward of a function of %d arguments gave %s of %d", c->nargs, dlsh_a(*v),
                     v->type == DLSH_LIST ? v->as.list->n : 1);
}

static dl_tensor *zeros_like(const dl_tensor *t) {
    return dl_tensor_full(dl_ndim(t), dl_shape(t), dl_dtype_of(t), dl_device_of(t), 0);
}

/* Of one value of ctx, or item of a list there: `from`, then has `to` in its place. */
static void exchange(dlsh_value *v, dl_tensor *from, dl_tensor *to) {
    for (int i = 0; v->type == DLSH_LIST && i < v->as.list->n; i++)
        if (v->as.list->items[i].type == DLSH_TENSOR) exchange(&v->as.list->items[i], from, to);
    if (v->type != DLSH_TENSOR || v->as.tensor != from) return;
    dlsh_value was = *v;
    *v = dlsh_tensor(dl_ref(to));
    dlsh_drop(was);
}

/* Results that ctx keeps, with their history where gradients of gradients may come: those of this pass; others NULL. */
static dl_status find_results(const call *c, dl_tensor **whole) {
    for (int k = 0; k < c->nout && dl_grad_mode_get(); k++)
        if (c->kept[k] && c->g[k] && !(whole[k] = dl_hook_result(c->at[k], c->kept[k]))) return dl_failed();
    return DL_OK;
}

/* They take the places of those without, and give them back: else ctx would hold what holds it. */
static void exchange_results(const call *c, dl_tensor *const *from, dl_tensor *const *to) {
    const dlsh_record *r = c->ctx.as.record;
    for (int k = 0; k < c->nout; k++)
        for (int i = 0; from[k] && to[k] && i < r->n; i++) exchange(&r->values[i], from[k], to[k]);
}

static dl_status run_backward(call *c) {
    dlsh_value in[MOST + 1] = {c->ctx};
    dl_status st = DL_OK;
    for (int k = 0; k < c->nout; k++) {
        if (!c->g[k] && !(c->g[k] = zeros_like(c->out[k]))) return dl_failed();
        in[k + 1] = (dlsh_value){DLSH_TENSOR, {.tensor = c->g[k]}};
    }
    DLSH_DROPPED dlsh_value v = dlsh_void();
    dl_tensor *whole[MOST] = {0};
    st = find_results(c, whole);
    dlsh_variables_hold(1); /* what its functions see are results of a pass */
    exchange_results(c, c->kept, whole);
    if (!st) st = dlsh_call(c->session, c->backward, &(dlsh_callargs){c->nout + 1, in, NULL}, &v);
    exchange_results(c, whole, c->kept);
    for (int k = 0; k < c->nout; k++) DLSH_UNREF(whole[k]);
    dlsh_variables_hold(0);
    if (!st) st = check_gradients(c, &v);
    return st ? st : dlsh_hand_over(&v, &c->gin);
}

static dl_status take_its_own(const tie *t, const dl_tensor *zeros, dl_tensor **instead) {
    const dlsh_value v = t->of->gin.as.list->items[t->i];
    if (v.type == DLSH_NONE) return DL_OK;
    if (v.type != DLSH_TENSOR)
        return dlsh_fail(DL_ERR_TYPE, "return a tensor, or none", "backward gave %s for argument %d", dlsh_a(v), t->i);
    *instead = dl_dtype_of(v.as.tensor) == dl_dtype_of(zeros) ? dl_ref(v.as.tensor)
                                                              : dl_to_dtype(v.as.tensor, dl_dtype_of(zeros));
    return *instead ? DL_OK : dl_failed();
}

/* After the last argument they are let go: with a history they may hold the result, which holds the call. */
static dl_status give_gradient(void *self, dl_tensor *zeros, dl_tensor **instead) {
    tie *t = self;
    if (dlsh_failed(t->of->gin)) DLSH_TRY(run_backward(t->of));
    dl_status st = take_its_own(t, zeros, instead);
    if (--t->of->left <= 0) forget_gradients(t->of);
    return st;
}

/* ---------------------------------------------------------------- the call itself */

static int needs_gradient(dlsh_value v) {
    return v.type == DLSH_TENSOR && dl_requires_grad(v.as.tensor) && dl_dtype_is_float(dl_dtype_of(v.as.tensor));
}

/* 0 of that dtype, which depends on x: through a view of it that has the hook. */
static dl_tensor *zero_of(call *c, int i, dl_tensor *x, dl_dtype dtype) {
    const long all = -1, none = 0;
    DLSH_OWNED dl_tensor *seen = dl_expand(x, dl_shape(x), dl_ndim(x));
    if (!seen || tie_to(c, i, seen, give_gradient)) return NULL;
    DLSH_OWNED dl_tensor *flat = dl_reshape(seen, &all, 1), *empty = flat ? dl_slice(flat, 0, &none, &none, 1) : NULL,
                         *sum = empty ? dl_sum(empty, NULL, 0, 0) : NULL;
    return sum ? dl_to_dtype(sum, dtype) : NULL;
}

/* y with a history: the arguments that need a gradient. */
static dl_tensor *tied(call *c, const dlsh_callargs *args, int k) {
    dl_tensor *y = c->out[k];
    const dl_dtype dtype = dl_dtype_of(y);
    DLSH_OWNED dl_tensor *zero = NULL;
    if (!dl_dtype_is_float(dtype) || c->constant[k]) return dl_ref(y);
    for (int i = 0; i < args->n; i++) {
        if (!needs_gradient(args->values[i])) continue;
        DLSH_OWNED dl_tensor *one = zero_of(c, i, args->values[i].as.tensor, dtype), *was = zero;
        zero = was && one ? dl_add(was, one) : one ? dl_ref(one) : NULL;
        if (!zero) return NULL;
    }
    DLSH_OWNED dl_tensor *yes = dl_tensor_full(0, (long[]){0}, DL_BOOL, dl_device_of(y), 1);
    dl_tensor *out = yes ? dl_where(yes, y, zero) : NULL;
    if (!out || !tie_to(c, k, out, take_gradient)) return out;
    return dl_unref(out), NULL;
}

/* Is v the tensor y, or a list with it? */
static int is_among(const dlsh_value *v, const dl_tensor *y) {
    const int list = v && v->type == DLSH_LIST;
    for (int k = 0; v && k < (list ? v->as.list->n : 1); k++) {
        const dlsh_value one = list ? v->as.list->items[k] : *v;
        if (one.type == DLSH_TENSOR && one.as.tensor == y) return 1;
    }
    return 0;
}

/* Does ctx hold the tensor y, by itself or in a list? */
static int holds(dlsh_value ctx, const dl_tensor *y) {
    for (int i = 0; i < ctx.as.record->n; i++)
        if (is_among(&ctx.as.record->values[i], y)) return 1;
    return 0;
}

/* The results of FORWARD, without their history. */
static dl_status take_results(call *c, dlsh_value v) {
    const int list = v.type == DLSH_LIST, n = list ? v.as.list->n : 1;
    int good = n >= 1 && n <= MOST;
    for (int k = 0; k < n && good; k++) good = (list ? v.as.list->items[k] : v).type == DLSH_TENSOR;
    if (!good)
        return dlsh_fail(DL_ERR_TYPE, "return a tensor",
                         "the forward of a function gives a tensor, or 1 to 8 in a "
                         "list, not %s",
                         dlsh_a(v));
    for (; c->nout < n; c->nout++) {
        dl_tensor *y = (list ? v.as.list->items[c->nout] : v).as.tensor;
        c->constant[c->nout] = is_among(dlsh_record_get(c->ctx.as.record, constants), y);
        if (!c->constant[c->nout] && !dl_requires_grad(y) && holds(c->ctx, y)) c->kept[c->nout] = dl_ref(y);
        if (!(c->out[c->nout] = dl_detach(y))) return dl_failed();
    }
    return DL_OK;
}

/* Of each argument, does it need a gradient? */
static dl_status tell_needs(const call *c, const dlsh_callargs *args) {
    DLSH_DROPPED dlsh_value needs = dlsh_new_list(args->n);
    if (dlsh_failed(needs)) return dl_failed();
    for (int i = 0; i < args->n; i++)
        DLSH_TRY(dlsh_append(needs, dlsh_bool(dl_grad_mode_get() && needs_gradient(args->values[i]))));
    return dlsh_record_set(c->ctx.as.record, needed, dlsh_ref(needs));
}

static dl_status run_forward(const function *f, call *c, const dlsh_callargs *args, int *list) {
    DLSH_TRY(tell_needs(c, args));
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_DROPPED dlsh_value v = dlsh_void();
    DLSH_FREED dlsh_value *in = malloc((size_t)(args->n + 1) * sizeof *in);
    if (!in) return dlsh_no_memory("arguments");
    in[0] = c->ctx;
    memcpy(in + 1, args->values, (size_t)args->n * sizeof *in);
    dlsh_variables_hold(1);
    dl_status st = dlsh_call(f->session, f->forward, &(dlsh_callargs){args->n + 1, in, NULL}, &v);
    dlsh_variables_hold(0);
    DLSH_TRY(st);
    *list = v.type == DLSH_LIST;
    return take_results(c, v);
}

/* The results with a history, which is one call of a composite op to those who look at the tape. */
static dl_status tie_results(call *c, const dlsh_callargs *args, dlsh_value all) {
    dl_status st = DL_OK;
    for (int i = 0; i < args->n; i++) c->ndifferentiated += needs_gradient(args->values[i]);
    const unsigned long number = dl_composite_begin(dlsh_custom_class.name);
    for (int k = 0; !st && k < c->nout; k++) st = dlsh_append(all, dlsh_tensor(tied(c, args, k)));
    dl_composite_end(number);
    if (st || !number || args->n > MOST) return st;
    for (int i = 0; i < args->n; i++)
        if (!needs_gradient(args->values[i])) c->args[i] = dlsh_ref(args->values[i]);
    c->number = number;
    enlist(c);
    return DL_OK;
}

static dl_status results_of(call *c, const dlsh_callargs *args, int list, dlsh_value *out) {
    int needed = 0;
    for (int i = 0; i < args->n && dl_grad_mode_get(); i++) needed |= needs_gradient(args->values[i]);
    DLSH_DROPPED dlsh_value all = dlsh_new_list(c->nout);
    if (needed) DLSH_TRY(tie_results(c, args, all));
    for (int k = 0; !needed && k < c->nout; k++) DLSH_TRY(dlsh_append(all, dlsh_tensor(dl_ref(c->out[k]))));
    if (list) return dlsh_hand_over(&all, out);
    *out = dlsh_ref(all.as.list->items[0]);
    return DL_OK;
}

int dlsh_custom_call_of(unsigned long number, dlsh_custom_call *out) {
    const call *c = find_call(number);
    if (!c) return 0;
    *out = (dlsh_custom_call){.nargs = c->nargs, .args = c->args};
    for (int i = 0; i < c->nargs; i++)
        if (c->args[i].type == DLSH_VOID) out->differentiated[out->n++] = i;
    return 1;
}

static dl_status call_function(DLSH_UNUSED dlsh_session *s, void *self, const dlsh_callargs *args, dlsh_value *out) {
    const function *f = self;
    int list = 0;
    for (int i = 0; args->names && i < args->n; i++)
        if (args->names[i])
            return dlsh_fail(DL_ERR_TYPE, NULL, "the arguments of an autograd_function are given by position");
    call *c = calloc(1, sizeof *c);
    if (!c) return dlsh_no_memory("a call");
    *c = (call){.refs = 1,
                .session = f->session,
                .forward = dlsh_ref(f->forward),
                .backward = dlsh_ref(f->backward),
                .ctx = dlsh_new_record(),
                .gin = dlsh_void(),
                .nargs = args->n};
    for (int i = 0; i < MOST; i++) c->args[i] = dlsh_void();
    dl_status st = dlsh_failed(c->ctx) ? dl_failed() : run_forward(f, c, args, &list);
    if (!st) st = results_of(c, args, list, out);
    call_unref(c);
    return st;
}

dl_status dlsh_custom_again(unsigned long number, const dlsh_callargs *args, dlsh_value *out) {
    const call *c = find_call(number);
    if (!c) return dlsh_fail(DL_ERR_AUTOGRAD, NULL, "the history of the call is gone");
    function f = {c->session, c->forward, c->backward};
    return call_function(c->session, &f, args, out);
}

/* ---------------------------------------------------------------- the value */

static void destroy(void *self) {
    function *f = self;
    dlsh_drop(f->forward);
    dlsh_drop(f->backward);
    free(f);
}

static void values(void *self, const dlsh_visitor *to) {
    const function *f = self;
    to->value(f->forward, to->ctx);
    to->value(f->backward, to->ctx);
}

/* f.apply(x), as a class of PyTorch is called. */
static dl_status apply_run(const dlsh_args *a, dlsh_value *result) {
    const int n = dlsh_arg_count(a, "inputs");
    DLSH_FREED dlsh_value *in = malloc((size_t)(n + 1) * sizeof *in);
    if (!in) return dlsh_no_memory("arguments");
    for (int i = 0; i < n; i++) in[i] = *dlsh_arg_at(a, "inputs", i);
    return call_function(dlsh_arg_session(a), dlsh_arg_self(a), &(dlsh_callargs){n, in, NULL}, result);
}

static const dlsh_command custom_methods[] = {
    DLSH_FN_ROW("apply", apply_run, "f.apply(X, ...)", "The same as f(X, ...), as PyTorch writes it.",
                DLSH_PARAMS({"inputs", .flags = DLSH_VARIADIC, .doc = "arguments of FORWARD behind ctx"})),
    {0}};

const dlsh_class dlsh_custom_class = {.name = "autograd_function",
                                      .doc = "A function with a gradient of its own; it is called with tensors.",
                                      .destroy = destroy,
                                      .held = dlsh_held_little,
                                      .call = call_function,
                                      .methods = custom_methods,
                                      .values = values};

static dl_status custom_run(const dlsh_args *a, dlsh_value *result) {
    static const char *const parts[] = {"forward", "backward"};
    for (int i = 0; i < 2; i++)
        if (!dlsh_callable(*dlsh_arg(a, parts[i])))
            return dlsh_arg_fail(a, parts[i], DL_ERR_TYPE, "fn (ctx, x) { ctx.x = x; return x ** 2 }",
                                 "%s is a function, not %s", parts[i], dlsh_a(*dlsh_arg(a, parts[i])));
    function *f = malloc(sizeof *f);
    if (!f) return dlsh_no_memory("a function");
    *f = (function){dlsh_arg_session(a), dlsh_ref(*dlsh_arg(a, "forward")), dlsh_ref(*dlsh_arg(a, "backward"))};
    return dlsh_give(dlsh_new_handle(&dlsh_custom_class, f), result);
}

/* What of a call is kept in a field of ctx: a list of tensors. */
static dl_status keep_run(const dlsh_args *a) {
    const int n = dlsh_arg_count(a, "tensors");
    DLSH_DROPPED dlsh_value all = dlsh_new_list(n);
    if (dlsh_failed(all)) return dl_failed();
    for (int i = 0; i < n; i++) DLSH_TRY(dlsh_append(all, dlsh_ref(*dlsh_arg_at(a, "tensors", i))));
    return dlsh_record_set(dlsh_arg(a, "ctx")->as.record, dlsh_arg_data(a), dlsh_ref(all));
}
#define CTX_ROW(name, field, doc_, what, example)                                                                      \
    DLSH_CHANGE_ROW(name, keep_run, "ctx." name "(X, ...)", doc_,                                                      \
                    DLSH_PARAMS({"ctx", .want = "record", .doc = "the first argument of FORWARD"},                     \
                                {"tensors", .want = "tensor|none", .flags = DLSH_VARIADIC, .doc = what}),              \
                    .data = (field), .examples = example)

const dlsh_command custom_commands[] = {
    DLSH_FN_ROW(
        "autograd_function", custom_run, "autograd_function(FORWARD, BACKWARD)",
        "A function with a gradient of its own, as PyTorch's autograd.Function. FORWARD(ctx, x, ...) computes the "
        "result, or a list of results, and keeps in the record ctx what BACKWARD(ctx, g, ...) needs, by ctx.x = x or "
        "ctx.save_for_backward(x, ...). BACKWARD gets the gradient of each result and returns that of the argument, or "
        "a list with one for each, none where there is none; ctx.needs_input_grad tells of each argument whether it "
        "needs one. Gradients of gradients flow through the ops of BACKWARD, and through results that ctx keeps.",
        DLSH_PARAMS({"forward", .doc = "a function of a record and the arguments"},
                    {"backward", .doc = "a function of the record and of the gradients of the results"}),
        .examples =
            "square = autograd_function(fn (ctx, x) { ctx.x = x; return x * x }, fn (ctx, g) { return 2 * ctx.x * "
            "g })\nx = param([1.0, 2.0]); backward square(x).sum(); x.grad"),
    CTX_ROW("save_for_backward", saved,
            "Keeps tensors of the FORWARD of an autograd_function for its BACKWARD, in the list ctx.saved_tensors. "
            "ctx.x = x keeps one under a name of its own.",
            "what BACKWARD needs",
            "square = autograd_function(fn (ctx, x) { ctx.save_for_backward(x); return x * x },\n"
            "                           fn (ctx, g) { x, = ctx.saved_tensors; return 2 * x * g })"),
    CTX_ROW("mark_non_differentiable", constants,
            "Says in the FORWARD of an autograd_function that results are constants: they have no history, and their "
            "gradients in BACKWARD are zeros.",
            "results of FORWARD",
            "top = autograd_function(fn (ctx, x) { v, i = max(x, dim=1); w = i.to(f32); "
            "ctx.mark_non_differentiable(w); return v, w },\n"
            "                        fn (ctx, gv, gw) { return gv[:, none].expand(2, 3) })"),
    {0}};
