/* Complex numbers made of real ones, and rows that take complex numbers by their parts: what is linear works on the
 * parts as on a last dimension, a matrix product on matrices of twice the size. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/complex.h"
#include "dlcore/copy.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/arithmetic.h"
#include "ops/rules/complex.h"
#include "ops/rules/elementary.h"
#include "ops/rules/index.h"
#include "ops/rules/matmul.h"
#include "ops/rules/create.h"
#include "ops/rules/reduce.h"

#include <math.h>
#include <string.h>

static bool is_complex(const dl_tensor *t) { return t && dl_dtype_is_complex(t->dtype); }

/* The calls that are made of calls for the parts. */
COMPOSED_RULE(complex) { return dl_dtype_is_complex(c->dtype); }
/* Rows whose kernel takes complex numbers on some devices. */
COMPOSED_RULE(complex_without_kernel) { return dl_dtype_is_complex(c->dtype) && dl_lacks_kernel(c); }
COMPOSED_RULE(real) { return !dl_dtype_is_complex(c->dtype); }

/* ---- numbers and their parts */

/* The complex numbers whose parts are in the last dimension of t. */
static dl_tensor *of_pairs(dl_pool *p, dl_tensor *t) { return t ? dl_view_as_complex(K(dl_contiguous(t))) : NULL; }

static dl_tensor *part(dl_pool *p, dl_tensor *x, long which) { return dl_select(K(dl_view_as_real(x)), -1, which); }

/* The parts of complex numbers are f32 or f64. */
COMPOSED_RULE(halves) { return DL_BIT(c->dtype) & DL_HALVES; }

POOLED_RULE(complex) {
    return dl_finish(c, dl_complex(K(dl_to_dtype(c->in[0], DL_F32)), K(dl_to_dtype(c->in[1], DL_F32))));
}

POOLED_RULE(polar) {
    return dl_finish(c, dl_polar(K(dl_to_dtype(c->in[0], DL_F32)), K(dl_to_dtype(c->in[1], DL_F32))));
}

POOLED_RULE(real) { return dl_finish(c, is_complex(c->in[0]) ? part(p, c->in[0], 0) : dl_ref(c->in[0])); }

POOLED_RULE(imag) {
    if (!is_complex(c->in[0]))
        return dl_fail(DL_ERR_DTYPE, "numbers of %s have no imaginary part", dl_type_of(c->in[0]));
    return dl_finish(c, part(p, c->in[0], 1));
}

COMPOSE_RULE(angle) { return dl_finish(c, dl_argument(c->in[0])); }
POOLED_RULE(argument) { return dl_finish(c, dl_atan2(K(part(p, c->in[0], 1)), K(part(p, c->in[0], 0)))); }

COMPOSE_RULE(conj) { return dl_finish(c, dl_ref(c->in[0])); }

COMPOSE_RULE(abs) { return dl_finish(c, dl_modulus(c->in[0])); }
POOLED_RULE(modulus) {
    if (!is_complex(c->in[0])) return dl_finish(c, dl_abs(c->in[0]));
    return dl_finish(c, dl_hypot(K(part(p, c->in[0], 0)), K(part(p, c->in[0], 1))));
}

/* ---- powers: whole ones of small size by products, others by logarithms */

static bool small_power(const dl_tensor *e, long *n) {
    double v[2];
    if (!e->weak || dl_item_c(e, v) != DL_OK) return false;
    *n = fabs(v[0]) <= 16 ? (long)v[0] : 0;
    return v[1] == 0 && v[0] == (double)*n;
}

/* 0 to the power e: 1 for 0, else by the real part of e 0, infinity of any direction, or no number. */
static dl_tensor *power_of_zero(dl_pool *p, dl_tensor *e) {
    dl_tensor *zero = N(0), *real = is_complex(e) ? K(part(p, e, 0)) : e, *above = real ? K(dl_gt(real, zero)) : NULL;
    dl_tensor *below = above ? K(dl_lt(real, zero)) : NULL, *any = K(dl_scalar_c(INFINITY, NAN));
    dl_tensor *rest = below ? K(dl_where(below, any, K(dl_scalar_c(NAN, NAN)))) : NULL;
    dl_tensor *power = rest ? K(dl_where(above, zero, rest)) : NULL;
    return power ? K(dl_where(K(dl_eq(e, zero)), N(1), power)) : NULL;
}

