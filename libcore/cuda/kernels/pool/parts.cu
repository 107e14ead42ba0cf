/* The largest value of each of the windows that divide an image, and its place: a warp for a window. */
#include "cuda/kernels/pool/images.cuh"
#include "cuda/kernels/rows.cuh"
#include "ops/names/conv.h"

/* The results are contiguous. Strides of the images in elements. */
typedef struct division {
    long in[2], out[2], step[4], channels, windows;
} division;

/* Is the first of these to be taken: a NaN of a later place, else a larger value, or an equal one of an earlier place?
 */
template <class C> __device__ inline bool ahead(C value, int place, C than, int there) {
    if (value != value) return than == than || place > there;
    return than == than && (value > than || (value == than && place < there));
}

template <class T>
__global__ void __launch_bounds__(DL_BLOCK) parts_kernel(division d, const T *x, T *out, long *index) {
    typedef calc_t<T> C;
    long w = ((long)blockIdx.x * DL_BLOCK + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (w >= d.windows) return;
    long column = w % d.out[1], row = w / d.out[1] % d.out[0], plane = w / (d.out[1] * d.out[0]);
    long top = row * d.in[0] / d.out[0], end = ((row + 1) * d.in[0] + d.out[0] - 1) / d.out[0];
    long left = column * d.in[1] / d.out[1], right = ((column + 1) * d.in[1] + d.out[1] - 1) / d.out[1];
    int width = (int)(right - left), pixels = (int)((end - top) * width);
    const T *image = x + plane / d.channels * d.step[0] + plane % d.channels * d.step[1];
    C best = -(C)INFINITY;
    int place = 0x7fffffff;
    for (int e = (int)lane; e < pixels; e += 32) {
        long y = top + e / width, z = left + e % width;
        C v = dl_up(image[y * d.step[2] + z * d.step[3]]);
        int at = (int)(y * d.in[1] + z);
        if (ahead(v, at, best, place)) best = v, place = at;
    }
#pragma unroll
    for (int k = 16; k; k /= 2) {
        C v = __shfl_xor_sync(0xffffffffu, best, k);
        int at = __shfl_xor_sync(0xffffffffu, place, k);
        if (ahead(v, at, best, place)) best = v, place = at;
    }
    if (!lane) out[w] = dl_down<T>(best), index[w] = place;
}

static dl_status run_adaptive_largest(dl_call *c) {
    DL_USE_GPU(gpu, c->device);
    const dl_tensor *x = c->in[0], *o = c->out[0], *at = OUTPUT(c, ADAPTIVE_LARGEST_INDICES);
    if (!o->numel) return DL_OK;
    if (x->shape[2] * x->shape[3] > 0x7fffffff)
        return dl_fail(DL_ERR_SHAPE, "image planes must have fewer than 2^31 pixels");
    division d = {{x->shape[2], x->shape[3]}, {o->shape[2], o->shape[3]}, {}, x->shape[1], (long)o->numel};
    memcpy(d.step, x->stride, sizeof d.step);
    return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        parts_kernel<T><<<(unsigned)((d.windows * 32 + DL_BLOCK - 1) / DL_BLOCK), DL_BLOCK, 0, gpu->stream>>>(
            d, dl_data<T>(x), dl_data<T>(o), dl_data<long>(at));
        return dl_gpu_launched(gpu);
    });
}
const dl_kernel dl_cuda_adaptive_largest = {run_adaptive_largest, NULL, DL_FLOATS, NULL, 0};
