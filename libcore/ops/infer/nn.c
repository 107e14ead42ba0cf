/* Shapes of products, losses, normalisation, dropout and the optimizers' steps. */
#include "ops/compose/loss.h"
#include "ops/infer.h"
#include "ops/rules/loss.h"
#include "ops/rules/matmul.h"
#include "ops/rules/norm.h"

#include <string.h>

/* Sizes of a matrix operand as [.., rows, cols]; a vector is a row on the left and a column on the right. */
static void as_matrix(const dl_tensor *t, bool left, long *rows, long *cols) {
    *rows = t->ndim > 1 ? t->shape[t->ndim - 2] : left ? 1 : t->shape[0];
    *cols = t->ndim > 1 ? t->shape[t->ndim - 1] : left ? t->shape[0] : 1;
}

INFER_RULE(matmul) {
    const dl_tensor *a = c->in[0], *b = c->in[1];
    long m, k, k2, n, shape[DL_MAX_DIM + 2];
    int nd;
    if (!a->ndim || !b->ndim)
        return dl_fail_hint(DL_ERR_SHAPE, "multiply by a number with *",
                            "a matrix product needs at least one dimension");
    as_matrix(a, true, &m, &k);
    as_matrix(b, false, &k2, &n);
    if (k != k2)
        return dl_fail_hint(DL_ERR_SHAPE, "the last size of the left operand must be the second last of the right one",
                            "inner sizes %ld and %ld differ", k, k2);
    int na = a->ndim > 2 ? a->ndim - 2 : 0, nb = b->ndim > 2 ? b->ndim - 2 : 0;
    DL_TRY(dl_broadcast(na, a->shape, nb, b->shape, &nd, shape));
    if (a->ndim > 1) shape[nd++] = m;
    if (b->ndim > 1) shape[nd++] = n;
    *out = dl_meta_like(a, nd, shape);
    out->dtype = (int8_t)c->dtype;
    return DL_OK;
}

INFER_RULE(cross) {
    const dl_tensor *a = c->in[0], *b = c->in[1];
    long shape[DL_MAX_DIM];
    int nd, d;
    if (a->ndim != b->ndim) return dl_fail(DL_ERR_SHAPE, "the vectors have %d and %d dimensions", a->ndim, b->ndim);
    DL_TRY(dl_broadcast(a->ndim, a->shape, b->ndim, b->shape, &nd, shape));
    DL_TRY(dl_dim_norm(ATTR_I(c, CROSS_DIM), nd, &d));
    if (!nd || shape[d] != 3)
        return dl_fail(DL_ERR_SHAPE, "dimension %d of both must have size 3, not %s and %s", d, dl_shape_of(a),
                       dl_shape_of(b));
    *out = dl_meta_fresh(c, c->dtype, nd, shape);
    return DL_OK;
}

INFER_RULE(linear) {
    const dl_tensor *x = c->in[0], *w = c->in[1], *bias = INPUT(c, LINEAR_BIAS);
    long shape[DL_MAX_DIM];
    if (w->ndim != 2)
        return dl_fail(DL_ERR_SHAPE, "the weight must be a matrix [out, in], not of %d dimensions", w->ndim);
    if (!x->ndim) return dl_fail(DL_ERR_SHAPE, "the input needs at least one dimension");
    if (x->shape[x->ndim - 1] != w->shape[1])
        return dl_fail_hint(DL_ERR_SHAPE, "the weight is [out, in]; flatten images first",
                            "inputs of %ld features do not fit a weight for %ld", x->shape[x->ndim - 1], w->shape[1]);
    if (bias && (bias->ndim != 1 || bias->shape[0] != w->shape[0]))
        return dl_fail(DL_ERR_SHAPE, "the bias must have shape [%ld]", w->shape[0]);
    memcpy(shape, x->shape, sizeof shape);
    shape[x->ndim - 1] = w->shape[0];
    *out = dl_meta_like(x, x->ndim, shape);
    out->dtype = (int8_t)c->dtype;
    return DL_OK;
}

static double product_flops(const dl_call *c, dl_status (*infer)(const dl_call *, dl_meta *)) {
    dl_meta out = {0};
    if (infer(c, &out) != DL_OK) return 0;
    double n = 2.0 * c->in[0]->shape[c->in[0]->ndim - 1];
    for (int i = 0; i < out.ndim; i++) n *= (double)out.shape[i];
    return n;
}

FLOPS_RULE(matmul) { return product_flops(c, dl_infer_matmul); }
FLOPS_RULE(linear) { return product_flops(c, dl_infer_linear); }

