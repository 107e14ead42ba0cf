/* Kernel of recurrent layers and its gradient: one call of cuDNN over packed weights, the way of running the steps
 * chosen by measuring. Sequences of their own lengths are described to cuDNN in host memory, so that such a call waits
 * for the GPU and cannot be captured. */
#include "cuda/runtime/cudnn_recurrent.h"
#include "core/scope.h"
#include "cuda/kernels/recurrent/one_step.h"
#include "cuda/runtime/plans.h"
#include "ops/names/recurrent.h"

#include <string.h>

enum { ALIGN = 256, PLANS = 128 };

/* Descriptors of layers that have run. */
typedef struct plan {
    dl_dnn_layers l;
    bool training;
    dl_dnn_recurrent *p;
    dl_dnn_room room;
} plan;

static plan plans[PLANS];
static int nplans;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t rounded(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/* ---- choosing how the steps run */

typedef struct trial {
    dl_gpu *g;
    dl_dnn_recurrent *p;
    dl_dnn_room room;
    dl_dnn_run_of o;
} trial;

static dl_status run_trial(void *arg) {
    trial *t = arg;
    DL_TRY(dl_dnn_recurrent_forward(t->g, t->p, &t->room, &t->o));
    return t->o.reserve ? dl_dnn_recurrent_backward(t->g, t->p, &t->room, &t->o) : DL_OK;
}

/* Milliseconds of one way over weights of zeros, forward and with training the gradients too; negative: it does not
 * run. */
static float measure(dl_gpu *g, const dl_dnn_layers *l, bool training, const dl_dnn_run_of *o, dl_dnn_steps steps,
                     float best) {
    trial t = {.g = g, .p = dl_dnn_recurrent_new(g, l, steps), .o = *o};
    bool good = t.p && dl_dnn_recurrent_room(g, t.p, training, &t.room) == DL_OK;
    size_t x = (size_t)(l->r.steps * l->r.batch * l->r.input * dl_dtype_size(l->t)), weights = rounded(t.room.weights),
           work = rounded(t.room.work), more = training ? rounded(t.room.reserve) + rounded(x) + weights : 0;
    char *at = good ? dl_gpu_take(g, weights + work + more + 1) : NULL;
    good = at && dl_gpu_check(g, cudaMemsetAsync(at, 0, weights, g->stream), "measuring recurrent layers") == DL_OK;
    t.o.weights = at, t.o.work = at + weights;
    if (training) {
        t.o.reserve = at + weights + work, t.o.gy = o->y;
        t.o.dx = (char *)t.o.reserve + rounded(t.room.reserve), t.o.dweights = (char *)t.o.dx + rounded(x);
    }
    float ms = good ? dl_plan_measure(g, run_trial, &t, best) : -1;
    if (at) dl_gpu_drop(g, at);
    dl_dnn_recurrent_free(t.p);
    return ms;
}

/* The number of steps counts by powers of two, since it changes from batch to batch. */
static void key_text(const dl_dnn_layers *l, bool training, char *text) {
    const dl_recurrent_sizes *r = &l->r;
    long steps = 1;
    while (steps < r->steps) steps *= 2;
    snprintf(text, DL_PLAN_TEXT, "recurrent %d %s%s %s t%ld b%ld i%ld h%ld l%d d%d p%d", (int)r->cell,
             dl_dtype_name(l->t), l->tf32 ? " tf32" : "", training ? "training" : "forward", steps, r->batch, r->input,
             r->hidden, r->layers, r->directions, r->each);
}

static dl_status choose(dl_gpu *g, const dl_dnn_layers *l, bool training, const dl_dnn_run_of *o, dl_dnn_steps *out) {
    char key[DL_PLAN_TEXT], value[DL_PLAN_TEXT];
    *out = DL_STEPS_STANDARD;
    if (l->padded || l->t == DL_F64) return DL_OK; /* the only way */
    key_text(l, training, key);
    int stored = dl_plan_find(g, key, value) ? atoi(value) : -1;
    if (stored >= 0 && stored < DL_NSTEPS) return *out = (dl_dnn_steps)stored, DL_OK;
    DL_TRY(dl_plan_may_measure(g, "recurrent layers"));
    float best = -1;
    for (int i = 0; i < DL_NSTEPS; i++) {
        float ms = measure(g, l, training, o, (dl_dnn_steps)i, best);
        if (ms >= 0 && (best < 0 || ms < best)) best = ms, *out = (dl_dnn_steps)i;
        dl_error_clear();
    }
    if (best < 0) return dl_fail(DL_ERR_DEVICE, "cuDNN does not run these recurrent layers");
    snprintf(value, sizeof value, "%d", (int)*out);
    dl_plan_keep(g, key, value);
    return DL_OK;
}

/* The plan of the layers; o: operands to measure with. */
static dl_status find(dl_gpu *g, const dl_dnn_layers *l, bool training, const dl_dnn_run_of *o, plan **out) {
    for (int i = 0; i < nplans; i++)
        if (plans[i].training == training && !memcmp(&plans[i].l, l, sizeof *l)) return *out = &plans[i], DL_OK;
    dl_dnn_steps steps;
    DL_TRY(choose(g, l, training, o, &steps));
    plan made = {*l, training, dl_dnn_recurrent_new(g, l, steps), {0}};
    if (!made.p && steps != DL_STEPS_STANDARD) { /* chosen for another number of steps */
        dl_error_clear();
        made.p = dl_dnn_recurrent_new(g, l, DL_STEPS_STANDARD);
    }
    if (!made.p) return dl_failed();
    dl_status s = dl_dnn_recurrent_room(g, made.p, training, &made.room);
    if (s != DL_OK) return dl_dnn_recurrent_free(made.p), s;
    if (nplans == PLANS) { /* the oldest goes */
        dl_dnn_recurrent_free(plans[0].p);
        memmove(plans, plans + 1, sizeof plans - sizeof *plans);
        nplans--;
    }
    plans[nplans] = made;
    return *out = &plans[nplans++], DL_OK;
}

/* ---- operands */

/* One call and what it holds until its end. */
typedef struct work {
    dl_gpu *g;
    dl_dnn_layers l;
    dl_tensor *own[8], **param; /* operands as they are used */
    int nown, nparam;
    long *lengths; /* in host memory; NULL: all sequences have all steps */
    void *taken[4];
    int ntaken;
    dl_dnn_run_of o;
} work;

static void drop(work *w) {
    for (int i = 0; i < w->nown; i++) dl_unref(w->own[i]);
    for (int i = 0; i < w->nparam; i++) dl_unref(w->param[i]);
    for (int i = 0; i < w->ntaken; i++) dl_gpu_drop(w->g, w->taken[i]);
    free(w->param);
    free(w->lengths);
}

/* t contiguous and in the dtype of the call; NULL passes. False: failed. */
static bool hold(work *w, dl_tensor *t, const void **at) {
    dl_tensor *own = NULL;
    *at = NULL;
    if (!t) return true;
    if (!dl_cuda_operand(w->g, t, (int)w->l.t, &own)) return false;
    w->own[w->nown++] = own;
    *at = dl_ptr(own);
    return true;
}

static void *take(work *w, size_t bytes) {
    void *p = dl_gpu_take(w->g, bytes ? bytes : 1);
    if (p) w->taken[w->ntaken++] = p;
    return p;
}

static dl_status read_lengths(work *w, dl_tensor *t) {
    dl_tensor *own = NULL;
    if (!t) return DL_OK;
    DL_TRY(dl_gpu_no_capture(w->g, "reading the lengths of sequences"));
    if (!dl_cuda_operand(w->g, t, DL_I64, &own)) return dl_failed();
    size_t bytes = (size_t)w->l.r.batch * sizeof *w->lengths;
    w->lengths = malloc(bytes + 1);
    dl_status s = w->lengths ? dl_device_copy(w->lengths, 0, dl_ptr(own), w->g->index + 1, bytes)
                             : dl_fail(DL_ERR_MEMORY, "no memory for the lengths of sequences");
    dl_unref(own);
    return s == DL_OK ? dl_recurrent_check_lengths(&w->l.r, w->lengths) : s;
}

/* Input, states, lengths and parameters; `from` are the inputs of the op. */
static dl_status operands(work *w, dl_tensor *const *from) {
    w->l.t = from[0]->dtype, w->l.gpu = w->g->index;
    w->l.tf32 = w->l.t == DL_F32 && dl_tf32_allowed(), w->l.padded = from[DL_IN_RECURRENT_LENGTHS] != NULL;
    if (!hold(w, from[DL_IN_RECURRENT_INPUT], &w->o.x) || !hold(w, from[DL_IN_RECURRENT_HX], &w->o.hx) ||
        !hold(w, from[DL_IN_RECURRENT_CX], &w->o.cx))
        return dl_failed();
    return read_lengths(w, from[DL_IN_RECURRENT_LENGTHS]);
}

/* The parameters side by side as cuDNN wants them. */
static dl_status pack(work *w, const dl_dnn_recurrent *p, dl_tensor *const *param, int n, char *to) {
    DL_FREED dl_gpu_block *blocks = calloc((size_t)n + 1, sizeof *blocks);
    w->param = calloc((size_t)n + 1, sizeof *w->param);
    if (!w->param || !blocks) return dl_fail(DL_ERR_MEMORY, "no memory for the weights of recurrent layers");
    for (w->nparam = 0; w->nparam < n; w->nparam++) {
        int i = w->nparam;
        if (!dl_cuda_operand(w->g, param[i], (int)w->l.t, &w->param[i])) return dl_failed();
        dl_dnn_place at = dl_dnn_recurrent_place(p, i / w->l.r.each, i % w->l.r.each);
        blocks[i] = (dl_gpu_block){to + at.at, dl_ptr(w->param[i]), at.bytes};
    }
    return dl_cuda_copy_blocks(w->g, blocks, n);
}

/* ---- forward */

/* Makes the memory that the gradient reads: cuDNN's reserve, and behind it the packed weights. */
static dl_status make_reserve(work *w, dl_call *c, const dl_dnn_room *room, char **weights) {
    long bytes = (long)(rounded(room->reserve) + room->weights);
    dl_tensor *t = dl_tensor_empty(1, &bytes, DL_U8, c->device);
    if (!t) return dl_failed();
    c->out[DL_OUT_RECURRENT_RESERVE] = t;
    w->o.reserve = dl_ptr(t);
    *weights = (char *)dl_ptr(t) + rounded(room->reserve);
    return DL_OK;
}

static dl_status forward(work *w, dl_call *c) {
    bool training = dl_recurrent_keeps(c);
    plan *p = NULL;
    char *weights = NULL;
    w->o.y = dl_ptr(c->out[DL_OUT_RECURRENT_OUT]), w->o.h = dl_ptr(c->out[DL_OUT_RECURRENT_H]);
    if (c->out[DL_OUT_RECURRENT_C]) w->o.c = dl_ptr(c->out[DL_OUT_RECURRENT_C]);
    DL_TRY(operands(w, c->in));
    DL_TRY(find(w->g, &w->l, training, &w->o, &p));
    if (w->lengths) DL_TRY(dl_dnn_recurrent_lengths(p->p, w->lengths));
    if (training)
        DL_TRY(make_reserve(w, c, &p->room, &weights));
    else if (!(weights = take(w, p->room.weights)))
        return dl_failed();
    DL_TRY(pack(w, p->p, c->in + DL_IN_RECURRENT_PARAMS, c->nin - DL_IN_RECURRENT_PARAMS, weights));
    w->o.weights = weights;
    if (!(w->o.work = take(w, p->room.work))) return dl_failed();
    return dl_dnn_recurrent_forward(w->g, p->p, &p->room, &w->o);
}

/* Layers of their sizes without a batch compute nothing. */
static dl_status recurrent_run(dl_call *c) {
    DL_USE_GPU(g, c->device);
    work w;
    memset(&w, 0, sizeof w); /* keys are compared by their bytes */
    w.g = g;
    DL_TRY(dl_recurrent_of(c, &w.l.r));
    if (!w.l.r.input)
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "compute on the CPU", "cuDNN has no recurrent layers of 0 inputs");
    if (!w.l.r.batch) {
        const dl_dnn_room none = {0, 0, 0};
        char *weights;
        return dl_recurrent_keeps(c) ? make_reserve(&w, c, &none, &weights) : DL_OK;
    }
    if (dl_one_step(&w.l.r, c->in[DL_IN_RECURRENT_LENGTHS] != NULL)) return dl_one_step_run(g, c, &w.l.r);
    pthread_mutex_lock(&lock);
    dl_status s = forward(&w, c);
    pthread_mutex_unlock(&lock);
    drop(&w);
    return s;
}

