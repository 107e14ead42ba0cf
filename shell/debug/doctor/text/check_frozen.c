/* Inputs and weights that stay as random as they were made: noise that was drawn once, weights that were frozen before
 * they learned anything. */
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/text/reads.h"

/* ---------------------------------------------------------------- noise that was drawn once */

static int is_drawn(const dlsh_node *n) { return dlsh_is_call_of(n, "randn|rand|randn_like|rand_like|normal|uniform"); }

/* net(randn(...)) */
static int line_of_fresh(const char *net) {
    DLSH_EACH_NODE (t)
        if (t.n->kind == DLSH_N_CALL && t.n->nkids > 1 && dlsh_names(t.n->kids[0], net) && is_drawn(t.n->kids[1]))
            return t.n->span.line;
    return 0;
}

/* How often the name is only passed on: to functions of the text, and by what they return to their callers. */
static int passes_on(const char *file, const dlsh_node *n, const char *name) {
    int count = 0;
    if (!n) return 0;
    const dlsh_node *to = n->kind == DLSH_N_CALL ? n : n->kind == DLSH_N_ASSIGN ? n->kids[n->nkids - 1] : NULL;
    const int calls =
        to && to->kind == DLSH_N_CALL && to->kids[0]->kind == DLSH_N_NAME && dlsh_function_of(file, to->kids[0]->text);
    if (n->kind == DLSH_N_RETURN && n->nkids) count = dlsh_is_listed(n->kids[0], name);
    for (int i = 0; calls && n == to && i < n->nkids; i++) count += dlsh_names(n->kids[i], name);
    if (calls && n != to) count = dlsh_assigns(n, name);
    for (int i = 0; i < n->nkids; i++) count += passes_on(file, n->kids[i], name);
    return count;
}

/* Does nothing but nets read the name, so that no target was made of it? */
static int is_for_nets(const dlsh_examination *e, const char *file, const char *name) {
    const dlsh_node *root = dlsh_text_root(file);
    int calls = 0;
    DLSH_EACH_BELOW (t, root)
        calls += t.n->kind == DLSH_N_CALL && t.n->nkids > 1 && dlsh_names(t.n->kids[1], name) &&
                 dlsh_object_of(e, file, t.n->kids[0], &dlsh_net_class);
    return dlsh_mentions(root, name) == calls + passes_on(file, root, name) + 1;
}

static void look_at_noise(dlsh_examination *e, const dl_journal_row *r) {
    if (!r->grad || r->count < 8 || r->looked < 4 || r->alike < r->looked - 1 || !dlsh_is_trained(e, r)) return;
    const dlsh_node *call = dlsh_call_of_net(e, r->file, dlsh_statement_at(r->file, r->line));
    const dlsh_node *x = call && call->kids[1]->kind == DLSH_N_NAME ? call->kids[1] : NULL;
    const dlsh_node *made = dlsh_defined(r->file, x);
    if (!is_drawn(made) || !dlsh_is_before_loop(r->file, made->span.line, r->line)) return;
    if (!is_for_nets(e, r->file, x->text)) return;
    const char *net = call->kids[0]->text;
    const int fresh = line_of_fresh(net);
    if (!fresh && !dlsh_is_word("z|noise|latent|eps", x->text)) return;
    dlsh_finding *g = dlsh_find_at(e, r->file, made->span.line, "draw it in the loop, anew for each step");
    dlsh_cause(g, "%s is drawn once, before the loop: %s learns for these random numbers alone", x->text, net);
    if (fresh)
        dlsh_evidence(g, "%ld passes (line %d) had the same numbers; line %d gives it new ones", r->count, r->line,
                      fresh);
    else
        dlsh_evidence(g, "%ld passes (line %d) had the same numbers", r->count, r->line);
}

/* ---------------------------------------------------------------- weights that were frozen at once */

/* "mid.bias" beside "mid.weight" */
static int is_beside(const char *a, const char *b) {
    const char *x = strrchr(a, '.'), *y = strrchr(b, '.');
    return x && y && x - a == y - b && !strncmp(a, b, (size_t)(x - a)) && !strcmp(y, ".bias");
}

static int has_trained_bias(const dlsh_examination *e, const dl_module_list *l, const char *weight) {
    for (long i = 0; i < l->n; i++)
        if (is_beside(weight, l->entries[i].path) && dl_requires_grad(l->entries[i].tensor) &&
            dlsh_is_being_trained(e, l->entries[i].tensor))
            return 1;
    return 0;
}

