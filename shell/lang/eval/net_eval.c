/* net statements: the tree of layers with its arguments evaluated, handed to the builder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/eval/interp.h"

enum { MAX_LAYER_DEPTH = 64 };

static dl_status eval_layers(dlsh_session *s, const dlsh_node *n, dlsh_layer *net, int depth);

static void free_layers(dlsh_layer *layers, int n) {
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < layers[i].nargs; k++) dlsh_drop(layers[i].args[k]);
        dlsh_drop(layers[i].value);
        dlsh_drop(layers[i].forward);
        dlsh_drop(layers[i].methods);
        dlsh_drop(layers[i].shape);
        free_layers(layers[i].body, layers[i].nbody);
        free_layers(layers[i].shortcut, layers[i].nshortcut);
        free(layers[i].args);
        free((void *)layers[i].names);
    }
    free(layers);
}

/* ---------------------------------------------------------------- one layer */

/* Adds a hint where the value of init= is a word without quotes. */
static dl_status no_init(const dlsh_node *n, dl_status st) {
    enum { MOST = 32 };
    const char *names[MOST];
    int k = 0;
    dl_error e;
    for (const dl_kind_row *row; k < MOST && (row = dl_init_kind_at(k)); k++) names[k] = row->name;
    const char *nearest = st == DL_ERR_NAME && n->kind == DLSH_N_NAME ? dlsh_nearest(n->text, names, k) : NULL;
    if (!nearest || !dl_error_take(&e)) return st;
    snprintf(e.hint, sizeof e.hint,
             strcmp(nearest, n->text) ? "did you mean init=\"%s\"?" : "text stands in quotes: init=\"%s\"", nearest);
    return dl_error_put(&e);
}

static dl_status eval_args(dlsh_session *s, const dlsh_node *n, dlsh_layer *l) {
    const char **names;
    int count = 0;
    while (count < n->nkids && n->kids[count]->kind != DLSH_N_LAYERS) count++;
    l->args = calloc((size_t)count + 1, sizeof *l->args);
    l->names = names = calloc((size_t)count + 1, sizeof *names);
    if (!l->args || !names) return dlsh_no_memory("a net");
    for (int i = 0; i < count; i++) {
        const dlsh_node *k = n->kids[i];
        int option = k->kind == DLSH_N_OPTION;
        names[i] = option ? k->text : NULL;
        if (k->kind == DLSH_N_NAME && n->text && s->services.layer_flag && s->services.layer_flag(n->text, k->text)) {
            names[i] = k->text, l->args[l->nargs++] = dlsh_bool(1);
            continue;
        }
        dl_status st = dlsh_eval_argument(s, option ? k->kids[0] : k, &l->args[i]);
        if (st) return option && !strcmp(k->text, "init") ? no_init(k->kids[0], st) : st;
        l->nargs++;
    }
    return DL_OK;
}

/* The variable a layer's word names, or the op, borrowed; NULL when it is none. */
static const dlsh_value *variable(dlsh_session *s, const dlsh_node *n) {
    if (!(n->flags & DLSH_LOCAL)) {
        const dlsh_value *v = dlsh_global_value(s, n->slot);
        return !v || v->type == DLSH_VOID || v->type == DLSH_BUILTIN ? NULL : v;
    }
    const dlsh_value *v = &s->locals[n->slot];
    if (v->type == DLSH_CELL) v = &v->as.cell->v;
    return v->type == DLSH_VOID ? NULL : v;
}

/* A net with arguments used as a layer: its layers, evaluated with the arguments bound. */
static dl_status expand(dlsh_session *s, dlsh_fn *f, dlsh_layer *l, int depth) {
    dlsh_callargs args = {l->nargs, l->args, l->names};
    int n = f->info->nslots;
    DLSH_FREED dlsh_value *slots = malloc((size_t)(n + 1) * sizeof *slots);
    if (!slots) return dlsh_no_memory("a net");
    for (int i = 0; i < n; i++) slots[i] = dlsh_void();
    dl_status st = dlsh_bind(f, &args, slots);
    if (!st) {
        dlsh_value *outer = s->locals;
        dlsh_unit *unit = s->unit;
        s->locals = slots;
        dlsh_enter_unit(s, f->unit);
        st = eval_layers(s, f->body, l, depth + 1);
        s->locals = outer;
        dlsh_enter_unit(s, unit);
    }
    for (int i = 0; i < n; i++) dlsh_drop(slots[i]);
    l->expanded = l->has_body = 1;
    return st;
}

