/* Draws of counts: Poisson and binomial numbers. Large ones are split at a number of the gamma or beta distribution
 * until small ones are left (Ahrens, Dieter: Computer methods for sampling from gamma, beta, Poisson and binomial
 * distributions, 1974): trials, which are counted one by one, and rates, whose count is found by its share. In f64. */
#include "ops/compose/chance/draw.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/where.h"
#include "ops/rules/create.h"

enum { SMALL = 16 /* trials */, SMALL_RATE = 64, ROUNDS = 400 };

/* What is known so far: count, and what is left, trials or a rate, and the probability of each trial. */
typedef struct state {
    dl_tensor *count, *left, *prob;
} state;

static void end_state(state *s) { dl_unref(s->count), dl_unref(s->left), dl_unref(s->prob); }

/* Takes new values over; false when one of them failed. */
static bool advance(state *s, dl_tensor *count, dl_tensor *left, dl_tensor *prob) {
    end_state(s);
    *s = (state){count, left, prob};
    return count && left && prob;
}

static dl_status any_above(dl_tensor *t, double limit, long *yes) {
    POOL;
    return dl_item_i(K(dl_any(K(dl_gt(t, N(limit))), NULL, 0, 0)), yes);
}

/* Of trials above SMALL, the a-th smallest of their uniform numbers: on one side of prob, all counts are known. */
static bool split_trials(state *s) {
    POOL;
    dl_tensor *n = s->left, *big = K(dl_gt(n, N(SMALL)));
    dl_tensor *a = K(dl_add(K(dl_floor(K(dl_mul(n, N(0.5))))), N(1))), *b = K(dl_sub(K(dl_add(n, N(1))), a));
    dl_tensor *one = K(dl_add(K(dl_mul(n, N(0))), N(1)));
    a = big && one ? K(dl_where(big, a, one)) : NULL, b = a ? K(dl_where(big, b, one)) : NULL;
    dl_tensor *x = b ? dl_gamma_of(p, a, n->shape, n->ndim) : NULL,
              *y = x ? dl_gamma_of(p, b, n->shape, n->ndim) : NULL;
    x = y ? K(dl_div(x, K(dl_add(x, y)))) : NULL;
    dl_tensor *below = x ? K(dl_le(x, s->prob)) : NULL;
    if (!below) return advance(s, NULL, NULL, NULL);
    dl_tensor *count = K(dl_add(s->count, K(dl_mul(a, K(dl_to_dtype(K(dl_logical_and(big, below)), DL_F64))))));
    dl_tensor *left = K(dl_where(below, K(dl_sub(n, a)), K(dl_sub(a, one))));
    dl_tensor *rest = K(dl_div(K(dl_sub(s->prob, x)), K(dl_sub(one, x))));
    dl_tensor *prob = K(dl_where(below, rest, K(dl_div(s->prob, x))));
    if (!count || !left || !prob) return advance(s, NULL, NULL, NULL);
    return advance(s, dl_ref(count), dl_where(big, left, n), dl_where(big, prob, s->prob));
}

/* A new reference; n, prob: f64, of one shape, without history. */
static dl_tensor *binomial_of(dl_tensor *n, dl_tensor *prob) {
    state s DL_SCOPE(end_state) = {dl_zeros(n->shape, n->ndim, DL_F64, n->st->device), dl_ref(n), dl_ref(prob)};
    long more = 1;
    for (int i = 0; i < ROUNDS && s.count; i++) {
        if (any_above(s.left, SMALL, &more) != DL_OK) return NULL;
        if (!more) break;
        if (!split_trials(&s)) return NULL;
    }
    for (int i = 0; i < SMALL && s.count; i++) {
        POOL;
        dl_tensor *u = K(dl_rand(n->shape, n->ndim, DL_F64, n->st->device));
        dl_tensor *hit = K(dl_logical_and(K(dl_lt(u, s.prob)), K(dl_gt(s.left, N(i)))));
        if (!advance(&s, dl_add(s.count, K(dl_to_dtype(hit, DL_F64))), dl_ref(s.left), dl_ref(s.prob))) return NULL;
    }
    return s.count ? dl_ref(s.count) : NULL;
}

