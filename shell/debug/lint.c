/* Mistakes of training that the text alone shows, said before it runs: a gradient asked of what was detached, steps in
 * a loop that never zeroes gradients. */
#include "debug/lint.h"

#include <string.h>

#include "debug/detached.h"
#include "lang/command.h"

typedef struct lint {
    dlsh_session *s;
    const dlsh_unit *unit;
} lint;

static int is_loop(const dlsh_node *n) { return n->kind == DLSH_N_FOR || n->kind == DLSH_N_WHILE; }

static int is_name(const dlsh_node *n, const char *name) {
    return n && n->kind == DLSH_N_NAME && !strcmp(n->text, name);
}

static int is_field(const dlsh_node *n, const char *name) {
    return n && n->kind == DLSH_N_FIELD && !strcmp(n->text, name);
}

/* ---------------------------------------------------------------- x.grad after detach */

static void see_detached(void *ctx, const dlsh_detached *d) {
    const lint *l = ctx;
    if (d->itself)
        dlsh_warn_at(l->s, d->use->span, "ask the tensor it was made of, or leave detach out",
                     "%s was detached at line %d: it has no gradient", d->name, d->line);
    else
        dlsh_warn_at(l->s, d->use->span, "compute the loss from the tensor itself, without detach()",
                     "%s goes into the loss through detach() alone, line %d: backward gives it no gradient", d->name,
                     d->line);
}

/* ---------------------------------------------------------------- steps without zeroing */

/* What a loop does, functions that it calls included. */
typedef struct work {
    const dlsh_node *step, *loop, *steps_in; /* the innermost loop here; and where the step is */
    int backward, zeroes;
} work;

static void look_at_work(const lint *l, const dlsh_node *n, work *w, int depth);

/* The function of that name in the text. */
static const dlsh_node *function_of(const dlsh_node *n, const char *name) {
    if (!n) return NULL;
    if (n->kind == DLSH_N_FN && n->text && !strcmp(n->text, name)) return n;
    const dlsh_node *found = NULL;
    for (int i = 0; i < n->nkids && !found; i++) found = function_of(n->kids[i], name);
    return found;
}

static void look_at_call(const lint *l, const dlsh_node *n, work *w, int depth) {
    const dlsh_node *callee = n->kids[0];
    if (is_field(callee, "step") && n->nkids == 1 && callee->kids[0]->kind == DLSH_N_NAME && !w->step)
        w->step = n, w->steps_in = w->loop;
    if (is_field(callee, "step") && n->nkids > 1) w->zeroes = 1; /* with a function, or of a scaler */
    if (is_field(callee, "backward") || is_name(callee, "backward")) w->backward = 1;
    if (callee->kind != DLSH_N_NAME || depth > 4) return;
    const dlsh_node *f = function_of(l->unit->root, callee->text);
    const dlsh_value *v = f ? NULL : dlsh_get(l->s, callee->text);
    if (f) look_at_work(l, f->kids[f->nkids - 1], w, depth + 1);
    if (v && v->type == DLSH_FN) w->zeroes = 1; /* of another text: not known */
}

static void look_at_work(const lint *l, const dlsh_node *n, work *w, int depth) {
    if (!n) return;
    if (n->kind == DLSH_N_FIELD && strstr(n->text, "zero_grad")) w->zeroes = 1;
    if (n->kind == DLSH_N_NAME && strstr(n->text, "zero_grad")) w->zeroes = 1;
    if (n->kind == DLSH_N_COMMAND && n->num.cmd && !strcmp(n->num.cmd->name, "backward")) w->backward = 1;
    if (n->kind == DLSH_N_ASSIGN)
        for (int i = 0; i + 1 < n->nkids; i++) w->zeroes |= is_field(n->kids[i], "grad");
    if (n->kind == DLSH_N_FIELD && (!strcmp(n->text, "zero_") || !strcmp(n->text, "grads"))) w->zeroes = 1;
    if (n->kind == DLSH_N_CALL) look_at_call(l, n, w, depth);
    const dlsh_node *outer = w->loop;
    if (is_loop(n)) w->loop = n;
    for (int i = 0; i < n->nkids; i++) look_at_work(l, n->kids[i], w, depth);
    w->loop = outer;
}

static void look_at_loop(const lint *l, const dlsh_node *n) {
    work w = {.loop = n};
    look_at_work(l, n->kids[n->nkids - 1], &w, 0);
    if (!w.step || !w.backward || w.zeroes) return;
    dlsh_warn_at(l->s, w.step->span, "o.zero_grad() before backward",
                 "the loop at line %d takes steps and never zeroes gradients: they add up", w.steps_in->span.line);
}

/* ---------------------------------------------------------------- all of it */

/* The outermost loops: what stands in an inner one may be zeroed in the outer one. */
static void walk(const lint *l, const dlsh_node *n, int inside) {
    if (!n) return;
    if (is_loop(n) && !inside) look_at_loop(l, n);
    for (int i = 0; i < n->nkids; i++) walk(l, n->kids[i], inside || is_loop(n));
}

void dlsh_lint(dlsh_session *s, const dlsh_unit *unit) {
    lint l = {s, unit};
    dlsh_each_detached(unit, see_detached, &l);
    walk(&l, unit->root, 0);
}
