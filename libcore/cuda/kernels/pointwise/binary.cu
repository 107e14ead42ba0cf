/* Kernels of formulas with two operands; powers by a number, and the gradients of logit_loss. */
#include "cuda/kernels/pointwise/pointwise.cuh"
#include "cuda/kernels/pointwise/power.cuh"

/* The kernels of these ops do more than their formulas. */
struct pow_row;
struct logit_loss_row;
struct logit_loss_grad;
static dl_status grad_logit_loss(dl_back *b);
template <> dl_status dl_run_row<pow_row>(dl_call *c);
template <> constexpr dl_grad_function *dl_grad_of_row<logit_loss_row, logit_loss_grad>() { return grad_logit_loss; }

#define DL_FUNCTIONS2
#include "cuda/kernels/pointwise/pointwise_rows.cuh"

/* ---- gradients of logit_loss */

/* (1 - y) sigmoid(x) - y sigmoid(-x) */
struct logit_slope_f {
    template <class C> __device__ C operator()(C g, C x, C y) const {
        C e = exp(-fabs(x)), large = C(1) / (C(1) + e), small = e * large;
        return g * (x > C(0) ? (C(1) - y) * large - y * small : (C(1) - y) * small - y * large);
    }
};
struct target_slope_f {
    template <class C> __device__ C operator()(C g, C x) const { return -g * x; }
};

/* d = f(the gradient, operands), over the shape of the result. */
template <class F, class... In> static dl_status slope(dl_back *b, dl_gpu *g, int i, dl_tensor *grad, In *...in) {
    dl_tensor *d = dl_tensor_empty(grad->ndim, grad->shape, (dl_dtype)grad->dtype, grad->st->device);
    if (!d) return dl_failed();
    dl_it it = dl_it_of({d, grad, in...});
    dl_status s = dl_dispatch<DL_FLOATS>(grad->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return dl_each<F, T, T, std::enable_if_t<sizeof(In) != 0, T>...>(g, it, F());
    });
    if (s != DL_OK) return dl_unref(d), s;
    return dl_give(b, i, d);
}

static dl_status grad_logit_loss(dl_back *b) {
    dl_tensor *x = dl_saved_in(b, 0), *y = dl_saved_in(b, 1);
    dl_gpu *g = x && y ? dl_gpu_use(b->g[0]->st->device) : NULL;
    if (!g) return dl_fail_null("an operand");
    int dtype = b->g[0]->dtype;
    dl_tensor *in[2] = {dl_tmp(b, dl_to_dtype(x, (dl_dtype)dtype)), dl_tmp(b, dl_to_dtype(y, (dl_dtype)dtype))};
    if (!in[0] || !in[1]) return dl_failed();
    dl_status s = b->need & 1 ? slope<logit_slope_f>(b, g, 0, b->g[0], in[0], in[1]) : DL_OK;
    return s == DL_OK && b->need & 2 ? slope<target_slope_f>(b, g, 1, b->g[0], in[0]) : s;
}

/* ---- powers; some exponents that are numbers of the language have a quicker way */

enum { SQUARE, CUBE, ROOT, INVERSE, INVERSE_SQUARE, INVERSE_ROOT, POWERS };
static const double quick[POWERS] = {2, 3, 0.5, -1, -2, -0.5};

/* The same as pow at zeros, infinities and below 0. */
template <class T> struct quick_f {
    int which;
    __device__ T operator()(T a) const {
        T x = T(1) / a;
        switch (which) {
        case SQUARE: return a * a;
        case CUBE: return a * a * a;
        case INVERSE: return x;
        case INVERSE_SQUARE: return x * x;
        case ROOT: return a == -(T)INFINITY ? (T)INFINITY : sqrt(a + T(0));
        default: return a == -(T)INFINITY ? T(0) : T(1) / sqrt(a + T(0));
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
                if ((double)dl_up(b) == quick[k]) return dl_each<quick_f<C>, T, T>(g, one, quick_f<C>{k});
        }
        typedef pow_row::f<C, false> F;
        return dl_each<F, T, T, T>(g, it, F{dl_carry<0, true>(g, c->op, c->attr)});
    });
}
