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

/* One thread a matrix, for small ones. */
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

/* One block a matrix: the swaps are read and the order is kept in shared memory, where one thread makes them. */
template <class I> __global__ void order_large_kernel(const I *swaps, int *pivots, long *order, int m, int k) {
    extern __shared__ int row[];
    int *other = row + m;
    const long b = blockIdx.x;
    for (int i = threadIdx.x; i < m; i += blockDim.x) row[i] = i;
    for (int i = threadIdx.x; i < k; i += blockDim.x) {
        long to = (long)swaps[b * k + i] - 1;
        other[i] = to < i || to >= m ? i : (int)to; /* of a matrix with NaN */
        pivots[b * k + i] = other[i] + 1;
    }
    __syncthreads();
    for (int i = 0; i < k && !threadIdx.x; i++) {
        int was = row[i];
        row[i] = row[other[i]], row[other[i]] = was;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < m; i += blockDim.x) order[b * m + i] = row[i];
}

enum { ORDER_SMALL = 64, ORDER_SHARED = 48 << 10 };

dl_status dl_cuda_order_rows(dl_gpu *g, const void *swaps, bool wide, int *pivots, long *order, long count, long m,
                             long k) {
    if (!count) return DL_OK;
    const size_t room = (size_t)(m + k) * sizeof(int);
    if (m > ORDER_SMALL && room <= ORDER_SHARED) {
        if (wide)
            order_large_kernel<<<(unsigned)count, THREADS, room, g->stream>>>((const long *)swaps, pivots, order,
                                                                              (int)m, (int)k);
        else
            order_large_kernel<<<(unsigned)count, THREADS, room, g->stream>>>((const int *)swaps, pivots, order, (int)m,
                                                                              (int)k);
        return dl_gpu_launched(g);
    }
    if (wide)
        order_kernel<<<blocks_for(count), THREADS, 0, g->stream>>>((const long *)swaps, pivots, order, count, m, k);
    else
        order_kernel<<<blocks_for(count), THREADS, 0, g->stream>>>((const int *)swaps, pivots, order, count, m, k);
    return dl_gpu_launched(g);
}

/* A row of blocks a matrix: is an element of it NaN? `found` is false at first. */
template <class T> __global__ void find_nan_kernel(const T *a, bool *found, long count, long each) {
    const long first = (long)blockIdx.y * blockDim.x + threadIdx.x, step = (long)gridDim.y * blockDim.x;
    for (long b = blockIdx.x; b < count; b += gridDim.x) {
        bool here = false;
        for (long e = first; e < each; e += step) here = here || isnan(a[b * each + e]);
        if (here) found[b] = true;
    }
}

template <class T> __global__ void spread_nan_kernel(T *a, const bool *found, int *info, long count, long each) {
    for (long b = blockIdx.x; b < count; b += gridDim.x) {
        if (!found[b]) continue;
        const long first = (long)blockIdx.y * blockDim.x + threadIdx.x, step = (long)gridDim.y * blockDim.x;
        for (long e = first; e < each; e += step) a[b * each + e] = T(NAN);
        if (!first) info[b] = 0;
    }
}

/* Matrices, and blocks for each of them, which has some thousands of elements a block. */
static dim3 matrices_for(long count, long each) {
    const long blocks = (each + 8191) / 8192;
    return dim3((unsigned)(count < 65535 ? count : 65535), (unsigned)(blocks < 1 ? 1 : blocks < 256 ? blocks : 256));
}

dl_status dl_cuda_find_nan(dl_gpu *g, const void *a, dl_dtype t, bool *found, long count, long each) {
    if (!count) return DL_OK;
    if (dl_dtype_is_complex(t)) t = dl_dtype_of_parts(t), each *= 2;
    DL_TRY(dl_gpu_check(g, cudaMemsetAsync(found, 0, (size_t)count, g->stream), "the search for NaN"));
    if (t == DL_F64)
        find_nan_kernel<<<matrices_for(count, each), THREADS, 0, g->stream>>>((const double *)a, found, count, each);
    else
        find_nan_kernel<<<matrices_for(count, each), THREADS, 0, g->stream>>>((const float *)a, found, count, each);
    return dl_gpu_launched(g);
}

dl_status dl_cuda_spread_nan(dl_gpu *g, void *a, dl_dtype t, const bool *found, int *info, long count, long each) {
    if (!count) return DL_OK;
    if (dl_dtype_is_complex(t)) t = dl_dtype_of_parts(t), each *= 2;
    if (t == DL_F64)
        spread_nan_kernel<<<matrices_for(count, each), THREADS, 0, g->stream>>>((double *)a, found, info, count, each);
    else
        spread_nan_kernel<<<matrices_for(count, each), THREADS, 0, g->stream>>>((float *)a, found, info, count, each);
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
