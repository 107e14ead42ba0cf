/* Convolutions by oneDNN: channels-last images, primitives kept by shape, weights reordered only when they changed. */
#include "cpu/conv/conv.h"
#include "cpu/runtime/dnnl.h"
#include "cpu/runtime/half.h"
#include "ops/names/conv.h"
#include "cpu/runtime/iter.h"
#include "cpu/runtime/simd.h"
#include "cpu/runtime/team.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>

/* Primitives that are kept: making one compiles code, which takes some milliseconds. The least recently used one is
 * replaced. DW_LONGER: how much more work a gradient of weights must be to get several threads. Those of bf16 wait for
 * each other longer than they work: for windows of 7x7 on 4 images of 112x112, 3 channels to 64, two threads of a busy
 * machine took 27 ms and one takes 1.2 ms. Two gain where one needs 5 ms (3x3 on 4 images of 56x56, 64 to 64). */
enum { KEPT = 128, DW_LONGER = 8, DW_LONGER_BF16 = 256 };

typedef struct key {
    dl_conv_nd g;
    long kind, bias, threads, dtype;
} key;

typedef struct entry {
    key k;
    dl_dnnl_conv *conv; /* NULL: not offered for this key */
    uint64_t used;
    uint64_t weight; /* what the reordered weights are a copy of: serial of the storage, version, offset */
    uint32_t version;
    int64_t offset;
} entry;

static struct {
    pthread_mutex_t lock;
    entry e[KEPT];
    uint64_t clock;
    int n;
    bool off;
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool dl_conv_dnnl_enable(bool on) {
    bool was = !cache.off;
    cache.off = !on;
    return was;
}

static dl_status find(const key *k, entry **out) {
    entry *oldest = cache.e;
    for (int i = 0; i < cache.n; i++) {
        if (!memcmp(&cache.e[i].k, k, sizeof *k)) return *out = &cache.e[i], DL_OK;
        if (cache.e[i].used < oldest->used) oldest = &cache.e[i];
    }
    dl_dnnl_conv *conv;
    DL_TRY(dl_dnnl_conv_new((dl_dnnl_kind)k->kind, &k->g, (dl_dtype)k->dtype, k->bias, &conv));
    if (cache.n < KEPT) oldest = &cache.e[cache.n++];
    dl_dnnl_conv_free(oldest->conv);
    *oldest = (entry){.k = *k, .conv = conv};
    return *out = oldest, DL_OK;
}

/* The strides of dense memory with the channels innermost. */
static void channels_last_strides(int ndim, const long *shape, long *stride) {
    long next = shape[1];
    stride[1] = 1;
    for (int i = ndim - 1; i > 1; i--) stride[i] = next, next *= shape[i];
    stride[0] = next;
}

static bool channels_last(const dl_tensor *t) {
    long want[DL_MAX_DIM];
    channels_last_strides(t->ndim, t->shape, want);
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] > 1 && t->stride[i] != want[i]) return false;
    return true;
}

static dl_tensor *fresh_channels_last(int ndim, const long *shape, int dtype) {
    dl_tensor *c = dl_tensor_empty(ndim, shape, dtype, 0);
    if (c) channels_last_strides(ndim, shape, c->stride);
    return c;
}

/* t itself or a channels-last tensor like it, with the same values when `copy` is set. */
static dl_tensor *as_channels_last(dl_tensor *t, bool copy) {
    if (channels_last(t)) return dl_ref(t);
    dl_tensor *c = fresh_channels_last(t->ndim, t->shape, t->dtype);
    if (c && copy) dl_cpu_copy(c, t);
    return c;
}

/* Are these weights others than those that the reordered copy of the entry was made of? Remembers them. */
static bool changed(entry *e, const dl_tensor *w) {
    if (e->weight == w->st->serial && e->version == w->st->version && e->offset == w->offset) return false;
    e->weight = w->st->serial, e->version = w->st->version, e->offset = w->offset;
    return true;
}

static dl_status run(const key *k, dl_tensor *image, dl_tensor *w, dl_tensor *bias, dl_tensor *result, bool *done) {
    entry *e;
    DL_TRY(find(k, &e));
    e->used = ++cache.clock;
    if (!e->conv) return DL_OK;
    bool fresh = k->kind != DL_DNNL_DW && changed(e, w);
    dl_status s = dl_dnnl_conv_run(e->conv, image, w, bias, result, fresh);
    *done = s == DL_OK;
    if (s != DL_OK) e->weight = 0;
    return s;
}

/* Operands by role; `own` are the same in the memory order that oneDNN is given. */
enum { IMAGE, WEIGHT, RESULT, BIAS, NROLE };