static int is_net_template(const dlsh_value *v) { return v->type == DLSH_FN && v->as.fn->node->kind == DLSH_N_NET; }

static dl_status use_variable(dlsh_session *s, const dlsh_value *v, dlsh_layer *l, int depth) {
    if (is_net_template(v)) {
        DLSH_DROPPED dlsh_value keep = dlsh_ref(*v);
        return expand(s, v->as.fn, l, depth);
    }
    l->value = dlsh_ref(*v);
    return DL_OK;
}

/* A variable that is a list of nets: the layers of a list. */
static dl_status use_list(dlsh_session *s, const dlsh_list *nets, const dlsh_node *n, dlsh_layer *l, int depth) {
    if (l->nargs || l->has_body)
        return dlsh_fail(DL_ERR_VALUE, "models: nets", "%s is a list of nets, and takes no %s", n->text,
                         l->nargs ? "arguments" : "layers");
    if (!nets->n) return dlsh_fail(DL_ERR_VALUE, "models: nets", "the list %s has no nets", n->text);
    l->kind = "list", l->has_body = 1;
    l->body = calloc((size_t)nets->n, sizeof *l->body);
    if (!l->body) return dlsh_no_memory("a net");
    for (int i = 0; i < nets->n; i++) {
        const dlsh_value *item = &nets->items[i];
        dlsh_layer *b = &l->body[l->nbody++];
        *b = (dlsh_layer){.kind = n->text, .value = dlsh_void(), .node = n, .unit = s->unit};
        if (!dlsh_callable(*item))
            return dlsh_fail(DL_ERR_TYPE, "nets = [net { linear 8 }, net { linear 8 }]",
                             "item %d of the list %s is no net but %s", i, n->text, dlsh_a(*item));
        DLSH_TRY(use_variable(s, item, b, depth + 1));
    }
    return DL_OK;
}

static dl_status eval_layer(dlsh_session *s, const dlsh_node *n, dlsh_layer *l, int depth) {
    *l = (dlsh_layer){.kind = n->text, .label = n->label, .value = dlsh_void(), .node = n, .unit = s->unit};
    DLSH_TRY(eval_args(s, n, l));
    int blocks = 0;
    for (int i = 0; i < n->nkids; i++) {
        if (n->kids[i]->kind != DLSH_N_LAYERS) continue;
        if (!blocks++) {
            l->has_body = 1;
            DLSH_TRY(eval_layers(s, n->kids[i], l, depth + 1));
        } else {
            dlsh_layer other = {0};
            dl_status st = eval_layers(s, n->kids[i], &other, depth + 1);
            l->has_shortcut = 1, l->shortcut = other.body, l->nshortcut = other.nbody;
            DLSH_TRY(st);
        }
    }
    const dlsh_value *v = variable(s, n);
    int known = s->services.known_layer && s->services.known_layer(n->text);
    if (known && !(v && is_net_template(v))) return DL_OK; /* a net of the user's goes before a layer of that name */
    if (v && v->type == DLSH_LIST) return use_list(s, v->as.list, n, l, depth);
    return v && dlsh_callable(*v) ? use_variable(s, v, l, depth) : DL_OK; /* the builder refuses unknown kinds */
}

/* A parameter or buffer of the net itself: its first kid is its shape. */
static dl_status eval_tensor(dlsh_session *s, const dlsh_node *n, dlsh_layer *l) {
    *l = (dlsh_layer){.kind = n->text, .label = n->label, .value = dlsh_void(), .node = n, .unit = s->unit};
    const dlsh_node options = {.kids = n->kids + 1, .nkids = n->nkids - 1};
    DLSH_TRY(eval_args(s, &options, l));
    return dlsh_make_fn(s, n->kids[0], &l->shape);
}

/* In a net with a forward of its own every item has a name, and a chain is one part. */
static dl_status eval_part(dlsh_session *s, const dlsh_node *n, int first, int behind, dlsh_layer *l, int depth) {
    const dlsh_node *k = n->kids[first];
    if (!k->label)
        return dlsh_fail(DL_ERR_NAME, "conv1: conv 16 k=3",
                         "a layer of a net with a forward needs a name, by which "
                         "the forward calls it");
    if (behind - first == 1) return eval_layer(s, k, l, depth);
    *l = (dlsh_layer){
        .kind = "sequential", .label = k->label, .value = dlsh_void(), .node = k, .unit = s->unit, .has_body = 1};
    l->body = calloc((size_t)(behind - first), sizeof *l->body);
    if (!l->body) return dlsh_no_memory("a net");
    for (int i = first; i < behind; i++) {
        l->nbody++;
        DLSH_TRY(eval_layer(s, n->kids[i], &l->body[i - first], depth + 1));
        if (i == first) l->body[0].label = NULL;
    }
    return DL_OK;
}

