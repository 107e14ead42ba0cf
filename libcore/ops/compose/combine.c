/* Ops made of other ops that combine elements of lists, or put a part into a tensor. */
#include "ops/compose/put.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/unary.h"
#include "dlcore/view.h"
#include "ops/rules/create.h"
#include "ops/rules/index.h"
#include "ops/rules/view.h"

#include <math.h>

/* ---- combinations of elements */

POOLED_RULE(cartesian_prod) {
    long shape[DL_MAX_DIM], total = 1;
    dl_tensor *column[DL_MAX_DIM];
    if (c->nin > DL_MAX_DIM) return dl_fail(DL_ERR_VALUE, "at most %d lists, not %d", DL_MAX_DIM, c->nin);
    for (int i = 0; i < c->nin; i++) {
        if (c->in[i]->ndim != 1) return dl_fail(DL_ERR_SHAPE, "lists are 1-d, not %d-d", c->in[i]->ndim);
        total *= shape[i] = c->in[i]->numel;
    }
    if (c->nin == 1) return dl_finish(c, dl_clone(c->in[0]));
    for (int i = 0; i < c->nin; i++) {
        long own[DL_MAX_DIM];
        for (int k = 0; k < c->nin; k++) own[k] = k == i ? shape[k] : 1;
        dl_tensor *line = K(dl_reshape(c->in[i], own, c->nin)), *grid = line ? K(dl_expand(line, shape, c->nin)) : NULL;
        if (!(column[i] = grid ? K(dl_reshape(grid, &total, 1)) : NULL)) return dl_failed();
    }
    return dl_finish(c, dl_stack(column, c->nin, 1));
}

/* The next combination of r numbers below n in the order of a dictionary; false: that was the last. */
static bool next_combination(long *at, long r, long n, bool repeated) {
    long i = r - 1;
    while (i >= 0 && at[i] == (repeated ? n - 1 : n - r + i)) i--;
    if (i < 0) return false;
    at[i]++;
    for (long k = i + 1; k < r; k++) at[k] = repeated ? at[i] : at[k - 1] + 1;
    return true;
}

/* How many there are: (n + r - 1 or n) over r. -1: too many. */
static int64_t count_combinations(long r, long n, bool repeated) {
    double count = 1;
    long from = repeated ? n + r - 1 : n;
    if (from < r) return 0;
    for (long i = 1; i <= r; i++) count = count * (double)(from - r + i) / (double)i;
    return count < 1e9 ? (int64_t)llround(count) : -1;
}

COMPOSE_RULE(combinations) {
    enum { MOST = 64 };
    POOL;
    dl_tensor *x = c->in[0];
    const long r = ATTR_I(c, COMBINATIONS_R), n = x->numel;
    const bool repeated = ATTR_I(c, COMBINATIONS_WITH_REPLACEMENT) != 0;
    if (x->ndim != 1) return dl_fail(DL_ERR_SHAPE, "combinations are of a list, not of %d dimensions", x->ndim);
    if (r < 0 || r > MOST) return dl_fail(DL_ERR_VALUE, "r is 0 to %d, not %ld", MOST, r);
    if (!r) return dl_finish(c, dl_reshape(K(dl_zeros(&r, 1, (int)x->dtype, x->st->device)), &r, 1));
    const int64_t m = count_combinations(r, n, repeated);
    if (m < 0) return dl_fail(DL_ERR_SHAPE, "there are too many combinations of %ld of %ld", r, n);
    const long shape[2] = {m, r}, total = m * r;
    if (r == 2) { /* the places above a diagonal, where the device finds them */
        dl_tensor *pairs = K(dl_triu_indices(n, n, !repeated, DL_I64, x->st->device));
        dl_tensor *flat = pairs ? K(dl_reshape(K(dl_permute(pairs, (long[]){1, 0}, 2)), &total, 1)) : NULL;
        dl_tensor *both = flat ? K(dl_index_select(x, flat, 0)) : NULL;
        return dl_finish(c, both ? dl_reshape(both, shape, 2) : NULL);
    }
    dl_tensor *index = K(dl_tensor_empty(1, &total, DL_I64, 0));
    if (!index) return dl_failed();
    long at[MOST], *to = dl_ptr(index);
    for (long i = 0; i < r; i++) at[i] = repeated ? 0 : i;
    for (int64_t i = 0; i < m; i++, next_combination(at, r, n, repeated))
        for (long k = 0; k < r; k++) *to++ = at[k];
    dl_tensor *moved = K(dl_to_device(index, x->st->device)), *picked = moved ? K(dl_index_select(x, moved, 0)) : NULL;
    return dl_finish(c, picked ? dl_reshape(picked, shape, 2) : NULL);
}

