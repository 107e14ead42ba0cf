/* Gradients on their way to the optimizer: zeroed between steps, and of the parameters that it trains. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

/* ---------------------------------------------------------------- leaves */

/* A single pass beside a training, as somebody who tries something makes it. */
static int is_aside(const dlsh_examination *e, const dl_journal_row *pass) {
    DLSH_EACH_ROW_WHILE (pass->count == 1, r, e, DL_DID_BACKWARD)
        if (r->count > 4) return 1;
    return 0;
}

/* Calls see for each leaf with a gradient of the passes that were looked at. */
typedef int see_leaf(void *ctx, const dl_journal_node *n, const dl_journal_value *v);

/* from: 0 of the first pass of a place, too; 1: of the last one alone, as the first may be of an earlier training. */
static int each_leaf(const dlsh_examination *e, int from, see_leaf *see, void *ctx) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        if (is_aside(e, r)) continue;
        for (int last = from; last < 2; last++) {
            dlsh_pass p = dlsh_pass_of(r, last);
            DLSH_EACH_OP_UP (m, p)
                DLSH_EACH_OPERAND (v, m)
                    if (v->there && v->leaf && see(ctx, m, v)) return 1;
        }
    }
    return 0;
}

static int is_leaf(void *ctx, const dl_journal_node *n, const dl_journal_value *v) { return (void)n, v->leaf == ctx; }

/* Does a backward pass reach parameters of the optimizer? */
static int reaches(const dlsh_examination *e, const dl_optimizer *o) {
    dl_tensor *p;
    for (long i = 0; o && (p = dl_optimizer_param(o, i, NULL)); i++)
        if (each_leaf(e, 0, is_leaf, p)) return 1;
    return 0;
}

/* ---------------------------------------------------------------- zeroing */

/* The pass that came last before an event, or else any. */
static const dl_journal_row *pass_before(const dlsh_examination *e, unsigned long till) {
    const dl_journal_row *best = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (!best || (r->till < till && (best->till > till || r->till > best->till))) best = r;
    return best;
}

/* One optimizer is zeroed in place of another one. Was it found? */
static int zeroes_another(dlsh_examination *e, const dl_journal_row *step, const dl_journal_row *pass) {
    const char *name = NULL, *other = NULL;
    const dl_journal_row *zero = pass ? dlsh_zeroed_instead(e, step, pass) : NULL;
    if (!zero || !dlsh_live_optimizer(e, step->what, &name) || !dlsh_live_optimizer(e, zero->what, &other)) return 0;
    dlsh_found(e, zero->file, zero->line, dlsh_kept(e, "%s.zero_grad() in place of %s.zero_grad()", name, other),
               "%s.zero_grad() stands here, but the step is one of %s, which nothing zeroes: its gradients add up over "
               "all steps\n"
               "%ld of %ld steps of %s (line %d) used the gradient of the step before once more",
               other, name, step->again, step->count, name, step->line);
    return 1;
}

static void accumulates(dlsh_examination *e, const dl_journal_row *step) {
    const dl_journal_row *pass = pass_before(e, step->till), *seen = NULL;
    DLSH_EACH_ROW (zero, e, DL_DID_ZERO)
        if (!seen || (zero->what == step->what) > (seen->what == step->what) ||
            (zero->till > seen->till && (zero->what == step->what) == (seen->what == step->what)))
            seen = zero;
    if ((!seen && dlsh_zeroes_nets_partly(e, step)) || dlsh_zeroes_partly(e, step) || zeroes_another(e, step, pass))
        return;
    const char *name = "the optimizer", *other = NULL; /* which is zeroed, and this one is not */
    if (seen && seen->what && seen->what != step->what && dlsh_live_optimizer(e, seen->what, &other))
        dlsh_live_optimizer(e, step->what, &name);
    const long each = seen && !seen->what && step->total > 1 ? step->total : 1; /* by hand: each parameter by itself */
    const int misplaced = seen && (seen->what == step->what || !seen->what) && 2 * (seen->count / each) < step->count;
    const int beside = other && 2 * seen->count >= step->count;
    const int by_hand = !step->what && !seen;
    const dl_journal_row *at = misplaced || beside ? seen : pass && !by_hand ? pass : step;
    const int line = misplaced && pass && !strcmp(pass->file, at->file)
                         ? dlsh_line_beside(at->file, at->line, pass->line)
                         : at->line;
    dlsh_finding *f = dlsh_find_at(e, at->file, line,
                                   misplaced && pass && pass->count >= 2 * step->count
                                       ? "into the loop with it, behind the step: gradients of the batches "
                                         "that one step adds up stay together"
                                   : misplaced ? "into the loop over batches with it, in front of backward"
                                   : beside    ? dlsh_kept(e, "%s.zero_grad() beside %s.zero_grad()", name, other)
                                   : by_hand   ? "w.grad = none behind the update of each parameter w"
                                               : "o.zero_grad() before backward, or w.grad = none after each step");
    dlsh_cause(f, "gradients%s%s are not zeroed between steps: each backward adds to those of all steps before%s",
               other ? " of " : "", other ? name : "",
               misplaced ? "; zeroing stands outside of the loop over steps" : "");
    char where[200] = "nothing zeroes them";
    if (seen)
        snprintf(where, sizeof where, "%s%.60s were zeroed %ld times, at line %d", other ? "those of " : "they",
                 other ? other : "", seen->count, seen->line);
    dlsh_evidence(f, "%ld of %ld steps (line %d) used the gradient of the step before once more; %s", step->again,
                  step->count, step->line, where);
}

