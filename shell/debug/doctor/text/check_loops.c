/* Statements that stand in the wrong loop, or have no effect there: a value that is set anew where it should be carried
 * on, a new tensor under a name of the loop, a loop over batches that ends at once, steps outside of it. */
#include <math.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/text/reads.h"

/* ---------------------------------------------------------------- values that are set anew in each pass */

/* Zeros, a number, none, or an empty list. */
static int is_fresh(const dlsh_node *v) {
    static const char making[] = "zeros|ones|full|empty|tensor|zeros_like|randn|new_zeros";
    if (v->kind == DLSH_N_TUPLE) {
        for (int i = 0; i < v->nkids; i++)
            if (!is_fresh(v->kids[i])) return 0;
        return v->nkids > 0;
    }
    return v->kind == DLSH_N_INT || v->kind == DLSH_N_FLOAT || v->kind == DLSH_N_NONE ||
           (v->kind == DLSH_N_LIST && !v->nkids) || (dlsh_is_call_of(v, making));
}

static const dlsh_node *made_of_itself(const dlsh_node *n, const char *name);

/* The statement of a body that makes the value of what it was, in no inner loop. */
static const dlsh_node *carried(const dlsh_node *block, int from, const char *name) {
    const dlsh_node *found = NULL;
    for (int i = from; block && i < block->nkids && !found; i++) found = made_of_itself(block->kids[i], name);
    return found;
}

static const dlsh_node *made_of_itself(const dlsh_node *n, const char *name) {
    if (!n) return NULL;
    if (n->kind == DLSH_N_IF) {
        const dlsh_node *found = NULL;
        for (int i = 1; i < n->nkids && !found; i++)
            found = n->kids[i] && n->kids[i]->kind == DLSH_N_IF ? made_of_itself(n->kids[i], name)
                                                                : carried(n->kids[i], 0, name);
        return found;
    }
    if (n->kind == DLSH_N_EXPR && n->nkids &&
        (dlsh_is_method(n->kids[0], "append") || dlsh_is_method(n->kids[0], "add_")))
        return dlsh_names(n->kids[0]->kids[0]->kids[0], name) ? n : NULL;
    if (n->kind != DLSH_N_ASSIGN || !dlsh_assigns(n, name)) return NULL;
    return n->op || dlsh_mentions(n->kids[n->nkids - 1], name) ? n : NULL;
}

/* x[:, t] with a variable of the loop: a place of a sequence, not a sample of a batch. */
static int takes_place(const dlsh_node *n, const dlsh_node *loop) {
    DLSH_EACH_BELOW (t, n) {
        for (int i = 2; t.n->kind == DLSH_N_INDEX && i < t.n->nkids; i++)
            if (t.n->kids[i]->kind == DLSH_N_NAME && dlsh_assigns(loop, t.n->kids[i]->text)) return 1;
    }
    return 0;
}

static void find_set_anew(dlsh_examination *e, const char *file, const dlsh_node *loop, const dlsh_node *set,
                          const dlsh_node *use, const char *name) {
    dlsh_found(e, file, set->span.line, "set it before the loop",
               "%s is set anew in each pass of the loop: what passes before left in it is lost\n"
               "line %d makes it of what it was, in the same loop (line %d), so that the last pass alone counts",
               name, use->span.line, loop->span.line);
}

static void look_at_set(dlsh_examination *e, const char *file, const dlsh_node *loop, int at, const dlsh_node *scope) {
    const dlsh_node *body = dlsh_body_of(loop), *set = body->kids[at];
    if (set->kind != DLSH_N_ASSIGN || set->op || !is_fresh(set->kids[set->nkids - 1])) return;
    for (int k = 0; k + 1 < set->nkids; k++) {
        const char *name = set->kids[k]->kind == DLSH_N_NAME ? set->kids[k]->text : NULL;
        const dlsh_node *use = name ? carried(body, at + 1, name) : NULL;
        if (!use) continue;
        const int updates = use->kind == DLSH_N_EXPR; /* itself a mention */
        const int lost = dlsh_reads(body, name) - updates <= 0 && dlsh_reads_behind(scope, name, loop->span.end) > 0;
        const int places = loop->kind == DLSH_N_FOR && !dlsh_trains(body) && takes_place(use, loop);
        if (lost || places) find_set_anew(e, file, loop, set, use, name);
    }
}

