/* Shape rules of reductions and running sums. */
#include "ops/infer.h"
#include "ops/rules/reduce.h"
#include "ops/rules/sort.h"

#include <math.h>

dl_status dl_reduced_dims(const dl_op *op, const dl_aval *attr, int ndim, unsigned *mask) {
    const dl_aval *dim = &attr[DL_A_REDUCE_DIM];
    int n = !dim->given ? 0 : op->attrs[DL_A_REDUCE_DIM].kind == DL_A_INT ? 1 : dim->n;
    *mask = 0;
    if (n == 0) return *mask = (1u << ndim) - 1, DL_OK;
    for (int i = 0; i < n && i < DL_MAX_DIM; i++) {
        int d;
        DL_TRY(dl_dim_norm(dim->u.v[i], ndim, &d));
        if (*mask >> d & 1) return dl_fail(DL_ERR_VALUE, "dimension %d is named twice", d);
        *mask |= 1u << d;
    }
    return DL_OK;
}

int dl_reduced_shape(int ndim, const long *shape, unsigned mask, bool keep, long *out) {
    int n = 0;
    for (int i = 0; i < ndim; i++) {
        if (!(mask >> i & 1))
            out[n++] = shape[i];
        else if (keep)
            out[n++] = 1;
    }
    return n;
}

static dl_status reduced(const dl_call *c, dl_dtype dtype, dl_meta *out) {
    const dl_tensor *x = c->in[0];
    unsigned mask;
    long shape[DL_MAX_DIM];
    DL_TRY(dl_reduced_dims(c->op, c->attr, x->ndim, &mask));
    int n = dl_reduced_shape(x->ndim, x->shape, mask, ATTR_I(c, REDUCE_KEEPDIM), shape);
    *out = dl_meta_fresh(c, dtype, n, shape);
    return DL_OK;
}

/* The largest of nothing does not exist. */
static dl_status check_some(const dl_call *c, const dl_meta *out) {
    int64_t n = 1;
    for (int i = 0; i < out->ndim; i++) n *= out->shape[i];
    if (c->in[0]->numel || !n) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "no element to choose among in shape %s", dl_shape_of(c->in[0]));
}

INFER_RULE(reduce) {
    DL_TRY(reduced(c, c->dtype, out));
    return c->op->id == dl_id_amax || c->op->id == dl_id_amin ? check_some(c, out) : DL_OK;
}

INFER_RULE(extremes) {
    DL_TRY(reduced(c, c->dtype, out));
    out[1] = out[0];
    return check_some(c, out);
}

INFER_RULE(interval_counts) {
    const long bins = ATTR_I(c, INTERVAL_COUNTS_BINS);
    const double low = ATTR_F(c, INTERVAL_COUNTS_LOW), high = ATTR_F(c, INTERVAL_COUNTS_HIGH);
    if (!c->in[0]->ndim) return dl_fail(DL_ERR_SHAPE, "numbers in rows are counted, not a single one");
    if (bins < 1) return dl_fail(DL_ERR_VALUE, "bins must be at least 1, not %ld", bins);
    if (!isfinite(low) || !isfinite(high) || !(low < high))
        return dl_fail(DL_ERR_VALUE, "a histogram from %g to %g is not possible", low, high);
    *out = dl_meta_like(c->in[0], c->in[0]->ndim, c->in[0]->shape);
    out->shape[out->ndim - 1] = bins;
    return DL_OK;
}

INFER_RULE(var) {
    DL_TRY(reduced(c, c->dtype, out));
    out[1] = out[0];
    return DL_OK;
}

/* Integers and bool add up in i64. */
INFER_RULE(sum) { return reduced(c, dl_dtype_is_smooth(c->dtype) ? c->dtype : DL_I64, out); }

INFER_RULE(any) { return reduced(c, DL_BOOL, out); }

INFER_RULE(argmax) {
    DL_TRY(reduced(c, DL_I64, out));
    return check_some(c, out);
}

INFER_RULE(max_dim) {
    DL_TRY(reduced(c, c->dtype, &out[DL_OUT_MAX_DIM_VALUES]));
    DL_TRY(reduced(c, DL_I64, &out[DL_OUT_MAX_DIM_INDICES]));
    return check_some(c, out);
}

INFER_RULE(recurrence) {
    const dl_tensor *a = c->in[0], *b = c->in[1];
    int d;
    if (!dl_shape_eq(a, b))
        return dl_fail(DL_ERR_SHAPE, "factors and terms must have one shape, not %s and %s", dl_shape_of(a),
                       dl_shape_of(b));
    DL_TRY(dl_dim_norm(ATTR_I(c, RECURRENCE_DIM), a->ndim, &d));
    *out = dl_meta_fresh(c, c->dtype, a->ndim, a->shape);
    return DL_OK;
}

INFER_RULE(cumsum) {
    const dl_tensor *x = c->in[0];
    int d;
    DL_TRY(dl_dim_norm(ATTR_I(c, CUMSUM_DIM), x->ndim, &d));
    *out = dl_meta_fresh(c, dl_dtype_is_smooth(c->dtype) ? c->dtype : DL_I64, x->ndim, x->shape);
    return DL_OK;
}
