/* Gradient rules of products, softmax, dropout and normalisation. */
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/complex.h"
#include "dlcore/copy.h"
#include "dlcore/elementary.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/loss.h"
#include "ops/rules/matmul.h"
#include "ops/rules/norm.h"

/* The last two dimensions swapped. */
static dl_tensor *transposed(dl_back *b, dl_tensor *t) {
    long dims[DL_MAX_DIM];
    if (!t) return NULL;
    for (int i = 0; i < t->ndim; i++) dims[i] = i;
    dims[t->ndim - 2] = t->ndim - 1, dims[t->ndim - 1] = t->ndim - 2;
    return T(dl_permute(t, dims, t->ndim));
}

static dl_tensor *conjugate(dl_back *b, dl_tensor *t) { return t && dl_dtype_is_complex(t->dtype) ? T(dl_conj(t)) : t; }

/* All dimensions but the last as one. */
static dl_tensor *as_rows(dl_back *b, dl_tensor *t) {
    if (!t || t->ndim == 2) return t;
    long cols = t->ndim ? t->shape[t->ndim - 1] : 1, rows = 1;
    for (int i = 0; i + 1 < t->ndim; i++) rows *= t->shape[i];
    return T(dl_reshape(t, (long[]){rows, cols}, 2));
}

/* With a dimension of size 1 put in at `at`. */
static dl_tensor *unsqueezed(dl_back *b, dl_tensor *t, int at) {
    long shape[DL_MAX_DIM + 1];
    if (!t) return NULL;
    for (int i = 0; i < at; i++) shape[i] = t->shape[i];
    shape[at] = 1;
    for (int i = at; i < t->ndim; i++) shape[i + 1] = t->shape[i];
    return T(dl_reshape(t, shape, t->ndim + 1));
}

/* a b, of a column and a row by elements: that writes the result once. */
static dl_tensor *product(dl_tensor *a, dl_tensor *b) {
    return a && b && a->ndim > 1 && b->ndim > 1 && a->shape[a->ndim - 1] == 1 ? dl_mul(a, b) : dl_matmul(a, b);
}

/* g @ b.T for the left operand, a.T @ g for the right one; of complex numbers the conjugates. A vector takes part as a
 * matrix of one row or column. A right operand without batches gets one product over all rows instead of a sum of
 * products. */
GRAD_RULE(matmul) {
    const dl_meta *ma = META(MATMUL_INPUT), *mb = META(MATMUL_OTHER);
    dl_tensor *g = G0;
    if (ma->ndim == 1 && mb->ndim == 1) { /* products of matrices with one column would do the same slowly */
        GIVE(MATMUL_INPUT, dl_mul(conjugate(b, IN_(MATMUL_OTHER)), g));
        GIVE(MATMUL_OTHER, dl_mul(conjugate(b, IN_(MATMUL_INPUT)), g));
        return DL_OK;
    }
    if (ma->ndim == 1) g = unsqueezed(b, g, g->ndim - (mb->ndim > 1));
    if (mb->ndim == 1) g = g ? unsqueezed(b, g, g->ndim) : NULL;
    if (!g) return dl_fail_null("the gradient");
    if (NEED(MATMUL_INPUT)) {
        dl_tensor *w = conjugate(b, IN_(MATMUL_OTHER));
        if (mb->ndim == 1) w = w ? unsqueezed(b, w, 1) : NULL;
        DL_TRY(dl_give(b, DL_IN_MATMUL_INPUT, product(g, transposed(b, w))));
    }
    if (NEED(MATMUL_OTHER)) {
        dl_tensor *a = conjugate(b, IN_(MATMUL_INPUT));
        if (!a) return dl_fail_null("the left operand");
        if (ma->ndim == 1) a = unsqueezed(b, a, 0);
        bool fold = mb->ndim <= 2 && a && a->ndim > 2;
        dl_tensor *ga = fold ? product(transposed(b, as_rows(b, a)), as_rows(b, g)) : product(transposed(b, a), g);
        if (mb->ndim > 1) return dl_give(b, DL_IN_MATMUL_OTHER, ga);
        if (!T(ga)) return dl_fail_null("the gradient");
        return dl_give(b, DL_IN_MATMUL_OTHER, dl_reshape(ga, ga->shape, ga->ndim - 1));
    }
    return DL_OK;
}

GRAD_RULE(cross) {
    const long dim = ATTR(b, CROSS_DIM)->u.i;
    GIVE(CROSS_INPUT, dl_cross(IN_(CROSS_OTHER), G0, dim));
    GIVE(CROSS_OTHER, dl_cross(G0, IN_(CROSS_INPUT), dim));
    return DL_OK;
}

GRAD_RULE(linear) {
    GIVE(LINEAR_INPUT, dl_matmul(G0, IN_(LINEAR_WEIGHT)));
    GIVE(LINEAR_WEIGHT, dl_matmul(transposed(b, as_rows(b, G0)), as_rows(b, IN_(LINEAR_INPUT))));
    GIVE(LINEAR_BIAS, dl_ref(G0));
    return DL_OK;
}

