/* Gradient rules of rows that work element by element. g is the incoming gradient, x or a, b the inputs, y the output;
 * the formula stands above each rule that is more than the chain rule read off its row. */
#include "ops/grad.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/matmul.h"
#include "dlcore/rounding.h"
#include "dlcore/unary.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/names/compare.h"
#include "ops/rules/arithmetic.h"
#include "ops/rules/binary.h"
#include "ops/rules/elementary.h"
#include "ops/rules/rounding.h"
#include "ops/rules/copy.h"
#include "ops/rules/loss.h"
#include "ops/rules/unary.h"
#include "ops/rules/where.h"

#include <math.h>

/* ---- two operands; dl_give sums over broadcast dimensions */

#define LEFT IN_(BINARY_INPUT)
#define RIGHT IN_(BINARY_OTHER)

GRAD_RULE(add) {
    GIVE(BINARY_INPUT, dl_ref(G0));
    GIVE(BINARY_OTHER, dl_ref(G0));
    return DL_OK;
}

GRAD_RULE(sub) {
    GIVE(BINARY_INPUT, dl_ref(G0));
    GIVE(BINARY_OTHER, dl_neg(G0));
    return DL_OK;
}

GRAD_RULE(mul) {
    GIVE(BINARY_INPUT, dl_mul(G0, CONJ(RIGHT)));
    GIVE(BINARY_OTHER, dl_mul(G0, CONJ(LEFT)));
    return DL_OK;
}

/* da = g / b, db = -(g / b) (a / b) */
GRAD_RULE(div) {
    dl_tensor *d = T(dl_div(G0, CONJ(RIGHT)));
    GIVE(BINARY_INPUT, dl_ref(d));
    GIVE(BINARY_OTHER, dl_neg(T(dl_mul(d, CONJ(T(dl_div(LEFT, RIGHT)))))));
    return DL_OK;
}

/* a - b floor(a / b), where floor() is constant almost everywhere */
GRAD_RULE(remainder) {
    GIVE(BINARY_INPUT, dl_ref(G0));
    GIVE(BINARY_OTHER, dl_neg(T(dl_mul(G0, T(dl_floor_divide(LEFT, RIGHT))))));
    return DL_OK;
}

/* a - b trunc(a / b) */
GRAD_RULE(fmod) {
    GIVE(BINARY_INPUT, dl_ref(G0));
    GIVE(BINARY_OTHER, dl_neg(T(dl_mul(G0, T(dl_trunc(T(dl_div(LEFT, RIGHT))))))));
    return DL_OK;
}

/* da = g b / (a**2 + b**2), db = -g a / (a**2 + b**2) */
GRAD_RULE(atan2) {
    dl_tensor *d = T(dl_div(G0, T(dl_add(T(dl_square(LEFT)), T(dl_square(RIGHT))))));
    GIVE(BINARY_INPUT, dl_mul(d, RIGHT));
    GIVE(BINARY_OTHER, dl_neg(T(dl_mul(d, LEFT))));
    return DL_OK;
}

/* dx = +-g x**(a - 1) e**-x / gamma(a) */
static dl_status share_rule(dl_back *b, double sign) {
    if (NEED(BINARY_INPUT))
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "detach() the shape, or draw from a gamma distribution by rsample",
                            "an incomplete gamma function has no gradient for its shape");
    dl_tensor *power = T(dl_sub(T(dl_xlogy(T(dl_sub(LEFT, NUM(1))), RIGHT)), T(dl_add(RIGHT, T(dl_lgamma(LEFT))))));
    GIVE(BINARY_OTHER, dl_mul(G0, T(dl_mul(T(dl_exp(power)), NUM(sign)))));
    return DL_OK;
}
GRAD_RULE(igamma) { return share_rule(b, 1); }
/* db = -a zeta(a + 1, b) */
GRAD_RULE(zeta) {
    GIVE(BINARY_OTHER, dl_neg(T(dl_mul(G0, T(dl_mul(LEFT, T(dl_zeta(T(dl_add(LEFT, NUM(1))), RIGHT))))))));
    return DL_OK;
}

GRAD_RULE(igammac) { return share_rule(b, -1); }

/* da = g a / y, db = g b / y */
GRAD_RULE(hypot) {
    dl_tensor *d = T(dl_div(G0, OUT_(BINARY_OUT)));
    GIVE(BINARY_INPUT, dl_mul(d, LEFT));
    GIVE(BINARY_OTHER, dl_mul(d, RIGHT));
    return DL_OK;
}

GRAD_RULE(ldexp) {
    dl_tensor *power = T(dl_exp2(RIGHT));
    GIVE(BINARY_INPUT, dl_mul(G0, power));
    GIVE(BINARY_OTHER, dl_mul(G0, T(dl_mul(T(dl_mul(LEFT, power)), NUM(M_LN2)))));
    return DL_OK;
}

/* da = g where the sign of a is kept, else -g; 0 at 0 */
GRAD_RULE(copysign) {
    dl_tensor *signs = T(dl_mul(T(dl_sign(LEFT)), T(dl_sign(OUT_(BINARY_OUT)))));
    GIVE(BINARY_INPUT, dl_mul(G0, signs));
    GIVE(BINARY_OTHER, dl_zeros_like_in(b, 1));
    return DL_OK;
}

GRAD_RULE(logaddexp) {
    dl_tensor *d = T(dl_sub(LEFT, RIGHT));
    GIVE(BINARY_INPUT, dl_mul(G0, T(dl_sigmoid(d))));
    GIVE(BINARY_OTHER, dl_mul(G0, T(dl_sigmoid(T(dl_neg(d))))));
    return DL_OK;
}

