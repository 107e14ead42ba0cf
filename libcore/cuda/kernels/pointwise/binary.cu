/* Kernels of formulas with two operands; powers by a number. */
#include "cuda/kernels/pointwise/pointwise.cuh"
#include "cuda/kernels/pointwise/power.cuh"

/* Its kernel does more than its formula. */
struct pow_row;
template <> dl_status dl_run_row<pow_row>(dl_call *c);

#define DL_FUNCTIONS2
#include "cuda/kernels/pointwise/pointwise_rows.cuh"

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
