/* Kernels of max_pool2d and of the two rows that carry its gradients. Any strides; one image plane is a unit of work,
 * or with channels innermost one image, channel by channel. */
#include "cpu/iter.h"
#include "ops/conv.h"
#include "ops/rules.h"

#include <math.h>
#include <string.h>

/* Strides of a 4-d tensor and its first element. */
typedef struct image {
    char *p;
    long sn, sc, sh, sw;
} image;

static image image_of(const dl_tensor *t) {
    return (image){dl_ptr(t), t->stride[0], t->stride[1], t->stride[2], t->stride[3]};
}

/* Taps of a window along one direction that lie inside: [*first, *last) by step dil. */
static void window(const dl_conv *g, int d, long pos, long *first, long *last) {
    long lo = pos * g->stride[d] - g->pad[d], hi = lo + (g->k[d] - 1) * g->dil[d] + 1;
    if (lo < 0) lo += (-lo + g->dil[d] - 1) / g->dil[d] * g->dil[d];
    *first = lo;
    *last = hi < g->in[d] ? hi : g->in[d];
}

/* A block of up to CHANNELS channels shares the walk over its window, so that channels-last images are read in order;
 * planes come one channel at a time. A NaN wins, the last one if there are several; among equals the first. */
enum { CHANNELS = 64 };

#define MAX_POOL(T, S)                                                                                                 \
    static void window_##S(const dl_conv *g, const image *x, const char *base, long y, long xo, long nc, T *best,      \
                           int *place) {                                                                               \
        long y0, y1, x0, x1;                                                                                           \
        window(g, 0, y, &y0, &y1);                                                                                     \
        window(g, 1, xo, &x0, &x1);                                                                                    \
        for (long c = 0; c < nc; c++) best[c] = (T)-INFINITY, place[c] = (int)(y0 * g->in[1] + x0);                    \
        for (long i = y0; i < y1; i += g->dil[0])                                                                      \
            for (long j = x0; j < x1; j += g->dil[1]) {                                                                \
                const T *v = (const T *)base + i * x->sh + j * x->sw;                                                  \
                int here = (int)(i * g->in[1] + j);                                                                    \
                if (x->sc == 1 || nc == 1) {                                                                           \
                    for (long c = 0; c < nc; c++) {                                                                    \
                        bool wins = !(v[c] <= best[c]);                                                                \
                        wins = wins && (v[c] != v[c] || best[c] == best[c]);                                           \
                        best[c] = wins ? v[c] : best[c];                                                               \
                        place[c] = wins ? here : place[c];                                                             \
                    }                                                                                                  \
                    continue;                                                                                          \
                }                                                                                                      \
                for (long c = 0; c < nc; c++)                                                                          \
                    if (v[c * x->sc] > best[c] || v[c * x->sc] != v[c * x->sc])                                        \
                        best[c] = v[c * x->sc], place[c] = here;                                                       \
            }                                                                                                          \
    }                                                                                                                  \
    static void max_pool_##S(const dl_conv *g, image x, image o, image index, long n, long c0, long nc) {              \
        T best[CHANNELS];                                                                                              \
        int place[CHANNELS];                                                                                           \
        const char *base = x.p + (n * x.sn + c0 * x.sc) * (long)sizeof(T);                                             \
        for (long y = 0; y < g->out[0]; y++)                                                                           \
            for (long xo = 0; xo < g->out[1]; xo++) {                                                                  \
                window_##S(g, &x, base, y, xo, nc, best, place);                                                       \
                T *op = (T *)o.p + n * o.sn + c0 * o.sc + y * o.sh + xo * o.sw;                                        \
                long *ip = (long *)index.p + n * index.sn + c0 * index.sc + y * index.sh + xo * index.sw;              \
                for (long c = 0; c < nc; c++) op[c * o.sc] = best[c], ip[c * index.sc] = place[c];                     \
            }                                                                                                          \
    }
MAX_POOL(float, f32)
MAX_POOL(double, f64)

static dl_status max_pool_float(dl_call *c) {
    dl_conv g;
    DL_TRY(dl_pool_of(c, &g));
    if (g.in[0] * g.in[1] > 0x7fffffff) return dl_fail(DL_ERR_SHAPE, "image planes must have fewer than 2^31 pixels");
    image x = image_of(c->in[0]), o = image_of(c->out[0]), index = image_of(c->out[1]);
    long block = x.sc == 1 ? CHANNELS : 1, blocks = (g.C + block - 1) / block;
    bool f32 = c->in[0]->dtype == DL_F32;
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(c->in[0]->numel))
    for (long i = 0; i < g.N * blocks; i++) {
        long n = i / blocks, c0 = i % blocks * block, nc = g.C - c0 < block ? g.C - c0 : block;
        (f32 ? max_pool_f32 : max_pool_f64)(&g, x, o, index, n, c0, nc);
    }
    return DL_OK;
}

