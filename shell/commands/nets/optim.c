/* Optimizers: a function for each of the library's table; limits on gradients. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/undo/undo.h"
#include "commands/history/history.h"
#include "commands/nets/nets.h"
#include "dlcore/copy.h"

/* ---------------------------------------------------------------- optimizers as values */

static void destroy(void *self) { dl_optimizer_unref(self); }

static dl_status text(void *self, dlsh_buf *out) {
    dlsh_buf_printf(out, "<%s, step %ld>", dl_optimizer_text(self), dl_optimizer_steps(self));
    return DL_OK;
}

DLSH_GETTER(get_lr, dlsh_float(dl_optimizer_lr(self)))
static dl_status set_lr(void *self, dlsh_value v) {
    if (!dlsh_is_number(v)) return dlsh_fail(DL_ERR_TYPE, NULL, "lr must be a number, got %s", dlsh_type_name(v));
    return dl_optimizer_set_lr(self, dlsh_number(v));
}
DLSH_GETTER(get_groups, dlsh_param_groups(self))
DLSH_GETTER(get_steps, dlsh_int(dl_optimizer_steps(self)))
DLSH_GETTER(get_kind, dlsh_string(dl_optimizer_kind(self)))
DLSH_GETTER(get_text, dlsh_string(dl_optimizer_text(self)))

static const dlsh_field fields[] = {{"lr", "learning rate; can be set", get_lr, set_lr},
                                    {"steps", "steps done", get_steps, NULL},
                                    {"kind", "sgd, adam, ...", get_kind, NULL},
                                    {"text", "kind and options as text", get_text, NULL},
                                    {"param_groups",
                                     "its groups of parameters, whose options can be set: "
                                     "o.param_groups[0].lr = 0.1",
                                     get_groups, NULL},
                                    {NULL, NULL, NULL, NULL}};

enum { DEEPEST = 50 };

static dl_status too_deep(void) {
    return dlsh_fail(DL_ERR_VALUE, "does a list contain itself?", "parameters are nested more than %d levels deep",
                     DEEPEST);
}

static dl_status add_parameters(dl_optimizer *o, dlsh_value v, int *n, int depth);

/* {params: m.head, lr: 0.1}: parameters with options of their own. */
static dl_status add_group(dl_optimizer *o, const dlsh_record *r, int *n, int depth) {
    static const char example[] = "adam([{params: m.body, lr: 1e-4}, {params: m.head}])";
    dl_arg args[DLSH_ARG_ROOM];
    dlsh_arg_room room[DLSH_ARG_ROOM];
    int nargs = 0;
    const dlsh_value *params = dlsh_record_get(r, "params");
    if (!params) return dlsh_fail(DL_ERR_NAME, example, "a group of parameters needs a field params");
    for (int i = 0; i < r->n; i++) {
        if (!strcmp(r->keys[i], "params")) continue;
        if (nargs == DLSH_ARG_ROOM) return dlsh_fail(DL_ERR_VALUE, example, "too many options");
        DLSH_TRY(dlsh_to_arg(r->keys[i], r->values[i], &room[nargs], &args[nargs]));
        nargs++;
    }
    DLSH_TRY(dl_optimizer_begin_group(o, args, nargs, NULL));
    dl_status st = add_parameters(o, *params, n, depth);
    dl_optimizer_end_group(o);
    return st;
}

/* Adds a net, a tensor, a group or a list of them; tensors, which have no path, are named by number, *n the next. */
static dl_status add_parameters(dl_optimizer *o, dlsh_value v, int *n, int depth) {
    if (depth > DEEPEST) return too_deep();
    dl_module *m = dlsh_unwrap(v, &dlsh_net_class);
    if (m) return dl_optimizer_add_module(o, m);
    if (v.type == DLSH_TENSOR) {
        char name[128];
        snprintf(name, sizeof name, "p%d", (*n)++);
        return dl_optimizer_add(o, name, v.as.tensor);
    }
    if (v.type == DLSH_RECORD) return add_group(o, v.as.record, n, depth + 1);
    if (v.type != DLSH_LIST)
        return dlsh_fail(DL_ERR_TYPE, "give it a net, a parameter or a list of parameters",
                         "an optimizer takes on parameters, got %s", dlsh_type_name(v));
    for (int i = 0; i < v.as.list->n; i++) DLSH_TRY(add_parameters(o, v.as.list->items[i], n, depth + 1));
    return DL_OK;
}