/* ---------------------------------------------------------------- new values for a loop's own name */

static int has_gradient_of(const dlsh_node *n, const char *name) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_FIELD && !strcmp(t.n->text, "grad") && dlsh_names(t.n->kids[0], name)) return 1;
    return 0;
}

/* p = p - rate * p.grad, of a name that the loop gives its items, and nothing reads it behind. */
static void look_at_rebound(dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *owner) {
    const char *name = n->kids[0]->kind == DLSH_N_NAME && n->nkids == 2 && !n->op ? n->kids[0]->text : NULL;
    if (!name || !dlsh_mentions(n->kids[1], name)) return;
    int own = owner->kind == DLSH_N_FOR && dlsh_assigns(owner, name);
    for (int i = 0; owner->kind == DLSH_N_FN && i + 1 < owner->nkids; i++)
        own |= owner->kids[i]->kind == DLSH_N_PARAM && !strcmp(owner->kids[i]->text, name);
    if (!own || dlsh_reads_behind(dlsh_body_of(owner), name, n->span.end)) return;
    const int gradient = has_gradient_of(n->kids[1], name);
    dlsh_found(e, file, n->span.line,
               gradient ? "change the parameter in place: p -= rate * p.grad"
                        : "change it in place: x.mul_(2), x[:] = ..., or put the result back",
               "%s = ... gives the name a new %s: %s\n"
               "%s stands for %s, and nothing reads it after this line",
               name, gradient ? "tensor" : "value",
               gradient ? "the parameter itself stays as it was" : "what it stood for stays as it was", name,
               owner->kind == DLSH_N_FOR ? "an item of the loop" : "an argument of the function");
}

/* ---------------------------------------------------------------- loops over batches */

static const dlsh_node *break_in(const dlsh_node *n) {
    DLSH_EACH_BELOW_IF (t, n, !dlsh_is_loop(t.n) && t.n->kind != DLSH_N_FN)
        if (t.n->kind == DLSH_N_BREAK) return t.n;
    return NULL;
}

static int is_within_lines(const dlsh_node *n, int line) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->span.line == line && t.n->kind != DLSH_N_BLOCK) return 1;
    return 0;
}

/* Backward passes and steps within a loop. */
static long count_in(const dlsh_examination *e, dl_journal_kind kind, const char *file, const dlsh_node *loop) {
    long most = 0;
    DLSH_EACH_ROW (r, e, kind)
        if (!strcmp(r->file, file) && is_within_lines(dlsh_body_of(loop), r->line))
            most = r->count > most ? r->count : most;
    return most;
}

/* range(n): n, for passes of a loop; range(0, n, b): how many batches; NaN: it is not known. */
static double range_of(const dlsh_examination *e, const char *file, const dlsh_node *seq) {
    if (seq->kind != DLSH_N_CALL || !dlsh_names(seq->kids[0], "range")) return NAN;
    const double a = dlsh_number_of(e, file, seq->kids[1]);
    if (seq->nkids == 2) return a;
    const double b = dlsh_number_of(e, file, seq->kids[2]);
    return seq->nkids == 3 ? b - a : ceil((b - a) / dlsh_number_of(e, file, seq->kids[3]));
}

/* Batches of a pass over the data; NaN: the loop is over something else. */
static double batches_of(const dlsh_examination *e, const char *file, const dlsh_node *loop) {
    dlsh_dealt l;
    const dlsh_node *seq = loop->kids[loop->nkids - 2];
    if (seq->kind == DLSH_N_CALL && dlsh_names(seq->kids[0], "range"))
        return seq->nkids == 4 ? range_of(e, file, seq) : NAN;
    if (!dlsh_loader_around(e, file, dlsh_body_of(loop)->nkids ? dlsh_body_of(loop)->kids[0]->span.line : 0, &l) ||
        !l.data)
        return NAN;
    while (seq->kind == DLSH_N_CALL && seq->nkids > 1 &&
           (dlsh_names(seq->kids[0], "progress") || dlsh_names(seq->kids[0], "enumerate")))
        seq = seq->kids[1];
    if (seq->kind == DLSH_N_NAME) seq = dlsh_definition_of(file, seq->text, loop->span.start, NULL);
    const dlsh_node *batch = seq && seq->kind == DLSH_N_CALL ? dlsh_argument_of(seq, 1, "batch") : NULL;
    const double size = batch ? dlsh_number_of(e, file, batch) : NAN;
    return ceil((double)dl_dataset_len(l.data, l.split) / size);
}

