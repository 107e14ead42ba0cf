/* Gradient rules of complex numbers. The gradient of a real L is dL/da + i dL/db for each x = a + i b (PyTorch's
 * convention): where y is an analytic function of x, that of x is the one of y times the conjugate of dy/dx. */
#include "ops/grad.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/complex.h"
#include "dlcore/elementary.h"
#include "dlcore/unary.h"
#include "dlcore/where.h"
#include "ops/names/compare.h"
#include "ops/rules/complex.h"

dl_tensor *dl_conj_of(dl_back *b, dl_tensor *t) {
    return t && dl_dtype_is_complex(t->dtype) ? dl_tmp(b, dl_conj(t)) : t;
}

RULE(view_as_real, dl_view_as_complex(T(dl_contiguous(G0))))

RULE(view_as_complex, dl_view_as_real(G0))

RULE(conj, dl_conj(G0))

RULE(conj_scaled, dl_conj_scaled(G0, ATTR_F(b, CONJ_SCALED_SCALE)))

GRAD_RULE(complex) {
    GIVE(COMPLEX_REAL, dl_real(G0));
    GIVE(COMPLEX_IMAG, dl_imag(G0));
    return DL_OK;
}

/* Of g = re + i im: re cos(angle) + im sin(angle) for the size, the part across it times the size for the angle. */
GRAD_RULE(polar) {
    dl_tensor *angle = IN_(POLAR_ANGLE), *c = T(dl_cos(angle)), *s = T(dl_sin(angle));
    dl_tensor *re = T(dl_real(G0)), *im = T(dl_imag(G0));
    GIVE(POLAR_ABS, dl_add(T(dl_mul(re, c)), T(dl_mul(im, s))));
    GIVE(POLAR_ANGLE, dl_mul(IN_(POLAR_ABS), T(dl_sub(T(dl_mul(im, c)), T(dl_mul(re, s))))));
    return DL_OK;
}

/* (g - y Re(g conj(y))) / |x|: what moves across the direction of x; 0 at 0, and of real numbers */
GRAD_RULE(sgn) {
    if (!dl_dtype_is_complex(G0->dtype)) return dl_give(b, 0, dl_zeros_like_in(b, 0));
    dl_tensor *y = OUT_(UNARY_OUT), *size = T(dl_abs(IN_(UNARY_INPUT))), *none = T(dl_eq(size, NUM(0)));
    dl_tensor *along = T(dl_mul(y, T(dl_real(T(dl_mul(G0, T(dl_conj(y))))))));
    dl_tensor *d = none ? T(dl_div(T(dl_sub(G0, along)), T(dl_where(none, NUM(1), size)))) : NULL;
    return dl_give(b, 0, d ? dl_where(none, NUM(0), d) : NULL);
}

/* (-b + i a) g / |x|**2 of x = a + i b */
GRAD_RULE(argument) {
    dl_tensor *x = IN_(UNARY_INPUT), *size = T(dl_modulus(x));
    dl_tensor *by = T(dl_where(T(dl_eq(size, NUM(0))), NUM(1), size)), *g = T(dl_div(T(dl_div(G0, by)), by));
    dl_tensor *re = T(dl_mul(T(dl_imag(x)), T(dl_neg(g)))), *im = T(dl_mul(T(dl_real(x)), g));
    return dl_give(b, 0, dl_complex(re, im));
}

/* The direction of x */
RULE(modulus, dl_mul(G0, T(dl_sgn(IN_(UNARY_INPUT)))))
