/* Where the text cuts the history of a loss off: the call on the way back from `backward` to a net or a parameter that
 * passes no gradient on. */
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/debug.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/texts.h"
#include "debug/doctor/trace.h"

/* Functions and methods whose results have no history. */
static const char cutting[] =
    "argmax|argmin|argsort|item|tolist|detach|round|floor|ceil|sign|long|int|bool|one_hot|data|"
    "tensor|bucketize|searchsorted|bincount|sample|multinomial|bernoulli";

static int is_cut(const dlsh_node *n) {
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : n->kind == DLSH_N_FIELD ? n : NULL;
    if (dlsh_is_comparison(n)) return 1;
    return by && by->text && (by->kind == DLSH_N_FIELD || by->kind == DLSH_N_NAME) && dlsh_is_word(cutting, by->text);
}

/* The no_grad that stands around a place; NULL: none. */
static const dlsh_node *shielded(const dlsh_node *n, int at) {
    const dlsh_node *found = NULL;
    DLSH_EACH_BELOW_IF (t, n, at >= t.n->span.start && at <= t.n->span.end)
        if (t.n->kind == DLSH_N_COMMAND && t.n->num.cmd && !strcmp(t.n->num.cmd->name, "no_grad")) found = t.n;
    return found;
}

/* Where a step of a walk leaves the history: the call, or the no_grad into which it goes; NULL: it has one. */
static const dlsh_node *cut_of(const dlsh_step *at) {
    const dlsh_node *shield = shielded(dlsh_text_root(at->file), at->n->span.start);
    if (is_cut(at->n)) return at->n;
    const dlsh_node *from = at->from ? at->from->n : NULL;
    return shield && from && (from->span.start < shield->span.start || from->span.start > shield->span.end) ? shield
                                                                                                            : NULL;
}

/* Is it a net, or a part of the one in whose forward it stands? */
static int is_net(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_value *v = n->kind == DLSH_N_FN ? NULL : dlsh_value_of(e, file, n);
    return (v && dlsh_unwrap(*v, &dlsh_net_class)) || dlsh_is_part_of_net(dlsh_text_root(file), n);
}

/* A net, a call of one, or a parameter. */
static int is_trained(const dlsh_examination *e, const dlsh_step *at) {
    const dlsh_node *n = at->n, *of = n->kind == DLSH_N_CALL ? n->kids[0] : n;
    if (of->kind != DLSH_N_NAME && of->kind != DLSH_N_FIELD && of->kind != DLSH_N_INDEX) return 0;
    const dlsh_value *v = n->kind == DLSH_N_NAME ? dlsh_value_of(e, at->file, n) : NULL;
    if (is_net(e, at->file, of)) return 1;
    const dlsh_node *made = v && v->type == DLSH_TENSOR && dl_requires_grad(v->as.tensor) ? dlsh_made(at->file, n) : n;
    return !made || dlsh_is_call_of(made, "param");
}

