/* The matrix of image patches (im2col) in two layouts, its transpose (col2im), flipped weights, and y += x. */
#include "cuda/conv/conv.h"
#include "cuda/runtime/iter.cuh"

/* The geometry with its divisors, passed to kernels by value. */
struct patch_walk {
    dl_divisor pixels, height, width;         /* m = (n, y, x) of the result */
    dl_divisor kh, kw, cg;                    /* taps and channels of a group */
    dl_divisor channels, rows, cols, step[2]; /* of the image; strides of the convolution */
    int in[2], out[2], k[2], stride[2], pad[2], dil[2], C;
    uint32_t m, n; /* pixels of all results; elements to make */
};

static patch_walk walk_of(const dl_conv *g) {
    patch_walk w;
    for (int i = 0; i < 2; i++) {
        w.in[i] = (int)g->in[i], w.out[i] = (int)g->out[i], w.k[i] = (int)g->k[i], w.stride[i] = (int)g->stride[i];
        w.pad[i] = (int)g->pad[i], w.dil[i] = (int)g->dil[i];
        w.step[i] = dl_divisor((uint32_t)g->stride[i]);
    }
    w.C = (int)g->C;
    w.m = (uint32_t)(g->N * g->out[0] * g->out[1]);
    w.pixels = dl_divisor(w.m), w.height = dl_divisor((uint32_t)g->out[0]), w.width = dl_divisor((uint32_t)g->out[1]);
    w.kh = dl_divisor((uint32_t)g->k[0]), w.kw = dl_divisor((uint32_t)g->k[1]);
    w.cg = dl_divisor((uint32_t)(g->C / g->groups)), w.channels = dl_divisor((uint32_t)g->C);
    w.rows = dl_divisor((uint32_t)g->in[0]), w.cols = dl_divisor((uint32_t)g->in[1]);
    return w;
}

__device__ inline uint32_t split(uint32_t &i, const dl_divisor &d) {
    uint32_t q = d.quotient(i), r = i - q * d.d;
    i = q;
    return r;
}

/* Index of the pixel that a patch element copies; -1: padding. */
template <bool LAST> __device__ inline long source(const patch_walk &w, int n, int c, int h, int x) {
    if ((unsigned)h >= (unsigned)w.in[0] || (unsigned)x >= (unsigned)w.in[1]) return -1;
    return LAST ? (((long)n * w.in[0] + h) * w.in[1] + x) * w.C + c : (((long)n * w.C + c) * w.in[0] + h) * w.in[1] + x;
}

template <class T, bool LAST> __global__ void make_kernel(patch_walk w, const T *image, T *cols) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, at = i;
    if (i >= w.n) return;
    int c, ki, kj, n, y, x;
    if (LAST) {
        c = split(i, w.cg), kj = split(i, w.kw), ki = split(i, w.kh);
        uint32_t m = split(i, w.pixels);
        c += i * w.cg.d;
        x = split(m, w.width), y = split(m, w.height), n = m;
    } else {
        uint32_t m = split(i, w.pixels);
        kj = split(i, w.kw), ki = split(i, w.kh), c = i;
        x = split(m, w.width), y = split(m, w.height), n = m;
    }
    long from =
        source<LAST>(w, n, c, y * w.stride[0] + ki * w.dil[0] - w.pad[0], x * w.stride[1] + kj * w.dil[1] - w.pad[1]);
    cols[at] = from < 0 ? T(0) : image[from];
}

/* The position of the window whose tap k covers pixel h; -1: there is none. */
__device__ inline int window(const patch_walk &w, int d, int h, int k) {
    int off = h + w.pad[d] - k * w.dil[d];
    if (off < 0) return -1;
    int q = (int)w.step[d].quotient((uint32_t)off);
    return q * w.stride[d] == off && q < w.out[d] ? q : -1;
}

template <class T, bool LAST> __global__ void sum_kernel(patch_walk w, const T *cols, T *image) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, at = i;
    if (i >= w.n) return;
    int c, h, x, n;
    if (LAST)
        c = split(i, w.channels), x = split(i, w.cols), h = split(i, w.rows), n = i;
    else
        x = split(i, w.cols), h = split(i, w.rows), c = split(i, w.channels), n = i;
    uint32_t group = c, cg = LAST ? split(group, w.cg) : 0;
    calc_t<T> sum = 0;
    for (int ki = 0; ki < w.k[0]; ki++) {
        int y = window(w, 0, h, ki);
        for (int kj = 0; y >= 0 && kj < w.k[1]; kj++) {
            int q = window(w, 1, x, kj);
            if (q < 0) continue;
            long m = ((long)n * w.out[0] + y) * w.out[1] + q;
            long from = LAST ? ((((long)group * w.m + m) * w.k[0] + ki) * w.k[1] + kj) * w.cg.d + cg
                             : (((long)c * w.k[0] + ki) * w.k[1] + kj) * w.m + m;
            sum += dl_up(cols[from]);
        }
    }
    image[at] = dl_down<T>(sum);
}

