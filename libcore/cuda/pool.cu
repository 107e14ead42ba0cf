/* Kernels of max_pool2d and of the two rows that carry its gradients, on images of any strides. Each result is one
 * thread's, so that overlapping windows are added up in a fixed order. */
#include "cuda/images.cuh"
#include "cuda/scatter.h"
#include "ops/conv.h"

/* Numbers of a direction in 32 bits: sizes of an image plane. */
typedef struct window {
    int in[2], out[2], k[2], stride[2], pad[2], dil[2];
} window;

static dl_status window_of(const dl_conv *g, window *w) {
    if (g->in[0] * g->in[1] > 0x7fffffff) return dl_fail(DL_ERR_SHAPE, "image planes must have fewer than 2^31 pixels");
    for (int i = 0; i < 2; i++) {
        long span = g->in[i] + 2 * g->pad[i] + g->dil[i] * g->k[i] + g->stride[i];
        if (span > 0x7fffffff) return dl_fail(DL_ERR_SHAPE, "windows must span fewer than 2^31 pixels");
        w->in[i] = (int)g->in[i], w->out[i] = (int)g->out[i], w->k[i] = (int)g->k[i];
        w->stride[i] = (int)g->stride[i], w->pad[i] = (int)g->pad[i], w->dil[i] = (int)g->dil[i];
    }
    return DL_OK;
}

/* Operands: out, indices, the plane of x, row, column. A NaN wins, the last one if there are several; among equal
 * values the first. */
template <class T> struct max_f {
    window g;
    dl_plane x;
    __device__ int first(int d, int at) const {
        int start = at * g.stride[d] - g.pad[d];
        return start < 0 ? start + (-start + g.dil[d] - 1) / g.dil[d] * g.dil[d] : start;
    }
    __device__ void operator()(char *const *p) const {
        typedef calc_t<T> C;
        int y = (int)(long)p[3], z = (int)(long)p[4], row = first(0, y), col = first(1, z);
        int bottom = y * g.stride[0] - g.pad[0] + g.dil[0] * (g.k[0] - 1), place = row * g.in[1] + col;
        int right = z * g.stride[1] - g.pad[1] + g.dil[1] * (g.k[1] - 1);
        if (bottom >= g.in[0]) bottom = g.in[0] - 1;
        if (right >= g.in[1]) right = g.in[1] - 1;
        C best = -(C)INFINITY;
        for (; row <= bottom; row += g.dil[0])
            for (int at = col; at <= right; at += g.dil[1]) {
                C v = dl_up(((const T *)p[2])[row * x.h + at * x.w]);
                if (v > best || v != v) best = v, place = row * g.in[1] + at;
            }
        *(T *)p[0] = dl_down<T>(best);
        *(long *)p[1] = place;
    }
};

static dl_status run_max_pool2d(dl_call *c) {
    dl_gpu *gpu = dl_gpu_use(c->device);
    dl_conv g;
    window w;
    if (!gpu) return dl_error_last()->code;
    dl_status s = dl_pool_of(c, &g);
    if (s == DL_OK) s = window_of(&g, &w);
    if (s != DL_OK) return s;
    dl_it it;
    dl_it_pixels(&it, c->out[0]);
    dl_it_tensor(&it, c->out[1]);
    dl_it_plane(&it, c->out[0], c->in[0]);
    dl_it_row_col(&it, c->out[0]);
    dl_it_end(&it);
    return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        return dl_places<5>(gpu, it, max_f<decltype(tag)>{w, dl_plane_of(c->in[0])});
    });
}

/* Operands: dx, the planes of the gradient and of the indices, row, column. A pixel asks every window that covers it.
 */
template <class T> struct spread_f {
    window g;
    dl_plane grad, index;
    __device__ void range(int d, int at, int *lo, int *hi) const {
        int low = at + g.pad[d] - g.dil[d] * (g.k[d] - 1);
        *lo = low <= 0 ? 0 : (low + g.stride[d] - 1) / g.stride[d];
        *hi = (at + g.pad[d]) / g.stride[d];
        if (*hi >= g.out[d]) *hi = g.out[d] - 1;
    }
    __device__ void operator()(char *const *p) const {
        int row = (int)(long)p[3], col = (int)(long)p[4], y, z0, bottom, right;
        long own = (long)row * g.in[1] + col;
        calc_t<T> sum = 0;
        range(0, row, &y, &bottom);
        range(1, col, &z0, &right);
        for (; y <= bottom; y++)
            for (int z = z0; z <= right; z++)
                if (((const long *)p[2])[y * index.h + z * index.w] == own)
                    sum += dl_up(((const T *)p[1])[y * grad.h + z * grad.w]);
        *(T *)p[0] = dl_down<T>(sum);
    }
};

