/* Medians, quantiles and counts. */
#include "autograd/vmap.h"
#include "ops/compose/compose.h"
#include "ops/infer/ranks.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/sort.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/sort.h"

#include <math.h>
#include <string.h>

/* How many elements of the rows along d are numbers, less one; -1 where there are none. */
static dl_tensor *last_number(dl_pool *p, dl_tensor *x, int d) {
    return K(dl_sub(K(dl_sum(K(dl_logical_not(K(dl_isnan(x)))), &(long){d}, 1, 1)), K(dl_scalar_i(1))));
}

/* ---- medians: the lower one of two in the middle; NaN, which is sorted to the end, if there is one, unless they are
 * left out */

/* Kernels of devices are for long rows that lie in the last dimension, of which there are few. */
COMPOSED_RULE(ranked_by_order) {
    enum { LONG = 1 << 16, MANY = 1 << 10 };
    const dl_tensor *x = c->in[0];
    const long d = ATTR_I(c, RANKED_PLACE_DIM), n = x->ndim ? x->shape[x->ndim - 1] : 1;
    const bool last = x->ndim && (d == -1 || d == x->ndim - 1);
    return dl_vmap_watching || (c->device && !(last && n >= LONG && n < 1L << 31 && x->numel <= MANY * n));
}

/* Where no kernel finds it, by sorting, of which a rank that is given takes the first ones alone. */
POOLED_RULE(ranked_place) {
    const dl_aval *rank = ATTR(c, RANKED_PLACE_K);
    dl_tensor *x = c->in[0], *order = NULL;
    int d;
    long n;
    DL_TRY(dl_rank_of(c, &d, &n));
    const long last = n - 1, first = rank->u.i, end = first + 1;
    if (rank->given) {
        dl_tensor *some = K(dl_topk(x, end, d, 0, &order));
        K(order);
        return dl_finish(c, !some ? NULL : x->ndim ? dl_slice(order, d, &first, &end, 1) : dl_ref(order));
    }
    dl_tensor *sorted = K(dl_sort(x, d, 0, &order)), *k;
    K(order);
    if (!x->ndim) return dl_finish(c, sorted ? dl_ref(order) : NULL);
    dl_tensor *top = sorted ? K(dl_slice(sorted, d, &last, &n, 1)) : NULL;
    if (ATTR_I(c, RANKED_PLACE_NUMBERS))
        k = K(dl_clamp(K(dl_floor_divide(last_number(p, x, d), K(dl_scalar_i(2)))), &(double){0}, NULL));
    else
        k = K(dl_where(K(dl_isnan(top)), K(dl_scalar_i(last)), K(dl_scalar_i(last / 2))));
    return dl_finish(c, k ? dl_gather(order, k, d) : NULL);
}

/* The median along d of x, with that dimension of size 1, and its places. */
static dl_tensor *middle(dl_pool *p, dl_tensor *x, int d, bool numbers, dl_tensor **places) {
    *places = K(dl_ranked_place(x, d, NULL, numbers));
    return *places ? K(dl_gather(x, *places, d)) : NULL;
}

static dl_status median_of_all(dl_call *c, bool numbers) {
    POOL;
    dl_tensor *x = c->in[0], *at;
    if (!x->numel && !dl_dtype_is_float(x->dtype)) return dl_fail(DL_ERR_SHAPE, "no elements have no median");
    if (!x->numel) return dl_finish(c, dl_full((long[]){0}, 0, NAN, x->dtype, x->st->device));
    dl_tensor *row = K(dl_reshape(x, (long[]){x->numel}, 1)), *m = row ? middle(p, row, 0, numbers, &at) : NULL;
    return dl_finish(c, m ? dl_reshape(m, (long[]){0}, 0) : NULL);
}

COMPOSE_RULE(median) { return median_of_all(c, false); }
COMPOSE_RULE(nanmedian) { return median_of_all(c, true); }