static void without_gradients(dlsh_examination *e, const dl_journal_row *step) {
    const dl_journal_row *pass = pass_before(e, step->till), *between = NULL;
    DLSH_EACH_ROW_WHILE (pass, zero, e, DL_DID_ZERO)
        if (zero->till > pass->till && zero->till < step->till) between = zero;
    const dl_journal_row *at = between ? between : step;
    dlsh_finding *f =
        dlsh_find_at(e, at->file, at->line,
                     between ? "zero_grad before backward, not between backward and step"
                             : "give the optimizer the parameters that backward reaches; call backward first");
    dlsh_cause(f, between ? "gradients are zeroed between backward and step: steps change nothing"
                          : "steps found no gradients: they change nothing");
    dlsh_evidence(f, "%ld of %ld steps (line %d) found no parameter with a gradient", step->empty, step->count,
                  step->line);
}

/* The largest gradient of a leaf in the last pass that was looked at. */
static double size_of_pass(const dl_journal_row *pass) {
    const dlsh_pass p = dlsh_pass_of(pass, 1);
    double size = 0;
    DLSH_EACH_OP (m, p)
        DLSH_EACH_OPERAND (v, m)
            if (v->leaf) size = fmax(size, v->gradient);
    return size;
}

/* Gradients were there, and all of them 0: something wrote zeros to them after backward. */
static int with_zeros(dlsh_examination *e, const dl_journal_row *step) {
    const dl_journal_row *pass = pass_before(e, step->till);
    dl_optimizer *o = dlsh_live_optimizer(e, step->what, NULL);
    dl_tensor *p = o && step->ratio[3] == 0 && step->high > 0 ? dl_optimizer_param(o, 0, NULL) : NULL;
    dl_source maker = {0}, writer = {0};
    if (!p || !pass || !dl_grad(p) || dlsh_was_found(e, "targets of the loss", "twice")) return 0;
    dlsh_tensor_places(dl_grad(p), &maker, &writer);
    if (!writer.file || (writer.line == pass->line && !strcmp(writer.file, pass->file))) return 0;
    if (writer.line == step->line || !(size_of_pass(pass) > 0)) return 0; /* backward itself gave zeros */
    dlsh_found(e, writer.file, writer.line, "zero_grad before backward, not between backward and step",
               "gradients are zeroed between backward and step: steps change nothing\n"
               "%ld steps (line %d) found gradients of 0; they were written last at this line",
               step->count, step->line);
    return 1;
}

/* Zeroed before each of many passes, and used after the last one alone. */
static void find_thrown_away(dlsh_examination *e, const dl_journal_row *step) {
    const dl_journal_row *pass = pass_before(e, step->till);
    dl_optimizer *o = dlsh_live_optimizer(e, step->what, NULL);
    if (!o || !pass || pass->count < 4 * step->count || !reaches(e, o)) return;
    DLSH_EACH_ROW (other, e, DL_DID_STEP)
        if (4 * other->count > pass->count) return; /* the pass is another optimizer's */
    DLSH_EACH_ROW (zero, e, DL_DID_ZERO) {
        if (zero->what != step->what || 10 * zero->count < 9 * pass->count) continue;
        dlsh_found(e, zero->file, zero->line, "o.step() after each backward, or zero_grad after the step",
                   "most gradients are thrown away: they are zeroed before a step has used them\n"
                   "%ld backward passes (line %d), each zeroed, and %ld steps (line %d)",
                   pass->count, pass->line, step->count, step->line);
    }
}

/* One loss that two statements pass back: its gradients count twice. */
static void find_passed_twice(dlsh_examination *e) {
    const dl_journal_row *a, *b;
    for (long i = 0; (a = dlsh_row_next(e, DL_DID_BACKWARD, &i));)
        for (long k = i; (b = dlsh_row_next(e, DL_DID_BACKWARD, &k));) {
            const dlsh_pass p = dlsh_pass_of(a, 1), q = dlsh_pass_of(b, 1);
            if (!p.n || p.n != q.n || p.at->seq != q.at->seq || a->count < 3 || a->count != b->count) continue;
            dlsh_found(e, b->file, b->line, "one backward for each loss",
                       "the same loss is passed back twice: its gradients are doubled\n"
                       "lines %d and %d went through the same nodes, %ld times",
                       a->line, b->line, b->count);
        }
}

