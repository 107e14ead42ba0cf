/* Kernels of max_pool2d, with places and without, and of the two ops that its gradients are made of. Any strides; a
 * task is one image plane, or with channels innermost a vector of channels of one image. */
#include "cpu/runtime/iter.h"
#include "ops/compose/compose.h"
#include "cpu/kernels/pool/pool.h"
#include "ops/rules/conv.h"

#include <string.h>

static dl_status max_pool_float(dl_call *c) {
    dl_conv g;
    DL_TRY(dl_pool_of(c, &g));
    if (g.in[0] * g.in[1] > 0x7fffffff) return dl_fail(DL_ERR_SHAPE, "image planes must have fewer than 2^31 pixels");
    const bool placed = c->op->out > 1;
    dl_image x = dl_image_of(c->in[0]), o = dl_image_of(c->out[0]), index = {0};
    if (placed) index = dl_image_of(c->out[1]);
    bool f64 = c->in[0]->dtype == DL_F64;
    long lanes = f64 ? 8 : 16;
    /* whole vectors of channels where these lie side by side, then single channels */
    long vectors = x.sc == 1 && o.sc == 1 && (!placed || index.sc == 1) ? g.C / lanes : 0,
         units = vectors + g.C - vectors * lanes;
    dl_pool_loop plane = DL_SIMD_PICK(dl_pool_plane)[placed][f64],
                 channels = DL_SIMD_PICK(dl_pool_channels)[placed][f64];
    dl_stop stop = dl_stop_begin();
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(c->in[0]->numel))
    for (long i = 0; i < g.N * units; i++) {
        if (dl_stop_asked(&stop)) continue;
        long n = i / units, u = i % units;
        if (u < vectors)
            channels(&g, &x, &o, &index, n, u * lanes);
        else
            plane(&g, &x, &o, &index, n, vectors * lanes + u - vectors);
    }
    dl_stop_end(&stop);
    return DL_OK;
}

DL_CPU_KERNEL(max_pool2d, max_pool_float, false, DL_FLOATS)
DL_CPU_KERNEL(max_pool_values, max_pool_float, false, DL_FLOATS)

static dl_status adaptive_float(dl_call *c) {
    const dl_tensor *x = c->in[0], *o = c->out[0];
    dl_conv g = {.N = x->shape[0], .C = x->shape[1]};
    for (int i = 0; i < 2; i++) g.in[i] = x->shape[2 + i], g.out[i] = o->shape[2 + i];
    if (g.in[0] * g.in[1] > 0x7fffffff) return dl_fail(DL_ERR_SHAPE, "image planes must have fewer than 2^31 pixels");
    dl_image xi = dl_image_of(x), oi = dl_image_of(o), index = dl_image_of(c->out[1]);
    dl_pool_loop parts = DL_SIMD_PICK(dl_pool_parts)[x->dtype == DL_F64];
    dl_stop stop = dl_stop_begin();
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(x->numel))
    for (long i = 0; i < g.N * g.C; i++)
        if (!dl_stop_asked(&stop)) parts(&g, &xi, &oi, &index, i / g.C, i % g.C);
    dl_stop_end(&stop);
    return DL_OK;
}

DL_CPU_KERNEL(adaptive_largest, adaptive_float, false, DL_FLOATS)

/* ---- scatter and gather by the indices: a task is a plane, or some channels that lie side by side */

enum { CHANNELS = 64 };

/* Offset of a pixel from its index in the plane; without divisions where the rows of the plane follow each other. */
static inline long pixel(long at, long width, const dl_image *m) {
    return m->sh == width * m->sw ? at * m->sw : at / width * m->sh + at % width * m->sw;
}

