/* Steps of optimizers: one that never takes any. */
#include "debug/doctor/passes/passes.h"

/* Steps of the optimizer, or updates of the caller's own. Of optimizers that are made anew for each step the journal
 * keeps some alone: that of this one may be among those left out. */
static int takes_steps(const dlsh_examination *e, const dl_optimizer *o) {
    int gone = 0;
    DLSH_EACH_ROW (r, e, DL_DID_STEP) {
        if (!r->what || r->what == o) return 1;
        gone += !dlsh_live_optimizer(e, r->what, NULL);
    }
    return e->trainer || gone > 2;
}

/* Do the passes of a row give parameters of the optimizer gradients? */
static int reaches(const dl_journal_row *r, const dl_optimizer *o) {
    for (int last = 0; last < 2; last++) {
        const dlsh_pass p = dlsh_pass_of(r, last);
        DLSH_EACH_OP (m, p)
            DLSH_EACH_OPERAND (v, m)
                if (v->leaf && dlsh_optimizer_has(o, v->leaf)) return 1;
    }
    return 0;
}

/* The step that comes next after a pass, before another one; NULL: there is none. */
static const dl_journal_row *step_after(const dlsh_examination *e, const dl_journal_row *pass) {
    const dl_journal_row *next = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_STEP)
        if (r->at > pass->at && (!next || r->at < next->at)) next = r;
    DLSH_EACH_ROW_WHILE (next, r, e, DL_DID_BACKWARD)
        if (r->at > pass->at && r->at < next->at) return NULL;
    return next;
}

/* An optimizer whose parameters get gradients again and again, but which is never asked for a step: another one may
 * take it in its place. */
void dlsh_find_idle_optimizers(dlsh_examination *e) {
    dl_optimizer *o;
    dl_trainer *of = NULL;
    for (int i = 0; (o = dlsh_optimizer_at(e, i, &of)); i++) {
        if (of || takes_steps(e, o)) continue;
        DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
            if (r->count < 3 || !reaches(r, o)) continue;
            const dl_journal_row *other = step_after(e, r), *at = other ? other : r;
            dlsh_found(e, at->file, at->line,
                       other ? "a step of the optimizer that has these parameters" : "o.step() after backward",
                       "the optimizer of line %d never takes a step: %s\n"
                       "%ld backward passes at line %d give its parameters gradients, and there is no step of %s",
                       dlsh_optimizer_source(o).line,
                       other ? "another one does, here" : "gradients are computed, and nothing uses them", r->count,
                       r->line, dl_optimizer_text(o));
        }
    }
}