/* y * (g - sum(g * y)) */
GRAD_RULE(softmax) {
    long dim = ATTR_I(b, SOFTMAX_DIM);
    dl_tensor *y = OUT_(SOFTMAX_OUT), *s = T(dl_sum(T(dl_mul(G0, y)), &dim, 1, 1));
    return dl_give(b, 0, dl_mul(y, T(dl_sub(G0, s))));
}

/* g - e ** y * sum(g) */
GRAD_RULE(log_softmax) {
    long dim = ATTR_I(b, LOG_SOFTMAX_DIM);
    dl_tensor *s = T(dl_sum(G0, &dim, 1, 1));
    return dl_give(b, 0, dl_sub(G0, T(dl_mul(T(dl_exp(OUT_(LOG_SOFTMAX_OUT))), s))));
}

GRAD_RULE(dropout) {
    if (!ATTR_I(b, DROPOUT_TRAINING)) return dl_give(b, 0, dl_ref(G0));
    double p = ATTR_F(b, DROPOUT_P);
    dl_tensor *mask = T(dl_to(OUT_(DROPOUT_MASK), G0->dtype)), *scale = T(dl_scalar_f(p < 1 ? 1 / (1 - p) : 0));
    return dl_give(b, 0, dl_mul(T(dl_mul(G0, mask)), scale));
}

/* ---- batch norm */

/* A vector over channels shaped to broadcast over x. */
static dl_tensor *over_channels(dl_back *b, dl_tensor *v, int ndim) {
    long shape[DL_MAX_DIM];
    if (!v) return NULL;
    for (int i = 0; i < ndim; i++) shape[i] = 1;
    shape[1] = v->shape[0];
    return T(dl_reshape(v, shape, ndim));
}

/* xhat and rstd. In training they are computed again from x, so that second derivatives include their dependence on it.
 */
static dl_status normalised(dl_back *b, dl_tensor *x, const long *dims, int n, dl_tensor **xhat, dl_tensor **rstd) {
    dl_tensor *centred;
    if (ATTR_I(b, BATCHNORM_TRAINING)) {
        centred = T(dl_sub(x, T(dl_mean(x, dims, n, 1))));
        dl_tensor *var = T(dl_mean(T(dl_square(centred)), dims, n, 1));
        *rstd = T(dl_rsqrt(T(dl_add(var, T(dl_scalar_f(ATTR_F(b, BATCHNORM_EPS)))))));
    } else {
        centred = T(dl_sub(x, over_channels(b, OUT_(BATCHNORM_MEAN), x->ndim)));
        *rstd = over_channels(b, OUT_(BATCHNORM_RSTD), x->ndim);
    }
    *xhat = T(dl_mul(centred, *rstd));
    return *xhat ? DL_OK : dl_fail_null("the normalised input");
}

/* Ioffe, Szegedy: Batch normalization (2015), with the statistics' dependence on x:
 * dx = rstd * (gw - mean(gw) - xhat * mean(gw * xhat)), gw = g * weight; weight: sum(g * xhat); bias: sum(g). */
GRAD_RULE(batch_norm) {
    dl_tensor *x = IN_(BATCHNORM_INPUT), *g = G0, *xhat, *rstd;
    if (!x) return dl_fail_null("the input");
    long dims[DL_MAX_DIM] = {0};
    int n = 1;
    for (int i = 2; i < x->ndim; i++) dims[n++] = i;
    DL_TRY(normalised(b, x, dims, n, &xhat, &rstd));
    if (NEED(BATCHNORM_INPUT)) {
        bool weight = b->nin > DL_IN_BATCHNORM_WEIGHT && META(BATCHNORM_WEIGHT)->ndim;
        dl_tensor *w = weight ? IN_(BATCHNORM_WEIGHT) : NULL, *gw = w ? T(dl_mul(g, over_channels(b, w, x->ndim))) : g;
        if (ATTR_I(b, BATCHNORM_TRAINING)) {
            dl_tensor *m = T(dl_mean(gw, dims, n, 1)), *mx = T(dl_mean(T(dl_mul(gw, xhat)), dims, n, 1));
            gw = T(dl_sub(T(dl_sub(gw, m)), T(dl_mul(xhat, mx))));
        }
        DL_TRY(dl_give(b, DL_IN_BATCHNORM_INPUT, dl_mul(gw, rstd)));
    }
    GIVE(BATCHNORM_WEIGHT, dl_sum(T(dl_mul(g, xhat)), dims, n, 0));
    GIVE(BATCHNORM_BIAS, dl_sum(g, dims, n, 0));
    return DL_OK;
}

/* The gradient where the result is positive (or NaN), through batch_norm's rule: operands and results stand in the same
 * places. */
GRAD_RULE(batch_norm_relu) {
    dl_tensor *given = G0, *zero = T(dl_scalar_f(0));
    b->g[0] = T(dl_where(T(dl_le(OUT_(BATCHNORM_OUT), zero)), zero, given));
    dl_status s = b->g[0] ? dl_grad_batch_norm(b) : dl_failed();
    b->g[0] = given;
    return s;
}