static dl_status median_of_rows(dl_call *c, bool numbers) {
    POOL;
    dl_tensor *x = c->in[0], *at;
    long shape[DL_MAX_DIM];
    int d, n = 0;
    DL_TRY(dl_dim_norm(ATTR_I(c, MIDDLE_DIM), x->ndim, &d));
    if (!x->ndim) x = K(dl_reshape(x, (long[]){1}, 1));
    if (!x) return dl_failed();
    if (!x->shape[d]) return dl_fail(DL_ERR_SHAPE, "dimension %d has no elements, and so no median", d);
    for (int i = 0; i < c->in[0]->ndim; i++)
        if (i != d || ATTR_I(c, MIDDLE_KEEPDIM)) shape[n++] = i == d ? 1 : x->shape[i];
    dl_tensor *m = middle(p, x, d, numbers, &at), *values = m ? dl_reshape(m, shape, n) : NULL;
    dl_tensor *places = values ? dl_reshape(at, shape, n) : NULL;
    if (!places) return dl_unref(values), dl_failed();
    c->out[0] = values, c->out[1] = places;
    return DL_OK;
}
COMPOSE_RULE(median_dim) { return median_of_rows(c, false); }
COMPOSE_RULE(nanmedian_dim) { return median_of_rows(c, true); }

/* ---- quantiles */

