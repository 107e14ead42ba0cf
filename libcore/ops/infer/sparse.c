/* Shape rules of ops of sparse matrices, and what is wrong with indices. */
#include "ops/sparse.h"
#include "ops/rules/sparse.h"

long dl_crow_wrong(const long *crow, long rows, long nnz) {
    if (crow[0]) return 0;
    for (long r = 0; r < rows; r++)
        if (crow[r + 1] < crow[r] || crow[r + 1] > nnz) return r + 1;
    return crow[rows] == nnz ? -1 : rows;
}

dl_status dl_fail_crow(const long *crow, long rows, long nnz, long row) {
    if (row > 0 && crow[row] < crow[row - 1])
        return dl_fail(DL_ERR_INDEX, "crow must not fall, but crow[%ld] is %ld and crow[%ld] is %ld", row - 1,
                       crow[row - 1], row, crow[row]);
    if (!row) return dl_fail(DL_ERR_INDEX, "crow must begin with 0, not %ld", crow[0]);
    return dl_fail(DL_ERR_INDEX, "crow must end with the number of entries, %ld, but crow[%ld] is %ld", nnz,
                   crow[row] > nnz ? row : rows, crow[crow[row] > nnz ? row : rows]);
}

dl_status dl_fail_column(long entry, long column, long cols) {
    return dl_fail(DL_ERR_INDEX, "column %ld of entry %ld is out of range for a matrix of %ld columns", column, entry,
                   cols);
}

static dl_status check_pattern(const dl_tensor *crow, const dl_tensor *col) {
    DL_TRY(dl_check_index(crow));
    DL_TRY(dl_check_index(col));
    if (crow->ndim == 1 && col->ndim == 1 && crow->numel) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "crow has shape [rows + 1] and col [entries], not %s and %s",
                   dl_shape_text(crow->ndim, crow->shape), dl_shape_text(col->ndim, col->shape));
}

static dl_status check_matrix(const dl_tensor *t, const char *name) {
    if (t->ndim == 2) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "%s must be a matrix, not of shape %s", name, dl_shape_text(t->ndim, t->shape));
}

/* Numbers of two dtypes are not converted: which of them is meant to lose digits? */
static dl_status check_dtypes(const dl_tensor *a, const dl_tensor *b) {
    if (a->dtype == b->dtype) return DL_OK;
    return dl_fail_hint(DL_ERR_DTYPE, "x.to(f32), s.to(f64), ... convert one of them",
                        "a sparse product has operands of one dtype, not %s and %s", dl_dtype_name((dl_dtype)a->dtype),
                        dl_dtype_name((dl_dtype)b->dtype));
}

INFER_RULE(spmm) {
    const dl_tensor *v = c->in[0], *crow = INPUT(c, SPMM_CROW), *col = INPUT(c, SPMM_COL), *x = INPUT(c, SPMM_DENSE);
    DL_TRY(check_pattern(crow, col));
    DL_TRY(check_matrix(x, "dense"));
    DL_TRY(check_dtypes(v, x));
    if (v->ndim != 1 || v->numel != col->numel)
        return dl_fail(DL_ERR_SHAPE, "%ld columns need as many values, not %s", (long)col->numel,
                       dl_shape_text(v->ndim, v->shape));
    *out = dl_meta_fresh(c, c->dtype, 2, (long[]){crow->numel - 1, x->shape[1]});
    return DL_OK;
}

INFER_RULE(sddmm) {
    const dl_tensor *a = c->in[0], *b = INPUT(c, SDDMM_MAT2), *crow = INPUT(c, SDDMM_CROW), *col = INPUT(c, SDDMM_COL);
    DL_TRY(check_pattern(crow, col));
    DL_TRY(check_matrix(a, "mat1"));
    DL_TRY(check_matrix(b, "mat2"));
    DL_TRY(check_dtypes(a, b));
    if (a->shape[1] != b->shape[0] || a->shape[0] != crow->numel - 1)
        return dl_fail(DL_ERR_SHAPE, "a pattern of %ld rows needs mat1 [%ld,n] and mat2 [n,cols], not %s and %s",
                       (long)crow->numel - 1, (long)crow->numel - 1, dl_shape_text(2, a->shape),
                       dl_shape_text(2, b->shape));
    *out = dl_meta_fresh(c, c->dtype, 1, (long[]){col->numel});
    return DL_OK;
}

INFER_RULE(csr_transpose) {
    const dl_tensor *crow = c->in[0], *col = INPUT(c, CSR_TRANSPOSE_COL);
    const long cols = ATTR_I(c, CSR_TRANSPOSE_COLS);
    DL_TRY(check_pattern(crow, col));
    if (cols < 0) return dl_fail(DL_ERR_VALUE, "cols is a number of columns, from 0, not %ld", cols);
    out[0] = dl_meta_fresh(c, DL_I64, 1, (long[]){cols + 1});
    out[1] = out[2] = dl_meta_fresh(c, DL_I64, 1, (long[]){col->numel});
    return DL_OK;
}

FLOPS_RULE(spmm) { return 2.0 * (double)c->in[0]->numel * (double)INPUT(c, SPMM_DENSE)->shape[1]; }
FLOPS_RULE(sddmm) { return 2.0 * (double)INPUT(c, SDDMM_COL)->numel * (double)c->in[0]->shape[1]; }