/* How often the loops around a place run it, those around the only call of its function included; NaN: it is not known.
 */
static double rounds_of(const dlsh_examination *e, const char *file, int place, int level) {
    enum { DEEPEST = 64, LEVELS = 8 };
    const dlsh_node *root = dlsh_text_root(file), *within[DEEPEST], *fn = NULL;
    const int depth = root ? dlsh_nodes_around(root, place, within, DEEPEST) : 0;
    double rounds = 1;
    for (int i = 0; i < depth; i++) {
        if (within[i]->kind == DLSH_N_FN) rounds = 1, fn = within[i];
        if (within[i]->kind == DLSH_N_WHILE || within[i]->kind == DLSH_N_IF) rounds = NAN;
        if (within[i]->kind != DLSH_N_FOR || within[i]->span.start == place) continue;
        rounds *= break_in(dlsh_body_of(within[i])) ? NAN : range_of(e, file, within[i]->kids[within[i]->nkids - 2]);
    }
    if (!fn) return rounds;
    const dlsh_node *call = level < LEVELS ? dlsh_only_call(root, fn) : NULL;
    return call ? rounds * rounds_of(e, file, call->span.start, level + 1) : NAN;
}

static void look_at_break(dlsh_examination *e, const char *file, const dlsh_node *loop) {
    const dlsh_node *by = break_in(dlsh_body_of(loop));
    const double all = by ? batches_of(e, file, loop) : NAN,
                 rounds = by ? rounds_of(e, file, loop->span.start, 0) : NAN;
    const long ran = by ? count_in(e, DL_DID_BACKWARD, file, loop) : 0;
    if (!ran || !((double)ran < 0.5 * all * rounds)) return;
    dlsh_found(e, file, by->span.line, "leave `break` out, once the loop is known to run",
               "`break` ends the loop over batches after %.2g of %.0f: the other samples are not trained on\n"
               "%ld backward passes in %.0f runs of the loop of line %d, which has %.0f batches",
               (double)ran / rounds, all, ran, rounds, loop->span.line, all);
}

/* Is the loss of a pass scaled, as where gradients of batches are added up on purpose? */
static int is_scaled(const dl_journal_row *r) {
    const dlsh_pass p = dlsh_pass_of(r, 1);
    const int mean = p.n && dlsh_op_is(p.at, "div") && dlsh_op_is(dlsh_pass_source(p, p.at, 0), "square_sum|sum");
    return !p.n || (!mean && dlsh_op_is(p.at, "div|mul|sum|square_sum")) || strstr(p.at->attrs, "sum");
}

static void look_at_steps(dlsh_examination *e, const char *file, const dlsh_node *loop, const dlsh_node *outer) {
    const dl_journal_row *step = NULL, *pass = NULL;
    const int lost = dlsh_was_found(e, "gradients are zeroed", "before a step has used them");
    double all = batches_of(e, file, loop);
    if ((!(all >= 4) && !(lost && isnan(all))) || count_in(e, DL_DID_STEP, file, loop)) return;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (!strcmp(r->file, file) && is_within_lines(dlsh_body_of(loop), r->line)) pass = r;
    DLSH_EACH_ROW (r, e, DL_DID_STEP)
        if (!strcmp(r->file, file) && is_within_lines(dlsh_body_of(outer), r->line)) step = r;
    if (!pass || !step || is_scaled(pass) || pass->count < 4 * step->count) return;
    if (isnan(all)) all = floor((double)pass->count / (double)step->count);
    dlsh_take_back(e, "gradients are zeroed", "before a step has used them");
    dlsh_found(e, file, step->line, "move it, and zero_grad, into the loop over batches",
               "the step stands outside of the loop over batches: there is one for all batches together\n"
               "%ld backward passes (line %d), but %ld steps; the loop of line %d has %.0f batches",
               pass->count, pass->line, step->count, loop->span.line, all);
}

