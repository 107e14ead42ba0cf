/* The largest value of each of the windows that divide an image, and its place: a window has some threads. */
#include "cuda/kernels/pool/images.cuh"
#include "cuda/kernels/rows.cuh"
#include "ops/names/conv.h"

/* Divides numbers below 2^31, or any. */
template <class I> struct quotient {
    I by;
    dl_divisor quick;
    quotient() : by(1) {}
    explicit quotient(I d) : by(d), quick((uint32_t)(sizeof(I) == 4 ? d : 1)) {}
    __device__ I of(I n) const {
        if constexpr (sizeof(I) == 4)
            return quick.quotient(n);
        else
            return n / by;
    }
};

/* The results are contiguous. Strides of the images in elements. I: of 32 bits where sizes, windows and places fit. */
template <class I> struct division {
    I in[2], windows;
    quotient<I> out[2], channels;
    long step[4];
    int lanes, shift; /* threads of a window, side by side in a row of it: 1 << shift, up to 32 */
};

/* Is the first of these to be taken: a NaN of a later place, else a larger value, or an equal one of an earlier place?
 */
template <class C> __device__ inline bool ahead(C value, int place, C than, int there) {
    if (value != value) return than == than || place > there;
    return than == than && (value > than || (value == than && place < there));
}

template <class T, class I>
__global__ void __launch_bounds__(DL_BLOCK)
    parts_kernel(const __grid_constant__ division<I> d, const T *x, T *out, long *index) {
    typedef calc_t<T> C;
    const int lane = threadIdx.x & (d.lanes - 1);
    const I w = (I)(((long)blockIdx.x * DL_BLOCK + threadIdx.x) >> d.shift);
    C best = -(C)INFINITY;
    int place = 0x7fffffff;
    if (w < d.windows) {
        const I line = d.out[1].of(w), column = w - line * d.out[1].by, plane = d.out[0].of(line);
        const I row = line - plane * d.out[0].by, n = d.channels.of(plane), c = plane - n * d.channels.by;
        const I top = d.out[0].of(row * d.in[0]), end = d.out[0].of((row + 1) * d.in[0] + d.out[0].by - 1);
        const I left = d.out[1].of(column * d.in[1]), right = d.out[1].of((column + 1) * d.in[1] + d.out[1].by - 1);
        const T *image = x + (long)n * d.step[0] + (long)c * d.step[1];
        for (I y = top; y < end; y++) {
            const T *pixels = image + (long)y * d.step[2];
#pragma unroll 4
            for (I z = left + lane; z < right; z += d.lanes) {
                const C v = dl_up(pixels[(long)z * d.step[3]]);
                const int at = (int)(y * d.in[1] + z);
                if (ahead(v, at, best, place)) best = v, place = at;
            }
        }
    }
    for (int k = d.lanes / 2; k; k /= 2) {
        C v = __shfl_xor_sync(0xffffffffu, best, k);
        int at = __shfl_xor_sync(0xffffffffu, place, k);
        if (ahead(v, at, best, place)) best = v, place = at;
    }
    if (!lane && w < d.windows) out[w] = dl_down<T>(best), index[w] = place;
}

/* As many threads as share the numbers of a sector of memory in a row of a window; more for long rows, and where there
 * are few windows. */
static int lanes_of(long width, long windows, size_t size) {
    const long sector = size < 4 ? 8 : 32 / (long)size, few = 1 << 18; /* more threads join for longer than they read */
    int lanes = 1;
    while (lanes < 32 && 2 * lanes <= width && (lanes < sector || 8 * lanes < width || windows * lanes < few))
        lanes *= 2;
    return lanes;
}

template <class T, class I>
static dl_status largest(dl_gpu *g, const dl_tensor *x, const dl_tensor *o, const dl_tensor *at) {
    division<I> d;
    for (int i = 0; i < 2; i++) d.in[i] = (I)x->shape[2 + i], d.out[i] = quotient<I>((I)o->shape[2 + i]);
    d.channels = quotient<I>((I)x->shape[1]), d.windows = (I)o->numel;
    d.lanes = lanes_of((x->shape[3] + o->shape[3] - 1) / o->shape[3], (long)o->numel, sizeof(T));
    d.shift = dl_bits(d.lanes) - 1;
    memcpy(d.step, x->stride, sizeof d.step);
    parts_kernel<T, I><<<dl_blocks((long)o->numel * d.lanes, DL_BLOCK), DL_BLOCK, 0, g->stream>>>(
        d, dl_data<T>(x), dl_data<T>(o), dl_data<long>(at));
    return dl_gpu_launched(g);
}

static dl_status run_adaptive_largest(dl_call *c) {
    DL_USE_GPU(gpu, c->device);
    const dl_tensor *x = c->in[0], *o = c->out[0], *at = OUTPUT(c, ADAPTIVE_LARGEST_INDICES);
    if (!o->numel) return DL_OK;
    if (x->shape[2] * x->shape[3] > 0x7fffffff)
        return dl_fail(DL_ERR_SHAPE, "image planes must have fewer than 2^31 pixels");
    bool small = o->numel < 0x7fffffff;
    for (int i = 0; i < 2; i++) small = small && (x->shape[2 + i] + 1) * (double)(o->shape[2 + i] + 1) < 0x7fffffff;
    return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return small ? largest<T, unsigned>(gpu, x, o, at) : largest<T, unsigned long>(gpu, x, o, at);
    });
}
const dl_kernel dl_cuda_adaptive_largest = {run_adaptive_largest, NULL, DL_FLOATS, NULL, 0};