/* An input of a net's function that is called like a part would stand for it there. */
static dl_status check_inputs(dlsh_session *s, const dlsh_node *layers, const dlsh_node *fn) {
    for (int i = 0; i < fn->nkids - 1; i++) {
        if (!strcmp(fn->kids[i]->text, "self"))
            return dlsh_at(s, fn->kids[i],
                           dlsh_fail(DL_ERR_NAME, "leave it out: self is the net by itself, and fc(x) calls a part",
                                     "self is no input of %.60s", fn->label));
        for (int k = 0; k < layers->nkids; k++)
            if (layers->kids[k] != fn && dlsh_is_part(layers->kids[k]) &&
                !strcmp(layers->kids[k]->label, fn->kids[i]->text))
                return dlsh_at(s, fn->kids[i],
                               dlsh_fail(DL_ERR_NAME, "give one of the two another name",
                                         "this input of %.60s hides the net's part '%.60s' of line %d", fn->label,
                                         fn->kids[i]->text, layers->kids[k]->span.line));
    }
    return DL_OK;
}

/* An assignment makes a variable of the function, and the net's own tensor would silently stay as it is. */
static dl_status check_assignments(dlsh_session *s, const dlsh_node *layers, const dlsh_node *fn) {
    const dlsh_fninfo *info = fn->info;
    const dlsh_node *n = info ? info->hides : NULL;
    if (!n) return DL_OK;
    int i = 0, buffer;
    while (layers->kids[i]->kind != DLSH_N_TENSOR || strcmp(layers->kids[i]->label, n->text) != 0) i++;
    buffer = !strcmp(layers->kids[i]->text, "buffer");
    char hint[320];
    snprintf(hint, sizeof hint,
             buffer
                 ? "%.60s += 1 changes it in place, %.60s.copy_(value) sets it; a variable of %.60s needs another name"
                 : "no_grad { %.60s.copy_(value) } changes %.60s itself; a variable of %.60s needs another name",
             n->text, n->text, fn->label);
    return dlsh_at(s, n,
                   dlsh_fail(DL_ERR_NAME, hint,
                             "'%.60s' is a %s of the net, which an assignment in %.60s does not change", n->text,
                             buffer ? "buffer" : "parameter", fn->label));
}

/* Two items of one name, of which one is a function. */
static dl_status check_name(dlsh_session *s, const dlsh_node *layers, const dlsh_node *fn) {
    for (int i = 0; i < layers->nkids && layers->kids[i] != fn; i++)
        if (dlsh_is_part(layers->kids[i]) && !strcmp(layers->kids[i]->label, fn->label))
            return dlsh_at(s, fn,
                           dlsh_fail(DL_ERR_NAME, "give one of the two another name",
                                     "the net has '%.60s' already, in line %d", fn->label, layers->kids[i]->span.line));
    return DL_OK;
}

/* The forward of a net, and its methods. */
static dl_status eval_functions(dlsh_session *s, const dlsh_node *n, dlsh_layer *net) {
    const dlsh_node *forward = dlsh_forward_of(n);
    int first = dlsh_count_layers(n);
    if (first == n->nkids) return DL_OK;
    if (!forward)
        return dlsh_at(s, n->kids[first],
                       dlsh_fail(DL_ERR_VALUE, "forward(x) { return ... }",
                                 "a net with the method '%.60s' needs a forward, too", n->kids[first]->label));
    net->methods = dlsh_new_list(n->nkids - first);
    for (int i = first; i < n->nkids; i++) {
        const dlsh_node *k = n->kids[i];
        dlsh_value fn = dlsh_void();
        DLSH_TRY(check_name(s, n, k));
        DLSH_TRY(check_inputs(s, n, k));
        DLSH_TRY(check_assignments(s, n, k));
        DLSH_TRY(dlsh_make_fn(s, k, &fn));
        if (k == forward)
            net->forward = fn;
        else
            DLSH_TRY(dlsh_append(net->methods, fn));
    }
    return DL_OK;
}

