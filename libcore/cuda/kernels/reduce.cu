/* How reductions are laid out, and the kernels of sums, products, truth and logsumexp of dimensions. Floating sums run
 * in f64. */
#include "cuda/kernels/inner.h"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/pointwise/row_sum.h"
#include "cuda/kernels/rows.cuh"
#include "core/widening.h"
#include "ops/compose/rows/row_sum.h"
#include "ops/names/reduce.h"

enum { WANTED_BLOCKS = 1024, LEAST_EACH = 8, FEW_BLOCKS = 132 };
/* Threads that keep the memory busy, so that a row needs no more of them; and threads whose reads fill its lines. */
enum { WANTED_THREADS = 1 << 17, LEAST_BY = 16 };
/* Most elements of a result, and least results, of the kernel for elements side by side. */
enum { SIDE_MOST = 64, SIDE_LEAST = 1 << 15 };

/* Most columns, and least rows, that are folded; most vectors that a row of several rows has. */
enum { FOLD_WIDTH = 64, FOLD_LEAST = 256, FOLD_MOST = 64 };

/* Parts of a thread that are joined at once; more are joined by groups first. */
enum { AT_ONCE = 8 };

/* The dimensions of x in `mask`, merged where they lie one in the other; sorted by step where order does not matter. */
static void dims_of(dl_red_dims *d, const dl_tensor *x, unsigned mask, bool sorted) {
    d->n = 0;
    for (int i = x->ndim - 1; i >= 0; i--) {
        if (!(mask >> i & 1) || x->shape[i] == 1) continue;
        int at = d->n++;
        for (; sorted && at > 0 && labs(d->step[at - 1]) > labs(x->stride[i]); at--)
            d->count[at] = d->count[at - 1], d->step[at] = d->step[at - 1];
        d->count[at] = x->shape[i], d->step[at] = x->stride[i];
    }
    int m = 0;
    for (int i = 1; i < d->n; i++) {
        if (d->step[i] == d->step[m] * d->count[m])
            d->count[m] *= d->count[i];
        else
            m++, d->count[m] = d->count[i], d->step[m] = d->step[i];
    }
    if (!d->n) d->count[0] = 1, d->step[0] = 0;
    d->n = d->n ? m + 1 : 1;
}

/* Can `by` numbers be read at once along the innermost dimension of `in`? */
static bool in_vectors(const dl_red_dims *in, const dl_red_dims *other, long by) {
    bool good = in->step[0] == 1 && in->count[0] % by == 0;
    for (int i = 1; i < in->n; i++) good = good && in->step[i] % by == 0;
    for (int i = 0; i < other->n; i++) good = good && other->step[i] % by == 0;
    return good;
}

static void count_vectors(dl_red_dims *in, dl_red_dims *other, long by) {
    in->count[0] /= by;
    for (int i = 1; i < in->n; i++) in->step[i] /= by;
    for (int i = 0; i < other->n; i++) other->step[i] /= by;
}

/* How many elements of a result lie side by side, where results are many, of few elements, and one behind the other in
 * vectors: 2, or of 16-bit numbers 4; else 0. */
static int side_of(const dl_red_plan *p, const void *x, size_t size) {
    const long v = DL_RED_BYTES / (long)size, side = p->red.count[0];
    bool good = size <= 4 && size >= 2 && (side == 2 || (side == 4 && size == 2)) && p->red.step[0] == 1;
    good = good && p->kept.step[0] == side && p->kept.count[0] % (v / side) == 0 && (size_t)x % DL_RED_BYTES == 0;
    for (int i = 1; i < p->red.n; i++) good = good && p->red.step[i] % v == 0;
    for (int i = 1; i < p->kept.n; i++) good = good && p->kept.step[i] % v == 0;
    return good && p->n <= SIDE_MOST && p->outs >= SIDE_LEAST && p->outs < 0x7fffffff ? (int)side : 0;
}

static void divisors(dl_red_dims *d) {
    long total = 1;
    for (int i = 0; i < d->n; i++) total *= d->count[i];
    d->wide = total >= 0x7fffffff;
    for (int i = 0; i < d->n && !d->wide; i++) d->size[i] = dl_divisor((uint32_t)(d->count[i] ? d->count[i] : 1));
}

static int power_of_two(long n, int most) {
    int p = 1;
    while (p < n && p < most) p *= 2;
    return p;
}