/* What a statement sets requires_grad of, x.requires_grad_(on) or x.requires_grad = on; NULL: it sets none. */
static const dlsh_node *switches(const dlsh_node *n, int *on) {
    const dlsh_node *to = n->kind == DLSH_N_ASSIGN ? n->kids[0] : NULL, *arg = NULL;
    if (to && to->kind == DLSH_N_FIELD && !strcmp(to->text, "requires_grad")) arg = n->kids[n->nkids - 1];
    if (!arg && !dlsh_is_method(n, "requires_grad_")) return NULL;
    if (!arg && n->nkids > 1) arg = n->kids[1];
    *on = !arg ? 1 : arg->kind == DLSH_N_BOOL ? (int)arg->num.i : -1;
    return n->kind == DLSH_N_ASSIGN ? to->kids[0] : n->kids[0]->kids[0];
}

/* The first statement of the texts that freezes, or may do so, or the last one that does; line 0: none. */
static dl_source line_of_freezing(int last) {
    dl_source at = {0};
    int on;
    DLSH_EACH_NODE (t) {
        if (!switches(t.n, &on) || on > 0 || (last && on)) continue;
        at = (dl_source){t.file, t.n->span.line};
        if (!last) break;
    }
    return at;
}

static void look_at_frozen(dlsh_examination *e, dl_module *m, const char *name) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 1);
    for (long i = 0; l && i < l->n; i++) {
        const dl_tensor *w = l->entries[i].tensor;
        const char *path = l->entries[i].path;
        if (dl_requires_grad(w) || dl_ndim(w) < 2 || !dlsh_is_as_made(w) || !has_trained_bias(e, l, path)) continue;
        const dl_source at = line_of_freezing(0);
        if (at.line)
            dlsh_found(
                e, at.file, at.line, "freeze only what has learned: leave the new layers out of the condition",
                "%s.%s is frozen with the random numbers that it began with: its layer learns a bias alone\n"
                "nothing was written to it since it was made, it has no gradient, and the bias beside it is trained",
                name, path);
        return;
    }
}

/* ---------------------------------------------------------------- weights that were to be released */

/* Parameters of a net, or one, that need no gradient; 0: some do. */
static long frozen_parameters(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_value *v = dlsh_value_of(e, file, n);
    dl_module *m = v ? dlsh_unwrap(*v, &dlsh_net_class) : NULL;
    if (v && v->type == DLSH_TENSOR) return dl_is_leaf(v->as.tensor) && !dl_requires_grad(v->as.tensor);
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = m ? dl_module_tensors(m, 1) : NULL;
    for (long i = 0; l && i < l->n; i++)
        if (dl_requires_grad(l->entries[i].tensor)) return 0;
    return l ? l->n : 0;
}

typedef struct switching {
    dlsh_examination *e;
    dl_source frozen; /* the last statement of the text that freezes */
} switching;

/* if CONDITION { body.requires_grad_(true) } in a loop, and what it names is frozen at the end. */
static void see_release(switching *s, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    int on = 0, loop = 0;
    const dlsh_node *of = switches(n, &on), *condition = NULL;
    for (int i = 0; i < depth; i++) {
        loop |= dlsh_is_loop(within[i]);
        if (within[i]->kind == DLSH_N_IF && loop && !condition) condition = within[i];
    }
    if (!of || on != 1 || !condition || strcmp(file, s->frozen.file) != 0 || s->frozen.line >= n->span.line) return;
    const long count = frozen_parameters(s->e, file, of);
    if (count)
        dlsh_found(s->e, file, condition->span.line, "a condition that comes true while there is training left",
                   "what was frozen is never released: the condition for it did not come true\n"
                   "line %d froze it; line %d is to release it, but %ld parameter%s there still need%s no gradient",
                   s->frozen.line, n->span.line, count, count > 1 ? "s" : "", count > 1 ? "" : "s");
}

/* Parameters that an optimizer was given and that need no gradient; -1: another one has not the same of both kinds. */
static long frozen_in_both(const dl_optimizer *a, const dl_optimizer *b) {
    const dl_tensor *p;
    long frozen = 0, trained = 0, n = 0;
    while (dl_optimizer_param(a, n, NULL)) n++;
    for (long i = 0; (p = dl_optimizer_param(b, i, NULL)); i++, n--) {
        if (!dlsh_optimizer_has(a, p)) return -1;
        if (dl_requires_grad(p))
            trained++;
        else if (!dlsh_is_as_made(p))
            frozen++;
    }
    return n || !trained ? -1 : frozen;
}