/* Of rates above SMALL_RATE, the time of event number m: if it comes in time, m events are known, else fewer. */
static bool split_rate(state *s) {
    POOL;
    dl_tensor *r = s->left, *big = K(dl_gt(r, N(SMALL_RATE))), *one = K(dl_add(K(dl_mul(r, N(0))), N(1)));
    dl_tensor *m = big && one ? K(dl_where(big, K(dl_floor(K(dl_mul(r, N(0.875))))), one)) : NULL;
    dl_tensor *x = m ? dl_gamma_of(p, m, r->shape, r->ndim) : NULL, *soon = x ? K(dl_le(x, r)) : NULL;
    dl_tensor *late = soon ? K(dl_logical_and(big, K(dl_logical_not(soon)))) : NULL;
    dl_tensor *zero = K(dl_sub(one, one)), *now = late ? K(dl_logical_and(big, soon)) : NULL;
    if (!now || !zero) return advance(s, NULL, NULL, NULL);
    dl_tensor *trials = K(dl_where(late, K(dl_sub(m, one)), zero)), *share = K(dl_where(late, K(dl_div(r, x)), zero));
    dl_tensor *few = trials && share ? K(binomial_of(trials, share)) : NULL;
    dl_tensor *count = few ? K(dl_add(K(dl_add(s->count, few)), K(dl_where(now, m, zero)))) : NULL;
    dl_tensor *left = K(dl_where(now, K(dl_sub(r, x)), K(dl_where(late, zero, r))));
    return advance(s, count ? dl_ref(count) : NULL, left ? dl_ref(left) : NULL, dl_ref(s->prob));
}

/* *high: the largest number; of none 0. */
static dl_status check_range(dl_pool *p, dl_tensor *t, double most, const char *what, double *high) {
    double low = 0; /* NaN, which is not good, where there is one */
    *high = 0;
    if (t->numel) {
        dl_tensor *least = K(dl_amin(t, NULL, 0, 0)), *largest = K(dl_amax(t, NULL, 0, 0));
        DL_TRY(dl_item_f(least, &low));
        DL_TRY(dl_item_f(largest, high));
    }
    return low >= 0 && *high <= most ? DL_OK : dl_fail(DL_ERR_VALUE, "%s", what);
}

dl_tensor *dl_poisson_of(dl_tensor *rate) {
    POOL;
    long more = 1;
    if (any_above(rate, SMALL_RATE, &more) != DL_OK) return NULL;
    if (!more) {
        dl_tensor *share = K(dl_rand(rate->shape, rate->ndim, DL_F64, rate->st->device));
        return share ? dl_poisson_quantile(rate, share) : NULL;
    }
    state s DL_SCOPE(end_state) = {dl_zeros(rate->shape, rate->ndim, DL_F64, rate->st->device), dl_ref(rate),
                                   dl_ref(rate)};
    for (int i = 0; i < ROUNDS && s.count; i++) {
        if (any_above(s.left, SMALL_RATE, &more) != DL_OK) return NULL;
        if (!more) break;
        if (!split_rate(&s)) return NULL;
    }
    dl_tensor *u = s.count ? K(dl_rand(rate->shape, rate->ndim, DL_F64, rate->st->device)) : NULL;
    return u ? dl_add(s.count, K(dl_poisson_quantile(s.left, u))) : NULL;
}

POOLED_RULE(poisson_few) {
    dl_tensor *x = c->in[0], *rate = K(dl_to_dtype(x, DL_F64));
    dl_tensor *share = rate ? K(dl_rand(x->shape, x->ndim, DL_F64, x->st->device)) : NULL;
    return dl_finish(c, share ? dl_to_dtype(K(dl_poisson_quantile(rate, share)), c->dtype) : NULL);
}

POOLED_RULE(poisson) {
    dl_tensor *given = K(dl_detach(c->in[0]));
    double most;
    if (!given) return dl_failed();
    DL_TRY(check_range(p, given, 1e15, "rates must be finite and not negative", &most));
    if (most <= SMALL_RATE) return dl_finish(c, dl_poisson_few(given));
    dl_tensor *rate = K(dl_to_dtype(given, DL_F64));
    if (!rate) return dl_failed();
    return dl_finish(c, dl_to_dtype(K(dl_poisson_of(rate)), c->dtype));
}

POOLED_RULE(binomial) {
    dl_tensor *n = K(dl_to_dtype(K(dl_detach(c->in[0])), DL_F64)),
              *prob = K(dl_to_dtype(K(dl_detach(c->in[1])), DL_F64));
    dl_tensor *zero = n && prob ? K(dl_mul(K(dl_add(n, prob)), N(0))) : NULL;
    if (!zero) return dl_failed();
    double most;
    DL_TRY(check_range(p, n, 1e15, "counts must be finite and not negative", &most));
    DL_TRY(check_range(p, prob, 1, "probabilities must lie between 0 and 1", &most));
    return dl_finish(c, dl_to_dtype(K(binomial_of(K(dl_floor(K(dl_add(n, zero)))), K(dl_add(prob, zero)))), c->dtype));
}