/* ---- gradient */

/* A gradient that is wanted: a tensor of the pass, and where it lies; NULL: none is. */
static dl_status wanted(dl_back *b, int i, bool always, dl_tensor **given, void **at) {
    const dl_meta *m = dl_in_meta(b, i);
    *at = NULL;
    if (!m->ndim || !(always || DL_NEED(i))) return DL_OK;
    given[i] = dl_tensor_empty(m->ndim, m->shape, m->dtype, m->device);
    if (!given[i]) return dl_failed();
    *at = dl_ptr(given[i]);
    return DL_OK;
}

/* The gradients of results that came in. That of out must be there: zeros, where only states were used. */
static dl_status incoming(work *w, dl_back *b, dl_tensor *out) {
    if (!hold(w, b->g[DL_OUT_RECURRENT_OUT], &w->o.gy) || !hold(w, b->g[DL_OUT_RECURRENT_H], &w->o.gh) ||
        !hold(w, b->g[DL_OUT_RECURRENT_C], &w->o.gc))
        return dl_failed();
    if (w->o.gy) return DL_OK;
    size_t bytes = (size_t)(out->numel * dl_dtype_size(w->l.t));
    void *zeros = take(w, bytes);
    if (!zeros) return dl_failed();
    w->o.gy = zeros;
    return dl_gpu_check(w->g, cudaMemsetAsync(zeros, 0, bytes, w->g->stream), "the gradient of recurrent layers");
}

