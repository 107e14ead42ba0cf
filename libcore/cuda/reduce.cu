/* Kernels of sums, products, extremes and truth of dimensions. Floating sums run in f64. */
#include "cuda/reduce.cuh"

enum { WANTED_BLOCKS = 1024, LEAST_EACH = 16 };

void dl_red_dims_of(dl_red_dims *d, const dl_tensor *x, unsigned mask, bool sorted) {
    d->n = 0;
    long total = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        if (!(mask >> i & 1) || x->shape[i] == 1) continue;
        int at = d->n++;
        for (; sorted && at > 0 && labs(d->step[at - 1]) > labs(x->stride[i]); at--)
            d->count[at] = d->count[at - 1], d->step[at] = d->step[at - 1];
        d->count[at] = x->shape[i], d->step[at] = x->stride[i];
        total *= x->shape[i];
    }
    int m = 0;
    for (int i = 1; i < d->n; i++) {
        if (d->step[i] == d->step[m] * d->count[m])
            d->count[m] *= d->count[i];
        else
            m++, d->count[m] = d->count[i], d->step[m] = d->step[i];
    }
    d->n = d->n ? m + 1 : 1;
    if (total == 1) d->count[0] = 1, d->step[0] = 0;
    d->wide = total >= 0x7fffffff;
    for (int i = 0; i < d->n && !d->wide; i++) d->size[i] = dl_divisor((uint32_t)(d->count[i] ? d->count[i] : 1));
}

static int power_of_two(long n, int most) {
    int p = 1;
    while (p < n && p < most) p *= 2;
    return p;
}

void dl_red_plan_of(dl_red_plan *p, const dl_tensor *x, unsigned mask, bool in_order) {
    p->outs = p->n = 1;
    for (int i = 0; i < x->ndim; i++) *(mask >> i & 1 ? &p->n : &p->outs) *= x->shape[i];
    dl_red_dims_of(&p->kept, x, ~mask, false);
    dl_red_dims_of(&p->red, x, mask, !in_order);
    p->cols = p->outs > 1 && p->n > 1 && labs(p->kept.step[0]) < labs(p->red.step[0]);
    if (p->cols) {
        p->by = power_of_two((p->n + 1) / 2, 8);
        p->bx = DL_RED_THREADS / p->by;
        if (p->outs <= p->bx / 2) p->bx = power_of_two(p->outs, p->bx), p->by = DL_RED_THREADS / p->bx;
    } else {
        p->by = power_of_two((p->n + 3) / 4, DL_RED_THREADS);
        p->bx = DL_RED_THREADS / p->by;
    }
    long blocks = (p->outs + p->bx - 1) / p->bx, most = p->n / ((long)p->by * LEAST_EACH);
    long splits = blocks < WANTED_BLOCKS ? WANTED_BLOCKS / (blocks ? blocks : 1) : 1;
    if (splits > most) splits = most > 1 ? most : 1;
    long unit = 4L * p->by;
    p->chunk = ((p->n + splits - 1) / splits + unit - 1) / unit * unit;
    p->splits = p->n ? (int)((p->n + p->chunk - 1) / p->chunk) : 1;
    if (!p->chunk) p->chunk = unit;
}

/* ---- the functions */

template <class T> using sum_t = std::conditional_t<std::is_floating_point<calc_t<T>>::value, double, long>;
template <class T> using total_t = std::conditional_t<std::is_floating_point<calc_t<T>>::value, T, long>;

template <class T> struct sum_op {
    enum { PAIR = false };
    typedef sum_t<T> A;
    total_t<T> *out;
    double n; /* divides the sum: the mean */
    __device__ A identity() const { return 0; }
    __device__ A take(A a, calc_t<T> x, long) const { return a + (A)x; }
    __device__ A join(A a, A b) const { return a + b; }
    __device__ void finish(A a, long i) const {
        if constexpr (std::is_same<A, double>::value)
            out[i] = dl_down<T>(a / n);
        else
            out[i] = a;
    }
};

template <class T> struct prod_op {
    enum { PAIR = false };
    typedef sum_t<T> A;
    total_t<T> *out;
    __device__ A identity() const { return 1; }
    __device__ A take(A a, calc_t<T> x, long) const { return a * (A)x; }
    __device__ A join(A a, A b) const { return a * b; }
    __device__ void finish(A a, long i) const { out[i] = dl_down<total_t<T>>(a); }
};

/* The largest or, with `least`, the smallest, and the number of its first occurrence; a NaN beats all. */
template <class C> struct best {
    C v;
    long i;
};
template <class T> struct extreme_op {
    enum { PAIR = false };
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
    __device__ A take(A a, C x, long i) const { return a.i < 0 || beats(x, a.v) ? A{x, i} : a; }
    __device__ A join(A a, A b) const {
        if (a.i < 0 || b.i < 0) return a.i < 0 ? b : a;
        if (beats(b.v, a.v)) return b;
        return beats(a.v, b.v) || a.i < b.i ? a : b;
    }
    __device__ void finish(A a, long i) const {
        if (out) out[i] = dl_down<T>(a.v);
        if (index) index[i] = a.i;
    }
};

