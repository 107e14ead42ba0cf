/* Shape rules of rows that work element by element. */
#include "ops/infer.h"
#include "autograd/journal.h"
#include "ops/rules/arithmetic.h"
#include "ops/rules/binary.h"
#include "ops/rules/compare.h"
#include "ops/rules/copy.h"
#include "ops/rules/elementary.h"
#include "ops/rules/rounding.h"
#include "ops/rules/unary.h"
#include "ops/rules/where.h"

#include <string.h>

dl_meta dl_meta_fresh(const dl_call *c, dl_dtype dtype, int ndim, const long *shape) {
    dl_meta m = {.ndim = (int8_t)ndim, .dtype = (int8_t)dtype, .alias = -1, .device = c->device};
    for (int i = 0; i < ndim; i++) m.shape[i] = shape[i];
    return m;
}

/* Strides are those of a contiguous tensor with its dimensions in another order. */
static bool is_permuted(const dl_tensor *t) {
    long want = 1;
    unsigned seen = 0;
    for (int n = 0; n < t->ndim; n++) {
        int next = -1;
        for (int d = 0; d < t->ndim && next < 0; d++)
            if (!(seen >> d & 1) && (t->shape[d] == 1 || t->stride[d] == want)) next = d;
        if (next < 0) return false;
        seen |= 1u << next;
        want *= t->shape[next];
    }
    return true;
}

/* Gives *m the layout of t, when both have one shape and t's elements fill their memory without gaps or overlaps in
 * some order of dimensions: so channels-last survives. */
static void keep_layout(dl_meta *m, const dl_tensor *t) {
    if (!t->numel || !dl_sizes_eq(t->ndim, t->shape, m->ndim, m->shape)) return;
    if (dl_strides_are_contiguous(t->ndim, t->shape, t->stride) || !is_permuted(t)) return;
    m->strided = true;
    memcpy(m->stride, t->stride, sizeof m->stride);
}

INFER_RULE(same) {
    *out = dl_meta_fresh(c, c->dtype, c->in[0]->ndim, c->in[0]->shape);
    keep_layout(out, c->in[0]);
    return DL_OK;
}

INFER_RULE(frexp) {
    DL_TRY(dl_infer_same(c, out));
    out[1] = out[0];
    out[1].dtype = DL_I32;
    return DL_OK;
}

INFER_RULE(test) {
    DL_TRY(dl_infer_same(c, out));
    out->dtype = DL_BOOL;
    return DL_OK;
}

/* The layout is that of the first operand that is as large as the result. */
static dl_status broadcast_all(const dl_call *c, dl_dtype dtype, dl_meta *out) {
    long shape[DL_MAX_DIM];
    int ndim = c->in[0]->ndim;
    memcpy(shape, c->in[0]->shape, sizeof shape);
    for (int i = 1; i < c->nin; i++) DL_TRY(dl_broadcast(ndim, shape, c->in[i]->ndim, c->in[i]->shape, &ndim, shape));
    *out = dl_meta_fresh(c, dtype, ndim, shape);
    if (__builtin_expect(c->nin == 2 && ndim == 2 && c->in[0]->ndim != c->in[1]->ndim, 0))
        dl_journal_spread(c->op, c->in[0], c->in[1]);
    for (int i = 0; i < c->nin; i++) {
        const dl_tensor *t = c->in[i];
        if (!dl_sizes_eq(t->ndim, t->shape, ndim, shape)) continue;
        keep_layout(out, t);
        break;
    }
    return DL_OK;
}

INFER_RULE(broadcast) { return broadcast_all(c, c->dtype, out); }

/* 16-bit floats are computed in f32, whose next number rounds to the number itself. */
INFER_RULE(nextafter) {
    if (DL_BIT(c->dtype) & DL_HALVES)
        return dl_fail_hint(DL_ERR_DTYPE, "convert with .to(f32)", "takes f32 and f64, not %s",
                            dl_dtype_name(c->dtype));
    return dl_infer_broadcast(c, out);
}

/* A factor of whole numbers is one. */
static dl_status scaled(const dl_call *c, const dl_aval *factor, dl_meta *out) {
    if (!dl_dtype_is_smooth(c->dtype) && !factor->is_int)
        return dl_fail_hint(DL_ERR_DTYPE, "convert one of them with .to(f32)",
                            "a factor of %s must be a whole number, not %g", dl_dtype_name(c->dtype), factor->u.f);
    return dl_infer_broadcast(c, out);
}
INFER_RULE(addcmul) { return scaled(c, ATTR(c, ADDCMUL_VALUE), out); }
INFER_RULE(add_scaled) { return scaled(c, ATTR(c, SCALED_ALPHA), out); }

