/* Convolutions by oneDNN: channels-last images, primitives kept by shape, weights reordered only when they changed. */
#include "cpu/conv.h"
#include "cpu/dnnl.h"
#include "cpu/iter.h"
#include "cpu/team.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>

/* Making a primitive compiles code: some milliseconds. The least recently used one gives way. */
enum { KEPT = 128 };

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

static entry *find(const key *k) {
    entry *oldest = cache.e;
    for (int i = 0; i < cache.n; i++) {
        if (!memcmp(&cache.e[i].k, k, sizeof *k)) return &cache.e[i];
        if (cache.e[i].used < oldest->used) oldest = &cache.e[i];
    }
    if (cache.n < KEPT) oldest = &cache.e[cache.n++];
    dl_dnnl_conv_free(oldest->conv);
    *oldest = (entry){.k = *k, .conv = dl_dnnl_conv_new((dl_dnnl_kind)k->kind, &k->g, k->bias)};
    return oldest;
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

/* t itself or a channels-last tensor like it, with the same values when `copy` is set. */
static dl_tensor *as_channels_last(dl_tensor *t, bool copy) {
    if (channels_last(t)) return dl_ref(t);
    dl_tensor *c = dl_tensor_empty(4, t->shape, DL_F32, 0);
    if (!c) return NULL;
    long C = t->shape[1], W = t->shape[3], H = t->shape[2];
    memcpy(c->stride, (long[]){H * W * C, 1, W * C, C}, 4 * sizeof(long));
    if (copy) dl_cpu_copy(c, t);
    return c;
}

static dl_tensor *as_contiguous(dl_tensor *t) {
    if (dl_is_contiguous(t)) return dl_ref(t);
    dl_tensor *c = dl_tensor_empty(t->ndim, t->shape, DL_F32, 0);
    if (c) dl_cpu_copy(c, t);
    return c;
}

/* Are the weights other ones than the entry's reordered copy was made of? Notes these as the new ones. */
static bool changed(entry *e, const dl_tensor *w) {
    if (e->weight == w->st->serial && e->version == w->st->version && e->offset == w->offset) return false;
    e->weight = w->st->serial, e->version = w->st->version, e->offset = w->offset;
    return true;
}

static bool run_locked(const key *k, dl_tensor *image, dl_tensor *w, dl_tensor *bias, dl_tensor *result) {
    pthread_mutex_lock(&cache.lock);
    entry *e = find(k);
    e->used = ++cache.clock;
    bool fresh = e->conv && k->kind != DL_DNNL_DW && changed(e, w);
    bool good = e->conv &&
                dl_dnnl_conv_run(e->conv, dl_ptr(image), dl_ptr(w), bias ? dl_ptr(bias) : NULL, dl_ptr(result), fresh);
    if (!good) e->weight = 0;
    pthread_mutex_unlock(&cache.lock);
    return good;
}

bool dl_conv_dnnl(const dl_call *c, const dl_conv *g) {
    int id = c->op->id;
    dl_dnnl_kind kind = id == DL_OP_conv2d ? DL_DNNL_FORWARD : id == DL_OP_conv2d_dx ? DL_DNNL_DX : DL_DNNL_DW;
    if (cache.off || !g->N || !g->C || !g->O || omp_in_parallel()) return false;
    /* operands by role, and which of them is written */
    dl_tensor *roles[3][3] = {
        {c->in[0], c->in[1], c->out[0]}, {c->out[0], c->in[1], c->in[0]}, {c->in[1], c->out[0], c->in[0]}};
    dl_tensor **r = roles[kind], *given = c->nin > 2 && kind == DL_DNNL_FORWARD ? c->in[2] : NULL;
    key k = {.g = *g, .kind = kind, .bias = given != NULL, .threads = dl_cpu_team()};
    dl_tensor *image = as_channels_last(r[0], kind != DL_DNNL_DX);
    dl_tensor *result = as_channels_last(r[2], kind != DL_DNNL_FORWARD);
    dl_tensor *w = as_contiguous(r[1]), *bias = given ? as_contiguous(given) : NULL;
    bool good = image && result && w && (bias || !given) && run_locked(&k, image, w, bias, result);
    if (good && kind == DL_DNNL_FORWARD && result != c->out[0]) dl_cpu_copy(c->out[0], result);
    if (good && kind == DL_DNNL_DX && image != c->out[0]) dl_cpu_copy(c->out[0], image);
    dl_unref(image);
    dl_unref(result);
    dl_unref(w);
    dl_unref(bias);
    return good;
}