/* The reserve that this pass may change. */
static dl_status usable_reserve(work *w, dl_back *b, const dl_dnn_room *room) {
    dl_tensor *t = dl_saved_out(b, DL_OUT_RECURRENT_RESERVE);
    if (!t) return dl_fail_null("the reserve of recurrent layers");
    w->o.reserve = dl_ptr(t), w->o.weights = (char *)dl_ptr(t) + rounded(room->reserve);
    if (!b->retain) return DL_OK;
    if (!(w->o.reserve = take(w, room->reserve))) return dl_failed();
    return dl_gpu_check(w->g,
                        cudaMemcpyAsync(w->o.reserve, dl_ptr(t), room->reserve, cudaMemcpyDeviceToDevice, w->g->stream),
                        "the gradient of recurrent layers");
}

/* The gradients of parameters out of the packed ones. */
static dl_status unpack(work *w, dl_back *b, const dl_dnn_recurrent *p, dl_tensor **given) {
    dl_gpu_block blocks[DL_MAX_IN];
    int n = 0;
    for (int i = DL_IN_RECURRENT_PARAMS; i < b->nin; i++) {
        int k = i - DL_IN_RECURRENT_PARAMS;
        void *to;
        DL_TRY(wanted(b, i, false, given, &to));
        if (!to) continue;
        dl_dnn_place at = dl_dnn_recurrent_place(p, k / w->l.r.each, k % w->l.r.each);
        blocks[n++] = (dl_gpu_block){to, (char *)w->o.dweights + at.at, at.bytes};
    }
    return dl_cuda_copy_blocks(w->g, blocks, n);
}