/* A second training of a net, by an optimizer of its own, that trains no more of it than the first one did. */
static void find_second_stage(dlsh_examination *e, dl_source frozen) {
    dl_optimizer *a, *b;
    for (int i = 0; (a = dlsh_optimizer_at(e, i, NULL)); i++)
        for (int k = 0; (b = dlsh_optimizer_at(e, k, NULL)); k++) {
            const dl_source first = dlsh_optimizer_source(a), then = dlsh_optimizer_source(b);
            if (!first.file || !then.file || strcmp(first.file, then.file) != 0 || strcmp(first.file, frozen.file) != 0)
                continue;
            if (frozen.line >= first.line || first.line >= then.line) continue;
            if (!dl_optimizer_steps(a) || !dl_optimizer_steps(b) || frozen_in_both(a, b) < 1) continue;
            dlsh_found(e, then.file, then.line, "requires_grad_(true) before it, or a first stage alone",
                       "what was frozen for the first training is never released: the second one trains no more\n"
                       "line %d froze it; %ld parameters of this optimizer, all of which were trained before, need no "
                       "gradient, the same as in the training of line %d",
                       frozen.line, frozen_in_both(a, b), first.line);
        }
}

static void find_never_released(dlsh_examination *e) {
    switching s = {e, line_of_freezing(1)};
    if (!s.frozen.file) return;
    DLSH_EACH_NODE (t) see_release(&s, t.file, t.n, t.within, t.depth);
    if (!e->bad) find_second_stage(e, s.frozen);
}

/* The last layer of the net is frozen, with the weights that it began with, while layers before it are trained: by a
 * line of the script, so that it may be meant. */
void dlsh_find_frozen_head(dlsh_examination *e, const char *file) {
    dl_module_list *l = e->net && dl_module_is_built(e->net) ? dl_module_tensors(e->net, 1) : NULL;
    long n = l ? l->n : 0, from = n, trained = 0;
    while (from > 0 && !dl_requires_grad(l->entries[from - 1].tensor) && dlsh_is_as_made(l->entries[from - 1].tensor))
        from--;
    for (long i = 0; i < from; i++) trained += dl_requires_grad(l->entries[i].tensor);
    int line = from < n && trained && from == trained ? dlsh_script_line_with(e, file, "requires_grad") : 0;
    if (line)
        dlsh_only_note(
            e, dlsh_found(e, file, line,
                          "none, if this is meant; else freeze what was trained before, and train the last layer",
                          "the last layer is frozen: %s and what follows keep the random weights they began with\n"
                          "%ld parameters before it are trained; nothing was written to its own",
                          l->entries[from].path, trained));
    dl_module_list_free(l);
}

/* Did the last training hardly make its loss lower? */
static int learns_nothing(const dlsh_examination *e) {
    const dl_journal_row *last = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (r->count >= 40 && (!last || r->till > last->till)) last = r;
    return last && !dlsh_settled_lower(last, 0.1);
}

/* Any other layer that is frozen with the weights that it began with. */
void dlsh_find_frozen_layer(dlsh_examination *e, const char *file) {
    dl_module_list *l = e->net && dl_module_is_built(e->net) ? dl_module_tensors(e->net, 1) : NULL;
    const int line = dlsh_script_line_with(e, file, "requires_grad");
    const char *first = NULL;
    long n = 0;
    for (long i = 0; l && line && i < l->n; i++) {
        const dl_tensor *p = l->entries[i].tensor;
        if (dl_requires_grad(p) || l->entries[i].buffer || !dlsh_is_as_made(p)) continue;
        if (!n++) first = l->entries[i].path;
    }
    const int fails = n && learns_nothing(e);
    if (n && n < l->n && !e->nnotes && !e->bad) {
        dlsh_finding *f =
            dlsh_found(e, file, line,
                       fails ? "release what was made new behind this line, requires_grad_(true), or freeze first and "
                               "put it in then"
                             : "none, if this is meant; else freeze what was trained before",
                       "%s is frozen with the random weights that it began with\n"
                       "%ld of %ld parameters of the net are not trained, and nothing was written to them%s",
                       first, n, l->n, fails ? "; the loss hardly falls without them" : "");
        if (!fails) dlsh_only_note(e, f);
    }
    dl_module_list_free(l);
}

dl_status dlsh_check_frozen(dlsh_examination *e) {
    const void *known = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        const char *name = "";
        look_at_noise(e, r);
        dl_module *m = r->what != known && r->grad ? dlsh_live_net(e, r->what, &name) : NULL;
        known = r->what;
        if (m) look_at_frozen(e, m, name);
    }
    find_never_released(e);
    return DL_OK;
}
