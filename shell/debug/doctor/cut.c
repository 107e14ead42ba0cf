/* Where the text cuts the history of a loss off: the expression of `backward` followed back through variables,
 * functions and the forward of nets, to the call through which a net or a parameter passes no gradient on. */
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/debug.h"
#include "debug/doctor/texts.h"
#include "debug/doctor/trace.h"

enum { DEEPEST = 24 };

typedef struct walk {
    const dlsh_examination *e;
    const dlsh_unit *unit;
    const dlsh_node *net;       /* in whose forward it is; NULL: in none */
    int before;                 /* where the statement begins whose names are looked up */
    int maker, *met;            /* a line, and whether something there was come by; NULL: it does not matter */
    int plain;                  /* not what is cut off, or given to a net */
    const dlsh_node *fn, *call; /* the function in which it is, and the call through which it came; NULL: none */
    const struct walk *outer;   /* of that call */
} walk;

/* Functions and methods whose results have no history. */
static const char cutting[] =
    "argmax|argmin|argsort|item|tolist|detach|round|floor|ceil|sign|long|int|bool|one_hot|data|"
    "tensor|bucketize|searchsorted|bincount";

static int is_comparison(const dlsh_node *n) {
    return n->kind == DLSH_N_BINARY && n->op >= DLSH_OP_EQ && n->op <= DLSH_OP_GE;
}

static const dlsh_node *callee_of(const dlsh_node *n) { return n->kind == DLSH_N_CALL ? n->kids[0] : NULL; }

static int is_cut(const dlsh_node *n) {
    const dlsh_node *by = n->kind == DLSH_N_FIELD ? n : callee_of(n);
    if (is_comparison(n)) return 1;
    return by && by->text && (by->kind == DLSH_N_FIELD || by->kind == DLSH_N_NAME) &&
           dlsh_has_word(cutting, by->text, strlen(by->text));
}

/* The no_grad that stands around a place; NULL: none. */
static const dlsh_node *shielded(const dlsh_node *n, int at) {
    const dlsh_node *found = NULL;
    if (!n || at < n->span.start || at > n->span.end) return NULL;
    for (int i = 0; i < n->nkids && !found; i++) found = shielded(n->kids[i], at);
    int shields = n->kind == DLSH_N_COMMAND && n->num.cmd && !strcmp(n->num.cmd->name, "no_grad");
    return found ? found : shields ? n : NULL;
}

/* The definition of that name of a kind, with a text. */
static const dlsh_node *defined(const dlsh_node *n, dlsh_kind kind, const char *name) {
    const dlsh_node *found = NULL;
    if (!n) return NULL;
    if (n->kind == kind && n->text && !strcmp(n->text, name)) return n;
    for (int i = 0; i < n->nkids && !found; i++) found = defined(n->kids[i], kind, name);
    return found;
}

/* The last return of a function, or the forward of a net; NULL: none. */
const dlsh_node *dlsh_last_return(const dlsh_node *n) {
    const dlsh_node *found = NULL;
    if (!n || n->kind == DLSH_N_RETURN) return n;
    if (n->kind == DLSH_N_LAYERS && dlsh_forward_of(n)) return dlsh_last_return(dlsh_forward_of(n));
    for (int i = n->nkids - 1; i >= 0 && !found; i--) found = dlsh_last_return(n->kids[i]);
    return found;
}

const dlsh_node *dlsh_function_of(const char *file, const char *name) {
    const dlsh_unit *u = dlsh_text_of(file);
    return u ? defined(u->root, DLSH_N_FN, name) : NULL;
}

static int has_part(const dlsh_node *net, const char *name) {
    for (int i = 0; net && i < net->nkids; i++) {
        const dlsh_node *k = net->kids[i];
        if (!k) continue;
        if ((k->kind == DLSH_N_LAYER || k->kind == DLSH_N_TENSOR) && k->label && !strcmp(k->label, name)) return 1;
        if (k->kind == DLSH_N_LAYERS && has_part(k, name)) return 1;
    }
    return 0;
}

static const dlsh_node *follow(walk w, const dlsh_node *n, const dlsh_node *cut, int depth);

static const dlsh_node *follow_kids(walk w, const dlsh_node *n, const dlsh_node *cut, int depth) {
    const dlsh_node *found = NULL;
    for (int i = 0; i < n->nkids && (!found || w.met); i++) {
        const dlsh_node *by = n->kids[i] ? follow(w, n->kids[i], cut, depth + 1) : NULL;
        found = found ? found : by;
    }
    return found;
}

