/* einsum: operands are contracted one after another, each pair by one matmul. Of the labels that both have, those not
 * needed later are the inner dimension and the others the batch; a label of one operand alone is a row or a column, or
 * is summed before when it is not needed later. */
#include "ops/compose/compose.h"
#include "ops/compose/rows/row_sum.h"
#include "dlcore/arithmetic.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "ops/names/arithmetic.h"
#include "ops/rules/matmul.h"

#include <string.h>

/* Labels of dimensions: A..Z, a..z, and those that an ellipsis stands for, aligned at the last. */
enum { LETTERS = 52, LABELS = LETTERS + DL_MAX_DIM, ELLIPSIS = LABELS, MAX_TERMS = 8, MAX_NAMES = 32 };

/* A tensor with a label for each dimension. */
typedef struct term {
    dl_tensor *t;
    int n;
    unsigned char label[DL_MAX_DIM];
} term;

typedef struct plan {
    dl_pool p, parts; /* parts: of the pair that is being joined */
    const char *text;
    int nterms, nout, wide; /* wide: the most dimensions that an ellipsis stands for */
    bool arrow;
    int count[MAX_TERMS + 1]; /* names of each term, and after them of the result */
    unsigned char name[MAX_TERMS + 1][MAX_NAMES];
    term in[MAX_TERMS];
    long size[LABELS];
    int seen[LABELS]; /* how often a letter stands left of the arrow */
    unsigned char out[LABELS];
} plan;

static char letter(int label) { return (char)(label < 26 ? 'A' + label : 'a' + label - 26); }
static int label_of(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1; }
static bool has(const term *a, int label) { return memchr(a->label, label, (size_t)a->n) != NULL; }

/* ---- the text */

static dl_status bad_text(const plan *e, const char *what) {
    return dl_fail_hint(DL_ERR_VALUE,
                        "write einsum(\"ij,jk->ik\", a, b): a letter for each dimension, ... for any others",
                        "'%s': %s", e->text, what);
}

/* One name at s into term k; returns its length, 0 for what is none. */
static int read_name(plan *e, const char *s, int k) {
    bool dots = !strncmp(s, "...", 3);
    int label = dots ? ELLIPSIS : label_of(*s);
    if (label < 0 || e->count[k] == MAX_NAMES) return 0;
    e->name[k][e->count[k]++] = (unsigned char)label;
    return dots ? 3 : 1;
}

/* Terms, and with an arrow the result, which is number MAX_TERMS. */
static dl_status read_text(plan *e) {
    int k = 0;
    for (const char *s = e->text; *s;) {
        int n = *s == ' ' ? 1 : read_name(e, s, k);
        if (!n && *s == ',' && !e->arrow && k + 1 == MAX_TERMS)
            return dl_fail_hint(DL_ERR_VALUE, "join some of them first", "einsum takes at most %d operands", MAX_TERMS);
        if (!n && *s == ',' && !e->arrow)
            n = 1, k++;
        else if (!n && !strncmp(s, "->", 2) && !e->arrow)
            n = 2, e->arrow = true, e->nterms = k + 1, k = MAX_TERMS;
        if (!n) return bad_text(e, "letters, commas between the operands, ... and one -> are all that can stand there");
        s += n;
    }
    if (!e->arrow) e->nterms = k + 1;
    for (k = 0; k <= MAX_TERMS; k++)
        for (int i = 0, dots = 0; i < e->count[k]; i++)
            if ((dots += e->name[k][i] == ELLIPSIS) > 1) return bad_text(e, "an operand has one ... at most");
    return DL_OK;
}

/* ---- operands */

static bool same_size(plan *e, int label, long size) {
    if (e->size[label] < 0 || e->size[label] == 1) e->size[label] = size;
    return size == 1 || e->size[label] == size;
}

/* Labels of operand k, and what they tell about sizes. */
static dl_status label_operand(plan *e, int k, dl_tensor *t) {
    int named = 0, at = 0;
    bool dots = false;
    for (int i = 0; i < e->count[k]; i++) e->name[k][i] == ELLIPSIS ? (dots = true) : named++;
    int rest = t->ndim - named;
    if (rest < 0 || (rest && !dots))
        return dl_fail_hint(DL_ERR_SHAPE, "a letter stands for one dimension, ... for any number of them",
                            "operand %d of '%s' has %d dimensions, not %d%s", k, e->text, t->ndim, named,
                            dots ? " or more" : "");
    term *a = &e->in[k];
    *a = (term){.t = t, .n = t->ndim};
    for (int i = 0; i < e->count[k]; i++) {
        int label = e->name[k][i], many = label == ELLIPSIS ? rest : 1;
        for (int j = 0; j < many; j++, at++) {
            a->label[at] = (unsigned char)(label == ELLIPSIS ? LABELS - rest + j : label);
            if (!same_size(e, a->label[at], t->shape[at]))
                return label == ELLIPSIS
                           ? dl_fail(DL_ERR_SHAPE, "the dimensions that ... stands for in '%s' do not broadcast",
                                     e->text)
                           : dl_fail(DL_ERR_SHAPE, "'%c' of '%s' has size %ld in operand %d, %ld before it",
                                     letter(label), e->text, t->shape[at], k, e->size[label]);
        }
        if (label != ELLIPSIS) e->seen[label]++;
    }
    if (rest > e->wide) e->wide = rest;
    return DL_OK;
}

