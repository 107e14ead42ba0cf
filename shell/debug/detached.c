/* Where x.grad is read although no backward pass gives x a gradient, as far as the text alone shows it. */
#include "debug/detached.h"

#include <limits.h>
#include <string.h>

#include "lang/command.h"
#include "lang/session.h"

enum { DEEPEST = 64 };

typedef struct walk {
    void (*see)(void *ctx, const dlsh_detached *d);
    void *ctx;
    const dlsh_node *root, *within[DEEPEST];
} walk;

static int is_name(const dlsh_node *n, const char *name) {
    return n && n->kind == DLSH_N_NAME && !strcmp(n->text, name);
}

static int is_field(const dlsh_node *n, const char *name) {
    return n && n->kind == DLSH_N_FIELD && !strcmp(n->text, name);
}

/* x.detach(), detach(x) */
static const dlsh_node *detached_by(const dlsh_node *n) {
    if (n->kind != DLSH_N_CALL) return NULL;
    if (is_field(n->kids[0], "detach")) return n->kids[0]->kids[0];
    return is_name(n->kids[0], "detach") && n->nkids == 2 ? n->kids[1] : NULL;
}

/* ... also with methods behind it that make no leaf of it: x.detach().clone() */
static int is_detached(const dlsh_node *value) {
    static const char keeping[] = "clone|contiguous|float|double|reshape|view|squeeze|unsqueeze|flatten|to";
    while (value->kind == DLSH_N_CALL && !detached_by(value) && value->kids[0]->kind == DLSH_N_FIELD &&
           dlsh_has_word(keeping, value->kids[0]->text, strlen(value->kids[0]->text)))
        value = value->kids[0]->kids[0];
    return detached_by(value) != NULL;
}

/* ---------------------------------------------------------------- what was detached itself */

/* Looks for .grad of the name behind the assignment, not in other functions; an assignment to it or to one of its
 * fields ends that. */
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
    for (int i = 0; i < n->nkids && !found; i++)
        if (n->kids[i] && (n->kids[i]->kind != DLSH_N_FN || !n->kids[i]->text || n->kids[i]->span.start < behind))
            found = use_of_grad(n->kids[i], name, behind, ended);
    return found;
}

/* The function around a node, or else the text. */
static const dlsh_node *scope_of(const walk *w, int depth) {
    for (int i = depth - 1; i >= 0; i--)
        if (w->within[i]->kind == DLSH_N_FN && w->within[i]->text) return w->within[i];
    return w->root;
}

static void look_at_assignment(const walk *w, const dlsh_node *n, int depth) {
    const dlsh_node *target = n->kids[0];
    int ended = 0;
    if (n->nkids != 2 || n->op || target->kind != DLSH_N_NAME || !is_detached(n->kids[1])) return;
    const dlsh_node *use = use_of_grad(scope_of(w, depth), target->text, n->span.end, &ended);
    if (use) w->see(w->ctx, &(dlsh_detached){use, target->text, n->span.line, 1});
}

/* ---------------------------------------------------------------- what is used through detach() alone */

/* How a name is used in a part of a text. */
typedef struct uses {
    const char *name;
    int from, till;
    int plain, backward; /* as it is; is there a backward pass behind the detach() */
    int line;            /* of the first detach(); 0: there is none */
} uses;

static int is_backward(const dlsh_node *n) {
    if (n->kind == DLSH_N_COMMAND) return n->num.cmd && !strcmp(n->num.cmd->name, "backward");
    return n->kind == DLSH_N_CALL && (is_field(n->kids[0], "backward") || is_name(n->kids[0], "backward"));
}

/* What is asked of a tensor without computing with it. */
static int is_question(const dlsh_node *n, const char *name) {
    static const char asking[] = "grad|requires_grad|requires_grad_|shape|ndim|dtype|device|is_leaf|size|numel|item";
    return n->kind == DLSH_N_FIELD && is_name(n->kids[0], name) && dlsh_has_word(asking, n->text, strlen(n->text));
}

static int is_shielded(const dlsh_node *n) {
    return n->kind == DLSH_N_COMMAND && n->num.cmd && !strcmp(n->num.cmd->name, "no_grad");
}

