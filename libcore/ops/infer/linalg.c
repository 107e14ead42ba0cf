/* Shapes of the factors of matrices. Matrices lie column by column in memory, as LAPACK and cuSOLVER want them. */
#include "ops/infer.h"
#include "ops/rules/linalg.h"

static dl_status check_matrices(const dl_call *c, const dl_tensor *t, bool square) {
    if (t->ndim < 2)
        return dl_fail(DL_ERR_SHAPE, "a matrix or a batch of them is needed, not a tensor of shape %s",
                       dl_shape_text(t->ndim, t->shape));
    if (square && t->shape[t->ndim - 2] != t->shape[t->ndim - 1])
        return dl_fail(DL_ERR_SHAPE, "the matrices must be square, not %ld by %ld", t->shape[t->ndim - 2],
                       t->shape[t->ndim - 1]);
    if (DL_BIT(c->dtype) & DL_HALVES)
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "convert it with .to(f32)",
                            "matrices are decomposed and solved in f32 and f64, not in %s", dl_dtype_name(c->dtype));
    return DL_OK;
}

/* The batch dimensions of t, then the given ones (-1: none). */
static dl_meta batch_of(const dl_call *c, dl_dtype dtype, long rows, long columns) {
    const dl_tensor *t = c->in[0];
    long shape[DL_MAX_DIM];
    int n = 0;
    for (int i = 0; i < t->ndim - 2; i++) shape[n++] = t->shape[i];
    if (rows >= 0) shape[n++] = rows;
    if (columns >= 0) shape[n++] = columns;
    return dl_meta_fresh(c, dtype, n, shape);
}

static dl_meta by_columns(const dl_call *c, long rows, long columns) {
    dl_meta m = batch_of(c, c->dtype, rows, columns);
    dl_strides_contiguous(m.ndim, m.shape, m.stride);
    m.strided = true;
    m.stride[m.ndim - 2] = 1, m.stride[m.ndim - 1] = rows > 0 ? rows : 1;
    return m;
}

static long height(const dl_call *c) { return c->in[0]->shape[c->in[0]->ndim - 2]; }
static long width(const dl_call *c) { return c->in[0]->shape[c->in[0]->ndim - 1]; }
static long least(long a, long b) { return a < b ? a : b; }

INFER_RULE(factor_lu) {
    DL_TRY(check_matrices(c, c->in[0], false));
    const long m = height(c), n = width(c);
    out[DL_OUT_FACTOR_LU_LU] = by_columns(c, m, n);
    out[DL_OUT_FACTOR_LU_PIVOTS] = batch_of(c, DL_I32, least(m, n), -1);
    out[DL_OUT_FACTOR_LU_ORDER] = batch_of(c, DL_I64, m, -1);
    out[DL_OUT_FACTOR_LU_INFO] = batch_of(c, DL_I32, -1, -1);
    return DL_OK;
}

INFER_RULE(factor_cholesky) {
    DL_TRY(check_matrices(c, c->in[0], true));
    out[0] = by_columns(c, height(c), width(c));
    out[1] = batch_of(c, DL_I32, -1, -1);
    return DL_OK;
}

INFER_RULE(geqrf) {
    DL_TRY(check_matrices(c, c->in[0], false));
    out[0] = by_columns(c, height(c), width(c));
    out[1] = batch_of(c, c->dtype, least(height(c), width(c)), -1);
    return DL_OK;
}

INFER_RULE(householder_product) {
    const dl_tensor *a = c->in[0], *tau = c->in[1];
    DL_TRY(check_matrices(c, a, false));
    bool fits = tau->ndim == a->ndim - 1;
    for (int i = 0; fits && i < a->ndim - 2; i++) fits = tau->shape[i] == a->shape[i];
    if (!fits || height(c) < width(c) || tau->shape[tau->ndim - 1] > width(c))
        return dl_fail(DL_ERR_SHAPE, "%s and %s are not reflections of matrices that are at least as high as wide",
                       dl_shape_text(a->ndim, a->shape), dl_shape_text(tau->ndim, tau->shape));
    *out = by_columns(c, height(c), width(c));
    return DL_OK;
}

INFER_RULE(factor_eigh) {
    DL_TRY(check_matrices(c, c->in[0], true));
    out[0] = batch_of(c, dl_dtype_of_parts(c->dtype), width(c), -1);
    out[1] = by_columns(c, height(c), width(c));
    out[2] = batch_of(c, DL_I32, -1, -1);
    return DL_OK;
}

INFER_RULE(spectrum) {
    const bool symmetric = ATTR_I(c, SPECTRUM_SYMMETRIC) != 0;
    DL_TRY(check_matrices(c, c->in[0], symmetric));
    out[0] = batch_of(c, c->dtype, least(height(c), width(c)), -1);
    out[1] = batch_of(c, DL_I32, -1, -1);
    return DL_OK;
}

INFER_RULE(factor_eig) {
    DL_TRY(check_matrices(c, c->in[0], true));
    const dl_dtype complex = dl_dtype_to_complex(c->dtype);
    out[DL_OUT_FACTOR_EIG_VALUES] = batch_of(c, complex, width(c), -1);
    out[DL_OUT_FACTOR_EIG_VECTORS] = by_columns(c, height(c), width(c));
    out[DL_OUT_FACTOR_EIG_VECTORS].dtype = (int8_t)complex;
    out[DL_OUT_FACTOR_EIG_INFO] = batch_of(c, DL_I32, -1, -1);
    return DL_OK;
}

INFER_RULE(factor_svd) {
    DL_TRY(check_matrices(c, c->in[0], false));
    const bool full = ATTR_I(c, FACTOR_SVD_FULL_MATRICES) != 0;
    const long m = height(c), n = width(c), k = least(m, n);
    out[DL_OUT_FACTOR_SVD_U] = by_columns(c, m, full ? m : k);
    out[DL_OUT_FACTOR_SVD_S] = batch_of(c, dl_dtype_of_parts(c->dtype), k, -1);
    out[DL_OUT_FACTOR_SVD_VH] = by_columns(c, full ? n : k, n);
    out[DL_OUT_FACTOR_SVD_INFO] = batch_of(c, DL_I32, -1, -1);
    return DL_OK;
}

INFER_RULE(solve_triangle) {
    const dl_tensor *a = c->in[0], *b = c->in[1];
    DL_TRY(check_matrices(c, a, true));
    bool fits = b->ndim == a->ndim;
    for (int i = 0; fits && i < a->ndim - 1; i++) fits = a->shape[i] == b->shape[i];
    if (!fits)
        return dl_fail(DL_ERR_SHAPE, "a right side of shape %s does not fit matrices of shape %s",
                       dl_shape_text(b->ndim, b->shape), dl_shape_text(a->ndim, a->shape));
    *out = by_columns(c, width(c), b->shape[b->ndim - 1]);
    return DL_OK;
}
