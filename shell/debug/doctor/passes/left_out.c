/* Places that the loss leaves out, as padding, and that a figure counts: the share of right ones taken over all places.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"
#include "dlcore/view.h"

enum { ELEMENTS = 1 << 20, DEEPEST = 12 };

/* How a loss leaves places out. */
typedef struct left_out {
    const dl_journal_node *loss;
    double label; /* that of the targets there; NaN: a mask leaves them out */
    double kept;  /* the share that the mask keeps; NaN: it is not known */
} left_out;

/* ---------------------------------------------------------------- what the loss leaves out */

double dlsh_ignored_label(const dl_journal_node *n) {
    const char *at = strstr(n->attrs, "ignore_index=");
    const double label = at ? strtod(at + strlen("ignore_index="), NULL) : -100;
    return n->in[1].n && n->in[1].low <= label && n->in[1].high >= label ? label : NAN;
}

static int is_mask(const dl_journal_value *v) {
    const int both = v->there && v->constant && v->n > 1 && v->low == 0 && v->high == 1;
    return both && fabs(v->mean * v->mean + v->std * v->std - v->mean) < 1e-6;
}

enum { NONE = -1 };
/* The share that a mask keeps of the losses of places, or of what these are computed of; NaN: it is not known; NONE: it
 * is no mask. */
static double kept_by(dlsh_pass p, const dl_journal_node *n, const dl_journal_node *loss) {
    const dl_journal_value *rows = &n->in[1];
    const int picks = dlsh_op_is(n, "index_select") && !*n->layer && rows->constant && n->in[0].ndim;
    if (picks && dlsh_is_made_of(p, loss, n)) return dlsh_elements_in(rows) / (double)n->in[0].shape[0];
    if (!dlsh_op_is(n, "mul|where|masked_fill") || !dlsh_is_made_of(p, n, loss)) return NONE;
    for (int k = 0; k < n->nin && k < 3; k++)
        if (is_mask(&n->in[k])) return n->in[k].mean;
    return dlsh_op_is(n, "where") && n->in[0].constant && n->in[1].constant != n->in[2].constant ? NAN : NONE;
}

static int finds_left_out(dlsh_pass p, left_out *out) {
    DLSH_EACH_OP (loss, p) {
        const int by_hand = dlsh_op_is(loss, "gather") && !*loss->layer;
        if (!by_hand && !dlsh_op_is(loss, "cross_entropy|nll_picked")) continue;
        *out = (left_out){loss, by_hand ? NAN : dlsh_ignored_label(loss), NAN};
        if (isfinite(out->label)) return 1;
        DLSH_EACH_OP (n, p)
            if ((out->kept = kept_by(p, n, loss)) != NONE && !(out->kept > 0.95)) return 1;
    }
    return 0;
}

/* ---------------------------------------------------------------- what a figure compares */

/* What an expression is of, whose elements it has in another form or dtype, through names; NULL: it has others. */
static const dlsh_node *of_same_elements(const char *file, const dlsh_node *n) {
    static const char keeping[] = "float|long|int|double|to|item|squeeze|unsqueeze|flatten|reshape|view|cpu|detach|"
                                  "contiguous|numpy|clone|tolist";
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    if (n->kind == DLSH_N_NAME) return dlsh_defined(file, n);
    return by && by->kind == DLSH_N_FIELD && dlsh_is_word(keeping, by->text) ? by->kids[0] : NULL;
}

/* mean(x), x.mean(): x. */
static const dlsh_node *operand_of(const dlsh_node *n, const char *call) {
    if (!dlsh_is_call_of(n, call)) return NULL;
    return n->kids[0]->kind == DLSH_N_FIELD ? n->kids[0]->kids[0] : n->nkids > 1 ? n->kids[1] : NULL;
}

/* The comparison a == b, or a != b, that an expression is, or is the sum of; NULL: it is something else. */
static const dlsh_node *comparison_of(const char *file, const dlsh_node *n, int *sums) {
    for (int i = 0; n && i < DEEPEST; i++) {
        const dlsh_node *added = operand_of(n, "sum");
        if (n->kind == DLSH_N_BINARY) return n->op == DLSH_OP_EQ || n->op == DLSH_OP_NE ? n : NULL;
        if (added && !*sums) *sums = 1;
        n = added ? added : of_same_elements(file, n);
    }
    return NULL;
}