static void count_uses(const dlsh_node *n, uses *u) {
    if (!n || n->span.end <= u->from || n->span.start >= u->till || is_shielded(n) || is_question(n, u->name)) return;
    const dlsh_node *of = detached_by(n);
    if (of && is_name(of, u->name)) {
        if (!u->line) u->line = n->span.line;
        return;
    }
    if (is_backward(n) && u->line) u->backward = 1;
    if (is_name(n, u->name) && n->span.start >= u->from) u->plain++;
    const int last = n->kind == DLSH_N_ASSIGN && !n->op ? n->nkids - 1 : 0; /* behind what it gives its value to */
    for (int i = last; i < n->nkids; i++) count_uses(n->kids[i], u);
    for (int i = 0; i < last; i++)
        if (n->kids[i] && n->kids[i]->kind != DLSH_N_NAME) count_uses(n->kids[i], u);
}

/* Where the name gets its value last before a place of a scope; -1: nowhere in it. */
static int given_at(const dlsh_node *n, const char *name, int before, const dlsh_node *scope) {
    int at = -1;
    if (!n || n->span.start >= before || (n != scope && n->kind == DLSH_N_FN && n->text)) return -1;
    if (n->kind == DLSH_N_PARAM && !strcmp(n->text, name)) at = n->span.end;
    const int last = n->kind == DLSH_N_ASSIGN ? n->nkids - 1 : n->kind == DLSH_N_FOR ? n->nkids - 2 : 0;
    for (int i = 0; i < last; i++)
        if (is_name(n->kids[i], name)) at = n->kind == DLSH_N_FOR ? n->kids[i]->span.end : n->span.end;
    for (int i = 0; i < n->nkids; i++) {
        const int below = given_at(n->kids[i], name, before, scope);
        at = below > at ? below : at;
    }
    return at;
}

/* Is it read, and not only looked whether it is there? */
static int is_read(const walk *w, const dlsh_node *n, int depth) {
    const dlsh_node *around = depth ? w->within[depth - 1] : NULL;
    if (!around) return 0;
    if (around->kind == DLSH_N_ASSIGN)
        for (int i = 0; i + 1 < around->nkids; i++)
            if (around->kids[i] == n) return 0;
    if (around->kind == DLSH_N_BINARY && (around->op == DLSH_OP_EQ || around->op == DLSH_OP_NE))
        return around->kids[0]->kind != DLSH_N_NONE && around->kids[1]->kind != DLSH_N_NONE;
    return around->kind != DLSH_N_EXPR; /* shown */
}

static void look_at_use(const walk *w, const dlsh_node *n, int depth) {
    const char *name = is_field(n, "grad") && n->kids[0]->kind == DLSH_N_NAME ? n->kids[0]->text : NULL;
    if (!name || !is_read(w, n, depth)) return;
    const dlsh_node *scope = scope_of(w, depth);
    int at = given_at(scope, name, n->span.start, scope);
    if (at < 0 && scope != w->root) at = given_at(scope = w->root, name, n->span.start, w->root);
    if (at < 0) return;
    uses u = {.name = name, .from = at, .till = scope == scope_of(w, depth) ? n->span.start : INT_MAX};
    for (int i = depth - 1; i >= 0; i--) { /* what a loop does behind it comes before it in the next pass */
        const dlsh_node *loop = w->within[i];
        if ((loop->kind == DLSH_N_FOR || loop->kind == DLSH_N_WHILE) && loop->span.start > at &&
            loop->span.end > u.till)
            u.till = loop->span.end;
    }
    count_uses(scope, &u);
    if (u.line && u.backward && !u.plain) w->see(w->ctx, &(dlsh_detached){n, name, u.line, 0});
}

/* ---------------------------------------------------------------- all of a text */

static void walk_tree(walk *w, const dlsh_node *n, int depth) {
    if (!n || depth == DEEPEST) return;
    if (n->kind == DLSH_N_ASSIGN) look_at_assignment(w, n, depth);
    look_at_use(w, n, depth);
    w->within[depth] = n;
    for (int i = 0; i < n->nkids; i++) walk_tree(w, n->kids[i], depth + 1);
}

void dlsh_each_detached(const dlsh_unit *unit, void (*see)(void *ctx, const dlsh_detached *d), void *ctx) {
    walk w = {see, ctx, unit->root, {NULL}};
    walk_tree(&w, unit->root, 0);
}