POOLED_RULE(pow) {
    dl_tensor *x = c->in[0], *e = c->in[1], *zero = N(0), *one = N(1), *y = NULL;
    long n = 0;
    if (small_power(e, &n) && n) {
        for (long i = n < 0 ? -n : n; i && x; i >>= 1, x = i ? K(dl_square(x)) : x)
            if (i & 1) y = y ? K(dl_mul(y, x)) : x;
        return dl_finish(c, !y ? NULL : n < 0 ? dl_reciprocal(y) : dl_clone(y));
    }
    dl_tensor *none = K(dl_eq(x, zero)), *base = none ? K(dl_where(none, one, x)) : NULL;
    dl_tensor *power = base ? K(dl_exp(K(dl_mul(e, K(dl_log(base)))))) : NULL;
    dl_tensor *at_zero = power ? power_of_zero(p, e) : NULL;
    return dl_finish(c, at_zero ? dl_where(none, at_zero, power) : NULL);
}

/* ---- linear rows: the same of the parts */

/* The row for the parts of its complex inputs; a 0-d input counts as one of one element. */
static dl_status by_parts(dl_call *c, const dl_aval *attr) {
    POOL;
    dl_tensor *in[DL_MAX_NAMED_IN] = {0};
    for (int i = 0; i < c->nin; i++) {
        dl_tensor *t = c->in[i];
        if (is_complex(t) && !t->ndim) t = K(dl_reshape(t, (long[]){1}, 1));
        in[i] = is_complex(t) ? K(dl_view_as_real(t)) : t;
    }
    dl_tensor *out = dl_invoke1(c->op, in, c->nin, attr);
    return dl_finish(c, out ? of_pairs(p, K(out)) : NULL);
}

/* A sum or mean over dimensions, which are named: the last one is that of the parts. */
static dl_status reduced(dl_call *c) {
    dl_aval attr[DL_MAX_ATTR], *dim = &attr[DL_A_REDUCE_DIM];
    unsigned mask;
    const int n = c->in[0]->ndim;
    if (!n) return dl_finish(c, dl_clone(c->in[0]));
    memcpy(attr, c->attr, (size_t)c->op->nattr * sizeof *attr);
    DL_TRY(dl_reduced_dims(c->op, c->attr, n, &mask));
    *dim = (dl_aval){.given = true, .is_int = true};
    for (int i = 0; i < n; i++)
        if (mask >> i & 1) dim->u.v[dim->n++] = i;
    return by_parts(c, attr);
}
COMPOSE_RULE(sum) { return reduced(c); }
COMPOSE_RULE(mean) { return reduced(c); }

/* A row that works along one dimension, the attribute dim. */
static dl_status along(dl_call *c) {
    dl_aval attr[DL_MAX_ATTR];
    const int at = dl_attr_index(c->op, "dim");
    int dim;
    memcpy(attr, c->attr, (size_t)c->op->nattr * sizeof *attr);
    DL_TRY(dl_dim_norm(attr[at].u.i, c->in[0]->ndim, &dim));
    attr[at].u.i = dim;
    DL_TRY(by_parts(c, attr));
    DL_OWNED dl_tensor *line = c->in[0]->ndim ? NULL : c->out[0];
    return line ? dl_finish(c, dl_reshape(line, line->shape, 0)) : DL_OK;
}
COMPOSE_RULE(cumsum) { return along(c); }
COMPOSE_RULE(index_select) { return along(c); }
COMPOSE_RULE(index_add) { return along(c); }

/* The same where each element has an index, which both parts share. */
static dl_status along_each(dl_call *c) {
    POOL;
    dl_tensor *given = c->in[1];
    long shape[DL_MAX_DIM + 1];
    if (!given->ndim || given->ndim == DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "indices of complex numbers have 1 to %d dimensions", DL_MAX_DIM - 1);
    for (int i = 0; i < given->ndim; i++) shape[i] = given->shape[i];
    shape[given->ndim] = 2;
    dl_tensor *one = K(dl_with_dim(given, -1)), *wide = one ? K(dl_expand(one, shape, given->ndim + 1)) : NULL;
    if (!wide) return dl_failed();
    c->in[1] = wide;
    dl_status s = along(c);
    c->in[1] = given;
    return s;
}
COMPOSE_RULE(gather) { return along_each(c); }
COMPOSE_RULE(scatter_add) { return along_each(c); }

/* ---- products */

/* One half of a dimension times the other, until one element is left; an odd one waits. */
static dl_tensor *folded(dl_pool *p, dl_tensor *x, int d) {
    for (long n = x ? x->shape[d] : 0; x && n > 1; n = x ? x->shape[d] : 0) {
        const long half = n / 2, even = n - n % 2;
        dl_tensor *y = K(dl_mul(K(dl_slice(x, d, NULL, &half, 1)), K(dl_slice(x, d, &half, &even, 1))));
        dl_tensor *both[2] = {y, even < n ? K(dl_slice(x, d, &even, NULL, 1)) : NULL};
        x = even < n && y && both[1] ? K(dl_cat(both, 2, d)) : y;
    }
    return x;
}