enum { THREADS = 256 };
static unsigned blocks(uint32_t n) { return (n + THREADS - 1) / THREADS; }

dl_status dl_cols_make(dl_gpu *gpu, const dl_conv *g, dl_dtype t, const void *image, void *cols, bool last) {
    patch_walk w = walk_of(g);
    w.n = (uint32_t)(w.m * g->C * g->k[0] * g->k[1]);
    return dl_dispatch_size((size_t)dl_dtype_size(t), [&](auto tag) {
        typedef decltype(tag) T;
        if (last)
            make_kernel<T, true><<<blocks(w.n), THREADS, 0, gpu->stream>>>(w, (const T *)image, (T *)cols);
        else
            make_kernel<T, false><<<blocks(w.n), THREADS, 0, gpu->stream>>>(w, (const T *)image, (T *)cols);
        return dl_gpu_launched(gpu);
    });
}

dl_status dl_cols_sum(dl_gpu *gpu, const dl_conv *g, dl_dtype t, const void *cols, void *image, bool last) {
    patch_walk w = walk_of(g);
    w.n = (uint32_t)(g->N * g->C * g->in[0] * g->in[1]);
    return dl_dispatch<DL_FLOATS>(t, [&](auto tag) {
        typedef decltype(tag) T;
        if (last)
            sum_kernel<T, true><<<blocks(w.n), THREADS, 0, gpu->stream>>>(w, (const T *)cols, (T *)image);
        else
            sum_kernel<T, false><<<blocks(w.n), THREADS, 0, gpu->stream>>>(w, (const T *)cols, (T *)image);
        return dl_gpu_launched(gpu);
    });
}

struct flip_walk {
    dl_divisor size[3]; /* innermost dimension first */
    long stride[4];     /* of w: o, c, i, j */
    uint32_t n;
    int kh, kw;
};

template <class T, bool LAST> __global__ void flip_kernel(flip_walk w, const T *from, T *to) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, at = i;
    if (at >= w.n) return;
    uint32_t a = split(i, w.size[0]), b = split(i, w.size[1]), c = split(i, w.size[2]);
    uint32_t kj = LAST ? b : a, ki = LAST ? c : b, o = LAST ? a : c; /* i: the channel of w */
    to[at] = from[o * w.stride[0] + i * w.stride[1] + (w.kh - 1 - (long)ki) * w.stride[2] +
                  (w.kw - 1 - (long)kj) * w.stride[3]];
}

dl_status dl_conv_flip(dl_gpu *gpu, const dl_tensor *w, void *out, bool last) {
    const long *s = w->shape;
    const long first_order[3] = {s[3], s[2], s[0]}, last_order[3] = {s[0], s[3], s[2]};
    flip_walk f;
    for (int i = 0; i < 3; i++) f.size[i] = dl_divisor((uint32_t)(last ? last_order : first_order)[i]);
    for (int i = 0; i < 4; i++) f.stride[i] = w->stride[i];
    f.n = (uint32_t)w->numel, f.kh = (int)s[2], f.kw = (int)s[3];
    return dl_dispatch_size(dl_esize(w), [&](auto tag) {
        typedef decltype(tag) T;
        if (last)
            flip_kernel<T, true><<<blocks(f.n), THREADS, 0, gpu->stream>>>(f, (const T *)dl_ptr(w), (T *)out);
        else
            flip_kernel<T, false><<<blocks(f.n), THREADS, 0, gpu->stream>>>(f, (const T *)dl_ptr(w), (T *)out);
        return dl_gpu_launched(gpu);
    });
}

struct plus_f {
    template <class C> __device__ C operator()(C a, C b) const { return a + b; }
};

dl_status dl_conv_add(dl_gpu *gpu, dl_tensor *y, const dl_tensor *x) {
    dl_it it;
    dl_it_begin(&it, y->ndim, y->shape);
    dl_it_tensor(&it, y);
    dl_it_tensor(&it, y);
    dl_it_tensor(&it, x);
    dl_it_end(&it);
    return dl_dispatch<DL_FLOATS>(y->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return dl_each<plus_f, T, T, T>(gpu, it, plus_f());
    });
}
