/* Kernels of grid_read and its gradient: a thread has a place and some channels, for which pixels and weights are
 * computed once. The gradient of images goes the other way round: what reads a pixel is listed by sorting, and a thread
 * adds it up in order, so that the same operands give the same bits. */
#include "cuda/kernels/index/scatter.h"
#include "cuda/runtime/iter.cuh"

#include "core/widening.h"
#include "ops/grid.h"
#include "ops/names/index.h"

enum { GROUP = 8, LEAST_GROUP = 4, LISTED = 1 << 25 }; /* channels of a thread; terms that are sorted at once */

/* n images of c channels, contiguous, of numbers in X; T is what is computed in. */
template <class T, class X = T> struct reading {
    dl_grid grid;
    const X *x, *at;
    long n, c, places, pixels;
};

/* The geometry with what is known when the kernel is compiled. */
template <int MODE, int DIMS> __device__ inline dl_grid known(dl_grid g) {
    g.mode = (dl_grid_mode)MODE, g.dims = DIMS, g.taps = MODE == DL_GRID_LINEAR ? 2 : MODE == DL_GRID_NEAREST ? 1 : 4;
    return g;
}
template <int MODE, int DIMS>
constexpr int terms_of = MODE == DL_GRID_NEAREST ? 1
                         : MODE == DL_GRID_CUBIC ? 16
                         : DIMS == 2             ? 4
                                                 : 8;

/* f(k, term) of each term of place number i; the grid names the last direction first. */
template <int MODE, int DIMS, class T, class X, class F>
__device__ inline void terms_at(const reading<T, X> &r, long i, F f) {
    const dl_grid g = known<MODE, DIMS>(r.grid);
    dl_grid_tap tap[DIMS];
#pragma unroll
    for (int d = 0; d < DIMS; d++) dl_grid_taps(&g, d, (double)dl_up(r.at[(i + 1) * DIMS - 1 - d]), &tap[d]);
#pragma unroll
    for (int k = 0; k < terms_of<MODE, DIMS>; k++) f(k, dl_grid_term_at(&g, tap, k));
}

/* Blocks along y share the channels, `each` of them at a time; the result is made of R. */
template <class T, class X, class R, int MODE, int DIMS>
__global__ void __launch_bounds__(DL_BLOCK) read_kernel(const __grid_constant__ reading<T, X> r, R *out, long each) {
    enum { TERMS = terms_of<MODE, DIMS> };
    const long i = (long)blockIdx.x * DL_BLOCK + threadIdx.x;
    if (i >= r.n * r.places) return;
    const long n = i / r.places, first = blockIdx.y * each, end = first + each < r.c ? first + each : r.c;
    int pixel[TERMS];
    T weight[TERMS];
    terms_at<MODE, DIMS>(r, i, [&](int k, const dl_grid_term &t) { pixel[k] = (int)t.pixel, weight[k] = (T)t.weight; });
    const X *x = r.x + (n * r.c + first) * r.pixels;
    R *to = out + (n * r.c + first) * r.places + (i - n * r.places);
#pragma unroll 2
    for (long c = first; c < end; c++, x += r.pixels, to += r.places) {
        T sum = 0;
#pragma unroll
        for (int k = 0; k < TERMS; k++)
            if (pixel[k] >= 0) sum += weight[k] * dl_up(x[pixel[k]]);
        *to = dl_down<R>(sum);
    }
}

/* The gradient of the grid. */
template <class T, int MODE, int DIMS>
__global__ void __launch_bounds__(DL_BLOCK) slope_kernel(const __grid_constant__ reading<T> r, const T *g, T *dgrid) {
    enum { TERMS = terms_of<MODE, DIMS> };
    const long i = (long)blockIdx.x * DL_BLOCK + threadIdx.x;
    if (i >= r.n * r.places) return;
    const long n = i / r.places;
    int pixel[TERMS];
    T slope[TERMS][DIMS];
    double sum[DIMS] = {};
    terms_at<MODE, DIMS>(r, i, [&](int k, const dl_grid_term &t) {
        pixel[k] = (int)t.pixel;
#pragma unroll
        for (int d = 0; d < DIMS; d++) slope[k][d] = (T)t.slope[d];
    });
    const T *x = r.x + n * r.c * r.pixels, *from = g + n * r.c * r.places + (i - n * r.places);
    for (long c = 0; c < r.c; c++, x += r.pixels, from += r.places) {
        T part[DIMS] = {};
#pragma unroll
        for (int k = 0; k < TERMS; k++) {
            if (pixel[k] < 0) continue;
            const T v = x[pixel[k]];
#pragma unroll
            for (int d = 0; d < DIMS; d++) part[d] += slope[k][d] * v;
        }
#pragma unroll
        for (int d = 0; d < DIMS; d++) sum[d] += (double)(part[d] * *from);
    }
#pragma unroll
    for (int d = 0; d < DIMS; d++) dgrid[(i + 1) * DIMS - 1 - d] = (T)sum[d];
}

