/* Kernels of matmul and linear: operands become matrices and batches of them. */
#include "cuda/kernels/inner.h"
#include "cuda/runtime/cublaslt.h"
#include "ops/names/matmul.h"

/* Merges batch dimensions that lie one in the other. */
static void merge_batches(dl_products *p) {
    int m = 0;
    for (int i = 1; i < p->ndim; i++) {
        bool one = p->stride[0][m] == p->stride[0][i] * p->shape[i] && p->stride[1][m] == p->stride[1][i] * p->shape[i];
        if (!one) m++;
        p->shape[m] = one ? p->shape[m] * p->shape[i] : p->shape[i];
        for (int w = 0; w < 2; w++) p->stride[w][m] = p->stride[w][i];
    }
    if (p->ndim) p->ndim = m + 1;
}

/* The innermost batch dimension runs in one call, the others one after another. */
static dl_status run_batches(dl_gpu *g, const dl_products *b, dl_dtype t, dl_status (*run)(dl_gpu *, const dl_gemm *)) {
    long outer = 1, es = dl_dtype_size(t);
    int inner = b->ndim - 1;
    for (int i = 0; i < inner; i++) outer *= b->shape[i];
    for (long k = 0; k < outer; k++) {
        dl_gemm p = {.t = t, .m = b->m, .n = b->n, .k = b->k, .a = b->a, .b = b->b, .count = 1};
        long rest = k;
        for (int i = inner - 1; i >= 0; rest /= b->shape[i--]) {
            p.a.p = (char *)p.a.p + rest % b->shape[i] * b->stride[0][i] * es;
            p.b.p = (char *)p.b.p + rest % b->shape[i] * b->stride[1][i] * es;
        }
        if (inner >= 0) p.count = b->shape[inner], p.step_a = b->stride[0][inner], p.step_b = b->stride[1][inner];
        p.out = (char *)b->out + k * p.m * p.n * p.count * es;
        DL_TRY(run(g, &p));
    }
    return DL_OK;
}

/* An operand whose rows or columns do not lie side by side is copied. *copy is to be released. */
static dl_status usable(dl_gpu *g, dl_tensor *t, bool left, dl_tensor **copy) {
    dl_mat m;
    dl_mat_of(t, left, &m);
    long rows = t->ndim > 1 ? t->shape[t->ndim - 2] : left ? 1 : t->shape[0];
    long cols = t->ndim > 1 ? t->shape[t->ndim - 1] : left ? t->shape[0] : 1;
    *copy = dl_gemm_ready(&m, rows, cols) ? dl_ref(t) : NULL;
    if (*copy) return DL_OK;
    *copy = dl_tensor_empty(t->ndim, t->shape, t->dtype, t->st->device);
    return *copy ? dl_cuda_copy(g, *copy, t) : dl_failed();
}

static dl_status matmul_run(dl_call *c) {
    dl_tensor *a = NULL, *b = NULL;
    DL_USE_GPU(g, c->device);
    if (!c->out[0]->numel) return DL_OK;
    dl_products p;
    if (DL_BIT(c->dtype) & DL_INTS) {
        dl_products_of(c->in[0], c->in[1], c->out[0], &p);
        return run_batches(g, &p, c->dtype, dl_product_run);
    }
    if (DL_BIT(c->dtype) & DL_FLOATS && c->in[0]->ndim == 1 && c->in[1]->ndim == 1 && dl_is_contiguous(c->in[0]) &&
        dl_is_contiguous(c->in[1]))
        return dl_cuda_inner_product(g, c->in[0], c->in[1], c->out[0]);
    dl_status s = usable(g, c->in[0], true, &a);
    if (s == DL_OK) s = usable(g, c->in[1], false, &b);
    if (s == DL_OK) {
        dl_products_of(a, b, c->out[0], &p);
        dl_products_fold(&p, dl_gemm_ready);
        merge_batches(&p);
        s = run_batches(g, &p, c->dtype, dl_gemm_run);
    }
    dl_unref(a);
    dl_unref(b);
    return s;
}

const dl_kernel dl_cuda_matmul = {.run = matmul_run, .dtypes = DL_NUMBERS | DL_COMPLEX};

/* ---- linear */