static dl_status add_run(const dlsh_args *a, dlsh_value *result) {
    int n = 0;
    DLSH_TRY(add_parameters(dlsh_arg_self(a), *dlsh_arg(a, "what"), &n, 0));
    *result = dlsh_ref(dlsh_arg_self_value(a));
    return DL_OK;
}

typedef struct closure {
    dlsh_session *s;
    dlsh_value f;
    dlsh_value first; /* what it gave at first */
} closure;

static dl_status call_closure(void *ctx, double *loss) {
    closure *c = ctx;
    dlsh_value v = {0};
    DLSH_TRY(dlsh_call(c->s, c->f, &(dlsh_callargs){0}, &v));
    dl_status st = DL_OK;
    if (dlsh_is_number(v))
        *loss = dlsh_number(v);
    else if (v.type == DLSH_TENSOR && dl_numel(v.as.tensor) == 1)
        st = dl_item_f(v.as.tensor, loss);
    else
        st = dlsh_fail(DL_ERR_TYPE, "fn () { o.zero_grad(); l = loss(); backward l; return l }",
                       "the function of step must give the loss, one number, not %s", dlsh_type_name(v));
    if (c->first.type == DLSH_NONE && st == DL_OK)
        c->first = v;
    else
        dlsh_drop(v);
    return st;
}

/* A step that found no gradient says so, the first time; and where gradients have gone, if a backward pass came since
 * they were zeroed. */
static void warn_without_gradients(dlsh_session *s, const dl_optimizer *o) {
    dl_tensor *p;
    dl_journal_row r;
    long empty = 0;
    int elsewhere = 0;
    for (long i = 0; (p = dl_optimizer_param(o, i, NULL)); i++)
        if (dl_grad(p)) return;
    for (long i = 0; i < dl_journal_count(); i++) {
        if (dl_journal_at(i, &r)) continue;
        if (r.kind == DL_DID_STEP && r.what == o) empty += r.empty;
        if (r.kind == DL_DID_BACKWARD) elsewhere = 1;
        if (r.kind == DL_DID_ZERO) elsewhere = 0;
    }
    if (empty > 1 || !dl_optimizer_param(o, 0, NULL)) return;
    dlsh_warn(
        s,
        elsewhere
            ? "backward reached other tensors: is this the optimizer of the net that gives the loss? doctor tells more"
            : "backward before step; doctor tells more",
        "no parameter of the optimizer has a gradient: nothing changes");
}

static dl_status step_run(const dlsh_args *a, dlsh_value *result) {
    closure c = {.s = dlsh_arg_session(a)};
    dlsh_undo_optimizer(c.s, dlsh_arg_self(a));
    if (!dlsh_given(a, "closure")) {
        dl_look *look = dlsh_update_before(dlsh_arg_self(a));
        dl_status st = dl_optimizer_step(dlsh_arg_self(a));
        dlsh_update_after(look, dlsh_arg_self(a), st);
        if (!st) warn_without_gradients(c.s, dlsh_arg_self(a));
        return st;
    }
    c.f = *dlsh_arg(a, "closure");
    if (!dlsh_callable(c.f))
        return dlsh_arg_fail(a, "closure", DL_ERR_TYPE,
                             "o.step(fn () { o.zero_grad(); l = loss(); backward l; return l })",
                             "step takes a function, got %s", dlsh_type_name(c.f));
    dl_look *look = dlsh_update_before(dlsh_arg_self(a));
    dl_status st = dl_optimizer_minimize(dlsh_arg_self(a), call_closure, &c, NULL);
    dlsh_update_after(look, dlsh_arg_self(a), st);
    if (st == DL_OK)
        *result = c.first;
    else
        dlsh_drop(c.first);
    return st;
}

const dlsh_param dlsh_none_params[] = {
    {"set_to_none", .want = "bool", .flags = DLSH_OPTIONAL, .doc = "as PyTorch has it: true, gradients are then none"},
    {0}};

dl_status dlsh_check_none(const dlsh_args *a) {
    if (!dlsh_given(a, "set_to_none") || dlsh_arg_bool(a, "set_to_none")) return DL_OK;
    return dlsh_arg_fail(a, "set_to_none", DL_ERR_VALUE, "for p in m.parameters() { p.grad.zero_() }",
                         "gradients are forgotten, not filled with zeros");
}

static dl_status zero_run(const dlsh_args *a) {
    DLSH_TRY(dlsh_check_none(a));
    dl_optimizer_zero_grad(dlsh_arg_self(a));
    return DL_OK;
}