/* A letter that stands twice in an operand is its diagonal. */
static dl_status take_diagonals(plan *e, term *a) {
    for (int i = 0; i < a->n; i++)
        for (int j = i + 1; j < a->n; j++) {
            if (a->label[i] != a->label[j]) continue;
            int label = a->label[i];
            if (a->t->shape[i] != a->t->shape[j])
                return dl_fail(DL_ERR_SHAPE, "'%c' of '%s' stands for sizes %ld and %ld of one operand", letter(label),
                               e->text, a->t->shape[i], a->t->shape[j]);
            if (!(a->t = dl_keep(&e->p, dl_diagonal(a->t, 0, i, j)))) return dl_failed();
            memmove(a->label + j, a->label + j + 1, (size_t)(a->n - j - 1));
            memmove(a->label + i, a->label + i + 1, (size_t)(a->n - i - 2));
            a->n--;
            a->label[a->n - 1] = (unsigned char)label; /* the diagonal is the last dimension */
            i = -1;
            break;
        }
    return DL_OK;
}

/* Without an arrow: what an ellipsis stands for, then the letters that stand once, in the order of the alphabet. */
static dl_status plan_result(plan *e) {
    bool used[LABELS] = {false};
    for (int i = 0; i < (e->arrow ? e->count[MAX_TERMS] : 1); i++) {
        int label = e->arrow ? e->name[MAX_TERMS][i] : ELLIPSIS;
        if (label == ELLIPSIS) {
            for (int k = 0; k < e->wide; k++) e->out[e->nout++] = (unsigned char)(LABELS - e->wide + k);
            continue;
        }
        if (!e->seen[label]) return bad_text(e, "a letter of the result stands for no dimension of an operand");
        if (used[label]) return bad_text(e, "a letter stands twice in the result");
        used[label] = true;
        e->out[e->nout++] = (unsigned char)label;
    }
    for (int label = 0; !e->arrow && label < LETTERS; label++)
        if (e->seen[label] == 1) e->out[e->nout++] = (unsigned char)label;
    if (e->nout > DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "the result of '%s' would have %d dimensions; %d are the most", e->text, e->nout,
                       DL_MAX_DIM);
    return DL_OK;
}

/* ---- joining */

/* Sums a over the labels that `wanted` does not have. */
static bool sum_others(plan *e, term *a, const bool *wanted) {
    long gone[DL_MAX_DIM];
    int n = 0, left = 0;
    for (int i = 0; i < a->n; i++) {
        if (wanted[a->label[i]])
            a->label[left++] = a->label[i];
        else
            gone[n++] = i;
    }
    a->n = left;
    if (n) a->t = dl_keep(&e->parts, dl_sum(a->t, gone, n, 0));
    return a->t != NULL;
}

/* a with its dimensions in the order of `label`, and ones of size 1 (or the full one, when `full`) expanded. */
static dl_tensor *ordered(plan *e, const term *a, int n, const unsigned char *label) {
    long dims[DL_MAX_DIM], shape[DL_MAX_DIM];
    for (int i = 0; i < n; i++) {
        dims[i] = (const unsigned char *)memchr(a->label, label[i], (size_t)a->n) - a->label;
        shape[i] = e->size[label[i]];
    }
    dl_tensor *t = dl_keep(&e->parts, dl_permute(a->t, dims, n));
    return t ? dl_keep(&e->parts, dl_expand(t, shape, n)) : NULL;
}

typedef struct group {
    int n;
    unsigned char label[DL_MAX_DIM];
    long size; /* of all together */
} group;

static void join_group(group *g, const plan *e, int label) {
    g->label[g->n++] = (unsigned char)label;
    g->size *= e->size[label];
}

static int append(unsigned char *to, int n, const group *g) {
    memcpy(to + n, g->label, (size_t)g->n);
    return n + g->n;
}

/* a's batch, rows and inner dimensions, each as few dimensions: [batch..., rows, inner] by the order given. */
static dl_tensor *as_matrices(plan *e, const term *a, const group *batch, const group *first, const group *second) {
    unsigned char label[DL_MAX_DIM];
    long shape[DL_MAX_DIM];
    int n = append(label, append(label, append(label, 0, batch), first), second), nd = 0;
    dl_tensor *t = ordered(e, a, n, label);
    if (batch->n <= DL_MAX_DIM - 2)
        for (; nd < batch->n; nd++) shape[nd] = e->size[batch->label[nd]];
    else
        shape[nd++] = batch->size;
    shape[nd++] = first->size, shape[nd++] = second->size;
    return t ? dl_keep(&e->parts, dl_reshape(t, shape, nd)) : NULL;
}

