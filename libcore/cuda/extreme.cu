/* Kernels of the largest and smallest of dimensions, and their places. */
#include "cuda/reduce.cuh"

/* The largest or, with `least`, the smallest, and the number of its first occurrence; a NaN beats all. */
template <class C> struct best {
    C v;
    long i;
};
template <class T> struct extreme_op : dl_red_op {
    typedef calc_t<T> C;
    typedef best<C> A;
    T *out;
    long *index; /* each may be NULL */
    bool least;
    __device__ A identity() const { return {C(0), -1}; }
    __device__ bool beats(C a, C b) const {
        if (b != b) return false;
        return a != a || (least ? a < b : a > b);
    }
    __device__ A take(A a, C x, long i, int) const { return a.i < 0 || beats(x, a.v) ? A{x, i} : a; }
    __device__ A join(A a, A b) const {
        if (a.i < 0 || b.i < 0) return a.i < 0 ? b : a;
        if (beats(b.v, a.v)) return b;
        return beats(a.v, b.v) || a.i < b.i ? a : b;
    }
    __device__ void finish(A a, long i, int) const {
        if (out) out[i] = dl_down<T>(a.v);
        if (index) index[i] = a.i;
    }
};

DL_REDUCTION(amax, DL_ANY, extreme_op<T>{{}, (T *)out, NULL, false})
DL_REDUCTION(amin, DL_ANY, extreme_op<T>{{}, (T *)out, NULL, true})

/* Elements are numbered in the order of the tensor. */
static dl_status run_place(dl_call *c, bool least, dl_tensor *value, dl_tensor *index) {
    dl_red_call r;
    dl_status s = dl_red_prepare(c, &r, true);
    if (s != DL_OK) return s;
    return dl_dispatch<DL_ANY>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        extreme_op<T> op = {{}, value ? (T *)dl_ptr(value) : NULL, (long *)dl_ptr(index), least};
        return dl_red_run(r.g, (const T *)dl_ptr(c->in[0]), r.p, op);
    });
}
static dl_status run_argmax(dl_call *c) { return run_place(c, false, NULL, c->out[0]); }
static dl_status run_argmin(dl_call *c) { return run_place(c, true, NULL, c->out[0]); }
static dl_status run_max_dim(dl_call *c) { return run_place(c, false, c->out[0], c->out[1]); }
static dl_status run_min_dim(dl_call *c) { return run_place(c, true, c->out[0], c->out[1]); }
const dl_kernel dl_cuda_argmax = {run_argmax, NULL, DL_ANY, NULL, 0};
const dl_kernel dl_cuda_argmin = {run_argmin, NULL, DL_ANY, NULL, 0};
const dl_kernel dl_cuda_max_dim = {run_max_dim, NULL, DL_ANY, NULL, 0};
const dl_kernel dl_cuda_min_dim = {run_min_dim, NULL, DL_ANY, NULL, 0};