/* ---------------------------------------------------------------- a state that is cut off at each time */

/* A statement of a loop that makes s anew of an s without history; *carried: one that makes s of what it was. */
static const dlsh_node *state_cut_in(const dlsh_node *n, const char **name, int *carried) {
    DLSH_EACH_BELOW_IF (t, n, t.n->kind != DLSH_N_FN)
        for (int i = 0; t.n->kind == DLSH_N_ASSIGN && i < t.n->nkids - 1; i++) {
            const dlsh_node *to = t.n->kids[i], *value = t.n->kids[t.n->nkids - 1];
            const dlsh_node *cut = to->kind == DLSH_N_NAME ? dlsh_cut_of_name(value, to->text) : NULL;
            if (cut) return *name = to->text, *carried |= cut != value, t.n;
        }
    return NULL;
}

static int carries(const dlsh_node *n, const char *name) {
    if (!n) return 0;
    if (n->kind == DLSH_N_ASSIGN && dlsh_assigns(n, name)) {
        const dlsh_node *value = n->kids[n->nkids - 1];
        return dlsh_mentions(value, name) && value != dlsh_cut_of_name(value, name);
    }
    for (int i = 0; i < n->nkids; i++)
        if (carries(n->kids[i], name)) return 1;
    return 0;
}

/* Is it an item of a loop, or what is picked by one? A number that is counted is no data. */
static dlsh_property is_item(void *loop, const dlsh_step *at) {
    const dlsh_node *l = loop, *n = at->n;
    const int picks = n->kind == DLSH_N_INDEX, counts = dlsh_is_call_of(l->kids[l->nkids - 2], "range");
    for (int k = 0; (picks || !counts) && k + 2 < l->nkids; k++)
        if (l->kids[k]->text && (picks ? dlsh_mentions : dlsh_names)(n, l->kids[k]->text)) return DLSH_HAS_FIRST;
    return DLSH_MAY_HAVE;
}

/* Does a tree hold a loss, or the call of a function that trains? */
static int has_loss(const char *file, const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n) {
        const char *by = t.n->kind == DLSH_N_CALL ? t.n->kids[0]->text : NULL;
        if (by && (dlsh_speaks_of(by, "loss|entropy") || dlsh_trains(dlsh_function_of(file, by)))) return 1;
    }
    return 0;
}

/* Does a statement of several names carry another one on, uncut? */
static int carries_other(const dlsh_node *n, const dlsh_node *to, const char *name) {
    const dlsh_node *value = n->kids[n->nkids - 1];
    int found = to && to->kind == DLSH_N_NAME && strcmp(to->text, name) != 0 && dlsh_mentions(value, to->text) &&
                !dlsh_cut_of_name(value, to->text);
    for (int i = 0; to && i < to->nkids - (to == n) && !found; i++) found = carries_other(n, to->kids[i], name);
    return found;
}

/* The line of the statement that makes a state, always cut off, of itself and of data of each time; 0: there is none.
 */
static int line_of_times(const char *file, const dlsh_node *loop, const dlsh_node *cut, const char *name) {
    int line = 0, always = 0;
    for (int i = 0; i < dlsh_body_of(loop)->nkids; i++) {
        const dlsh_node *n = dlsh_body_of(loop)->kids[i];
        const dlsh_node *value = n->kind == DLSH_N_ASSIGN && dlsh_assigns(n, name) ? n->kids[n->nkids - 1] : NULL;
        always |= n == cut;
        if (dlsh_mentions(value, name) && !carries_other(n, n, name) && dlsh_origin(file, value, is_item, (void *)loop))
            line = n->span.line;
    }
    return always && !has_loss(file, loop) ? line : 0;
}

/* Does a pass go through a weight at that line? */
static int trains_at(dlsh_pass p, const char *file, int line) {
    for (long k = 0; k < p.n; k++)
        for (int j = 0; p.at[k].line == line && !strcmp(p.at[k].file, file) && j < p.at[k].nin && j < 8; j++)
            if (p.at[k].in[j].there && p.at[k].in[j].leaf) return 1;
    return 0;
}

