/* Distributions of vectors with a covariance of low rank, of covariances (Wishart) and of correlations (LKJ); as
 * torch.distributions has them. */
#include "ops/compose/chance/draw.h"
#include "ops/compose/chance/words.h"
#include "ops/matrices.h"
#include "dlcore/binary.h"
#include "dlcore/create.h"
#include "dlcore/linalg.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/index.h"
#include "dlcore/rounding.h"
#include "dlcore/matmul.h"
#include "ops/rules/distribution.h"

#include <math.h>
#include <string.h>

static const long last = -1;

#define SUM(x) K(dl_sum((x), &last, 1, 0))
#define NEG(x) K(dl_neg(x))
#define ROWS(x) K(dl_with_dim((x), -2))
#define COLUMN(x) K(dl_with_dim((x), -1))

static dl_tensor *log_diagonal(dl_pool *p, dl_tensor *l) { return SUM(LOG(K(dl_diagonal(l, 0, -2, -1)))); }
static dl_tensor *under(dl_pool *p, dl_tensor *l, dl_tensor *x) {
    return l && x ? dl_mat_triangle(p, l, x, false, false, false) : NULL;
}

/* The shape of a draw: the sizes that are given, what the parameters have before their own dimensions, and more. */
typedef struct sizes {
    long v[2 * DL_MAX_DIM];
    int n;
} sizes;

static dl_status start_sizes(sizes *s, const dl_aval *given, int na, const long *a, int nb, const long *b) {
    long batch[2 * DL_MAX_DIM];
    int n;
    DL_TRY(dl_broadcast(na, a, nb, b, &n, batch));
    if (given->n + n + 2 > DL_MAX_DIM) return dl_fail(DL_ERR_SHAPE, "a tensor has at most %d dimensions", DL_MAX_DIM);
    memcpy(s->v, given->u.v, (size_t)given->n * sizeof *s->v);
    memcpy(s->v + given->n, batch, (size_t)n * sizeof *s->v);
    s->n = given->n + n;
    return DL_OK;
}
static dl_tensor *noise(dl_call *c, dl_pool *p, sizes s, long a, long b) {
    s.v[s.n] = a, s.v[s.n + 1] = b;
    return K(dl_randn(s.v, s.n + 2, (int)c->dtype, c->device));
}

/* ---- normal, of covariance W W^T + diag(D): loc [..., k], W [..., k, r], D [..., k] */

/* t in another pool. */
static dl_tensor *kept(dl_pool *outer, dl_tensor *t) { return t ? dl_keep(outer, dl_ref(t)) : NULL; }

/* The triangle of I + W^T D^-1 W, and in *across W^T D^-1. */
static dl_tensor *capacitance(dl_pool *outer, dl_tensor *w, dl_tensor *d, dl_tensor **across) {
    POOL;
    if (w->ndim < 2) return dl_fail(DL_ERR_SHAPE, "cov_factor must be [..., size, rank]"), NULL;
    dl_tensor *scaled = DIV(dl_mat_turned(p, w), ROWS(d)), *inner = scaled ? dl_mat_mul(p, scaled, w) : NULL;
    dl_tensor *eye = inner ? dl_mat_eye(p, w, dl_mat_width(w)) : NULL;
    *across = kept(outer, scaled);
    return kept(outer, K(dl_cholesky(ADD(inner, eye), 0)));
}
static dl_tensor *low_rank_size(dl_pool *outer, dl_tensor *l, dl_tensor *d) {
    POOL;
    return kept(outer, ADD(log_diagonal(p, l), MUL(SUM(LOG(d)), N(0.5))));
}
static dl_tensor *low_rank_distance(dl_pool *outer, dl_tensor *l, dl_tensor *across, dl_tensor *d, dl_tensor *y) {
    POOL;
    dl_tensor *inner = y && across ? dl_mat_mul(p, across, COLUMN(y)) : NULL, *part = under(p, l, inner);
    return kept(outer, SUB(SUM(DIV(SQUARE(y), d)), part ? SUM(SQUARE(K(dl_select(part, -1, 0)))) : NULL));
}
/* The trace of the first covariance times the inverse of the second. */
static dl_tensor *low_rank_spread(dl_pool *outer, dl_tensor *pw, dl_tensor *pd, dl_tensor *ql, dl_tensor *qa,
                                  dl_tensor *qd) {
    POOL;
    dl_tensor *a = under(p, ql, qa), *inner = a ? dl_mat_mul(p, a, pw) : NULL;
    dl_tensor *own = ADD(SUM(DIV(pd, qd)), SUM(SUM(DIV(SQUARE(pw), COLUMN(qd)))));
    dl_tensor *less = ADD(SUM(SUM(MUL(SQUARE(a), ROWS(pd)))), SUM(SUM(SQUARE(inner))));
    return kept(outer, SUB(own, less));
}