GRAD_RULE(logaddexp2) {
    dl_tensor *d = T(dl_mul(T(dl_sub(LEFT, RIGHT)), NUM(M_LN2)));
    GIVE(BINARY_INPUT, dl_mul(G0, T(dl_sigmoid(d))));
    GIVE(BINARY_OTHER, dl_mul(G0, T(dl_sigmoid(T(dl_neg(d))))));
    return DL_OK;
}

/* To the first where it is the result, else to the second. */
static dl_status to_chosen(dl_back *b, dl_tensor *better) {
    dl_tensor *first = T(dl_logical_or(better, T(dl_isnan(RIGHT))));
    GIVE(BINARY_INPUT, dl_where(first, G0, NUM(0)));
    GIVE(BINARY_OTHER, dl_where(first, NUM(0), G0));
    return DL_OK;
}
GRAD_RULE(fmax) { return to_chosen(b, T(dl_ge(LEFT, RIGHT))); }
GRAD_RULE(fmin) { return to_chosen(b, T(dl_le(LEFT, RIGHT))); }

/* ln(x), but 0 where flat: no infinity to multiply by 0. A number x takes part in the dtype of the gradient. */
static dl_tensor *log_unless(dl_back *b, dl_tensor *flat, dl_tensor *x) {
    dl_tensor *one = x && x->weak ? T(dl_full((long[]){0}, 0, 1, G0->dtype, G0->st->device)) : NUM(1);
    return T(dl_log(T(dl_where(flat, one, x))));
}

/* da = g ln(b), 0 where a is 0 and b not positive; db = g a / b */
GRAD_RULE(xlogy) {
    if (NEED(BINARY_INPUT)) {
        dl_tensor *flat = T(dl_logical_and(T(dl_eq(LEFT, NUM(0))), T(dl_le(RIGHT, NUM(0)))));
        DL_TRY(dl_give(b, DL_IN_BINARY_INPUT, dl_mul(G0, log_unless(b, flat, RIGHT))));
    }
    GIVE(BINARY_OTHER, dl_mul(G0, T(dl_div(LEFT, RIGHT))));
    return DL_OK;
}

GRAD_RULE(xlog1py) {
    dl_tensor *other = T(dl_add(RIGHT, NUM(1)));
    if (NEED(BINARY_INPUT)) {
        dl_tensor *flat = T(dl_logical_and(T(dl_eq(LEFT, NUM(0))), T(dl_le(other, NUM(0)))));
        DL_TRY(dl_give(b, DL_IN_BINARY_INPUT, dl_mul(G0, T(dl_log1p(T(dl_where(flat, NUM(0), RIGHT)))))));
    }
    GIVE(BINARY_OTHER, dl_mul(G0, T(dl_div(LEFT, other))));
    return DL_OK;
}

/* da = g e a**(e - 1), 0 where e is; db = g y ln(a), 0 where a is 0 and e not negative */
GRAD_RULE(pow) {
    dl_tensor *a = IN_(POW_INPUT), *e = IN_(POW_EXPONENT);
    if (NEED(POW_INPUT)) {
        dl_tensor *slope = T(dl_mul(e, T(dl_pow(a, T(dl_sub(e, NUM(1)))))));
        dl_tensor *flat = T(dl_eq(e, NUM(0)));
        DL_TRY(dl_give(b, DL_IN_POW_INPUT, dl_mul(G0, T(dl_where(flat, NUM(0), slope)))));
    }
    if (NEED(POW_EXPONENT)) {
        dl_tensor *flat = T(dl_logical_and(T(dl_eq(a, NUM(0))), T(dl_ge(e, NUM(0)))));
        DL_TRY(dl_give(b, DL_IN_POW_EXPONENT, dl_mul(G0, T(dl_mul(OUT_(POW_OUT), log_unless(b, flat, a))))));
    }
    return DL_OK;
}

/* dx = g ((1 - target) sigmoid(x) - target sigmoid(-x)), exact far out, too; dtarget = -g x */
GRAD_RULE(logit_loss) {
    dl_tensor *x = IN_(LOGIT_LOSS_INPUT);
    if (NEED(LOGIT_LOSS_INPUT)) {
        dl_tensor *target = IN_(LOGIT_LOSS_TARGET);
        dl_tensor *up = T(dl_mul(T(dl_sub(NUM(1), target)), T(dl_sigmoid(x))));
        dl_tensor *down = T(dl_mul(target, T(dl_sigmoid(T(dl_neg(x))))));
        DL_TRY(dl_give(b, DL_IN_LOGIT_LOSS_INPUT, dl_mul(G0, T(dl_sub(up, down)))));
    }
    GIVE(LOGIT_LOSS_TARGET, dl_neg(T(dl_mul(G0, x))));
    return DL_OK;
}

/* up = ln(1 + e^x), down = ln(1 + e^-x): dx = g ((1 - target) sigmoid(x) - w target sigmoid(-x)), dtarget = g (w down -
 * up), dw = g target down */