POOLED_RULE(prod) {
    dl_tensor *x = c->in[0];
    unsigned mask;
    long shape[DL_MAX_DIM];
    int d = 0;
    DL_TRY(dl_reduced_dims(c->op, c->attr, x->ndim, &mask));
    const int n = dl_reduced_shape(x->ndim, x->shape, mask, ATTR_I(c, REDUCE_KEEPDIM), shape);
    const bool all = !ATTR(c, REDUCE_DIM)->given || !x->ndim;
    if (!all) DL_TRY(dl_dim_norm(ATTR_I(c, REDUCE_DIM), x->ndim, &d));
    if (all) x = K(dl_reshape(x, (long[]){x->numel}, 1));
    if (!x) return dl_failed();
    if (x->shape[d]) return dl_finish(c, (x = folded(p, x, d)) ? dl_reshape(x, shape, n) : NULL);
    dl_tensor *none = K(dl_sum(x, &(long){d}, 1, 0)); /* of no numbers: 0, with a history */
    return dl_finish(c, none ? dl_add(K(dl_reshape(none, shape, n)), K(dl_scalar_i(1))) : NULL);
}

/* With a = r + i s and b real matrices of pairs: (r s) by rows (b, i b) is the product, of one call with as many
 * multiplications as that of complex matrices. */
static dl_tensor *matrix_product(dl_pool *p, dl_tensor *a, dl_tensor *b) {
    long shape[DL_MAX_DIM + 1];
    const int n = a->ndim, m = b->ndim;
    const long rows = a->shape[n - 2], inner = a->shape[n - 1], columns = b->shape[m - 1];
    memcpy(shape, a->shape, sizeof a->shape);
    shape[n - 1] = 2 * inner;
    dl_tensor *left = K(dl_reshape(K(dl_view_as_real(a)), shape, n));
    dl_tensor *twice[2] = {b, K(dl_mul(b, K(dl_scalar_c(0, 1))))};
    dl_tensor *stacked = twice[1] ? K(dl_stack(twice, 2, -2)) : NULL,
              *right = stacked ? K(dl_view_as_real(stacked)) : NULL;
    memcpy(shape, b->shape, sizeof b->shape);
    shape[m - 2] = 2 * inner, shape[m - 1] = 2 * columns;
    right = right ? K(dl_reshape(right, shape, m)) : NULL;
    dl_tensor *out = left && right ? K(dl_matmul(left, right)) : NULL;
    if (!out) return NULL;
    memcpy(shape, out->shape, sizeof out->shape);
    shape[out->ndim - 2] = rows, shape[out->ndim - 1] = columns, shape[out->ndim] = 2;
    return of_pairs(p, K(dl_reshape(out, shape, out->ndim + 1)));
}

POOLED_RULE(matmul) {
    dl_tensor *a = c->in[0], *b = c->in[1];
    dl_meta m[DL_MAX_OUT] = {0};
    DL_TRY(c->op->infer(c, m));
    if (a->ndim == 1) a = K(dl_reshape(a, (long[]){1, a->shape[0]}, 2));
    if (b->ndim == 1) b = K(dl_reshape(b, (long[]){b->shape[0], 1}, 2));
    if (a && b && (a->ndim == DL_MAX_DIM || b->ndim == DL_MAX_DIM))
        return dl_fail(DL_ERR_SHAPE, "complex matrices have at most %d dimensions", DL_MAX_DIM - 1);
    dl_tensor *out = a && b ? K(matrix_product(p, a, b)) : NULL;
    return dl_finish(c, out ? dl_reshape(out, m->shape, m->ndim) : NULL);
}

/* ---- random numbers of one more dimension */

static dl_tensor *drawn(dl_pool *p, dl_call *c) {
    dl_aval attr[DL_MAX_ATTR];
    memcpy(attr, c->attr, (size_t)c->op->nattr * sizeof *attr);
    dl_aval *size = &attr[DL_A_FILL_SIZE], *dtype = &attr[DL_A_FILL_DTYPE];
    if (size->n == DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "random complex numbers have at most %d dimensions", DL_MAX_DIM - 1), NULL;
    size->u.v[size->n++] = 2;
    dtype->u.i = dl_dtype_of_parts(c->dtype);
    return of_pairs(p, K(dl_invoke1(c->op, NULL, 0, attr)));
}

POOLED_RULE(rand) { return dl_finish(c, drawn(p, c)); }

/* Each part has half of the variance. */
POOLED_RULE(randn) {
    dl_tensor *x = K(drawn(p, c));
    return dl_finish(c, x ? dl_mul(x, N(M_SQRT1_2)) : NULL);
}