POOLED_RULE(low_rank_multivariate_normal_log_prob) {
    dl_tensor *across, *d = IN(3), *l = capacitance(p, IN(2), d, &across);
    if (!l) return dl_failed();
    dl_tensor *far = low_rank_distance(p, l, across, d, SUB(IN(0), IN(1)));
    RESULT(SUB(MUL(ADD(far, N((double)dl_mat_height(IN(2)) * LN_2PI)), N(-0.5)), low_rank_size(p, l, d)));
}
POOLED_RULE(low_rank_multivariate_normal_entropy) {
    dl_tensor *across, *l = capacitance(p, IN(1), IN(2), &across);
    if (!l) return dl_failed();
    const double k = (double)dl_mat_height(IN(1));
    RESULT(ADD(ADD(low_rank_size(p, l, IN(2)), SUM(MUL(IN(0), N(0)))), N(0.5 * k * (1 + LN_2PI))));
}
POOLED_RULE(low_rank_multivariate_normal_kl) {
    dl_tensor *pw = IN(1), *pd = IN(2), *qd = IN(5), *pa, *qa;
    dl_tensor *pl = capacitance(p, pw, pd, &pa), *ql = pl ? capacitance(p, IN(4), qd, &qa) : NULL;
    if (!ql) return dl_failed();
    dl_tensor *spread = low_rank_spread(p, pw, pd, ql, qa, qd),
              *far = low_rank_distance(p, ql, qa, qd, SUB(IN(3), IN(0)));
    dl_tensor *size = MUL(SUB(low_rank_size(p, ql, qd), low_rank_size(p, pl, pd)), N(2));
    RESULT(MUL(SUB(ADD(ADD(size, spread), far), N((double)dl_mat_height(pw))), N(0.5)));
}
POOLED_RULE(low_rank_multivariate_normal_sample) {
    dl_tensor *w = IN(1), *d = IN(2), *like = ADD(IN(0), d);
    sizes s;
    if (!like || w->ndim < 2) return like ? dl_fail(DL_ERR_SHAPE, "cov_factor must be [..., size, rank]") : dl_failed();
    DL_TRY(start_sizes(&s, ATTR(c, DRAW_SHAPE), like->ndim - 1, like->shape, w->ndim - 2, w->shape));
    dl_tensor *far = dl_mat_mul(p, w, noise(c, p, s, dl_mat_width(w), 1));
    dl_tensor *near = noise(c, p, s, dl_mat_height(w), 1);
    near = near ? MUL(K(dl_select(near, -1, 0)), K(dl_sqrt(d))) : NULL;
    return dl_finish(c, far ? dl_add(ADD(IN(0), K(dl_select(far, -1, 0))), near) : NULL);
}

/* ---- Wishart: df [...], the triangle L [..., k, k] */

/* (df - i) / 2, i < k, on the device of the triangle l, where df may be a number of the language. */
static dl_tensor *half_freedoms(dl_pool *p, dl_tensor *df, const dl_tensor *l) {
    const double end = (double)dl_mat_width(l);
    const int device = l->st->device;
    dl_tensor *i = K(dl_arange(0, &end, 1, df->dtype, device)), *there = K(dl_to_device(df, device));
    return MUL(SUB(COLUMN(there), i), N(0.5));
}
static dl_tensor *sum_digamma(dl_pool *p, dl_tensor *df, const dl_tensor *l) {
    return SUM(DIGAMMA(half_freedoms(p, df, l)));
}

POOLED_RULE(wishart_log_prob) {
    dl_tensor *x = IN(0), *df = IN(1), *l = IN(2), *sign, *size;
    const long k = dl_mat_width(l);
    dl_tensor *half = under(p, l, x), *whole = half ? dl_mat_triangle(p, l, half, false, true, false) : NULL;
    dl_tensor *trace = whole ? SUM(K(dl_diagonal(whole, 0, -2, -1))) : NULL;
    if (!trace || !(sign = K(dl_slogdet(x, &size)))) return dl_failed();
    K(size);
    dl_tensor *norm =
        ADD(MUL(df, ADD(log_diagonal(p, l), N((double)k * M_LN2 / 2))), K(dl_mvlgamma(MUL(df, N(0.5)), k)));
    dl_tensor *power = SUB(MUL(SUB(df, N((double)k + 1)), size), trace);
    RESULT(SUB(MUL(power, N(0.5)), norm));
}
POOLED_RULE(wishart_entropy) {
    dl_tensor *df = IN(0), *l = IN(1);
    const long k = dl_mat_width(l);
    dl_tensor *first = MUL(ADD(log_diagonal(p, l), N((double)k * M_LN2 / 2)), N((double)k + 1));
    dl_tensor *slope = MUL(MUL(SUB(df, N((double)k + 1)), N(0.5)), sum_digamma(p, df, l));
    RESULT(ADD(SUB(ADD(first, K(dl_mvlgamma(MUL(df, N(0.5)), k))), slope), MUL(df, N((double)k / 2))));
}
POOLED_RULE(wishart_kl) {
    dl_tensor *pn = IN(0), *pl = IN(1), *qn = IN(2), *ql = IN(3), *ratio = under(p, ql, pl);
    const long k = dl_mat_width(pl);
    dl_tensor *size = MUL(qn, SUB(log_diagonal(p, ql), log_diagonal(p, pl)));
    dl_tensor *gap = SUB(K(dl_mvlgamma(MUL(qn, N(0.5)), k)), K(dl_mvlgamma(MUL(pn, N(0.5)), k)));
    dl_tensor *slope = MUL(MUL(SUB(pn, qn), N(0.5)), sum_digamma(p, pn, pl));
    dl_tensor *trace = MUL(MUL(SUB(SUM(SUM(SQUARE(ratio))), N((double)k)), pn), N(0.5));
    RESULT(ADD(ADD(size, gap), ADD(slope, trace)));
}