/* What the call through which a walk came gives a parameter of the function; NULL: the name is none. */
static const dlsh_node *given(const walk *w, const char *name) {
    const dlsh_definition d = w->call ? dlsh_define(w->unit->root, name, w->before) : (dlsh_definition){0};
    for (int k = 0; d.value && d.param && k + 1 < w->fn->nkids; k++)
        if (w->fn->kids[k]->kind == DLSH_N_PARAM && !strcmp(w->fn->kids[k]->text, name))
            return dlsh_argument_of(w->call, k, name);
    return NULL;
}

/* A variable: a net or parameter is what was looked for, if something has cut it off. */
static const dlsh_node *follow_name(walk w, const dlsh_node *n, const dlsh_node *cut, int depth) {
    const dlsh_value *v = dlsh_value_of(w.e, w.unit->name, n);
    if (has_part(w.net, n->text) || (v && dlsh_unwrap(*v, &dlsh_net_class))) return cut;
    const dlsh_node *argument = given(&w, n->text);
    if (argument) return follow(*w.outer, argument, cut, depth + 1);
    const dlsh_node *made = dlsh_definition_of(w.unit->name, n->text, w.before, &w.before);
    if (v && v->type == DLSH_TENSOR && dl_requires_grad(v->as.tensor) &&
        (!made || dlsh_names(callee_of(made), "param")))
        return cut;
    if (!made || made->kind == DLSH_N_FN) return NULL;
    if (!cut) cut = shielded(w.unit->root, made->span.start);
    return follow(w, made, cut, depth + 1);
}

static const dlsh_node *follow_call(walk w, const dlsh_node *n, const dlsh_node *cut, int depth) {
    const char *name = n->kids[0]->kind == DLSH_N_NAME ? n->kids[0]->text : NULL;
    const dlsh_node *net = name ? defined(w.unit->root, DLSH_N_NET, name) : NULL;
    const dlsh_node *fn = name && !net ? defined(w.unit->root, DLSH_N_FN, name) : NULL, *found = NULL;
    const dlsh_node *result = net || fn ? dlsh_last_return(net ? net : fn) : NULL;
    const dlsh_value *v = w.plain ? dlsh_value_of(w.e, w.unit->name, n->kids[0]) : NULL;
    if (v && dlsh_unwrap(*v, &dlsh_net_class)) return NULL;
    if (name && has_part(w.net, name)) return cut ? cut : follow_kids(w, n, cut, depth);
    if (result) {
        walk inner = w;
        inner.net = net ? net : w.net, inner.before = result->span.start;
        inner.fn = net ? NULL : fn, inner.call = net ? NULL : n, inner.outer = &w;
        found = follow_kids(inner, result, cut, depth);
    }
    return found ? found : follow_kids(w, n, cut, depth);
}

static const dlsh_node *follow(walk w, const dlsh_node *n, const dlsh_node *cut, int depth) {
    if (depth > DEEPEST || n->kind == DLSH_N_FN) return NULL;
    if (w.met && n->span.line == w.maker && !(w.plain && cut)) *w.met = 1;
    if (!cut && is_cut(n)) cut = n;
    if (n->kind == DLSH_N_NAME) return follow_name(w, n, cut, depth);
    return n->kind == DLSH_N_CALL ? follow_call(w, n, cut, depth) : follow_kids(w, n, cut, depth);
}

/* The net in whose forward a statement stands; NULL: in none. */
static const dlsh_node *net_around(const dlsh_unit *u, const dlsh_node *n) {
    const dlsh_node *around[DEEPEST], *net = NULL;
    const int depth = u && n ? dlsh_nodes_around(u->root, n->span.start, around, DEEPEST) : 0;
    for (int i = 0; i < depth; i++)
        if (around[i]->kind == DLSH_N_NET) net = around[i];
    return net;
}

