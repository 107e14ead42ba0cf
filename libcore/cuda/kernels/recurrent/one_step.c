/* One step of a recurrent layer: the products of its weights, and the cells of cell.cu. */
#include "cuda/kernels/recurrent/one_step.h"

#include "core/scope.h"
#include "cuda/runtime/cublaslt.h"
#include "ops/names/recurrent.h"

enum { WEIGHT_X = DL_IN_RECURRENT_PARAMS, WEIGHT_H, BIAS_X, BIAS_H };

/* The operands of a call, contiguous and of its dtype. */
typedef struct operands {
    dl_gpu *g;
    dl_dtype t;
    const dl_recurrent_sizes *r;
    long gates;                       /* columns of the sums */
    dl_tensor *x, *hx, *cx;           /* the states may be NULL */
    dl_tensor *w_x, *w_h, *b_x, *b_h; /* the biases may be NULL */
} operands;

static dl_status take(operands *o, dl_gpu *g, const dl_recurrent_sizes *r, dl_tensor *const *in, int nin) {
    dl_tensor **to[] = {&o->x, &o->hx, &o->cx, NULL, &o->w_x, &o->w_h, &o->b_x, &o->b_h};
    *o = (operands){.g = g, .t = (dl_dtype)in[0]->dtype, .r = r, .gates = r->gates * r->hidden};
    for (int i = 0; i < nin; i++)
        if (in[i] && to[i] && !dl_cuda_operand(g, in[i], (int)o->t, to[i])) return dl_failed();
    return DL_OK;
}

static void drop(operands *o) {
    dl_tensor *all[] = {o->x, o->hx, o->cx, o->w_x, o->w_h, o->b_x, o->b_h};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) dl_unref(all[i]);
}

static const void *at(const dl_tensor *t) { return t ? dl_ptr(t) : NULL; }

/* to[m,n] = a b, or is increased by it. */
static dl_status product(const operands *o, long m, long n, long k, dl_mat a, dl_mat b, void *to, bool more) {
    dl_gemm p = {.t = o->t, .m = m, .n = n, .k = k, .a = a, .b = b, .out = to, .count = 1, .accumulate = more};
    return dl_gemm_run(o->g, &p);
}

/* ---- forward */

/* What a gradient reads: the gates, then `extra` of dl_cell_step. */
static char *keep(const operands *o, dl_call *c) {
    long n = o->r->batch * (o->gates + o->r->hidden);
    c->out[DL_OUT_RECURRENT_RESERVE] = dl_tensor_empty(1, &n, o->t == DL_F64 ? DL_F64 : DL_F32, c->device);
    return c->out[DL_OUT_RECURRENT_RESERVE] ? dl_ptr(c->out[DL_OUT_RECURRENT_RESERVE]) : NULL;
}
static size_t gate_bytes(const operands *o) {
    return (size_t)(o->r->batch * o->gates) * (o->t == DL_F64 ? sizeof(double) : sizeof(float));
}

static dl_status run(const operands *o, dl_call *c, char *from_x, char *from_h) {
    const dl_recurrent_sizes *r = o->r;
    dl_cell_step s = {o->t, r->cell, r->batch, r->hidden, .bias_x = at(o->b_x), .bias_h = at(o->b_h)};
    s.from_x = from_x, s.from_h = o->hx ? from_h : NULL;
    s.before = at(r->cell == DL_CELL_LSTM ? o->cx : o->hx);
    s.y = dl_ptr(c->out[DL_OUT_RECURRENT_OUT]), s.h = dl_ptr(c->out[DL_OUT_RECURRENT_H]);
    if (c->out[DL_OUT_RECURRENT_C]) s.c = dl_ptr(c->out[DL_OUT_RECURRENT_C]);
    DL_TRY(product(o, r->batch, o->gates, r->input, (dl_mat){dl_ptr(o->x), r->input, 1},
                   (dl_mat){dl_ptr(o->w_x), 1, r->input}, from_x, false));
    if (o->hx)
        DL_TRY(product(o, r->batch, o->gates, r->hidden, (dl_mat){dl_ptr(o->hx), r->hidden, 1},
                       (dl_mat){dl_ptr(o->w_h), 1, r->hidden}, from_h, false));
    if (dl_recurrent_keeps(c)) {
        if (!(s.gates = keep(o, c))) return dl_failed();
        s.extra = (char *)s.gates + gate_bytes(o);
    }
    return dl_cuda_cell(o->g, &s);
}

dl_status dl_one_step_run(dl_gpu *g, dl_call *c, const dl_recurrent_sizes *r) {
    operands o;
    dl_status s = take(&o, g, r, c->in, c->nin);
    size_t bytes = (size_t)(r->batch * o.gates * dl_dtype_size(o.t));
    char *sums = s == DL_OK ? dl_gpu_take(g, 2 * bytes) : NULL;
    s = sums ? run(&o, c, sums, sums + bytes) : dl_failed();
    if (sums) dl_gpu_drop(g, sums);
    drop(&o);
    return s;
}

/* ---- gradient */

static bool wanted(const dl_back *b, int i) { return DL_NEED(i) && dl_in_meta(b, i)->ndim; }

/* A tensor of the shape of input i; NULL, error recorded. */
static dl_tensor *fresh(const operands *o, const dl_back *b, int i) {
    const dl_meta *m = dl_in_meta(b, i);
    return dl_tensor_empty(m->ndim, m->shape, o->t, m->device);
}