/* The shape of a block. */
static void block_of(dl_red_plan *p) {
    if (p->width) { /* all columns */
        p->bx = power_of_two(p->outs, DL_RED_THREADS), p->by = DL_RED_THREADS / p->bx;
        return;
    }
    if (p->cols) {
        p->by = power_of_two((p->n + 1) / 2, 8);
        p->bx = DL_RED_THREADS / p->by;
        if (p->outs <= p->bx / 2) p->bx = power_of_two(p->outs, p->bx), p->by = DL_RED_THREADS / p->bx;
        return;
    }
    const int most = power_of_two((p->n + LEAST_EACH - 1) / LEAST_EACH, DL_RED_THREADS);
    const int enough = power_of_two((WANTED_THREADS + p->outs - 1) / (p->outs ? p->outs : 1), DL_RED_THREADS);
    p->by = enough < LEAST_BY ? LEAST_BY : enough;
    if (p->by > most) p->by = most;
    while (p->by < DL_RED_THREADS && p->by < p->n && p->outs * p->by < (long)FEW_BLOCKS * DL_RED_THREADS) p->by *= 2;
    p->bx = DL_RED_THREADS / p->by;
}

/* The shape of a block, and the parts of rows. */
static void blocks_of(dl_red_plan *p) {
    block_of(p);
    long blocks = (p->outs + p->bx - 1) / p->bx, most = p->n / ((long)p->by * LEAST_EACH);
    long splits =
        blocks < WANTED_BLOCKS && (p->cols || p->by == DL_RED_THREADS) ? WANTED_BLOCKS / (blocks ? blocks : 1) : 1;
    if (splits > most) splits = most > 1 ? most : 1;
    long unit = 4L * p->by;
    p->chunk = ((p->n + splits - 1) / splits + unit - 1) / unit * unit;
    p->splits = p->n ? (int)((p->n + p->chunk - 1) / p->chunk) : 1;
    if (!p->chunk) p->chunk = unit;
    p->group = 0;
    if (p->splits > AT_ONCE * p->by)
        for (p->group = 1; p->group * p->group < p->splits;) p->group *= 2;
}

/* Which share of the threads side by side in a block have a column of n. */
static double filled(long n) { return (double)n / power_of_two(n, DL_RED_THREADS); }

void dl_red_plan_of(dl_red_plan *p, const dl_tensor *x, unsigned mask, bool in_order, const void *also) {
    p->width = 0, p->rest = 0;
    p->outs = p->n = 1;
    for (int i = 0; i < x->ndim; i++) *(mask >> i & 1 ? &p->n : &p->outs) *= x->shape[i];
    dims_of(&p->kept, x, ~mask, false);
    dims_of(&p->red, x, mask, !in_order);
    p->cols = p->outs > 1 && p->n > 1 && labs(p->kept.step[0]) < labs(p->red.step[0]);
    dl_red_dims *in = p->cols ? &p->kept : &p->red, *other = p->cols ? &p->red : &p->kept;
    size_t size = dl_esize(x);
    p->side = p->cols ? 0 : side_of(p, dl_ptr(x), size);
    int by = p->cols ? dl_red_across(size) : dl_red_along(size);
    p->vector = p->n && p->outs && ((size_t)dl_ptr(x) | (size_t)also) % (by * size) == 0 && in_vectors(in, other, by);
    if (p->vector) {
        count_vectors(in, other, by);
        *(p->cols ? &p->outs : &p->n) /= by;
    }
    divisors(&p->kept);
    divisors(&p->red);
    blocks_of(p);
}

void dl_red_fold(dl_red_plan *p, const void *x, size_t size) {
    const long across = dl_red_across(size), width = p->outs, rows = p->n;
    if (!p->cols || p->vector || width > FOLD_WIDTH || rows < FOLD_LEAST || (size_t)x % (across * size)) return;
    if (p->kept.n > 1 || p->red.n > 1 || p->kept.step[0] != 1 || p->red.step[0] != width) return;
    long fold = 0, wide = 0; /* rows as one, and their elements, which fill the block's first threads best */
    for (long f = 1; f * width <= FOLD_MOST * across; f++)
        if (f * width % across == 0 && (!fold || filled(f * width / across) >= filled(wide / across)))
            fold = f, wide = f * width;
    p->width = (int)width, p->vector = true;
    p->outs = p->kept.count[0] = wide / across;
    p->n = p->red.count[0] = rows / fold, p->red.step[0] = wide / across;
    p->rest = (rows - p->n * fold) * width;
    divisors(&p->kept);
    divisors(&p->red);
    blocks_of(p);
}

/* ---- the functions */

template <class T> using sum_t = std::conditional_t<std::is_floating_point<calc_t<T>>::value, double, long>;
template <class T> using total_t = std::conditional_t<std::is_floating_point<calc_t<T>>::value, T, long>;

