/* Results of a net that learned scaled targets and that are brought back to the scale of the targets in part: by the
 * deviation without the mean, or by the mean without the deviation. By the numbers of what figures compare. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/text/reads.h"
#include "debug/doctor/trace.h"
#include "dlcore/view.h"

enum { LEAST = 16, MOST = 1 << 20 };

static const char forms[] = "flatten|squeeze|unsqueeze|reshape|view|float|detach|cpu|contiguous|clone";

/* The numbers of a variable, or of neighbouring rows of it, x[800:]; NULL: they are not known. Owned. */
static dl_tensor *numbers_of(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    while (n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD && dlsh_is_word(forms, n->kids[0]->text))
        n = n->kids[0]->kids[0];
    const dlsh_node *rows = n->kind == DLSH_N_INDEX && n->nkids == 2 ? n->kids[1] : NULL;
    if (rows && (rows->kind != DLSH_N_SLICE || rows->kids[2])) return NULL;
    const dlsh_value *v = dlsh_value_of(e, file, rows ? n->kids[0] : n);
    dl_tensor *t = v && v->type == DLSH_TENSOR ? v->as.tensor : NULL;
    if (!t || !dl_ndim(t) || !dl_dtype_is_float(dl_dtype_of(t))) return NULL;
    const double all = (double)dl_shape(t)[0];
    double from = rows && rows->kids[0] ? dlsh_number_of(e, file, rows->kids[0]) : 0;
    double till = rows && rows->kids[1] ? dlsh_number_of(e, file, rows->kids[1]) : all;
    if (from < 0) from += all;
    if (till < 0) till += all;
    if (!(from >= 0 && from < till && till <= all)) return NULL;
    return dl_narrow(t, 0, (long)from, (long)(till - from));
}

typedef struct pair {
    double mean[2], std[2], both; /* of the truth and of what was said; both: their correlation */
} pair;

static int compare(const dl_tensor *truth, const dl_tensor *said, pair *p) {
    const long n = truth && said ? dl_numel(truth) : 0;
    double sum = 0;
    if (n < LEAST || n > MOST || dl_numel(said) != n) return 0;
    DLSH_FREED double *v = malloc(2 * (size_t)n * sizeof *v);
    if (!v || dl_read_f64(truth, v) || dl_read_f64(said, v + n)) return dl_error_clear(), 0;
    for (int k = 0; k < 2; k++) {
        const double *x = v + k * n;
        double mean = 0, square = 0;
        for (long i = 0; i < n; i++) mean += x[i] / (double)n;
        for (long i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
        p->mean[k] = mean, p->std[k] = sqrt(square);
    }
    for (long i = 0; i < n; i++) sum += (v[i] - p->mean[0]) * (v[n + i] - p->mean[1]) / (double)n;
    p->both = sum / (p->std[0] * p->std[1]);
    return 1;
}

/* Did all trainings begin with errors of about 1, far below the size of the targets that a figure has? */
static int learned_scaled(const dlsh_examination *e, const pair *p) {
    const double square = p->mean[0] * p->mean[0] + p->std[0] * p->std[0];
    int count = 0;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const double first = dlsh_first_loss(r);
        if (!(first > 0.05 && first < 10 && first < square / 20)) return 0;
        count++;
    }
    return count;
}

/* A figure of errors: mean_absolute_error(y, p), (p - y).abs(), (p - y) ** 2. */
static int is_error(const dlsh_tree *t) {
    const dlsh_node *n = t->n, *up = t->depth ? t->within[t->depth - 1] : NULL;
    if (n->kind == DLSH_N_CALL)
        return n->nkids > 2 && n->kids[2]->kind != DLSH_N_KWARG &&
               dlsh_speaks_of(n->kids[0]->text, "_loss|_error|r2_score");
    if (n->kind != DLSH_N_BINARY || n->op != DLSH_OP_SUB || !up) return 0;
    return dlsh_is_call_of(up, "abs|square|norm") || (up->kind == DLSH_N_BINARY && up->op == DLSH_OP_POW) ||
           (up->kind == DLSH_N_FIELD && dlsh_is_word("abs|square|pow|norm", up->text));
}