static dl_status linear_of(dl_gpu *g, dl_tensor *x, dl_tensor *w, dl_tensor *bias, dl_tensor *y) {
    dl_gemm p = {.t = y->dtype, .m = 1, .n = w->shape[0], .k = w->shape[1], .out = dl_ptr(y), .count = 1};
    for (int i = 0; i < x->ndim - 1; i++) p.m *= x->shape[i];
    p.a = (dl_mat){dl_ptr(x), p.k, 1};
    p.b = (dl_mat){dl_ptr(w), w->stride[1], w->stride[0]};
    if (bias) p.bias = dl_ptr(bias);
    return dl_gemm_run(g, &p);
}

static dl_status linear_run(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *x = dl_cuda_contiguous(g, c->in[0]), *w = NULL, *given = INPUT(c, LINEAR_BIAS);
    dl_tensor *bias = given ? dl_cuda_contiguous(g, given) : NULL;
    dl_status s = usable(g, c->in[1], true, &w);
    if (!x || (given && !bias)) s = dl_failed();
    if (s == DL_OK) s = linear_of(g, x, w, bias, c->out[0]);
    dl_unref(x);
    dl_unref(w);
    dl_unref(bias);
    return s;
}

/* What the gradients of linear need: g is [rows, out], x [rows, in], both contiguous, w [out, in] as it is usable. */
typedef struct linear_grads {
    dl_tensor *g, *x, *w;
    long rows, in, out;
} linear_grads;

/* dx = g w */
static dl_status input_grad(dl_gpu *gpu, dl_back *b, const linear_grads *q) {
    const dl_meta *m = META(LINEAR_INPUT);
    dl_tensor *dx = dl_tensor_empty(m->ndim, m->shape, q->g->dtype, q->g->st->device);
    if (!dx) return dl_failed();
    dl_gemm p = {.t = dx->dtype, .m = q->rows, .n = q->in, .k = q->out, .out = dl_ptr(dx), .count = 1};
    p.a = (dl_mat){dl_ptr(q->g), q->out, 1};
    p.b = (dl_mat){dl_ptr(q->w), q->w->stride[0], q->w->stride[1]};
    dl_status s = dl_gemm_run(gpu, &p);
    return s == DL_OK ? dl_give(b, DL_IN_LINEAR_INPUT, dx) : (dl_unref(dx), s);
}

/* dw = g.T x */
static dl_status weight_grad(dl_gpu *gpu, dl_back *b, const linear_grads *q) {
    long shape[2] = {q->out, q->in};
    dl_tensor *dw = dl_tensor_empty(2, shape, q->g->dtype, q->g->st->device);
    if (!dw) return dl_failed();
    dl_gemm p = {.t = dw->dtype, .m = q->out, .n = q->in, .k = q->rows, .out = dl_ptr(dw), .count = 1};
    p.a = (dl_mat){dl_ptr(q->g), 1, q->out};
    p.b = (dl_mat){dl_ptr(q->x), q->in, 1};
    dl_status s = dl_gemm_run(gpu, &p);
    return s == DL_OK ? dl_give(b, DL_IN_LINEAR_WEIGHT, dw) : (dl_unref(dw), s);
}

static dl_status linear_grad(dl_back *b) {
    linear_grads q = {.x = IN_(LINEAR_INPUT), .w = IN_(LINEAR_WEIGHT)};
    dl_gpu *gpu = q.x && q.w ? dl_gpu_use(q.x->st->device) : NULL;
    dl_tensor *w = NULL;
    if (!gpu) return dl_fail_null("an operand");
    if (!(q.x = dl_tmp(b, dl_cuda_contiguous(gpu, q.x)))) return dl_failed();
    if (!(q.g = dl_tmp(b, dl_cuda_contiguous(gpu, b->g[0])))) return dl_failed();
    q.out = q.w->shape[0], q.in = q.w->shape[1], q.rows = 1;
    for (int i = 0; i < q.x->ndim - 1; i++) q.rows *= q.x->shape[i];
    DL_TRY(usable(gpu, q.w, true, &w));
    q.w = dl_tmp(b, w);
    if (NEED(LINEAR_INPUT)) DL_TRY(input_grad(gpu, b, &q));
    if (NEED(LINEAR_WEIGHT)) DL_TRY(weight_grad(gpu, b, &q));
    GIVE(LINEAR_BIAS, dl_ref(b->g[0]));
    return DL_OK;
}

const dl_kernel dl_cuda_linear = {.run = linear_run, .fused_grad = linear_grad, .dtypes = DL_FLOATS};
