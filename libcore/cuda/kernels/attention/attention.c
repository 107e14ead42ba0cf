/* Kernel of attention and its fused gradient. In 16 bits through cuDNN; in f32 and f64, and where cuDNN does not take
 * the operands, by tiles or by blocks of scores. */
#include "cuda/kernels/attention/attention.h"
#include "cuda/runtime/cudnn.h"
#include "cuda/runtime/cudnn_attention.h"
#include "ops/names/matmul.h"

#include <string.h>

enum { PLANS = 128 };
/* What cuDNN may store of scores in a gradient that repeats bit for bit; more is computed part by part. */
static const long SCORES = 256l << 20;

/* One call and the operands that it holds until its end. */
typedef struct work {
    dl_gpu *g;
    dl_attention_run r;
    dl_tensor *own[16];
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

/* ---------------------------------------------------------------- by blocks */

/* The inputs of the op, `in`, absent ones NULL. */
static dl_status operands(work *w, dl_tensor *const *in) {
    dl_attention_run *r = &w->r;
    dl_tensor *mask = in[DL_IN_ATTENTION_ATTN_MASK];
    r->t = in[0]->dtype;
    const dl_dtype scores = DL_BIT(r->t) & DL_HALVES ? DL_F32 : r->t;
    if (!dl_attention_has_tiles(r)) r->t = scores;
    r->lengths = in[DL_IN_ATTENTION_LENGTHS], r->seed = in[DL_IN_ATTENTION_SEED], r->mask = mask;
    if (!operand(w, in[0], r->t, &r->q) || !operand(w, in[1], r->t, &r->k) || !operand(w, in[2], r->t, &r->v))
        return dl_failed();
    if (mask && mask->dtype != DL_BOOL && !operand(w, mask, scores, &r->mask)) return dl_failed();
    if (r->lengths && !operand(w, in[DL_IN_ATTENTION_LENGTHS], r->lengths->dtype, &r->lengths)) return dl_failed();
    return !r->seed || operand(w, in[DL_IN_ATTENTION_SEED], DL_I64, &r->seed) ? DL_OK : dl_failed();
}

/* A result of the dtype in which it is computed; `of` itself where it has it. */
static dl_tensor *result(work *w, dl_tensor *of, dl_dtype t) {
    return hold(w, of->dtype == (int8_t)t ? dl_ref(of) : dl_tensor_empty(of->ndim, of->shape, t, of->st->device));
}
static dl_status finish(const work *w, dl_tensor *of, dl_tensor *made) {
    return of == made || !of->numel ? DL_OK : dl_cuda_copy(w->g, of, made);
}

static dl_status forward_blocks(work *w, dl_tensor *const *in, dl_tensor **out) {
    DL_TRY(operands(w, in));
    w->r.out = result(w, out[0], w->r.t), w->r.stats = result(w, out[1], DL_F64);
    if (!w->r.out || !w->r.stats) return dl_failed();
    DL_TRY(dl_attention_blocks(w->g, &w->r));
    DL_TRY(finish(w, out[0], w->r.out));
    return finish(w, out[1], w->r.stats);
}

static dl_status make_given(dl_back *b, dl_dtype t, dl_tensor *given[3], bool all) {
    for (int i = 0; i < 3; i++)
        if ((all || DL_NEED(i)) &&
            !(given[i] = dl_tensor_empty(4, dl_in_meta(b, i)->shape, t, dl_in_meta(b, i)->device)))
            return dl_failed();
    return DL_OK;
}

static dl_status backward_blocks(work *w, dl_back *b, dl_tensor *const *in, dl_tensor *const out[2],
                                 dl_tensor *given[3]) {
    const dl_tensor *of_out = NULL, *of_stats = NULL;
    DL_TRY(operands(w, in));
    if (!operand(w, out[0], w->r.t, &of_out) || !operand(w, out[1], DL_F64, &of_stats) ||
        !operand(w, b->g[0], w->r.t, &w->r.g))
        return dl_failed();
    w->r.out = (dl_tensor *)of_out, w->r.stats = (dl_tensor *)of_stats;
    DL_TRY(make_given(b, w->r.t, given, false));
    w->r.dq = given[0], w->r.dk = given[1], w->r.dv = given[2];
    return dl_attention_blocks_grad(w->g, &w->r);
}

/* ---------------------------------------------------------------- through cuDNN */

/* Plans of what has run; NULL: cuDNN does not run it. */
static struct {
    dl_dnn_attention key;
    dl_dnn_attention_plan *plan;
} plans[PLANS];
static int nplans;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static dl_dnn_attention_plan *find(dl_gpu *g, const dl_dnn_attention *key) {
    for (int i = 0; i < nplans; i++)
        if (!memcmp(&plans[i].key, key, sizeof *key)) return plans[i].plan;
    dl_dnn_attention_plan *plan = dl_dnn_attention_new(g, key);
    if (!plan) dl_error_clear();
    if (nplans == PLANS) { /* the oldest goes */
        dl_dnn_attention_free(plans[0].plan);
        memmove(plans, plans + 1, sizeof plans - sizeof *plans);
        nplans--;
    }
    plans[nplans].key = *key, plans[nplans].plan = plan;
    return plans[nplans++].plan;
}

/* How a call runs: the plan is for `batch` sequences and `heads` heads of keys, one part after another. */
typedef struct way {
    dl_dnn_attention key;
    dl_dnn_attention_plan *plan;
    dl_tensor *view[DL_DNN_VIEWS], *bias;
    int *rows, *keys;
    long batch, heads;
} way;

static long fewer(long n, long of) {
    for (n--; n > 1 && of % n;) n--;
    return n;
}

/* Cuts the gradient into parts whose scores may be stored. False: a single head is too much, or dropout, which counts
 * from the first head of a part, would take other weights than before. */
static bool cut(const dl_attention_sizes *a, way *y) {
    long each = (a->rows + 63) / 64 * 64 * ((a->keys + 63) / 64 * 64) * 2 * a->group;
    y->batch = a->batch, y->heads = a->kv_heads;
    if (!y->key.deterministic || !y->key.backward) return true;
    while (y->batch * y->heads * each > SCORES && y->batch > 1) y->batch = fewer(y->batch, a->batch);
    while (y->batch * y->heads * each > SCORES && y->heads > 1) y->heads = fewer(y->heads, a->kv_heads);
    bool whole = y->batch == a->batch && y->heads == a->kv_heads;
    return y->batch * y->heads * each <= SCORES && (whole || a->dropout == 0);
}

/* The gradient gets a mask that broadcasts over queries or keys in its full shape, with strides of 0: of one row for
 * all queries cuDNN 9.10 makes wrong gradients. */
static void bias_layout(way *y, const dl_attention_sizes *a) {
    const long part[4] = {y->batch, y->key.a.heads, a->rows, a->keys};
    for (int d = 0; y->bias && d < 4; d++) {
        const long size = y->bias->shape[d];
        bool spread = y->key.backward && d > 1 && size < part[d];
        y->key.bias_shape[d] = size > 1 || spread ? part[d] : 1;
        y->key.bias_stride[d] = spread ? 0 : y->bias->stride[d];
    }
}

/* The plan of one of both directions; false: cuDNN does not run it. */
static bool plan_of(const work *w, way *y, bool backward) {
    const dl_attention_sizes *a = &w->r.a;
    long version = dl_dnn_version();
    y->key.backward = backward, y->key.deterministic = backward && dl_deterministic();
    /* up to this version the gradient reads beyond the last block of keys */
    if (backward && a->keys % 128 && version <= 91500) y->key.lengths = true;
    if (!cut(a, y)) return false;
    y->key.a = *a, y->key.a.batch = y->batch, y->key.a.kv_heads = y->heads, y->key.a.heads = y->heads * a->group;
    bias_layout(y, a);
    return (y->plan = find(w->g, &y->key)) != NULL;
}

static bool readable(const dl_tensor *t) {
    bool good = (size_t)dl_ptr(t) % 16 == 0 && (t->shape[3] == 1 || t->stride[3] == 1);
    for (int i = 0; i < 3; i++) good = good && (t->shape[i] == 1 || (t->stride[i] > 0 && t->stride[i] % 8 == 0));
    return good;
}

/* An operand as cuDNN can read it: t or a copy. */
static dl_tensor *view(work *w, dl_tensor *t, dl_dtype dtype) {
    if (readable(t) && t->dtype == (int8_t)dtype) return t;
    dl_tensor *own = hold(w, dl_tensor_empty(4, t->shape, dtype, t->st->device));
    return own && dl_cuda_copy(w->g, own, t) == DL_OK ? own : NULL;
}

/* The strides of a tensor; along a single element that of a dense one, since any other is refused. */
static void strides(const dl_tensor *t, long out[4]) {
    out[3] = 1;
    for (int d = 2; d >= 0; d--) out[d] = t->shape[d] == 1 ? out[d + 1] * t->shape[d + 1] : t->stride[d];
}

static dl_status take_views(work *w, way *y, dl_tensor *const *in, dl_tensor *g) {
    dl_tensor *from[DL_DNN_VIEWS] = {in[0], in[1], in[2], g};
    for (int i = 0; i < DL_DNN_VIEWS && from[i]; i++) {
        if (!(y->view[i] = view(w, from[i], y->key.t))) return dl_failed();
        strides(y->view[i], y->key.stride[i]);
    }
    const dl_tensor *mask = in[DL_IN_ATTENTION_ATTN_MASK];
    if (!mask) return DL_OK;
    y->bias = hold(w, dl_tensor_empty(4, mask->shape, y->key.t, mask->st->device));
    if (!y->bias) return dl_failed();
    y->key.bias = true;
    return dl_attention_bias(w->g, mask, y->bias);
}

/* cuDNN multiplies by the scale what it has masked and the largest scores: that needs a scale above 0. */
static bool suits(const dl_attention_sizes *a, dl_dtype t) {
    long version = dl_dnn_version();
    return DL_BIT(t) & DL_HALVES && version >= 90100 && version != 91000 && version != 91001 && a->size % 8 == 0 &&
           a->value_size % 8 == 0 && a->size && a->value_size && a->batch && a->kv_heads && a->rows && a->keys &&
           a->dropout < 1 && a->scale > 0;
}

/* Finds a way through cuDNN; *found false: there is none. With dropout forward and backward go one way, which alone
 * knows what was left out. */
static dl_status choose(work *w, dl_tensor *const *in, dl_tensor *g, bool backward, way *y, bool *found) {
    const dl_attention_sizes *a = &w->r.a;
    memset(y, 0, sizeof *y); /* keys are compared by their bytes */
    y->key.t = in[0]->dtype, y->key.gpu = w->g->index, y->key.lengths = in[DL_IN_ATTENTION_LENGTHS] != NULL;
    *found = suits(a, y->key.t);
    if (!*found) return DL_OK;
    DL_TRY(take_views(w, y, in, g));
    if (a->dropout > 0) { /* the gradient as of a dense result */
        way other = *y;
        const long dense[4] = {a->heads * a->rows * a->value_size, a->rows * a->value_size, a->value_size, 1};
        for (int d = 0; d < 4; d++) other.key.stride[DL_DNN_G][d] = backward ? 0 : dense[d];
        *found = plan_of(w, &other, !backward);
    }
    *found = *found && plan_of(w, y, backward);
    return DL_OK;
}

/* Everything of sequences from n on and heads of keys from h on. */
static dl_status run_part(work *w, const way *y, long n, long h, const dl_dnn_attention_run *whole) {
    const dl_attention_sizes *a = &w->r.a;
    dl_dnn_attention_run r = *whole;
    long es = dl_dtype_size(y->key.t), q = n * a->heads + h * a->group, k = n * a->kv_heads + h;
    for (int i = 0; i < DL_DNN_VIEWS; i++) {
        bool of_keys = i == DL_DNN_K || i == DL_DNN_V;
        if (!y->view[i]) continue;
        r.view[i] = (char *)dl_ptr(y->view[i]) +
                    (n * y->key.stride[i][0] + h * (of_keys ? 1 : a->group) * y->key.stride[i][1]) * es;
    }
    if (y->bias) {
        const long *s = y->bias->shape, *step = y->key.bias_stride;
        r.bias =
            (char *)dl_ptr(y->bias) + ((s[0] > 1 ? n * step[0] : 0) + (s[1] > 1 ? h * a->group * step[1] : 0)) * es;
    }
    r.out = (char *)whole->out + q * a->rows * a->value_size * es;
    r.stats = (float *)whole->stats + q * a->rows;
    if (whole->rows) r.rows = whole->rows + n, r.keys = whole->keys + n;
    if (whole->dq) {
        r.dq = (char *)whole->dq + q * a->rows * a->size * es;
        r.dk = (char *)whole->dk + k * a->keys * a->size * es;
        r.dv = (char *)whole->dv + k * a->keys * a->value_size * es;
    }
    return dl_dnn_attention_execute(w->g, y->plan, &r);
}

static dl_status run_parts(work *w, const way *y, dl_tensor *const *in, dl_dnn_attention_run *r) {
    const dl_attention_sizes *a = &w->r.a;
    int *lengths = NULL;
    dl_status s = DL_OK;
    if (y->key.lengths && !(lengths = dl_gpu_take(w->g, 2 * (size_t)a->batch * sizeof *lengths))) return dl_failed();
    if (lengths) {
        const dl_tensor *own = NULL;
        dl_tensor *given = in[DL_IN_ATTENTION_LENGTHS];
        r->rows = lengths, r->keys = lengths + a->batch;
        if (given && !operand(w, given, given->dtype, &own)) s = dl_failed();
        if (s == DL_OK) s = dl_attention_lengths(w->g, a, own, lengths, lengths + a->batch);
    }
    if (s == DL_OK && !(r->workspace = dl_gpu_take(w->g, dl_dnn_attention_workspace(y->plan) + 1))) s = dl_failed();
    for (long n = 0; n < a->batch && s == DL_OK; n += y->batch)
        for (long h = 0; h < a->kv_heads && s == DL_OK; h += y->heads) s = run_part(w, y, n, h, r);
    if (r->workspace) dl_gpu_drop(w->g, r->workspace);
    if (lengths) dl_gpu_drop(w->g, lengths);
    return s;
}

static dl_status set_seed(work *w, dl_tensor *const *in, dl_dnn_attention_run *r) {
    const dl_tensor *seed = NULL;
    if (!in[DL_IN_ATTENTION_SEED]) return DL_OK;
    if (!operand(w, in[DL_IN_ATTENTION_SEED], DL_I64, &seed)) return dl_failed();
    r->seed = dl_ptr(seed);
    return DL_OK;
}

static dl_status forward_dnn(work *w, const way *y, dl_tensor *const *in, dl_tensor **out) {
    dl_dnn_attention_run r = {.out = dl_ptr(out[0]), .stats = dl_ptr(out[1])};
    DL_TRY(set_seed(w, in, &r));
    DL_TRY(run_parts(w, y, in, &r));
    return y->bias ? dl_attention_blind(w->g, out[0], out[1]) : DL_OK;
}

static dl_status backward_dnn(work *w, const way *y, dl_back *b, dl_tensor *const *in, dl_tensor *const out[2],
                              dl_tensor *given[3]) {
    dl_dnn_attention_run r = {.out = dl_ptr(out[0]), .stats = dl_ptr(out[1])};
    DL_TRY(set_seed(w, in, &r));
    DL_TRY(make_given(b, y->key.t, given, true));
    r.dq = dl_ptr(given[0]), r.dk = dl_ptr(given[1]), r.dv = dl_ptr(given[2]);
    return run_parts(w, y, in, &r);
}

/* ---------------------------------------------------------------- the kernel */

static dl_status attention_run(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *in[6] = {NULL};
    work w = {.g = g};
    way y;
    bool found = false;
    for (int i = 0; i < c->nin; i++) in[i] = c->in[i];
    DL_TRY(dl_attention_of(c, &w.r.a));
    pthread_mutex_lock(&lock);
    dl_status s = choose(&w, in, NULL, false, &y, &found);
    if (s == DL_OK) s = found ? forward_dnn(&w, &y, in, c->out) : forward_blocks(&w, in, c->out);
    pthread_mutex_unlock(&lock);
    drop(&w);
    return s;
}

static dl_status backward(work *w, dl_back *b, dl_tensor *given[3]) {
    dl_tensor *in[6] = {NULL}, *out[2] = {OUT_(ATTENTION_OUT), OUT_(ATTENTION_STATS)};
    way y;
    bool found = false;
    if (!out[0] || !out[1]) return dl_fail_null("the result of attention");
    for (int i = 0; i < b->nin; i++)
        if (dl_in_meta(b, i)->ndim && !(in[i] = dl_saved_in(b, i))) return dl_failed();
    DL_TRY(choose(w, in, b->g[0], true, &y, &found));
    return found ? backward_dnn(w, &y, b, in, out, given) : backward_blocks(w, b, in, out, given);
}

static dl_status attention_back(dl_back *b) {
    dl_tensor *given[3] = {NULL};
    work w = {.g = dl_gpu_use(dl_in_meta(b, 0)->device)};
    if (!w.g) return dl_failed();
    dl_attention_of_node(b, &w.r.a);
    pthread_mutex_lock(&lock);
    dl_status s = backward(&w, b, given);
    pthread_mutex_unlock(&lock);
    drop(&w);
    for (int i = 0; i < 3; i++) {
        if (s == DL_OK && given[i] && DL_NEED(i))
            s = dl_give(b, i, given[i]);
        else
            dl_unref(given[i]);
    }
    return s;
}

const dl_kernel dl_cuda_attention = {.run = attention_run, .fused_grad = attention_back, .dtypes = DL_FLOATS};