GRAD_RULE(balanced_logit_loss) {
    dl_tensor *x = IN_(BALANCED_LOGIT_LOSS_INPUT), *y = IN_(BALANCED_LOGIT_LOSS_TARGET);
    dl_tensor *w = IN_(BALANCED_LOGIT_LOSS_WEIGHT), *less = T(dl_neg(x)), *down = T(dl_neg(T(dl_logsigmoid(x))));
    if (NEED(BALANCED_LOGIT_LOSS_INPUT)) {
        dl_tensor *no = T(dl_mul(T(dl_sub(NUM(1), y)), T(dl_sigmoid(x))));
        dl_tensor *yes = T(dl_mul(T(dl_mul(y, w)), T(dl_sigmoid(less))));
        DL_TRY(dl_give(b, DL_IN_BALANCED_LOGIT_LOSS_INPUT, dl_mul(G0, T(dl_sub(no, yes)))));
    }
    GIVE(BALANCED_LOGIT_LOSS_TARGET, dl_mul(G0, T(dl_add(T(dl_mul(w, down)), T(dl_logsigmoid(less))))));
    GIVE(BALANCED_LOGIT_LOSS_WEIGHT, dl_mul(T(dl_mul(G0, y)), down));
    return DL_OK;
}

/* dx = g (x - target) / (x (1 - x)), the divisor at least 1e-12; dtarget = g (ln(1 - x) - ln(x)), each at least -100 */
GRAD_RULE(probability_loss) {
    const double least = 1e-12, floor = -100;
    dl_tensor *x = IN_(PROBABILITY_LOSS_INPUT), *rest = T(dl_sub(NUM(1), x));
    if (NEED(PROBABILITY_LOSS_INPUT)) {
        dl_tensor *off = T(dl_sub(x, IN_(PROBABILITY_LOSS_TARGET)));
        dl_tensor *spread = T(dl_clamp(T(dl_mul(x, rest)), &least, NULL));
        DL_TRY(dl_give(b, DL_IN_PROBABILITY_LOSS_INPUT, dl_mul(G0, T(dl_div(off, spread)))));
    }
    if (NEED(PROBABILITY_LOSS_TARGET)) {
        dl_tensor *no = T(dl_clamp(T(dl_log(rest)), &floor, NULL)), *yes = T(dl_clamp(T(dl_log(x)), &floor, NULL));
        DL_TRY(dl_give(b, DL_IN_PROBABILITY_LOSS_TARGET, dl_mul(G0, T(dl_sub(no, yes)))));
    }
    return DL_OK;
}

/* The operand that lost gets nothing; both get half where they are equal. NaN counts as having won. */
static dl_tensor *share(dl_back *b, dl_tensor *lost) {
    dl_tensor *tie = T(dl_eq(LEFT, RIGHT)), *half = T(dl_mul(G0, NUM(0.5)));
    return dl_where(tie, half, T(dl_where(lost, NUM(0), G0)));
}

GRAD_RULE(maximum) {
    GIVE(BINARY_INPUT, share(b, T(dl_lt(LEFT, RIGHT))));
    GIVE(BINARY_OTHER, share(b, T(dl_lt(RIGHT, LEFT))));
    return DL_OK;
}

GRAD_RULE(minimum) {
    GIVE(BINARY_INPUT, share(b, T(dl_gt(LEFT, RIGHT))));
    GIVE(BINARY_OTHER, share(b, T(dl_gt(RIGHT, LEFT))));
    return DL_OK;
}

GRAD_RULE(slope_below) {
    dl_tensor *above = T(dl_gt(LEFT, NUM(0)));
    const double lower = ATTR_F(b, SLOPE_BELOW_LOWER), range = ATTR_F(b, SLOPE_BELOW_UPPER) - lower;
    dl_tensor *slope = T(dl_add_scaled(NUM(lower), RIGHT, range));
    GIVE(BINARY_INPUT, dl_where(above, G0, T(dl_mul(G0, slope))));
    GIVE(BINARY_OTHER, dl_where(above, NUM(0), T(dl_mul(T(dl_mul(G0, LEFT)), NUM(range)))));
    return DL_OK;
}

GRAD_RULE(excess) {
    dl_tensor *g = T(dl_where(T(dl_le(LEFT, RIGHT)), NUM(0), G0));
    GIVE(BINARY_INPUT, dl_ref(g));
    GIVE(BINARY_OTHER, dl_neg(g));
    return DL_OK;
}

GRAD_RULE(gated) {
    dl_tensor *gate = T(dl_sigmoid(RIGHT)), *open = T(dl_mul(G0, gate));
    GIVE(BINARY_INPUT, dl_ref(open));
    GIVE(BINARY_OTHER, dl_mul(T(dl_mul(open, LEFT)), T(dl_sub(NUM(1), gate))));
    return DL_OK;
}

/* A gradient by a difference: to the first operand, and its negative to the second. */
static dl_status to_difference(dl_back *b, dl_tensor *d) {
    GIVE(BINARY_INPUT, dl_ref(d));
    GIVE(BINARY_OTHER, dl_neg(d));
    return d ? DL_OK : dl_failed();
}
GRAD_RULE(square_difference) { return to_difference(b, T(dl_mul(G0, T(dl_mul(T(dl_sub(LEFT, RIGHT)), NUM(2)))))); }
/* The difference, limited to delta */
GRAD_RULE(huber_difference) {
    const double high = ATTR_F(b, HUBER_DIFFERENCE_DELTA), low = -high;
    dl_tensor *off = T(dl_clamp(T(dl_sub(LEFT, RIGHT)), &low, &high));
    return to_difference(b, T(dl_mul(T(dl_mul(G0, off)), NUM(ATTR_F(b, HUBER_DIFFERENCE_SCALE)))));
}