/* Within a loop that no backward pass is in: of all times the last one alone learns. Where the training goes well, one
 * time is enough, as at a fixed point, unless each time has data of its own. */
static void look_at_cut_state(dlsh_examination *e, const char *file, const dlsh_node *loop) {
    const char *name = NULL;
    const dl_journal_row *pass = NULL;
    int carried = 0;
    const dlsh_node *by = dlsh_trains(loop) ? NULL : state_cut_in(dlsh_body_of(loop), &name, &carried);
    if (!by || (!carried && !carries(dlsh_body_of(loop), name)) || dlsh_mentions(loop, "grad"))
        return; /* or z is moved */
    const int times = line_of_times(file, loop, by, name);
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        if (strcmp(r->file, file) != 0 || r->count < 16) continue;
        if (dlsh_settled_lower(r, 0.8) && !trains_at(dlsh_pass_of(r, 1), file, times)) return;
        pass = r;
    }
    if (pass)
        dlsh_found(
            e, file, by->span.line, "leave it out here; detach between pieces, where a backward pass was before",
            "the history of %s is cut at each time of the loop: no gradient reaches what came in before the last time\n"
            "%s is made of itself in the loop of line %d, without its history; there is no backward pass in the loop; "
            "the loss (line %d) went from %.4g to %.4g in %ld passes",
            name, name, loop->span.line, pass->line, pass->first, pass->last, pass->count);
}

/* A cut in a loop that holds no backward pass, and a line, where `within` is set. */
typedef struct cut_in_loop {
    const char *file;
    int within, line, loop;
} cut_in_loop;

static int has_line(const dlsh_node *n, int line) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->span.line == line) return 1;
    return 0;
}

static int see_cut(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    cut_in_loop *c = ctx;
    const dlsh_node *loop = NULL;
    const int cuts = dlsh_is_method(n, "detach") || (n->kind == DLSH_N_FIELD && !strcmp(n->text, "data"));
    for (int i = 0; cuts && i < depth; i++)
        if (dlsh_is_loop(within[i]) && !dlsh_trains(within[i])) loop = within[i];
    if (!loop || strcmp(file, c->file) != 0 || (c->within && !has_line(loop, c->within))) return 0;
    if (dlsh_mentions(loop, "grad")) return 0; /* samples are moved */
    c->line = n->span.line, c->loop = loop->span.line;
    return 1;
}

/* The node that makes what an operand without history was made by, too, and that is computed with that: the next value
 * of a state. NULL: there is none. *times: how many such nodes the pass has. */
static const dl_journal_node *next_state(dlsh_pass p, const dl_journal_node *n, const dl_journal_value *v,
                                         long *times) {
    const dl_journal_node *found = NULL;
    *times = 0;
    DLSH_EACH_OP_UP (m, p) {
        if (m->line != v->made.line || !v->made.file || strcmp(m->file, v->made.file) != 0 || m->out.ndim != v->ndim ||
            memcmp(m->out.shape, v->shape, sizeof v->shape) != 0)
            continue;
        const dl_journal_node *user = dlsh_pass_user(p, m);
        if (user && user->line == m->line && !strcmp(user->file, m->file)) continue; /* within the statement */
        ++*times;
        if (!found && dlsh_is_made_of(p, m, n)) found = m;
    }
    return found;
}