/* Result i, which is f32 where `wide` asks for it. */
template <class T> __device__ inline void put_real(T *out, long i, double x, bool wide) {
    if (sizeof(T) < sizeof(float) && wide)
        ((float *)out)[i] = (float)x;
    else
        out[i] = dl_down<T>((calc_t<T>)x);
}

template <class T> struct sum_op : dl_red_op {
    enum { SIDE = true, FOLD = true };
    typedef sum_t<T> A;
    total_t<T> *out;
    double n; /* divides the sum: the mean */
    bool wide = false;
    __device__ A identity() const { return 0; }
    __device__ A take(A a, calc_t<T> x, long, int) const { return a + (A)x; }
    __device__ A join(A a, A b) const { return a + b; }
    __device__ void finish(A a, long i, int) const {
        if constexpr (std::is_same<A, double>::value)
            put_real(out, i, a / n, wide);
        else
            out[i] = a;
    }
};

struct as_it_is {
    static __device__ double done(double sum) { return sum; }
};
struct square_f : as_it_is {
    static __device__ double of(double x) { return x * x; }
};
struct root_square_f : square_f {
    static __device__ double done(double sum) { return sqrt(sum); }
};
struct magnitude_f : as_it_is {
    static __device__ double of(double x) { return fabs(x); }
};
struct known_f : as_it_is {
    static __device__ double of(double x) { return x == x ? x : 0; }
};
/* The sum of F of the elements, done with by F. */
template <class F, class T> struct sum_of_op : dl_red_op {
    enum { FOLD = true };
    typedef double A;
    T *out;
    bool wide;
    __device__ A identity() const { return 0; }
    __device__ A take(A a, calc_t<T> x, long, int) const { return a + F::of((A)x); }
    __device__ A join(A a, A b) const { return a + b; }
    __device__ void finish(A a, long i, int) const { put_real(out, i, F::done(a), wide); }
};

/* The sum of products with `second`. */
template <class T> struct two_vectors_op : dl_red_op {
    enum { PAIR = true };
    typedef double A;
    T *out;
    const T *second;
    __device__ A identity() const { return 0; }
    __device__ A take(A a, calc_t<T> x, calc_t<T> y, int) const { return a + (A)x * (A)y; }
    __device__ A join(A a, A b) const { return a + b; }
    __device__ void finish(A a, long i, int) const { out[i] = dl_down<T>((calc_t<T>)a); }
};

template <class T> struct var_op : dl_moments_op<T> {
    T *out, *mean;
    double n, free; /* what the sum of squares is divided by */
    bool wide;
    __device__ void finish(dl_two_sums s, long i, double first) const {
        double rest = s.b - s.a * s.a / n;
        put_real(mean, i, first + s.a / n, wide);
        put_real(out, i, (rest < 0 ? 0 : rest) / free, wide);
    }
};

template <class T> struct prod_op : dl_red_op {
    enum { FOLD = true };
    typedef sum_t<T> A;
    total_t<T> *out;
    __device__ A identity() const { return 1; }
    __device__ A take(A a, calc_t<T> x, long, int) const { return a * (A)x; }
    __device__ A join(A a, A b) const { return a * b; }
    __device__ void finish(A a, long i, int) const { out[i] = dl_down<total_t<T>>(a); }
};

template <class T> struct truth_op : dl_red_op {
    enum { FOLD = true };
    typedef int A;
    bool *out;
    bool every;
    __device__ A identity() const { return every; }
    __device__ A take(A a, calc_t<T> x, long, int) const { return join(a, x != calc_t<T>(0)); }
    __device__ A join(A a, A b) const { return every ? a & b : a | b; }
    __device__ void finish(A a, long i, int) const { out[i] = a != 0; }
};

/* Sum of e ** (x - shift), where the shift is the largest x so far, or 0 while that is infinite. */
template <class T> struct lse_op : dl_red_op {
    enum { BULK = true };
    typedef calc_t<T> C;
    typedef dl_exponentials<C> A;
    T *out;
    __device__ A identity() const { return A::none(); }
    template <int N> __device__ A bulk(A a, const C (&x)[N]) const { return a.with(x); }
    __device__ A join(A a, A b) const { return a.with(b); }
    __device__ void finish(A a, long i, int) const { out[i] = dl_down<T>((C)(log(a.sum) + (double)A::shift(a.top))); }
};

/* ---- kernels */

/* Results of 16-bit elements in f32, where the output is. */
static bool wide_of(const dl_call *c) { return DL_BIT(c->dtype) & DL_HALVES && c->out[0]->dtype == DL_F32; }
#define REDUCTION_WIDE(name, set, ...)                                                                                 \
    DL_REDUCTION_RUN(name, set, __VA_ARGS__)                                                                           \
    const dl_kernel dl_cuda_##name = {run_##name, NULL, set, NULL, DL_K_WIDE};