/* Windows that tile the image, all contiguous: a thread fills the pixels of its window. */
template <class T, int K> struct alignas(K &(K - 1) ? alignof(T) : sizeof(T) * K) row_of { T v[K]; };
template <class T, int K>
__global__ void __launch_bounds__(DL_BLOCK)
    tile_kernel(const T *g, const long *index, row_of<T, K> *dx, unsigned windows, unsigned oh, unsigned ow) {
    unsigned i = blockIdx.x * DL_BLOCK + threadIdx.x;
    if (i >= windows) return;
    unsigned y = i / ow % oh, z = i % ow, top = i / ow * K; /* row among those of all planes */
    long place = index[i] - ((long)y * K * ow * K + (long)z * K);
    T own = g[i];
#pragma unroll
    for (int r = 0; r < K; r++) {
        row_of<T, K> out;
#pragma unroll
        for (int c = 0; c < K; c++) out.v[c] = place == (long)r * ow * K + c ? own : T(0.0f);
        dx[(unsigned long)(top + r) * ow + z] = out;
    }
}

/* Through tile_kernel, where the windows are such: *done. */
template <class T>
static dl_status by_tiles(dl_gpu *gpu, const window *w, const dl_tensor *g, const dl_tensor *index, dl_tensor *dx,
                          bool *done) {
    int k = w->k[0];
    bool plain = dl_is_contiguous(g) && dl_is_contiguous(index) && dl_is_contiguous(dx) && g->numel < 0x7fffffff / 4;
    for (int d = 0; d < 2; d++)
        plain &= w->k[d] == k && w->stride[d] == k && !w->pad[d] && w->dil[d] == 1 && w->in[d] == w->out[d] * k;
    *done = plain && k >= 2 && k <= 4 && (size_t)dl_ptr(dx) % 16 == 0;
    if (!*done || !g->numel) return DL_OK;
    unsigned n = (unsigned)g->numel, blocks = (n + DL_BLOCK - 1) / DL_BLOCK;
    unsigned oh = (unsigned)w->out[0], ow = (unsigned)w->out[1];
    const T *from = (const T *)dl_ptr(g);
    const long *at = (const long *)dl_ptr(index);
    void *to = dl_ptr(dx);
    if (k == 2) tile_kernel<T, 2><<<blocks, DL_BLOCK, 0, gpu->stream>>>(from, at, (row_of<T, 2> *)to, n, oh, ow);
    if (k == 3) tile_kernel<T, 3><<<blocks, DL_BLOCK, 0, gpu->stream>>>(from, at, (row_of<T, 3> *)to, n, oh, ow);
    if (k == 4) tile_kernel<T, 4><<<blocks, DL_BLOCK, 0, gpu->stream>>>(from, at, (row_of<T, 4> *)to, n, oh, ow);
    return dl_gpu_launched(gpu);
}

/* An image batch with the memory order of `like`. */
static dl_tensor *images_like(const dl_tensor *like, const long *shape, int dtype) {
    dl_tensor *t = dl_tensor_empty(4, shape, (dl_dtype)dtype, like->st->device);
    if (!t || !dl_channels_last(4, like->shape, like->stride)) return t;
    t->stride[1] = 1;
    t->stride[3] = shape[1];
    t->stride[2] = shape[3] * t->stride[3];
    t->stride[0] = shape[2] * t->stride[2];
    return t;
}

static dl_status grad_max_pool2d(dl_back *b) {
    dl_tensor *index = dl_saved_out(b, 1), *grad = b->g[0], of, *in[1] = {&of};
    const dl_meta *x = dl_in_meta(b, 0);
    dl_gpu *gpu = index ? dl_gpu_use(index->st->device) : NULL;
    dl_tensor *dx = gpu ? dl_tmp(b, images_like(index, x->shape, grad->dtype)) : NULL;
    if (!dx) return dl_error_last()->code;
    of = *dx; /* shapes are all that is asked of it */
    dl_call c = {};
    c.op = b->op, c.in = in, c.nin = 1, c.attr = b->attr;
    dl_conv g;
    window w;
    dl_status s = dl_pool_of(&c, &g);
    if (s == DL_OK) s = window_of(&g, &w);
    if (s != DL_OK) return s;
    bool done = false;
    s = dl_dispatch<DL_FLOATS>(dx->dtype,
                               [&](auto tag) { return by_tiles<decltype(tag)>(gpu, &w, grad, index, dx, &done); });
    if (s != DL_OK || done) return s == DL_OK ? dl_give(b, 0, dl_ref(dx)) : s;
    dl_it it;
    dl_it_pixels(&it, dx);
    dl_it_plane(&it, dx, grad);
    dl_it_plane(&it, dx, index);
    dl_it_row_col(&it, dx);
    dl_it_end(&it);
    s = dl_dispatch<DL_FLOATS>(dx->dtype, [&](auto tag) {
        return dl_places<5>(gpu, it, spread_f<decltype(tag)>{w, dl_plane_of(grad), dl_plane_of(index)});
    });
    return s == DL_OK ? dl_give(b, 0, dl_ref(dx)) : s;
}

