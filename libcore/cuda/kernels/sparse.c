/* Kernel of the product of a sparse and a dense matrix, by cuSPARSE. */
#include "cuda/kernels/sparse.h"
#include "cuda/runtime/cusparse.h"
#include "ops/names/sparse.h"

/* One product out = a x, [rows, n] of [rows, cols] and [cols, n]. */
typedef struct product {
    const dl_pattern *p;
    const dl_tensor *values, *x;
    dl_tensor *out;
    long x_step;
} product;

static cudaDataType type_of(int dtype) {
    return dtype == DL_F64 ? CUDA_R_64F : dtype == DL_F32 ? CUDA_R_32F : dtype == DL_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

/* The algorithm gives the same bits at every run. */
static dl_status multiply(dl_gpu *g, const dl_cusparse *s, int dtype, cusparseConstSpMatDescr_t a,
                          cusparseConstDnMatDescr_t x, cusparseDnMatDescr_t y) {
    const double one = 1, zero = 0;
    const float one_f = 1, zero_f = 0;
    const bool big = dtype == DL_F64;
    const void *alpha = big ? (const void *)&one : &one_f, *beta = big ? (const void *)&zero : &zero_f;
    const cudaDataType compute = big ? CUDA_R_64F : CUDA_R_32F;
    const cusparseOperation_t plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
    size_t bytes = 0;
    DL_TRY(dl_cusparse_check(s->f->cusparseSpMM_bufferSize(s->handle, plain, plain, alpha, a, x, beta, y, compute,
                                                           CUSPARSE_SPMM_CSR_ALG2, &bytes),
                             "a product"));
    void *work = dl_gpu_take(g, bytes + 1);
    if (!work) return dl_failed();
    cusparseStatus_t r =
        s->f->cusparseSpMM(s->handle, plain, plain, alpha, a, x, beta, y, compute, CUSPARSE_SPMM_CSR_ALG2, work);
    dl_gpu_drop(g, work);
    return dl_cusparse_check(r, "a product");
}

static dl_status run_product(dl_gpu *g, const dl_cusparse *s, const product *j) {
    const dl_pattern *p = j->p;
    const long n = j->out->shape[1], least = p->nnz / p->rows + 1;
    /* cuSPARSE refuses more entries than a matrix has elements, as where places repeat. No entry names a column behind
     * p->cols. */
    const long cols = p->cols < least ? least : p->cols;
    const cusparseIndexType_t index = p->wide ? CUSPARSE_INDEX_64I : CUSPARSE_INDEX_32I;
    const cudaDataType type = type_of(j->out->dtype);
    cusparseConstSpMatDescr_t a = NULL;
    cusparseConstDnMatDescr_t x = NULL;
    cusparseDnMatDescr_t y = NULL;
    cusparseStatus_t r = s->f->cusparseCreateConstCsr(&a, p->rows, cols, p->nnz, p->crow, p->col, dl_ptr(j->values),
                                                      index, index, CUSPARSE_INDEX_BASE_ZERO, type);
    if (r == CUSPARSE_STATUS_SUCCESS)
        r = s->f->cusparseCreateConstDnMat(&x, cols, n, j->x_step, dl_ptr(j->x), type, CUSPARSE_ORDER_ROW);
    if (r == CUSPARSE_STATUS_SUCCESS)
        r = s->f->cusparseCreateDnMat(&y, p->rows, n, n, dl_ptr(j->out), type, CUSPARSE_ORDER_ROW);
    dl_status st = dl_cusparse_check(r, "describing matrices");
    if (st == DL_OK) st = multiply(g, s, j->out->dtype, a, x, y);
    if (a) s->f->cusparseDestroySpMat(a);
    if (x) s->f->cusparseDestroyDnMat(x);
    if (y) s->f->cusparseDestroyDnMat(y);
    return st;
}

static dl_status with_values(dl_gpu *g, dl_call *c, const dl_pattern *p) {
    dl_tensor *v = NULL, *x = NULL;
    dl_cusparse s;
    product j = {.p = p, .out = c->out[0]};
    dl_status st = dl_pattern_rows(g, INPUT(c, SPMM_DENSE), &x, &j.x_step);
    if (st == DL_OK && !(v = dl_cuda_contiguous(g, c->in[0]))) st = dl_failed();
    j.values = v, j.x = x;
    if (st == DL_OK && (st = dl_cusparse_begin(g, &s)) == DL_OK) {
        st = run_product(g, &s, &j);
        dl_cusparse_end();
    }
    dl_unref(v), dl_unref(x);
    return st;
}

static dl_status run_spmm(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0], *x = INPUT(c, SPMM_DENSE);
    dl_pattern p = {0};
    dl_status st = dl_pattern_begin(g, c->op, INPUT(c, SPMM_CROW), INPUT(c, SPMM_COL), x->shape[0], &p);
    if (st == DL_OK && o->numel) st = p.nnz && p.cols ? with_values(g, c, &p) : dl_cuda_clear(g, o);
    dl_pattern_end(g, &p);
    return st;
}
const dl_kernel dl_cuda_spmm = {run_spmm, NULL, DL_FLOATS, NULL, 0};