/* (L A) (L A)^T, A a triangle of normal numbers whose diagonal has roots of chi-squared ones (Bartlett). */
POOLED_RULE(wishart_sample) {
    dl_tensor *df = IN(0), *l = IN(1);
    const long k = dl_mat_width(l);
    sizes s;
    DL_TRY(start_sizes(&s, ATTR(c, DRAW_SHAPE), df->ndim, df->shape, l->ndim - 2, l->shape));
    dl_tensor *half = half_freedoms(p, df, l), *z = K(dl_tril(noise(c, p, s, k, k), -1));
    s.v[s.n] = k;
    dl_tensor *g = half && z ? dl_gamma_of(p, half, s.v, s.n + 1) : NULL;
    dl_tensor *root = g ? K(dl_sqrt(MUL(g, N(2)))) : NULL;
    dl_tensor *a = root ? ADD(z, K(dl_diag_embed(root, 0, -2, -1))) : NULL, *la = a ? dl_mat_mul(p, l, a) : NULL;
    return dl_finish(c, la ? dl_matmul(la, dl_mat_turned(p, la)) : NULL);
}

/* ---- LKJ, of triangles L of correlation matrices: concentration [...] */

POOLED_RULE(lkj_cholesky_log_prob) {
    dl_tensor *x = IN(0), *eta = IN(1);
    if (x->ndim < 2 || dl_mat_width(x) < 2)
        return dl_fail(DL_ERR_SHAPE, "the value must be triangles of size 2 or more, not %s", dl_shape_of(x));
    const long k = dl_mat_width(x);
    const double end = (double)k - 1, rest = (double)k - 1;
    dl_tensor *i = K(dl_arange(0, &end, 1, x->dtype, x->st->device)); /* row 1 + i has the power k - 2 - i and more */
    dl_tensor *order = ADD(MUL(SUB(COLUMN(eta), N(1)), N(2)), SUB(N((double)k - 2), i));
    dl_tensor *diagonal = K(dl_diagonal(x, 0, -2, -1)), *below = diagonal ? K(dl_narrow(diagonal, -1, 1, k - 1)) : NULL;
    dl_tensor *alpha = ADD(eta, N(rest / 2));
    dl_tensor *size = SUB(K(dl_mvlgamma(SUB(alpha, N(0.5)), k - 1)), MUL(LGAMMA(alpha), N(rest)));
    RESULT(SUB(SUM(MUL(order, LOG(below))), ADD(size, N(rest / 2 * log(M_PI)))));
}

/* Rows of unit length by the onion method: a direction, and how far it reaches below the diagonal. */
POOLED_RULE(lkj_cholesky_sample) {
    dl_tensor *eta = IN(0);
    const long k = ATTR_I(c, LKJ_CHOLESKY_SAMPLE_DIM);
    const double end = (double)k - 1, tiny = c->dtype == DL_F64 ? 0x1p-1022 : 0x1p-126;
    sizes s;
    if (k < 2) return dl_fail(DL_ERR_VALUE, "dim must be at least 2, not %ld", k);
    DL_TRY(start_sizes(&s, ATTR(c, LKJ_CHOLESKY_SAMPLE_SHAPE), eta->ndim, eta->shape, 0, NULL));
    dl_tensor *i = K(dl_arange(0, &end, 1, eta->dtype, eta->st->device));
    dl_tensor *below = K(dl_tril(K(dl_narrow(noise(c, p, s, k, k), -2, 1, k - 1)), 0));
    dl_tensor *one = MUL(ADD(i, N(1)), N(0.5)), *zero = SUB(COLUMN(ADD(eta, N((double)(k - 2) / 2))), MUL(i, N(0.5)));
    s.v[s.n] = k - 1;
    dl_tensor *a = one ? dl_gamma_of(p, one, s.v, s.n + 1) : NULL,
              *b = a && zero ? dl_gamma_of(p, zero, s.v, s.n + 1) : NULL;
    dl_tensor *far = b ? COLUMN(DIV(a, ADD(a, b))) : NULL, *length = K(dl_sum(SQUARE(below), &last, 1, 1));
    dl_tensor *w = MUL(below, K(dl_sqrt(DIV(far, length))));
    dl_tensor *top = K(dl_mul(noise(c, p, s, 1, k), N(0))),
              *all = w && top ? K(dl_cat((dl_tensor *[]){top, w}, 2, -2)) : NULL;
    dl_tensor *left = all ? K(dl_clamp(SUB(N(1), SUM(SQUARE(all))), &tiny, NULL)) : NULL;
    return dl_finish(c, left ? dl_add(all, K(dl_diag_embed(K(dl_sqrt(left)), 0, -2, -1))) : NULL);
}