/* Walks image n's values and indices in memory order of channels, for `block` channels from c0. */
#define THROUGH_INDICES(T, S)                                                                                          \
    static bool scatter_##S(const dl_tensor *x, dl_image xi, dl_image index, dl_image o, long plane, long width,       \
                            long n, long c0, long nc) {                                                                \
        for (long y = 0; y < x->shape[2]; y++)                                                                         \
            for (long xo = 0; xo < x->shape[3]; xo++)                                                                  \
                for (long c = c0; c < c0 + nc; c++) {                                                                  \
                    long at = ((long *)index.p)[n * index.sn + c * index.sc + y * index.sh + xo * index.sw];           \
                    if (at == DL_NO_PIXEL) continue;                                                                   \
                    if (at < 0 || at >= plane) return false;                                                           \
                    ((T *)o.p)[n * o.sn + c * o.sc + pixel(at, width, &o)] +=                                          \
                        ((T *)xi.p)[n * xi.sn + c * xi.sc + y * xi.sh + xo * xi.sw];                                   \
                }                                                                                                      \
        return true;                                                                                                   \
    }                                                                                                                  \
    static bool gather_##S(const dl_tensor *at_, dl_image xi, dl_image index, dl_image o, long plane, long width,      \
                           long n, long c0, long nc) {                                                                 \
        for (long y = 0; y < at_->shape[2]; y++)                                                                       \
            for (long xo = 0; xo < at_->shape[3]; xo++)                                                                \
                for (long c = c0; c < c0 + nc; c++) {                                                                  \
                    long at = ((long *)index.p)[n * index.sn + c * index.sc + y * index.sh + xo * index.sw];           \
                    if (at < DL_NO_PIXEL || at >= plane) return false;                                                 \
                    ((T *)o.p)[n * o.sn + c * o.sc + y * o.sh + xo * o.sw] =                                           \
                        at < 0 ? 0 : ((T *)xi.p)[n * xi.sn + c * xi.sc + pixel(at, width, &xi)];                       \
                }                                                                                                      \
        return true;                                                                                                   \
    }
THROUGH_INDICES(float, f32)
THROUGH_INDICES(double, f64)

typedef bool (*walk)(const dl_tensor *shape, dl_image x, dl_image index, dl_image o, long plane, long width, long n,
                     long c0, long nc);

/* `full` is the tensor of whole images, which the indices point into. */
static dl_status through_indices(dl_call *c, const dl_tensor *full, walk f) {
    const dl_tensor *at = c->in[1];
    dl_image x = dl_image_of(c->in[0]), index = dl_image_of(at), o = dl_image_of(c->out[0]);
    long plane = full->shape[2] * full->shape[3], width = full->shape[3];
    long block = index.sc == 1 ? CHANNELS : 1, blocks = (at->shape[1] + block - 1) / block;
    bool good = true;
    dl_stop stop = dl_stop_begin();
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(at->numel))
    for (long i = 0; i < at->shape[0] * blocks; i++) {
        if (dl_stop_asked(&stop)) continue;
        long c0 = i % blocks * block, nc = at->shape[1] - c0 < block ? at->shape[1] - c0 : block;
        if (!f(at, x, index, o, plane, width, i / blocks, c0, nc)) {
#pragma omp atomic write
            good = false;
        }
    }
    dl_stop_end(&stop);
    return good ? DL_OK : dl_fail(DL_ERR_INDEX, "an index lies outside the %ld pixels of the image", plane);
}

static dl_status scatter_float(dl_call *c) {
    dl_tensor *o = c->out[0];
    dl_cpu_clear(dl_ptr(o), (size_t)o->numel * dl_esize(o));
    return through_indices(c, o, o->dtype == DL_F32 ? scatter_f32 : scatter_f64);
}

static dl_status gather_float(dl_call *c) {
    return through_indices(c, c->in[0], c->in[0]->dtype == DL_F32 ? gather_f32 : gather_f64);
}

DL_CPU_KERNEL(pool_scatter, scatter_float, false, DL_FLOATS)
DL_CPU_KERNEL(pool_gather, gather_float, false, DL_FLOATS)

/* ---- places in volumes */

static dl_status run_volume_places(dl_call *c) {
    POOL;
    const dl_tensor *o = c->out[0], *in = K(dl_cpu_contiguous(c->in[0])), *chosen = K(dl_cpu_contiguous(c->in[1]));
    if (!in || !chosen) return dl_failed();
    const long width = in->shape[3], all = in->shape[2] * width, each = o->shape[2] * o->shape[3];
    const long *from = dl_ptr(in), *at = dl_ptr(chosen), pixels = ATTR_I(c, VOLUME_PLACES_PIXELS);
    long *to = dl_ptr(o);
    for (long i = 0; i < o->numel; i++) {
        if (at[i] < DL_NO_PIXEL || at[i] >= all)
            return dl_fail(DL_ERR_INDEX, "an index lies outside the %ld pixels of the image", all);
        to[i] = at[i] < 0 ? DL_NO_PIXEL : at[i] / width * pixels + from[i / each * all + at[i]];
    }
    return DL_OK;
}
const dl_kernel dl_cpu_volume_places = {.run = run_volume_places, .dtypes = DL_BIT(DL_I64)};
