/* Gradients that are zeroed in part: of some nets, or of some parameters of updates by hand; in place of those of
 * another optimizer; before another loss leaves some in them. */
#include <stdio.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/syntax.h"

/* net.zero_grad() beside an optimizer that has parameters of other nets, too. */
typedef struct partly {
    const dlsh_examination *e;
    const dl_optimizer *o;
    const void *leaf;
    const char *file, *name, *other; /* of the call; what it zeroes; the first parameter that it does not */
    int line;
} partly;

static int see_partly(void *ctx, const char *file, const dlsh_node *n) {
    static char name[120];
    partly *s = ctx;
    dl_tensor *p;
    dl_module *m =
        dlsh_is_method(n, "zero_grad") ? dlsh_object_of(s->e, file, n->kids[0]->kids[0], &dlsh_net_class) : NULL;
    for (long i = 0; m && (p = dl_optimizer_param(s->o, i, NULL)); i++) {
        if (dlsh_net_has(m, p) || !dl_requires_grad(p) || !dlsh_live_leaf(s->e, p, name, sizeof name)) continue;
        s->file = file, s->line = n->span.line, s->name = n->kids[0]->kids[0]->text, s->other = name;
        return 1;
    }
    return 0;
}

/* Those of some nets are zeroed, and those of others add up. */
int dlsh_zeroes_nets_partly(dlsh_examination *e, const dl_journal_row *step) {
    partly s = {.e = e, .o = dlsh_live_optimizer(e, step->what, NULL)};
    if (!s.o || !dlsh_each_node(see_partly, &s)) return 0;
    dlsh_found(e, s.file, s.line, "zero_grad of the optimizer, which has all of them",
               "the gradients of %s alone are zeroed: others, as of %s, are not, and add up over all steps\n"
               "%ld of %ld steps (line %d) used the gradient of the step before once more; the optimizer has "
               "parameters that %s has not",
               s.name, s.other, step->again, step->count, step->line, s.name);
    return 1;
}

/* w.grad.zero_(), or w.grad = none, in the text. */
static int see_zeroing(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    partly *s = ctx;
    const dlsh_node *method = dlsh_is_method(n, "zero_") ? n->kids[0]->kids[0] : NULL;
    const dlsh_node *set = n->kind == DLSH_N_ASSIGN && !n->op && n->nkids >= 2 ? n->kids[0] : NULL;
    const dlsh_node *of = method ? method : set && set->kind == DLSH_N_TUPLE ? set->kids[0] : set;
    int loop = 0;
    for (int i = 0; i < depth; i++) loop |= dlsh_is_loop(within[i]);
    if (!loop || !of || of->kind != DLSH_N_FIELD || strcmp(of->text, "grad") != 0) return 0;
    s->file = file, s->line = n->span.line, s->name = of->kids[0]->text;
    return 1;
}

/* What the statement at a line changes with its gradient, by hand; NULL: it is not known. */
static const char *changed_at(const dlsh_node *n, int line) {
    const char *found = NULL;
    for (int i = 0; n && i < n->nkids && !found; i++) found = changed_at(n->kids[i], line);
    if (found || !n || n->kind != DLSH_N_ASSIGN || n->span.line != line || !n->op) return found;
    return n->kids[0]->kind == DLSH_N_NAME ? n->kids[0]->text : NULL;
}

/* Updates by hand, of whose gradients some are zeroed by hand. */
int dlsh_zeroes_partly(dlsh_examination *e, const dl_journal_row *step) {
    partly s = {.e = e};
    char names[160] = "";
    long other = 0, added = 0, total = 0;
    DLSH_EACH_ROW (r, e, DL_DID_STEP) {
        if (r->what != step->what) continue;
        other += r->again == 0, added += r->again, total += r->count;
        const char *name = r->again ? changed_at(dlsh_text_root(r->file), r->line) : NULL;
        const size_t used = strlen(names);
        if (name) snprintf(names + used, sizeof names - used, "%s%s.grad", used ? ", " : "", name);
    }
    const int all = added > total - total / 8; /* of an optimizer: each step has some that were not zeroed */
    if ((step->what ? !all : !other && all) || !dlsh_each_within(see_zeroing, &s)) return 0;
    dlsh_found(e, s.file, s.line, "zero the gradient of each parameter that is changed",
               "gradients are zeroed in part: %s %s not, and add%s up over all steps\n"
               "%ld of %ld updates (line %d) used the gradient of the one before once more",
               *names ? names : "others", strchr(names, ',') || !*names ? "are" : "is",
               strchr(names, ',') || !*names ? "" : "s", added, total, step->line);
    return 1;
}

/* ---------------------------------------------------------------- of another optimizer */

/* The innermost loop or function around a line; NULL: none. */
static const dlsh_node *block_of(const char *file, int line) {
    int places[DLSH_LEVELS];
    return dlsh_places_of(file, line, places) ? dlsh_block_around(dlsh_text_root(file), places[0]) : NULL;
}

