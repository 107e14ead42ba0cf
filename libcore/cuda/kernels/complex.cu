/* Kernels that join real numbers to complex ones: of parts, or of sizes and angles, with the gradients of these. */
#include "cuda/runtime/iter.cuh"
#include "ops/names/complex.h"

enum { PARTS = DL_BIT(DL_F32) | DL_BIT(DL_F64) };

struct parts_f {
    template <class R> __device__ dl_number_pair<R> operator()(R re, R im) const { return {re, im}; }
};
struct polar_f {
    template <class R> __device__ dl_number_pair<R> operator()(R size, R angle) const {
        R s, c;
        sincos(angle, &s, &c);
        return {size * c, size * s};
    }
};

template <class F> static dl_status join(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_it it = dl_it_of({c->out[0], c->in[0], c->in[1]});
    return dl_dispatch<PARTS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) R;
        return dl_each<F, dl_number_pair<R>, R, R>(g, it, F());
    });
}

/* Of g = re + i im: re cos(angle) + im sin(angle) for the size, the part across it times the size for the angle. */
struct size_slope_f {
    template <class R> __device__ R operator()(dl_number_pair<R> g, R, R angle) const {
        R s, c;
        sincos(angle, &s, &c);
        return g.re * c + g.im * s;
    }
};
struct angle_slope_f {
    template <class R> __device__ R operator()(dl_number_pair<R> g, R size, R angle) const {
        R s, c;
        sincos(angle, &s, &c);
        return size * (g.im * c - g.re * s);
    }
};

template <class F> static dl_status give_slope(dl_back *b, int to, dl_tensor *size, dl_tensor *angle) {
    dl_tensor *grad = b->g[0];
    if (!(b->need >> to & 1)) return DL_OK;
    DL_USE_GPU(g, grad->st->device);
    dl_tensor *d = dl_cuda_empty_like(grad, dl_dtype_of_parts((dl_dtype)grad->dtype));
    if (!d) return dl_failed();
    dl_it it = dl_it_of({d, grad, size, angle});
    dl_status s = dl_dispatch<PARTS>(d->dtype, [&](auto tag) {
        typedef decltype(tag) R;
        return dl_each<F, R, dl_number_pair<R>, R, R>(g, it, F());
    });
    if (s != DL_OK) return dl_unref(d), s;
    return dl_give(b, to, d);
}

static dl_status grad_polar(dl_back *b) {
    dl_tensor *size = IN_(POLAR_ABS), *angle = IN_(POLAR_ANGLE);
    if (!size || !angle) return dl_failed();
    DL_TRY(give_slope<size_slope_f>(b, DL_IN_POLAR_ABS, size, angle));
    return give_slope<angle_slope_f>(b, DL_IN_POLAR_ANGLE, size, angle);
}

const dl_kernel dl_cuda_complex = {join<parts_f>, NULL, PARTS, NULL, 0};
const dl_kernel dl_cuda_polar = {join<polar_f>, grad_polar, PARTS, NULL, DL_K_GRAD_COMPLEX};