static dl_status parameters_run(const dlsh_args *a, dlsh_value *result) {
    const dl_optimizer *o = dlsh_arg_self(a);
    const int named = dlsh_arg_data(a) != NULL;
    DLSH_DROPPED dlsh_value v = named ? dlsh_new_record() : dlsh_new_list(0);
    const char *name;
    dl_tensor *p;
    for (long i = 0; (p = dl_optimizer_param(o, i, &name)); i++) {
        char number[24];
        dlsh_value t = dlsh_tensor(dl_ref(p));
        snprintf(number, sizeof number, "%ld", i);
        DLSH_TRY(named ? dlsh_record_add(v, name ? name : number, t) : dlsh_append(v, t));
    }
    return dlsh_hand_over(&v, result);
}

dl_status dlsh_extra_args(const dlsh_args *a, dl_arg *args, dlsh_arg_room *room, int *n) {
    const dlsh_value *v;
    const char *name;
    for (int i = 0; (name = dlsh_arg_extra(a, i, &v)); i++) {
        if (*n == DLSH_ARG_ROOM) return dlsh_fail(DL_ERR_VALUE, NULL, "too many options");
        DLSH_TRY(dlsh_to_arg(name, *v, &room[*n], &args[*n]));
        (*n)++;
    }
    return DL_OK;
}

static dl_status group_run(const dlsh_args *a, dlsh_value *result) {
    dl_arg args[DLSH_ARG_ROOM];
    dlsh_arg_room room[DLSH_ARG_ROOM];
    int n = 0;
    DLSH_TRY(dlsh_extra_args(a, args, room, &n));
    DLSH_TRY(dl_optimizer_group(dlsh_arg_self(a), dlsh_arg_str(a, "pattern"), args, n, NULL));
    *result = dlsh_ref(dlsh_arg_self_value(a));
    return DL_OK;
}

static dl_status put_state(void *ctx, const char *name, dl_tensor *t) {
    return dlsh_record_set(((const dlsh_value *)ctx)->as.record, name, dlsh_tensor(dl_clone(t)));
}

static dl_status state_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_DROPPED dlsh_value r = dlsh_new_record();
    DLSH_TRY(dlsh_failed(r) ? dl_failed() : dl_optimizer_state(dlsh_arg_self(a), put_state, &r));
    return dlsh_hand_over(&r, result);
}

static dl_status load_state_run(const dlsh_args *a) {
    DLSH_ENDED(dl_tensor_file_free) dl_tensor_file *f = dlsh_file_of_record(a, dlsh_arg(a, "state")->as.record);
    return f ? dl_optimizer_load_state(dlsh_arg_self(a), f, "") : dl_failed();
}

static const dlsh_command methods[] = {
    DLSH_FN_ROW("state", state_run, "o.state()",
                "A record with copies of the optimizer's state: rate, steps, and tensors of each parameter."),
    DLSH_FN_ROW("state_dict", state_run, "o.state_dict()", "The same as o.state()."),
    DLSH_ACT_ROW("load_state_dict", load_state_run, "o.load_state_dict(RECORD)", "The same as o.load_state(RECORD).",
                 DLSH_PARAMS({"state", .want = "record", .doc = "what o.state() gave"})),
    DLSH_ACT_ROW("load_state", load_state_run, "o.load_state(RECORD)",
                 "Restores a state that o.state() returned or a file holds.",
                 DLSH_PARAMS({"state", .want = "record", .doc = "what o.state() gave"}),
                 .examples = "c = load(\"loop.safetensors\")\no.load_state(c.o)"),
    DLSH_ACT_ROW(
        "step", step_run, "o.step([FUNCTION])",
        "One update of all parameters that have a gradient. A function is called first, to compute the loss and the "
        "gradients; its loss is the result.",
        DLSH_PARAMS({"closure", .flags = DLSH_OPTIONAL,
                     .doc =
                         "zeroes the gradients, computes the loss, runs backward and returns the loss; lbfgs calls it "
                         "several times"}),
        .examples = "w = param(tensor([3.0, 4.0]))\no = lbfgs([w], line_search_fn=\"strong_wolfe\")\n"
                    "o.step(fn () { o.zero_grad(); l = ((w - 1) ** 2).sum(); backward l; return l })"),
    DLSH_ACT_ROW("zero_grad", zero_run, "o.zero_grad()", "Forgets all gradients.", .params = dlsh_none_params),
    DLSH_PURE_ROW("parameters", parameters_run, "o.parameters()",
                  "A list of the parameters that it updates, in their order."),
    DLSH_PURE_ROW("named_parameters", parameters_run, "o.named_parameters()", "A record of these by name.",
                  .data = "named", .examples = "for name, p in o.named_parameters() { print(name, p.shape) }"),
    DLSH_ACT_ROW("add", add_run, "o.add(WHAT)", "Adds parameters to be updated.",
                 DLSH_PARAMS({"what", .want = "net|tensor|list|record",
                              .doc = "a net, a parameter, a group {params: m.head, lr: 0.1}, or a list of these"}),
                 .examples = "o.add(m)"),
    DLSH_ACT_ROW("add_param_group", add_run, "o.add_param_group(GROUP)", "The same as o.add(GROUP).",
                 DLSH_PARAMS({"what", .want = "record", .doc = "{params: m.head, lr: 0.1}"})),
    DLSH_ROW("group", DLSH_ONLY_FUNCTION | DLSH_OPEN_OPTIONS, group_run, "o.group(PATTERN, OPTION=VALUE...)",
             "Sets other options for parameters whose path matches; to be called before parameters are added.",
             DLSH_PARAMS({"pattern", DLSH_ARG_WORD, .doc = "paths of parameters, \"*.bias\""}),
             .examples = "o = adamw(lr=1e-3).group(\"*.bias\", weight_decay=0)"),
    {0}};

