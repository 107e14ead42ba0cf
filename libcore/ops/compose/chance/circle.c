/* The von Mises distribution of angles: loc, concentration. */
#include "ops/compose/chance/draw.h"
#include "ops/compose/chance/words.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/where.h"
#include "ops/rules/distribution.h"

#include <math.h>

/* ln I0(k), without overflow; its slope I1(k) / I0(k). */
static dl_tensor *log_i0(dl_pool *p, dl_tensor *k) { return ADD(LOG(K(dl_i0e(k))), K(dl_abs(k))); }
static dl_tensor *slope(dl_pool *p, dl_tensor *k) { return DIV(K(dl_i1e(k)), K(dl_i0e(k))); }

POOLED_RULE(von_mises_log_prob) {
    dl_tensor *near = MUL(IN(2), K(dl_cos(SUB(IN(0), IN(1)))));
    RESULT(SUB(SUB(near, log_i0(p, IN(2))), N(LN_2PI)));
}
POOLED_RULE(von_mises_entropy) {
    dl_tensor *k = IN(1);
    RESULT(ADD(ADD(SUB(log_i0(p, k), MUL(k, slope(p, k))), MUL(IN(0), N(0))), N(LN_2PI)));
}
POOLED_RULE(von_mises_kl) {
    dl_tensor *k = IN(1), *other = MUL(IN(3), K(dl_cos(SUB(IN(0), IN(2)))));
    RESULT(ADD(SUB(log_i0(p, IN(3)), log_i0(p, k)), MUL(slope(p, k), SUB(k, other))));
}

/* 1 / the size of Best and Fisher's proposals: r = (1 + rho^2) / (2 rho), which is 1 / k of small k. */
static dl_tensor *proposal(dl_pool *p, dl_tensor *k) {
    dl_tensor *tau = ADD(K(dl_sqrt(ADD(MUL(SQUARE(k), N(4)), N(1)))), N(1));
    dl_tensor *rho = DIV(SUB(tau, K(dl_sqrt(MUL(tau, N(2))))), MUL(k, N(2)));
    dl_tensor *r = DIV(ADD(SQUARE(rho), N(1)), MUL(rho, N(2))), *small = K(dl_lt(k, N(1e-5)));
    return r && small ? K(dl_where(small, ADD(DIV(N(1), k), k), r)) : NULL;
}

static dl_tensor *uniform_like(dl_pool *p, const dl_tensor *t) {
    return K(dl_rand(t->shape, t->ndim, t->dtype, t->st->device));
}

enum { OPEN = 10 }; /* more than any angle */

/* One attempt of Best and Fisher (1979) at each angle that is still missing; *left tells whether there are any. */
static dl_tensor *attempt(dl_tensor *found, dl_tensor *k, dl_tensor *r, long *left) {
    POOL;
    dl_tensor *z = K(dl_cos(MUL(uniform_like(p, found), N(M_PI)))), *u = uniform_like(p, found),
              *side = SUB(uniform_like(p, found), N(0.5));
    dl_tensor *f = DIV(ADD(MUL(r, z), N(1)), ADD(r, z)), *gap = MUL(k, SUB(r, f));
    dl_tensor *quick = K(dl_gt(SUB(MUL(gap, SUB(N(2), gap)), u), N(0)));
    dl_tensor *slow = K(dl_ge(SUB(ADD(LOG(DIV(gap, u)), N(1)), gap), N(0)));
    dl_tensor *good = quick && slow ? K(dl_logical_or(quick, slow)) : NULL, *open = K(dl_gt(found, N(OPEN - 1)));
    dl_tensor *angle = K(dl_acos(K(dl_clamp(f, &(double){-1}, &(double){1}))));
    dl_tensor *turned = K(dl_where(K(dl_lt(side, N(0))), K(dl_neg(angle)), angle));
    dl_tensor *next = good && open && turned ? K(dl_where(K(dl_logical_and(good, open)), turned, found)) : NULL;
    if (!next || dl_item_i(K(dl_any(K(dl_gt(next, N(OPEN - 1))), NULL, 0, 0)), left) != DL_OK) return NULL;
    return dl_ref(next);
}

/* Angles from -pi to pi, drawn in f64. */
POOLED_RULE(von_mises_sample) {
    dl_tensor *shaped = dl_draw_noise(c, p, dl_rand, 0, 0), *loc = K(dl_to_dtype(IN(0), DL_F64)),
              *k = K(dl_to_dtype(IN(1), DL_F64)), *r = k ? proposal(p, k) : NULL;
    if (!shaped || !loc || !r) return dl_failed();
    dl_tensor *found = dl_full(shaped->shape, shaped->ndim, OPEN, DL_F64, c->device);
    long left = found && found->numel;
    for (int i = 0; i < 200 && left && found; i++) { /* each leaves a half at most */
        dl_tensor *was = found;
        found = attempt(was, k, r, &left);
        dl_unref(was);
    }
    K(found);
    if (!found) return dl_failed();
    dl_tensor *turn = K(dl_remainder(ADD(ADD(found, loc), N(M_PI)), N(2 * M_PI)));
    return dl_finish(c, dl_to_dtype(SUB(turn, N(M_PI)), c->dtype));
}