/* The slope of |t|**e, 0 where t is 0. */
static dl_tensor *size_slope(dl_back *b, dl_tensor *t, double e) {
    dl_tensor *flat = T(dl_eq(t, NUM(0))), *size = T(dl_where(flat, NUM(1), T(dl_abs(t))));
    dl_tensor *by = e == 1 ? NUM(1) : T(dl_mul(T(dl_pow(size, NUM(e - 1))), NUM(e)));
    return T(dl_mul(T(dl_sign(t)), by));
}
RULE(magnitude_power, dl_mul(G0, size_slope(b, IN_(MAGNITUDE_POWER_INPUT), ATTR_F(b, MAGNITUDE_POWER_P))))
GRAD_RULE(difference_power) {
    dl_tensor *off = T(dl_add(T(dl_sub(LEFT, RIGHT)), NUM(ATTR_F(b, DIFFERENCE_POWER_SHIFT))));
    return to_difference(b, T(dl_mul(G0, size_slope(b, off, ATTR_F(b, DIFFERENCE_POWER_P)))));
}

/* da = -g b, db = g (ln(b) + 1 - a), at 0 the right one without the logarithm's */
GRAD_RULE(divergence) {
    GIVE(BINARY_INPUT, dl_neg(T(dl_mul(G0, RIGHT))));
    if (!NEED(BINARY_OTHER)) return DL_OK;
    dl_tensor *none = T(dl_eq(RIGHT, NUM(0))), *more = T(dl_add(log_unless(b, none, RIGHT), NUM(1)));
    dl_tensor *slope = T(dl_sub(T(dl_where(none, NUM(0), more)), LEFT));
    return dl_give(b, DL_IN_BINARY_OTHER, dl_mul(G0, slope));
}

GRAD_RULE(log_divergence) {
    dl_tensor *share = T(dl_mul(G0, T(dl_exp(RIGHT))));
    GIVE(BINARY_INPUT, dl_neg(share));
    GIVE(BINARY_OTHER, dl_mul(share, T(dl_add(T(dl_sub(RIGHT, LEFT)), NUM(1)))));
    return DL_OK;
}

/* d(a b) = -g sigmoid(-a b) */
GRAD_RULE(logistic_loss) {
    dl_tensor *share = T(dl_mul(G0, T(dl_sigmoid(T(dl_neg(T(dl_mul(LEFT, RIGHT))))))));
    GIVE(BINARY_INPUT, dl_neg(T(dl_mul(share, RIGHT))));
    GIVE(BINARY_OTHER, dl_neg(T(dl_mul(share, LEFT))));
    return DL_OK;
}

/* g of those that are together, less g of those that are apart and nearer than the margin */
GRAD_RULE(hinge_loss) {
    dl_tensor *far = T(dl_gt(LEFT, NUM(ATTR_F(b, HINGE_LOSS_MARGIN)))), *none = T(dl_eq(RIGHT, NUM(1)));
    dl_tensor *up = T(dl_where(T(dl_eq(RIGHT, NUM(-1))), NUM(0), G0));
    GIVE(BINARY_INPUT, dl_sub(up, T(dl_where(T(dl_logical_or(none, far)), NUM(0), G0))));
    return DL_OK;
}

/* da = g (e^a - b), db = g (ln(b!)' - a) */
static dl_tensor *factorial_slope(dl_back *b, double full) {
    dl_tensor *some = T(dl_gt(RIGHT, NUM(1))), *y = T(dl_where(some, RIGHT, NUM(1)));
    if (!full) return NUM(0);
    return T(dl_where(some, T(dl_add(T(dl_log(y)), T(dl_div(NUM(0.5), y)))), NUM(0)));
}
GRAD_RULE(poisson_loss) {
    GIVE(BINARY_INPUT, dl_mul(G0, T(dl_sub(T(dl_exp(LEFT)), RIGHT))));
    GIVE(BINARY_OTHER, dl_mul(G0, T(dl_sub(factorial_slope(b, ATTR_F(b, POISSON_LOSS_FULL)), LEFT))));
    return DL_OK;
}
/* m = a + eps: da = g (1 - b / m), db = g (ln(b!)' - ln(m)) */
GRAD_RULE(poisson_mean_loss) {
    dl_tensor *m = T(dl_add(LEFT, NUM(ATTR_F(b, POISSON_MEAN_LOSS_EPS))));
    GIVE(BINARY_INPUT, dl_mul(G0, T(dl_sub(NUM(1), T(dl_div(RIGHT, m))))));
    GIVE(BINARY_OTHER, dl_mul(G0, T(dl_sub(factorial_slope(b, ATTR_F(b, POISSON_MEAN_LOSS_FULL)), T(dl_log(m))))));
    return DL_OK;
}

/* ---- three operands */

/* v = max(var, eps), whose slope is 1 below eps, too: dx = g (x - y) / v, dv = g (1 - (x - y)^2 / v) / 2v */
GRAD_RULE(normal_loss) {
    const double eps = ATTR_F(b, NORMAL_LOSS_EPS);
    dl_tensor *var = IN_(NORMAL_LOSS_VAR), *fixed = T(dl_detach(var));
    dl_tensor *v = T(dl_add(var, T(dl_sub(T(dl_clamp(fixed, &eps, NULL)), fixed))));
    dl_tensor *off = T(dl_sub(IN_(NORMAL_LOSS_INPUT), IN_(NORMAL_LOSS_TARGET))), *share = T(dl_div(off, v));
    dl_tensor *slope = T(dl_mul(G0, share));
    GIVE(NORMAL_LOSS_INPUT, dl_ref(slope));
    GIVE(NORMAL_LOSS_TARGET, dl_neg(slope));
    dl_tensor *rest = T(dl_sub(NUM(0.5), T(dl_mul(T(dl_mul(off, share)), NUM(0.5)))));
    GIVE(NORMAL_LOSS_VAR, dl_mul(G0, T(dl_div(rest, v))));
    return DL_OK;
}