size_t dlsh_optimizer_held(void *optimizer) {
    size_t n = 0;
    const dl_tensor *p;
    for (long i = 0; (p = dl_optimizer_param(optimizer, i, NULL)); i++) n += (size_t)dl_numel(p);
    return 4 * sizeof(float) * n;
}

const dlsh_class dlsh_optimizer_class = {.name = "optimizer",
                                         .doc = "How parameters are changed: kind, options and state.",
                                         .destroy = destroy,
                                         .held = dlsh_optimizer_held,
                                         .text = text,
                                         .fields = fields,
                                         .methods = methods};

/* ---------------------------------------------------------------- sgd(...), adam(...), ... */

/* m.named_parameters(), of which none is a group. */
static int is_named(dlsh_value v) { return v.type == DLSH_RECORD && !dlsh_record_get(v.as.record, "params"); }

static dl_status add_named(dl_optimizer *o, const dlsh_record *r) {
    for (int i = 0; i < r->n; i++) {
        if (r->values[i].type != DLSH_TENSOR)
            return dlsh_fail(DL_ERR_TYPE, "give it m.named_parameters()",
                             "an optimizer takes on parameters by name, and '%s' is %s", r->keys[i],
                             dlsh_a(r->values[i]));
        DLSH_TRY(dl_optimizer_add(o, r->keys[i], r->values[i].as.tensor));
    }
    return DL_OK;
}

enum { MAX_OPTIONS = 16 };
/* The options are those of the library's row; a first argument may be the rate or parameters. */
static dl_status optimizer_run(const dlsh_args *a, dlsh_value *result) {
    const dl_kind_row *k = dlsh_arg_data(a);
    dl_arg args[DLSH_ARG_ROOM];
    dlsh_arg_room room[DLSH_ARG_ROOM];
    int n = 0, bad = -1;
    const dlsh_value *what = dlsh_arg(a, "parameters"), *rate = dlsh_arg(a, "rate");
    if (what && dlsh_is_number(*what)) rate = what, what = NULL;
    if (rate) {
        DLSH_TRY(dlsh_to_arg("lr", *rate, &room[n], &args[n]));
        n++;
    }
    for (int i = 0; k->options[i].name; i++) {
        const char *name = k->options[i].name;
        if (!dlsh_given(a, name)) continue;
        DLSH_TRY(dlsh_to_arg(name, *dlsh_arg(a, name), &room[n], &args[n]));
        n++;
    }
    dl_optimizer *o = dl_optimizer_new(k->name, args, n, &bad);
    if (!o) {
        dl_error e = dlsh_taken_error();
        const char *at = bad >= 0 && dlsh_given(a, args[bad].name) ? args[bad].name : NULL;
        return dlsh_arg_fail(a, at, e.code, e.hint, "%s", e.message);
    }
    int number = 0;
    dl_status st = !what             ? DL_OK
                   : is_named(*what) ? add_named(o, what->as.record)
                                     : add_parameters(o, *what, &number, 0);
    if (st == DL_OK) return dlsh_give(dlsh_new_handle(&dlsh_optimizer_class, o), result);
    dl_optimizer_unref(o);
    return st;
}

