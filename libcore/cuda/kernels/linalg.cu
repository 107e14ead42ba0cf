/* Launches beside the calls of cuSOLVER. */
#include "cuda/kernels/linalg.h"

enum { THREADS = 256 };

static unsigned blocks_for(long n) {
    long blocks = (n + THREADS - 1) / THREADS;
    return (unsigned)(blocks < 65535 ? blocks : 65535);
}

/* One thread a matrix. */
__global__ void order_kernel(const int64_t *swaps, int *pivots, long *order, long count, long m, long k) {
    long step = (long)gridDim.x * blockDim.x;
    for (long b = (long)blockIdx.x * blockDim.x + threadIdx.x; b < count; b += step) {
        long *row = order + b * m;
        for (long i = 0; i < m; i++) row[i] = i;
        for (long i = 0; i < k; i++) {
            long other = (long)swaps[b * k + i] - 1, was = row[i];
            pivots[b * k + i] = (int)(other + 1);
            row[i] = row[other], row[other] = was;
        }
    }
}

dl_status dl_cuda_order_rows(dl_gpu *g, const int64_t *swaps, int *pivots, long *order, long count, long m, long k) {
    if (!count) return DL_OK;
    order_kernel<<<blocks_for(count), THREADS, 0, g->stream>>>(swaps, pivots, order, count, m, k);
    return dl_gpu_launched(g);
}

/* Elements above the diagonal become 0; without keep also those below it, and those on it 1. */
template <class T> __global__ void fill_kernel(T *a, long total, long n, bool keep) {
    long step = (long)gridDim.x * blockDim.x;
    for (long e = (long)blockIdx.x * blockDim.x + threadIdx.x; e < total; e += step) {
        long row = e % n, column = e / n % n;
        if (!keep || row < column) a[e] = row == column ? T(1) : T(0);
    }
}

static dl_status fill(dl_gpu *g, void *a, dl_dtype t, long count, long n, bool keep) {
    long total = count * n * n;
    if (!total) return DL_OK;
    if (t == DL_F64)
        fill_kernel<<<blocks_for(total), THREADS, 0, g->stream>>>((double *)a, total, n, keep);
    else
        fill_kernel<<<blocks_for(total), THREADS, 0, g->stream>>>((float *)a, total, n, keep);
    return dl_gpu_launched(g);
}

dl_status dl_cuda_clear_above(dl_gpu *g, void *a, dl_dtype t, long count, long n) {
    return fill(g, a, t, count, n, true);
}
dl_status dl_cuda_identities(dl_gpu *g, void *a, dl_dtype t, long count, long n) {
    return fill(g, a, t, count, n, false);
}