/* The items of a block into the body of `net`, and its functions. */
static dl_status eval_layers(dlsh_session *s, const dlsh_node *n, dlsh_layer *net, int depth) {
    if (depth > MAX_LAYER_DEPTH)
        return dlsh_fail(DL_ERR_VALUE, "does the net contain itself?", "nets are nested more than %d deep",
                         MAX_LAYER_DEPTH);
    net->body = calloc((size_t)n->nkids + 1, sizeof *net->body);
    if (!net->body) return dlsh_no_memory("a net");
    int count = dlsh_count_layers(n), parts = count < n->nkids;
    for (int i = 0, behind; i < count; i = behind) {
        dlsh_layer *l = &net->body[net->nbody++];
        for (behind = i + 1; parts && behind < count && n->kids[behind]->flags & DLSH_CHAINED;) behind++;
        const dlsh_node *k = n->kids[i];
        dl_status st = k->kind == DLSH_N_TENSOR ? eval_tensor(s, k, l)
                       : parts                  ? eval_part(s, n, i, behind, l, depth)
                                                : eval_layer(s, k, l, depth);
        if (!st && k->kind == DLSH_N_TENSOR && !parts)
            st = dlsh_fail(DL_ERR_VALUE, "forward(x) { return x @ w }, the last item of the net",
                           "%s %s is never used: the net has no forward of its own", k->text, k->label);
        if (st) return dlsh_at(s, k, st);
    }
    return eval_functions(s, n, net);
}

/* ---------------------------------------------------------------- whole nets */

static dl_status build(dlsh_session *s, const dlsh_layer *net, dlsh_value *out) {
    *out = dlsh_void();
    if (!s->services.build_net) return dlsh_fail(DL_ERR_UNSUPPORTED, NULL, "this session cannot build nets");
    return s->services.build_net(s, net, out);
}

dl_status dlsh_eval_net(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    if (n->op) return dlsh_make_fn(s, n, out);
    dlsh_layer net = {.kind = n->text, .value = dlsh_void(), .node = n, .unit = s->unit};
    dl_status st = eval_layers(s, n->kids[0], &net, 0);
    if (!st) st = build(s, &net, out);
    free_layers(net.body, net.nbody);
    dlsh_drop(net.forward);
    dlsh_drop(net.methods);
    return st;
}

dl_status dlsh_exec_net(dlsh_session *s, const dlsh_node *n) {
    dlsh_value v = dlsh_void();
    dl_status st = dlsh_eval_net(s, n, &v);
    if (st) return dlsh_at(s, n, st);
    dlsh_node name = {.kind = DLSH_N_NAME, .flags = n->flags, .slot = n->slot, .text = n->text, .span = n->span};
    return dlsh_assign(s, &name, v);
}

dl_status dlsh_call_net_template(dlsh_session *s, const dlsh_fn *f, const dlsh_callargs *args, dlsh_value *out) {
    if (args->n && !f->info->nparams)
        return dlsh_fail(DL_ERR_TYPE, "m = NET() makes a net, m(x) is its output",
                         "%s makes nets and takes no arguments, got %d",
                         f->node->text ? f->node->text : "this function", args->n);
    DLSH_FREED const char **names = calloc((size_t)args->n + 1, sizeof *names);
    if (!names) return dlsh_no_memory("a net");
    for (int i = 0; i < args->n; i++) names[i] = args->names ? args->names[i] : NULL;
    dlsh_layer net = {.kind = f->node->text,
                      .nargs = args->n,
                      .args = (dlsh_value *)args->values,
                      .names = names,
                      .value = dlsh_void(),
                      .node = f->node,
                      .unit = f->unit};
    dl_status st = expand(s, (dlsh_fn *)f, &net, 0);
    if (!st) st = build(s, &net, out);
    free_layers(net.body, net.nbody);
    dlsh_drop(net.forward);
    dlsh_drop(net.methods);
    return st;
}

dl_status dlsh_layer_fail(dlsh_session *s, const dlsh_layer *l, int arg, dl_status code, const char *hint,
                          const char *fmt, ...) {
    DLSH_FORMATTED(fmt, dlsh_vfail(code, hint, fmt, ap));
    const dlsh_node *n = l->node;
    int given = arg >= 0 && arg < n->nkids, option = given && n->kids[arg]->kind == DLSH_N_OPTION;
    /* an option that is unknown is wrong itself, else its value */
    if (given) n = option && code != DL_ERR_NAME ? n->kids[arg]->kids[0] : n->kids[arg];
    return dlsh_at_span(s, l->unit, n->span, code);
}
