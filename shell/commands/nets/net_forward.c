/* Nets with a forward of their own: the function behind it, and values of the language as packs of tensors. */
#include <stdlib.h>
#include <string.h>

#include "commands/chance/distribution.h"
#include "commands/nets/nets.h"
#include "lang/parse/fn.h"

/* ---------------------------------------------------------------- values and packs */

/* The arguments of a call, or the value of a result (n 1, no names). */
typedef struct form {
    int n;
    dlsh_value *values;
    char **names; /* NULL for a positional one */
} form;

static void free_form(void *self) {
    form *f = self;
    for (int i = 0; i < f->n; i++) {
        dlsh_drop(f->values[i]);
        free(f->names[i]);
    }
    free(f->values);
    free(f->names);
    free(f);
}

static form *new_form(const dlsh_callargs *args) {
    form *f = calloc(1, sizeof *f);
    if (f)
        f->values = calloc((size_t)args->n + 1, sizeof *f->values),
        f->names = calloc((size_t)args->n + 1, sizeof *f->names);
    int good = f && f->values && f->names;
    for (int i = 0; good && i < args->n; i++) {
        f->values[f->n++] = dlsh_ref(args->values[i]);
        if (args->names && args->names[i]) good = (f->names[i] = strdup(args->names[i])) != NULL;
    }
    if (good) return f;
    if (f && f->values && f->names)
        free_form(f);
    else if (f)
        free(f->values), free(f->names), free(f);
    dlsh_no_memory("the inputs of a net");
    return NULL;
}

typedef struct leaves {
    dl_tensor **t;
    const char **names; /* the field of the outermost record; NULL: none */
    int n, cap;
} leaves;

enum { DEEPEST = 50 };

static dl_status add_leaf(leaves *l, dl_tensor *t, const char *name) {
    int cap = l->cap;
    dl_tensor **more = dlsh_grow(l->t, l->n, &cap, sizeof *more);
    if (!more) return DL_ERR_MEMORY;
    l->t = more;
    const char **names = dlsh_grow(l->names, l->n, &l->cap, sizeof *names);
    if (!names) return DL_ERR_MEMORY;
    l->names = names;
    l->names[l->n] = name, l->t[l->n++] = t;
    return DL_OK;
}

/* The tensors in a value: itself, those in lists and records, the parameters of a distribution. */
static dl_status collect(dlsh_value v, leaves *l, const char *name, int depth) {
    if (depth > DEEPEST)
        return dlsh_fail(DL_ERR_VALUE, "does a list contain itself?",
                         "what a net takes or gives is nested more than %d levels deep", DEEPEST);
    if (v.type == DLSH_LIST || v.type == DLSH_RECORD) DLSH_TRY(dlsh_check_interrupt());
    if (v.type == DLSH_TENSOR) DLSH_TRY(add_leaf(l, v.as.tensor, name));
    const void *distribution = dlsh_unwrap(v, &dlsh_distribution_class);
    dl_tensor *t;
    for (int i = 0; distribution && (t = dlsh_distribution_param(distribution, i)); i++) DLSH_TRY(add_leaf(l, t, name));
    for (int i = 0; v.type == DLSH_LIST && i < v.as.list->n; i++)
        DLSH_TRY(collect(v.as.list->items[i], l, name, depth + 1));
    for (int i = 0; v.type == DLSH_RECORD && i < v.as.record->n; i++)
        DLSH_TRY(collect(v.as.record->values[i], l, name ? name : v.as.record->keys[i], depth + 1));
    return DL_OK;
}

/* Tensors by position go as they are; a result is one tensor, or has a form. */
static dl_pack *pack(const dlsh_callargs *args) {
    leaves l = {0};
    dl_pack *p = NULL;
    dl_status st = DL_OK;
    for (int i = 0; st == DL_OK && i < args->n; i++) st = collect(args->values[i], &l, NULL, 0);
    int plain = 1;
    for (int i = 0; i < args->n; i++) plain &= args->values[i].type == DLSH_TENSOR && !(args->names && args->names[i]);
    form *f = st == DL_OK && !plain ? new_form(args) : NULL;
    if (st == DL_OK && (plain || f)) p = dl_pack_new(l.t, l.n, f, f ? free_form : NULL);
    if (p && dl_pack_set_names(p, l.names) != DL_OK) dl_pack_unref(p), p = NULL;
    free(l.t);
    free(l.names);
    return p;
}