/* Nothing where the margin is reached; else da = -g c, db = g c, dc = g (b - a) */
GRAD_RULE(ranking_loss) {
    dl_tensor *c = IN_(RANKING_LOSS_TARGET), *lead = T(dl_sub(IN_(RANKING_LOSS_INPUT2), IN_(RANKING_LOSS_INPUT1)));
    dl_tensor *done = T(dl_lt(T(dl_add(T(dl_mul(c, lead)), NUM(ATTR_F(b, RANKING_LOSS_MARGIN)))), NUM(0)));
    dl_tensor *g = T(dl_where(done, NUM(0), G0)), *to = T(dl_mul(g, c));
    GIVE(RANKING_LOSS_INPUT1, dl_neg(to));
    GIVE(RANKING_LOSS_INPUT2, dl_ref(to));
    GIVE(RANKING_LOSS_TARGET, dl_mul(g, lead));
    return DL_OK;
}

GRAD_RULE(lerp) {
    dl_tensor *to = T(dl_mul(G0, CONJ(IN_(LERP_WEIGHT))));
    GIVE(LERP_INPUT, dl_sub(G0, to));
    GIVE(LERP_END, dl_ref(to));
    GIVE(LERP_WEIGHT, dl_mul(G0, CONJ(T(dl_sub(IN_(LERP_END), IN_(LERP_INPUT))))));
    return DL_OK;
}

static dl_tensor *as_number(dl_back *b, const dl_aval *a) { return a->is_int ? T(dl_scalar_i(a->u.i)) : NUM(a->u.f); }

GRAD_RULE(add_scaled) {
    GIVE(SCALED_INPUT, dl_ref(G0));
    GIVE(SCALED_OTHER, dl_mul(G0, as_number(b, ATTR(b, SCALED_ALPHA))));
    return DL_OK;
}

GRAD_RULE(sub_scaled) {
    GIVE(SCALED_INPUT, dl_ref(G0));
    GIVE(SCALED_OTHER, dl_neg(T(dl_mul(G0, as_number(b, ATTR(b, SCALED_ALPHA))))));
    return DL_OK;
}

bool dl_addcmul_is_outer(dl_back *b) {
    const dl_meta *u = META(ADDCMUL_TENSOR1), *v = META(ADDCMUL_TENSOR2);
    return G0->ndim == 2 && dl_dtype_is_float(G0->dtype) && u->ndim == 2 && u->shape[1] == 1 &&
           u->shape[0] == G0->shape[0] && (v->ndim == 1 || (v->ndim == 2 && v->shape[0] == 1)) &&
           v->shape[v->ndim - 1] == G0->shape[1] && u->shape[0] > 1 && v->shape[v->ndim - 1] > 1;
}

/* d(u v^T): dL/du = g v, dL/dv = g^T u, times the factor */
static dl_status outer_grads(dl_back *b) {
    const dl_meta *v = META(ADDCMUL_TENSOR2);
    dl_tensor *by = as_number(b, ATTR(b, ADDCMUL_VALUE)), *row = IN_(ADDCMUL_TENSOR2), *column = IN_(ADDCMUL_TENSOR1);
    dl_tensor *upright = row ? T(dl_reshape(row, (long[]){row->numel, 1}, 2)) : NULL,
              *level = column ? T(dl_reshape(column, (long[]){1, column->numel}, 2)) : NULL;
    GIVE(ADDCMUL_INPUT, dl_ref(G0));
    GIVE(ADDCMUL_TENSOR1, dl_mul(T(dl_matmul(G0, upright)), by));
    GIVE(ADDCMUL_TENSOR2, dl_reshape(T(dl_mul(T(dl_matmul(level, G0)), by)), v->shape, v->ndim));
    return DL_OK;
}

GRAD_RULE(addcmul) {
    if (dl_addcmul_is_outer(b)) return outer_grads(b);
    dl_tensor *g = T(dl_mul(G0, as_number(b, ATTR(b, ADDCMUL_VALUE))));
    GIVE(ADDCMUL_INPUT, dl_ref(G0));
    GIVE(ADDCMUL_TENSOR1, dl_mul(g, CONJ(IN_(ADDCMUL_TENSOR2))));
    GIVE(ADDCMUL_TENSOR2, dl_mul(g, CONJ(IN_(ADDCMUL_TENSOR1))));
    return DL_OK;
}

GRAD_RULE(addcdiv) {
    dl_tensor *by = IN_(ADDCDIV_TENSOR2), *g = T(dl_mul(G0, as_number(b, ATTR(b, ADDCDIV_VALUE)))),
              *d = T(dl_div(g, by));
    GIVE(ADDCDIV_INPUT, dl_ref(G0));
    GIVE(ADDCDIV_TENSOR1, dl_ref(d));
    GIVE(ADDCDIV_TENSOR2, dl_neg(T(dl_mul(d, T(dl_div(IN_(ADDCDIV_TENSOR1), by))))));
    return DL_OK;
}

/* ---- one operand */

#define X IN_(UNARY_INPUT)
#define Y OUT_(UNARY_OUT)
#define PLUS1(t) T(dl_add(t, NUM(1)))
#define ONE_LESS(t) T(dl_sub(NUM(1), t))
#define SQUARE(t) T(dl_square(t))

