/* Ops made of other ops that move or replace elements: masked_fill, roll, tile. */
#include "ops/compose/compose.h"
#include "dlcore/index.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/index.h"
#include "ops/rules/where.h"

/* The dtype of the input decides; a value that it cannot hold is an error rather than cut. */
POOLED_RULE(masked_fill) {
    dl_tensor *x = c->in[0], *mask = c->in[1], *value = c->in[2];
    dl_dtype t = x->dtype, v = value->dtype;
    if (mask->dtype != DL_BOOL)
        return dl_fail_hint(DL_ERR_DTYPE, "compare, as in mask == 0, or convert with .to(bool)",
                            "the mask must be bool, not %s", dl_type_of(mask));
    if (value->ndim)
        return dl_fail_hint(DL_ERR_SHAPE, "where(mask, values, x) takes a value for each element",
                            "the value is a single one, not a tensor of shape %s", dl_shape_of(value));
    if (dl_dtype_kind(v) > dl_dtype_kind(t))
        return dl_fail_hint(DL_ERR_DTYPE, "convert the tensor with .to(DTYPE)", "a value of %s does not go into %s",
                            value->weak && dl_dtype_kind(v) == 2 ? "floating numbers" : dl_dtype_name(v),
                            dl_dtype_name(t));
    return dl_finish(c, dl_where(mask, K(dl_to_dtype(value, t)), x));
}

/* t with dimension d moved on by `shift`; takes t over. */
static dl_tensor *rolled(dl_tensor *t, int d, long shift) {
    long n = t->ndim ? t->shape[d] : 0, by = n ? (shift % n + n) % n : 0, cut = n - by;
    if (!by) return t;
    POOL;
    dl_tensor *part[2] = {K(dl_slice(K(t), d, &cut, NULL, 1)), K(dl_slice(t, d, NULL, &cut, 1))};
    return part[0] && part[1] ? dl_cat(part, 2, d) : NULL;
}

COMPOSE_RULE(roll) {
    const dl_aval *shifts = ATTR(c, ROLL_SHIFTS), *dims = ATTR(c, ROLL_DIMS);
    dl_tensor *x = c->in[0], *t;
    int n = dims->given ? dims->n : 1, d[DL_MAX_DIM] = {0};
    if (shifts->n != n)
        return dl_fail_hint(DL_ERR_VALUE, "roll(x, [1, 2], [0, 1]) moves dimension 0 by 1 and dimension 1 by 2",
                            dims->given ? "%d shifts do not fit %d dimensions"
                                        : "%d shifts need as many dimensions: without dims there is %d",
                            shifts->n, n);
    for (int i = 0; dims->given && i < n; i++) DL_TRY(dl_dim_norm(dims->u.v[i], x->ndim, &d[i]));
    t = dims->given ? dl_ref(x) : dl_reshape(x, (long[]){x->numel}, 1);
    for (int i = 0; i < n && t; i++) t = rolled(t, d[i], shifts->u.v[i]);
    if (dims->given || !t) return dl_finish_own(c, t);
    DL_OWNED dl_tensor *flat = t;
    return dl_finish_own(c, dl_reshape(flat, x->shape, x->ndim));
}

/* `times` copies of t [outer, d, inner] side by side in dimension d; takes t over. */
static dl_tensor *repeated(dl_tensor *t, int d, long times) {
    long outer = 1, inner = 1, shape[DL_MAX_DIM];
    if (times == 1) return t;
    DL_OWNED dl_tensor *taken = t;
    int64_t size = t->shape[d];
    if (!dl_count_mul(&size, times))
        return dl_fail(DL_ERR_SHAPE, "%ld copies of size %ld are too many to address", times, size), NULL;
    for (int i = 0; i < t->ndim; i++) {
        *(i < d ? &outer : &inner) *= t->shape[i];
        shape[i] = i == d ? size : t->shape[i];
    }
    DL_OWNED dl_tensor *one = dl_reshape(t, (long[]){outer, 1, inner}, 3);
    DL_OWNED dl_tensor *many = one ? dl_expand(one, (long[]){outer, times, inner}, 3) : NULL;
    return many ? dl_reshape(many, shape, t->ndim) : NULL;
}

/* All copies by one expanded view, in which neighbours that are not repeated are one dimension; NULL without an error:
 * that has too many dimensions. */
static dl_tensor *all_repeated(dl_tensor *t, const long *times) {
    POOL;
    long one[2 * DL_MAX_DIM], many[2 * DL_MAX_DIM], shape[DL_MAX_DIM];
    int n = 0;
    for (int i = 0; i < t->ndim; i++) {
        int64_t size = t->shape[i];
        if (!dl_count_mul(&size, times[i])) return NULL;
        shape[i] = size;
        if (times[i] == 1 && n) {
            one[n - 1] *= t->shape[i], many[n - 1] *= t->shape[i];
            continue;
        }
        if (times[i] != 1) one[n] = 1, many[n++] = times[i];
        one[n] = many[n] = t->shape[i], n++;
    }
    if (n > DL_MAX_DIM) return NULL;
    dl_tensor *apart = K(dl_reshape(t, one, n)), *wide = apart ? K(dl_expand(apart, many, n)) : NULL;
    return wide ? dl_reshape(wide, shape, t->ndim) : NULL;
}

/* Dimensions that the input lacks have size 1. */
COMPOSE_RULE(tile) {
    const dl_aval *dims = ATTR(c, TILE_DIMS);
    dl_tensor *x = c->in[0];
    int n = dims->n > x->ndim ? dims->n : x->ndim;
    long shape[DL_MAX_DIM], times[DL_MAX_DIM];
    for (int i = 0; i < dims->n; i++)
        if (dims->u.v[i] < 0)
            return dl_fail(DL_ERR_VALUE, "the number of copies cannot be negative, as %ld is", dims->u.v[i]);
    for (int i = 0; i < n; i++) shape[i] = i < n - x->ndim ? 1 : x->shape[i - n + x->ndim];
    for (int i = 0; i < n; i++) times[i] = i < n - dims->n ? 1 : dims->u.v[i - n + dims->n];
    dl_tensor *t = dl_reshape(x, shape, n), *all = t ? all_repeated(t, times) : NULL;
    if (all) return dl_unref(t), dl_finish_own(c, all);
    for (int i = n - 1; i >= 0 && t; i--) t = repeated(t, i, times[i]);
    return dl_finish_own(c, t);
}
