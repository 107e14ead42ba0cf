/* Kernels of formulas with two operands; powers by a number. */
#include "cuda/kernels/pointwise/pointwise.cuh"
#include "cuda/kernels/pointwise/power.cuh"
#include "ops/names/unary.h"

/* Its kernel does more than its formula. */
struct pow_row;
template <> dl_status dl_run_row<pow_row>(dl_call *c);
template <> constexpr bool dl_reads_others<pow_row> = false;

struct mul_row;
struct div_row;
template <> constexpr bool dl_narrows<mul_row> = true;
template <> constexpr bool dl_narrows<div_row> = true;

struct pow_grad_a;
struct pow_grad_b;
static dl_status grad_pow(dl_back *b);
template <> constexpr dl_grad_function *dl_grad_of_row<pow_row, pow_grad_a, pow_grad_b>() { return grad_pow; }

#define DL_FUNCTIONS2
#include "cuda/kernels/pointwise/pointwise_rows.cuh"

/* The gradients of a power in one pass each, as the rule has them. Not for the CPU: there a power costs more than the
 * passes that this saves. */
DL_GRAD_STRUCT(pow, a, (), (T g, T a, T b), g *(b == T(0) ? T(0) : b * dl_pow(a, b - T(1))))
DL_GRAD_STRUCT(pow, b, (), (T g, T a, T b), g *(dl_pow(a, b) * (a == T(0) && b >= T(0) ? T(0) : log(a))))
static dl_status grad_pow(dl_back *b) { return dl_grad_operands<pow_row, pow_grad_a, pow_grad_b>(b); }

/* ---- glu: gated, of the halves of a dimension */

/* A tensor, or one of its halves; half -1: it has the size of one. */
typedef struct dl_glu_part {
    const dl_tensor *t;
    int half;
} dl_glu_part;

static dl_it glu_it(const dl_tensor *x, int d, std::initializer_list<dl_glu_part> parts) {
    dl_it it;
    long shape[DL_MAX_DIM];
    memcpy(shape, x->shape, sizeof shape);
    shape[d] /= 2;
    dl_it_begin(&it, x->ndim, shape);
    for (const dl_glu_part &p : parts) {
        if (p.half < 0) {
            dl_it_tensor(&it, p.t);
            continue;
        }
        char *from = (char *)dl_ptr(p.t) + p.half * shape[d] * (long)p.t->stride[d] * (long)dl_esize(p.t);
        dl_it_operand(&it, from, dl_esize(p.t), x->ndim, shape, p.t->stride);
    }
    dl_it_end(&it);
    return it;
}

static dl_status run_glu(dl_call *c) {
    DL_USE_GPU(g, c->device);
    int d;
    dl_tensor *x = c->in[0];
    DL_TRY(dl_dim_norm(ATTR_I(c, GLU_DIM), x->ndim, &d));
    dl_it it = glu_it(x, d, {{c->out[0], -1}, {x, 0}, {x, 1}});
    return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        typedef gated_row::f<calc_t<T>, dl_is_half<T>> F;
        return dl_each<F, T, T, T>(g, it, F{});
    });
}

static dl_status grad_glu(dl_back *b) {
    dl_tensor *x = IN_(GLU_INPUT), *grad = x ? dl_tmp(b, dl_to_dtype(b->g[0], (dl_dtype)x->dtype)) : NULL;
    dl_gpu *g = grad ? dl_gpu_use(x->st->device) : NULL;
    dl_tensor *dx = g ? dl_tmp(b, dl_cuda_empty_like(x, (dl_dtype)x->dtype)) : NULL;
    int d;
    if (!dx) return dl_failed();
    DL_TRY(dl_dim_norm(ATTR_I(b, GLU_DIM), x->ndim, &d));
    for (int half = 0; half < 2; half++) {
        dl_it it = glu_it(x, d, {{dx, half}, {grad, -1}, {x, 0}, {x, 1}});
        DL_TRY(dl_dispatch<DL_FLOATS>(x->dtype, [&](auto tag) {
            typedef decltype(tag) T;
            typedef gated_grad_a::f<calc_t<T>> A;
            typedef gated_grad_b::f<calc_t<T>> B;
            return half ? dl_each<B, T, T, T, T>(g, it, B{}) : dl_each<A, T, T, T, T>(g, it, A{});
        }));
    }
    return dl_give(b, DL_IN_GLU_INPUT, dl_ref(dx));
}
const dl_kernel dl_cuda_glu = {run_glu, grad_glu, DL_FLOATS, NULL, 0};

/* ---- powers; some exponents that are numbers of the language have a quicker way */

enum { SQUARE, CUBE, ROOT, INVERSE, INVERSE_SQUARE, INVERSE_ROOT, POWERS };
static const double quick[POWERS] = {2, 3, 0.5, -1, -2, -0.5};

/* The same as pow at zeros, infinities and below 0; H: results have 16 bits. */
template <class T, bool H> struct quick_f {
    int which;
    static __device__ T root(T x) {
        if constexpr (H)
            return dl_quick_root(x);
        else
            return sqrt(x);
    }
    __device__ T operator()(T a) const {
        switch (which) {
        case SQUARE: return a * a;
        case CUBE: return a * a * a;
        case INVERSE: return T(1) / a;
        case INVERSE_SQUARE: return (T(1) / a) * (T(1) / a);
        case ROOT: return a == -(T)INFINITY ? (T)INFINITY : root(a + T(0));
        default: return a == -(T)INFINITY ? T(0) : T(1) / root(a + T(0));
        }
    }
};

template <> dl_status dl_run_row<pow_row>(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_it it = dl_it_of({c->out[0], c->in[0], c->in[1]}), one = dl_it_of({c->out[0], c->in[0]});
    return dl_dispatch<DL_NUMBERS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        typedef calc_t<T> C;
        if constexpr (dl_is_real<C>) {
            bool number = it.numbers >> 2 & 1 && !(it.numbers >> 1 & 1);
            T b = T();
            memcpy((void *)&b, &it.number[2], sizeof b);
            for (int k = 0; k < POWERS && number; k++)
                if ((double)dl_up(b) == quick[k]) return dl_each<quick_f<C, dl_is_half<T>>, T, T>(g, one, {k});
        }
        typedef pow_row::f<C, false> F;
        return dl_each<F, T, T, T>(g, it, F{dl_carry<0, true>(g, c->op, c->attr)});
    });
}
