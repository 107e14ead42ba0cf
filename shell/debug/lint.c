/* Mistakes of training that the text alone shows, said before it runs: a gradient asked of what was detached, steps in
 * a loop that never zeroes gradients. */
#include "debug/lint.h"

#include <string.h>

#include "lang/command.h"

typedef struct lint {
    dlsh_session *s;
    const dlsh_unit *unit;
} lint;

static int is_name(const dlsh_node *n, const char *name) {
    return n && n->kind == DLSH_N_NAME && !strcmp(n->text, name);
}

static int is_field(const dlsh_node *n, const char *name) {
    return n && n->kind == DLSH_N_FIELD && !strcmp(n->text, name);
}

/* ---------------------------------------------------------------- x.grad after detach */

/* y = x.detach(), y = detach(x) */
static int is_detached(const dlsh_node *value) {
    return value->kind == DLSH_N_CALL && (is_field(value->kids[0], "detach") || is_name(value->kids[0], "detach"));
}

/* Looks for .grad of the name behind the assignment; an assignment to it or to one of its fields ends that. */
static const dlsh_node *use_of_grad(const dlsh_node *n, const char *name, int behind, int *ended) {
    if (!n || *ended) return NULL;
    if (n->kind == DLSH_N_ASSIGN && n->span.start > behind)
        for (int i = 0; i + 1 < n->nkids; i++) {
            const dlsh_node *t = n->kids[i];
            *ended |= is_name(t, name) || (t && t->kind == DLSH_N_FIELD && is_name(t->kids[0], name));
        }
    if (*ended) return NULL;
    if (n->span.start > behind && is_field(n, "grad") && is_name(n->kids[0], name)) return n;
    if (n->kind == DLSH_N_CALL && is_field(n->kids[0], "requires_grad_") && is_name(n->kids[0]->kids[0], name))
        *ended = n->span.start > behind;
    const dlsh_node *found = NULL;
    for (int i = 0; i < n->nkids && !found; i++) found = use_of_grad(n->kids[i], name, behind, ended);
    return found;
}

static void look_at_detach(const lint *l, const dlsh_node *n) {
    const dlsh_node *target = n->kids[0];
    int ended = 0;
    if (n->nkids != 2 || n->op || target->kind != DLSH_N_NAME || !is_detached(n->kids[1])) return;
    const dlsh_node *use = use_of_grad(l->unit->root, target->text, n->span.end, &ended);
    if (use)
        dlsh_warn_at(l->s, use->span, "ask the tensor it was made of, or leave detach out",
                     "%s was detached at line %d: it has no gradient", target->text, n->span.line);
}

/* ---------------------------------------------------------------- steps without zeroing */

/* What a loop does, functions that it calls included. */
typedef struct work {
    const dlsh_node *step;
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
    if (is_field(callee, "step") && n->nkids == 1 && callee->kids[0]->kind == DLSH_N_NAME && !w->step) w->step = n;
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
    for (int i = 0; i < n->nkids; i++) look_at_work(l, n->kids[i], w, depth);
}

static void look_at_loop(const lint *l, const dlsh_node *n) {
    work w = {0};
    look_at_work(l, n->kids[n->nkids - 1], &w, 0);
    if (!w.step || !w.backward || w.zeroes) return;
    dlsh_warn_at(l->s, w.step->span, "o.zero_grad() before backward",
                 "the loop at line %d takes steps and never zeroes gradients: they add up", n->span.line);
}

/* ---------------------------------------------------------------- all of it */

/* The outermost loops: what stands in an inner one may be zeroed in the outer one. */
static void walk(const lint *l, const dlsh_node *n, int inside) {
    if (!n) return;
    if (n->kind == DLSH_N_ASSIGN) look_at_detach(l, n);
    int loop = n->kind == DLSH_N_FOR || n->kind == DLSH_N_WHILE;
    if (loop && !inside) look_at_loop(l, n);
    for (int i = 0; i < n->nkids; i++) walk(l, n->kids[i], inside || loop);
}

void dlsh_lint(dlsh_session *s, const dlsh_unit *unit) {
    lint l = {s, unit};
    walk(&l, unit->root, 0);
}