/* ---------------------------------------------------------------- the targets there */

/* x[a:b] of the first dimension, x[rows] of whole numbers; NULL: others are picked, or it is not known. */
static dl_tensor *rows_of(const dlsh_examination *e, const char *file, const dlsh_node *n, dl_tensor *of) {
    const dlsh_node *rows = n->kids[1];
    for (int i = 1; i < n->nkids; i++) {
        const dlsh_value *v = dlsh_value_of(e, file, n->kids[i]);
        const int whole = v && v->type == DLSH_TENSOR && dl_dtype_of(v->as.tensor) == DL_I64;
        if (n->kids[i]->kind != DLSH_N_SLICE && !(whole && n->nkids == 2)) return NULL;
    }
    const double from = rows->kind == DLSH_N_SLICE && rows->kids[0] ? dlsh_number_of(e, file, rows->kids[0]) : 0;
    const double till = rows->kind == DLSH_N_SLICE && rows->kids[1] ? dlsh_number_of(e, file, rows->kids[1]) : NAN;
    const double n_rows = (double)dl_shape(of)[0], end = isnan(till) ? n_rows : till < 0 ? n_rows + till : till;
    if (!(from >= 0 && end > from && end <= n_rows)) return dl_ref(of);
    return dl_narrow(of, 0, (long)from, (long)(end - from));
}

/* The numbers of an operand that no net computes; owned; NULL: they are not known. */
static dl_tensor *targets_of(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    dlsh_dealt d = {0};
    for (int i = 0; n && i < DEEPEST; i++) {
        if (n->kind == DLSH_N_FIELD && !strcmp(n->text, "y") && dlsh_data_named(e, file, n->kids[0], &d) && d.made)
            n = d.split == DL_TEST ? dlsh_argument_of(d.made, 3, "test_y") : dlsh_argument_of(d.made, 1, "y");
        if (!n) return NULL;
        const dlsh_node *of = n->kind == DLSH_N_INDEX ? n->kids[0] : n;
        const dlsh_value *v = dlsh_value_of(e, file, of);
        dl_tensor *t = v && v->type == DLSH_TENSOR ? v->as.tensor : NULL;
        if (t && (dl_ndim(t) < 1 || dl_numel(t) > ELEMENTS || dl_dtype_is_float(dl_dtype_of(t)))) return NULL;
        if (t) return of == n ? dl_ref(t) : rows_of(e, file, n, t);
        n = of_same_elements(file, n);
    }
    return NULL;
}

/* The share of a label among targets. */
static double share_of(const double *y, long n, double label) {
    long found = 0;
    for (long i = 0; i < n; i++) found += y[i] == label;
    return n ? (double)found / (double)n : 0;
}

/* The share of places at the ends of rows that all have the same label; *label: it. */
static double share_at_ends(const double *y, long rows, long places, double *label) {
    long found = 0, shorter = 0;
    *label = y[places - 1];
    for (long i = 1; i < rows && y[i * places - 1] != y[i * places - 2]; i++) *label = y[(i + 1) * places - 1];
    for (long i = 0; i < rows; i++) {
        long end = places;
        while (end > 0 && y[i * places + end - 1] == *label) end--;
        found += places - end, shorter += end < places;
    }
    return 2 * shorter >= rows ? (double)found / (double)(rows * places) : 0;
}

/* The share of the targets of a comparison that the loss leaves out; 0: none that are known. *label: theirs. */
static double counted(const dlsh_examination *e, const char *file, const dlsh_node *compared, const left_out *by,
                      double *label, long *n) {
    double share = 0;
    const int call = compared->kind == DLSH_N_CALL;
    for (int k = 0; k < 2 && !(share > 0); k++) {
        const dlsh_node *side = compared->kids[k + call];
        DLSH_OWNED dl_tensor *y = dlsh_uses_net(e, file, side) ? NULL : targets_of(e, file, side);
        DLSH_FREED double *v = y ? malloc((size_t)dl_numel(y) * sizeof *v + 1) : NULL;
        if (!v || dl_read_f64(y, v)) {
            dl_error_clear();
            continue;
        }
        *n = dl_numel(y);
        if (isfinite(by->label)) {
            *label = by->label, share = share_of(v, *n, by->label);
        } else if (dl_ndim(y) == 2 && dl_shape(y)[0] > 1 && dl_shape(y)[1] > 2) {
            share = share_at_ends(v, dl_shape(y)[0], dl_shape(y)[1], label);
            if (isnan(by->kept) ? share < 0.3 : fabs(share - (1 - by->kept)) > 0.12) share = 0;
        }
    }
    return share > 0.05 && share < 1 ? share : 0;
}