/* Does a place of the text stand in a function or in a net? */
static int is_in_function(const dlsh_node *n, int at) {
    DLSH_EACH_BELOW_IF (t, n, at >= t.n->span.start && at < t.n->span.end)
        if (t.n->kind == DLSH_N_FN || t.n->kind == DLSH_N_NET) return 1;
    return 0;
}

/* Is the statement before the loop of a pass, and in no function that the loop may call? */
static int is_before_loop(const dl_source *made, const dl_journal_row *pass) {
    if (!made->file || strcmp(made->file, pass->file) != 0) return 0;
    const dlsh_node *n = dlsh_statement_at(made->file, made->line);
    return n && dlsh_is_before_loop(pass->file, made->line, pass->line) &&
           !is_in_function(dlsh_text_root(made->file), n->span.start);
}

/* A loss with the graphs of former passes in it, as a sum over batches that backward is called of. */
static void find_kept(dlsh_examination *e, const dl_journal_row *pass) {
    if (!pass->reached) return;
    const int once = is_before_loop(&pass->seeded, pass);
    dlsh_finding *g = once ? dlsh_find_at(e, pass->seeded.file, pass->seeded.line,
                                          "compute it in each pass; or make the result itself the parameter: "
                                          "param((randn(3, 4) * 0.1))")
                           : NULL;
    if (g)
        dlsh_cause(g, "a result with a history is computed once, before the loop: each backward goes through it again");
    if (g)
        dlsh_evidence(g, "%ld of %ld passes (line %d) went through what this line computed; steps do not change it",
                      pass->reached, pass->count, pass->line);
    if (once) return;
    dlsh_found(e, pass->joint.file, pass->joint.line,
               "detach() what comes from an earlier pass, or compute it anew; a sum that is only to "
               "be shown adds loss.item()",
               "the loss holds the graph of earlier passes: each backward goes through them again\n"
               "this line takes in a result that the pass before, in front of the last step, went through; so did %ld "
               "of %ld passes (line %d)",
               pass->reached, pass->count, pass->line);
}

/* More steps than backward passes: a gradient is used again. */
static void find_stepped_twice(dlsh_examination *e, const dl_journal_row *step) {
    const dl_journal_row *other = NULL;
    long passes = 0, steps = 0;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) passes += r->count;
    DLSH_EACH_ROW (r, e, DL_DID_STEP) {
        if (r->what != step->what) continue;
        steps += r->count;
        if (r->line != step->line && r->till > step->till) other = r;
    }
    dl_optimizer *o = dlsh_live_optimizer(e, step->what, NULL);
    if (!o || step->count < 5 || 2 * steps < 3 * passes || step->empty || !strcmp(dl_optimizer_kind(o), "lbfgs"))
        return;
    const dl_journal_row *at = other ? other : step;
    dlsh_found(e, at->file, at->line, "one step for each backward pass",
               "several steps are taken with the same gradients\n"
               "%ld steps of %s for %ld backward passes",
               steps, dl_optimizer_text(o), passes);
}

static int pass_has_leaf(const dl_journal_row *r, const void *leaf) {
    return dlsh_pass_has(dlsh_pass_of(r, 0), leaf) || dlsh_pass_has(dlsh_pass_of(r, 1), leaf);
}

/* Do parameters get gradients that no optimizer has, while others are asked for steps? Then that is the cause. */
static int has_untrained(dlsh_examination *e);

dl_status dlsh_check_zeroing(dlsh_examination *e) {
    long steps = 0;
    DLSH_EACH_ROW (r, e, DL_DID_STEP) {
        if (r->again && 4 * r->again >= r->count - 1) {
            accumulates(e, r);
        } else if (r->empty && 2 * r->empty >= r->count && reaches(e, dlsh_live_optimizer(e, r->what, NULL))) {
            if (!has_untrained(e)) without_gradients(e, r);
        } else if (!with_zeros(e, r)) {
            find_thrown_away(e, r);
        }
        if (r->what && !e->trainer) find_stepped_twice(e, r), dlsh_find_left_gradients(e, r);
        steps += r->count - r->empty;
    }
    dlsh_find_misplaced_clips(e);
    find_passed_twice(e);
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) find_kept(e, r);
    if (steps) dlsh_passed(e, "each of %ld steps had gradients of its own", steps);
    return DL_OK;
}

/* ---------------------------------------------------------------- membership */

/* Changed last by the caller's own update, or by the step of an optimizer, which may be gone by now. */
static int was_updated(const dlsh_examination *e, const dl_tensor *t) {
    const dl_source writer = dlsh_writer_of(t);
    DLSH_EACH_ROW (r, e, DL_DID_STEP)
        if (r->line == writer.line && writer.file && !strcmp(r->file, writer.file)) return 1;
    return 0;
}