static dl_status max_pool_run(dl_call *c) {
    return DL_BIT(c->dtype) & DL_HALVES ? dl_cpu_via_f32(c, max_pool_float, false) : max_pool_float(c);
}

const dl_kernel dl_cpu_max_pool2d = {.run = max_pool_run, .dtypes = DL_FLOATS};

/* ---- scatter and gather through the indices */

/* Offset of a pixel from its index in the plane; without the divisions where rows follow each other. */
static inline long pixel(long at, long width, const image *m) {
    return m->sh == width * m->sw ? at * m->sw : at / width * m->sh + at % width * m->sw;
}

/* Walks image n's values and indices in memory order of channels, for `block` channels from c0. */
#define THROUGH_INDICES(T, S)                                                                                          \
    static bool scatter_##S(const dl_tensor *x, image xi, image index, image o, long plane, long width, long n,        \
                            long c0, long nc) {                                                                        \
        for (long y = 0; y < x->shape[2]; y++)                                                                         \
            for (long xo = 0; xo < x->shape[3]; xo++)                                                                  \
                for (long c = c0; c < c0 + nc; c++) {                                                                  \
                    long at = ((long *)index.p)[n * index.sn + c * index.sc + y * index.sh + xo * index.sw];           \
                    if (at < 0 || at >= plane) return false;                                                           \
                    ((T *)o.p)[n * o.sn + c * o.sc + pixel(at, width, &o)] +=                                          \
                        ((T *)xi.p)[n * xi.sn + c * xi.sc + y * xi.sh + xo * xi.sw];                                   \
                }                                                                                                      \
        return true;                                                                                                   \
    }                                                                                                                  \
    static bool gather_##S(const dl_tensor *at_, image xi, image index, image o, long plane, long width, long n,       \
                           long c0, long nc) {                                                                         \
        for (long y = 0; y < at_->shape[2]; y++)                                                                       \
            for (long xo = 0; xo < at_->shape[3]; xo++)                                                                \
                for (long c = c0; c < c0 + nc; c++) {                                                                  \
                    long at = ((long *)index.p)[n * index.sn + c * index.sc + y * index.sh + xo * index.sw];           \
                    if (at < 0 || at >= plane) return false;                                                           \
                    ((T *)o.p)[n * o.sn + c * o.sc + y * o.sh + xo * o.sw] =                                           \
                        ((T *)xi.p)[n * xi.sn + c * xi.sc + pixel(at, width, &xi)];                                    \
                }                                                                                                      \
        return true;                                                                                                   \
    }
THROUGH_INDICES(float, f32)
THROUGH_INDICES(double, f64)

typedef bool (*walk)(const dl_tensor *shape, image x, image index, image o, long plane, long width, long n, long c0,
                     long nc);

/* `full` is the tensor of whole images, which the indices point into. */
static dl_status through_indices(dl_call *c, const dl_tensor *full, walk f) {
    const dl_tensor *at = c->in[1];
    image x = image_of(c->in[0]), index = image_of(at), o = image_of(c->out[0]);
    long plane = full->shape[2] * full->shape[3], width = full->shape[3];
    long block = index.sc == 1 ? CHANNELS : 1, blocks = (at->shape[1] + block - 1) / block;
    bool good = true;
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(at->numel))
    for (long i = 0; i < at->shape[0] * blocks; i++) {
        long c0 = i % blocks * block, nc = at->shape[1] - c0 < block ? at->shape[1] - c0 : block;
        if (!f(at, x, index, o, plane, width, i / blocks, c0, nc)) {
#pragma omp atomic write
            good = false;
        }
    }
    return good ? DL_OK : dl_fail(DL_ERR_INDEX, "an index lies outside the %ld pixels of the image", plane);
}

static dl_status scatter_float(dl_call *c) {
    dl_tensor *o = c->out[0];
    memset(dl_ptr(o), 0, (size_t)o->numel * dl_esize(o));
    return through_indices(c, o, o->dtype == DL_F32 ? scatter_f32 : scatter_f64);
}

static dl_status gather_float(dl_call *c) {
    return through_indices(c, c->in[0], c->in[0]->dtype == DL_F32 ? gather_f32 : gather_f64);
}

static dl_status scatter_run(dl_call *c) {
    return DL_BIT(c->dtype) & DL_HALVES ? dl_cpu_via_f32(c, scatter_float, false) : scatter_float(c);
}

static dl_status gather_run(dl_call *c) {
    return DL_BIT(c->dtype) & DL_HALVES ? dl_cpu_via_f32(c, gather_float, false) : gather_float(c);
}

const dl_kernel dl_cpu_pool_scatter = {.run = scatter_run, .dtypes = DL_FLOATS};
const dl_kernel dl_cpu_pool_gather = {.run = gather_run, .dtypes = DL_FLOATS};
