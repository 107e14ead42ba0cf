/* Shapes that are broadcast although they belong together: [N] against [N, 1], a number for each sample that counts for
 * places. */
#include <stdio.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

static int is_column(const dl_journal_value *v) {
    return v->there && v->ndim == 2 && v->shape[1] == 1 && v->shape[0] > 1;
}
static int is_row(const dl_journal_value *v) { return v->there && v->ndim == 1 && v->shape[0] > 1 && !v->leaf; }

/* The op of the script that gave a column because it keeps a dimension, as gather; NULL: none is known. */
static const dl_journal_node *keeper_of(dlsh_pass p, const dl_journal_value *column) {
    const dl_journal_node *by = dlsh_pass_node(p, column->from);
    return by && !*by->layer && (dlsh_op_is(by, "gather") || strstr(by->attrs, "keepdim=true")) ? by : NULL;
}

/* A name in a statement that a call of a net gave its value, on another line; NULL: there is none. */
static const dlsh_node *named_by_net(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *found = NULL;
    if (n->kind == DLSH_N_NAME) {
        const dlsh_node *made = dlsh_defined(file, n);
        return made && made->span.line < n->span.line && dlsh_call_of_net(e, file, made) ? n : NULL;
    }
    for (int i = n->kind == DLSH_N_ASSIGN; i < n->nkids && !found; i++)
        found = n->kids[i] ? named_by_net(e, file, n->kids[i]) : NULL;
    return found;
}

/* What to do about a column: where a name in the statement was given it by a net, there. */
static const char *remedy_of_column(dlsh_examination *e, const dl_journal_node *n) {
    const dlsh_node *s = dlsh_statement_at(n->file, n->line), *name = s ? named_by_net(e, n->file, s) : NULL;
    const dlsh_node *made = dlsh_defined(n->file, name);
    return made ? dlsh_kept(e, "give both one shape: line %d, %s = net(...).squeeze(-1), or unsqueeze the other",
                            made->span.line, name->text)
                : "give both one shape: squeeze(x, -1), or unsqueeze the other";
}

static void look_at_shapes(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    for (int k = 0; k < 2 && n->nin >= 2; k++) {
        const dl_journal_value *column = &n->in[k], *row = &n->in[1 - k];
        if (!is_column(column) || !is_row(row) || n->out.ndim != 2 || n->out.shape[1] != row->shape[0] ||
            column->shape[0] != row->shape[0])
            continue;
        const dl_journal_node *by = keeper_of(p, column), *at = by ? by : n, *from = dlsh_pass_node(p, column->from);
        const int here = !by && from && !strcmp(from->file, n->file);
        const int beside = here && dlsh_line_beside(n->file, from->line, n->line) == from->line; /* not in a helper */
        dlsh_take_back(e, "what the loss is given", "number of samples twice");                  /* counted in [n,n] */
        dlsh_finding *f =
            dlsh_find_at(e, at->file, beside ? dlsh_line_beside(n->file, n->line, from->line) : at->line,
                         by ? "take [:, 0] of what it gives, which has one column" : remedy_of_column(e, n));
        if (!f) return;
        dlsh_cause(f, "[%ld,1] with [%ld] is broadcast to [%ld,%ld]: every sample is compared with every target",
                   column->shape[0], row->shape[0], n->out.shape[0], n->out.shape[1]);
        char why[200] = "";
        if (by)
            snprintf(why, sizeof why, "; %s at line %d keeps a dimension of size 1", by->op, by->line);
        else if (here && from->line != n->line)
            snprintf(why, sizeof why, "; the column is what %s:%d gives", from->file, from->line);
        dlsh_evidence(f,
                      "%s at line %d is given shapes [%ld,1] and [%ld]: the net can learn no more than one number, the "
                      "mean of the targets%s",
                      n->op, n->line, column->shape[0], row->shape[0], why);
    }
}

/* Does the statement itself make a column of a row, so that all pairs are meant? */
static int makes_column(const dlsh_examination *e, const char *file, int line) {
    static const char *const words[] = {"none]", "unsqueeze(", "(-1, 1)", "(1, -1)", "keepdim", "outer(", "cdist("};
    for (size_t i = 0; i < DLSH_COUNT(words); i++)
        if (dlsh_script_has(e, file, line, words[i])) return 1;
    return 0;
}

/* Was one of the names of an expression made a column on purpose, and none by a net? */
static int is_of_pairs(const dlsh_examination *e, const char *file, const dlsh_node *n, int depth) {
    int made = 0;
    if (!n || depth > 12) return 0;
    if (n->kind == DLSH_N_NAME) {
        const dlsh_node *by = dlsh_defined(file, n);
        return by && by->span.line != n->span.line && makes_column(e, file, by->span.line);
    }
    for (int i = 0; i < n->nkids; i++) made |= is_of_pairs(e, file, n->kids[i], depth + 1);
    return made;
}

static int keeps_dim(const dlsh_node *n) {
    static const char picking[] = "argmax|argmin|max|min|round|sum|mean|any|all";
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL,
                    *keep = by ? dlsh_argument_of(n, 99, "keepdim") : NULL;
    return keep && keep->kind == DLSH_N_BOOL && keep->num.i && by->text && dlsh_is_word(picking, by->text);
}

/* The call with keepdim=true that made one of the names of an expression; NULL: none did. */
static const dlsh_node *keeper_in(const char *file, const dlsh_node *n, int depth) {
    const dlsh_node *found = NULL;
    if (!n || depth > 12) return NULL;
    if (keeps_dim(n)) return n;
    if (n->kind == DLSH_N_NAME) {
        const dlsh_node *made = dlsh_defined(file, n);
        return made && keeps_dim(made) ? made : NULL;
    }
    for (int i = 0; i < n->nkids && !found; i++) found = keeper_in(file, n->kids[i], depth + 1);
    return found;
}