/* ---------------------------------------------------------------- the figure */

/* y.numel(), y.shape[0] * y.shape[1], len(y) * 20. */
static int counts_all(const dlsh_examination *e, const char *file, const dlsh_node *n, long all) {
    if (!n) return 0;
    if (n->kind == DLSH_N_NAME && isnan(dlsh_number_of(e, file, n))) n = dlsh_defined(file, n);
    if (!n) return 0;
    const int sizes = n->kind == DLSH_N_INDEX && n->kids[0]->kind == DLSH_N_FIELD && !strcmp(n->kids[0]->text, "shape");
    if (dlsh_is_call_of(n, "numel") || sizes || dlsh_is_call_of(n, "len")) return !sizes + 1;
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MUL) {
        const int a = counts_all(e, file, n->kids[0], 0), b = counts_all(e, file, n->kids[1], 0);
        return a && b ? 2 : 0;
    }
    const double number = dlsh_number_of(e, file, n);
    return all ? number == (double)all : isfinite(number);
}

/* What name += adds in the text, the last time; NULL: nothing. */
static const dlsh_node *added_to(const char *file, const dlsh_node *n) {
    const dlsh_node *found = NULL;
    DLSH_EACH_BELOW (t, n->kind == DLSH_N_NAME ? dlsh_text_root(file) : NULL)
        if (t.n->kind == DLSH_N_ASSIGN && t.n->op == DLSH_OP_ADD && dlsh_names(t.n->kids[0], n->text))
            found = t.n->kids[1];
    return found;
}

/* The comparison that a figure is the share of, over all that is compared; NULL: it is none. */
static const dlsh_node *share_in(const dlsh_node *n, const char *file, const dlsh_node **divisor) {
    int sums = 0;
    const dlsh_node *mean = operand_of(n, "mean"), *by = NULL;
    *divisor = NULL;
    if (dlsh_is_call_of(n, "accuracy_score|balanced_accuracy_score|f1_score") && n->nkids > 2) return n;
    if (mean) return comparison_of(file, mean, &sums);
    if (n->kind != DLSH_N_BINARY || n->op != DLSH_OP_DIV) return NULL;
    const dlsh_node *up = added_to(file, n->kids[0]), *down = added_to(file, n->kids[1]);
    by = comparison_of(file, up ? up : n->kids[0], &sums);
    *divisor = down ? down : n->kids[1];
    return sums ? by : NULL;
}

void dlsh_find_counted_padding(dlsh_examination *e) {
    left_out by = {0};
    int known = 0;
    DLSH_EACH_ROW_WHILE (!known, r, e, DL_DID_BACKWARD)
        if (r->count > 3) known = finds_left_out(dlsh_pass_of(r, 1), &by);
    if (!known) return;
    DLSH_EACH_NODE (t) {
        const dlsh_node *divisor, *compared = share_in(t.n, t.file, &divisor);
        double label = 0;
        long n = 0;
        const double share = compared ? counted(e, t.file, compared, &by, &label, &n) : 0;
        if (share == 0 || (divisor && counts_all(e, t.file, divisor, n) < 1)) continue;
        dlsh_found(
            e, t.file, t.n->span.line,
            isfinite(by.label)
                ? dlsh_kept(e, "count the others alone: ok = target != %.0f; (right & ok).sum() / ok.sum()", label)
                : "take the mean under the mask of the loss, too: (right * mask).sum() / mask.sum()",
            "the figure counts the places that the loss leaves out, as padding: they are not what is learned\n"
            "%.0f %% of the targets that line %d compares are %.0f, and the loss of line %d leaves those out%s; "
            "here all places count",
            100 * share, compared->span.line, label, by.loss->line,
            isfinite(by.label) ? dlsh_kept(e, " (ignore_index=%.0f)", by.label) : " by a mask");
    }
}