dlsh_value dlsh_pack_value(const dl_pack *p) {
    const form *f = dl_pack_form(p);
    if (f) return dlsh_ref(f->values[0]);
    dl_tensor *t[DL_NET_INPUTS];
    const char *names[DL_NET_INPUTS];
    int n = dl_pack_count(p) < DL_NET_INPUTS ? dl_pack_count(p) : DL_NET_INPUTS;
    for (int i = 0; i < n; i++) t[i] = dl_pack_tensor(p, i), names[i] = dl_pack_name(p, i);
    return dlsh_tensors_value(t, n, names);
}

dlsh_value dlsh_tensors_value(dl_tensor *const *t, int n, const char *const *names) {
    if (n == 1) return dlsh_tensor(dl_ref(t[0]));
    dlsh_value values[DL_NET_INPUTS];
    dlsh_entry entries[DL_NET_INPUTS];
    int named = names && names[0] && *names[0];
    for (int i = 0; i < n; i++) {
        values[i] = t[i] ? dlsh_tensor(dl_ref(t[i])) : dlsh_none();
        entries[i] = (dlsh_entry){named ? names[i] : "", values[i]};
    }
    return named ? dlsh_record_of(entries, n) : dlsh_list_of(values, n);
}

/* ---------------------------------------------------------------- forward */

dlsh_value *dlsh_net_parts(dlsh_callback *cb, dl_module *net, int missing, int *n) {
    const char *const *names;
    *n = dlsh_forward_parts(cb->fn, &names);
    dlsh_value *parts = calloc((size_t)*n + 1, sizeof *parts);
    DLSH_DROPPED dlsh_value self = dlsh_net_value(net);
    dl_status st = parts && !dlsh_failed(self) ? DL_OK : dlsh_no_memory("the parts of a net");
    for (int i = 0; i < *n && st == DL_OK; i++) {
        if (!strcmp(names[i], "self"))
            parts[i] = dlsh_ref(self);
        else
            st = dlsh_get_field(cb->session, self, names[i], &parts[i]);
        /* a method needs those alone that it names */
        if (st == DL_ERR_STATE && missing && !dlsh_mentions(cb->fn.as.fn->body, names[i])) dl_error_clear(), st = DL_OK;
    }
    if (st == DL_OK) return parts;
    for (int i = 0; parts && i < *n; i++) dlsh_drop(parts[i]);
    free(parts);
    return NULL;
}

/* The tensors of a pack as arguments: by position, and by name after one that is left out. Returns how many. */
static int arguments(const dlsh_callback *cb, const dl_pack *in, dlsh_value *values, const char **names) {
    int n = 0;
    for (int i = 0; i < dl_pack_count(in); i++) {
        dl_tensor *t = dl_pack_tensor(in, i);
        if (!t) continue;
        names[n] = n < i ? cb->fn.as.fn->info->names[i] : NULL;
        values[n++] = dlsh_tensor(dl_ref(t));
    }
    return n;
}

static dl_status run(dlsh_callback *cb, dl_module *net, dl_pack *in, dlsh_value *out) {
    const form *f = dl_pack_form(in);
    dlsh_value tensors[DL_NET_INPUTS];
    const char *names[DL_NET_INPUTS];
    int nparts, n = dl_pack_count(in);
    if (!f && n > DL_NET_INPUTS)
        return dlsh_fail(DL_ERR_VALUE, "pass them in a list", "a net takes at most %d tensors", DL_NET_INPUTS);
    DLSH_FREED dlsh_value *parts = dlsh_net_parts(cb, net, 0, &nparts);
    if (!parts) return dl_failed();
    int given = f ? 0 : arguments(cb, in, tensors, names);
    dlsh_callargs args = {given, tensors, names};
    if (f) args = (dlsh_callargs){f->n, f->values, (const char *const *)f->names};
    dl_status st = dlsh_call_forward(cb->session, cb->fn, parts, &args, out);
    for (int i = 0; i < given; i++) dlsh_drop(tensors[i]);
    for (int i = 0; i < nparts; i++) dlsh_drop(parts[i]);
    return st;
}

static dl_pack *forward(void *ctx, dl_module *net, dl_pack *in) {
    dlsh_value out = dlsh_void();
    if (run(ctx, net, in, &out) != DL_OK) return NULL;
    dl_pack *p = NULL;
    if (out.type == DLSH_TENSOR || out.type == DLSH_LIST || out.type == DLSH_RECORD ||
        dlsh_unwrap(out, &dlsh_distribution_class))
        p = pack(&(dlsh_callargs){1, &out, NULL});
    else
        dlsh_fail(DL_ERR_TYPE, "return head(x)",
                  "the forward of net %s must return a tensor, a list, a record or a distribution, got %s",
                  dl_module_name(net), dlsh_type_name(out));
    dlsh_drop(out);
    return p;
}