static dl_status to_own_order(dl_dnnl_kind kind, dl_tensor *const given[NROLE], dl_tensor *own[NROLE]) {
    own[IMAGE] = as_channels_last(given[IMAGE], kind != DL_DNNL_DX);
    own[RESULT] = own[IMAGE] ? as_channels_last(given[RESULT], kind != DL_DNNL_FORWARD) : NULL;
    own[WEIGHT] = own[RESULT] ? dl_cpu_contiguous(given[WEIGHT]) : NULL;
    own[BIAS] = own[WEIGHT] && given[BIAS] ? dl_cpu_contiguous(given[BIAS]) : NULL;
    return own[WEIGHT] && (own[BIAS] || !given[BIAS]) ? DL_OK : dl_failed();
}

static double product(const dl_conv_nd *g, const long *sizes) {
    double n = 1;
    for (long i = 0; i < g->dims; i++) n *= (double)sizes[i];
    return n;
}

/* Multiplications for one example of the batch. */
static double macs_of(const dl_conv_nd *g) {
    return (double)(g->O * (g->C / g->groups)) * product(g, g->out) * product(g, g->k);
}

/* A primitive is made for a number of threads. In a gradient of weights they spin until all have their sums, which
 * takes milliseconds when another program has a processor: only calls that take much longer get several. */
static int threads_of(const dl_conv_nd *g, dl_dnnl_kind kind, int dtype) {
    double moved = (double)g->C * product(g, g->in) + (double)g->O * product(g, g->out);
    double work = (double)g->N * (macs_of(g) + moved * DL_ITER_MACS);
    const double longer = kind != DL_DNNL_DW ? 1 : dtype == DL_BF16 ? DW_LONGER_BF16 : DW_LONGER;
    return dl_cpu_threads_product(work / longer);
}

static dl_status convolve(dl_dnnl_kind kind, const dl_conv_nd *g, dl_tensor *const given[NROLE], bool *done) {
    static const int written[] = {RESULT, IMAGE, WEIGHT};
    key k = {.g = *g, .kind = kind, .bias = given[BIAS] != NULL, .dtype = given[IMAGE]->dtype};
    k.threads = threads_of(g, kind, given[IMAGE]->dtype);
    dl_tensor *own[NROLE] = {0};
    dl_status s = to_own_order(kind, given, own);
    if (s == DL_OK) {
        int had = dl_cpu_team_limit((int)k.threads);
        pthread_mutex_lock(&cache.lock);
        s = run(&k, own[IMAGE], own[WEIGHT], own[BIAS], own[RESULT], done);
        pthread_mutex_unlock(&cache.lock);
        dl_cpu_team_limit(had);
    }
    int out = written[kind];
    if (*done && own[out] != given[out]) dl_cpu_copy(given[out], own[out]);
    for (int i = 0; i < NROLE; i++) dl_unref(own[i]);
    return s;
}

/* A strided 1x1 convolution: one of stride 1 over the pixels that its windows read. */
static dl_status convolve_strided(dl_dnnl_kind kind, const dl_conv *g, dl_tensor *const given[NROLE], bool *done) {
    dl_conv dense = dl_conv_unstrided(g);
    dl_conv_nd unstrided = dl_conv_of_images(&dense);
    dl_tensor *operand[NROLE];
    memcpy(operand, given, sizeof operand);
    operand[IMAGE] = fresh_channels_last(4, (long[]){g->N, g->C, dense.in[0], dense.in[1]}, given[IMAGE]->dtype);
    if (!operand[IMAGE]) return dl_failed();
    if (kind != DL_DNNL_DX) dl_conv_gather_pixels(g, operand[IMAGE], given[IMAGE]);
    dl_status s = convolve(kind, &unstrided, operand, done);
    if (*done && kind == DL_DNNL_DX) dl_conv_scatter_pixels(g, given[IMAGE], operand[IMAGE]);
    dl_unref(operand[IMAGE]);
    return s;
}

static dl_dnnl_kind kind_of(const dl_call *c) {
    int id = c->op->id;
    if (id == dl_id_conv2d || id == dl_id_conv_volume) return DL_DNNL_FORWARD;
    return id == dl_id_conv2d_dx || id == dl_id_conv_volume_dx ? DL_DNNL_DX : DL_DNNL_DW;
}

static dl_conv images_of(const dl_conv_nd *g) {
    dl_conv r = {.N = g->N, .C = g->C, .O = g->O, .groups = g->groups};
    for (int i = 0; i < 2; i++) {
        r.in[i] = g->in[i], r.out[i] = g->out[i], r.k[i] = g->k[i];
        r.stride[i] = g->stride[i], r.pad[i] = g->pad[i], r.dil[i] = g->dil[i];
    }
    return r;
}

/* Strides over windows of one pixel, whose scratch memory oneDNN gets wrong (stride.c). */
static bool skips_pixels(const dl_conv_nd *g) {
    bool single = true, skips = false;
    for (long i = 0; i < g->dims; i++) single = single && g->k[i] == 1 && !g->pad[i], skips = skips || g->stride[i] > 1;
    return single && skips;
}

/* Gradients of bf16 that oneDNN 2.6 gets wrong: of images by windows of one pixel, where pairs of results are
 * multiplied and one is left over; of weights whose stride is longer than the rows of the image. */