/* In a pass that was looked at, as one of the operands that were noted, or by what it left behind. */
static int got_gradient(const dlsh_examination *e, dl_tensor *p) {
    return each_leaf(e, 0, is_leaf, p) || dl_grad(p) || was_updated(e, p);
}

typedef struct missing {
    dlsh_examination *e;
    int n;
    char names[200];
    const dl_journal_node *first;
    const void *seen[64];
} missing;

static int trained(const dlsh_examination *e, const void *leaf) {
    dl_optimizer *o;
    for (int i = 0; (o = dlsh_optimizer_at(e, i, NULL)); i++)
        if (dlsh_optimizer_has(o, leaf)) return 1;
    return 0;
}

int dlsh_is_being_trained(const dlsh_examination *e, const dl_tensor *t) {
    return dl_requires_grad(t) && (trained(e, t) || was_updated(e, t));
}

/* Was a net run with the memory of a leaf as its input, as of what an attack moves? */
static int is_input(const dlsh_examination *e, const dl_tensor *t) {
    const char *from = dl_data(t), *at;
    const long size = dl_numel(t) * (long)dl_dtype_size(dl_dtype_of(t));
    DLSH_EACH_ROW_WHILE (from, r, e, DL_DID_FORWARD)
        if ((at = r->data) && at >= from && at < from + size) return 1;
    return 0;
}

/* A leaf that is made anew between steps is no parameter of theirs. */
static int see_untrained(void *ctx, const dl_journal_node *n, const dl_journal_value *v) {
    missing *m = ctx;
    char name[120];
    for (int i = 0; i < m->n && i < 64; i++)
        if (m->seen[i] == v->leaf) return 0;
    dl_tensor *t = dlsh_live_leaf(m->e, v->leaf, name, sizeof name);
    if (!t || !dl_requires_grad(t) || trained(m->e, t) || was_updated(m->e, t)) return 0;
    if (v->fresh || is_input(m->e, t) || dlsh_is_of_fixed_target(m->e, v->leaf)) return 0;
    if (v == &n->in[0] && dlsh_op_is(n, "linear|matmul|conv2d") && n->in[1].leaf) return 0; /* an input */
    size_t used = strlen(m->names);
    if (m->n < 3) snprintf(m->names + used, sizeof m->names - used, "%s%s", used ? ", " : "", name);
    if (m->n < 64) m->seen[m->n] = v->leaf;
    if (!m->n++) m->first = n;
    return 0;
}

static int has_untrained(dlsh_examination *e) {
    missing m = {.e = e, .names = ""};
    return each_leaf(e, 1, see_untrained, &m), m.n > 0;
}

/* Does a pass reach the leaf, and none of the parameters of the optimizer whose step follows it? */
static int reaches_others(const dl_journal_row *pass, dl_optimizer *o, const void *leaf) {
    dl_tensor *p;
    for (long i = 0; (p = dl_optimizer_param(o, i, NULL)); i++)
        if (pass_has_leaf(pass, p)) return 0;
    return pass_has_leaf(pass, leaf);
}

/* The optimizer that takes steps, and the row of these; of several one whose steps find no gradients, or follow passes
 * that reach the leaf and nothing that it has (*wrong), and rather one that goes on as long as these passes. */
static dl_optimizer *stepping(const dlsh_examination *e, const void *leaf, const dl_journal_row **step, int *wrong) {
    dl_optimizer *o = NULL, *at;
    int near = 0;
    *wrong = 0;
    DLSH_EACH_ROW (r, e, DL_DID_STEP) {
        at = dlsh_live_optimizer(e, r->what, NULL);
        const dl_journal_row *pass = at ? pass_before(e, r->till) : NULL;
        const int others = pass && reaches_others(pass, at, leaf);
        const int nearer = pass && pass_has_leaf(pass, leaf) ? 1 + (r->till > pass->till) : 0;
        if (at && (!o || others || nearer > near || (!*wrong && 2 * r->empty > r->count)))
            o = at, *step = r, *wrong |= others, near = nearer > near ? nearer : near;
    }
    return o;
}

/* Do none of the passes before its steps reach what an optimizer has? */
static int is_of_former_net(const dlsh_examination *e, dl_optimizer *o, const dl_journal_row *step) {
    dl_tensor *p;
    DLSH_EACH_ROW_WHILE (step, r, e, DL_DID_BACKWARD)
        for (long k = 0; r->till > step->at && r->at < step->till && (p = dl_optimizer_param(o, k, NULL)); k++)
            if (pass_has_leaf(r, p)) return 0;
    return step != NULL;
}