/* ---- the gradient of images: terms of some images, sorted by the pixel that they read */

/* Of `rows` pixels: begin[row] is the first of the sorted terms that read it, or what comes behind. */
template <class T> struct listing {
    unsigned *key, *sorted, *term, *order; /* order: numbers of terms in the order of keys */
    T *weight;
    int *begin;
    long rows, terms;
};

/* A term that reads nothing has the key `rows`. */
template <class T, int MODE, int DIMS>
__global__ void __launch_bounds__(DL_BLOCK)
    list_kernel(const __grid_constant__ reading<T> r, const __grid_constant__ listing<T> l) {
    enum { TERMS = terms_of<MODE, DIMS> };
    const long i = (long)blockIdx.x * DL_BLOCK + threadIdx.x;
    if (i >= r.n * r.places) return;
    const long n = i / r.places;
    terms_at<MODE, DIMS>(r, i, [&](int k, const dl_grid_term &t) {
        const long at = i * TERMS + k;
        l.key[at] = (unsigned)(t.pixel < 0 ? l.rows : n * r.pixels + t.pixel);
        l.term[at] = (unsigned)at;
        l.weight[at] = (T)t.weight;
    });
}

template <class T> __global__ void __launch_bounds__(DL_BLOCK) begin_kernel(const __grid_constant__ listing<T> l) {
    const long row = (long)blockIdx.x * DL_BLOCK + threadIdx.x;
    if (row > l.rows) return;
    long low = 0, high = l.terms;
    while (low < high) {
        const long middle = (low + high) / 2;
        if (l.sorted[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    l.begin[row] = (int)low;
}

/* A thread has a pixel in GROUP channels. */
template <class T, int TERMS>
__global__ void __launch_bounds__(DL_BLOCK)
    spread_kernel(const __grid_constant__ reading<T> r, const __grid_constant__ listing<T> l, const T *g, T *dx) {
    const long row = (long)blockIdx.x * DL_BLOCK + threadIdx.x;
    if (row >= l.rows) return;
    const long n = row / r.pixels, first = (long)blockIdx.y * GROUP, left = r.c - first;
    const T *from = g + (n * r.c + first - n) * r.places; /* places are counted through all images */
    T *to = dx + (n * r.c + first) * r.pixels + (row - n * r.pixels);
    double sum[GROUP] = {};
    for (int e = l.begin[row]; e < l.begin[row + 1]; e++) {
        const unsigned term = l.order[e];
        const double w = (double)l.weight[term];
        const T *v = from + term / TERMS;
#pragma unroll
        for (int c = 0; c < GROUP; c++)
            if (c < left) sum[c] += w * (double)v[c * r.places];
    }
#pragma unroll
    for (int c = 0; c < GROUP; c++)
        if (c < left) to[c * r.pixels] = (T)sum[c];
}

/* ---- calls */

/* launch(MODE, DIMS) as constants. */
template <class G> static dl_status by_mode(const dl_grid &g, G launch) {
    std::integral_constant<int, DL_GRID_LINEAR> linear;
    std::integral_constant<int, DL_GRID_NEAREST> nearest;
    std::integral_constant<int, DL_GRID_CUBIC> cubic;
    std::integral_constant<int, 2> two;
    std::integral_constant<int, 3> three;
    if (g.mode == DL_GRID_CUBIC) return launch(cubic, two);
    if (g.mode == DL_GRID_NEAREST) return g.dims == 2 ? launch(nearest, two) : launch(nearest, three);
    return g.dims == 2 ? launch(linear, two) : launch(linear, three);
}

/* Of contiguous operands; an error for what 32 bits do not count. */
template <class T, class X>
static dl_status reading_of(const dl_grid &g, const dl_tensor *x, const dl_tensor *grid, reading<T, X> *r) {
    const double most = 0x7fffffff;
    double pixels = 1, places = 1;
    *r = {g, dl_data<X>(x), dl_data<X>(grid), x->shape[0], x->shape[1], 1, 1};
    for (int i = 0; i < g.dims; i++) {
        pixels *= (double)g.size[i], places *= (double)grid->shape[1 + i];
        r->pixels *= g.size[i], r->places *= grid->shape[1 + i];
    }
    if (pixels > most || places * dl_grid_terms(&g) > most)
        return dl_fail(DL_ERR_SHAPE, "images and grids must have fewer than 2^31 pixels and 2^27 places");
    return DL_OK;
}

template <class T, class X, class R> static dl_status read_into(dl_gpu *gpu, const reading<T, X> &r, R *out) {
    const unsigned blocks = dl_blocks(r.n * r.places, DL_BLOCK);
    long groups = (16 * (long)gpu->sms + blocks - 1) / blocks, most = (r.c + LEAST_GROUP - 1) / LEAST_GROUP;
    if (groups > most) groups = most;
    const long each = (r.c + groups - 1) / groups;
    const dim3 grids(blocks, dl_blocks(r.c, each));
    return by_mode(r.grid, [&](auto mode, auto dims) {
        read_kernel<T, X, R, decltype(mode)::value, decltype(dims)::value>
            <<<grids, DL_BLOCK, 0, gpu->stream>>>(r, out, each);
        return dl_gpu_launched(gpu);
    });
}

/* The result has the type of the image, or the one that is computed in. */
static dl_status run_grid(dl_call *c) {
    DL_USE_GPU(gpu, c->device);
    dl_tensor *out = c->out[0];
    if (!out->numel) return DL_OK;
    const dl_grid g = dl_grid_of(c->in[0], ATTR_S(c, GRID_READ_MODE), ATTR_S(c, GRID_READ_PADDING_MODE),
                                 ATTR_I(c, GRID_READ_ALIGN_CORNERS));
    dl_tensor *x = dl_cuda_contiguous(gpu, c->in[0]), *grid = x ? dl_cuda_contiguous(gpu, c->in[1]) : NULL;
    dl_status s = !grid ? dl_failed() : dl_dispatch<DL_FLOATS>(x->dtype, [&](auto tag) {
        typedef decltype(tag) X;
        typedef calc_t<X> T;
        reading<T, X> r;
        DL_TRY(reading_of(g, x, grid, &r));
        return out->dtype == x->dtype ? read_into(gpu, r, dl_data<X>(out)) : read_into(gpu, r, dl_data<T>(out));
    });
    dl_unref(x), dl_unref(grid);
    return s;
}

static bool is_half(const dl_tensor *t) { return DL_BIT(t->dtype) & DL_HALVES; }

template <class T> static dl_status slopes(dl_gpu *gpu, const reading<T> &r, const dl_tensor *g, dl_tensor *dgrid) {
    if (!dgrid->numel) return DL_OK;
    return by_mode(r.grid, [&](auto mode, auto dims) {
        slope_kernel<T, decltype(mode)::value, decltype(dims)::value>
            <<<dl_blocks(r.n * r.places, DL_BLOCK), DL_BLOCK, 0, gpu->stream>>>(r, dl_data<T>(g), dl_data<T>(dgrid));
        return dl_gpu_launched(gpu);
    });
}

/* Memory of the listing; *work is to be dropped. */
template <class T> static dl_status take(dl_gpu *gpu, const reading<T> &r, listing<T> *l, char **work) {
    l->rows = r.n * r.pixels, l->terms = r.n * r.places * dl_grid_terms(&r.grid);
    const size_t words = sizeof(unsigned) * (size_t)l->terms, weights = sizeof(T) * (size_t)l->terms;
    *work = (char *)dl_gpu_take(gpu, weights + 4 * words + sizeof(int) * (size_t)(l->rows + 1));
    if (!*work) return dl_failed();
    l->weight = (T *)*work, l->key = (unsigned *)(*work + weights), l->sorted = l->key + l->terms;
    l->term = l->sorted + l->terms, l->order = l->term + l->terms, l->begin = (int *)(l->order + l->terms);
    return DL_OK;
}

/* Of images whose terms are few enough. */
template <class T> static dl_status spread(dl_gpu *gpu, const reading<T> &r, const T *g, T *dx) {
    char *work;
    listing<T> l;
    DL_TRY(take(gpu, r, &l, &work));
    dl_status s = by_mode(r.grid, [&](auto mode, auto dims) {
        enum { MODE = decltype(mode)::value, DIMS = decltype(dims)::value };
        if (l.terms)
            list_kernel<T, MODE, DIMS><<<dl_blocks(r.n * r.places, DL_BLOCK), DL_BLOCK, 0, gpu->stream>>>(r, l);
        DL_TRY(dl_gpu_launched(gpu));
        if (l.terms) DL_TRY(dl_cuda_sort_words(gpu, l.key, l.sorted, l.term, l.order, l.terms, 0, dl_bits(l.rows)));
        begin_kernel<T><<<dl_blocks(l.rows + 1, DL_BLOCK), DL_BLOCK, 0, gpu->stream>>>(l);
        const dim3 blocks(dl_blocks(l.rows, DL_BLOCK), dl_blocks(r.c, GROUP));
        spread_kernel<T, terms_of<MODE, DIMS>><<<blocks, DL_BLOCK, 0, gpu->stream>>>(r, l, g, dx);
        return dl_gpu_launched(gpu);
    });
    dl_gpu_drop(gpu, work);
    return s;
}

/* Some images after others, as many as are sorted at once, and channels that the blocks of a launch can count. */
template <class T> static dl_status spread_all(dl_gpu *gpu, reading<T> r, const dl_tensor *g, dl_tensor *dx) {
    const long most_channels = 65535L * GROUP, each = r.places * dl_grid_terms(&r.grid), all = r.n;
    long some = LISTED / (each > r.pixels ? each : r.pixels);
    if (some < 1) some = 1;
    if (r.c > most_channels) return dl_fail(DL_ERR_SHAPE, "images must have at most %ld channels", most_channels);
    for (long n = 0; n < all && dx->numel; n += some) {
        reading<T> part = r;
        part.n = all - n < some ? all - n : some;
        part.at = r.at + n * r.places * r.grid.dims;
        DL_TRY(spread(gpu, part, dl_data<T>(g) + n * r.c * r.places, dl_data<T>(dx) + n * r.c * r.pixels));
    }
    return DL_OK;
}

/* A new tensor with the numbers of t in another type; NULL on failure. */
static dl_tensor *in_type(dl_gpu *gpu, dl_tensor *t, dl_dtype type) {
    dl_tensor *o = dl_tensor_empty(t->ndim, t->shape, type, t->st->device);
    if (o && dl_cuda_copy(gpu, o, t) != DL_OK) dl_unref(o), o = NULL;
    return o;
}

/* An operand as the gradient is computed from it: contiguous, and f32 for 16 bits, in which sums would lose digits. */
static dl_tensor *operand_of(dl_back *b, dl_gpu *gpu, dl_tensor *t) {
    return dl_tmp(b, is_half(t) ? in_type(gpu, t, DL_F32) : dl_cuda_contiguous(gpu, t));
}

static dl_status grad_grid(dl_back *b) {
    dl_tensor *given[2] = {IN_(GRID_READ_INPUT), IN_(GRID_READ_GRID)};
    dl_gpu *gpu = given[0] && given[1] ? dl_gpu_use(given[0]->st->device) : NULL;
    dl_tensor *x = gpu ? operand_of(b, gpu, given[0]) : NULL, *grid = x ? operand_of(b, gpu, given[1]) : NULL;
    dl_tensor *g = grid ? operand_of(b, gpu, b->g[0]) : NULL, *out[2] = {NULL, NULL};
    if (!g) return dl_failed();
    for (int i = 0; i < 2; i++)
        if (DL_NEED(i) && !(out[i] = dl_tmp(b, dl_tensor_empty(given[i]->ndim, given[i]->shape, (dl_dtype)x->dtype,
                                                               given[i]->st->device))))
            return dl_failed();
    const dl_grid how =
        dl_grid_of(x, ATTR_S(b, GRID_READ_MODE), ATTR_S(b, GRID_READ_PADDING_MODE), ATTR_I(b, GRID_READ_ALIGN_CORNERS));
    dl_status s = dl_dispatch<DL_BIT(DL_F32) | DL_BIT(DL_F64)>(x->dtype, [&](auto tag) {
        reading<decltype(tag)> r;
        DL_TRY(reading_of(how, x, grid, &r));
        if (out[0]) DL_TRY(spread_all(gpu, r, g, out[0]));
        return !out[1] ? DL_OK : how.mode == DL_GRID_NEAREST ? dl_cuda_clear(gpu, out[1]) : slopes(gpu, r, g, out[1]);
    });
    for (int i = 0; i < 2 && s == DL_OK; i++) {
        dl_tensor *o = !out[i]             ? NULL
                       : is_half(given[i]) ? in_type(gpu, out[i], (dl_dtype)given[i]->dtype)
                                           : dl_ref(out[i]);
        if (out[i]) s = o ? dl_give(b, i, o) : dl_failed();
    }
    return s;
}

const dl_kernel dl_cuda_grid_read = {run_grid, grad_grid, DL_FLOATS, NULL, DL_K_WIDE};
