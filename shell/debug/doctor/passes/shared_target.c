/* Two results of a net that a loss compares with one target, while another target is compared with none of them. */
#include <string.h>

#include "debug/doctor/passes/passes.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"
#include "debug/doctor/texts.h"

/* Two things that are compared, out and y of mse_loss(out, y), out - y, out == y. */
typedef struct pair {
    const dlsh_node *at, *side[2];
} pair;

typedef struct shared {
    const char *file;
    const dlsh_node *target, *result[2]; /* of two comparisons of a loss */
    int line[2];
} shared;

static pair pair_of(const char *file, const dlsh_node *n) {
    const int difference =
        n->kind == DLSH_N_BINARY && (n->op == DLSH_OP_SUB || n->op == DLSH_OP_EQ || n->op == DLSH_OP_NE);
    const int call =
        n->kind == DLSH_N_CALL && n->nkids > 2 && n->kids[2]->kind != DLSH_N_KWARG &&
        (dlsh_speaks_of(n->kids[0]->text, "loss|entropy|score|accura|error") || dlsh_function_called(file, n));
    return difference ? (pair){n, {n->kids[0], n->kids[1]}} : call ? (pair){n, {n->kids[1], n->kids[2]}} : (pair){0};
}

static int is_value(const dlsh_node *n) {
    return n->kind == DLSH_N_NAME || n->kind == DLSH_N_FIELD || n->kind == DLSH_N_INDEX;
}

/* Without rows that were taken, y.width[j], and casts. */
static const dlsh_node *whole(const dlsh_node *n) {
    static const char keeping[] = "squeeze|unsqueeze|float|long|reshape|view|detach|flatten|argmax";
    while (n->kind == DLSH_N_CALL && dlsh_is_call_of(n, keeping) && n->kids[0]->kind == DLSH_N_FIELD)
        n = n->kids[0]->kids[0];
    while (n->kind == DLSH_N_INDEX && n->nkids == 2 && n->kids[1]->kind != DLSH_N_STR) n = n->kids[0];
    return n;
}

static int is_alike(const char *file, const dlsh_node *a, const dlsh_node *b) {
    return dlsh_same_text(file, whole(a), whole(b));
}

/* Written alike, or one and the same result of a layer. */
static int is_result(const char *file, const dlsh_node *a, const dlsh_node *b) {
    const dlsh_node *made = is_alike(file, a, b) ? NULL : dlsh_made(file, whole(a));
    return is_alike(file, a, b) || (made && made->kind != DLSH_N_INDEX && made == dlsh_made(file, whole(b)));
}

/* The two comparisons of these lines whose targets are written alike. */
static int find_pairs(const dl_journal_node *a, const dl_journal_node *b, shared *s) {
    *s = (shared){.file = a->file, .line = {a->line, b->line}};
    DLSH_EACH_BELOW_IF (t, dlsh_text_root(a->file), t.n->span.line <= a->line) {
        const pair p = t.n->span.line == a->line ? pair_of(a->file, t.n) : (pair){0};
        DLSH_EACH_BELOW (u, p.at ? dlsh_text_root(a->file) : NULL) {
            const pair q =
                u.n->span.line == b->line && u.n->span.start > p.at->span.start ? pair_of(a->file, u.n) : (pair){0};
            for (int k = 0; q.at && k < 2; k++) {
                const dlsh_node *y = p.side[k];
                if (!is_value(y) || !dlsh_same_text(s->file, y, q.side[k]) || is_alike(s->file, p.side[!k], q.side[!k]))
                    continue;
                s->target = y, s->result[0] = p.side[!k], s->result[1] = q.side[!k];
                return 1;
            }
        }
    }
    return 0;
}

/* What else a result is compared with, elsewhere, which no net gives; NULL: nothing. */
static const dlsh_node *compared_with(const dlsh_examination *e, const shared *s, const dlsh_node *result) {
    DLSH_EACH_BELOW (t, dlsh_text_root(s->file)) {
        const pair p = pair_of(s->file, t.n);
        for (int k = 0; p.at && p.at->span.line != s->line[0] && p.at->span.line != s->line[1] && k < 2; k++)
            if (is_value(whole(p.side[k])) && is_value(whole(p.side[!k])) && is_result(s->file, p.side[k], result) &&
                !dlsh_uses_net(e, s->file, p.side[!k]))
                return p.side[!k];
    }
    return NULL;
}

/* The name of a target that a data set has and that the function of a loss never reads, beside one that it reads; NULL:
 * there is none. */
static const char *never_read(const dlsh_examination *e, const shared *s) {
    const dlsh_node *around[DLSH_AROUND], *y = whole(s->target), *made = dlsh_trainer_option(e, s->file, 1, "data");
    const int depth = dlsh_functions_around(dlsh_text_root(s->file), s->target->span.start, around);
    const dlsh_node *names = made && depth && y->kind == DLSH_N_FIELD ? dlsh_argument_of(made, 99, "targets") : NULL;
    for (int i = 0; names && i < names->nkids; i++) {
        int read = names->kids[i]->kind != DLSH_N_STR;
        DLSH_EACH_BELOW (t, around[depth - 1])
            read |= t.n->kind == DLSH_N_FIELD && !read && !strcmp(t.n->text, names->kids[i]->text) &&
                    dlsh_same_text(s->file, t.n->kids[0], y->kids[0]);
        if (!read) return names->kids[i]->text;
    }
    return NULL;
}

static const char *words_of(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_unit *u = dlsh_text_of(file);
    return u ? dlsh_kept(e, "%.*s", (int)(n->span.end - n->span.start), u->text + n->span.start) : "";
}

static void look_at_both(dlsh_examination *e, const dl_journal_node *a, const dl_journal_node *b) {
    shared s;
    if (strcmp(a->file, b->file) != 0 || !find_pairs(a, b, &s)) return;
    const dlsh_node *own[] = {compared_with(e, &s, s.result[0]), compared_with(e, &s, s.result[1])};
    const char *unread = e->trainer ? never_read(e, &s) : NULL;
    const int apart = own[0] && own[1] && !is_alike(s.file, own[0], own[1]);
    if (!apart && !unread) return;
    const int wrong = !(apart && is_alike(s.file, own[1], s.target) && !is_alike(s.file, own[0], s.target));
    const char *y = words_of(e, s.file, s.target), *other = words_of(e, s.file, s.result[wrong]);
    dlsh_found(e, s.file, s.line[wrong], "compare each result with its own target",
               "two results are taught one target: %s and %s are both compared with %s\n"
               "%s; %s",
               words_of(e, s.file, s.result[0]), words_of(e, s.file, s.result[1]), y,
               s.line[0] == s.line[1] ? "this line reads it twice"
                                      : dlsh_kept(e, "lines %d and %d read it", s.line[0], s.line[1]),
               apart ? dlsh_kept(e, "line %d compares %s with %s", own[wrong]->span.line, other,
                                 words_of(e, s.file, own[wrong]))
                     : dlsh_kept(e, "the data have a target %s, too, which no loss reads", unread));
}

void dlsh_find_shared_target(dlsh_examination *e, dlsh_pass p) {
    static const char ops[] = "sub|huber_difference|cross_entropy|logit_loss|probability_loss|nll_picked";
    DLSH_EACH_OP_UP (a, p)
        for (const dl_journal_node *b = a; dlsh_op_is(a, ops) && a->in[1].constant && --b >= p.at && !e->bad;)
            if (dlsh_op_is(b, ops) && b->in[1].constant && a->in[0].from && b->in[0].from &&
                a->in[0].from != b->in[0].from)
                look_at_both(e, a, b);
}