COMPOSE_RULE(column_stack) {
    dl_tensor *part[DL_MAX_IN], *made = NULL;
    int n = 0;
    for (; n < c->nin; n++) {
        dl_tensor *t = c->in[n];
        part[n] = t->ndim < 2 ? dl_reshape(t, (long[]){t->numel, 1}, 2) : dl_ref(t);
        if (!part[n]) break;
    }
    if (n == c->nin) made = dl_cat(part, n, 1);
    while (n) dl_unref(part[--n]);
    return dl_finish(c, made);
}

/* ---- parts */

COMPOSE_RULE(narrow) {
    dl_tensor *x = c->in[0];
    int d;
    DL_TRY(dl_dim_norm(ATTR_I(c, NARROW_DIM), x->ndim, &d));
    if (!x->ndim) return dl_fail(DL_ERR_SHAPE, "a 0-d tensor has no parts");
    const long n = x->shape[d], length = ATTR_I(c, NARROW_LENGTH), given = ATTR_I(c, NARROW_START);
    const long from = given < 0 ? given + n : given, to = from + length;
    if (from < 0 || length < 0 || to > n)
        return dl_fail(DL_ERR_INDEX, "%ld elements from %ld on are not in dimension %d of size %ld", length, given, d,
                       n);
    return dl_finish(c, dl_slice(x, d, &from, &to, 1));
}

COMPOSE_RULE(unflatten) {
    dl_tensor *x = c->in[0];
    const dl_aval *sizes = ATTR(c, UNFLATTEN_SIZES);
    long shape[DL_MAX_DIM], known = 1;
    int d, n = 0, open = -1;
    DL_TRY(dl_dim_norm(ATTR_I(c, UNFLATTEN_DIM), x->ndim, &d));
    if (!x->ndim || x->ndim - 1 + sizes->n > DL_MAX_DIM || !sizes->n)
        return dl_fail(DL_ERR_SHAPE, "%d dimensions do not become %d", x->ndim, x->ndim - 1 + sizes->n);
    for (int i = 0; i < d; i++) shape[n++] = x->shape[i];
    for (int i = 0; i < sizes->n; i++) {
        if (sizes->u.v[i] == -1 && open < 0)
            open = n;
        else
            known *= sizes->u.v[i];
        shape[n++] = sizes->u.v[i];
    }
    if (open >= 0 && known > 0) shape[open] = x->shape[d] / known, known *= shape[open];
    if (known != x->shape[d])
        return dl_fail(DL_ERR_SHAPE, "sizes do not multiply to %ld, the size of dimension %d", x->shape[d], d);
    for (int i = d + 1; i < x->ndim; i++) shape[n++] = x->shape[i];
    return dl_finish(c, dl_reshape(x, shape, n));
}

POOLED_RULE(select_scatter) {
    dl_tensor *copy = dl_put_copy(p, c->in[0]);
    dl_tensor *part = copy ? K(dl_select(copy, ATTR_I(c, SELECT_SCATTER_DIM), ATTR_I(c, SELECT_SCATTER_INDEX))) : NULL;
    return dl_finish(c, part ? dl_put_part(copy, part, c->in[1]) : NULL);
}

POOLED_RULE(slice_scatter) {
    dl_tensor *copy = dl_put_copy(p, c->in[0]);
    const dl_aval *start = ATTR(c, SLICE_SCATTER_START), *end = ATTR(c, SLICE_SCATTER_END);
    dl_tensor *part = copy ? K(dl_slice(copy, ATTR_I(c, SLICE_SCATTER_DIM), start->given ? &start->u.i : NULL,
                                        end->given ? &end->u.i : NULL, ATTR_I(c, SLICE_SCATTER_STEP)))
                           : NULL;
    return dl_finish(c, part ? dl_put_part(copy, part, c->in[1]) : NULL);
}

/* ---- numbers in a row */

POOLED_RULE(logspace) {
    const int dtype = ATTR(c, LOGSPACE_DTYPE)->given ? (int)ATTR_I(c, LOGSPACE_DTYPE) : (int)dl_default_dtype_get();
    const double base = ATTR_F(c, LOGSPACE_BASE);
    const bool two =
        base > 0 && dtype != DL_F64; /* powers of 2, a quarter of the time: not exact in the last digits of f64 */
    const double by = two ? log2(base) : 1;
    dl_tensor *exponent = K(dl_linspace(by * ATTR_F(c, LOGSPACE_START), by * ATTR_F(c, LOGSPACE_END),
                                        ATTR_I(c, LOGSPACE_STEPS), DL_F64, c->device));
    dl_tensor *power = two ? K(dl_exp2(exponent)) : exponent ? K(dl_pow(N(base), exponent)) : NULL;
    return dl_finish(c, power ? dl_to(power, dtype) : NULL);
}