/* q is one number or a list, from 0 to 1. */
static dl_status check_quantile(const dl_call *c, dl_pool *p) {
    dl_tensor *x = c->in[0], *q = c->in[1];
    double least, most;
    if (!dl_dtype_is_float(x->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "convert it with .to(f32)", "quantiles are of floating numbers, not of %s",
                            dl_type_of(x));
    if (q->ndim > 1) return dl_fail(DL_ERR_SHAPE, "q must be a number or a list, not %d-d", q->ndim);
    if (!x->numel) return dl_fail(DL_ERR_SHAPE, "no elements have no quantiles");
    if (!q->numel) return DL_OK;
    DL_TRY(dl_item_f(K(dl_amin(q, NULL, 0, 0)), &least));
    DL_TRY(dl_item_f(K(dl_amax(q, NULL, 0, 0)), &most));
    if (!(least >= 0 && most <= 1))
        return dl_fail(DL_ERR_VALUE, "q must lie between 0 and 1, not be %g", least >= 0 ? most : least);
    return DL_OK;
}

/* Between `low` and `high`, the elements on both sides of place `at`. */
static dl_tensor *between(dl_pool *p, const char *how, dl_tensor *low, dl_tensor *high, dl_tensor *share) {
    if (!strcmp(how, "lower")) return low;
    if (!strcmp(how, "higher")) return high;
    if (!strcmp(how, "midpoint")) share = K(dl_where(K(dl_gt(share, N(0))), N(0.5), share));
    return K(dl_add(low, K(dl_mul(K(dl_sub(high, low)), share))));
}

/* The quantiles of the rows of sorted, [..., n]: [..., Q]. */
static dl_tensor *of_rows(dl_pool *p, dl_tensor *sorted, dl_tensor *q, const char *how) {
    const int d = sorted->ndim - 1;
    const long n = sorted->shape[d], last = n - 1;
    dl_tensor *at = K(dl_mul(K(dl_to_dtype(q, sorted->dtype)), N((double)last)));
    if (!strcmp(how, "nearest")) at = K(dl_round(at));
    dl_tensor *floor = K(dl_floor(at)), *share = K(dl_sub(at, floor));
    dl_tensor *below = K(dl_to_dtype(floor, DL_I64)), *above = K(dl_to_dtype(K(dl_ceil(at)), DL_I64));
    if (!below || !above) return NULL;
    dl_tensor *low = K(dl_index_select(sorted, below, d)), *high = K(dl_index_select(sorted, above, d));
    dl_tensor *top = K(dl_slice(sorted, d, &last, &n, 1)), *result = between(p, how, low, high, share);
    return result ? K(dl_where(K(dl_isnan(top)), top, result)) : NULL;
}

/* The same where NaN, at the ends of the rows, does not count. */
static dl_tensor *of_numbers(dl_pool *p, dl_tensor *sorted, dl_tensor *q, const char *how) {
    const int d = sorted->ndim - 1;
    dl_tensor *end = K(dl_clamp(last_number(p, sorted, d), &(double){0}, NULL));
    dl_tensor *at = K(dl_mul(K(dl_to_dtype(q, sorted->dtype)), K(dl_to_dtype(end, sorted->dtype))));
    if (!strcmp(how, "nearest")) at = K(dl_round(at));
    dl_tensor *floor = K(dl_floor(at)), *share = K(dl_sub(at, floor));
    dl_tensor *below = K(dl_to_dtype(floor, DL_I64)), *above = K(dl_to_dtype(K(dl_ceil(at)), DL_I64));
    dl_tensor *low = above ? K(dl_gather(sorted, below, d)) : NULL, *high = low ? K(dl_gather(sorted, above, d)) : NULL;
    dl_tensor *t = high ? between(p, how, low, high, share) : NULL;
    return t ? K(dl_ref(t)) : NULL;
}

/* Has x a NaN? */
static dl_status has_nan(dl_pool *p, dl_tensor *x, bool *out) {
    double any;
    DL_TRY(dl_item_f(K(dl_any(K(dl_isnan(K(dl_amax(x, &(long){x->ndim - 1}, 1, 1)))), NULL, 0, 0)), &any));
    *out = any != 0;
    return DL_OK;
}

/* One quantile of each row of x, [..., n]: [..., 1], without sorting. No row has a NaN. */
static dl_tensor *by_ranks(dl_pool *p, dl_tensor *x, dl_tensor *q, const char *how) {
    const int d = x->ndim - 1;
    double below, above;
    dl_tensor *at = K(dl_mul(K(dl_to_dtype(q, x->dtype)), N((double)(x->shape[d] - 1))));
    if (!strcmp(how, "nearest")) at = K(dl_round(at));
    dl_tensor *floor = K(dl_floor(at)), *share = K(dl_sub(at, floor));
    if (dl_item_f(floor, &below) != DL_OK || dl_item_f(K(dl_ceil(at)), &above) != DL_OK) return NULL;
    const long rank[2] = {(long)below, (long)above};
    dl_tensor *low = K(dl_gather(x, K(dl_ranked_place(x, d, &rank[0], 0)), d)), *high = low;
    if (rank[0] != rank[1]) high = K(dl_gather(x, K(dl_ranked_place(x, d, &rank[1], 0)), d));
    return low && high ? K(dl_ref(between(p, how, low, high, share))) : NULL;
}

/* The dimension of the quantiles, the last one, comes first when q is a list, else it goes. */
static dl_tensor *arranged(dl_call *c, dl_pool *p, dl_tensor *t, int d) {
    const dl_tensor *x = c->in[0];
    long order[DL_MAX_DIM], shape[DL_MAX_DIM];
    int list = c->in[1]->ndim, n = 0;
    bool keep = ATTR_I(c, QUANTILES_KEEPDIM) != 0, all = !ATTR(c, QUANTILES_DIM)->given;
    if (x->ndim + list > DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "a tensor has at most %d dimensions", DL_MAX_DIM), NULL;
    order[0] = t->ndim - 1;
    for (int i = 1; i < t->ndim; i++) order[i] = i - 1;
    t = K(dl_permute(t, order, t->ndim));
    if (list) shape[n++] = c->in[1]->numel;
    for (int i = 0; i < x->ndim; i++)
        if (keep || (!all && i != d)) shape[n++] = all || i == d ? 1 : x->shape[i];
    return t ? dl_reshape(t, shape, n) : NULL;
}

static dl_status finish_quantiles(dl_call *c, dl_pool *p, dl_tensor *t, int d) {
    return dl_finish(c, t ? arranged(c, p, t, d) : NULL);
}

static dl_status quantiles(dl_call *c, bool numbers) {
    POOL;
    static const char *const ways[] = {"linear", "lower", "higher", "midpoint", "nearest"};
    const char *how = ATTR_S(c, QUANTILES_INTERPOLATION);
    dl_tensor *x = c->in[0], *q = c->in[1], *order = NULL;
    long to_last[DL_MAX_DIM];
    int d = 0, known = 0, n = 0;
    for (int i = 0; i < 5; i++) known |= !strcmp(how, ways[i]);
    if (!known)
        return dl_fail(DL_ERR_VALUE, "interpolation is linear, lower, higher, midpoint or nearest, not '%s'", how);
    DL_TRY(check_quantile(c, p));
    if (ATTR(c, QUANTILES_DIM)->given) DL_TRY(dl_dim_norm(ATTR_I(c, QUANTILES_DIM), x->ndim, &d));
    if (!ATTR(c, QUANTILES_DIM)->given || !x->ndim) x = K(dl_reshape(x, (long[]){x->numel}, 1));
    if (!x) return dl_failed();
    int along = ATTR(c, QUANTILES_DIM)->given ? d : 0;
    for (int i = 0; i < x->ndim; i++)
        if (i != along) to_last[n++] = i;
    to_last[n] = along;
    q = K(dl_reshape(q, (long[]){q->numel}, 1));
    dl_tensor *rows = K(dl_permute(x, to_last, x->ndim));
    if (!q || !rows) return dl_failed();
    bool sort = numbers || q->numel != 1 || x->st->device; /* the CPU has a kernel that finds ranks */
    if (!sort) DL_TRY(has_nan(p, rows, &sort));            /* which sorting puts last */
    if (!sort) return finish_quantiles(c, p, by_ranks(p, rows, q, how), d);
    dl_tensor *sorted = K(dl_sort(x, along, 0, &order));
    K(order);
    sorted = sorted ? K(dl_permute(sorted, to_last, x->ndim)) : NULL;
    return finish_quantiles(c, p, sorted ? (numbers ? of_numbers : of_rows)(p, sorted, q, how) : NULL, d);
}
COMPOSE_RULE(quantile) { return quantiles(c, false); }
COMPOSE_RULE(nanquantile) { return quantiles(c, true); }

COMPOSE_RULE(msort) {
    dl_tensor *places = NULL;
    if (!c->in[0]->ndim) return dl_finish(c, dl_clone(c->in[0]));
    dl_tensor *sorted = dl_sort(c->in[0], 0, 0, &places);
    dl_unref(places);
    return dl_finish(c, sorted);
}

/* ---- counts */

POOLED_RULE(bincount) {
    dl_tensor *x = c->in[0], *w = INPUT(c, BINCOUNT_WEIGHTS);
    long n = ATTR_I(c, BINCOUNT_MINLENGTH), least = 0, most = -1;
    DL_TRY(dl_check_index(x));
    if (x->ndim != 1) return dl_fail(DL_ERR_SHAPE, "numbers to be counted are a list, not %d-d", x->ndim);
    if (n < 0) return dl_fail(DL_ERR_VALUE, "minlength must be 0 or more, not %ld", n);
    if (w && !dl_shape_eq(x, w))
        return dl_fail(DL_ERR_SHAPE, "weights of shape %s do not fit %ld numbers", dl_shape_of(w), (long)x->numel);
    if (x->numel) {
        DL_TRY(dl_item_i(K(dl_amin(x, NULL, 0, 0)), &least));
        DL_TRY(dl_item_i(K(dl_amax(x, NULL, 0, 0)), &most));
    }
    if (least < 0) return dl_fail(DL_ERR_VALUE, "numbers to be counted must be 0 or more, not %ld", least);
    if (most >= DL_MAX_COUNT) return dl_fail(DL_ERR_VALUE, "%ld is too large to be counted", most);
    if (n <= most) n = most + 1;
    dl_dtype t = !w ? DL_I64 : w->dtype == DL_F32 ? DL_F32 : DL_F64;
    dl_tensor *each =
        w ? K(dl_to_dtype(w, t)) : K(dl_expand(K(dl_ones((long[]){1}, 1, t, x->st->device)), x->shape, 1));
    dl_tensor *none = K(dl_zeros(&n, 1, t, x->st->device));
    return dl_finish(c, each && none ? dl_index_add(none, x, each, 0) : NULL);
}

POOLED_RULE(histc) {
    dl_tensor *x = c->in[0];
    const long bins = ATTR_I(c, HISTC_BINS);
    double from = dl_aval_number(ATTR(c, HISTC_MIN)), to = dl_aval_number(ATTR(c, HISTC_MAX));
    if (!dl_dtype_is_float(x->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "bincount counts integers", "a histogram is of floating numbers, not of %s",
                            dl_type_of(x));
    if (bins < 1) return dl_fail(DL_ERR_VALUE, "bins must be at least 1, not %ld", bins);
    if (from == to && x->numel) {
        DL_TRY(dl_item_f(K(dl_amin(x, NULL, 0, 0)), &from));
        DL_TRY(dl_item_f(K(dl_amax(x, NULL, 0, 0)), &to));
    }
    if (from == to) from -= 1, to += 1;
    if (!isfinite(from) || !isfinite(to) || from > to)
        return dl_fail(DL_ERR_VALUE, "a histogram from %g to %g is not possible", from, to);
    dl_tensor *row = K(dl_reshape(x, (long[]){x->numel}, 1));
    return dl_finish(c, row ? dl_interval_counts(row, bins, from, to) : NULL);
}