template <class T> struct truth_op {
    enum { PAIR = false };
    typedef int A;
    bool *out;
    bool every;
    __device__ A identity() const { return every; }
    __device__ A take(A a, calc_t<T> x, long) const { return join(a, x != calc_t<T>(0)); }
    __device__ A join(A a, A b) const { return every ? a & b : a | b; }
    __device__ void finish(A a, long i) const { out[i] = a != 0; }
};

/* Sum of e ** (x - shift), where the shift is the largest x so far, or 0 while that is infinite. */
template <class C> struct exponentials {
    C top;
    double sum;
};
template <class T> struct lse_op {
    enum { PAIR = false };
    typedef calc_t<T> C;
    typedef exponentials<C> A;
    T *out;
    __device__ A identity() const { return {-(C)INFINITY, 0}; }
    static __device__ C shift(C top) { return isinf(top) ? C(0) : top; }
    static __device__ double moved(A a, C to) {
        return a.sum == 0 ? 0 : a.sum * exp((double)shift(a.top) - (double)to);
    }
    __device__ A take(A a, C x, long) const {
        if (x <= a.top) return {a.top, a.sum + (double)exp(x - shift(a.top))};
        C s = shift(x); /* a new largest, or NaN */
        return {x, moved(a, s) + (double)exp(x - s)};
    }
    __device__ A join(A a, A b) const {
        C top = b.top > a.top || b.top != b.top ? b.top : a.top, s = shift(top);
        return {top, moved(a, s) + moved(b, s)};
    }
    __device__ void finish(A a, long i) const { out[i] = dl_down<T>((C)(log(a.sum) + (double)shift(a.top))); }
};

/* ---- kernels */

typedef struct call {
    dl_gpu *g;
    dl_red_plan p;
} call;

static dl_status prepare(const dl_call *c, call *r) {
    unsigned mask = 0;
    dl_status s = dl_reduced_dims(c->op, &c->attr[0], c->in[0]->ndim, &mask);
    if (s != DL_OK) return s;
    if (!(r->g = dl_gpu_use(c->device))) return dl_error_last()->code;
    dl_red_plan_of(&r->p, c->in[0], mask, false);
    return DL_OK;
}

#define REDUCTION(name, set, ...)                                                                                      \
    static dl_status run_##name(dl_call *c) {                                                                          \
        call r;                                                                                                        \
        dl_status s = prepare(c, &r);                                                                                  \
        if (s != DL_OK) return s;                                                                                      \
        void *out = dl_ptr(c->out[0]);                                                                                 \
        return dl_dispatch<set>(c->dtype, [&](auto tag) {                                                              \
            typedef decltype(tag) T;                                                                                   \
            return dl_red_run(r.g, (const T *)dl_ptr(c->in[0]), r.p, __VA_ARGS__);                                     \
        });                                                                                                            \
    }                                                                                                                  \
    const dl_kernel dl_cuda_##name = {run_##name, NULL, set, NULL, 0};

REDUCTION(sum, DL_ANY, sum_op<T>{(total_t<T> *)out, 1})
REDUCTION(mean, DL_FLOATS, sum_op<T>{(total_t<T> *)out, (double)r.p.n})
REDUCTION(prod, DL_ANY, prod_op<T>{(total_t<T> *)out})
REDUCTION(amax, DL_ANY, extreme_op<T>{(T *)out, NULL, false})
REDUCTION(amin, DL_ANY, extreme_op<T>{(T *)out, NULL, true})
REDUCTION(any, DL_ANY, truth_op<T>{(bool *)out, false})
REDUCTION(all, DL_ANY, truth_op<T>{(bool *)out, true})
REDUCTION(logsumexp, DL_FLOATS, lse_op<T>{(T *)out})

/* Elements are numbered in the order of the tensor. */
static dl_status run_place(dl_call *c, bool least, dl_tensor *value, dl_tensor *index) {
    call r;
    unsigned mask = 0;
    dl_status s = dl_reduced_dims(c->op, &c->attr[0], c->in[0]->ndim, &mask);
    if (s != DL_OK) return s;
    if (!(r.g = dl_gpu_use(c->device))) return dl_error_last()->code;
    dl_red_plan_of(&r.p, c->in[0], mask, true);
    return dl_dispatch<DL_ANY>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        extreme_op<T> op = {value ? (T *)dl_ptr(value) : NULL, (long *)dl_ptr(index), least};
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
