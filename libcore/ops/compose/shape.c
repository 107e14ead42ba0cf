/* Ops made of other ops that repeat, pick or place elements, and matrices made of their blocks or diagonals. */
#include "core/scope.h"
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "ops/rules/view.h"
#include "ops/rules/index.h"

/* ---- repeating */

COMPOSE_RULE(repeat) {
    const dl_aval *times = ATTR(c, REPEAT_REPEATS);
    if (times->n < c->in[0]->ndim)
        return dl_fail_hint(DL_ERR_SHAPE, "tile(x, [2]) repeats the last dimensions alone",
                            "repeats has %d numbers, fewer than the %d dimensions of the tensor", times->n,
                            c->in[0]->ndim);
    return dl_finish(c, dl_tile(c->in[0], times->u.v, times->n));
}

/* The list in which i stands times[i] times, for index_select: running sums of marks where a new i begins. */
static dl_tensor *spread_index(dl_pool *p, dl_tensor *times) {
    const long first = 0;
    long total, least, n = times->numel, one = 1, before = n - 1;
    if (n && (dl_item_i(K(dl_amin(times, NULL, 0, 0)), &least) != DL_OK ||
              dl_item_i(K(dl_sum(times, NULL, 0, 0)), &total) != DL_OK))
        return NULL;
    if (!n) return dl_zeros(&n, 1, DL_I64, times->st->device);
    if (least < 0) return dl_fail(DL_ERR_VALUE, "the number of copies cannot be negative, as %ld is", least), NULL;
    one += total; /* where copies end that are not there, one place after the last */
    dl_tensor *ends = K(dl_cumsum(K(dl_to(times, DL_I64)), 0)), *begins = K(dl_slice(ends, 0, NULL, &before, 1));
    dl_tensor *none = K(dl_zeros(&one, 1, DL_I64, times->st->device));
    dl_tensor *mark = begins ? K(dl_ones(&before, 1, DL_I64, times->st->device)) : NULL;
    dl_tensor *marks = none && mark ? K(dl_index_add(none, begins, mark, 0)) : NULL;
    dl_tensor *index = marks ? K(dl_cumsum(marks, 0)) : NULL;
    return index ? dl_slice(index, 0, &first, &total, 1) : NULL;
}

/* Each element of dimension d of x as often as one number says. */
static dl_status spread_evenly(dl_call *c, dl_pool *p, dl_tensor *x, dl_tensor *times, int d) {
    long count, shape[DL_MAX_DIM + 1];
    DL_TRY(dl_item_i(times, &count));
    if (count < 0) return dl_fail(DL_ERR_VALUE, "the number of copies cannot be negative, as %ld is", count);
    for (int i = 0; i <= x->ndim; i++) shape[i] = i == d + 1 ? count : x->shape[i - (i > d)];
    dl_tensor *wide = K(dl_expand(K(dl_with_dim(x, d + 1)), shape, x->ndim + 1));
    shape[d] *= count;
    for (int i = d + 1; i < x->ndim; i++) shape[i] = x->shape[i];
    return wide ? dl_finish_own(c, dl_reshape(wide, shape, x->ndim)) : dl_failed();
}

POOLED_RULE(repeat_interleave) {
    dl_tensor *x = c->in[0], *times = c->in[1];
    const dl_aval *dim = ATTR(c, REPEAT_INTERLEAVE_DIM);
    int d = 0;
    DL_TRY(dl_check_index(times));
    if (!dim->given) x = K(dl_reshape(x, (long[]){x->numel}, 1));
    if (!x) return dl_failed();
    DL_TRY(dl_dim_norm(dim->given ? dim->u.i : 0, x->ndim, &d));
    const long n = x->ndim ? x->shape[d] : 1;
    if (times->ndim > 1 || (times->numel != 1 && times->numel != n))
        return dl_fail(DL_ERR_SHAPE, "repeats must be one number or %ld, not of shape %s", n, dl_shape_of(times));
    if (x->ndim && x->ndim < DL_MAX_DIM && times->numel == 1) return spread_evenly(c, p, x, times, d);
    times = K(dl_reshape(times, (long[]){times->numel}, 1));
    times = times ? K(dl_expand(times, &n, 1)) : NULL;
    dl_tensor *index = times ? K(spread_index(p, times)) : NULL;
    index = index ? K(dl_to_device(index, x->st->device)) : NULL; /* numbers may live on the CPU */
    if (!x->ndim) x = K(dl_reshape(x, (long[]){1}, 1));
    return dl_finish(c, index && x ? dl_index_select(x, index, d) : NULL);
}

/* ---- picking */

POOLED_RULE(masked_select) {
    dl_tensor *x = c->in[0], *mask = c->in[1];
    long shape[DL_MAX_DIM];
    const long flat = -1;
    int n;
    if (mask->dtype != DL_BOOL)
        return dl_fail_hint(DL_ERR_DTYPE, "compare, as in mask == 0, or convert with .to(bool)",
                            "the mask must be bool, not %s", dl_type_of(mask));
    DL_TRY(dl_broadcast(x->ndim, x->shape, mask->ndim, mask->shape, &n, shape));
    x = K(dl_expand(x, shape, n)), mask = K(dl_expand(mask, shape, n));
    if (!x || !mask) return dl_failed();
    const long numel = x->numel, *count = x->numel ? &flat : &numel;
    dl_tensor *row = K(dl_reshape(x, count, 1)), *at = K(dl_nonzero(K(dl_reshape(mask, count, 1))));
    dl_tensor *index = at ? K(dl_reshape(at, &at->shape[0], 1)) : NULL;
    return dl_finish(c, row && index ? dl_index_select(row, index, 0) : NULL);
}