RULE(identity, dl_ref(G0))
RULE(to, dl_ref(G0))
RULE(zero, dl_zeros_like_in(b, 0))
GRAD_RULE(zero_both) {
    DL_GIVE(0, dl_zeros_like_in(b, 0));
    DL_GIVE(1, dl_zeros_like_in(b, 1));
    return DL_OK;
}
RULE(neg, dl_neg(G0))
RULE(abs, dl_mul(G0, T(dl_sign(X))))
RULE(square, dl_mul(G0, CONJ(T(dl_mul(X, NUM(2))))))
RULE(exp, dl_mul(G0, CONJ(Y)))
RULE(expm1, dl_mul(G0, PLUS1(Y)))
RULE(log, dl_div(G0, CONJ(X)))
RULE(log2, dl_div(G0, T(dl_mul(X, NUM(M_LN2)))))
RULE(log10, dl_div(G0, T(dl_mul(X, NUM(M_LN10)))))
RULE(log1p, dl_div(G0, PLUS1(X)))
RULE(sqrt, dl_div(G0, CONJ(T(dl_mul(Y, NUM(2))))))
RULE(rsqrt, dl_mul(T(dl_mul(G0, NUM(-0.5))), T(dl_mul(Y, SQUARE(Y)))))
RULE(reciprocal, dl_neg(T(dl_mul(G0, CONJ(SQUARE(Y))))))
RULE(sin, dl_mul(G0, CONJ(T(dl_cos(X)))))
RULE(cos, dl_neg(T(dl_mul(G0, CONJ(T(dl_sin(X)))))))
RULE(tan, dl_mul(G0, PLUS1(SQUARE(Y))))
RULE(atan, dl_div(G0, PLUS1(SQUARE(X))))
RULE(asin, dl_mul(G0, T(dl_rsqrt(ONE_LESS(SQUARE(X))))))
RULE(acos, dl_neg(T(dl_mul(G0, T(dl_rsqrt(ONE_LESS(SQUARE(X))))))))
RULE(sinh, dl_mul(G0, CONJ(T(dl_cosh(X)))))
RULE(cosh, dl_mul(G0, CONJ(T(dl_sinh(X)))))
RULE(asinh, dl_mul(G0, T(dl_rsqrt(PLUS1(SQUARE(X))))))
RULE(acosh, dl_mul(G0, T(dl_rsqrt(T(dl_sub(SQUARE(X), NUM(1)))))))
RULE(atanh, dl_div(G0, ONE_LESS(SQUARE(X))))
RULE(erfc, dl_mul(G0, T(dl_mul(T(dl_exp(T(dl_neg(SQUARE(X))))), NUM(-M_2_SQRTPI)))))
RULE(erfinv, dl_mul(G0, T(dl_div(T(dl_exp(SQUARE(Y))), NUM(M_2_SQRTPI)))))
RULE(ndtri, dl_mul(G0, T(dl_mul(T(dl_exp(T(dl_mul(SQUARE(Y), NUM(0.5))))), NUM(2.50662827463100050242)))))
RULE(replace_nonfinite, dl_where(T(dl_isfinite(X)), G0, NUM(0)))
RULE(exp2, dl_mul(G0, T(dl_mul(Y, NUM(M_LN2)))))
RULE(lgamma, dl_mul(G0, T(dl_digamma(X))))
RULE(i0, dl_mul(G0, T(dl_i1(X))))
RULE(i0e, dl_mul(G0, T(dl_sub(T(dl_i1e(X)), T(dl_mul(T(dl_sign(X)), Y))))))

/* y / x, and the derivative that follows from it, 1/2 at 0 */
static dl_tensor *order_one(dl_back *b, dl_tensor *zero_order, dl_tensor *factor) {
    dl_tensor *none = T(dl_eq(X, NUM(0))), *safe = none ? T(dl_where(none, NUM(1), X)) : NULL;
    dl_tensor *rest = T(dl_mul(Y, T(dl_add(factor, T(dl_reciprocal(safe))))));
    return none ? T(dl_where(none, NUM(0.5), T(dl_sub(zero_order, rest)))) : NULL;
}
RULE(i1, dl_mul(G0, order_one(b, T(dl_i0(X)), NUM(0))))
RULE(i1e, dl_mul(G0, order_one(b, T(dl_i0e(X)), T(dl_sign(X)))))
RULE(digamma, dl_mul(G0, T(dl_polygamma(X, 1))))
/* -2 / sqrt(pi) + 2 x y */
RULE(erfcx, dl_mul(G0, T(dl_sub(T(dl_mul(T(dl_mul(X, NUM(2))), Y)), NUM(M_2_SQRTPI)))))
/* the normal density over its area, both scaled */
RULE(log_ndtr, dl_mul(T(dl_div(G0, T(dl_erfcx(T(dl_mul(X, NUM(-M_SQRT1_2))))))), NUM(sqrt(M_2_PI))))
RULE(airy_ai, dl_mul(G0, T(dl_airy_ai_slope(X))))
RULE(airy_ai_slope, dl_mul(G0, T(dl_mul(X, T(dl_airy_ai(X))))))
RULE(bessel_j0, dl_neg(T(dl_mul(G0, T(dl_bessel_j1(X))))))
RULE(bessel_y0, dl_neg(T(dl_mul(G0, T(dl_bessel_y1(X))))))
RULE(bessel_y1, dl_mul(G0, T(dl_sub(T(dl_bessel_y0(X)), T(dl_div(Y, X))))))
RULE(modified_bessel_k0, dl_neg(T(dl_mul(G0, T(dl_modified_bessel_k1(X))))))
RULE(modified_bessel_k1, dl_neg(T(dl_mul(G0, T(dl_add(T(dl_modified_bessel_k0(X)), T(dl_div(Y, X))))))))
RULE(scaled_modified_bessel_k0, dl_mul(G0, T(dl_sub(Y, T(dl_scaled_modified_bessel_k1(X))))))
RULE(scaled_modified_bessel_k1,
     dl_mul(G0, T(dl_sub(T(dl_sub(Y, T(dl_scaled_modified_bessel_k0(X)))), T(dl_div(Y, X))))))