static dlsh_property calls_it(void *ctx, const dlsh_step *at) {
    return dlsh_is_call_of(at->n, ctx) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

static int count_calls(const dlsh_node *n, const char *name) {
    int count = dlsh_is_call_of(n, name);
    for (int i = 0; n && i < n->nkids; i++) count += count_calls(n->kids[i], name);
    return count;
}

/* Where a cut is a no_grad in a function that others call, too, which may well use it without gradients: the call of it
 * on the way from an expression. NULL: it is none. */
static const dlsh_node *call_instead(const char *file, int cut, const dlsh_node *from) {
    const dlsh_node *around[DLSH_AROUND], *root = dlsh_text_root(file);
    const int depth = root && shielded(root, cut) ? dlsh_functions_around(root, cut, around) : 0;
    const char *helper = depth ? around[depth - 1]->text : NULL;
    return from && helper && count_calls(root, helper) > 1 ? dlsh_origin(file, from, calls_it, (void *)helper) : NULL;
}

const dlsh_node *dlsh_cut_at(const dlsh_examination *e, const char *file, int line) {
    const dlsh_unit *u = dlsh_text_of(file);
    const dlsh_node *n = dlsh_statement_at(file, line);
    walk w = {e, u, net_around(u, n), n ? n->span.start : 0, 0, NULL, 0, NULL, NULL, NULL};
    const dlsh_node *cut = u && n ? follow_kids(w, n, NULL, 0) : NULL;
    const dlsh_node *call = cut ? call_instead(file, cut->span.start, n) : NULL;
    return call ? call : cut;
}

int dlsh_cut_line(const dlsh_examination *e, const char *file, int line) {
    const dlsh_node *cut = dlsh_cut_at(e, file, line);
    return cut ? cut->span.line : 0;
}

static int meets(const dlsh_examination *e, const char *file, int line, int maker, int plain) {
    const dlsh_unit *u = dlsh_text_of(file);
    const dlsh_node *n = dlsh_statement_at(file, line);
    int met = 0;
    walk w = {e, u, NULL, n ? n->span.start : 0, maker, &met, plain, NULL, NULL, NULL};
    if (u && n) follow_kids(w, n, NULL, 0);
    return met;
}

int dlsh_comes_from(const dlsh_examination *e, const char *file, int line, int maker) {
    return meets(e, file, line, maker, 0);
}

int dlsh_is_part_of(const dlsh_examination *e, const char *file, int line, int maker) {
    return meets(e, file, line, maker, 1);
}

static int uses_net(const dlsh_examination *e, const char *file, const dlsh_node *n, int before, int depth) {
    int found = 0, at = before;
    if (!n || depth > DEEPEST || n->kind == DLSH_N_FN) return 0;
    const int part = n->kind == DLSH_N_FIELD || n->kind == DLSH_N_INDEX;
    const dlsh_value *v = part || n->kind == DLSH_N_NAME ? dlsh_value_of(e, file, n) : NULL;
    if (v && (dlsh_unwrap(*v, &dlsh_net_class) || (v->type == DLSH_TENSOR && dl_requires_grad(v->as.tensor)))) return 1;
    if (n->kind == DLSH_N_NAME) {
        const dlsh_node *made = dlsh_definition_of(file, n->text, before, &at);
        return made && made->kind != DLSH_N_FN && at < before && uses_net(e, file, made, at, depth + 1);
    }
    for (int i = 0; i < n->nkids && !found; i++) found = uses_net(e, file, n->kids[i], before, depth + 1);
    return found;
}

int dlsh_uses_net(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    return n && uses_net(e, file, n, n->span.end, 0);
}

/* ---------------------------------------------------------------- by trial */

/* The parameter of the probe's copy that stands for one of the net. */
static dl_tensor *counterpart(const dlsh_examination *e, const dl_tensor *p) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *own = dl_module_tensors(e->net, 1);
    DLSH_ENDED(dl_module_list_free) dl_module_list *copy = dl_module_tensors(e->probe.net, 1);
    for (long i = 0; own && copy && i < own->n && i < copy->n; i++)
        if (own->entries[i].tensor == p) return copy->entries[i].tensor;
    return NULL;
}

/* Where a pass of the net, recorded, takes what is computed with a parameter without its history. */
int dlsh_cut_by_trial(dlsh_examination *e, const dl_tensor *p, const char **file) {
    dlsh_missing end = {0};
    dl_tensor *of = e->probed && e->probe.net && e->net ? counterpart(e, p) : NULL;
    if (!of || dl_recording_count() || dl_recording_get()) return 0;
    dl_rng_restore(e->probe.rng);
    dl_recording_set(1);
    const dl_status st = dlsh_probe_forward(&e->probe);
    dl_recording_set(0);
    if (st || dlsh_missing_end(of, &end)) dl_error_clear();
    dl_recording_clear();
    if (!end.file || !end.line) return 0;
    const dlsh_unit *u = dlsh_text_of(end.file);
    *file = u ? u->name : NULL; /* the recording's own text is gone */
    const dlsh_node *n = u ? dlsh_statement_at(u->name, end.line) : NULL, *net = net_around(u, n);
    const dlsh_node *call =
        net ? call_instead(u->name, n->span.start, dlsh_last_return(net->kids[net->nkids - 1])) : NULL;
    const int line = call ? call->span.line : u ? dlsh_cut_line(e, u->name, end.line) : 0;
    return !u ? 0 : line ? line : end.line;
}
