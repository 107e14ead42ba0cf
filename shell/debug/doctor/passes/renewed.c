/* Parameters whose name a program gives to another tensor, so that the optimizer has one that nothing uses. */
#include "debug/doctor/passes/passes.h"

#include <string.h>

#include "debug/doctor/syntax.h"

/* z = z.detach() of a parameter, in a loop; NULL: there is no such statement. */
static const dlsh_node *renewal(const char *file) {
    DLSH_EACH_BELOW (t, dlsh_text_root(file)) {
        const dlsh_node *to = t.n->kind == DLSH_N_ASSIGN && t.n->nkids == 2 ? t.n->kids[0] : NULL;
        if (!to || to->kind != DLSH_N_NAME || !dlsh_tree_in_loop(&t) || !dlsh_cut_of_name(t.n->kids[1], to->text))
            continue;
        const dlsh_node *made = dlsh_definition_of(file, to->text, t.n->span.start, NULL);
        if (dlsh_is_call_of(made, "param|Parameter|requires_grad_")) return t.n;
    }
    return NULL;
}

int dlsh_find_renewed_parameter(dlsh_examination *e, const dl_optimizer *o, long n) {
    const dl_source made = dlsh_optimizer_source(o);
    const dlsh_node *by = made.file ? renewal(made.file) : NULL;
    if (!by) return 0;
    dlsh_found(e, made.file, by->span.line, "change the parameter in place: no_grad { z.clamp_(-1, 1) }",
               "%s is cut off from its history, and is no longer the parameter that the optimizer has: no gradient "
               "reaches that\n"
               "the line gives the name to a new tensor; %ld parameter%s of %s, made at line %d, never got a gradient",
               by->kids[0]->text, n, n > 1 ? "s" : "", dl_optimizer_text(o), made.line);
    return 1;
}

/* ---------------------------------------------------------------- made anew for each pass */

/* Does the text of a place make parameters: the statement, or the function around it? */
static int makes_parameters(const char *file, int line) {
    const dlsh_node *n = dlsh_statement_at(file, line), *root = dlsh_text_root(file), *around[DLSH_AROUND];
    const int depth = root && n ? dlsh_functions_around(root, n->span.start, around) : 0;
    if (dlsh_mentions(n, "param") || dlsh_mentions(n, "Parameter")) return 1;
    return depth && (dlsh_mentions(around[depth - 1], "param") || dlsh_mentions(around[depth - 1], "Parameter"));
}

/* Does the text take the gradient of something as a value, as of an input that is changed by it? */
static int see_gradient(void *ctx, const char *file, const dlsh_node *n) {
    static const char taking[] = "grad|vjp|jvp|jacobian|hessian|value_and_grad|grad_and_value";
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : n->kind == DLSH_N_FIELD ? n : NULL;
    return by && by->text && !strcmp(file, ctx) && dlsh_is_word(taking, by->text);
}

/* Is every optimizer that took steps still there? Then no training of an inner loop, with parameters of its own, has
 * ended. */
static int has_all_optimizers(const dlsh_examination *e) {
    const dl_journal_row *r;
    long steps = 0;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_STEP, &i)); steps += r->count)
        if (!r->what || !dlsh_live_optimizer(e, r->what, NULL)) return 0;
    return steps > 3;
}

static int is_remade(const dl_journal_value *v) {
    return v->there && v->leaf && v->fresh && v->made.file && v->ndim && v->gradient >= 0 &&
           (*v->name || makes_parameters(v->made.file, v->made.line));
}

static dlsh_property is_call_of_net(void *ctx, const dlsh_step *s) {
    const int call = s->n->kind == DLSH_N_CALL && dlsh_object_of(ctx, s->file, s->n->kids[0], &dlsh_net_class);
    return call ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Is what param() takes at a place computed by a net? */
static int is_made_of_net(const dlsh_examination *e, dl_source at) {
    const dlsh_node *call = dlsh_call_on_line(at.file, at.line, "param|Parameter");
    return call && call->nkids > 1 && dlsh_origin(at.file, call->kids[1], is_call_of_net, (void *)e);
}

void dlsh_find_remade_parameters(dlsh_examination *e) {
    if (!has_all_optimizers(e)) return;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(r, 1);
        for (long k = p.n - 1; k >= 0 && r->count - r->since > 3; k--)
            for (int j = 0; j < p.at[k].nin && j < 8; j++) {
                const dl_journal_value *v = &p.at[k].in[j];
                if (!is_remade(v) || dlsh_each_node(see_gradient, (void *)v->made.file)) continue;
                const int layer = *p.at[k].layer_file && *v->name;
                const int of_net = !layer && is_made_of_net(e, v->made);
                dlsh_finding *f = dlsh_find_at(
                    e, layer ? p.at[k].layer_file : v->made.file, layer ? p.at[k].layer_line : v->made.line,
                    of_net ? "use the value itself, which has a history"
                           : "make it once, before the loop or as a part of the net (p: param "
                             "randn(...) * 0.02), and give it to the optimizer");
                if (!f) continue;
                if (of_net) {
                    dlsh_cause(f, "param() takes the numbers that a net gave, without their history: no gradient goes "
                                  "back to that net");
                    dlsh_evidence(f, "%s at line %d is given a new parameter in each of %ld passes (line %d)",
                                  p.at[k].op, p.at[k].line, r->count, r->line);
                    continue;
                }
                dlsh_cause(f, "a parameter is made anew for each pass: it stays as random as it was made, and no step "
                              "changes it");
                dlsh_evidence(
                    f,
                    "what %s uses at line %d was made after the last step, %ld passes (line %d); no optimizer "
                    "has it",
                    p.at[k].op, p.at[k].line, r->count, r->line);
            }
    }
}