/* Rows with an attribute `dim` first, otherwise like their input. */
INFER_RULE(dim) {
    int dim;
    DL_TRY(dl_dim_norm(ATTR_I(c, ALONG_DIM), c->in[0]->ndim, &dim));
    return dl_infer_same(c, out);
}

/* ---- losses */

INFER_RULE(cross_entropy) {
    const dl_tensor *x = c->in[0], *y = c->in[1], *w = INPUT(c, CROSS_ENTROPY_WEIGHT);
    const char *reduction = ATTR_S(c, CROSS_ENTROPY_REDUCTION);
    double smooth = ATTR_F(c, CROSS_ENTROPY_LABEL_SMOOTHING);
    if (!x->ndim) return dl_fail(DL_ERR_SHAPE, "the logits need a dimension for the classes");
    if (y->dtype != DL_I64 && y->dtype != DL_I32)
        return dl_fail_hint(DL_ERR_DTYPE,
                            "labels are class numbers, .to(i64), or shares of the classes in the shape of the logits",
                            "the labels must be i64, not %s", dl_type_of(y));
    int cls = x->ndim > 1;
    long shape[DL_MAX_DIM];
    int nd = 0;
    for (int i = 0; i < x->ndim; i++)
        if (i != cls) shape[nd++] = x->shape[i];
    if (!dl_sizes_eq(nd, shape, y->ndim, y->shape)) {
        return dl_fail_hint(DL_ERR_SHAPE, "logits are [N,C,...] and labels [N,...]",
                            "the labels have shape %s; logits with %ld classes want %s", dl_shape_of(y), x->shape[cls],
                            dl_shape_text(nd, shape));
    }
    if (w && (w->ndim != 1 || w->shape[0] != x->shape[cls]))
        return dl_fail(DL_ERR_SHAPE, "the class weights must have shape [%ld]", x->shape[cls]);
    if (!(smooth >= 0 && smooth <= 1))
        return dl_fail(DL_ERR_VALUE, "label_smoothing must lie between 0 and 1, not %g", smooth);
    bool none = !strcmp(reduction, "none");
    if (!none && strcmp(reduction, "mean") && strcmp(reduction, "sum"))
        return dl_fail(DL_ERR_VALUE, "reduction is mean, sum or none, not '%s'", reduction);
    out[0] = dl_meta_like(x, none ? nd : 0, shape);
    out[1] = dl_meta_like(x, nd, shape);
    out[1].dtype = DL_F64; /* logits may be large beside the differences that count */
    return DL_OK;
}

INFER_RULE(nll_picked) {
    const dl_tensor *x = c->in[0], *y = c->in[1], *w = INPUT(c, NLL_PICKED_WEIGHT);
    dl_reduction how = DL_REDUCE_MEAN;
    const int cls = x->ndim > 1;
    bool good = x->ndim == y->ndim + 1;
    DL_TRY(dl_reduction_of(ATTR(c, LOSS_REDUCTION), &how));
    DL_TRY(dl_check_index(y));
    for (int i = 0, k = 0; i < x->ndim && good; i++)
        if (i != cls) good = x->shape[i] == y->shape[k++];
    if (!good)
        return dl_fail(DL_ERR_SHAPE, "labels of shape %s do not fit log-probabilities of shape %s", dl_shape_of(y),
                       dl_shape_of(x));
    if (w && (w->ndim != 1 || w->shape[0] != x->shape[cls]))
        return dl_fail(DL_ERR_SHAPE, "the class weights must have shape [%ld]", x->shape[cls]);
    *out = dl_meta_like(x, how == DL_REDUCE_NONE ? y->ndim : 0, y->shape);
    return DL_OK;
}

INFER_RULE(ctc_paths) {
    const dl_tensor *x = c->in[0], *y = c->in[1];
    const long blank = ATTR_I(c, CTC_PATHS_BLANK);
    if (x->ndim != 3 || y->ndim != 2 || y->shape[0] != x->shape[1] || !x->shape[0])
        return dl_fail(DL_ERR_SHAPE, "log-probabilities must be [T,N,C] and labels [N,S], not %s and %s",
                       dl_shape_of(x), dl_shape_of(y));
    if (blank < 0 || blank >= x->shape[2])
        return dl_fail(DL_ERR_VALUE, "blank is class %ld of %ld", blank, x->shape[2]);
    for (int i = 1; i < 4; i++)
        if (c->in[i]->dtype != DL_I64)
            return dl_fail(DL_ERR_DTYPE, "%s must be i64, not %s", c->op->in_name[i], dl_type_of(c->in[i]));
    for (int i = 2; i < 4; i++)
        if (c->in[i]->ndim != 1 || c->in[i]->shape[0] != x->shape[1])
            return dl_fail(DL_ERR_SHAPE, "%s must have shape [%ld], not %s", c->op->in_name[i], x->shape[1],
                           dl_shape_of(c->in[i]));
    out[0] = dl_meta_like(x, 1, &x->shape[1]);
    out[1] = dl_meta_like(x, 3, (long[]){x->shape[1], x->shape[0], 2 * y->shape[1] + 1});
    out[1].dtype = DL_F64;
    return DL_OK;
}