static bool wrong_in_bf16(const dl_conv_nd *g, dl_dnnl_kind kind) {
    const long last = g->dims - 1;
    bool single = true;
    for (long i = 0; i < g->dims; i++) single = single && g->k[i] == 1;
    return kind == DL_DNNL_DX ? single && g->O / g->groups % 2 : kind == DL_DNNL_DW && g->in[last] < g->stride[last];
}

static dl_status by_dnnl(const dl_call *c, const dl_conv_nd *g, bool *done) {
    const dl_dnnl_kind kind = kind_of(c);
    *done = false;
    if (cache.off || !g->N || !g->C || !g->O || omp_in_parallel()) return DL_OK;
    dl_tensor *bias = kind == DL_DNNL_FORWARD ? INPUT(c, CONV2D_BIAS) : NULL;
    dl_tensor *const given[3][NROLE] = {{c->in[0], c->in[1], c->out[0], bias},
                                        {c->out[0], c->in[1], c->in[0], NULL},
                                        {c->in[1], c->out[0], c->in[0], NULL}};
    if (!skips_pixels(g)) return convolve(kind, g, given[kind], done);
    const dl_conv images = images_of(g);
    return g->dims == 2 ? convolve_strided(kind, &images, given[kind], done) : DL_OK;
}

/* ---- some examples a call */

/* Examples of a call that takes some 0.1 s. */
static long examples_of_call(const dl_conv_nd *g) {
    const double most = (dl_simd_level() >= 3 ? 3e9 : 5e8) * dl_cpu_team(), one = macs_of(g);
    return one * (double)g->N <= most ? g->N : one >= most ? 1 : (long)(most / one);
}

static dl_tensor *some_examples(dl_tensor *t, long first, long n) {
    long shape[DL_MAX_DIM];
    memcpy(shape, t->shape, sizeof shape);
    shape[0] = n;
    return dl_view_new(t->st, t->dtype, t->ndim, shape, t->stride, t->offset + first * t->stride[0]);
}

/* One call for examples first .. first + g->N - 1. The gradient of weights, a sum over examples, goes to `sum` and is
 * added to the call's output, except for the first ones. */
static dl_status one_part(const dl_call *call, const dl_conv_nd *g, long first, dl_tensor *sum, bool *done) {
    dl_call c = *call;
    bool dw = kind_of(call) == DL_DNNL_DW;
    dl_tensor *in[3] = {call->in[0], call->in[1], INPUT(call, CONV2D_BIAS)}, *out = call->out[0];
    dl_tensor *view[2] = {some_examples(in[0], first, g->N), some_examples(dw ? in[1] : out, first, g->N)};
    in[0] = view[0];
    *(dw ? &in[1] : &out) = view[1];
    if (dw && first) out = sum;
    c.in = in, c.out = &out;
    dl_status s = view[0] && view[1] ? by_dnnl(&c, g, done) : dl_failed();
    float *to = dl_ptr(call->out[0]), *from = sum ? dl_ptr(sum) : NULL;
    for (long i = 0; *done && dw && first && i < sum->numel; i++) to[i] += from[i];
    dl_unref(view[0]);
    dl_unref(view[1]);
    return s;
}

static dl_status by_parts(const dl_call *c, const dl_conv_nd *g, bool *done) {
    long each = examples_of_call(g), N = g->N;
    if (each == N || omp_in_parallel()) return by_dnnl(c, g, done);
    bool dw = kind_of(c) == DL_DNNL_DW;
    const dl_tensor *o = c->out[0];
    if (dw && !dl_is_contiguous(o)) return DL_OK;
    dl_tensor *sum = dw ? dl_tensor_empty(o->ndim, o->shape, DL_F32, 0) : NULL;
    if (dw && !sum) return dl_failed();
    dl_status s = DL_OK;
    dl_stop stop = dl_stop_begin();
    *done = true;
    for (long first = 0; s == DL_OK && *done && first < N && !dl_stop_asked(&stop); first += each) {
        dl_conv_nd part = *g;
        part.N = N - first < each ? N - first : each;
        s = one_part(c, &part, first, sum, done);
    }
    dl_unref(sum);
    if (dl_stop_end(&stop)) *done = true;
    return s;
}

dl_status dl_conv_dnnl(const dl_call *c, const dl_conv_nd *g, bool *done) {
    dl_tensor *o = c->out[0], *sum = NULL;
    *done = false;
    if (c->dtype == DL_F32) return by_parts(c, g, done);
    if (c->dtype != DL_BF16 || dl_simd_level() < 4 || wrong_in_bf16(g, kind_of(c))) return DL_OK;
    dl_call wide = *c;
    if (kind_of(c) == DL_DNNL_DW) {
        if (!(sum = dl_tensor_empty(o->ndim, o->shape, DL_F32, 0))) return dl_failed();
        wide.out = &sum;
    }
    dl_status s = by_parts(&wide, g, done);
    if (*done && sum) dl_cpu_copy(o, sum);
    if (*done) dl_cpu_look_bf16(dl_ptr(o), o->numel);
    dl_unref(sum);
    return s;
}
