/* net statements: the evaluated tree of layers becomes a description of the library's, and that a net. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"

/* ---------------------------------------------------------------- values for the library */

static dl_status list_arg(const char *name, const dlsh_list *l, dlsh_arg_room *room, dl_arg *out) {
    int whole = 1;
    if (l->n > DLSH_ARG_ROOM) return dlsh_fail(DL_ERR_VALUE, NULL, "a list of at most %d numbers", DLSH_ARG_ROOM);
    for (int i = 0; i < l->n; i++) {
        dlsh_value v = l->items[i];
        if (!dlsh_is_number(v))
            return dlsh_fail(DL_ERR_TYPE, NULL, "%s must hold numbers, got %s", name ? name : "the list",
                             dlsh_type_name(v));
        whole &= v.type == DLSH_INT;
        room->v[i] = v.type == DLSH_INT ? v.as.i : 0;
        room->fv[i] = dlsh_number(v);
    }
    *out = (dl_arg){.name = name, .kind = whole ? DL_ARG_INTS : DL_ARG_FLOATS, .n = l->n, .v = room->v, .fv = room->fv};
    return DL_OK;
}

dl_status dlsh_to_arg(const char *name, dlsh_value v, dlsh_arg_room *room, dl_arg *out) {
    switch (v.type) {
    case DLSH_BOOL: *out = (dl_arg){.name = name, .kind = DL_ARG_BOOL, .i = v.as.i != 0}; return DL_OK;
    case DLSH_INT: *out = (dl_arg){.name = name, .kind = DL_ARG_INT, .i = v.as.i}; return DL_OK;
    case DLSH_FLOAT: *out = (dl_arg){.name = name, .kind = DL_ARG_FLOAT, .f = v.as.f}; return DL_OK;
    case DLSH_STR:
        *out = (dl_arg){.name = name, .kind = DL_ARG_STR, .s = v.as.str->s};
        return dlsh_whole_text(name ? name : "an argument", v.as.str->s, v.as.str->len);
    case DLSH_LIST: return list_arg(name, v.as.list, room, out);
    default: {
        const char *word = name && dlsh_callable(v) ? dlsh_function_name(v) : NULL;
        dl_status st =
            dlsh_fail(DL_ERR_TYPE, dlsh_callable(v) && !word ? "layers are joined by ->: linear 10 -> relu" : NULL,
                      "%s must be a number, a word or a list, got %s", name ? name : "an argument", dlsh_type_name(v));
        if (word) dlsh_add_hint("text stands in quotes: %s=\"%s\"", name, word);
        return st;
    }
    }
}

/* ---------------------------------------------------------------- functions of the language */

dlsh_callback *dlsh_callback_new(dlsh_session *s, dlsh_value fn) {
    dlsh_callback *cb = malloc(sizeof *cb);
    if (!cb) {
        dlsh_no_memory("a function");
        return NULL;
    }
    *cb = (dlsh_callback){.session = s, .fn = dlsh_ref(fn)};
    return cb;
}

dl_status dlsh_callback_key(void *self, unsigned long *out) {
    dlsh_callback *cb = self;
    unsigned long key = 0;
    for (*out = 0; cb; cb = cb->next) {
        if (!cb->purity && !(cb->purity = dlsh_purity_new(cb->session, cb->fn))) return dl_failed();
        DLSH_TRY(dlsh_purity_key(cb->purity, &key));
        *out = *out * 1000003 + key;
    }
    return DL_OK;
}

void dlsh_callback_free(void *self) {
    for (dlsh_callback *cb = self, *next; cb; cb = next) {
        next = cb->next;
        dlsh_purity_free(cb->purity);
        dlsh_drop(cb->fn);
        free(cb);
    }
}

dl_tensor *dlsh_callback_call(dlsh_callback *cb, dlsh_value *in, int n) {
    dlsh_value out = dlsh_void();
    if (dlsh_call(cb->session, cb->fn, &(dlsh_callargs){n, in, NULL}, &out) != DL_OK) return NULL;
    if (out.type == DLSH_TENSOR) return out.as.tensor;
    dlsh_fail(DL_ERR_TYPE, "return a tensor", "the function '%s' must return a tensor, got %s",
              dlsh_function_name(cb->fn) ? dlsh_function_name(cb->fn) : "fn", dlsh_type_name(out));
    dlsh_drop(out);
    return NULL;
}

static dl_tensor *call_layer(void *ctx, dl_tensor *x) {
    DLSH_DROPPED dlsh_value in = dlsh_tensor(dl_ref(x));
    return dlsh_callback_call(ctx, &in, 1);
}

/* ---------------------------------------------------------------- descriptions */

/* Memory of one translation, and the layer behind each description. */
typedef struct block {
    struct block *next;
} block;
typedef struct origin {
    struct origin *next;
    const dl_layer_spec *spec;
    const dlsh_layer *layer;
    const int *arg_of; /* for each argument of the description, the layer's argument */
} origin;
typedef struct made {
    struct made *next;
    dl_module *module;
    dl_code *code;
} made;
typedef struct work {
    dlsh_session *s;
    block *blocks;
    origin *origins;
    made *made; /* modules of functions, released at the end */
} work;

