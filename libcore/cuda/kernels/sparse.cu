/* Patterns of sparse matrices: checks, elements of products at their places, and transposes. */
#include "cuda/kernels/rows.cuh"
#include "cuda/kernels/sparse.h"
#include "cuda/kernels/index/scatter.h"
#include "ops/names/sparse.h"

enum { THREADS = 256, FEW = 16 }; /* FEW: elements of a row up to which one thread multiplies two rows */

/* ---- checks: of what is wrong the first that is found is reported; then all entries stand in row and column 0 */

struct given {
    const char *crow, *col;
    int crow_wide, col_wide;
    long rows, cols, nnz;
    __device__ static long at(const char *p, int wide, long i) {
        return wide ? ((const long *)p)[i] : (long)((const int *)p)[i];
    }
};

static __global__ void __launch_bounds__(THREADS) check_kernel(given p, int *bad, dl_fault_site site) {
    const long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i <= p.rows) {
        const long here = given::at(p.crow, p.crow_wide, i),
                   next = i < p.rows ? given::at(p.crow, p.crow_wide, i + 1) : here;
        if ((i == 0 && here) || next < here || (i == p.rows && here != p.nnz)) {
            *bad = 1;
            dl_fault_raise(site, DL_FAULT_CROW, here, i < p.rows ? next : p.nnz);
        }
    }
    if (i < p.nnz) {
        const long col = given::at(p.col, p.col_wide, i);
        if (col < 0 || col >= p.cols) {
            *bad = 1;
            dl_fault_raise(site, DL_FAULT_COLUMN, col, p.cols);
        }
    }
}

template <class I>
static __global__ void __launch_bounds__(THREADS) take_kernel(given p, const int *bad, I *crow, I *col) {
    const long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i <= p.rows) crow[i] = (I)(*bad ? (i ? p.nnz : 0) : given::at(p.crow, p.crow_wide, i));
    if (i < p.nnz) col[i] = (I)(*bad ? 0 : given::at(p.col, p.col_wide, i));
}

static dl_status take(dl_gpu *g, const dl_op *op, const given &from, dl_pattern *p) {
    const long n = from.nnz > from.rows + 1 ? from.nnz : from.rows + 1;
    const unsigned blocks = dl_blocks(n, THREADS);
    int *bad = (int *)dl_gpu_take(g, sizeof *bad);
    if (!bad) return dl_failed();
    dl_status st = dl_gpu_check(g, cudaMemsetAsync(bad, 0, sizeof *bad, g->stream), "checking a sparse matrix");
    if (st == DL_OK) {
        check_kernel<<<blocks, THREADS, 0, g->stream>>>(from, bad, dl_gpu_site(g, op));
        if (p->wide)
            take_kernel<<<blocks, THREADS, 0, g->stream>>>(from, bad, (long *)p->crow, (long *)p->col);
        else
            take_kernel<<<blocks, THREADS, 0, g->stream>>>(from, bad, (int *)p->crow, (int *)p->col);
        st = dl_gpu_launched(g);
    }
    dl_gpu_drop(g, bad);
    return st;
}

dl_status dl_pattern_begin(dl_gpu *g, const dl_op *op, dl_tensor *crow, dl_tensor *col, long cols, dl_pattern *p) {
    const long most = 0x7fffffff;
    *p = (dl_pattern){NULL, NULL, false, (long)crow->numel - 1, cols, (long)col->numel};
    p->wide = p->rows >= most || p->cols >= most || p->nnz >= most;
    const size_t each = p->wide ? sizeof(long) : sizeof(int);
    dl_tensor *from = dl_cuda_contiguous(g, crow), *at = from ? dl_cuda_contiguous(g, col) : NULL;
    if (at) p->crow = dl_gpu_take(g, each * (size_t)(p->rows + 1));
    if (p->crow) p->col = dl_gpu_take(g, each * (size_t)(p->nnz + 1));
    given list = {};
    if (p->col)
        list = {dl_data<char>(from),
                dl_data<char>(at),
                from->dtype == DL_I64,
                at->dtype == DL_I64,
                p->rows,
                p->cols,
                p->nnz};
    dl_status st = p->col ? take(g, op, list, p) : dl_failed();
    dl_unref(from), dl_unref(at);
    return st;
}

void dl_pattern_end(dl_gpu *g, dl_pattern *p) {
    if (p->crow) dl_gpu_drop(g, p->crow);
    if (p->col) dl_gpu_drop(g, p->col);
}