static bool wants_weights(const dl_back *b) {
    bool any = false;
    for (int i = DL_IN_RECURRENT_PARAMS; i < b->nin; i++) any |= DL_NEED(i);
    return any;
}

static dl_status backward(work *w, dl_back *b, dl_tensor **in, dl_tensor **given) {
    plan *p = NULL;
    dl_tensor *out = dl_saved_out(b, DL_OUT_RECURRENT_OUT);
    const void *y;
    if (!out) return dl_fail_null("the result of recurrent layers");
    DL_TRY(operands(w, in));
    if (!hold(w, out, &y)) return dl_failed();
    w->o.y = (void *)y;
    DL_TRY(find(w->g, &w->l, true, &w->o, &p));
    if (w->lengths) DL_TRY(dl_dnn_recurrent_lengths(p->p, w->lengths));
    DL_TRY(incoming(w, b, out));
    DL_TRY(usable_reserve(w, b, &p->room));
    DL_TRY(wanted(b, DL_IN_RECURRENT_INPUT, true, given, &w->o.dx));
    DL_TRY(wanted(b, DL_IN_RECURRENT_HX, false, given, &w->o.dhx));
    DL_TRY(wanted(b, DL_IN_RECURRENT_CX, false, given, &w->o.dcx));
    if (w->lengths) DL_TRY(dl_cuda_clear(w->g, given[DL_IN_RECURRENT_INPUT])); /* padding has no gradient */
    if (!(w->o.work = take(w, p->room.work))) return dl_failed();
    if (wants_weights(b)) {
        if (!(w->o.dweights = take(w, p->room.weights))) return dl_failed();
        DL_CUDA_TRY(w->g, cudaMemsetAsync(w->o.dweights, 0, p->room.weights, w->g->stream),
                    "the gradient of recurrent layers");
    }
    DL_TRY(dl_dnn_recurrent_backward(w->g, p->p, &p->room, &w->o));
    return wants_weights(b) ? unpack(w, b, p->p, given) : DL_OK;
}