/* The loss is computed with a copy of a net, and the optimizer has that net; former: it was given the name before. */
static void tell_copy(dlsh_examination *e, dl_source made, const dlsh_node *copy, const missing *m,
                      const dl_optimizer *o, int former) {
    const int net = (int)strcspn(m->names, ".");
    const char *more = m->n > 3 ? ", ..." : "";
    if (former)
        dlsh_found(e, made.file, made.line,
                   dlsh_kept(e, "%s(%.*s, ...) here: the net that the loss is computed with", dl_optimizer_kind(o), net,
                             m->names),
                   "the optimizer has the net that %.*s is a copy of: the copy gets gradients, and nothing trains it\n"
                   "line %d makes the copy, with weights of its own (%s%s); those of %s get no gradient",
                   net, m->names, copy->span.line, m->names, more, dl_optimizer_text(o));
    else
        dlsh_found(e, made.file, copy->span.line,
                   "one net for both, or give the optimizer the parameters of the copy, too",
                   "%.*s is a copy with weights of its own: they get gradients, but no optimizer trains them\n"
                   "%d parameters of the loss (%s%s) are not among those of %s, line %d",
                   net, m->names, m->n, m->names, more, dl_optimizer_text(o), made.line);
}

static void find_untrained(dlsh_examination *e) {
    const dl_journal_row *step = NULL;
    int wrong;
    missing m = {.e = e, .names = ""};
    each_leaf(e, 1, see_untrained, &m);
    dl_optimizer *o = m.n ? stepping(e, m.seen[0], &step, &wrong) : NULL;
    if (!o) return;
    dl_source made = dlsh_optimizer_place(e, o);
    const dlsh_node *copy = dlsh_copied_net(made.file, m.names);
    if (copy) return tell_copy(e, made, copy, &m, o, is_of_former_net(e, o, step));
    const char *kind = dl_optimizer_kind(o);
    const int name_of_net = (int)strcspn(m.names, ".,");
    /* than the optimizer, as a head that was put in place of another one */
    const int newer = dlsh_line_beside(made.file, dlsh_node_line(m.first), made.line);
    const int behind = newer > made.line && !strcmp(dlsh_node_file(m.first), made.file) && *m.first->layer_file;
    const int overwritten = dlsh_line_of_overwritten(&made);
    const int choice = overwritten || behind || wrong ? 0 : dlsh_line_of_choice(&made);
    const int listed = behind || wrong ? 0 : dlsh_line_of_list(e, &made);
    dlsh_finding *f = dlsh_find_at(
        e, made.file,
        overwritten ? overwritten
        : choice    ? choice
        : listed    ? listed
                    : made.line,
        overwritten ? "add to the list in each round, +=: here the last one overwrites the others"
        : choice    ? "a condition that leaves none out: the last list takes all that the others do not"
        : behind    ? dlsh_kept(e, "make this optimizer behind line %d, where its net has got these parameters", newer)
        : wrong
            ? dlsh_kept(e, "%s(%.*s, ...) here: the parameters that its loss is made of", kind, name_of_net, m.names)
            : dlsh_kept(e, "give the optimizer all that is to be trained: %s([a, b], lr=...), or a group more", kind));
    if (!f) return;
    dlsh_cause(f, "%s%s %s gradients, but no optimizer trains %s", m.names, m.n > 3 ? ", ..." : "",
               m.n > 1 ? "get" : "gets", m.n > 1 ? "them" : "it");
    const char *own = NULL;
    char has[160] = "", name[120];
    for (long i = 0, k = 0; dl_optimizer_param(o, i, &own) && k < 2; i++) {
        if (each_leaf(e, 0, is_leaf, dl_optimizer_param(o, i, &own))) continue;
        const size_t used = strlen(has);
        if (!dlsh_live_leaf(e, dl_optimizer_param(o, i, &own), name, sizeof name))
            snprintf(name, sizeof name, "%s", own);
        snprintf(has + used, sizeof has - used, "%s%s", used ? ", " : "; it has others, which get none: ", name);
        k++;
    }
    char seen[100] = "";
    if (wrong) snprintf(seen, sizeof seen, "; the pass before its step, line %d, reaches no others", step->line);
    dlsh_evidence(f, "%d parameter%s of the loss %s not among those of %s; first used at %s:%d%s%s", m.n,
                  m.n > 1 ? "s" : "", m.n > 1 ? "are" : "is", dl_optimizer_text(o), dlsh_node_file(m.first),
                  dlsh_node_line(m.first), has, seen);
}

/* The line that cuts off the loss whose backward comes before the steps of an optimizer; 0: it is not known. */
static int cut_before_step(const dlsh_examination *e, const dl_optimizer *o, const char **file) {
    const dl_journal_row *pass;
    DLSH_EACH_ROW (r, e, DL_DID_STEP) {
        pass = r->what == o ? pass_before(e, r->till) : NULL;
        if (pass) return dlsh_cut_line(e, *file = pass->file, pass->line);
    }
    return 0;
}

/* Do passes in the course of an optimizer's own steps leave a parameter out that others reached before, since the text
 * cuts its way to their loss? */
