/* Bias, normalisation by running statistics and relu in one pass over the result of a convolution. */
#include "cuda/conv/conv.h"
#include "cuda/runtime/iter.cuh"
#include "cuda/kernels/rows.cuh"

enum { THREADS = 256, WIDE = 4, ROWS = 8 };

/* A vector of any dtype on the device; p NULL: absent. */
struct channel_vec {
    const void *p;
    int dtype;
    long step;
    __device__ double get(long i) const { return dl_get(p, dtype, i * step); }
};

struct channel_map {
    channel_vec bias, mean, var, weight, shift;
    double eps;
    bool relu;
};

/* y = (x - center) * scale + shift */
template <class C> struct coefficients {
    C center, scale, shift;
    bool relu;
    __device__ coefficients(const channel_map &m, long c) {
        double b = m.bias.p ? m.bias.get(c) : 0, r = m.var.p ? 1 / sqrt(m.var.get(c) + m.eps) : 1;
        bool bare = !m.mean.p; /* a bias alone is added as it is */
        center = (C)(bare ? 0 : m.mean.get(c) - b);
        scale = (C)(r * (m.weight.p ? m.weight.get(c) : 1));
        shift = (C)((bare ? b : 0) + (m.shift.p ? m.shift.get(c) : 0));
        relu = m.relu;
    }
    __device__ C operator()(C x) const {
        C y = (x - center) * scale + shift;
        return relu && y < C(0) ? C(0) : y;
    }
};

template <class T, int N> struct channel_pack { alignas(sizeof(T) * N) T v[N]; };

/* A block has part of one plane. */
template <class T, int N>
__global__ void planes_kernel(channel_map m, channel_pack<T, N> *y, unsigned plane, unsigned channels) {
    coefficients<calc_t<T>> f(m, blockIdx.x % channels);
    channel_pack<T, N> *p = y + (size_t)blockIdx.x * plane;
    for (unsigned i = blockIdx.y * blockDim.x + threadIdx.x; i < plane; i += gridDim.y * blockDim.x) {
        channel_pack<T, N> x = p[i];
#pragma unroll
        for (int k = 0; k < N; k++) x.v[k] = dl_down<T>(f(dl_up(x.v[k])));
        p[i] = x;
    }
}

/* A thread has N channels of every step-th pixel. */
template <class T, int N>
__global__ void pixels_kernel(channel_map m, channel_pack<T, N> *y, size_t pixels, unsigned channels, size_t threads) {
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x, per = channels / N, step = threads / per;
    if (at >= threads) return;
    size_t c = at % per;
    calc_t<T> center[N], scale[N], shift[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        coefficients<calc_t<T>> f(m, (long)(c * N) + k);
        center[k] = f.center, scale[k] = f.scale, shift[k] = f.shift;
    }
    for (size_t r = at / per; r < pixels; r += step) {
        channel_pack<T, N> x = y[r * per + c];
#pragma unroll
        for (int k = 0; k < N; k++) {
            calc_t<T> v = (dl_up(x.v[k]) - center[k]) * scale[k] + shift[k];
            x.v[k] = dl_down<T>(m.relu && v < 0 ? calc_t<T>(0) : v);
        }
        y[r * per + c] = x;
    }
}

template <class T, int N> static void run_planes(dl_gpu *gpu, const channel_map &m, const dl_tensor *y) {
    unsigned plane = (unsigned)(y->shape[2] * y->shape[3] / N), most = THREADS, each = most * ROWS;
    unsigned parts = (plane + each - 1) / each, threads = plane < most ? (plane + 31) / 32 * 32 : most;
    dim3 grid((unsigned)(y->shape[0] * y->shape[1]), parts < 65535 ? parts : 65535);
    planes_kernel<T, N>
        <<<grid, threads, 0, gpu->stream>>>(m, (channel_pack<T, N> *)dl_ptr(y), plane, (unsigned)y->shape[1]);
}

template <class T, int N> static void run_pixels(dl_gpu *gpu, const channel_map &m, const dl_tensor *y) {
    size_t per = (size_t)y->shape[1] / N, pixels = (size_t)y->numel / (size_t)y->shape[1];
    size_t threads = (pixels + ROWS - 1) / ROWS * per;
    pixels_kernel<T, N><<<dl_blocks(threads, THREADS), THREADS, 0, gpu->stream>>>(
        m, (channel_pack<T, N> *)dl_ptr(y), pixels, (unsigned)y->shape[1], threads);
}

static channel_vec vec_of(const dl_tensor *t) {
    return t ? channel_vec{dl_ptr(t), t->dtype, t->stride[0]} : channel_vec{NULL, 0, 0};
}

dl_status dl_channels_normalise(dl_gpu *gpu, dl_tensor *y, const dl_channel_norm *n) {
    channel_map m = {vec_of(n->bias),  vec_of(n->mean), vec_of(n->var), vec_of(n->weight),
                     vec_of(n->shift), n->eps,          n->relu};
    bool last = y->shape[1] > 1 && y->stride[1] == 1;
    bool wide = (last ? y->shape[1] : y->shape[2] * y->shape[3]) % WIDE == 0;
    return dl_dispatch<DL_FLOATS>(y->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        if (last)
            wide ? run_pixels<T, WIDE>(gpu, m, y) : run_pixels<T, 1>(gpu, m, y);
        else
            wide ? run_planes<T, WIDE>(gpu, m, y) : run_planes<T, 1>(gpu, m, y);
        return dl_gpu_launched(gpu);
    });
}
