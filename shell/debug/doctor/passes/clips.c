/* Gradients that are clipped where that changes no step: before they are there, or when the step has used them. */
#include "debug/doctor/passes/passes.h"

#include <math.h>
#include <stdlib.h>

#include "debug/doctor/syntax.h"

static int pass_has_leaf(const dl_journal_row *r, const void *leaf) {
    return dlsh_pass_has(dlsh_pass_of(r, 0), leaf) || dlsh_pass_has(dlsh_pass_of(r, 1), leaf);
}

/* Clipped before the backward pass of the step: of the gradients of the step before, or of none. Passes and steps that
 * leave what was clipped alone are those of another net. */
static void find_early_clips(dlsh_examination *e) {
    const dl_journal_row *step;
    DLSH_EACH_ROW (clip, e, DL_DID_CLIP)
        DLSH_EACH_ROW (pass, e, DL_DID_BACKWARD) {
            int between = 0; /* a step, so that the clipping belongs to the pass behind it */
            for (long j = 0; pass_has_leaf(pass, clip->what) && (step = dlsh_row_next(e, DL_DID_STEP, &j));) {
                const dl_optimizer *o = step->what ? dlsh_live_optimizer(e, step->what, NULL) : NULL;
                if (!o || dlsh_optimizer_has(o, clip->what))
                    between |= step->till > pass->till && clip->till < pass->till;
            }
            if (!between || clip->at > pass->at || clip->count < 3 || labs(clip->count - pass->count) > 1) continue;
            dlsh_found(e, clip->file, clip->line, "clip behind backward, before the step",
                       "gradients are clipped before backward: those of the step are not clipped at all\n"
                       "%ld times this line ran before the backward pass of line %d, and the step came after it",
                       clip->count, pass->line);
        }
}

/* Does a row of a kind come between two times for the last time, as far as it is of a parameter? NULL: of any. */
static int comes_between(const dlsh_examination *e, dl_journal_kind kind, const void *what, unsigned long from,
                         unsigned long till) {
    DLSH_EACH_ROW (r, e, kind)
        if (r->till > from && r->till < till && (!what || r->what == what)) return 1;
    return 0;
}

/* The last backward pass before the last of these steps. */
static const dl_journal_row *pass_of_step(const dlsh_examination *e, const dl_journal_row *step) {
    const dl_journal_row *found = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (r->till < step->till && (!found || r->till > found->till)) found = r;
    return found && found->at < step->at ? found : NULL;
}

/* Steps that used each gradient once. */
static int uses_each_once(const dl_journal_row *step) { return step->count > 2 && 4 * step->again < step->count; }

static const char remedy[] = "clip between backward and the step";

static void judge_clip(dlsh_examination *e, const dl_journal_row *clip, const dl_journal_row *step) {
    const dl_optimizer *o = step->what ? dlsh_live_optimizer(e, step->what, NULL) : NULL;
    const dl_journal_row *pass = pass_of_step(e, step);
    if (!pass || (o ? !dlsh_optimizer_has(o, clip->what) : !pass_has_leaf(pass, clip->what)) || step->at > clip->at ||
        step->till > clip->till || comes_between(e, DL_DID_BACKWARD, NULL, step->till, clip->till) ||
        comes_between(e, DL_DID_CLIP, clip->what, pass->till, step->till))
        return;
    dlsh_found(e, clip->file, dlsh_line_beside(clip->file, clip->line, step->line), remedy,
               "gradients are clipped behind the step, which has used them as they were: no step is limited\n"
               "%ld times this line ran when the step of line %d was taken, and before the next backward pass; the "
               "limit is %.3g%s",
               clip->count, step->line, clip->limit,
               clip->high > 0 ? dlsh_kept(e, ", norms were up to %.3g", clip->high) : "");
}

static int is_gradient(const dlsh_node *n) { return n && n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad"); }

/* p.grad.clamp_(-k, k), p.grad.mul_(k / norm), p.grad *= k, p.grad = p.grad.clamp(-k, k) */
static int limits_gradient(const dlsh_node *n) {
    const dlsh_node *to = n->kind == DLSH_N_ASSIGN && n->nkids == 2 ? n->kids[0] : NULL;
    const dlsh_node *by = dlsh_is_call_of(n, "clamp_|mul_|div_|copy_|clip_") ? n->kids[0] : NULL;
    if (by) return by->kind == DLSH_N_FIELD && is_gradient(by->kids[0]);
    if (!is_gradient(to)) return 0;
    DLSH_EACH_BELOW (t, n->kids[1])
        if (is_gradient(t.n)) return 1;
    return n->op == DLSH_OP_MUL || n->op == DLSH_OP_DIV;
}

/* Does a statement that limits gradients stand between two lines, in the same pass of a loop? */
static int is_limited_between(const char *file, int from, int till) {
    DLSH_EACH_BELOW (t, dlsh_text_root(file))
        if (limits_gradient(t.n) && dlsh_runs_behind(file, t.n->span.line, from) &&
            dlsh_runs_behind(file, till, t.n->span.line))
            return 1;
    return 0;
}

/* The same by hand, where no call tells of it. */
static void judge_own_limit(dlsh_examination *e, const char *file, int line) {
    DLSH_EACH_ROW (step, e, DL_DID_STEP) {
        const dl_journal_row *pass = uses_each_once(step) && !strcmp(step->file, file) ? pass_of_step(e, step) : NULL;
        if (!pass || strcmp(pass->file, file) != 0 || !dlsh_runs_in_loop(file, line, step->line) ||
            !dlsh_runs_behind(file, line, step->line) || !dlsh_runs_behind(file, step->line, pass->line) ||
            is_limited_between(file, pass->line, step->line))
            continue;
        dlsh_found(e, file, dlsh_line_beside(file, line, step->line), remedy,
                   "gradients are limited behind the step, which has used them as they were: no step is limited\n"
                   "line %d changes them when the step of line %d was taken, and before the backward pass of line %d "
                   "gives new ones",
                   line, step->line, pass->line);
        return;
    }
}

void dlsh_find_misplaced_clips(dlsh_examination *e) {
    find_early_clips(e);
    DLSH_EACH_ROW (clip, e, DL_DID_CLIP)
        DLSH_EACH_ROW (step, e, DL_DID_STEP)
            if (clip->count > 2 && clip->limit < 1e6 && uses_each_once(step)) judge_clip(e, clip, step);
    DLSH_EACH_NODE (t)
        if (!e->bad && limits_gradient(t.n)) judge_own_limit(e, t.file, t.n->span.line);
}