static int is_cut_by_now(const dlsh_examination *e, const dl_optimizer *o, dl_tensor *p) {
    const dl_journal_row *step = NULL;
    const char *file;
    long passes = 0;
    DLSH_EACH_ROW_WHILE (!step, r, e, DL_DID_STEP)
        if (r->what == o && r->count > 4) step = r;
    DLSH_EACH_ROW_WHILE (step, r, e, DL_DID_BACKWARD) {
        if (r->at > step->till || r->till < step->at) continue;
        if (pass_has_leaf(r, p)) return 0;
        passes++;
    }
    return passes && each_leaf(e, 0, is_leaf, p) && cut_before_step(e, o, &file);
}

enum { FREEZING = 3 };

/* A line of the script that cuts a history off on the way to a loss, or that freezes. */
static int cutting_line(const dlsh_examination *e, const dl_optimizer *o, const char **file) {
    static const char *const words[] = {"detach", ".data", "item()", "requires_grad"};
    const int own = cut_before_step(e, o, file);
    if (own) return own;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        int line = dlsh_cut_line(e, *file = r->file, r->line);
        if (line) return line;
    }
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        for (int w = 0; w < (int)DLSH_COUNT(words); w++) {
            int line = dlsh_script_line_with(e, r->file, words[w]);
            *file = r->file;
            if (line && (w == FREEZING || dlsh_comes_from(e, r->file, r->line, line))) return line;
        }
    return 0;
}

/* Does a net or a variable still have the parameter? */
static int is_held(const dlsh_examination *e, const dl_tensor *p) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        if (h->value.type != DLSH_TENSOR && h->value.type != DLSH_LIST && h->value.type != DLSH_RECORD &&
            !dlsh_unwrap(h->value, &dlsh_net_class) && !dlsh_unwrap(h->value, &dlsh_trainer_class))
            continue;
        if (h->value.type == DLSH_LIST || h->value.type == DLSH_RECORD) return 1; /* what they hold is not looked at */
        if (h->value.type == DLSH_TENSOR && h->value.as.tensor == p) return 1;
        dl_trainer *t = dlsh_unwrap(h->value, &dlsh_trainer_class);
        dl_module *m = t ? dl_trainer_model(t) : dlsh_unwrap(h->value, &dlsh_net_class);
        DLSH_ENDED(dl_module_list_free) dl_module_list *l = m ? dl_module_tensors(m, 1) : NULL;
        for (long k = 0; l && k < l->n; k++)
            if (l->entries[k].tensor == p) return 1;
    }
    return 0;
}

/* A variable of the loss that was made after an optimizer, which has it not; weights of nets are made late anyway. */
typedef struct newcomer {
    const dlsh_examination *e;
    dl_source than;
    char name[120];
    int line;
} newcomer;

static int see_newcomer(void *ctx, const dl_journal_node *n, const dl_journal_value *v) {
    newcomer *c = ctx;
    dl_source maker, writer;
    dl_tensor *t = dlsh_live_leaf(c->e, v->leaf, c->name, sizeof c->name);
    (void)n;
    if (!t || strchr(c->name, '.') || !dl_requires_grad(t) || trained(c->e, t)) return 0;
    dlsh_tensor_places(t, &maker, &writer);
    c->line = maker.file && !strcmp(maker.file, c->than.file) && maker.line > c->than.line ? maker.line : 0;
    return c->line > 0;
}

static void find_replaced(dlsh_examination *e, const dl_optimizer *o, const char *names, long n, long total) {
    dl_source made = dlsh_optimizer_source(o);
    if (dlsh_find_renewed_parameter(e, o, n)) return;
    newcomer c = {.e = e, .than = made};
    const int known = each_leaf(e, 0, see_newcomer, &c);
    dlsh_finding *f =
        dlsh_find_at(e, made.file, known ? c.line : made.line, "make the optimizer after the last change of the net");
    if (known)
        dlsh_cause(f, "%s was made after the optimizer of line %d, which trains what it replaces, and not it", c.name,
                   made.line);
    else
        dlsh_cause(f, "the optimizer trains parameters that no net has any more: they were replaced after it was made");
    dlsh_evidence(f,
                  "%ld of the %ld parameters of %s are in no net, and never got a gradient: %s; what stands in their "
                  "place is not trained",
                  n, total, dl_optimizer_text(o), names);
}

/* Layers of the optimizer's parameters, with a gradient or without. */
static void count_reached(const dlsh_examination *e, const dl_optimizer *o, dl_module *m, long *reached,
                          const dl_module **lost) {
    for (int i = 0; i < dl_module_count(m); i++) count_reached(e, o, dl_module_at(m, i), reached, lost);
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_count(m) ? NULL : dl_module_tensors(m, 1);
    for (long i = 0; l && i < l->n; i++) {
        dl_tensor *p = l->entries[i].tensor;
        if (!dl_requires_grad(p) || !dlsh_optimizer_has(o, p)) continue;
        if (got_gradient(e, p))
            ++*reached;
        else if (!*lost)
            *lost = m;
    }
}

