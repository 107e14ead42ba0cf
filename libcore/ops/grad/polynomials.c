/* Gradient rules of orthogonal polynomials: the derivative of their recurrence, by ops that have gradients themselves.
 */
#include "ops/grad.h"
#include "dlcore/arithmetic.h"
#include "ops/polynomials.h"
#include "ops/rules/unary.h"

/* In the order of ops/polynomials.h. */
typedef struct family {
    double first, shift, a, a0, b, b0, c, c0;
    int divided;
} family;

/* factor x + shift */
static dl_tensor *line(dl_back *b, dl_tensor *x, double factor, double shift) {
    dl_tensor *y = factor == 1 ? x : T(dl_mul(x, NUM(factor)));
    return shift == 0 ? y : T(dl_add(y, NUM(shift)));
}

/* (grow now - old before) / by */
static dl_tensor *next(dl_back *b, dl_tensor *grow, dl_tensor *now, double old, dl_tensor *before, double by) {
    return T(dl_mul(T(dl_sub(T(dl_mul(grow, now)), T(dl_mul(before, NUM(old))))), NUM(1 / by)));
}

/* p[n]'(x), n >= 1. It follows p and its slope, each with its value before. */
static dl_tensor *slope(dl_back *b, dl_tensor *x, const family *f, long n) {
    dl_tensor *zero = T(dl_mul(x, NUM(0))), *before = zero ? T(dl_add(zero, NUM(1))) : NULL, *fell = zero;
    dl_tensor *now = line(b, x, f->first, f->shift), *falls = before ? T(dl_mul(before, NUM(f->first))) : NULL;
    for (long k = 1; k < n && now && falls; k++) {
        const double by = f->divided ? (double)(k + 1) : 1, i = (double)k, rise = f->a * i + f->a0,
                     old = f->c * i + f->c0;
        dl_tensor *grow = line(b, x, rise, f->b * i + f->b0);
        dl_tensor *further = next(b, grow, now, old, before, by), *part = T(dl_mul(now, NUM(rise / by)));
        dl_tensor *moves = T(dl_add(next(b, grow, falls, old, fell, by), part));
        before = now, now = further, fell = falls, falls = moves;
    }
    return falls;
}

/* Of p(x), or of p(2 x - 1). */
static dl_status back(dl_back *b, const family *f, bool shifted) {
    const long n = ATTR_I(b, POLYNOMIAL_N);
    dl_tensor *x = IN_(POLYNOMIAL_INPUT), *g = shifted ? T(dl_mul(G0, NUM(2))) : G0;
    if (!n) return dl_give(b, DL_IN_POLYNOMIAL_INPUT, dl_mul(x, NUM(0)));
    return dl_give(b, DL_IN_POLYNOMIAL_INPUT, dl_mul(g, slope(b, shifted ? line(b, x, 2, -1) : x, f, n)));
}

#define POLYNOMIAL_RULE(name, shifted, ...)                                                                            \
    GRAD_RULE(name) { return back(b, &(const family){__VA_ARGS__}, shifted); }
#define CHEBYSHEV_RULE(kind, ...)                                                                                      \
    POLYNOMIAL_RULE(chebyshev_polynomial_##kind, false, __VA_ARGS__)                                                   \
    POLYNOMIAL_RULE(shifted_chebyshev_polynomial_##kind, true, __VA_ARGS__)
CHEBYSHEV_RULE(t, CHEBYSHEV(1, 0))
CHEBYSHEV_RULE(u, CHEBYSHEV(2, 0))
CHEBYSHEV_RULE(v, CHEBYSHEV(2, -1))
CHEBYSHEV_RULE(w, CHEBYSHEV(2, 1))
POLYNOMIAL_RULE(hermite_polynomial_h, false, HERMITE(2))
POLYNOMIAL_RULE(hermite_polynomial_he, false, HERMITE(1))
POLYNOMIAL_RULE(laguerre_polynomial_l, false, LAGUERRE)
POLYNOMIAL_RULE(legendre_polynomial_p, false, LEGENDRE)