dl_status dl_pattern_rows(dl_gpu *g, dl_tensor *t, dl_tensor **out, long *step) {
    const bool dense = t->stride[1] == 1 && t->stride[0] >= t->shape[1];
    *out = dense ? dl_ref(t) : dl_cuda_contiguous(g, t);
    *step = dense ? t->stride[0] : t->shape[1];
    return *out ? DL_OK : dl_failed();
}

/* The row of entry e: the last one that begins at e or before. */
template <class I> __device__ inline long row_of(const I *crow, long rows, long e) {
    long lo = 0, hi = rows; /* crow[lo] <= e < crow[hi] */
    while (hi - lo > 1) {
        const long mid = lo + (hi - lo) / 2;
        if ((long)crow[mid] <= e)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* ---- elements of a product: a warp has 32 entries and, where rows are long, computes one after the other */

template <class T, class I> struct places {
    const I *crow, *col;
    long rows, nnz, n, left_step, right_step;
    const T *left, *right; /* right: a row for each column */
    T *out;
};

template <class T, class I>
static __global__ void __launch_bounds__(THREADS) sddmm_kernel(const __grid_constant__ places<T, I> p) {
    typedef calc_t<T> C;
    const long e = (long)blockIdx.x * THREADS + threadIdx.x, first = e - threadIdx.x % DL_WARP;
    const int lane = threadIdx.x % DL_WARP;
    const long row = e < p.nnz ? row_of(p.crow, p.rows, e) : 0, col = e < p.nnz ? (long)p.col[e] : 0;
    C mine = 0;
    if (p.n <= FEW) {
        for (long i = 0; i < p.n && e < p.nnz; i++)
            mine += dl_up(p.left[row * p.left_step + i]) * dl_up(p.right[col * p.right_step + i]);
    } else {
        for (int k = 0; k < DL_WARP && first + k < p.nnz; k++) {
            const T *x = p.left + __shfl_sync(~0u, row, k) * p.left_step;
            const T *y = p.right + __shfl_sync(~0u, col, k) * p.right_step;
            C sum = 0;
            for (long i = lane; i < p.n; i += DL_WARP) sum += dl_up(x[i]) * dl_up(y[i]);
            for (int by = DL_WARP / 2; by; by /= 2) sum += __shfl_xor_sync(~0u, sum, by);
            if (lane == k) mine = sum;
        }
    }
    if (e < p.nnz) p.out[e] = dl_down<T>(mine);
}

template <class T, class I>
static dl_status sample(dl_gpu *g, const dl_pattern *p, const dl_tensor *left, long left_step, const T *right,
                        long right_step, dl_tensor *o) {
    const places<T, I> job = {(const I *)p->crow, (const I *)p->col, p->rows,          p->nnz, (long)left->shape[1],
                              left_step,          right_step,        dl_data<T>(left), right,  dl_data<T>(o)};
    sddmm_kernel<<<dl_blocks(p->nnz, THREADS), THREADS, 0, g->stream>>>(job);
    return dl_gpu_launched(g);
}

/* The transpose of b with dense rows: b's memory, or a copy in *own. */
template <class T> static const T *turned(dl_gpu *g, const dl_tensor *b, void **own, long *step) {
    const long shape[2] = {b->shape[1], b->shape[0]}, from[2] = {b->stride[1], b->stride[0]}, to[2] = {b->shape[0], 1};
    *own = NULL, *step = from[0];
    if (from[1] == 1 && from[0] >= shape[1]) return dl_data<T>(b);
    *step = to[0];
    *own = dl_gpu_take(g, sizeof(T) * (size_t)(b->numel + 1));
    const dl_dtype t = (dl_dtype)b->dtype;
    if (!*own || dl_cuda_copy_strided(g, 2, shape, *own, t, to, dl_ptr(b), t, from) != DL_OK) return NULL;
    return (const T *)*own;
}

template <class T> static dl_status sddmm(dl_gpu *g, dl_call *c, const dl_pattern *p) {
    dl_tensor *left = NULL;
    void *own = NULL;
    long left_step, right_step;
    dl_status st = dl_pattern_rows(g, c->in[0], &left, &left_step);
    const T *right = st == DL_OK ? turned<T>(g, INPUT(c, SDDMM_MAT2), &own, &right_step) : NULL;
    if (st == DL_OK && !right) st = dl_failed();
    if (st == DL_OK)
        st = p->wide ? sample<T, long>(g, p, left, left_step, right, right_step, c->out[0])
                     : sample<T, int>(g, p, left, left_step, right, right_step, c->out[0]);
    if (own) dl_gpu_drop(g, own);
    dl_unref(left);
    return st;
}

static dl_status run_sddmm(dl_call *c) {
    DL_USE_GPU(g, c->device);
    const dl_tensor *b = INPUT(c, SDDMM_MAT2);
    dl_pattern p = {};
    dl_status st = dl_pattern_begin(g, c->op, INPUT(c, SDDMM_CROW), INPUT(c, SDDMM_COL), b->shape[1], &p);
    if (st == DL_OK && p.nnz && p.rows && p.cols)
        st = b->numel
                 ? dl_dispatch<DL_FLOATS>(c->out[0]->dtype, [&](auto tag) { return sddmm<decltype(tag)>(g, c, &p); })
                 : dl_cuda_clear(g, c->out[0]);
    dl_pattern_end(g, &p);
    return st;
}
const dl_kernel dl_cuda_sddmm = {run_sddmm, NULL, DL_FLOATS, NULL, 0};

/* ---- the transpose: entries sorted by column, equal ones in their order */

template <class U> static __global__ void __launch_bounds__(THREADS) count_kernel(U *at, long n) {
    const long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) at[i] = (U)i;
}

/* key: the columns, sorted; order: which entry each is. */
template <class I, class K, class U>
static __global__ void __launch_bounds__(THREADS)
    transpose_kernel(const I *crow, long rows, const K *key, const U *order, long nnz, long cols, long *t_crow,
                     long *t_col, long *t_order) {
    const long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i < nnz) t_order[i] = (long)order[i], t_col[i] = row_of(crow, rows, (long)order[i]);
    if (i > cols) return;
    long lo = 0, hi = nnz; /* the first entry whose column is i or more */
    while (lo < hi) {
        const long mid = lo + (hi - lo) / 2;
        if ((long)key[mid] < i)
            lo = mid + 1;
        else
            hi = mid;
    }
    t_crow[i] = lo;
}