/* The first layer of a net that no gradient reaches, where other layers of the same net get some. */
static dl_source layer_left_out(const dlsh_examination *e, const dl_optimizer *o) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        dl_trainer *t = dlsh_unwrap(h->value, &dlsh_trainer_class);
        dl_module *m = t ? dl_trainer_model(t) : dlsh_unwrap(h->value, &dlsh_net_class);
        const dl_module *lost = NULL;
        long reached = 0;
        if (m) count_reached(e, o, m, &reached, &lost);
        if (reached && lost) return dlsh_module_source(lost);
    }
    return (dl_source){0};
}

static void find_unreached(dlsh_examination *e, dl_optimizer *o) {
    const char *name, *file = NULL;
    char names[200] = "";
    dl_tensor *p, *first = NULL;
    long n = 0, total = 0, any = 0, lost = 0, before = 0;
    for (long i = 0; (p = dl_optimizer_param(o, i, &name)); i++) {
        total++;
        if (!dl_requires_grad(p)) continue;
        any++;
        const int cut = is_cut_by_now(e, o, p);
        if (got_gradient(e, p) && !cut) continue;
        lost += !is_held(e, p), before |= cut;
        if (!first) first = p;
        size_t used = strlen(names);
        char own[120] = "";
        if (!dlsh_live_leaf(e, p, own, sizeof own)) *own = 0;
        if (n++ < 3) snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", *own ? own : name);
    }
    if (!n) return;
    dl_source made = dlsh_optimizer_source(o);
    if (n == any && lost != n && has_untrained(e)) return; /* told by find_untrained: it was given the wrong ones */
    if (lost == n) {
        find_replaced(e, o, names, n, total);
        return;
    }
    int cut = dlsh_cut_by_trial(e, first, &file);
    if (!cut) cut = cutting_line(e, o, &file);
    const dlsh_lost gone = cut ? (dlsh_lost){.made = 0} : dlsh_lost_result(names);
    const dl_source layer = cut ? made : gone.made || gone.instead ? gone.at : layer_left_out(e, o);
    dlsh_finding *f =
        dlsh_find_at(e,
                     cut          ? file
                     : layer.file ? layer.file
                                  : made.file,
                     cut          ? cut
                     : layer.file ? layer.line
                                  : made.line,
                     gone.taker     ? dlsh_kept(e, "give %s the state: %s(..., %s)", gone.taker, gone.taker, gone.name)
                     : gone.instead ? dlsh_kept(e, "the part itself: %s stands here once more", gone.instead)
                     : layer.file && !cut ? "let its result go into what the net returns"
                     : cut                ? "use the result itself, which has a history; or leave the parameters out"
                           : "make the optimizer for the net that the loss is computed with, after it was made");
    if (!f) return;
    dlsh_cause(f,
               n == any ? "the optimizer trains parameters that the loss does not depend on"
                        : "%s%s %s trained, but no gradient reaches %s",
               names, n > 3 ? ", ..." : "", n > 1 ? "are" : "is", n > 1 ? "them" : "it");
    dlsh_evidence(f, "%ld of the %ld parameters of %s, made at line %d, never got a gradient%s: %s%s%s", n, total,
                  dl_optimizer_text(o), made.line, before ? " for its steps" : "", names, n > 3 ? ", ..." : "",
                  cut ? "; this line takes what is computed with them without its history" : "");
    const size_t used = strlen(f->evidence);
    if (gone.made)
        snprintf(f->evidence + used, sizeof f->evidence - used, "; nothing reads %s of line %d%s%s%s", gone.name,
                 gone.made, gone.taker ? ", and " : "", gone.taker ? gone.taker : "",
                 gone.taker ? " begins without a state" : "");
}

/* A parameter of a training by hand that no gradient reaches, since the text cuts its way to the loss. */
static void find_cut_by_hand(dlsh_examination *e) {
    const dl_journal_row *pass = NULL;
    long by_hand = 0;
    DLSH_EACH_ROW (r, e, DL_DID_STEP) by_hand += r->what ? -(1L << 40) : r->count;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (r->count > 3 && r->nnodes[1]) pass = r;
    const int cut = pass && by_hand > 3 ? dlsh_cut_line(e, pass->file, pass->line) : 0;
    DLSH_EACH_HOLDER_WHILE (cut, h, &e->holders) {
        dl_tensor *t = h->value.type == DLSH_TENSOR ? h->value.as.tensor : NULL;
        if (!t || !dl_requires_grad(t) || !dl_is_leaf(t) || dl_ndim(t) < 2 || dl_grad(t)) continue;
        if (each_leaf(e, 0, is_leaf, t)) continue;
        dlsh_found(e, pass->file, cut, "use the result itself, which has a history",
                   "no gradient reaches %s: this line cuts the history between it and the loss\n"
                   "it is a parameter and never got a gradient in %ld passes (line %d); others are trained",
                   h->name, pass->count, pass->line);
        return;
    }
}

