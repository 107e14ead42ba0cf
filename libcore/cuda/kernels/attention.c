/* Kernel of attention and its fused gradient: in f32 and f64, and what else cuDNN does not take, by blocks. */
#include "cuda/kernels/attention.h"
#include "ops/names/matmul.h"

#include <string.h>

/* One call and the operands that it holds until its end. */
typedef struct work {
    dl_gpu *g;
    dl_attention_run r;
    dl_tensor *own[12];
    int n;
} work;

static void drop(work *w) {
    for (int i = 0; i < w->n; i++) dl_unref(w->own[i]);
}

static dl_tensor *hold(work *w, dl_tensor *t) { return t ? w->own[w->n++] = t : NULL; }

/* t contiguous and of the dtype given; NULL passes. False: failed. */
static bool operand(work *w, dl_tensor *t, dl_dtype dtype, const dl_tensor **out) {
    dl_tensor *own = NULL;
    if (!dl_cuda_operand(w->g, t, (int)dtype, &own)) return false;
    *out = hold(w, own);
    return true;
}

static dl_dtype wide(dl_dtype t) { return DL_BIT(t) & DL_HALVES ? DL_F32 : t; }

/* The inputs of the op, `in`, absent ones NULL. */
static dl_status operands(work *w, dl_tensor *const *in) {
    dl_attention_run *r = &w->r;
    dl_tensor *mask = in[DL_IN_ATTENTION_ATTN_MASK];
    r->t = wide((dl_dtype)in[0]->dtype);
    r->lengths = in[DL_IN_ATTENTION_LENGTHS], r->seed = in[DL_IN_ATTENTION_SEED], r->mask = mask;
    if (!operand(w, in[0], r->t, &r->q) || !operand(w, in[1], r->t, &r->k) || !operand(w, in[2], r->t, &r->v))
        return dl_failed();
    if (mask && mask->dtype != DL_BOOL && !operand(w, mask, r->t, &r->mask)) return dl_failed();
    if (r->lengths && !operand(w, in[DL_IN_ATTENTION_LENGTHS], (dl_dtype)r->lengths->dtype, &r->lengths))
        return dl_failed();
    return !r->seed || operand(w, in[DL_IN_ATTENTION_SEED], DL_I64, &r->seed) ? DL_OK : dl_failed();
}

/* A result of the dtype in which it is computed; `of` itself where it has it. */
static dl_tensor *result(work *w, dl_tensor *of, dl_dtype t) {
    return hold(w, of->dtype == (int8_t)t ? dl_ref(of) : dl_tensor_empty(of->ndim, of->shape, t, of->st->device));
}
static dl_status finish(const work *w, dl_tensor *of, dl_tensor *made) {
    return of == made || !of->numel ? DL_OK : dl_cuda_copy(w->g, of, made);
}

static dl_status forward(work *w, dl_call *c) {
    dl_tensor *in[6] = {NULL};
    for (int i = 0; i < c->nin; i++) in[i] = c->in[i];
    DL_TRY(operands(w, in));
    w->r.out = result(w, c->out[0], w->r.t), w->r.stats = result(w, c->out[1], DL_F64);
    if (!w->r.out || !w->r.stats) return dl_failed();
    DL_TRY(dl_attention_blocks(w->g, &w->r));
    DL_TRY(finish(w, c->out[0], w->r.out));
    return finish(w, c->out[1], w->r.stats);
}

static dl_status attention_run(dl_call *c) {
    DL_USE_GPU(g, c->device);
    work w = {.g = g};
    DL_TRY(dl_attention_of(c, &w.r.a));
    dl_status s = forward(&w, c);
    drop(&w);
    return s;
}

/* ---- gradient */

static dl_status saved(dl_back *b, dl_tensor *in[6]) {
    for (int i = 0; i < b->nin; i++)
        if (dl_in_meta(b, i)->ndim && !(in[i] = dl_saved_in(b, i))) return dl_failed();
    return DL_OK;
}

static dl_status backward(work *w, dl_back *b, dl_tensor *given[3]) {
    dl_tensor *in[6] = {NULL}, *out, *stats;
    const dl_tensor *of_out = NULL, *of_stats = NULL;
    DL_TRY(saved(b, in));
    DL_TRY(operands(w, in));
    if (!(out = OUT_(ATTENTION_OUT)) || !(stats = OUT_(ATTENTION_STATS))) return dl_failed();
    if (!operand(w, out, w->r.t, &of_out) || !operand(w, stats, DL_F64, &of_stats) ||
        !operand(w, b->g[0], w->r.t, &w->r.g))
        return dl_failed();
    w->r.out = (dl_tensor *)of_out, w->r.stats = (dl_tensor *)of_stats;
    for (int i = 0; i < 3; i++)
        if (DL_NEED(i) && !(given[i] = dl_tensor_empty(4, dl_in_meta(b, i)->shape, w->r.t, dl_in_meta(b, 0)->device)))
            return dl_failed();
    w->r.dq = given[0], w->r.dk = given[1], w->r.dv = given[2];
    return dl_attention_blocks_grad(w->g, &w->r);
}

static dl_status attention_back(dl_back *b) {
    dl_tensor *given[3] = {NULL};
    work w = {.g = dl_gpu_use(dl_in_meta(b, 0)->device)};
    if (!w.g) return dl_failed();
    dl_attention_of_node(b, &w.r.a);
    dl_status s = backward(&w, b, given);
    drop(&w);
    for (int i = 0; i < 3; i++) {
        if (s == DL_OK && given[i])
            s = dl_give(b, i, given[i]);
        else
            dl_unref(given[i]);
    }
    return s;
}

const dl_kernel dl_cuda_attention = {.run = attention_run, .fused_grad = attention_back, .dtypes = DL_FLOATS};