static const dlsh_param optimizer_params[] = {
    {"parameters", .want = "net|tensor|list|record|float", .flags = DLSH_OPTIONAL,
     .doc = "what to update: a net, a parameter, a list of these and of groups {params: m.head, lr: 0.1}, a record of "
            "parameters by name; a trainer adds its net's parameters itself. Or the rate"},
    {"rate", .want = "float", .flags = DLSH_OPTIONAL, .doc = "the learning rate behind the parameters"},
    {0}};

/* ---------------------------------------------------------------- clip_grad_norm(...), clip_grad_value(...) */

typedef struct tensors {
    dl_tensor **t; /* borrowed from the values they were found in */
    int n, cap;
} tensors;

static dl_status add_tensor(tensors *l, dl_tensor *t) {
    dl_tensor **grown = dlsh_grow(l->t, l->n, &l->cap, sizeof *grown);
    if (!grown) return dl_failed();
    l->t = grown;
    l->t[l->n++] = t;
    return DL_OK;
}

static dl_status find_tensors(const dlsh_args *a, dlsh_value v, tensors *l, int depth) {
    if (depth > DEEPEST) return too_deep();
    dl_module *m = dlsh_unwrap(v, &dlsh_net_class);
    dl_status st = DL_OK;
    if (m) {
        DLSH_TRY(dl_module_check_built(m));
        dl_module_list *all = dl_module_tensors(m, 1);
        st = all ? DL_OK : dl_failed();
        for (long i = 0; st == DL_OK && i < all->n; i++) st = add_tensor(l, all->entries[i].tensor);
        dl_module_list_free(all);
    } else if (v.type == DLSH_TENSOR)
        st = add_tensor(l, v.as.tensor);
    else if (v.type == DLSH_LIST)
        for (int i = 0; st == DL_OK && i < v.as.list->n; i++) st = find_tensors(a, v.as.list->items[i], l, depth + 1);
    else
        st = dlsh_arg_fail(a, "parameters", DL_ERR_TYPE, "give a net, a parameter or a list of parameters",
                           "gradients belong to parameters, got %s", dlsh_type_name(v));
    return st;
}

/* Returns the norm before clipping, as PyTorch does. */
static dl_status clip_run(const dlsh_args *a, dlsh_value *result) {
    int by_value = !strncmp(dlsh_arg_command(a)->name, "clip_grad_value", 15);
    double max = dlsh_arg_float(a, "max"), norm = 0, p = by_value ? 2 : dlsh_arg_float(a, "norm_type");
    if (isnan(p)) return dlsh_arg_fail(a, "norm_type", DL_ERR_VALUE, NULL, "norm_type must be a number or inf");
    if (!(max > 0)) return dlsh_arg_fail(a, "max", DL_ERR_VALUE, NULL, "the limit must be positive, got %g", max);
    tensors l = {0};
    dl_status st = find_tensors(a, *dlsh_arg(a, "parameters"), &l, 0);
    if (st == DL_OK)
        st = by_value ? dl_clip_grad_value(l.t, l.n, max)
                      : dl_clip_grad_norm_by(l.t, l.n, max, p, dlsh_arg_bool(a, "error_if_nonfinite"), &norm);
    free(l.t);
    if (st == DL_OK && !by_value) *result = dlsh_float(norm);
    return st;
}

static dl_status clip_with_norm_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *given = dlsh_arg(a, "total_norm");
    double max = dlsh_arg_float(a, "max"), norm = 0;
    *result = dlsh_none();
    if (!(max > 0)) return dlsh_arg_fail(a, "max", DL_ERR_VALUE, NULL, "the limit must be positive, got %g", max);
    if (given->type == DLSH_TENSOR)
        DLSH_TRY(dl_item_f(given->as.tensor, &norm));
    else
        norm = dlsh_number(*given);
    tensors l = {0};
    dl_status st = find_tensors(a, *dlsh_arg(a, "parameters"), &l, 0);
    if (st == DL_OK) st = dl_clip_grads_with_norm(l.t, l.n, max, norm);
    free(l.t);
    return st;
}

static const dlsh_param clip_params[] = {
    {"parameters", .want = "net|tensor|list", .doc = "whose gradients: a net, a parameter, a list of them"},
    {"max", .want = "float", .doc = "the limit; also called max_norm, clip_value"},
    {0}};