const dl_kernel dl_cuda_max_pool2d = {run_max_pool2d, grad_max_pool2d, DL_FLOATS, NULL, 0};

/* ---- through the indices */

/* Operands: out, index, the plane of x. */
template <class T> struct pixel_gather_f {
    dl_plane x;
    long width, pixels;
    dl_fault_site site;
    __device__ void operator()(char *const *p) const {
        long at = *(const long *)p[1];
        bool good = at >= 0 && at < pixels;
        if (!good) dl_fault_raise(site, DL_FAULT_PIXEL, at, pixels), at = 0;
        T v = pixels ? ((const T *)p[2])[at / width * x.h + at % width * x.w] : T();
        *(T *)p[0] = v;
    }
};

static dl_status run_pool_gather(dl_call *c) {
    dl_gpu *gpu = dl_gpu_use(c->device);
    dl_tensor *x = c->in[0], *o = c->out[0];
    if (!gpu) return dl_error_last()->code;
    dl_it it;
    dl_it_pixels(&it, o);
    dl_it_tensor(&it, c->in[1]);
    dl_it_plane(&it, o, x);
    dl_it_end(&it);
    return dl_dispatch_size(dl_esize(x), [&](auto tag) {
        typedef decltype(tag) T;
        return dl_places<3>(
            gpu, it,
            pixel_gather_f<T>{dl_plane_of(x), x->shape[3], x->shape[2] * x->shape[3], dl_gpu_site(gpu, c->op)});
    });
}
const dl_kernel dl_cuda_pool_gather = {run_pool_gather, NULL, DL_FLOATS, NULL, 0};

/* Operands: where the key goes, index, the number of the first pixel of the plane. */
struct pixel_key_f {
    long width, pixels, h, w, none;
    dl_fault_site site;
    __device__ void operator()(char *const *p) const {
        long at = *(const long *)p[1];
        bool good = at >= 0 && at < pixels;
        if (!good) dl_fault_raise(site, DL_FAULT_PIXEL, at, pixels);
        *(long *)p[0] = good ? (long)p[2] + at / width * h + at % width * w : none;
    }
};

/* Keys are places in the memory of the result, in the order of the source. */
static dl_status scatter(dl_gpu *g, dl_call *c, const dl_tensor *v, long *key) {
    dl_tensor *o = c->out[0], *index = c->in[1];
    long step[4] = {o->stride[0], o->stride[1], 0, 0}, count[4];
    dl_strides_contiguous(4, index->shape, count);
    dl_it it;
    dl_it_begin(&it, 4, index->shape);
    dl_it_operand(&it, key, sizeof *key, 4, index->shape, count);
    dl_it_tensor(&it, index);
    dl_it_count(&it, 4, index->shape, step);
    dl_it_end(&it);
    pixel_key_f f = {o->shape[3],    o->shape[2] * o->shape[3], o->stride[2], o->stride[3],
                     (long)o->numel, dl_gpu_site(g, c->op)};
    dl_status s = dl_places<3>(g, it, f);
    dl_adds a = {dl_ptr(o), dl_ptr(v), o->dtype, 1, (long)o->numel, (long)v->numel, 1};
    return s == DL_OK ? dl_cuda_adds(g, &a, key) : s;
}

static dl_status run_pool_scatter(dl_call *c) {
    dl_gpu *g = dl_gpu_use(c->device);
    dl_tensor *o = c->out[0], *v = g ? dl_cuda_contiguous(g, c->in[0]) : NULL;
    if (!v) return dl_error_last()->code;
    dl_status s = dl_gpu_check(g, cudaMemsetAsync(dl_ptr(o), 0, (size_t)o->numel * dl_esize(o), g->stream), "zeros");
    long *key = s == DL_OK && v->numel ? (long *)dl_gpu_take(g, sizeof(long) * (size_t)v->numel) : NULL;
    if (key)
        s = scatter(g, c, v, key);
    else if (s == DL_OK && v->numel)
        s = dl_error_last()->code;
    dl_gpu_drop(g, key);
    dl_unref(v);
    return s;
}
const dl_kernel dl_cuda_pool_scatter = {run_pool_scatter, NULL, DL_FLOATS, NULL, 0};