/* Does the other optimizer step in that block as often as it is zeroed there? */
static int is_of_its_own_steps(const dlsh_examination *e, const dl_journal_row *zero, const dlsh_node *block) {
    int zeroed = 0, steps = 0;
    DLSH_EACH_ROW (r, e, DL_DID_ZERO) zeroed += r->what == zero->what && block_of(r->file, r->line) == block;
    DLSH_EACH_ROW (r, e, DL_DID_STEP) steps += r->what == zero->what && block_of(r->file, r->line) == block;
    return steps >= zeroed;
}

const dl_journal_row *dlsh_zeroed_instead(const dlsh_examination *e, const dl_journal_row *step,
                                          const dl_journal_row *pass) {
    const dl_journal_row *found = NULL;
    const dlsh_node *block = block_of(step->file, step->line);
    DLSH_EACH_ROW (r, e, DL_DID_ZERO) {
        if (r->what == step->what) return NULL;
        if (!r->what || !block || r->line > pass->line || block_of(r->file, r->line) != block) continue;
        if (!is_of_its_own_steps(e, r, block) && (!found || r->line > found->line)) found = r;
    }
    return found;
}

/* ---------------------------------------------------------------- left by another loss */

/* Did both go on through the whole training, and the second after the first, in its first round and in its last? */
static int follows(const dl_journal_row *a, const dl_journal_row *b) {
    return b->at > a->at && b->till > a->till && 20 * b->count >= a->count;
}

/* A parameter of an optimizer that gets a gradient in a pass; NULL: none does. */
static const void *shared_leaf(const dl_optimizer *o, const dl_journal_row *pass) {
    const dlsh_pass p = dlsh_pass_of(pass, 1);
    for (long i = 0; o && i < p.n; i++)
        for (int k = 0; k < p.at[i].nin && k < 8; k++) {
            const dl_journal_value *v = &p.at[i].in[k];
            if (v->leaf && v->gradient > 0 && dlsh_optimizer_has(o, v->leaf)) return v->leaf;
        }
    return NULL;
}

/* The step of another optimizer that a pass is for, in the same round; NULL: there is none. */
static const dl_journal_row *step_for(const dlsh_examination *e, const dl_journal_row *pass, const void *but) {
    const dl_journal_row *found = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_STEP)
        if (r->till > pass->till && (!found || r->till < found->till)) found = r;
    const int own = found && found->what && found->what != but && 2 * found->count >= pass->count;
    return own && shared_leaf(dlsh_live_optimizer(e, found->what, NULL), pass) ? found : NULL;
}

/* net.zero_grad() of a net that has a parameter. */
static int see_net_zeroed(void *ctx, const char *file, const dlsh_node *n) {
    const partly *s = ctx;
    dl_module *m =
        dlsh_is_method(n, "zero_grad") ? dlsh_object_of(s->e, file, n->kids[0]->kids[0], &dlsh_net_class) : NULL;
    return m && dlsh_net_has(m, s->leaf);
}

/* The only statement that zeroes the gradients of a step's optimizer: behind the step, and before the other loss, so
 * that nothing zeroes what that leaves. NULL: it is another, or there are several. */
static const dl_journal_row *zeroed_too_early(const dlsh_examination *e, const dl_journal_row *step,
                                              const dl_journal_row *other, const void *leaf) {
    const dl_journal_row *found = NULL;
    partly s = {.e = e, .leaf = leaf};
    DLSH_EACH_ROW (r, e, DL_DID_ZERO) {
        if (r->what && r->what != step->what) continue;
        if (r->till < step->at) continue; /* before the training */
        if (found || !r->what || !follows(step, r) || !follows(r, other)) return NULL;
        found = r;
    }
    return found && !dlsh_each_within(see_zeroing, &s) && !dlsh_each_node(see_net_zeroed, &s) ? found : NULL;
}

void dlsh_find_left_gradients(dlsh_examination *e, const dl_journal_row *step) {
    const dl_journal_row *own = NULL;
    const char *name = NULL, *by = NULL;
    dl_optimizer *o = step->what ? dlsh_live_optimizer(e, step->what, &name) : NULL;
    if (!o || step->count < 3) return;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (r->till < step->till && r->at < step->at && (!own || r->till > own->till) && shared_leaf(o, r)) own = r;
    DLSH_EACH_ROW_WHILE (own, other, e, DL_DID_BACKWARD) {
        const void *leaf = follows(step, other) ? shared_leaf(o, other) : NULL;
        const dl_journal_row *next = leaf ? step_for(e, other, step->what) : NULL;
        const dl_journal_row *zero = next ? zeroed_too_early(e, step, other, leaf) : NULL;
        if (!zero || !dlsh_live_optimizer(e, next->what, &by)) continue;
        dlsh_found(e, zero->file, zero->line,
                   dlsh_kept(e, "%s.zero_grad() right before its own backward pass, at line %d", name, own->line),
                   "gradients that another loss leaves are not zeroed: each step of %s adds them to those of its own "
                   "loss\n"
                   "the loss of line %d, for the step of %s (line %d), goes back through parameters of %s as well; "
                   "these are zeroed before it and not behind it, and line %d adds to what it left",
                   name, other->line, by, next->line, name, own->line);
        return;
    }
}
