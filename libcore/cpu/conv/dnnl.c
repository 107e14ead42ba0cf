/* Convolutions by oneDNN: channels-last images, primitives kept by shape, weights reordered only when they changed. */
#include "cpu/conv/conv.h"
#include "cpu/runtime/dnnl.h"
#include "ops/names/conv.h"
#include "cpu/runtime/iter.h"
#include "cpu/runtime/team.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>

/* Primitives that are kept: making one compiles code, which takes some milliseconds. The least recently used one is
 * replaced. DW_LONGER: how much more work a gradient of weights must be to get several threads. */
enum { KEPT = 128, DW_LONGER = 8 };

typedef struct key {
    dl_conv g;
    long kind, bias, threads;
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
    DL_TRY(dl_dnnl_conv_new((dl_dnnl_kind)k->kind, &k->g, k->bias, &conv));
    if (cache.n < KEPT) oldest = &cache.e[cache.n++];
    dl_dnnl_conv_free(oldest->conv);
    *oldest = (entry){.k = *k, .conv = conv};
    return *out = oldest, DL_OK;
}

static bool channels_last(const dl_tensor *t) {
    long want = 1;
    static const int order[] = {1, 3, 2, 0};
    for (int i = 0; i < 4; i++) {
        if (t->shape[order[i]] > 1 && t->stride[order[i]] != want) return false;
        want *= t->shape[order[i]];
    }
    return true;
}

static dl_tensor *fresh_channels_last(const long *shape) {
    dl_tensor *c = dl_tensor_empty(4, shape, DL_F32, 0);
    long C = shape[1], W = shape[3], H = shape[2];
    if (c) memcpy(c->stride, (long[]){H * W * C, 1, W * C, C}, 4 * sizeof(long));
    return c;
}

/* t itself or a channels-last tensor like it, with the same values when `copy` is set. */
static dl_tensor *as_channels_last(dl_tensor *t, bool copy) {
    if (channels_last(t)) return dl_ref(t);
    dl_tensor *c = fresh_channels_last(t->shape);
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

/* Operands by role, of f32; `own` are the same in the memory order that oneDNN is given. */
enum { IMAGE, WEIGHT, RESULT, BIAS, NROLE };

static dl_status to_own_order(dl_dnnl_kind kind, dl_tensor *const given[NROLE], dl_tensor *own[NROLE]) {
    own[IMAGE] = as_channels_last(given[IMAGE], kind != DL_DNNL_DX);
    own[RESULT] = own[IMAGE] ? as_channels_last(given[RESULT], kind != DL_DNNL_FORWARD) : NULL;
    own[WEIGHT] = own[RESULT] ? dl_cpu_contiguous(given[WEIGHT]) : NULL;
    own[BIAS] = own[WEIGHT] && given[BIAS] ? dl_cpu_contiguous(given[BIAS]) : NULL;
    return own[WEIGHT] && (own[BIAS] || !given[BIAS]) ? DL_OK : dl_failed();
}

/* A primitive is made for a number of threads. In a gradient of weights they spin until all have their sums, which
 * takes milliseconds when another program has a processor: only calls that take much longer get several. */
static int threads_of(const dl_conv *g, dl_dnnl_kind kind) {
    double pixels = (double)g->N * (double)(g->out[0] * g->out[1]);
    double macs = pixels * (double)(g->O * (g->C / g->groups)) * (double)(g->k[0] * g->k[1]);
    double moved = (double)g->N * (double)(g->C * g->in[0] * g->in[1]) + pixels * (double)g->O;
    double work = macs + moved * DL_ITER_MACS;
    return dl_cpu_threads_product(kind == DL_DNNL_DW ? work / DW_LONGER : work);
}

static dl_status convolve(dl_dnnl_kind kind, const dl_conv *g, dl_tensor *const given[NROLE], bool *done) {
    static const int written[] = {RESULT, IMAGE, WEIGHT};
    key k = {.g = *g, .kind = kind, .bias = given[BIAS] != NULL, .threads = threads_of(g, kind)};
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
    dl_conv unstrided = dl_conv_unstrided(g);
    dl_tensor *operand[NROLE];
    memcpy(operand, given, sizeof operand);
    operand[IMAGE] = fresh_channels_last((long[]){g->N, g->C, unstrided.in[0], unstrided.in[1]});
    if (!operand[IMAGE]) return dl_failed();
    if (kind != DL_DNNL_DX) dl_conv_gather_pixels(g, operand[IMAGE], given[IMAGE]);
    dl_status s = convolve(kind, &unstrided, operand, done);
    if (*done && kind == DL_DNNL_DX) dl_conv_scatter_pixels(g, given[IMAGE], operand[IMAGE]);
    dl_unref(operand[IMAGE]);
    return s;
}

dl_status dl_conv_dnnl(const dl_call *c, const dl_conv *g, bool *done) {
    int id = c->op->id;
    dl_dnnl_kind kind = id == dl_id_conv2d ? DL_DNNL_FORWARD : id == dl_id_conv2d_dx ? DL_DNNL_DX : DL_DNNL_DW;
    *done = false;
    if (cache.off || !g->N || !g->C || !g->O || omp_in_parallel()) return DL_OK;
    dl_tensor *bias = kind == DL_DNNL_FORWARD ? INPUT(c, CONV2D_BIAS) : NULL;
    dl_tensor *const given[3][NROLE] = {{c->in[0], c->in[1], c->out[0], bias},
                                        {c->out[0], c->in[1], c->in[0], NULL},
                                        {c->in[1], c->out[0], c->in[0], NULL}};
    return (dl_conv_is_strided_1x1(g) ? convolve_strided : convolve)(kind, g, given[kind], done);
}