static dl_status sort_by(dl_gpu *g, const unsigned *key, unsigned *sorted, const unsigned *v, unsigned *order, long n,
                         int bits) {
    return dl_cuda_sort_words(g, key, sorted, v, order, n, 0, bits);
}
static dl_status sort_by(dl_gpu *g, const uint64_t *key, uint64_t *sorted, const long *v, long *order, long n,
                         int bits) {
    return dl_cuda_sort_pairs(g, key, sorted, v, order, n, 0, bits);
}

/* I: the pattern's type, K: that of keys, U: that of the numbers of entries. */
template <class I, class K, class U> static dl_status transpose(dl_gpu *g, dl_call *c, const dl_pattern *p) {
    const size_t room = (size_t)(p->nnz + 1);
    K *sorted = (K *)dl_gpu_take(g, sizeof(K) * room);
    U *at = sorted ? (U *)dl_gpu_take(g, 2 * sizeof(U) * room) : NULL, *order = at ? at + room : NULL;
    dl_status st = at ? DL_OK : dl_failed();
    if (st == DL_OK && p->nnz) {
        count_kernel<<<dl_blocks(p->nnz, THREADS), THREADS, 0, g->stream>>>(at, p->nnz);
        st = dl_gpu_launched(g);
        if (st == DL_OK) st = sort_by(g, (const K *)p->col, sorted, at, order, p->nnz, p->cols ? dl_bits(p->cols) : 1);
    }
    if (st == DL_OK) {
        const long n = p->nnz > p->cols + 1 ? p->nnz : p->cols + 1;
        transpose_kernel<<<dl_blocks(n, THREADS), THREADS, 0, g->stream>>>(
            (const I *)p->crow, p->rows, sorted, order, p->nnz, p->cols, dl_data<long>(c->out[0]),
            dl_data<long>(c->out[1]), dl_data<long>(c->out[2]));
        st = dl_gpu_launched(g);
    }
    if (sorted) dl_gpu_drop(g, sorted);
    if (at) dl_gpu_drop(g, at);
    return st;
}

static dl_status run_transpose(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_pattern p = {};
    dl_status st = dl_pattern_begin(g, c->op, c->in[0], INPUT(c, CSR_TRANSPOSE_COL), ATTR_I(c, CSR_TRANSPOSE_COLS), &p);
    if (st == DL_OK)
        st = p.wide ? transpose<long, uint64_t, long>(g, c, &p) : transpose<int, unsigned, unsigned>(g, c, &p);
    dl_pattern_end(g, &p);
    return st;
}
const dl_kernel dl_cuda_csr_transpose = {run_transpose, NULL, DL_BIT(DL_I64) | DL_BIT(DL_I32), NULL, 0};
