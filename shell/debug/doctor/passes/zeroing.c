/* Gradients that are zeroed in part: of some nets, or of some parameters of updates by hand. */
#include <stdio.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/syntax.h"

/* net.zero_grad() beside an optimizer that has parameters of other nets, too. */
typedef struct partly {
    const dlsh_examination *e;
    const dl_optimizer *o;
    const char *file, *name, *other; /* of the call; what it zeroes; the first parameter that it does not */
    int line;
} partly;

static int has_parameter(dl_module *m, const dl_tensor *p) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 1);
    for (long i = 0; l && i < l->n; i++)
        if (l->entries[i].tensor == p) return 1;
    return 0;
}

static int see_partly(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    static char name[120];
    partly *s = ctx;
    dl_tensor *p;
    (void)within, (void)depth;
    dl_module *m =
        dlsh_is_method(n, "zero_grad") ? dlsh_object_of(s->e, file, n->kids[0]->kids[0], &dlsh_net_class) : NULL;
    for (long i = 0; m && (p = dl_optimizer_param(s->o, i, NULL)); i++) {
        if (has_parameter(m, p) || !dl_requires_grad(p) || !dlsh_live_leaf(s->e, p, name, sizeof name)) continue;
        s->file = file, s->line = n->span.line, s->name = n->kids[0]->kids[0]->text, s->other = name;
        return 1;
    }
    return 0;
}

/* Those of some nets are zeroed, and those of others add up. */
int dlsh_zeroes_nets_partly(dlsh_examination *e, const dl_journal_row *step) {
    partly s = {.e = e, .o = dlsh_live_optimizer(e, step->what, NULL)};
    if (!s.o || !dlsh_each_node(see_partly, &s)) return 0;
    dlsh_finding *f = dlsh_find_at(e, s.file, s.line, "zero_grad of the optimizer, which has all of them");
    if (!f) return 1;
    dlsh_cause(f, "the gradients of %s alone are zeroed: others, as of %s, are not, and add up over all steps", s.name,
               s.other);
    dlsh_evidence(f,
                  "%ld of %ld steps (line %d) used a gradient that was added to one used before; the optimizer has "
                  "parameters that %s has not",
                  step->again, step->count, step->line, s.name);
    return 1;
}

/* w.grad.zero_(), or w.grad = none, in the text. */
static int see_zeroing(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    partly *s = ctx;
    const dlsh_node *method = dlsh_is_method(n, "zero_") ? n->kids[0]->kids[0] : NULL;
    const dlsh_node *set = n->kind == DLSH_N_ASSIGN && !n->op && n->nkids >= 2 ? n->kids[0] : NULL;
    const dlsh_node *of = method ? method : set && set->kind == DLSH_N_TUPLE ? set->kids[0] : set;
    int loop = 0;
    for (int i = 0; i < depth; i++) loop |= within[i]->kind == DLSH_N_FOR || within[i]->kind == DLSH_N_WHILE;
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
    const dl_journal_row *r;
    partly s = {.e = e};
    char names[160] = "";
    long other = 0, added = 0, total = 0;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_STEP, &i));) {
        if (r->what != step->what) continue;
        other += r->again == 0, added += r->again, total += r->count;
        const char *name = r->again ? changed_at(dlsh_text_root(r->file), r->line) : NULL;
        const size_t used = strlen(names);
        if (name) snprintf(names + used, sizeof names - used, "%s%s.grad", used ? ", " : "", name);
    }
    const int all = added > total - total / 8; /* of an optimizer: each step has some that were not zeroed */
    if ((step->what ? !all : !other && all) || !dlsh_each_node(see_zeroing, &s)) return 0;
    dlsh_finding *f = dlsh_find_at(e, s.file, s.line, "zero the gradient of each parameter that is changed");
    if (!f) return 1;
    dlsh_cause(f, "gradients are zeroed in part: %s %s not, and add%s up over all steps", *names ? names : "others",
               strchr(names, ',') || !*names ? "are" : "is", strchr(names, ',') || !*names ? "" : "s");
    dlsh_evidence(f, "%ld of %ld updates (line %d) used a gradient that was added to one used before", added, total,
                  step->line);
    return 1;
}