/* The gradient of input i, where it is wanted: a[m,k] b[k,n], added to `begun`, whose reference it takes, if any. */
static dl_status give_product(const operands *o, dl_back *b, int i, long m, long n, long k, dl_mat x, dl_mat y,
                              dl_tensor *begun) {
    if (!begun && !wanted(b, i)) return DL_OK;
    dl_tensor *to = begun ? begun : fresh(o, b, i);
    if (!to) return dl_failed();
    dl_status s = product(o, m, n, k, x, y, dl_ptr(to), begun != NULL);
    return s == DL_OK ? dl_give(b, i, to) : (dl_unref(to), s);
}

/* From the gradients of the sums, [batch, gates]: d_x of the inputs', d_h of the state's. */
static dl_status give_all(const operands *o, dl_back *b, dl_tensor *d_x, dl_tensor *d_h, dl_tensor *dhx) {
    const dl_recurrent_sizes *r = o->r;
    long n = r->batch, cols = o->gates, in = r->input, h = r->hidden;
    dl_mat dx = {dl_ptr(d_x), cols, 1}, dh = {dl_ptr(d_h), cols, 1};
    dl_status s = give_product(o, b, DL_IN_RECURRENT_HX, n, h, cols, dh, (dl_mat){dl_ptr(o->w_h), h, 1}, dhx);
    if (s != DL_OK) return s;
    DL_TRY(give_product(o, b, DL_IN_RECURRENT_INPUT, n, in, cols, dx, (dl_mat){dl_ptr(o->w_x), in, 1}, NULL));
    DL_TRY(give_product(o, b, WEIGHT_X, cols, in, n, dl_mat_transposed(dx), (dl_mat){dl_ptr(o->x), in, 1}, NULL));
    if (o->hx)
        DL_TRY(give_product(o, b, WEIGHT_H, cols, h, n, dl_mat_transposed(dh), (dl_mat){dl_ptr(o->hx), h, 1}, NULL));
    if (o->b_x && wanted(b, BIAS_X)) DL_TRY(dl_give(b, BIAS_X, dl_ref(d_x)));
    return o->b_h && wanted(b, BIAS_H) ? dl_give(b, BIAS_H, dl_ref(d_h)) : DL_OK;
}

/* The gradient of result i, contiguous, in the pool of the pass; *to NULL: there is none. */
static dl_status incoming(const operands *o, dl_back *b, int i, const void **to) {
    dl_tensor *own = NULL;
    if (b->g[i] && (!dl_cuda_operand(o->g, b->g[i], (int)o->t, &own) || !dl_tmp(b, own))) return dl_failed();
    *to = at(own);
    return DL_OK;
}

static dl_status back(const operands *o, dl_back *b) {
    const dl_recurrent_sizes *r = o->r;
    bool lstm = r->cell == DL_CELL_LSTM;
    dl_tensor *kept = dl_saved_out(b, DL_OUT_RECURRENT_RESERVE);
    int state = lstm ? DL_IN_RECURRENT_CX : DL_IN_RECURRENT_HX;
    dl_cell_back s = {o->t, r->cell, r->batch, r->hidden, .before = at(lstm ? o->cx : o->hx)};
    if (!kept) return dl_fail_null("what a recurrent layer keeps for its gradient");
    s.gates = dl_ptr(kept), s.extra = (const char *)s.gates + gate_bytes(o);
    DL_TRY(incoming(o, b, DL_OUT_RECURRENT_OUT, &s.gy));
    DL_TRY(incoming(o, b, DL_OUT_RECURRENT_H, &s.gh));
    DL_TRY(incoming(o, b, DL_OUT_RECURRENT_C, &s.gc));
    long shape[2] = {r->batch, o->gates};
    dl_tensor *d_x = dl_tmp(b, dl_tensor_empty(2, shape, o->t, dl_in_meta(b, 0)->device)), *d_h = d_x, *direct = NULL;
    if (r->cell == DL_CELL_GRU) d_h = dl_tmp(b, dl_tensor_empty(2, shape, o->t, dl_in_meta(b, 0)->device));
    if (!d_x || !d_h) return dl_failed();
    s.d_x = dl_ptr(d_x), s.d_h = dl_ptr(d_h);
    if (r->gates > 1 && wanted(b, state)) {
        if (!(direct = fresh(o, b, state))) return dl_failed();
        s.direct = dl_ptr(direct);
    }
    dl_status e = dl_cuda_cell_back(o->g, &s);
    if (e != DL_OK) return dl_unref(direct), e;
    if (lstm && direct) DL_TRY(dl_give(b, state, direct));
    return give_all(o, b, d_x, d_h, lstm ? NULL : direct);
}

dl_status dl_one_step_back(dl_gpu *g, dl_back *b, const dl_recurrent_sizes *r) {
    operands o;
    dl_tensor *in[BIAS_H + 1] = {NULL};
    for (int i = 0; i < b->nin; i++)
        if (dl_in_meta(b, i)->ndim && !(in[i] = dl_saved_in(b, i))) return dl_failed();
    dl_status s = take(&o, g, r, in, b->nin);
    if (s == DL_OK) s = back(&o, b);
    drop(&o);
    return s;
}
