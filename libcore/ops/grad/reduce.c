/* Gradient rules of reductions. */
#include "ops/grad.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/reduce.h"

#include <math.h>

/* t, which has the shape of the result, with reduced dimensions of size 1. Owned by the pool. */
static dl_tensor *kept(dl_back *b, dl_tensor *t) {
    const dl_meta *m = dl_in_meta(b, 0);
    unsigned mask;
    long shape[DL_MAX_DIM];
    if (!t || dl_reduced_dims(b->op, b->attr, m->ndim, &mask) != DL_OK) return NULL;
    return T(dl_reshape(t, shape, dl_reduced_shape(m->ndim, m->shape, mask, true, shape)));
}

/* The same in the input's dtype: here the numbers are few. */
static dl_tensor *kept_alike(dl_back *b, dl_tensor *t) {
    dl_tensor *k = kept(b, t);
    return k && k->dtype != META(REDUCE_INPUT)->dtype ? T(dl_to(k, META(REDUCE_INPUT)->dtype)) : k;
}

/* The same, repeated to the input's shape; a new reference. */
static dl_tensor *spread(dl_back *b, dl_tensor *t) {
    const dl_meta *m = dl_in_meta(b, 0);
    dl_tensor *k = kept_alike(b, t);
    return k ? dl_expand(k, m->shape, m->ndim) : NULL;
}

RULE(sum, spread(b, G0))

/* How many elements of the input become one of the result. */
static double group_size(dl_back *b) {
    const dl_meta *m = dl_in_meta(b, 0);
    unsigned mask;
    double n = 1;
    if (dl_reduced_dims(b->op, b->attr, m->ndim, &mask) != DL_OK) return 0;
    for (int i = 0; i < m->ndim; i++) n *= mask >> i & 1 ? (double)m->shape[i] : 1;
    return n;
}

RULE(mean, spread(b, T(dl_div(G0, NUM(group_size(b))))))

/* 2 (x - mean) / (n - correction) */
GRAD_RULE(var) {
    const double n = group_size(b), free = n - (double)ATTR_I(b, VAR_CORRECTION);
    dl_tensor *of_mean = b->g[DL_OUT_VAR_MEAN] ? T(spread(b, T(dl_div(b->g[DL_OUT_VAR_MEAN], NUM(n))))) : NULL;
    if (!G0) return dl_give(b, 0, dl_ref(of_mean));
    dl_tensor *centred = T(dl_sub(IN_(REDUCE_INPUT), kept(b, OUT_(VAR_MEAN))));
    dl_tensor *of_var = T(dl_mul(T(dl_mul(kept(b, G0), NUM(free > 0 ? 2 / free : INFINITY))), centred));
    return dl_give(b, 0, of_mean ? dl_add(of_var, of_mean) : dl_ref(of_var));
}

RULE(square_sum, dl_mul(T(dl_mul(kept_alike(b, G0), NUM(2))), IN_(REDUCE_INPUT)))
/* x * g / y: 0 where y is 0. */
GRAD_RULE(root_square_sum) {
    dl_tensor *y = OUT_(ROOT_SQUARE_SUM_OUT), *zero = T(dl_eq(y, NUM(0)));
    dl_tensor *slope = T(dl_div(T(dl_where(zero, NUM(0), G0)), T(dl_where(zero, NUM(1), y))));
    return dl_give(b, 0, dl_mul(kept_alike(b, slope), IN_(REDUCE_INPUT)));
}
RULE(magnitude_sum, dl_mul(kept_alike(b, G0), T(dl_sign(IN_(REDUCE_INPUT)))))
RULE(known_sum, dl_where(T(dl_isnan(IN_(REDUCE_INPUT))), NUM(0), kept(b, G0)))

/* The product of the others: y / x, but where there are zeros: a single zero gets the product of the rest, and all
 * others nothing. p is the product with zeros left out. */
GRAD_RULE(prod) {
    const dl_aval *dim = ATTR(b, PROD_DIM);
    dl_tensor *x = IN_(REDUCE_INPUT), *zero = T(dl_eq(x, NUM(0))), *rest = T(dl_where(zero, NUM(1), x));
    dl_tensor *p = T(dl_prod(rest, dim->given ? &dim->u.i : NULL, 1));
    dl_tensor *zeros = T(dl_sum(zero, dim->given ? &dim->u.i : NULL, dim->given, 1));
    dl_tensor *by = T(dl_mul(kept(b, G0), p)); /* here, where the numbers are fewer */
    dl_tensor *lone = T(dl_where(T(dl_eq(zeros, NUM(1))), by, NUM(0))),
              *all = T(dl_where(T(dl_eq(zeros, NUM(0))), by, NUM(0)));
    return dl_give(b, 0, dl_where(zero, lone, T(dl_div(all, rest))));
}

