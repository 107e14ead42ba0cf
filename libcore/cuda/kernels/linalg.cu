/* Launches beside the calls of cuSOLVER. */
#include "cuda/kernels/linalg.h"

enum { THREADS = 256 };

static unsigned blocks_for(long n) {
    long blocks = (n + THREADS - 1) / THREADS;
    return (unsigned)(blocks < 65535 ? blocks : 65535);
}

static __global__ void list_kernel(char **list, char *first, long each, long count) {
    long step = (long)gridDim.x * blockDim.x;
    for (long b = (long)blockIdx.x * blockDim.x + threadIdx.x; b < count; b += step) list[b] = first + b * each;
}

dl_status dl_cuda_list_matrices(dl_gpu *g, void **list, void *first, long step, long count) {
    list_kernel<<<blocks_for(count), THREADS, 0, g->stream>>>((char **)list, (char *)first, step, count);
    return dl_gpu_launched(g);
}

/* One thread a matrix. */
template <class I> __global__ void order_kernel(const I *swaps, int *pivots, long *order, long count, long m, long k) {
    long step = (long)gridDim.x * blockDim.x;
    for (long b = (long)blockIdx.x * blockDim.x + threadIdx.x; b < count; b += step) {
        long *row = order + b * m;
        for (long i = 0; i < m; i++) row[i] = i;
        for (long i = 0; i < k; i++) {
            long other = (long)swaps[b * k + i] - 1, was = row[i];
            if (other < i || other >= m) other = i; /* of a matrix with NaN */
            pivots[b * k + i] = (int)(other + 1);
            row[i] = row[other], row[other] = was;
        }
    }
}

dl_status dl_cuda_order_rows(dl_gpu *g, const void *swaps, bool wide, int *pivots, long *order, long count, long m,
                             long k) {
    if (!count) return DL_OK;
    if (wide)
        order_kernel<<<blocks_for(count), THREADS, 0, g->stream>>>((const long *)swaps, pivots, order, count, m, k);
    else
        order_kernel<<<blocks_for(count), THREADS, 0, g->stream>>>((const int *)swaps, pivots, order, count, m, k);
    return dl_gpu_launched(g);
}

/* One block a matrix: is an element of it NaN? */
template <class T> __global__ void find_nan_kernel(const T *a, bool *found, long count, long each) {
    for (long b = blockIdx.x; b < count; b += gridDim.x) {
        bool here = false;
        for (long e = threadIdx.x; e < each; e += blockDim.x) here = here || isnan(a[b * each + e]);
        bool any = __syncthreads_or(here);
        if (!threadIdx.x) found[b] = any;
    }
}

template <class T> __global__ void spread_nan_kernel(T *a, const bool *found, int *info, long count, long each) {
    for (long b = blockIdx.x; b < count; b += gridDim.x) {
        if (!found[b]) continue;
        for (long e = threadIdx.x; e < each; e += blockDim.x) a[b * each + e] = T(NAN);
        if (!threadIdx.x) info[b] = 0;
    }
}

static unsigned matrices_for(long count) { return (unsigned)(count < 65535 ? count : 65535); }

dl_status dl_cuda_find_nan(dl_gpu *g, const void *a, dl_dtype t, bool *found, long count, long each) {
    if (!count) return DL_OK;
    if (dl_dtype_is_complex(t)) t = dl_dtype_of_parts(t), each *= 2;
    if (t == DL_F64)
        find_nan_kernel<<<matrices_for(count), THREADS, 0, g->stream>>>((const double *)a, found, count, each);
    else
        find_nan_kernel<<<matrices_for(count), THREADS, 0, g->stream>>>((const float *)a, found, count, each);
    return dl_gpu_launched(g);
}

dl_status dl_cuda_spread_nan(dl_gpu *g, void *a, dl_dtype t, const bool *found, int *info, long count, long each) {
    if (!count) return DL_OK;
    if (dl_dtype_is_complex(t)) t = dl_dtype_of_parts(t), each *= 2;
    if (t == DL_F64)
        spread_nan_kernel<<<matrices_for(count), THREADS, 0, g->stream>>>((double *)a, found, info, count, each);
    else
        spread_nan_kernel<<<matrices_for(count), THREADS, 0, g->stream>>>((float *)a, found, info, count, each);
    return dl_gpu_launched(g);
}

/* Elements above the diagonal become 0; without keep also those below it, and those on it 1. Complex numbers have two
 * parts. */
template <class T> __global__ void fill_kernel(T *a, long total, long n, int parts, bool keep) {
    long step = (long)gridDim.x * blockDim.x;
    for (long e = (long)blockIdx.x * blockDim.x + threadIdx.x; e < total; e += step) {
        long row = e / parts % n, column = e / parts / n % n;
        if (!keep || row < column) a[e] = row == column && e % parts == 0 ? T(1) : T(0);
    }
}

static dl_status fill(dl_gpu *g, void *a, dl_dtype t, long count, long n, bool keep) {
    const int parts = dl_dtype_is_complex(t) ? 2 : 1;
    long total = count * n * n * parts;
    if (!total) return DL_OK;
    if (dl_dtype_of_parts(t) == DL_F64)
        fill_kernel<<<blocks_for(total), THREADS, 0, g->stream>>>((double *)a, total, n, parts, keep);
    else
        fill_kernel<<<blocks_for(total), THREADS, 0, g->stream>>>((float *)a, total, n, parts, keep);
    return dl_gpu_launched(g);
}

dl_status dl_cuda_clear_above(dl_gpu *g, void *a, dl_dtype t, long count, long n) {
    return fill(g, a, t, count, n, true);
}
dl_status dl_cuda_identities(dl_gpu *g, void *a, dl_dtype t, long count, long n) {
    return fill(g, a, t, count, n, false);
}