/* Backward of a tensor that is a leaf itself. */
static void find_leaf_losses(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        if (r->nnodes[0] || r->nnodes[1]) continue;
        int cut = dlsh_cut_line(e, r->file, r->line);
        dlsh_found(e, r->file, cut ? cut : r->line, "call backward of the loss itself",
                   "the loss has no history: a new tensor, detached from what it was computed from\n"
                   "%ld backward passes at line %d went through no op, so that no parameter got a gradient",
                   r->count, r->line);
    }
}

/* Steps at the place of this row, of whichever optimizers. */
static long steps_there(dlsh_examination *e, const dl_journal_row *step) {
    long n = 0;
    DLSH_EACH_ROW (r, e, DL_DID_STEP)
        if (r->line == step->line && !strcmp(r->file ? r->file : "", step->file ? step->file : "")) n += r->count;
    return n;
}

/* An optimizer with a state of its own that is made again before each step. */
static void find_made_anew(dlsh_examination *e, const dl_journal_row *step) {
    dl_optimizer *o = dlsh_live_optimizer(e, step->what, NULL);
    const int stateless = o && !strcmp(dl_optimizer_kind(o), "sgd") && !(dl_optimizer_option(o, "momentum", 0) > 0);
    const long steps = steps_there(e, step);
    if (!o || stateless || steps < 10 || dl_optimizer_steps(o) > 2) return;
    dl_source made = dlsh_optimizer_source(o);
    dlsh_found(e, made.file, made.line, "make the optimizer once, before the loop",
               "the optimizer is made anew for each step: what it keeps of former gradients is lost\n"
               "%ld steps at line %d, of which the optimizer that is left made %ld",
               steps, step->line, dl_optimizer_steps(o));
}

static const dlsh_node *step_call(const dlsh_node *n, int line) {
    DLSH_EACH_BELOW (t, n)
        if (dlsh_is_method(t.n, "step") && t.n->span.line == line) return t.n;
    return NULL;
}

/* The same of an optimizer that is gone by now, a variable of a function: it is made where no loop stands between. */
static void find_made_in_function(dlsh_examination *e, const dl_journal_row *step) {
    static const char kinds[] = "adam|adamw|nadam|radam|adamax|adagrad|adadelta|rmsprop|lion|lamb|muon|sgd";
    const dlsh_node *root = dlsh_text_root(step->file), *call = step_call(root, step->line);
    const dlsh_node *o = call ? call->kids[0]->kids[0] : NULL;
    int at;
    if (!o || o->kind != DLSH_N_NAME || steps_there(e, step) < 10 || dlsh_live_optimizer(e, step->what, NULL)) return;
    const dlsh_node *made = dlsh_definition_of(step->file, o->text, call->span.start, &at);
    const dlsh_node *by = made && made->kind == DLSH_N_CALL ? made->kids[0] : NULL;
    if (!dlsh_is_call_of(made, kinds)) return;
    if (!strcmp(by->text, "sgd") && !dlsh_argument_of(made, 99, "momentum")) return;
    const dlsh_node *loop = dlsh_block_around(root, call->span.start);
    if (!loop || dlsh_block_around(root, made->span.start) != loop) return;
    dlsh_found(e, step->file, made->span.line, "make the optimizer once, before the loop",
               "the optimizer is made anew for each step: what it keeps of former gradients is lost\n"
               "%ld steps at line %d, each of an optimizer that was made just before",
               steps_there(e, step), step->line);
}

dl_status dlsh_check_membership(dlsh_examination *e) {
    long steps = 0, params = 0, frozen = 0;
    const dl_tensor *p;
    find_leaf_losses(e);
    if (!e->bad) find_cut_by_hand(e);
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) dlsh_find_heavy_penalty(e, r);
    DLSH_EACH_ROW_WHILE (!e->bad, r, e, DL_DID_STEP) {
        dl_optimizer *o = dlsh_live_optimizer(e, r->what, NULL);
        if (o) find_unreached(e, o);
        find_made_anew(e, r);
        find_made_in_function(e, r);
        for (long k = 0; o && (p = dl_optimizer_param(o, k, NULL)); k++) params++, frozen += !dl_requires_grad(p);
        steps += o != NULL;
    }
    dlsh_find_remade_parameters(e);
    if (!dlsh_was_found(e, e->check, "replaced") && !dlsh_was_found(e, e->check, "no longer the parameter") &&
        !dlsh_was_found(e, e->check, "made anew for each pass"))
        find_untrained(e);
    dlsh_find_idle_optimizers(e);
    dl_optimizer *any = dlsh_optimizer_at(e, 0, NULL);
    if (any)
        dlsh_find_frozen_head(e, dlsh_optimizer_source(any).file),
            dlsh_find_frozen_layer(e, dlsh_optimizer_source(any).file);
    char still[60] = "";
    if (frozen) snprintf(still, sizeof still, ", %ld of them frozen", frozen);
    if (steps)
        dlsh_passed(e,
                    "%ld parameters are in optimizers%s: of the trained ones each got gradients, and no other one did",
                    params, still);
    return DL_OK;
}
