/* Orthogonal polynomials, by the recurrence of three terms of each. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "ops/rules/unary.h"

/* p[k + 1] = (a x + b) p[k] - c p[k - 1], each of a, b and c being (its factor k + its constant) / (divided: k + 1);
 * p[0] = 1, p[1] = first x + shift. A shifted one takes 2 x - 1 for x. */
typedef struct family {
    double first, shift;
    double a[2], b[2], c[2];
    bool divided, shifted;
} family;

#define CHEBYSHEV .a = {0, 2}, .c = {0, 1}
static const family t = {1, 0, CHEBYSHEV}, u = {2, 0, CHEBYSHEV}, v = {2, -1, CHEBYSHEV}, w = {2, 1, CHEBYSHEV},
                    shifted_t = {1, 0, CHEBYSHEV, .shifted = true}, shifted_u = {2, 0, CHEBYSHEV, .shifted = true},
                    shifted_v = {2, -1, CHEBYSHEV, .shifted = true}, shifted_w = {2, 1, CHEBYSHEV, .shifted = true},
                    h = {2, 0, .a = {0, 2}, .c = {2, 0}}, he = {1, 0, .a = {0, 1}, .c = {1, 0}},
                    l = {-1, 1, .a = {0, -1}, .b = {2, 1}, .c = {1, 0}, .divided = true},
                    legendre = {1, 0, .a = {2, 1}, .c = {1, 0}, .divided = true};

/* factor x + shift */
static dl_tensor *line(dl_pool *p, dl_tensor *x, double factor, double shift) {
    dl_tensor *y = factor == 1 ? x : K(dl_mul(x, N(factor)));
    return shift == 0 ? y : K(dl_add(y, N(shift)));
}

static dl_tensor *next(const family *f, dl_tensor *x, long k, dl_tensor *now, dl_tensor *before) {
    POOL;
    const double by = f->divided ? (double)(k + 1) : 1, at = (double)k;
    dl_tensor *grown = K(dl_mul(line(p, x, (f->a[0] * at + f->a[1]) / by, (f->b[0] * at + f->b[1]) / by), now));
    return dl_sub(grown, K(dl_mul(before, N((f->c[0] * at + f->c[1]) / by))));
}

static dl_status polynomial(dl_call *c, const family *f) {
    POOL;
    enum { MOST = 1000 };
    const long n = ATTR_I(c, POLYNOMIAL_N);
    if (n < 0 || n > MOST) return dl_fail(DL_ERR_VALUE, "the degree n must be 0 to %d, not %ld", MOST, n);
    dl_tensor *x = f->shifted ? line(p, c->in[0], 2, -1) : c->in[0];
    DL_OWNED dl_tensor *before = x ? dl_add(K(dl_mul(x, N(0))), N(1)) : NULL;
    if (!before || !n) return dl_finish(c, before ? dl_ref(before) : NULL);
    DL_OWNED dl_tensor *now = dl_ref(line(p, x, f->first, f->shift));
    for (long k = 1; k < n && now; k++) {
        DL_OWNED dl_tensor *old = before;
        before = now;
        now = next(f, x, k, before, old);
    }
    return dl_finish(c, now ? dl_ref(now) : NULL);
}

#define POLYNOMIAL_RULE(name, family)                                                                                  \
    COMPOSE_RULE(name) { return polynomial(c, &(family)); }
POLYNOMIAL_RULE(chebyshev_polynomial_t, t)
POLYNOMIAL_RULE(chebyshev_polynomial_u, u)
POLYNOMIAL_RULE(chebyshev_polynomial_v, v)
POLYNOMIAL_RULE(chebyshev_polynomial_w, w)
POLYNOMIAL_RULE(shifted_chebyshev_polynomial_t, shifted_t)
POLYNOMIAL_RULE(shifted_chebyshev_polynomial_u, shifted_u)
POLYNOMIAL_RULE(shifted_chebyshev_polynomial_v, shifted_v)
POLYNOMIAL_RULE(shifted_chebyshev_polynomial_w, shifted_w)
POLYNOMIAL_RULE(hermite_polynomial_h, h)
POLYNOMIAL_RULE(hermite_polynomial_he, he)
POLYNOMIAL_RULE(laguerre_polynomial_l, l)
POLYNOMIAL_RULE(legendre_polynomial_p, legendre)