/* ---------------------------------------------------------------- where it is brought back */

static dlsh_property is_figure(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    return dlsh_is_call_of(at->n, "std|var|std_mean|mean") ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* What the only function of a record under that name returns, {back: fn (z) { return z * s }}; NULL: there is none. */
static const dlsh_node *returned_by_key(const char *file, const dlsh_node *call) {
    const dlsh_node *by = call->kind == DLSH_N_CALL && call->kids[0]->kind == DLSH_N_FIELD ? call->kids[0] : NULL;
    const dlsh_node *back = NULL;
    int count = 0;
    DLSH_EACH_BELOW (t, by ? dlsh_text_root(file) : NULL)
        if (t.n->kind == DLSH_N_KWARG && !strcmp(t.n->text, by->text) && t.n->kids[0]->kind == DLSH_N_FN)
            count++, back = dlsh_last_return(t.n->kids[0]);
    return count == 1 && back && back->nkids ? back->kids[0] : NULL;
}

static dlsh_property brings_back(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n, *own = returned_by_key(at->file, n);
    if (own) n = own;
    for (int k = 0; n->kind == DLSH_N_BINARY && (n->op == DLSH_OP_MUL || n->op == DLSH_OP_ADD) && k < 2; k++)
        if (own || dlsh_origin_at(at, n->kids[k], is_figure, NULL)) return DLSH_HAS_FIRST;
    return DLSH_MAY_HAVE;
}

static void tell(dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *said, const pair *p,
                 int no_mean) {
    const dlsh_node *by = dlsh_origin(file, said, brings_back, NULL), *own = by ? returned_by_key(file, by) : NULL;
    const int line = own ? own->span.line : by ? by->span.line : n->span.line;
    dlsh_found(e, file, line, "all of it: result * std + mean",
               "results are brought back to the scale of the targets %s\n"
               "line %d compares what has mean %.4g and deviation %.3g with targets of mean %.4g and deviation %.3g; "
               "both go up and down together (correlation %.2f)",
               no_mean ? "by the deviation alone: the mean that was taken away is not added again"
                       : "by the mean alone: they are not multiplied by the deviation that targets were divided by",
               n->span.line, p->mean[1], p->std[1], p->mean[0], p->std[0], p->both);
}

static void look_at_error(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const int call = n->kind == DLSH_N_CALL;
    for (int k = 0; k < 2; k++) {
        const dlsh_node *truth = n->kids[call + k], *said = n->kids[call + !k];
        pair p;
        if (dlsh_uses_net(e, file, truth) || !dlsh_uses_net(e, file, said)) continue;
        DLSH_OWNED dl_tensor *a = numbers_of(e, file, truth), *b = numbers_of(e, file, said);
        if (!compare(a, b, &p) || !(p.both > 0.7) || !learned_scaled(e, &p)) continue;
        const double ratio = p.std[1] / p.std[0];
        const int no_mean = ratio > 0.5 && ratio < 1.6 && fabs(p.mean[0]) > p.std[0] &&
                            fabs(p.mean[1]) < 0.2 * fabs(p.mean[0]) && !(p.std[0] > 0.8 && p.std[0] < 1.25);
        const int no_spread =
            p.std[1] < 2.5 && ratio < 0.2 && fabs(p.mean[1] - p.mean[0]) < 0.3 * p.std[0] && fabs(p.mean[0]) > p.std[1];
        if (no_mean || no_spread) tell(e, file, n, said, &p, no_mean);
    }
    dl_error_clear();
}

void dlsh_find_brought_back(dlsh_examination *e) {
    DLSH_EACH_NODE (t)
        if (is_error(&t)) look_at_error(e, t.file, t.n);
}