DL_REDUCTION_RUN(sum, DL_ANY, sum_op<T>{{}, (total_t<T> *)out, 1, wide_of(c)})
static dl_status run_sum_of(dl_call *c) { return c->nin > 1 ? dl_cuda_row_sum(c) : run_sum(c); }
const dl_kernel dl_cuda_sum = {run_sum_of, NULL, DL_ANY, NULL, DL_K_WIDE | DL_K_SUMS_ROWS};
REDUCTION_WIDE(mean, DL_FLOATS, sum_op<T>{{}, (total_t<T> *)out, r.each, wide_of(c)})
#define SUM_OF(f)                                                                                                      \
    sum_of_op<f, T> { {}, (T *)out, wide_of(c) }
REDUCTION_WIDE(square_sum, DL_FLOATS, SUM_OF(square_f))
REDUCTION_WIDE(root_square_sum, DL_FLOATS, SUM_OF(root_square_f))
REDUCTION_WIDE(magnitude_sum, DL_FLOATS, SUM_OF(magnitude_f))
REDUCTION_WIDE(known_sum, DL_FLOATS, SUM_OF(known_f))
static double positive(double n) { return n > 0 ? n : 0; }
REDUCTION_WIDE(var, DL_FLOATS,
               var_op<T>{{},
                         (T *)out,
                         dl_data<T>(OUTPUT(c, VAR_MEAN)),
                         r.each,
                         positive(r.each - (double)ATTR_I(c, VAR_CORRECTION)),
                         wide_of(c)})
DL_REDUCTION(prod, DL_ANY, prod_op<T>{{}, (total_t<T> *)out})
DL_REDUCTION(any, DL_ANY, truth_op<T>{{}, (bool *)out, false})
DL_REDUCTION(all, DL_ANY, truth_op<T>{{}, (bool *)out, true})
DL_REDUCTION_RUN(logsumexp, DL_FLOATS, lse_op<T>{{}, (T *)out})

dl_status dl_cuda_inner_product(dl_gpu *g, const dl_tensor *a, const dl_tensor *b, dl_tensor *out) {
    dl_red_plan p;
    dl_red_plan_of(&p, a, 1, false, dl_ptr(b));
    return dl_dispatch<DL_FLOATS>(a->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return dl_red_run(g, dl_data<T>(a), p, two_vectors_op<T>{{}, dl_data<T>(out), dl_data<T>(b)});
    });
}

struct lse_slope_f {
    template <class C> __device__ C operator()(C x, C y, C g) const { return g * exp(x - y); }
};

/* t, a result of reducing x, over the shape of x. */
static void repeated(dl_it *it, const dl_tensor *t, const dl_tensor *x, unsigned mask) {
    long stride[DL_MAX_DIM];
    for (int i = 0, k = 0; i < x->ndim; i++) {
        bool gone = mask >> i & 1;
        stride[i] = gone ? 0 : t->stride[k];
        k += !gone || t->ndim == x->ndim;
    }
    dl_it_operand(it, dl_ptr(t), dl_esize(t), x->ndim, x->shape, stride);
}

static dl_status grad_logsumexp(dl_back *b) {
    dl_tensor *x = IN_(LOGSUMEXP_INPUT), *y = OUT_(LOGSUMEXP_OUT);
    dl_gpu *gpu = x && y ? dl_gpu_use(x->st->device) : NULL;
    dl_tensor *g = gpu ? dl_tmp(b, dl_to_dtype(b->g[0], (dl_dtype)x->dtype)) : NULL;
    dl_tensor *dx = g ? dl_tmp(b, dl_cuda_empty_like(x, (dl_dtype)x->dtype)) : NULL;
    unsigned mask = 0;
    if (!dx) return dl_fail_null("the gradient");
    dl_status s = dl_reduced_dims(b->op, b->attr, x->ndim, &mask);
    if (s != DL_OK) return s;
    dl_it it;
    dl_it_begin(&it, x->ndim, x->shape);
    dl_it_tensor(&it, dx);
    dl_it_tensor(&it, x);
    repeated(&it, y, x, mask);
    repeated(&it, g, x, mask);
    dl_it_end(&it);
    s = dl_dispatch<DL_FLOATS>(x->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return dl_each<lse_slope_f, T, T, T, T>(gpu, it, lse_slope_f());
    });
    return s == DL_OK ? dl_give(b, 0, dl_ref(dx)) : s;
}
const dl_kernel dl_cuda_logsumexp = {run_logsumexp, grad_logsumexp, DL_FLOATS, NULL, 0};