#define NORM_OPTIONS                                                                                                   \
    DLSH_OPTIONS({"norm_type", DLSH_OPT_FLOAT, "2", .doc = "which norm; inf: the largest magnitude"},                  \
                 {"error_if_nonfinite", DLSH_OPT_BOOL, "false", .doc = "a norm that is NaN or infinite is an error"})

/* ---------------------------------------------------------------- the rows */

static const dlsh_command others[] = {
    DLSH_ACT_ROW(
        "clip_grad_norm", clip_run, "clip_grad_norm(PARAMETERS, MAX, norm_type=2, error_if_nonfinite=false)",
        "Scales all gradients so that their common norm is at most MAX; returns the norm before. A trainer has "
        "clip_norm= for it.",
        .params = clip_params, NORM_OPTIONS, .examples = "backward l\nclip_grad_norm(m, 1.0);\no.step()"),
    DLSH_ACT_ROW("clip_grad_norm_", clip_run, "clip_grad_norm_(PARAMETERS, MAX)", "The same as clip_grad_norm.",
                 .params = clip_params, NORM_OPTIONS),
    DLSH_ACT_ROW("clip_grads_with_norm_", clip_with_norm_run, "clip_grads_with_norm_(PARAMETERS, MAX, TOTAL_NORM)",
                 "Scales all gradients down so that a norm of TOTAL_NORM, as get_total_norm gives it, becomes MAX.",
                 DLSH_PARAMS({"parameters", .want = "net|tensor|list", .doc = "whose gradients"},
                             {"max", .want = "float", .doc = "the limit; also called max_norm"},
                             {"total_norm", .want = "number|tensor", .doc = "their norm now"}),
                 .examples = "w = param(ones(4)); backward sum(w * 3)\n"
                             "clip_grads_with_norm_(w, 1.0, get_total_norm([w.grad])); w.grad"),
    DLSH_ACT_ROW("clip_grad_value", clip_run, "clip_grad_value(PARAMETERS, MAX)",
                 "Limits every element of the gradients to [-MAX, MAX]. A trainer has clip_value= for it.",
                 .params = clip_params),
    DLSH_ACT_ROW("clip_grad_value_", clip_run, "clip_grad_value_(PARAMETERS, MAX)", "The same as clip_grad_value.",
                 .params = clip_params)};

/* The optimizers' rows come from the library's table, before main. */
enum { MAX_OPTIMIZERS = 32, OTHERS = DLSH_COUNT(others) };
static dlsh_option options[MAX_OPTIMIZERS][MAX_OPTIONS + 1];
static char usages[MAX_OPTIMIZERS][160], examples[MAX_OPTIMIZERS][160];
dlsh_command optim_commands[MAX_OPTIMIZERS + OTHERS + 1];

static void fill_options(const dl_kind_row *k, dlsh_option *out) {
    static const dlsh_optkind kinds[] = {DLSH_OPT_INT,   DLSH_OPT_FLOAT, DLSH_OPT_BOOL, DLSH_OPT_WORD,
                                         DLSH_OPT_VALUE, DLSH_OPT_VALUE, DLSH_OPT_VALUE};
    for (int i = 0; k->options[i].name && i < MAX_OPTIONS; i++) {
        const dl_option_row *o = &k->options[i];
        int list = o->kind == DL_ARG_INTS || o->kind == DL_ARG_PADS || o->kind == DL_ARG_FLOATS;
        out[i] = (dlsh_option){o->name, kinds[o->kind], list ? NULL : o->dflt, o->doc, list ? "list" : NULL, NULL};
    }
}

__attribute__((constructor)) static void fill_rows(void) {
    const dl_kind_row *k;
    int i = 0;
    for (; (k = dl_optimizer_kind_at(i)) && i < MAX_OPTIMIZERS; i++) {
        const dl_option_row *o = k->options;
        snprintf(usages[i], sizeof usages[i], "%s(%s=%s, %s=%s, ...)", k->name, o[0].name, o[0].dflt, o[1].name,
                 o[1].dflt);
        snprintf(examples[i], sizeof examples[i], "opt = %s", k->example);
        fill_options(k, options[i]);
        optim_commands[i] = (dlsh_command){.name = k->name,
                                           .flags = DLSH_ONLY_FUNCTION,
                                           .usage = usages[i],
                                           .doc = k->doc,
                                           .params = optimizer_params,
                                           .options = options[i],
                                           .run = optimizer_run,
                                           .data = k,
                                           .examples = examples[i]};
    }
    memcpy(&optim_commands[i], others, sizeof others);
}
