/* Kernels of the check of convolutions: random operands, and the distance of two results. */
#include "cuda/conv/check.h"

#include "cuda/runtime/types.cuh"

enum { BLOCKS = 256, THREADS = 256 };

/* A mixing function of 32 bits (Wellons' lowbias32). */
__global__ void draw_kernel(float *p, long n, unsigned seed) {
    for (long i = (long)blockIdx.x * THREADS + threadIdx.x; i < n; i += (long)BLOCKS * THREADS) {
        uint32_t x = (uint32_t)i * 2654435761u + seed;
        x ^= x >> 16, x *= 0x21f0aaadu, x ^= x >> 15, x *= 0x735a2d97u, x ^= x >> 15;
        p[i] = (float)(int32_t)x * 4.6566128e-10f;
    }
}

dl_status dl_conv_draw(dl_gpu *g, float *p, long n, unsigned seed) {
    draw_kernel<<<BLOCKS, THREADS, 0, g->stream>>>(p, n, seed);
    return dl_gpu_launched(g);
}

/* Each block sums (a - b)^2 and b^2 over its elements. */
__global__ void distance_kernel(const double *a, const double *b, long n, double *out) {
    __shared__ double sum[2][THREADS];
    double d = 0, m = 0;
    for (long i = (long)blockIdx.x * THREADS + threadIdx.x; i < n; i += (long)BLOCKS * THREADS)
        d += (a[i] - b[i]) * (a[i] - b[i]), m += b[i] * b[i];
    sum[0][threadIdx.x] = d, sum[1][threadIdx.x] = m;
    for (int k = THREADS / 2; k; k /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < k)
            for (int j = 0; j < 2; j++) sum[j][threadIdx.x] += sum[j][threadIdx.x + k];
    }
    if (!threadIdx.x) out[blockIdx.x] = sum[0][0], out[BLOCKS + blockIdx.x] = sum[1][0];
}

double dl_conv_distance(dl_gpu *g, const double *a, const double *b, long n) {
    double part[2 * BLOCKS], d = 0, m = 0;
    double *out = (double *)dl_gpu_take(g, sizeof part);
    if (!out) return -1;
    distance_kernel<<<BLOCKS, THREADS, 0, g->stream>>>(a, b, n, out);
    cudaError_t e = cudaMemcpyAsync(part, out, sizeof part, cudaMemcpyDeviceToHost, g->stream);
    if (e == cudaSuccess) e = cudaStreamSynchronize(g->stream);
    dl_gpu_drop(g, out);
    if (dl_gpu_check(g, e, "checking a convolution") != DL_OK) return -1;
    for (int i = 0; i < BLOCKS; i++) d += part[i], m += part[BLOCKS + i];
    return m > 0 ? sqrt(d / m) : -1;
}
