/* Updates that a script writes itself: w -= rate * w.grad. */
#include <string.h>

#include "debug/doctor/checks.h"

/* 1: a gradient goes in with this sign, -1: with the other one, 0: none does. */
static int sign_of_gradient(const dlsh_examination *e, const dlsh_node *n);

static int sign_of_number(const dlsh_examination *e, const dlsh_node *n) {
    if (n->kind == DLSH_N_UNARY && n->op == DLSH_OP_NEG) return -sign_of_number(e, n->kids[0]);
    const dlsh_value *v = n->kind == DLSH_N_NAME ? dlsh_get(e->s, n->text) : NULL;
    return v && dlsh_is_number(*v) && dlsh_number(*v) < 0 ? -1 : 1;
}

static int sign_of_binary(const dlsh_examination *e, const dlsh_node *n) {
    int left = sign_of_gradient(e, n->kids[0]), right = sign_of_gradient(e, n->kids[1]);
    if (n->op == DLSH_OP_ADD) return left ? left : right;
    if (n->op == DLSH_OP_SUB) return left ? left : -right;
    return left ? left * sign_of_number(e, n->kids[1]) : right * sign_of_number(e, n->kids[0]);
}

static int sign_of_gradient(const dlsh_examination *e, const dlsh_node *n) {
    if (!n) return 0;
    if (n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad")) return 1;
    if (n->kind == DLSH_N_UNARY && n->op == DLSH_OP_NEG) return -sign_of_gradient(e, n->kids[0]);
    if (n->kind == DLSH_N_BINARY) return sign_of_binary(e, n);
    int sign = 0;
    for (int i = 0; i < n->nkids && !sign; i++) sign = sign_of_gradient(e, n->kids[i]);
    return sign;
}

/* The assignment of a line that has a gradient in its value: in blocks of one line there are several. */
static const dlsh_node *update_in(const dlsh_examination *e, const dlsh_node *n, int line) {
    if (!n) return NULL;
    if (n->kind == DLSH_N_ASSIGN && n->span.line == line && sign_of_gradient(e, n->kids[n->nkids - 1])) return n;
    const dlsh_node *found = NULL;
    for (int i = 0; i < n->nkids && !found; i++) found = update_in(e, n->kids[i], line);
    return found;
}

dl_status dlsh_check_hand_update(dlsh_examination *e) {
    const dl_journal_row *r;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_STEP, &i));) {
        const dlsh_node *n = r->what ? NULL : update_in(e, dlsh_text_root(r->file), r->line);
        if (!n) continue;
        int sign = sign_of_gradient(e, n->kids[n->nkids - 1]) * (n->op == DLSH_OP_SUB ? -1 : 1);
        if (sign < 0 || dlsh_loss_is_negated(e)) {
            dlsh_passed(e, "they go against the gradient");
            continue;
        }
        dlsh_finding *f = dlsh_find_at(e, r->file, r->line, "subtract it: w -= rate * w.grad");
        if (!f) continue;
        dlsh_cause(f, "the update adds the gradient: the loss is made larger, not smaller");
        dlsh_evidence(f, "%ld updates at this line went with the gradient", r->count);
    }
    return DL_OK;
}