/* Equal winners share the gradient; a new reference. */
static dl_tensor *shared(dl_back *b, int out) {
    dl_tensor *won = T(dl_to(T(dl_eq(IN_(REDUCE_INPUT), kept(b, dl_saved_out(b, out)))), META(REDUCE_INPUT)->dtype));
    dl_tensor *share = T(dl_div(kept(b, b->g[out]), T(dl_sum(won, ATTR_V(b, REDUCE_DIM), 1))));
    return dl_mul(won, share);
}
RULE(amax, shared(b, DL_OUT_AMAX_OUT))

GRAD_RULE(extremes) {
    dl_tensor *part[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        if (b->g[i] && !(part[i] = T(shared(b, i)))) return dl_failed();
    return dl_give(b, 0, part[0] && part[1] ? dl_add(part[0], part[1]) : dl_ref(part[part[0] ? 0 : 1]));
}

GRAD_RULE(max_dim) {
    if (!G0) return DL_OK;
    return dl_give(
        b, 0,
        dl_scatter_add(T(dl_zeros_like_in(b, 0)), kept(b, OUT_(MAX_DIM_INDICES)), kept(b, G0), ATTR_I(b, REDUCE_DIM)));
}

/* g e**(x - y) */
RULE(logsumexp, dl_mul(kept(b, G0), T(dl_exp(T(dl_sub(IN_(REDUCE_INPUT), kept(b, OUT_(LOGSUMEXP_OUT))))))))

/* Running sums from the other end */
GRAD_RULE(cumsum) {
    const long dim = ATTR_I(b, CUMSUM_DIM);
    if (!dl_in_meta(b, 0)->ndim) return dl_give(b, 0, dl_ref(G0));
    dl_tensor *back = T(dl_cumsum(T(dl_flip(G0, &dim, 1)), dim));
    return dl_give(b, 0, dl_flip(back, &dim, 1));
}

/* Each element of t takes the value before it along dim, the first one that of `first`, or its own if that is NULL. */
static dl_tensor *before(dl_back *b, dl_tensor *t, long dim, const double *first) {
    const long one = 1, none = 0, last = -1;
    int d;
    if (!t || dl_dim_norm(dim, t->ndim, &d) != DL_OK) return NULL;
    if (!t->numel || (!t->ndim && !first)) return dl_ref(t);
    if (!t->ndim) return dl_full(t->shape, 0, *first, (dl_dtype)t->dtype, t->st->device);
    dl_tensor *head = T(dl_slice(t, d, &none, &one, 1)), *rest = head ? T(dl_slice(t, d, &none, &last, 1)) : NULL;
    if (head && first) head = T(dl_full(head->shape, head->ndim, *first, (dl_dtype)t->dtype, t->st->device));
    return head && rest ? dl_cat((dl_tensor *[]){head, rest}, 2, d) : NULL;
}

/* The terms get the recurrence in the other direction, s; a factor s times the result that it multiplied. */
GRAD_RULE(recurrence) {
    const long dim = ATTR_I(b, RECURRENCE_DIM), reverse = ATTR_I(b, RECURRENCE_REVERSE);
    const double zero = 0;
    dl_tensor *a = IN_(RECURRENCE_FACTORS), *y = OUT_(RECURRENCE_OUT), *s = T(dl_recurrence(a, G0, dim, !reverse));
    GIVE(RECURRENCE_TERMS, s ? dl_ref(s) : NULL);
    GIVE(RECURRENCE_FACTORS, reverse ? dl_mul(T(before(b, s, dim, &zero)), y) : dl_mul(s, T(before(b, y, dim, &zero))));
    return DL_OK;
}

/* The product before an element, times r, where r[i] = g[i] + x[i + 1] r[i + 1]: no division, so zeros are no case. */
GRAD_RULE(cumprod) {
    const long dim = ATTR_I(b, CUMPROD_DIM);
    const double one = 1;
    dl_tensor *r = T(dl_recurrence(IN_(CUMPROD_INPUT), G0, dim, 1));
    return dl_give(b, 0, dl_mul(r, T(before(b, OUT_(CUMPROD_OUT), dim, &one))));
}

/* e ** (x - y) r, where r[i] = g[i] + e ** (y[i] - y[i + 1]) r[i + 1]; y grows, so that no power exceeds 1. */
GRAD_RULE(logcumsumexp) {
    const long dim = ATTR_I(b, LOGCUMSUMEXP_DIM);
    dl_tensor *y = OUT_(LOGCUMSUMEXP_OUT), *share = T(dl_exp(T(dl_sub(T(before(b, y, dim, NULL)), y))));
    dl_tensor *r = T(dl_recurrence(share, G0, dim, 1));
    return dl_give(b, 0, dl_mul(r, T(dl_exp(T(dl_sub(IN_(LOGCUMSUMEXP_INPUT), y))))));
}
