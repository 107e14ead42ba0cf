/* A loss that is a sum of parts: one that has a factor so large that the others are never made small. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/trace.h"

enum { DEEPEST = 12, PASSES = 30 };

/* A part with a factor: factor * value. */
typedef struct part {
    double factor, value;
    const dl_journal_node *at;
} part;

/* The value of a node that is a number multiplied by a part that is one number; a mean is none. */
static int part_of(dlsh_pass p, const dl_journal_node *n, part *out) {
    const int divides = dlsh_op_is(n, "div");
    if (divides && dlsh_op_is(dlsh_pass_source(p, n, 0), "square_sum|sum")) return 0;
    if (!n || n->out.ndim || (!divides && !dlsh_op_is(n, "mul"))) return 0;
    for (int k = 0; k < 2; k++) {
        const dl_journal_value *c = &n->in[k], *v = &n->in[1 - k];
        if (!c->constant || c->n != 1 || v->constant || v->n != 1 || (divides && !k)) continue;
        *out = (part){divides ? 1 / c->low : c->low, v->mean, n};
        return 1;
    }
    return 0;
}

/* The parts with a factor of a sum, down from its root; how many. */
static int parts_of(dlsh_pass p, const dl_journal_node *n, part *out, int max, int depth) {
    if (!n || depth > DEEPEST || max < 1) return 0;
    if (depth && part_of(p, n, out)) return 1;
    if (!dlsh_op_is(n, "add") || n->out.ndim) return 0;
    const int had = parts_of(p, dlsh_pass_source(p, n, 0), out, max, depth + 1);
    return had + parts_of(p, dlsh_pass_source(p, n, 1), out + had, max - had, depth + 1);
}

/* Where the factor of a part was given a name; the line of the part where it has none. */
static int line_of_factor(const dlsh_examination *e, const char *file, const dlsh_node *n, double factor) {
    int line = 0, at;
    if (!n) return 0;
    for (int k = 0; n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MUL && k < 2; k++) {
        const dlsh_node *name = n->kids[k]->kind == DLSH_N_NAME ? n->kids[k] : NULL;
        const dlsh_node *made = name ? dlsh_definition_of(file, name->text, name->span.start, &at) : NULL;
        if (made && fabs(dlsh_number_of(e, file, name) - factor) <= 1e-6 * fabs(factor)) return made->span.line;
    }
    for (int i = 0; i < n->nkids && !line; i++) line = line_of_factor(e, file, n->kids[i], factor);
    return line;
}

/* The loss in the last quarter of the passes. */
static double settled(const dl_journal_row *r) {
    const int n = r->ncurve, part = n / 4;
    double sum = 0;
    for (int i = n - part; i < n; i++) sum += r->curve[i];
    return part ? sum / part : r->last;
}

static void look_at_part(dlsh_examination *e, const dl_journal_row *r, const part *first, const part *last) {
    const double rest = r->first - first->factor * first->value, left = settled(r) - last->factor * last->value;
    if (!(first->factor > 0) || !(first->value > 0) || !(last->value >= 0)) return;
    if (!(last->value < 0.1 * first->value) || !(rest > 0) || !(left > 0.5 * rest)) return;
    const char *file = last->at->file;
    const int made = line_of_factor(e, file, dlsh_statement_at(file, last->at->line), last->factor);
    dlsh_finding *f =
        dlsh_find_at(e, file, made ? made : last->at->line, "a much smaller factor, so that both parts become smaller");
    if (!f) return;
    dlsh_cause(f, "a part of the loss outweighs the rest: with the factor %.4g it is made small, and the rest is not",
               last->factor);
    dlsh_evidence(f, "in %ld passes that part (line %d) went from %.3g to %.3g, the rest of the loss from %.4g to %.4g",
                  r->count, last->at->line, first->value, last->value, rest, left);
}

dl_status dlsh_check_terms(dlsh_examination *e) {
    enum { PARTS = 8 };
    const dl_journal_row *r;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_BACKWARD, &i));) {
        part a[PARTS], b[PARTS];
        const dlsh_pass p = dlsh_pass_of(r, 0), q = dlsh_pass_of(r, 1);
        if (r->count < PASSES || !p.n || !q.n) continue;
        const int n = parts_of(p, p.at, a, PARTS, 0);
        if (parts_of(q, q.at, b, PARTS, 0) != n) continue;
        for (int k = 0; k < n; k++) look_at_part(e, r, &a[k], &b[k]);
    }
    return DL_OK;
}