/* Without a batch all gradients are zeros. */
static dl_status no_batch(work *w, dl_back *b, dl_tensor **given) {
    for (int i = 0; i < b->nin; i++) {
        void *at;
        if (i == DL_IN_RECURRENT_LENGTHS) continue;
        DL_TRY(wanted(b, i, false, given, &at));
        if (at && given[i]->numel) DL_TRY(dl_cuda_clear(w->g, given[i]));
    }
    return DL_OK;
}

static dl_status recurrent_back(dl_back *b) {
    dl_tensor *in[DL_IN_RECURRENT_PARAMS] = {NULL}, *given[DL_MAX_IN] = {NULL};
    work w;
    memset(&w, 0, sizeof w);
    if (!(w.g = dl_gpu_use(dl_in_meta(b, 0)->device))) return dl_failed();
    DL_TRY(dl_recurrent_of_node(b, &w.l.r));
    if (dl_one_step(&w.l.r, dl_in_meta(b, DL_IN_RECURRENT_LENGTHS)->ndim)) return dl_one_step_back(w.g, b, &w.l.r);
    for (int i = 0; i < DL_IN_RECURRENT_PARAMS; i++)
        if (dl_in_meta(b, i)->ndim && !(in[i] = dl_saved_in(b, i))) return dl_failed();
    pthread_mutex_lock(&lock);
    dl_status s = w.l.r.batch ? backward(&w, b, in, given) : no_batch(&w, b, given);
    pthread_mutex_unlock(&lock);
    drop(&w);
    for (int i = 0; i < b->nin; i++) {
        if (s == DL_OK && given[i] && DL_NEED(i))
            s = dl_give(b, i, given[i]);
        else
            dl_unref(given[i]);
    }
    return s;
}

const dl_kernel dl_cuda_recurrent = {.run = recurrent_run, .fused_grad = recurrent_back, .dtypes = DL_FLOATS};
