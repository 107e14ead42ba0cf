/* A net that was trained before and gives the targets of another one, whose optimizer has its parameters, too: both
 * come nearer to each other, and the teacher forgets what it knows. */
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"

/* A parameter of the optimizer that a pass gives gradients, and that the other one has (or has not). */
static const void *parameter_of(dlsh_pass p, const dl_optimizer *o, const dl_optimizer *other, int has) {
    DLSH_EACH_OP (n, p)
        DLSH_EACH_OPERAND (v, n)
            if (v->there && v->leaf && v->gradient > 0 && dlsh_optimizer_has(o, v->leaf) &&
                dlsh_optimizer_has(other, v->leaf) == has)
                return v->leaf;
    return NULL;
}

static void judge(dlsh_examination *e, dlsh_pass p, const dl_journal_row *before, const dl_journal_row *now) {
    const dl_optimizer *first = dlsh_live_optimizer(e, before->what, NULL),
                       *o = dlsh_live_optimizer(e, now->what, NULL);
    const void *taught = first && o ? parameter_of(p, o, first, 0) : NULL,
               *own = taught ? parameter_of(p, o, first, 1) : NULL;
    char name[120] = "", other[120] = "";
    if (!own || !dlsh_live_leaf(e, own, name, sizeof name) || !dlsh_live_leaf(e, taught, other, sizeof other)) return;
    const dl_source made = dlsh_optimizer_source(o);
    const dlsh_node *call = dlsh_call_on_line(made.file, made.line, dl_optimizer_kind(o));
    const dlsh_node *given = call && call->nkids > 1 ? dlsh_defined(made.file, call->kids[1]) : NULL;
    dlsh_found(e, made.file, made.line,
               "the parameters of the net that learns alone, and a target without history: no_grad, or detach()",
               "a net that was trained before is changed by what it teaches: the optimizer has its parameters, too\n"
               "%s, which %ld steps trained before, is trained with %s%s; the loss of line %d compares both with each "
               "other and with no data",
               name, before->count, other, given ? dlsh_kept(e, ": line %d joins them", given->span.line) : "",
               p.at->line);
}

void dlsh_find_changed_teacher(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(r, 1);
        if (!p.n || dlsh_compares(p)) continue;
        DLSH_EACH_ROW (now, e, DL_DID_STEP)
            DLSH_EACH_ROW (before, e, DL_DID_STEP)
                if (now->what && before->what && now->what != before->what && before->till < now->at &&
                    before->count > 2 && now->till >= r->at && r->till >= now->at)
                    judge(e, p, before, now);
    }
}