/* Functions of a net behind cb, with their texts. */
static dl_status add_functions(dlsh_session *s, dlsh_callback *cb, dlsh_value fn, const dlsh_list *more,
                               dlsh_buf *text) {
    size_t n;
    for (int i = 0; cb; i++, cb = cb->next) {
        const char *source = dlsh_fn_source(fn.as.fn, &n);
        if (i) dlsh_buf_puts(text, "\n");
        dlsh_buf_add(text, source, n);
        if (!more || i == more->n) return text->failed ? dlsh_no_memory("the functions of a net") : DL_OK;
        fn = more->items[i];
        cb->next = dlsh_callback_new(s, fn);
    }
    return dl_failed();
}

dl_code *dlsh_forward_code(dlsh_session *s, dlsh_value fn, dlsh_value methods) {
    dlsh_callback *cb = dlsh_callback_new(s, fn);
    DLSH_SCOPED_BUF text = {0};
    if (add_functions(s, cb, fn, methods.type == DLSH_LIST ? methods.as.list : NULL, &text) != DL_OK)
        return dlsh_callback_free(cb), NULL;
    dl_code_spec spec = {.forward = forward,
                         .key = dlsh_callback_key,
                         .ctx = cb,
                         .release = dlsh_callback_free,
                         .text = dlsh_buf_text(&text)};
    const dlsh_fninfo *info = fn.as.fn->info;
    if (info->nfixed == info->nparams) { /* no *rest, which takes any number */
        spec.inputs = info->names, spec.ninputs = info->nparams;
        for (int i = 0; i < info->nparams; i++)
            if (fn.as.fn->defaults[i].type == DLSH_VOID) spec.required = i + 1;
    }
    return dl_code_new(spec);
}

dl_status dlsh_call_net(dl_module *m, const dlsh_callargs *args, const dlsh_stand_ins *with, dlsh_value *out) {
    DLSH_ENDED(dl_pack_unref) dl_pack *in = pack(args), *result = NULL;
    if (in) result = with ? dl_module_call_with(m, with->paths, with->tensors, with->n, in) : dl_module_call(m, in);
    if (!result) return dl_failed();
    *out = dlsh_pack_value(result);
    return dlsh_failed(*out) ? dl_failed() : DL_OK;
}

/* ---------------------------------------------------------------- references, for the collector of cycles */

void dlsh_code_values(void *code, const dlsh_visitor *to) {
    for (const dlsh_callback *cb = dl_code_context(code, dlsh_callback_free); cb; cb = cb->next) {
        to->value(cb->fn, to->ctx);
        dlsh_purity_values(cb->purity, to);
    }
}

static void module_values(void *module, const dlsh_visitor *to);

static void see_part(void *ctx, dl_module *part) {
    const dlsh_visitor *to = ctx;
    to->shared((dlsh_shared){(int *)part, module_values}, to->ctx);
}

static void see_code(void *ctx, dl_code *code) {
    const dlsh_visitor *to = ctx;
    to->shared((dlsh_shared){(int *)code, dlsh_code_values}, to->ctx);
}

static void module_values(void *module, const dlsh_visitor *to) {
    dl_module_references(module, see_part, see_code, (void *)to);
}

void dlsh_net_values(void *net, const dlsh_visitor *to) { see_part((void *)to, net); }

/* ---------------------------------------------------------------- shapes of parameters */

static void bad_shape(dlsh_value v) {
    DLSH_SCOPED_BUF b = {0};
    if (dlsh_repr(&b, v) == DL_OK)
        dlsh_fail(DL_ERR_VALUE, "param w [in, 8]", "a shape is a list of at most 8 sizes from 0 on, got %.80s", b.s);
}

static int shape(void *ctx, long in, long *to) {
    dlsh_callback *cb = ctx;
    dlsh_value arg = dlsh_int(in), out = dlsh_void();
    if (dlsh_call(cb->session, cb->fn, &(dlsh_callargs){1, &arg, NULL}, &out) != DL_OK) return -1;
    const dlsh_value *size = out.type == DLSH_LIST ? out.as.list->items : &out;
    int n = out.type == DLSH_LIST ? out.as.list->n : 1, good = n <= 8;
    for (int i = 0; good && i < n; i++) {
        good = size[i].type == DLSH_INT && size[i].as.i >= 0;
        to[i] = good ? size[i].as.i : 0;
    }
    if (!good) bad_shape(out);
    dlsh_drop(out);
    return good ? n : -1;
}

dl_code *dlsh_shape_code(dlsh_session *s, dlsh_value fn) {
    dlsh_callback *cb = dlsh_callback_new(s, fn);
    return cb ? dl_code_new((dl_code_spec){.shape = shape, .ctx = cb, .release = dlsh_callback_free}) : NULL;
}
