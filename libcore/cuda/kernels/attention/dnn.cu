/* What attention through cuDNN needs beside it: lengths, masks as numbers, and queries that see nothing. */
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/rows.cuh"

enum { THREADS = 256 };

__global__ void lengths_kernel(const void *lengths, bool from_i64, int n, int all_rows, int all_keys, int *rows,
                               int *keys) {
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    long len = !lengths ? all_keys : from_i64 ? ((const long *)lengths)[i] : ((const int *)lengths)[i];
    rows[i] = all_rows, keys[i] = (int)(len < 0 ? 0 : len > all_keys ? all_keys : len);
}

dl_status dl_attention_lengths(dl_gpu *g, const dl_attention_sizes *a, const dl_tensor *lengths, int *rows, int *keys) {
    lengths_kernel<<<dl_blocks(a->batch, THREADS), THREADS, 0, g->stream>>>(
        lengths ? dl_ptr(lengths) : NULL, lengths && lengths->dtype == DL_I64, (int)a->batch, (int)a->rows,
        (int)a->keys, rows, keys);
    return dl_gpu_launched(g);
}

/* What a masked score gets, far below all others, and from where on a statistic says that all were masked. */
template <class T> struct masked;
template <> struct masked<bf16> { static constexpr float number = -1e38f, limit = -5e37f; };
template <> struct masked<f16> { static constexpr float number = -60000.f, limit = -30000.f; };

struct mask_of {
    const char *p;
    bool added;
    long size[4], step[4];
};

template <class T> __global__ void bias_kernel(mask_of m, T *bias, long n) {
    long i = (long)blockIdx.x * THREADS + threadIdx.x, at = 0, rest = i;
    if (i >= n) return;
    for (int d = 3; d >= 0; d--) at += rest % m.size[d] * m.step[d], rest /= m.size[d];
    float x = m.added ? dl_up(((const T *)m.p)[at]) : ((const bool *)m.p)[at] ? 0 : masked<T>::number;
    bias[i] = dl_down<T>(x < masked<T>::number ? masked<T>::number : x);
}

dl_status dl_attention_bias(dl_gpu *g, const dl_tensor *mask, dl_tensor *bias) {
    mask_of m = {(const char *)dl_ptr(mask), mask->dtype != DL_BOOL, {0}, {0}};
    for (int d = 0; d < 4; d++) m.size[d] = mask->shape[d], m.step[d] = mask->stride[d];
    return dl_dispatch<DL_HALVES>(bias->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        bias_kernel<T><<<dl_blocks(bias->numel, THREADS), THREADS, 0, g->stream>>>(m, dl_data<T>(bias), bias->numel);
        return dl_gpu_launched(g);
    });
}

/* A warp a query. */
template <class T> __global__ void blind_kernel(T *out, float *stats, long rows, long size) {
    long r = ((long)blockIdx.x * THREADS + threadIdx.x) / DL_WARP;
    if (r >= rows || !(stats[r] < masked<T>::limit)) return;
    for (long j = threadIdx.x % DL_WARP; j < size; j += DL_WARP) out[r * size + j] = dl_down<T>(0.f);
    __syncwarp();
    if (threadIdx.x % DL_WARP == 0) stats[r] = INFINITY;
}

dl_status dl_attention_blind(dl_gpu *g, dl_tensor *out, dl_tensor *stats) {
    return dl_dispatch<DL_HALVES>(out->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        blind_kernel<T><<<dl_blocks(stats->numel, THREADS / DL_WARP), THREADS, 0, g->stream>>>(
            dl_data<T>(out), dl_data<float>(stats), stats->numel, out->shape[3]);
        return dl_gpu_launched(g);
    });
}