/* By what ran: each time takes in the state without its history, which it got in the same pass. */
static void look_at_cut_on_tape(dlsh_examination *e, const dl_journal_row *r) {
    const dlsh_pass p = dlsh_pass_of(r, 1);
    const void *seen[64] = {NULL};
    int nseen = 0;
    long times = 0;
    const dl_journal_node *next = NULL;
    for (long k = p.n - 1; k >= 0 && r->count > 15; k--)
        for (int j = 0; j < p.at[k].nin && j < 8; j++) {
            const dl_journal_value *v = &p.at[k].in[j];
            long n = 0;
            int known = 0;
            if (!v->there || !v->constant || !v->fresh || !v->ndim || !(v->std > 0)) continue;
            const dl_journal_node *m = next_state(p, &p.at[k], v, &n);
            if (!m) continue;
            next = m, times = n;
            for (int i = 0; i < nseen; i++) known |= seen[i] == v->data;
            if (!known && nseen < (int)DLSH_COUNT(seen)) seen[nseen++] = v->data;
        }
    cut_in_loop c = {.file = next ? next->file : ""};
    if (!next || nseen + 1 < times || dlsh_settled_lower(r, 0.6) || !dlsh_each_within(see_cut, &c)) return;
    dlsh_found(e, c.file, c.line, "leave it out here; detach between pieces, where a backward pass was before",
               "the state of line %d loses its history at each time of the loop: no gradient reaches what came in "
               "before the last time\n"
               "in the last pass looked at (line %d) %d of %ld states that line %d made came in again without history; "
               "the loss went from %.4g to %.4g in %ld passes",
               next->line, r->line, nseen, nseen < times ? times : nseen + times, next->line, r->first, r->last,
               r->count);
}

/* How often a pass goes through the first weight of a net; 0: it has none. */
static long uses_of(dlsh_pass p, dl_module *m) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 1);
    long uses = 0;
    for (long i = 0; l && !uses && i < l->n; i++)
        for (long k = 0; k < p.n; k++) {
            const dl_journal_value *w = dlsh_node_weight(&p.at[k], NULL);
            uses += w && w->leaf == l->entries[i].tensor;
        }
    return uses;
}

/* A net that runs several times for a pass, of which the pass goes through the last one, as its state is cut. */
static void look_at_cut_net(dlsh_examination *e, const dl_journal_row *r) {
    const dlsh_pass p = dlsh_pass_of(r, 1);
    DLSH_EACH_ROW_WHILE (r->count > 15, f, e, DL_DID_FORWARD) {
        dl_module *m = f->grad && f->count >= 3 * r->count ? dlsh_live_net(e, f->what, NULL) : NULL;
        cut_in_loop c = {.file = f->file, .within = f->line};
        if (!m || uses_of(p, m) != 1 || dlsh_settled_lower(r, 0.6) || !dlsh_each_within(see_cut, &c)) continue;
        dlsh_found(e, c.file, c.line, "leave it out here; detach between pieces, where a backward pass was before",
                   "a state loses its history at each time of the loop: no gradient reaches what came in before the "
                   "last time\n"
                   "the net of line %d ran %ld times for %ld passes (line %d), and each of these goes through it once; "
                   "the loss went from %.4g to %.4g",
                   f->line, f->count, r->count, r->line, r->first, r->last);
        return;
    }
}

/* ---------------------------------------------------------------- the check */

static void see_loop(dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *const *within,
                     int depth) {
    if (dlsh_is_loop(n)) {
        const dlsh_node *scope = dlsh_scope_of(within, depth), *outer = NULL;
        for (int i = 0; i < depth; i++) outer = dlsh_is_loop(within[i]) ? within[i] : outer;
        for (int i = 0; scope && i < dlsh_body_of(n)->nkids; i++) look_at_set(e, file, n, i, scope);
        look_at_cut_state(e, file, n);
        if (dlsh_trains(n)) dlsh_find_carried_state(e, file, n);
        if (n->kind == DLSH_N_FOR) look_at_break(e, file, n);
        if (n->kind == DLSH_N_FOR && outer) look_at_steps(e, file, n, outer);
    }
    for (int i = depth - 1; n->kind == DLSH_N_ASSIGN && i >= 0; i--) {
        if (within[i]->kind != DLSH_N_FOR && within[i]->kind != DLSH_N_FN) continue;
        look_at_rebound(e, file, n, within[i]);
        break;
    }
}

dl_status dlsh_check_loops(dlsh_examination *e) {
    long i = 0;
    const dl_journal_row *r;
    if (dlsh_row_next(e, DL_DID_BACKWARD, &i))
        DLSH_EACH_NODE (t) see_loop(e, t.file, t.n, t.within, t.depth);
    dlsh_find_not_turned_back(e);
    for (i = 0; !dlsh_was_found(e, e->check, "is cut at each time") && (r = dlsh_row_next(e, DL_DID_BACKWARD, &i));)
        look_at_cut_on_tape(e, r), look_at_cut_net(e, r);
    return DL_OK;
}