/* Nothing to sum over: each element of a with each of b. */
static dl_tensor *products_of(plan *e, dl_tensor *a, dl_tensor *b) { return dl_keep(&e->parts, dl_mul(a, b)); }
static dl_tensor *products(plan *e, const term *a, const term *b, const group *batch, const group *rows,
                           const group *cols) {
    return products_of(e, as_matrices(e, a, batch, rows, &(group){.size = 1}),
                       as_matrices(e, b, batch, &(group){.size = 1}, cols));
}

/* The sums of products of rows that belong together, which as matrices of one row each take longer on a GPU. */
static dl_tensor *row_products(plan *e, const term *a, const term *b, const group *batch, const group *inner) {
    const group one = {.size = 1};
    dl_tensor *left = as_matrices(e, a, batch, &one, inner), *right = as_matrices(e, b, batch, &one, inner);
    return dl_keep(&e->parts, dl_products_sum(left, right, -1, false));
}

static bool are_rows(const term *a, const term *b, const group *batch, const group *rows, const group *cols) {
    const bool exact = a->t->dtype == DL_F32 || a->t->dtype == DL_F64; /* sums run in f64 */
    const bool summed = exact || dl_row_sums(dl_op_row(dl_id_mul), (dl_tensor *[]){a->t, b->t});
    return a->t->st->device && summed && batch->n && !rows->n && !cols->n;
}

/* a = a and b joined; the labels in `wanted` stay. */
static dl_status join(plan *e, term *a, term *b, const bool *wanted) {
    group batch = {.size = 1}, rows = {.size = 1}, cols = {.size = 1}, inner = {.size = 1};
    bool of_a[LABELS], of_b[LABELS];
    memcpy(of_a, wanted, sizeof of_a), memcpy(of_b, wanted, sizeof of_b);
    for (int i = 0; i < a->n; i++) of_b[a->label[i]] = true;
    for (int i = 0; i < b->n; i++) of_a[b->label[i]] = true;
    if (!sum_others(e, a, of_a) || !sum_others(e, b, of_b)) return dl_failed();
    for (int i = 0; i < a->n; i++) {
        bool shared = has(b, a->label[i]);
        join_group(!shared ? &rows : wanted[a->label[i]] ? &batch : &inner, e, a->label[i]);
    }
    for (int i = 0; i < b->n; i++)
        if (!has(a, b->label[i])) join_group(&cols, e, b->label[i]);
    if (batch.n + rows.n + cols.n > DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "'%s' takes more than %d dimensions on the way", e->text, DL_MAX_DIM);
    dl_tensor *t = !inner.n ? products(e, a, b, &batch, &rows, &cols)
                   : are_rows(a, b, &batch, &rows, &cols)
                       ? row_products(e, a, b, &batch, &inner)
                       : dl_keep(&e->parts, dl_matmul(as_matrices(e, a, &batch, &rows, &inner),
                                                      as_matrices(e, b, &batch, &inner, &cols)));
    long shape[DL_MAX_DIM];
    a->n = append(a->label, append(a->label, append(a->label, 0, &batch), &rows), &cols);
    for (int i = 0; i < a->n; i++) shape[i] = e->size[a->label[i]];
    a->t = t ? dl_keep(&e->p, dl_reshape(t, shape, a->n)) : NULL;
    dl_release(&e->parts);
    return a->t ? DL_OK : dl_failed();
}

static dl_status run(plan *e, dl_call *c) {
    DL_TRY(read_text(e));
    if (e->nterms != c->nin)
        return dl_fail(DL_ERR_VALUE, "'%s' describes %d operand%s, but %d are given", e->text, e->nterms,
                       e->nterms == 1 ? "" : "s", c->nin);
    for (int i = 0; i < LABELS; i++) e->size[i] = -1;
    for (int k = 0; k < c->nin; k++) DL_TRY(label_operand(e, k, c->in[k]));
    for (int k = 0; k < c->nin; k++) DL_TRY(take_diagonals(e, &e->in[k]));
    DL_TRY(plan_result(e));
    term *a = &e->in[0];
    for (int k = 0; k < c->nin; k++) { /* what is wanted of all up to k: the result, and what comes later */
        bool wanted[LABELS] = {false};
        for (int i = 0; i < e->nout; i++) wanted[e->out[i]] = true;
        for (int l = k + 1; l < c->nin; l++)
            for (int i = 0; i < e->in[l].n; i++) wanted[e->in[l].label[i]] = true;
        if (k) DL_TRY(join(e, a, &e->in[k], wanted));
        if (!k && c->nin == 1 && !sum_others(e, a, wanted)) return dl_failed();
    }
    return dl_finish(c, dl_ref(ordered(e, a, e->nout, e->out)));
}

COMPOSE_RULE(einsum) {
    plan e = {.text = ATTR_S(c, EINSUM_EQUATION)};
    if (strlen(e.text) == sizeof ATTR_S(c, EINSUM_EQUATION) - 1)
        return dl_fail(DL_ERR_VALUE, "an equation has fewer than %d characters",
                       (int)sizeof ATTR_S(c, EINSUM_EQUATION) - 1);
    dl_status s = run(&e, c);
    dl_release(&e.parts);
    dl_release(&e.p);
    return s;
}
