/* LU, Cholesky factors and triangular systems of small real matrices: a warp has one of them in its registers, so that
 * a batch is one launch. */
#include "cuda/kernels/linalg.h"
#include "cuda/kernels/rows.cuh"

#include <type_traits>

enum { WARPS = 4, THREADS = WARPS * DL_WARP };
static const unsigned ALL = 0xffffffffu;

/* A matrix of a batch begins `step` elements behind the one before; rows and columns lie so far apart. */
template <class T> struct matrices {
    T *p;
    long step, row, column;
};

template <class T> static matrices<T> matrices_of(const dl_tensor *t, long step) {
    return {dl_data<T>(t), step, t->stride[t->ndim - 2], t->stride[t->ndim - 1]};
}

bool dl_cuda_batch_step(const dl_tensor *t, long *step) {
    long count = 1;
    *step = 0;
    for (int d = t->ndim - 3; d >= 0; d--) {
        if (t->shape[d] == 1) continue;
        if (count > 1 && t->stride[d] != *step * count) return false;
        if (count == 1) *step = t->stride[d];
        count *= t->shape[d];
    }
    return true;
}

/* launch(the least of the widths that kernels are made for, n or more). */
template <class F> static dl_status for_width(dl_gpu *g, int n, F launch) {
    if (n <= 8)
        launch(std::integral_constant<int, 8>());
    else if (n <= 16)
        launch(std::integral_constant<int, 16>());
    else
        launch(std::integral_constant<int, DL_WARP>());
    return dl_gpu_launched(g);
}

/* ---- LU */

/* Results as LAPACK has them, column by column. A matrix with a NaN has factors of NaN, and is not said to be singular.
 */
template <class T> struct lu_job {
    matrices<const T> a;
    T *lu;
    int *pivots, *info;
    long *order, count;
    int m, n;
};

/* Lane i has row i, of N numbers, from its place on; rows are not moved: `place` says which one of L U it is. */
template <class T, int N> __global__ void __launch_bounds__(THREADS) lu_kernel(const __grid_constant__ lu_job<T> j) {
    const long b = (long)blockIdx.x * WARPS + threadIdx.x / DL_WARP;
    const int lane = threadIdx.x % DL_WARP, k = j.m < j.n ? j.m : j.n;
    if (b >= j.count) return;
    T row[N];
    int place = lane, info = 0;
    bool nan = false;
    const T *from = j.a.p + b * j.a.step + lane * j.a.row;
#pragma unroll
    for (int c = 0; c < N; c++) {
        row[c] = lane < j.m && c < j.n ? from[c * j.a.column] : T(0);
        nan = nan || row[c] != row[c];
    }
    nan = __any_sync(ALL, nan);
#pragma unroll
    for (int c = 0; c < N; c++) {
        if (c >= k) break;
        /* the largest number of the column, of equal ones the one of the first place */
        T most = lane < j.m && place >= c ? fabs(row[c]) : T(-1);
        if (most != most) most = T(INFINITY);
        int at = place, who = lane;
#pragma unroll
        for (int half = DL_WARP / 2; half; half /= 2) {
            const T other = __shfl_xor_sync(ALL, most, half);
            const int other_at = __shfl_xor_sync(ALL, at, half), other_who = __shfl_xor_sync(ALL, who, half);
            if (other > most || (other == most && other_at < at)) most = other, at = other_at, who = other_who;
        }
        if (nan) /* no swaps */
            at = c, who = __ffs((int)__ballot_sync(ALL, place == c)) - 1;
        if (!lane) j.pivots[b * k + c] = at + 1;
        if (lane == who)
            place = c;
        else if (place == c)
            place = at;
        const T pivot = __shfl_sync(ALL, row[c], who);
        if (pivot == 0 && !info) info = c + 1;
        const bool below = place > c;
        if (below && pivot != 0) row[c] /= pivot;
#pragma unroll
        for (int d = c + 1; d < N; d++) {
            const T u = __shfl_sync(ALL, row[d], who);
            if (below) row[d] -= row[c] * u;
        }
    }
    if (!lane) j.info[b] = nan ? 0 : info;
    if (lane >= j.m) return;
    j.order[b * j.m + place] = lane;
    T *to = j.lu + b * j.m * j.n + place;
#pragma unroll
    for (int c = 0; c < N; c++)
        if (c < j.n) to[c * j.m] = nan ? T(NAN) : row[c];
}

template <class T> static dl_status factor(dl_gpu *g, const lu_job<T> &j) {
    return for_width(g, j.n,
                     [&](auto width) { lu_kernel<T, width><<<dl_blocks(j.count, WARPS), THREADS, 0, g->stream>>>(j); });
}

dl_status dl_cuda_small_lu(dl_gpu *g, const dl_tensor *a, long count, dl_tensor *lu, int *pivots, long *order,
                           int *info) {
    long step;
    if (!count) return DL_OK;
    if (!dl_cuda_batch_step(a, &step)) return dl_fail(DL_ERR_INTERNAL, "matrices of a batch do not lie evenly");
    return dl_dispatch<DL_BIT(DL_F32) | DL_BIT(DL_F64)>(a->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return factor(g, lu_job<T>{matrices_of<const T>(a, step), dl_data<T>(lu), pivots, info, order, count,
                                   (int)a->shape[a->ndim - 2], (int)a->shape[a->ndim - 1]});
    });
}

/* ---- Cholesky */

template <class T> struct cholesky_job {
    matrices<const T> a;
    T *l; /* column by column */
    int *info;
    long count;
    int n;
};