static void *allocate(work *w, size_t n) {
    block *b = calloc(1, sizeof *b + n);
    if (!b) {
        dlsh_no_memory("a net");
        return NULL;
    }
    b->next = w->blocks;
    w->blocks = b;
    return b + 1;
}

static void release(work *w) {
    for (made *m = w->made; m; m = m->next) dl_module_unref(m->module), dl_code_unref(m->code);
    for (block *b = w->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
}

static dl_status describe(work *w, const dlsh_layer *layers, int n, const dl_layer_spec **out);

/* Is none a value of that option, other than not to give it? */
static int takes_none(const char *layer, const char *name) {
    const dl_kind_row *k = dl_layer_kind(layer);
    for (const dl_option_row *o = k ? k->options : NULL; o && o->name; o++)
        if (!strcmp(o->name, name)) return strstr(o->dflt, "|none") != NULL;
    return 0;
}

static dl_status describe_args(work *w, const dlsh_layer *l, dl_layer_spec *spec, origin *p) {
    dl_arg *args = allocate(w, ((size_t)l->nargs + 1) * sizeof *args);
    int *arg_of = allocate(w, ((size_t)l->nargs + 1) * sizeof *arg_of);
    dlsh_arg_room *room = allocate(w, ((size_t)l->nargs + 1) * sizeof *room);
    if (!args || !arg_of || !room) return DL_ERR_MEMORY;
    for (int i = 0; i < l->nargs; i++) {
        if (l->args[i].type == DLSH_NONE && l->names[i]) { /* none: not given */
            if (!takes_none(l->kind, l->names[i])) continue;
            args[spec->nargs] = (dl_arg){.name = l->names[i], .kind = DL_ARG_STR, .s = "none"};
            arg_of[spec->nargs++] = i;
            continue;
        }
        /* a tensor of the net may start with a number: init=0.5 */
        int number =
            l->shape.type == DLSH_FN && l->names[i] && !strcmp(l->names[i], "init") && dlsh_is_number(l->args[i]);
        const char *name = number ? "value" : l->names[i];
        dl_status st = dlsh_to_arg(name, l->args[i], &room[i], &args[spec->nargs]);
        if (st != DL_OK) {
            dl_error e = dlsh_taken_error();
            return dlsh_layer_fail(w->s, l, i, st, e.hint, "layer %s: %s", l->kind, e.message);
        }
        arg_of[spec->nargs++] = i;
    }
    spec->args = args;
    p->arg_of = arg_of;
    return DL_OK;
}

/* A net of the session is used itself, so that its weights are shared; a function becomes a layer. */
static dl_status describe_value(work *w, const dlsh_layer *l, dl_layer_spec *spec) {
    if (l->has_body || l->nargs)
        return dlsh_layer_fail(w->s, l, l->nargs ? 0 : -1, DL_ERR_VALUE, NULL, "%s takes no %s as a layer", l->kind,
                               l->nargs ? "arguments" : "layers");
    spec->module = dlsh_unwrap(l->value, &dlsh_net_class);
    if (spec->module) return DL_OK;
    dlsh_callback *cb = dlsh_callback_new(w->s, l->value);
    made *m = cb ? allocate(w, sizeof *m) : NULL;
    if (!m) {
        dlsh_callback_free(cb);
        return DL_ERR_MEMORY;
    }
    spec->module = m->module = dl_module_function(
        l->kind,
        (dl_code_spec){.layer = call_layer, .key = dlsh_callback_key, .ctx = cb, .release = dlsh_callback_free});
    m->next = w->made;
    w->made = m;
    return m->module ? DL_OK : dl_failed();
}

static int is_taken(const char *name) {
    for (const dlsh_command *c = dlsh_net_class.methods; name && c->name; c++)
        if (!strcmp(c->name, name)) return 1;
    return 0;
}

/* Names that methods of nets have already; a part that is called like a field hides it. A list of layers may be called
 * as a method is, since nobody calls it: `layers: list 3 { ... }`. */
static dl_status check_label(work *w, const dlsh_layer *l) {
    const dlsh_list *own = l->methods.type == DLSH_LIST ? l->methods.as.list : NULL;
    for (int i = 0; own && i < own->n; i++)
        if (is_taken(dlsh_function_name(own->items[i])))
            return dlsh_layer_fail(w->s, l, -1, DL_ERR_NAME, "choose another name",
                                   "a net's own method cannot be named '%s': all nets have a method of that name",
                                   dlsh_function_name(own->items[i]));
    if (!strcmp(l->kind, "list") || !is_taken(l->label)) return DL_OK;
    return dlsh_layer_fail(w->s, l, -1, DL_ERR_NAME, "choose another name",
                           "a layer cannot be named '%s': nets have a method of that name", l->label);
}

static dl_status describe_layer(work *w, const dlsh_layer *l, dl_layer_spec *spec) {
    origin *p = allocate(w, sizeof *p);
    if (!p) return DL_ERR_MEMORY;
    *p = (origin){w->origins, spec, l, NULL};
    w->origins = p;
    spec->kind = l->kind;
    spec->label = l->label;
    spec->group = l->expanded;
    if (l->node && l->unit) spec->src = (dl_source){l->unit->name, l->node->span.line};
    spec->nbody = l->nbody, spec->nshortcut = l->nshortcut;
    DLSH_TRY(check_label(w, l));
    if (l->forward.type == DLSH_FN || l->shape.type == DLSH_FN) {
        spec->code = l->shape.type == DLSH_FN ? dlsh_shape_code(w->s, l->shape)
                                              : dlsh_forward_code(w->s, l->forward, l->methods);
        made *m = spec->code ? allocate(w, sizeof *m) : NULL;
        if (!m) return dl_code_unref(spec->code), dl_failed();
        *m = (made){w->made, NULL, spec->code};
        w->made = m;
    }
    if (l->value.type != DLSH_VOID) return describe_value(w, l, spec);
    if (!l->expanded) DLSH_TRY(describe_args(w, l, spec, p));
    DLSH_TRY(describe(w, l->body, l->nbody, &spec->body));
    return describe(w, l->shortcut, l->nshortcut, &spec->shortcut);
}

static dl_status describe(work *w, const dlsh_layer *layers, int n, const dl_layer_spec **out) {
    dl_layer_spec *specs = allocate(w, ((size_t)n + 1) * sizeof *specs);
    if (!specs) return DL_ERR_MEMORY;
    *out = specs;
    for (int i = 0; i < n; i++) DLSH_TRY(describe_layer(w, &layers[i], &specs[i]));
    return DL_OK;
}

/* The failure of the library, placed at the layer or argument it is about. */
static dl_status place_failure(work *w, const dl_layer_spec *at, int arg) {
    dl_error e;
    if (!at) return dl_failed();
    for (origin *p = w->origins; p; p = p->next) {
        if (p->spec != at) continue;
        dl_error_take(&e);
        int index = arg >= 0 && p->arg_of ? p->arg_of[arg] : -1;
        if (!*e.hint && !dl_layer_kind(at->kind))
            snprintf(e.hint, sizeof e.hint, "help layers lists them; the input goes into the first one by itself");
        return dlsh_layer_fail(w->s, p->layer, index, e.code, e.hint, "%s", e.message);
    }
    return dl_failed();
}

static dl_status build(dlsh_session *s, const dlsh_layer *net, dlsh_value *out) {
    work w = {.s = s};
    dl_layer_spec spec = {0};
    const dl_layer_spec *at = NULL;
    int arg = -1, own = net->forward.type == DLSH_FN;
    const char *name = net->kind ? net->kind : "net";
    dlsh_layer group = *net;
    group.kind = name, group.label = NULL, group.expanded = 1;
    dl_status st = describe_layer(&w, &group, &spec);
    if (st == DL_OK && !net->nbody && !own)
        st = dlsh_fail(DL_ERR_VALUE, "net m { linear 64 -> relu -> linear 10 }", "net %s has no layers", name);
    if (st == DL_OK) {
        DLSH_ENDED(dl_module_unref) dl_module *m = dl_net_build_code(name, spec.body, spec.nbody, spec.code, &at, &arg);
        st = m ? DL_OK : place_failure(&w, at, arg);
        if (m && dlsh_default_device()) st = dl_module_to(m, -1, dlsh_default_device());
        if (st == DL_OK) st = dlsh_give(dlsh_net_value(m), out);
    }
    release(&w);
    return st;
}

/* A net of one layer without a name of its own, `net { linear 3 }`, stands for that layer, as it does in a net. */
dl_status dlsh_replace_part(dl_module *m, const char *label, dlsh_value v) {
    dl_module *part = dlsh_unwrap(v, &dlsh_net_class);
    if (!part)
        return dlsh_fail(DL_ERR_TYPE, "m.head = net { linear 3 }", "layer '%s' is replaced by a net or a layer, got %s",
                         label, dlsh_type_name(v));
    int plain = !strcmp(dl_module_kind(part), "sequential") && !strcmp(dl_module_name(part), "net");
    if (plain && dl_module_count(part) == 1) part = dl_module_at(part, 0);
    const char *dot = strrchr(label, '.');
    if (!dot) return dl_module_replace(m, label, part);
    DLSH_SCOPED_BUF holder = {0};
    dlsh_buf_add(&holder, label, (size_t)(dot - label));
    return dl_module_replace(dl_module_find(m, dlsh_buf_text(&holder)), dot + 1, part);
}

static int known(const char *kind) { return dl_layer_kind(kind) != NULL; }

static int flag(const char *kind, const char *option) { return dl_kind_has_flag(dl_layer_kind(kind), option); }

void dlsh_nets_serve(dlsh_services *to) {
    to->layer_flag = flag;
    to->build_net = build;
    to->known_layer = known;
    to->net_methods = dlsh_net_methods;
}
