/* Sums of convolutions that blocks share: how many shares there are, and how they are joined. */
#include "cuda/conv_sums.h"
#include "cuda/rows.cuh"

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

/* A warp has neighbours of the weights, and some shares of them. */
__global__ static void __launch_bounds__(THREADS)
    join_kernel(const float *part, int shares, long n, float *first, long own, float *second) {
    __shared__ double sums[WARPS][DL_WARP];
    int lane = threadIdx.x % DL_WARP, warp = threadIdx.x / DL_WARP;
    long at = (long)blockIdx.x * DL_WARP + lane;
    double sum = 0;
#pragma unroll 8
    for (int i = warp; i < shares; i += WARPS)
        if (at < n) sum += (double)part[(size_t)i * n + at];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp || at >= n) return;
    for (int k = 1; k < WARPS; k++) sum += sums[k][lane];
    if (at < own)
        first[at] = (float)sum;
    else if (second)
        second[at - own] = (float)sum;
}

dl_status dl_conv_join(dl_gpu *gpu, const float *part, long shares, long n, float *dw) {
    return dl_conv_join_two(gpu, part, shares, n, dw, 0, NULL);
}

dl_status dl_conv_join_two(dl_gpu *gpu, const float *part, long shares, long n, float *dw, long more, float *db) {
    long all = n + more;
    join_kernel<<<(unsigned)((all + DL_WARP - 1) / DL_WARP), THREADS, 0, gpu->stream>>>(part, (int)shares, all, dw, n,
                                                                                        db);
    return dl_gpu_launched(gpu);
}
