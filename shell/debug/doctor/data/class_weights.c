/* Weights of classes that are larger for those that are there more often. */
#include <string.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "view/elements.h"

/* Arithmetic by which weights are made of counts. */
static dlsh_property is_arithmetic(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n;
    const int counts = n->kind == DLSH_N_CALL && !dlsh_is_call_of(n, "float|double|to|sqrt|pow|clamp|reciprocal");
    if (n->kind == DLSH_N_BINARY) return n->op == DLSH_OP_DIV || n->op == DLSH_OP_MUL ? DLSH_HAS : DLSH_MAY_HAVE;
    return counts || n->kind == DLSH_N_LIST || n->kind == DLSH_N_COMPREHENSION ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
}

/* A table of a number for each class that a loss by hand picks by the labels, w[y]; NULL: there is none. */
static const dlsh_node *picked_weights(const dlsh_examination *e, const char *file, const dlsh_node *n, int classes,
                                       double *value) {
    const dlsh_value *v = n->kind == DLSH_N_INDEX && n->nkids == 2 && n->kids[1]->kind == DLSH_N_NAME
                              ? dlsh_value_of(e, file, n->kids[0])
                              : NULL;
    dl_tensor *t = v && v->type == DLSH_TENSOR ? v->as.tensor : NULL;
    if (!t || dl_ndim(t) != 1 || dl_numel(t) != classes || !dl_dtype_is_float(dl_dtype_of(t)) || dl_requires_grad(t))
        return NULL;
    return dl_read_f64(t, value) ? dl_error_clear(), NULL : n->kids[0];
}

enum { MOST = 16 };

/* Has the class with most samples the largest weight, and the one with least, clearly, a smaller one? */
static int are_turned(const double *count, const double *w, int classes, int *most, int *least) {
    int heavy = 0;
    *most = *least = 0;
    for (int c = 1; c < classes; c++) {
        if (count[c] > count[*most]) *most = c;
        if (count[c] < count[*least]) *least = c;
        if (w[c] > w[heavy]) heavy = c;
    }
    return heavy == *most && count[*most] >= 1.8 * count[*least] && w[*most] > 1.3 * w[*least];
}

static void tell(dlsh_examination *e, const char *file, int line, const double *count, const double *w, int most,
                 int least) {
    dlsh_found(
        e, file, line, "weights that fall with the number of samples: n / (classes * counts)",
        "the weights of classes are the wrong way round: what is rare counts least\n"
        "of the samples that training is given class %d has %.0f and weight %.3g, class %d has %.0f and weight %.3g",
        most, count[most], w[most], least, count[least], w[least]);
}

/* Does the loss of a backward pass come from what a line computes? */
static int goes_into_loss(const dlsh_examination *e, const char *file, int line) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (!strcmp(r->file, file) && dlsh_comes_from(e, file, r->line, line)) return 1;
    return 0;
}

/* Of a loss by hand, which picks them by the labels. */
static void find_picked(dlsh_examination *e, const double *count) {
    int classes = 0, most, least;
    double w[MOST];
    while (classes < MOST && count[classes] > 0) classes++;
    DLSH_EACH_NODE (t) {
        const dlsh_node *table = classes > 1 ? picked_weights(e, t.file, t.n, classes, w) : NULL;
        if (!table || !goes_into_loss(e, t.file, t.n->span.line)) continue;
        const dlsh_node *first = dlsh_origin(t.file, table, is_arithmetic, NULL);
        if (are_turned(count, w, classes, &most, &least) && w[least] >= 0)
            tell(e, t.file, first ? first->span.line : t.n->span.line, count, w, most, least);
        return;
    }
}

/* Of a loss that is given them. */
static void find_given(dlsh_examination *e, const double *count) {
    const dl_journal_node *n;
    for (dlsh_node_walk all = {0}; (n = dlsh_node_next(e, "cross_entropy|nll_picked", &all));) {
        const dl_journal_value *w = &n->in[2];
        int most, least;
        if (!w->there || !w->constant || w->nfew < 2 || w->nfew > MOST) continue;
        if (!are_turned(count, w->few, w->nfew, &most, &least)) continue;
        const dlsh_node *call = dlsh_call_on_line(n->file, n->line, "loss|entropy|nll");
        const dlsh_node *given = call ? dlsh_argument_of(call, 2, "weight") : NULL;
        const dlsh_node *made = dlsh_defined(n->file, given);
        const dlsh_node *first = given ? dlsh_origin(n->file, given, is_arithmetic, NULL) : NULL;
        const dlsh_node *at = first ? first : made;
        tell(e, n->file, at ? at->span.line : n->line, count, w->few, most, least);
        return;
    }
}

typedef struct positives {
    dlsh_examination *e;
    double share; /* of samples with label 1 */
} positives;

/* pos_weight=w: less than 1 where positives are rare, or more where they are most. */
static int see_pos_weight(void *ctx, const char *file, const dlsh_node *n) {
    const positives *p = ctx;
    if (n->kind != DLSH_N_KWARG || strcmp(n->text, "pos_weight") != 0) return 0;
    const dlsh_value *v = dlsh_value_of(p->e, file, n->kids[0]);
    double w = dlsh_number_of(p->e, file, n->kids[0]);
    if (v && v->type == DLSH_TENSOR && dl_numel(v->as.tensor) == 1) dl_read_f64(v->as.tensor, &w);
    if (!((p->share < 0.35 && w < 0.7) || (p->share > 0.65 && w > 1.4))) return 0;
    const dlsh_node *first = dlsh_origin(file, n->kids[0], is_arithmetic, NULL);
    dlsh_found(p->e, file, first ? first->span.line : n->span.line,
               "pos_weight = negatives / positives, which is large where positives are rare",
               "pos_weight is the wrong way round: what is rare counts least\n"
               "%.3g %% of the labels are 1, and pos_weight is %.3g",
               100 * p->share, w);
    return 1;
}

static void find_turned_pos_weight(dlsh_examination *e, const dlsh_samples *s) {
    positives p = {e, 0};
    for (long i = 0; s->y && i < s->n; i++) {
        if (s->y[i] != 0 && s->y[i] != 1) return;
        p.share += s->y[i] / (double)s->n;
    }
    if (s->y && s->n > 30 && p.share > 0) dlsh_each_node(see_pos_weight, &p);
}

void dlsh_find_turned_weights(dlsh_examination *e, const dlsh_samples *s) {
    double count[MOST] = {0};
    for (long i = 0; s->y && s->classes && i < s->n; i++)
        if (s->y[i] >= 0 && s->y[i] < MOST) count[(int)s->y[i]]++;
    if (s->y && s->classes) find_given(e, count), find_picked(e, count);
    find_turned_pos_weight(e, s);
}