/* ---- differences */

static dl_tensor *less(dl_tensor *a, dl_tensor *b) {
    return a && a->dtype == DL_BOOL ? dl_logical_xor(a, b) : dl_sub(a, b);
}

COMPOSE_RULE(diff) {
    dl_tensor *x = c->in[0], *ends[2] = {INPUT(c, DIFF_PREPEND), INPUT(c, DIFF_APPEND)}, *part[3];
    const long order = ATTR_I(c, DIFF_N), one = 1;
    int d, n = 0;
    if (!x->ndim) return dl_fail(DL_ERR_SHAPE, "a 0-d tensor has no differences");
    if (order < 0) return dl_fail(DL_ERR_VALUE, "n must be 0 or more, not %ld", order);
    DL_TRY(dl_dim_norm(ATTR_I(c, DIFF_DIM), x->ndim, &d));
    if (ends[0]) part[n++] = ends[0];
    part[n++] = x;
    if (ends[1]) part[n++] = ends[1];
    dl_tensor *t = n > 1 ? dl_cat(part, n, d) : dl_ref(x);
    for (long i = 0; i < order && t && t->shape[d]; i++) {
        DL_OWNED dl_tensor *old = t;
        const long before = old->shape[d] - 1;
        DL_OWNED dl_tensor *right = dl_slice(old, d, &one, NULL, 1);
        DL_OWNED dl_tensor *left = dl_slice(old, d, NULL, &before, 1);
        t = less(right, left);
    }
    return dl_finish_own(c, t);
}

/* ---- windows */

COMPOSE_RULE(windows) {
    dl_tensor *x = c->in[0];
    const long size = ATTR_I(c, WINDOWS_SIZE), step = ATTR_I(c, WINDOWS_STEP);
    long shape[DL_MAX_DIM + 1], stride[DL_MAX_DIM + 1];
    int d;
    DL_TRY(dl_dim_norm(ATTR_I(c, WINDOWS_DIMENSION), x->ndim, &d));
    if (x->ndim == DL_MAX_DIM) return dl_fail(DL_ERR_SHAPE, "the result would have %d dimensions", DL_MAX_DIM + 1);
    if (size < 0 || size > x->shape[d])
        return dl_fail(DL_ERR_VALUE, "size must be 0 to %ld, the elements of dimension %d, not %ld", x->shape[d], d,
                       size);
    if (step < 1) return dl_fail(DL_ERR_VALUE, "step must be 1 or more, not %ld", step);
    memcpy(shape, x->shape, sizeof x->shape), memcpy(stride, x->stride, sizeof x->stride);
    shape[d] = (x->shape[d] - size) / step + 1, stride[d] = shape[d] > 1 ? x->stride[d] * step : x->stride[d];
    shape[x->ndim] = size, stride[x->ndim] = x->stride[d];
    return dl_finish(c, dl_as_strided(x, shape, x->ndim + 1, stride, x->ndim + 1, x->offset));
}

/* ---- diagonals and blocks */

static dl_status check_matrix(const dl_tensor *x) {
    if (x->ndim == 2) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "the input must be a matrix, not of shape %s", dl_shape_of(x));
}

/* The diagonal of a matrix, or a matrix with a vector on its diagonal. */
POOLED_RULE(diag) {
    dl_tensor *x = c->in[0];
    const long k = ATTR_I(c, DIAG_DIAGONAL);
    if (x->ndim == 2) return dl_finish(c, dl_clone(K(dl_diagonal(x, k, 0, 1))));
    if (x->ndim != 1)
        return dl_fail_hint(DL_ERR_SHAPE, "diagonal(x, 0, -2, -1) is of a batch of matrices",
                            "the input must be a vector or a matrix, not of shape %s", dl_shape_of(x));
    if (k <= -DL_MAX_COUNT || k >= DL_MAX_COUNT) return dl_fail(DL_ERR_VALUE, "diagonal %ld is too far off", k);
    const long n = x->shape[0] + (k < 0 ? -k : k), step = n + 1;
    dl_tensor *zeros = K(dl_full((long[]){n, n}, 2, 0, x->dtype, x->st->device));
    return dl_finish(c, zeros ? dl_as_strided_set(zeros, x, x->shape, 1, &step, 1, k < 0 ? -k * n : k) : NULL);
}

POOLED_RULE(trace) {
    DL_TRY(check_matrix(c->in[0]));
    return dl_finish(c, dl_sum(K(dl_diagonal(c->in[0], 0, 0, 1)), NULL, 0, 0));
}

COMPOSE_RULE(sum_to_size) {
    POOL;
    dl_tensor *x = c->in[0];
    const dl_aval *size = ATTR(c, SUM_TO_SIZE_SIZE);
    long dims[DL_MAX_DIM];
    const int more = x->ndim - size->n;
    int n = 0;
    for (int i = 0; i < x->ndim; i++) {
        const long want = i < more ? 1 : size->u.v[i - more];
        if (more < 0 || (want != 1 && want != x->shape[i]))
            return dl_fail(DL_ERR_SHAPE, "%s does not broadcast to %s", dl_shape_text(size->n, size->u.v),
                           dl_shape_of(x));
        if (i < more || x->shape[i] != want) dims[n++] = i;
    }
    if (more < 0)
        return dl_fail(DL_ERR_SHAPE, "%s has more dimensions than %s", dl_shape_text(size->n, size->u.v),
                       dl_shape_of(x));
    dl_tensor *sum = n ? K(dl_sum(x, dims, n, 1)) : x;
    return dl_finish(c, sum ? dl_reshape(sum, size->u.v, size->n) : NULL);
}