INFER_RULE(addcdiv) {
    if (!dl_dtype_is_float(c->in[1]->dtype) && !dl_dtype_is_float(c->in[2]->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "convert one of them with .to(f32)",
                            "addcdiv divides floating numbers, not %s by %s", dl_type_of(c->in[1]),
                            dl_type_of(c->in[2]));
    return dl_infer_broadcast(c, out);
}

INFER_RULE(compare) { return broadcast_all(c, DL_BOOL, out); }

INFER_RULE(where) {
    if (c->in[0]->dtype != DL_BOOL)
        return dl_fail_hint(DL_ERR_DTYPE, "compare, as in x != 0, or convert with .to(bool)",
                            "the condition must be bool, not %s", dl_type_of(c->in[0]));
    return broadcast_all(c, c->dtype, out);
}

/* Integers limited by a number that is none become f32, as in any other arithmetic with it. */
/* A limit that is no whole number makes floats of integers. */
static dl_status infer_limited(const dl_call *c, dl_meta *out, const dl_aval *lo, const dl_aval *hi) {
    DL_TRY(dl_infer_same(c, out));
    bool real = (lo->given && !lo->is_int) || (hi->given && !hi->is_int);
    if (real && !dl_dtype_is_float(c->dtype)) out->dtype = DL_F32;
    return DL_OK;
}

INFER_RULE(clamp) {
    const dl_aval *lo = ATTR(c, CLAMP_MIN), *hi = ATTR(c, CLAMP_MAX);
    if (!lo->given && !hi->given) return dl_fail(DL_ERR_VALUE, "at least one of the limits min and max must be given");
    return infer_limited(c, out, lo, hi);
}

INFER_RULE(hardtanh) {
    const dl_aval *lo = ATTR(c, HARDTANH_MIN_VAL), *hi = ATTR(c, HARDTANH_MAX_VAL);
    double low = dl_aval_number(lo), high = dl_aval_number(hi);
    if (!(low < high)) return dl_fail(DL_ERR_VALUE, "min_val must be below max_val, not %g and %g", low, high);
    return infer_limited(c, out, lo, hi);
}

/* Steps of a loop over each element. */
static dl_status infer_steps(const dl_call *c, dl_meta *out, const char *what, long n) {
    enum { MOST = 1000 };
    if (n < 0 || n > MOST) return dl_fail(DL_ERR_VALUE, "%s must be 0 to %d, not %ld", what, MOST, n);
    return dl_infer_same(c, out);
}

INFER_RULE(polygamma) { return infer_steps(c, out, "n", ATTR_I(c, POLYGAMMA_N)); }
INFER_RULE(polynomial) { return infer_steps(c, out, "the degree n", ATTR_I(c, POLYNOMIAL_N)); }

INFER_RULE(to) {
    DL_TRY(dl_infer_same(c, out));
    out->dtype = (int8_t)ATTR_I(c, TO_DTYPE);
    return DL_OK;
}

INFER_RULE(restride) {
    const dl_aval *stride = ATTR(c, RESTRIDE_STRIDE);
    DL_TRY(dl_infer_same(c, out));
    if (stride->n != out->ndim)
        return dl_fail(DL_ERR_SHAPE, "%d strides do not fit a %d-d tensor", stride->n, out->ndim);
    out->strided = true;
    memcpy(out->stride, stride->u.v, sizeof out->stride);
    long want = 0; /* the fresh memory holds numel elements, no more */
    for (int i = 0; i < out->ndim; i++) {
        if (out->stride[i] < 0) return dl_fail(DL_ERR_VALUE, "stride %ld is negative", out->stride[i]);
        want += (out->shape[i] - 1) * out->stride[i];
    }
    if (c->in[0]->numel && (want != c->in[0]->numel - 1 || !dl_strides_are_dense(out->ndim, out->shape, out->stride)))
        return dl_fail(DL_ERR_VALUE, "the strides leave gaps or overlaps between the elements");
    return DL_OK;
}

INFER_RULE(glu) {
    const dl_tensor *x = c->in[0];
    long shape[DL_MAX_DIM];
    int d;
    if (!x->ndim) return dl_fail(DL_ERR_SHAPE, "a 0-d tensor has no dimension to halve");
    DL_TRY(dl_dim_norm(ATTR_I(c, GLU_DIM), x->ndim, &d));
    if (x->shape[d] % 2)
        return dl_fail(DL_ERR_SHAPE, "dimension %d has size %ld, which cannot be halved", d, x->shape[d]);
    memcpy(shape, x->shape, sizeof shape);
    shape[d] /= 2;
    *out = dl_meta_like(x, x->ndim, shape);
    return DL_OK;
}
