/* Gradient rules of rows that work element by element. g is the incoming gradient, x or a, b the inputs, y the output;
 * the formula stands above each rule that is more than the chain rule read off its row. */
#include "ops/grad.h"

#include <math.h>

/* ---- two operands; dl_give sums over broadcast dimensions */

GRAD_RULE(add) {
    DL_GIVE(0, dl_ref(G0));
    DL_GIVE(1, dl_ref(G0));
    return DL_OK;
}

GRAD_RULE(sub) {
    DL_GIVE(0, dl_ref(G0));
    DL_GIVE(1, dl_neg(G0));
    return DL_OK;
}

GRAD_RULE(mul) {
    DL_GIVE(0, dl_mul(G0, IN_(1)));
    DL_GIVE(1, dl_mul(G0, IN_(0)));
    return DL_OK;
}

/* da = g / b, db = -(g / b) (a / b) */
GRAD_RULE(div) {
    dl_tensor *d = T(dl_div(G0, IN_(1)));
    DL_GIVE(0, dl_ref(d));
    DL_GIVE(1, dl_neg(T(dl_mul(d, T(dl_div(IN_(0), IN_(1)))))));
    return DL_OK;
}

/* a - b floor(a / b), where floor() is constant almost everywhere */
GRAD_RULE(remainder) {
    DL_GIVE(0, dl_ref(G0));
    DL_GIVE(1, dl_neg(T(dl_mul(G0, T(dl_floor_divide(IN_(0), IN_(1)))))));
    return DL_OK;
}

/* da = g b a**(b - 1), 0 where b is; db = g y ln(a), 0 where a is 0 and b not negative */
GRAD_RULE(pow) {
    if (DL_NEED(0)) {
        dl_tensor *slope = T(dl_mul(IN_(1), T(dl_pow(IN_(0), T(dl_sub(IN_(1), NUM(1)))))));
        dl_tensor *flat = T(dl_eq(IN_(1), NUM(0)));
        DL_TRY(dl_give(b, 0, dl_mul(G0, T(dl_where(flat, NUM(0), slope)))));
    }
    if (DL_NEED(1)) {
        dl_tensor *flat = T(dl_logical_and(T(dl_eq(IN_(0), NUM(0))), T(dl_ge(IN_(1), NUM(0)))));
        dl_tensor *base = T(dl_where(flat, NUM(1), IN_(0))); /* ln(1) = 0: no infinity to multiply by 0 */
        DL_TRY(dl_give(b, 1, dl_mul(G0, T(dl_mul(OUT_(0), T(dl_log(base)))))));
    }
    return DL_OK;
}

/* dx = g ((1 - target) sigmoid(x) - target sigmoid(-x)), exact far out, too; dtarget = -g x */
GRAD_RULE(logit_loss) {
    if (DL_NEED(0)) {
        dl_tensor *up = T(dl_mul(T(dl_sub(NUM(1), IN_(1))), T(dl_sigmoid(IN_(0)))));
        dl_tensor *down = T(dl_mul(IN_(1), T(dl_sigmoid(T(dl_neg(IN_(0)))))));
        DL_TRY(dl_give(b, 0, dl_mul(G0, T(dl_sub(up, down)))));
    }
    DL_GIVE(1, dl_neg(T(dl_mul(G0, IN_(0)))));
    return DL_OK;
}

/* The operand that lost gets nothing; both get half where they are equal. NaN counts as having won. */
static dl_tensor *share(dl_back *b, dl_tensor *lost) {
    dl_tensor *tie = T(dl_eq(IN_(0), IN_(1))), *half = T(dl_mul(G0, NUM(0.5)));
    return dl_where(tie, half, T(dl_where(lost, NUM(0), G0)));
}

GRAD_RULE(maximum) {
    DL_GIVE(0, share(b, T(dl_lt(IN_(0), IN_(1)))));
    DL_GIVE(1, share(b, T(dl_lt(IN_(1), IN_(0)))));
    return DL_OK;
}

GRAD_RULE(minimum) {
    DL_GIVE(0, share(b, T(dl_gt(IN_(0), IN_(1)))));
    DL_GIVE(1, share(b, T(dl_gt(IN_(1), IN_(0)))));
    return DL_OK;
}

/* ---- one operand: RULE(name, gradient) */

#define RULE(name, expr)                                                                                               \
    GRAD_RULE(name) {                                                                                                  \
        DL_GIVE(0, expr);                                                                                              \
        return DL_OK;                                                                                                  \
    }
#define X IN_(0)
#define Y OUT_(0)
#define PLUS1(t) T(dl_add(t, NUM(1)))
#define ONE_LESS(t) T(dl_sub(NUM(1), t))
#define SQUARE(t) T(dl_square(t))