static dlsh_property trains(void *ctx, const dlsh_step *at) {
    return is_trained(ctx, at) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

typedef struct looking {
    const dlsh_examination *e;
    const dlsh_node *cut; /* that stands between */
    int maker, plain;     /* a line; not what is cut off, or given to a net */
} looking;

static dlsh_property cuts(void *ctx, const dlsh_step *at) {
    looking *w = ctx;
    const dlsh_node *cut = cut_of(at);
    if (!cut) return DLSH_MAY_HAVE;
    w->cut = dlsh_origin_at(at, at->n, trains, (void *)w->e) ? cut : NULL;
    return w->cut ? DLSH_HAS_FIRST : DLSH_HAS_NOT;
}

static dlsh_property calls_it(void *ctx, const dlsh_step *at) {
    return dlsh_is_call_of(at->n, ctx) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Calls of a function that do not stand in a no_grad of their own. */
static int count_calls(const dlsh_node *root, const dlsh_node *n, const char *name) {
    int count = 0;
    DLSH_EACH_BELOW (t, n) count += dlsh_is_call_of(t.n, name) && !shielded(root, t.n->span.start);
    return count;
}

/* A net or a parameter that an expression has with its history. */
static dlsh_property keeps_history(void *ctx, const dlsh_step *at) {
    if (cut_of(at)) return DLSH_HAS_NOT;
    return is_trained(ctx, at) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Does a function give a result with a history? Then it is there for training, and a no_grad in it is a fault. */
static int gives_history(const dlsh_examination *e, const char *file, const dlsh_node *fn) {
    const dlsh_node *back = dlsh_last_return(fn);
    return back && back->nkids && !shielded(dlsh_text_root(file), back->span.start) &&
           dlsh_origin(file, back->kids[0], keeps_history, (void *)e);
}

/* Where a cut is a no_grad in a function that others call, too, and need it for that: the call of it on the way from an
 * expression. NULL: it is none. */
static const dlsh_node *call_instead(const dlsh_examination *e, const char *file, int cut, const dlsh_node *from) {
    const dlsh_node *around[DLSH_AROUND], *root = dlsh_text_root(file);
    const int depth = root && shielded(root, cut) ? dlsh_functions_around(root, cut, around) : 0;
    const char *helper = depth ? around[depth - 1]->text : NULL;
    if (helper && gives_history(e, file, around[depth - 1])) return NULL;
    return from && helper && count_calls(root, root, helper) > 1 ? dlsh_origin(file, from, calls_it, (void *)helper)
                                                                 : NULL;
}

const dlsh_node *dlsh_cut_at(const dlsh_examination *e, const char *file, int line) {
    looking w = {.e = e};
    const dlsh_node *n = dlsh_statement_at(file, line);
    if (n) dlsh_origin(file, n, cuts, &w);
    const dlsh_node *call = w.cut ? call_instead(e, file, w.cut->span.start, n) : NULL;
    return call ? call : w.cut;
}

int dlsh_cut_line(const dlsh_examination *e, const char *file, int line) {
    const dlsh_node *cut = dlsh_cut_at(e, file, line);
    return cut ? cut->span.line : 0;
}

static dlsh_property is_there(void *ctx, const dlsh_step *at) {
    const looking *w = ctx;
    const int ends = w->plain && (cut_of(at) || (at->n->kind == DLSH_N_CALL && is_net(w->e, at->file, at->n->kids[0])));
    if (at->n->span.line == w->maker && at->from && !(w->plain && cut_of(at))) return DLSH_HAS_FIRST;
    return ends ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
}

static int meets(const dlsh_examination *e, const char *file, int line, int maker, int plain) {
    looking w = {e, NULL, maker, plain};
    const dlsh_node *n = dlsh_statement_at(file, line);
    return n && dlsh_origin(file, n, is_there, &w) != NULL;
}

int dlsh_comes_from(const dlsh_examination *e, const char *file, int line, int maker) {
    return meets(e, file, line, maker, 0);
}

int dlsh_is_part_of(const dlsh_examination *e, const char *file, int line, int maker) {
    return meets(e, file, line, maker, 1);
}

/* A net, a call of one, or what has a history. */
static dlsh_property has_history(void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n->kind == DLSH_N_CALL ? at->n->kids[0] : at->n;
    const int can = n->kind == DLSH_N_NAME || n->kind == DLSH_N_FIELD || n->kind == DLSH_N_INDEX;
    const dlsh_value *v = can ? dlsh_value_of(ctx, at->file, n) : NULL;
    if (!v || at->added) return at->added ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
    const int has = dlsh_unwrap(*v, &dlsh_net_class) || (v->type == DLSH_TENSOR && dl_requires_grad(v->as.tensor));
    return has ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

int dlsh_uses_net(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    return n && dlsh_origin(file, n, has_history, (void *)e) != NULL;
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

int dlsh_line_of_sample(const char *file) {
    DLSH_EACH_BELOW (t, dlsh_text_root(file))
        if (dlsh_is_method(t.n, "sample")) return t.n->span.line;
    return 0;
}

/* Is the distribution that is drawn from made in a statement? */
static int makes_distribution(const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n)
        if (dlsh_is_call_of(t.n, "distribution")) return 1;
    return 0;
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
    const dlsh_node *n = u ? dlsh_statement_at(u->name, end.line) : NULL,
                    *net = n ? dlsh_net_around(u->root, n->span.start) : NULL;
    const dlsh_node *call =
        net ? call_instead(e, u->name, n->span.start, dlsh_last_return(net->kids[net->nkids - 1])) : NULL;
    const int drawn = makes_distribution(n) ? dlsh_line_of_sample(u->name) : 0;
    const int line = call ? call->span.line : drawn ? drawn : u ? dlsh_cut_line(e, u->name, end.line) : 0;
    return !u ? 0 : line ? line : end.line;
}