/* Was it found on the tape? */
static int is_on_tape(const dlsh_examination *e, const dl_journal_row *r) {
    const dl_journal_node *n;
    for (dlsh_node_walk w = {0}; (n = dlsh_node_next(e, NULL, &w));)
        if (n->line == r->line && !strcmp(n->file, r->file) && n->nin > 1 &&
            ((is_column(&n->in[0]) && is_row(&n->in[1])) || (is_column(&n->in[1]) && is_row(&n->in[0]))))
            return 1;
    return 0;
}

/* Without a tape, as in an accuracy. */
static void look_at_spread(dlsh_examination *e, const dl_journal_row *r) {
    const dlsh_node *text = dlsh_statement_at(r->file, r->line);
    if (is_on_tape(e, r)) return;
    if (makes_column(e, r->file, r->line)) return;
    if (is_of_pairs(e, r->file, text, 0) && !dlsh_uses_net(e, r->file, text)) return;
    const dlsh_node *keeper = keeper_in(r->file, text, 0);
    dlsh_finding *f = dlsh_find_at(e, r->file, keeper ? keeper->span.line : r->line,
                                   keeper ? "leave keepdim=true out, or squeeze(-1)"
                                          : "give both one shape: squeeze(x, -1), or unsqueeze the other");
    const long n = r->shape[0];
    dlsh_cause(f, "[%ld,1] with [%ld] is broadcast to [%ld,%ld]: every sample is compared with every other one", n, n,
               n, n);
    dlsh_evidence(f, "operands of %s have shapes [%ld,1] and [%ld]; it happened %ld times at line %d",
                  (const char *)r->what, n, n, r->count, r->line);
}

/* What is compared, as for an accuracy, is not on the tape: x.argmax(dim=1, keepdim=true) == y, of the text. */
static void look_at_comparisons(dlsh_examination *e) {
    DLSH_EACH_NODE (t)
        for (int i = 0; t.n->kind == DLSH_N_BINARY && (t.n->op == DLSH_OP_EQ || t.n->op == DLSH_OP_NE) && i < 2; i++) {
            dlsh_traced used[DLSH_TRACED];
            if (!keeps_dim(t.n->kids[i]) || dlsh_trace_value(e, t.file, t.n->kids[1 - i], used) < 1) continue;
            const dl_tensor *y = used[0].whole;
            if (y && dl_ndim(y) == 1)
                dlsh_found(e, t.file, t.n->span.line, "leave keepdim=true out, or squeeze(-1)",
                           "[N,1] is compared with [N], which is broadcast to [N,N]: every answer with every target\n"
                           "keepdim=true leaves a dimension of 1; %s has shape [%ld]",
                           used[0].base, dl_shape(y)[0]);
        }
}

/* Does a statement that runs a net pick rows of a table of samples in that way? */
static int picks_samples(const dlsh_examination *e, const dlsh_traced *by) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        dlsh_traced used[DLSH_TRACED];
        const int n = r->grad ? dlsh_trace(e, r->file, r->line, used) : 0;
        for (int k = 0; k < n; k++) {
            const dl_tensor *x = used[k].whole;
            if (x && dl_ndim(x) > 1 && dl_shape(x)[0] == dl_shape(by->whole)[0] && !strcmp(used[k].picks, by->picks))
                return 1;
        }
    }
    return 0;
}

/* A number for each sample among the data of a statement, [N], picked by the rows that a table of samples is picked by;
 * NULL: there is none. */
static const dlsh_traced *number_of_samples(const dlsh_examination *e, const dlsh_traced *used, int n, long batch) {
    for (int i = 0; i < n; i++) {
        const dl_tensor *w = used[i].whole;
        if (w && dl_ndim(w) == 1 && dl_shape(w)[0] > batch && *used[i].picks && picks_samples(e, &used[i]))
            return &used[i];
    }
    return NULL;
}

/* [N] meets [N, T] where T is N by chance: numbers of samples count for places. */
static void look_at_sample_numbers(dlsh_examination *e, const dl_journal_node *n) {
    for (int k = 0; k < 2 && n->nin >= 2 && dlsh_op_is(n, "mul|div|add|sub"); k++) {
        const dl_journal_value *row = &n->in[k], *other = &n->in[1 - k];
        dlsh_traced used[DLSH_TRACED];
        const long batch = row->shape[0];
        if (!is_row(row) || !row->constant || other->ndim != 2 || other->shape[0] != batch || other->shape[1] != batch)
            continue;
        const dlsh_traced *by = number_of_samples(e, used, dlsh_trace(e, n->file, n->line, used), batch);
        if (by)
            dlsh_found(
                e, n->file, n->line, "give it a dimension more: weight[:, none]",
                "%s has a number for each sample, but counts for the last dimension, which is as long by chance\n"
                "%s of [%ld,%ld] and [%ld]: with another number of samples in a batch it would be an error; sample and "
                "place are exchanged",
                by->base, n->op, batch, batch, batch);
    }
}

dl_status dlsh_check_broadcast(dlsh_examination *e) {
    long nodes = 0;
    look_at_comparisons(e);
    dlsh_find_wrong_scores(e);
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        dlsh_pass p = dlsh_pass_of(r, 1);
        for (long k = 0; k < p.n; k++) look_at_shapes(e, p, &p.at[k]);
        for (long k = 0; k < p.n && !e->bad; k++) look_at_sample_numbers(e, &p.at[k]);
        nodes += p.n;
    }
    DLSH_EACH_ROW (r, e, DL_DID_SPREAD) look_at_spread(e, r);
    if (nodes) dlsh_passed(e, "of %ld ops none brings [N,1] and [N] together", nodes);
    return DL_OK;
}