RULE(identity, dl_ref(G0))
RULE(to, dl_ref(G0))
RULE(zero, dl_zeros_like_in(b, 0))
RULE(neg, dl_neg(G0))
RULE(abs, dl_mul(G0, T(dl_sign(X))))
RULE(square, dl_mul(G0, T(dl_mul(X, NUM(2)))))
RULE(exp, dl_mul(G0, Y))
RULE(expm1, dl_mul(G0, PLUS1(Y)))
RULE(log, dl_div(G0, X))
RULE(log2, dl_div(G0, T(dl_mul(X, NUM(M_LN2)))))
RULE(log10, dl_div(G0, T(dl_mul(X, NUM(M_LN10)))))
RULE(log1p, dl_div(G0, PLUS1(X)))
RULE(sqrt, dl_div(G0, T(dl_mul(Y, NUM(2)))))
RULE(rsqrt, dl_mul(T(dl_mul(G0, NUM(-0.5))), T(dl_mul(Y, SQUARE(Y)))))
RULE(reciprocal, dl_neg(T(dl_mul(G0, SQUARE(Y)))))
RULE(sin, dl_mul(G0, T(dl_cos(X))))
RULE(cos, dl_neg(T(dl_mul(G0, T(dl_sin(X))))))
RULE(tan, dl_mul(G0, PLUS1(SQUARE(Y))))
RULE(atan, dl_div(G0, PLUS1(SQUARE(X))))
RULE(tanh, dl_mul(G0, ONE_LESS(SQUARE(Y))))
RULE(sigmoid, dl_mul(G0, T(dl_mul(Y, ONE_LESS(Y)))))
RULE(erf, dl_mul(G0, T(dl_mul(NUM(M_2_SQRTPI), T(dl_exp(T(dl_neg(SQUARE(X)))))))))
RULE(softplus, dl_mul(G0, T(dl_sigmoid(X))))
RULE(relu, dl_where(T(dl_le(Y, NUM(0))), NUM(0), G0))
RULE(leaky_relu, dl_where(T(dl_gt(X, NUM(0))), G0, T(dl_mul(G0, NUM(b->attr[0].u.f)))))

/* 1 above 0, alpha e**x below, where no infinity comes in from above */
GRAD_RULE(elu) {
    const double zero = 0;
    dl_tensor *slope = T(dl_mul(NUM(b->attr[0].u.f), T(dl_exp(T(dl_clamp(X, NULL, &zero))))));
    DL_GIVE(0, dl_where(T(dl_gt(X, NUM(0))), G0, T(dl_mul(G0, slope))));
    return DL_OK;
}

/* Phi(x) + x phi(x), the normal distribution and its density */
GRAD_RULE(gelu) {
    dl_tensor *cdf = T(dl_mul(NUM(0.5), PLUS1(T(dl_erf(T(dl_mul(X, NUM(M_SQRT1_2))))))));
    dl_tensor *pdf = T(dl_mul(NUM(0.5 * M_2_SQRTPI * M_SQRT1_2), T(dl_exp(T(dl_mul(SQUARE(X), NUM(-0.5)))))));
    DL_GIVE(0, dl_mul(G0, T(dl_add(cdf, T(dl_mul(X, pdf))))));
    return DL_OK;
}

/* s (1 + x (1 - s)), s = sigmoid(x) */
GRAD_RULE(silu) {
    dl_tensor *s = T(dl_sigmoid(X));
    DL_GIVE(0, dl_mul(G0, T(dl_mul(s, PLUS1(T(dl_mul(X, ONE_LESS(s))))))));
    return DL_OK;
}

static dl_tensor *limit(dl_back *b, const dl_aval *a) { return a->is_int ? T(dl_scalar_i(a->u.i)) : NUM(a->u.f); }

/* Inside the limits, these included */
GRAD_RULE(clamp) {
    const dl_aval *lo = &b->attr[0], *hi = &b->attr[1];
    dl_tensor *in = lo->given ? T(dl_ge(X, limit(b, lo))) : NULL, *below = hi->given ? T(dl_le(X, limit(b, hi))) : NULL;
    if (lo->given && hi->given) in = T(dl_logical_and(in, below));
    DL_GIVE(0, dl_where(lo->given ? in : below, G0, NUM(0)));
    return DL_OK;
}

GRAD_RULE(where) {
    DL_GIVE(1, dl_where(IN_(0), G0, NUM(0)));
    DL_GIVE(2, dl_where(IN_(0), NUM(0), G0));
    return DL_OK;
}
