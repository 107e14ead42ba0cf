/* Weight gradients that several blocks sum in shares: the number of shares, and the sum over them. */
#include "cuda/conv/sums.h"
#include "cuda/kernels/rows.cuh"

enum { THREADS = 256, WARPS = THREADS / DL_WARP };

dl_status dl_conv_shares(dl_gpu *gpu, const void *kernel, int threads, long bytes, long chunks, long n, long *shares) {
    int resident = 0;
    cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e == cudaSuccess) e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, (size_t)bytes);
    *shares = (long)gpu->sms * resident / chunks;
    if (*shares < 1) *shares = 1;
    long rounds = (n + *shares - 1) / *shares;
    *shares = (n + rounds - 1) / rounds;
    return dl_gpu_check(gpu, e, "asking how many blocks fit");
}

/* One weight's gradient, summed by a block over pixels inside the image alone; thread 0 gets it. The kernels read
 * padding and missing rows as zeros, and zero times infinity is NaN. */
__device__ static double inside(const dl_conv &g, const float *x, const float *grad, long at, double *shared) {
    long taps = g.k[0] * g.k[1], tap = at % taps, c = at / taps % g.C, o = at / taps / g.C, plane = g.out[0] * g.out[1];
    double sum = 0;
    for (long i = threadIdx.x; i < g.N * plane; i += THREADS) {
        long n = i / plane, rest = i % plane;
        long row = rest / g.out[1] * g.stride[0] - g.pad[0] + tap / g.k[1];
        long col = rest % g.out[1] * g.stride[1] - g.pad[1] + tap % g.k[1];
        if (row < 0 || row >= g.in[0] || col < 0 || col >= g.in[1]) continue;
        sum += (double)grad[(n * g.O + o) * plane + rest] * (double)x[((n * g.C + c) * g.in[0] + row) * g.in[1] + col];
    }
    return dl_row_join(sum, dl_sum_f(), shared, THREADS);
}

/* A lane has one weight, a warp some of the shares. Sums from index `own` on go to `second`. x NULL: sums that are not
 * finite are not computed again. */
__global__ static void __launch_bounds__(THREADS)
    join_kernel(const __grid_constant__ dl_conv g, const float *x, const float *grad, const float *part, int shares,
                long n, float *first, long own, float *second) {
    __shared__ double sums[WARPS][DL_WARP];
    __shared__ unsigned odd;
    int lane = threadIdx.x % DL_WARP, warp = threadIdx.x / DL_WARP;
    long begin = (long)blockIdx.x * DL_WARP, at = begin + lane;
    double sum = 0;
#pragma unroll 8
    for (int i = warp; i < shares; i += WARPS)
        if (at < n) sum += (double)part[(size_t)i * n + at];
    sums[warp][lane] = sum;
    __syncthreads();
    if (!warp) {
        for (int k = 1; k < WARPS; k++) sum += sums[k][lane];
        if (at < own)
            first[at] = (float)sum;
        else if (at < n && second)
            second[at - own] = (float)sum;
        unsigned wrong = __ballot_sync(~0u, at < own && !isfinite((float)sum));
        if (!lane) odd = x ? wrong : 0;
    }
    __syncthreads();
    for (unsigned left = odd; left; left &= left - 1) {
        int k = __ffs((int)left) - 1;
        double again = inside(g, x, grad, begin + k, sums[0]);
        if (!threadIdx.x) first[begin + k] = (float)again;
    }
}

static unsigned blocks_for(long n) { return (unsigned)((n + DL_WARP - 1) / DL_WARP); }

dl_status dl_conv_join(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, const float *part, long shares,
                       float *dw) {
    long n = g->O * g->C * g->k[0] * g->k[1];
    join_kernel<<<blocks_for(n), THREADS, 0, gpu->stream>>>(*g, x, grad, part, (int)shares, n, dw, n, NULL);
    return dl_gpu_launched(gpu);
}

dl_status dl_conv_join_two(dl_gpu *gpu, const float *part, long shares, long n, float *dw, long more, float *db) {
    join_kernel<<<blocks_for(n + more), THREADS, 0, gpu->stream>>>(dl_conv{}, NULL, NULL, part, (int)shares, n + more,
                                                                   dw, n, db);
    return dl_gpu_launched(gpu);
}
