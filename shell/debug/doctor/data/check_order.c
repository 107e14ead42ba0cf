/* Sequences of words whose order a net cannot see: attention without positions, means over places. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/trial.h"
#include "dlcore/index.h"

static int has_kind(dl_module *m, const char *a, const char *b) {
    if (strstr(dl_module_kind(m), a) || strstr(dl_module_kind(m), b)) return 1;
    for (int i = 0; i < dl_module_count(m); i++)
        if (has_kind(dl_module_at(m, i), a, b)) return 1;
    return 0;
}

/* The words of each sample in the opposite order. */
static dl_tensor *turned(const dlsh_examination *e, dl_tensor *x) {
    DLSH_SCOPED_GRAD_MODE(0);
    (void)e;
    return dl_flip(x, (long[]){1}, 1);
}

/* Are both the same but for the order in which sums were taken? */
static int is_same(const dl_tensor *a, const dl_tensor *b) {
    const long n = dl_numel(a);
    DLSH_FREED double *x = malloc(((size_t)n + 1) * sizeof *x), *y = malloc(((size_t)n + 1) * sizeof *y);
    double far = 0, size = 0;
    if (!n || dl_numel(b) != n || !x || !y || dl_read_f64(a, x) || dl_read_f64(b, y)) return dl_error_clear(), 0;
    for (long i = 0; i < n; i++) far = fmax(far, fabs(x[i] - y[i])), size = fmax(size, fabs(x[i]));
    return far <= 1e-4 * size;
}

/* The op whose result is the same although an operand has another order. */
static const dl_recorded *pooling(const dlsh_trial *a, const dlsh_trial *b) {
    for (long i = 0; i < a->n && i < b->n; i++) {
        if (!dlsh_is_word("mean|sum|amax|amin|max|logsumexp", a->calls[i].op)) continue;
        const long from = a->from[i][0];
        if (from < 0 || !a->result[i] || !b->result[i] || !is_same(a->result[i], b->result[i])) continue;
        if (!is_same(a->result[from], b->result[from])) return &a->calls[i];
    }
    return NULL;
}

static void judge_pooling(dlsh_examination *e, const dlsh_trial *a, const dlsh_trial *b, dl_tensor *x, dl_tensor *y,
                          dl_tensor *z) {
    if (dl_shape(y)[0] != dl_shape(x)[0] || !is_same(y, z)) return;
    for (int i = 0; i < e->nfindings; i++)
        if (!e->findings[i].note) return; /* nothing is learned because of that */
    const dl_recorded *c = pooling(a, b);
    dlsh_finding *f = c ? dlsh_find_at(e, dlsh_call_file(c), dlsh_call_line(c),
                                       "flatten, a recurrent layer or positions, where the order counts")
                        : NULL;
    if (!f) return;
    dlsh_cause(f, "the net cannot see the order of the words: %s over the places throws it away", c->op);
    dlsh_evidence(
        f,
        "with the %ld words of each sample in the opposite order its result is the same, and the loss does not "
        "fall",
        dl_shape(x)[1]);
}

static void judge_order(dlsh_examination *e, const dlsh_trial *a, const dlsh_trial *b, dl_tensor *x, dl_tensor *y,
                        dl_tensor *z) {
    const dl_recorded *c = NULL;
    (void)b;
    if (dl_shape(y)[0] != dl_shape(x)[0] || !is_same(y, z)) return;
    for (long i = 0; i < a->n && !c; i++)
        if (!strcmp(a->calls[i].op, "embedding") || !strcmp(a->calls[i].op, "index_select")) c = &a->calls[i];
    if (c)
        dlsh_found(e, c->file, c->line, "add positions to the words: a layer positionalembedding",
                   "the net cannot see the order of the words: attention has no positions\n"
                   "with the %ld words of each sample in the opposite order its result is the same",
                   dl_shape(x)[1]);
}

/* Of a net that learns little so: where the order tells nothing, nothing is missing. */
static int learns_little(const dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (r->count > 20 && r->last > 0.35 * r->first) return 1;
    return 0;
}

/* Does no loss fall at all? */
static int learns_nothing(const dlsh_examination *e) {
    const dl_journal_row *r;
    int passes = 0;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_BACKWARD, &i)); passes += r->count > 20)
        if (dlsh_settled_lower(r, 0.1)) return 0;
    return passes > 0;
}

dl_status dlsh_check_order(dlsh_examination *e) {
    const dl_tensor *x = e->probed && e->probe.nin == 1 ? e->probe.in[0] : NULL;
    if (!x || dl_ndim(x) != 2 || dl_shape(x)[1] < 3 || dl_dtype_is_float(dl_dtype_of(x)) || !learns_little(e))
        return DL_OK;
    if (dlsh_was_found(e, "all of the input counts", "the wrong way round")) return DL_OK;
    if (!e->probe.net || !has_kind(e->probe.net, "attention", "transformer"))
        return learns_nothing(e) ? dlsh_compare_passes(e, turned, judge_pooling) : DL_OK;
    return dlsh_compare_passes(e, turned, judge_order);
}