/* j0 - y / x, whose limit at 0 is 1/2 */
GRAD_RULE(bessel_j1) {
    dl_tensor *at0 = T(dl_eq(X, NUM(0))), *part = T(dl_where(at0, NUM(0.5), T(dl_div(Y, T(dl_where(at0, NUM(1), X))))));
    return dl_give(b, 0, dl_mul(G0, T(dl_sub(T(dl_bessel_j0(X)), part))));
}
RULE(polygamma, dl_mul(G0, T(dl_polygamma(X, ATTR_I(b, POLYGAMMA_N) + 1))))
GRAD_RULE(frexp) {
    if (!G0) return DL_OK;
    dl_tensor *exponent = T(dl_to_dtype(OUT_(FREXP_EXPONENT), (dl_dtype)G0->dtype));
    return dl_give(b, 0, dl_ldexp(G0, T(dl_neg(exponent))));
}
RULE(mantissa, dl_ldexp(G0, T(dl_neg(T(dl_exponent(X))))))
RULE(softsign, dl_div(G0, SQUARE(PLUS1(T(dl_abs(X))))))
RULE(tanh, dl_mul(G0, CONJ(ONE_LESS(SQUARE(Y)))))
RULE(sigmoid, dl_mul(G0, T(dl_mul(Y, ONE_LESS(Y)))))
RULE(erf, dl_mul(G0, T(dl_mul(NUM(M_2_SQRTPI), T(dl_exp(T(dl_neg(SQUARE(X)))))))))
GRAD_RULE(softplus) {
    dl_tensor *scaled = T(dl_mul(X, NUM(ATTR_F(b, SOFTPLUS_BETA)))),
              *linear = T(dl_gt(scaled, NUM(ATTR_F(b, SOFTPLUS_THRESHOLD))));
    return dl_give(b, 0, dl_where(linear, G0, T(dl_mul(G0, T(dl_sigmoid(scaled))))));
}
RULE(logsigmoid, dl_mul(G0, T(dl_sigmoid(T(dl_neg(X))))))
RULE(entr, dl_neg(T(dl_mul(G0, PLUS1(T(dl_log(X)))))))
RULE(relu, dl_where(T(dl_le(Y, NUM(0))), NUM(0), G0))
RULE(leaky_relu, dl_where(T(dl_gt(X, NUM(0))), G0, T(dl_mul(G0, NUM(ATTR_F(b, LEAKY_RELU_NEGATIVE_SLOPE))))))

/* t + x (1 - t**2) sigmoid(x), t = tanh(softplus(x)) */
GRAD_RULE(mish) {
    dl_tensor *t = T(dl_tanh(T(dl_softplus(X, 1, INFINITY))));
    dl_tensor *rest = T(dl_mul(T(dl_mul(X, ONE_LESS(SQUARE(t)))), T(dl_sigmoid(X))));
    return dl_give(b, 0, dl_mul(G0, T(dl_add(t, rest))));
}

/* 1 / (x (1 - x)), 0 where eps takes the place of x */
GRAD_RULE(logit) {
    dl_tensor *d = T(dl_div(G0, T(dl_mul(X, ONE_LESS(X)))));
    if (!ATTR(b, LOGIT_EPS)->given) return dl_give(b, 0, dl_ref(d));
    const double eps = ATTR_F(b, LOGIT_EPS);
    dl_tensor *out = T(dl_logical_or(T(dl_lt(X, NUM(eps))), T(dl_gt(X, NUM(1 - eps)))));
    return dl_give(b, 0, dl_where(out, NUM(0), d));
}

/* The slope of y = sin(u) / u, (cos(u) - y) / u; near 0, where the digits of the difference cancel, the series of
 * -u / 3 (1 - ...). */
static dl_tensor *quotient_slope(dl_back *b, dl_tensor *u, dl_tensor *y) {
    static const double term[] = {1.0 / 93405312000, -1.0 / 518918400, 1.0 / 3991680, -1.0 / 45360,
                                  1.0 / 840,         -1.0 / 30,        1.0 / 3};
    dl_tensor *square = SQUARE(u), *near = T(dl_lt(square, NUM(0.25)));
    dl_tensor *safe = near ? T(dl_where(near, NUM(1), u)) : NULL, *series = NUM(term[0]);
    dl_tensor *far = safe ? T(dl_div(T(dl_sub(T(dl_cos(u)), y)), safe)) : NULL;
    for (int i = 1; i < 7 && far; i++) series = T(dl_add(T(dl_mul(series, square)), NUM(term[i])));
    return far ? T(dl_where(near, T(dl_neg(T(dl_mul(u, series)))), far)) : NULL;
}
RULE(sinc, dl_mul(T(dl_mul(G0, NUM(M_PI))), quotient_slope(b, T(dl_mul(X, NUM(M_PI))), Y)))
RULE(spherical_bessel_j0, dl_mul(G0, quotient_slope(b, X, Y)))

/* 1 above 0, alpha e**x below, where no infinity comes in from above */
GRAD_RULE(elu) {
    const double zero = 0;
    dl_tensor *slope = T(dl_mul(NUM(ATTR_F(b, ELU_ALPHA)), T(dl_exp(T(dl_clamp(X, NULL, &zero))))));
    return dl_give(b, 0, dl_where(T(dl_gt(X, NUM(0))), G0, T(dl_mul(G0, slope))));
}