/* Lane i has row i up to the diagonal. Info is the first leading minor that is not positive, or NaN; there it ends. */
template <class T, int N>
__global__ void __launch_bounds__(THREADS) cholesky_kernel(const __grid_constant__ cholesky_job<T> j) {
    const long b = (long)blockIdx.x * WARPS + threadIdx.x / DL_WARP;
    const int lane = threadIdx.x % DL_WARP;
    if (b >= j.count) return;
    T row[N];
    int info = 0;
    const T *from = j.a.p + b * j.a.step + lane * j.a.row;
#pragma unroll
    for (int c = 0; c < N; c++) row[c] = lane < j.n && c <= lane ? from[c * j.a.column] : T(0);
#pragma unroll
    for (int c = 0; c < N; c++) {
        if (c >= j.n) break;
        const T square = __shfl_sync(ALL, row[c], c);
        if (!(square > 0)) {
            info = c + 1;
            break;
        }
        const T root = sqrt(square);
        if (lane == c) row[c] = root;
        if (lane > c) row[c] /= root;
#pragma unroll
        for (int d = c + 1; d < N; d++) {
            const T other = __shfl_sync(ALL, row[c], d);
            if (lane >= d) row[d] -= row[c] * other;
        }
    }
    if (!lane) j.info[b] = info;
    if (lane >= j.n) return;
    T *to = j.l + b * j.n * j.n + lane;
#pragma unroll
    for (int c = 0; c < N; c++)
        if (c < j.n) to[c * j.n] = c <= lane ? row[c] : T(0);
}

dl_status dl_cuda_small_cholesky(dl_gpu *g, const dl_tensor *a, long count, dl_tensor *l, int *info) {
    long step;
    if (!count) return DL_OK;
    if (!dl_cuda_batch_step(a, &step)) return dl_fail(DL_ERR_INTERNAL, "matrices of a batch do not lie evenly");
    return dl_dispatch<DL_BIT(DL_F32) | DL_BIT(DL_F64)>(a->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        const cholesky_job<T> j = {matrices_of<const T>(a, step), dl_data<T>(l), info, count,
                                   (int)a->shape[a->ndim - 1]};
        return for_width(g, j.n, [&](auto width) {
            cholesky_kernel<T, width><<<dl_blocks(count, WARPS), THREADS, 0, g->stream>>>(j);
        });
    });
}

/* ---- triangles */

template <class T> struct triangle_job {
    matrices<const T> a, b;
    T *x; /* column by column */
    long count, columns, parts;
    int n;
    bool upper, unit;
};

/* A warp has up to 32 columns of a right side, a lane one of them; the triangle lies in shared memory, as a lower one:
 * an upper one is turned around. What is missing up to N are rows of the identity. */
template <class T, int N>
__global__ void __launch_bounds__(THREADS) triangle_kernel(const __grid_constant__ triangle_job<T> j) {
    __shared__ T memory[WARPS][N * N];
    const long w = (long)blockIdx.x * WARPS + threadIdx.x / DL_WARP, b = w / j.parts;
    const int lane = threadIdx.x % DL_WARP;
    const long column = w % j.parts * DL_WARP + lane;
    T *a = memory[threadIdx.x / DL_WARP], x[N];
    if (b >= j.count) return;
    const T *from = j.a.p + b * j.a.step;
    for (int e = lane; e < N * N; e += DL_WARP) {
        const int r = e / N, c = e % N, row = j.upper ? j.n - 1 - r : r, col = j.upper ? j.n - 1 - c : c;
        const bool there = r < j.n && c <= r && !(j.unit && c == r);
        a[e] = there ? from[row * j.a.row + col * j.a.column] : T(r == c ? 1 : 0);
    }
    __syncwarp();
    if (column >= j.columns) return;
    const T *right = j.b.p + b * j.b.step + column * j.b.column;
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = i < j.n ? right[(j.upper ? j.n - 1 - i : i) * j.b.row] : T(0);
#pragma unroll
    for (int i = 0; i < N; i++) {
        T sum = x[i];
#pragma unroll
        for (int k = 0; k < i; k++) sum -= a[i * N + k] * x[k];
        x[i] = sum / a[i * N + i];
    }
    T *to = j.x + (b * j.columns + column) * j.n;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < j.n) to[j.upper ? j.n - 1 - i : i] = x[i];
}

template <class T> static dl_status solve(dl_gpu *g, const triangle_job<T> &j) {
    return for_width(g, j.n, [&](auto width) {
        triangle_kernel<T, width><<<dl_blocks(j.count * j.parts, WARPS), THREADS, 0, g->stream>>>(j);
    });
}

dl_status dl_cuda_small_triangle(dl_gpu *g, const dl_tensor *a, const dl_tensor *b, long count, dl_tensor *x,
                                 bool upper, bool unit) {
    long step_a, step_b;
    const long columns = b->shape[b->ndim - 1];
    if (!count || !columns) return DL_OK;
    if (!dl_cuda_batch_step(a, &step_a) || !dl_cuda_batch_step(b, &step_b))
        return dl_fail(DL_ERR_INTERNAL, "matrices of a batch do not lie evenly");
    return dl_dispatch<DL_BIT(DL_F32) | DL_BIT(DL_F64)>(a->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return solve(g, triangle_job<T>{matrices_of<const T>(a, step_a), matrices_of<const T>(b, step_b), dl_data<T>(x),
                                        count, columns, (columns + DL_WARP - 1) / DL_WARP, (int)a->shape[a->ndim - 1],
                                        upper, unit});
    });
}