/* ---- dropout, batch norm */

INFER_RULE(dropout) {
    double p = ATTR_F(c, DROPOUT_P);
    if (!(p >= 0 && p <= 1)) return dl_fail(DL_ERR_VALUE, "p is a probability, between 0 and 1, not %g", p);
    if (!ATTR_I(c, DROPOUT_TRAINING)) { /* the identity: a view, and no mask */
        out[0] = dl_meta_of(c->in[0]);
        out[0].alias = 0;
        out[1].absent = true;
        return DL_OK;
    }
    DL_TRY(dl_infer_same(c, &out[0]));
    out[1] = out[0];
    out[1].dtype = DL_BOOL;
    return DL_OK;
}

static dl_status channel_vector(const dl_call *c, int i, long channels) {
    const dl_tensor *t = c->in[i];
    if (!t || (t->ndim == 1 && t->shape[0] == channels)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "%s must have shape [%ld], one number a channel", c->op->in_name[i], channels);
}

/* mean and rstd are those of the batch, or of the running statistics; in f32 for 16-bit inputs. */
INFER_RULE(batch_norm) {
    const dl_tensor *x = c->in[0];
    bool training = ATTR_I(c, BATCHNORM_TRAINING);
    if (x->ndim < 2)
        return dl_fail(DL_ERR_SHAPE, "the input must be [N,C] or [N,C,...], not of %d dimensions", x->ndim);
    long channels = x->shape[1];
    for (int i = DL_IN_BATCHNORM_RUNNING_MEAN; i < c->nin; i++) DL_TRY(channel_vector(c, i, channels));
    bool mean = INPUT(c, BATCHNORM_RUNNING_MEAN), var = INPUT(c, BATCHNORM_RUNNING_VAR);
    if (mean != var)
        return dl_fail(DL_ERR_VALUE, "running_mean and running_var come together; only %s was given",
                       mean ? "running_mean" : "running_var");
    if (!training && !mean)
        return dl_fail_hint(DL_ERR_VALUE, "pass them, or use training=true",
                            "without training, running_mean and running_var are needed");
    if (training && channels && x->numel == channels)
        return dl_fail_hint(DL_ERR_SHAPE, "use a larger batch, or evaluation mode",
                            "training needs more than one value a channel");
    DL_TRY(dl_infer_same(c, &out[0]));
    out[1] = out[2] = dl_meta_like(x, 1, &channels);
    if (DL_BIT(x->dtype) & DL_HALVES) out[1].dtype = out[2].dtype = DL_F32;
    return DL_OK;
}

INFER_RULE(pdist) {
    const dl_tensor *x = c->in[0];
    if (x->ndim != 2)
        return dl_fail(DL_ERR_SHAPE, "distances are of the rows of a matrix, not of %d dimensions", x->ndim);
    const long n = x->shape[0], pairs = n * (n - 1) / 2;
    if (!(ATTR_F(c, PDIST_P) >= 0)) return dl_fail(DL_ERR_VALUE, "p must be 0 or more, not %g", ATTR_F(c, PDIST_P));
    *out = dl_meta_like(x, 1, &pairs);
    return DL_OK;
}

INFER_RULE(row_distances) {
    const dl_tensor *a = c->in[0], *b = c->in[1];
    if (a->ndim != 3 || b->ndim != 3 || a->shape[0] != b->shape[0] || a->shape[2] != b->shape[2])
        return dl_fail(DL_ERR_SHAPE, "distances are of the rows of batches of matrices, not of %s and %s",
                       dl_shape_of(a), dl_shape_of(b));
    if (!(ATTR_F(c, ROW_DISTANCES_P) >= 0))
        return dl_fail(DL_ERR_VALUE, "p must be 0 or more, not %g", ATTR_F(c, ROW_DISTANCES_P));
    *out = dl_meta_like(a, 3, (long[]){a->shape[0], a->shape[1], b->shape[1]});
    return DL_OK;
}

INFER_RULE(multilabel_margins) {
    *out = dl_meta_like(c->in[0], 1, c->in[0]->shape);
    return DL_OK;
}