/* Phi(x) + x phi(x), the normal distribution and its density */
GRAD_RULE(gelu_erf) {
    dl_tensor *cdf = T(dl_mul(NUM(0.5), PLUS1(T(dl_erf(T(dl_mul(X, NUM(M_SQRT1_2))))))));
    dl_tensor *pdf = T(dl_mul(NUM(0.5 * M_2_SQRTPI * M_SQRT1_2), T(dl_exp(T(dl_mul(SQUARE(X), NUM(-0.5)))))));
    return dl_give(b, 0, dl_mul(G0, T(dl_add(cdf, T(dl_mul(X, pdf))))));
}

/* s (1 + x (1 - s) u'), s = sigmoid(u), u = 2 sqrt(2 / pi) (x + 0.044715 x**3) */
GRAD_RULE(gelu_tanh) {
    const double scale = 2 * M_SQRT1_2 * M_2_SQRTPI;
    dl_tensor *square = SQUARE(X);
    dl_tensor *u = T(dl_mul(T(dl_mul(X, NUM(scale))), PLUS1(T(dl_mul(square, NUM(0.044715))))));
    dl_tensor *slope = T(dl_mul(PLUS1(T(dl_mul(square, NUM(3 * 0.044715)))), NUM(scale))), *s = T(dl_sigmoid(u));
    dl_tensor *bend = T(dl_mul(T(dl_mul(X, ONE_LESS(s))), slope));
    return dl_give(b, 0, dl_mul(G0, T(dl_mul(s, PLUS1(bend)))));
}

/* 0 up to -3, x / 3 + 1/2 up to 3, then 1 */
GRAD_RULE(hardswish) {
    dl_tensor *slope = T(dl_add(T(dl_div(X, NUM(3))), NUM(0.5)));
    dl_tensor *below = T(dl_where(T(dl_lt(X, NUM(-3))), NUM(0), T(dl_mul(G0, slope))));
    return dl_give(b, 0, dl_where(T(dl_gt(X, NUM(3))), G0, below));
}

GRAD_RULE(hardsigmoid) {
    dl_tensor *inside = T(dl_lt(T(dl_abs(X)), NUM(3)));
    return dl_give(b, 0, dl_where(inside, T(dl_div(G0, NUM(6))), NUM(0)));
}

/* tanh(x)**2 */
GRAD_RULE(tanhshrink) {
    dl_tensor *y = T(dl_tanh(X));
    return dl_give(b, 0, dl_mul(G0, SQUARE(y)));
}

/* Of hardshrink and softshrink. */
RULE(shrink, dl_where(T(dl_le(T(dl_abs(X)), NUM(ATTR_F(b, SHRINK_LAMBD)))), NUM(0), G0))
RULE(threshold, dl_where(T(dl_le(X, NUM(ATTR_F(b, THRESHOLD_THRESHOLD)))), NUM(0), G0))

/* 1 above 0, e**(x / alpha) below */
GRAD_RULE(celu) {
    const double zero = 0;
    dl_tensor *slope = T(dl_exp(T(dl_div(T(dl_clamp(X, NULL, &zero)), NUM(ATTR_F(b, CELU_ALPHA))))));
    return dl_give(b, 0, dl_where(T(dl_gt(X, NUM(0))), G0, T(dl_mul(G0, slope))));
}

/* scale above 0, scale alpha e**x below */
GRAD_RULE(selu) {
    const double zero = 0, scale = 1.0507009873554805, limit = 1.7580993408473766;
    dl_tensor *slope = T(dl_mul(NUM(limit), T(dl_exp(T(dl_clamp(X, NULL, &zero))))));
    return dl_give(b, 0, dl_mul(G0, T(dl_where(T(dl_gt(X, NUM(0))), NUM(scale), slope))));
}

/* s (1 + x (1 - s)), s = sigmoid(x) */
GRAD_RULE(silu) {
    dl_tensor *s = T(dl_sigmoid(X));
    return dl_give(b, 0, dl_mul(G0, T(dl_mul(s, PLUS1(T(dl_mul(X, ONE_LESS(s))))))));
}

/* Inside the limits, these included */
GRAD_RULE(clamp) {
    const dl_aval *lo = ATTR(b, CLAMP_MIN), *hi = ATTR(b, CLAMP_MAX);
    dl_tensor *in = lo->given ? T(dl_ge(X, as_number(b, lo))) : NULL,
              *below = hi->given ? T(dl_le(X, as_number(b, hi))) : NULL;
    if (lo->given && hi->given) in = T(dl_logical_and(in, below));
    return dl_give(b, 0, dl_where(lo->given ? in : below, G0, NUM(0)));
}

/* Within the limits, these excluded */
GRAD_RULE(hardtanh) {
    dl_tensor *low = as_number(b, ATTR(b, HARDTANH_MIN_VAL)), *high = as_number(b, ATTR(b, HARDTANH_MAX_VAL));
    dl_tensor *out = T(dl_logical_or(T(dl_le(X, low)), T(dl_ge(X, high))));
    return dl_give(b, 0, dl_where(out, NUM(0), G0));
}

/* The operand, limited to delta */
GRAD_RULE(huber) {
    const double high = ATTR_F(b, HUBER_DELTA), low = -high;
    return dl_give(b, 0, dl_mul(G0, T(dl_clamp(X, &low, &high))));
}

GRAD_RULE(where) {
    GIVE(WHERE_INPUT, dl_where(IN_(WHERE_CONDITION), G0, NUM(0)));
    GIVE(WHERE_OTHER, dl_where(IN_(WHERE_CONDITION), NUM(0), G0));
    return DL_OK;
}
