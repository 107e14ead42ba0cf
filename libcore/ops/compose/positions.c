/* Positions of sequences: rotations of queries and keys, and sines and cosines to be added. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/unary.h"
#include "dlcore/elementary.h"
#include "dlcore/view.h"
#include "dlcore/copy.h"
#include "ops/rules/matmul.h"

#include <math.h>
#include <string.h>

static dl_status check(const dl_call *c) {
    const dl_tensor *x = c->in[0];
    if (!dl_dtype_is_float(x->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "convert with .to(f32)", "the input must be floating, not %s", dl_type_of(x));
    if (x->ndim < 2) return dl_fail(DL_ERR_SHAPE, "the input must be [..., T, E], not %s", dl_shape_of(x));
    return ATTR_F(c, ROTARY_BASE) > 0 ? DL_OK
                                      : dl_fail(DL_ERR_VALUE, "base must be above 0, not %g", ATTR_F(c, ROTARY_BASE));
}

/* 0, 1, 2, ... in the dtype of x. */
static dl_tensor *numbers(dl_pool *p, const dl_tensor *x, long n) {
    double end = (double)n;
    return K(dl_arange(0, &end, 1, x->dtype, x->st->device));
}

/* Angles [..., T, pairs] of the positions [..., T]. */
static dl_tensor *angles(dl_pool *p, const dl_call *c, dl_tensor *positions, long pairs) {
    const dl_tensor *x = c->in[0];
    const long size = x->shape[x->ndim - 1];
    double step = size ? -2 * log(ATTR_F(c, ROTARY_BASE)) / (double)size : 0;
    dl_tensor *frequency = K(dl_exp(K(dl_mul(numbers(p, x, pairs), N(step)))));
    return K(dl_mul(K(dl_with_dim(positions, -1)), frequency));
}

/* t, whose last dimensions are [pairs, 2] or [2, pairs], without the one of pairs. */
static dl_tensor *one(dl_pool *p, dl_tensor *t, int dim, int i) { return t ? K(dl_select(t, dim, i)) : NULL; }

POOLED_RULE(rotary_embedding) {
    dl_tensor *x = c->in[0], *positions = c->nin > 1 ? c->in[1] : NULL;
    DL_TRY(check(c));
    long shape[DL_MAX_DIM], size = x->shape[x->ndim - 1], length = x->shape[x->ndim - 2];
    bool near = ATTR_I(c, ROTARY_EMBEDDING_INTERLEAVED) != 0;
    int n = x->ndim;
    if (size % 2) return dl_fail(DL_ERR_SHAPE, "the last size must be even, not %ld", size);
    if (n == DL_MAX_DIM) return dl_fail(DL_ERR_SHAPE, "the input has too many dimensions");
    if (positions && (!positions->ndim || positions->ndim >= n || positions->shape[positions->ndim - 1] != length))
        return dl_fail(DL_ERR_SHAPE, "positions of shape %s do not fit an input of shape %s", dl_shape_of(positions),
                       dl_shape_text(n, x->shape));
    positions = positions ? K(dl_to(positions, x->dtype)) : numbers(p, x, length);
    dl_tensor *t = angles(p, c, positions, size / 2);
    dl_tensor *cosine = t ? K(dl_cos(t)) : NULL, *sine = t ? K(dl_sin(t)) : NULL;
    memcpy(shape, x->shape, sizeof shape);
    shape[n - 1] = near ? size / 2 : 2, shape[n] = near ? 2 : size / 2;
    dl_tensor *both = K(dl_reshape(x, shape, n + 1));
    dl_tensor *a = one(p, both, near ? n : n - 1, 0), *b = one(p, both, near ? n : n - 1, 1);
    if (!a || !b || !cosine || !sine) return dl_fail_null("a part of the result");
    dl_tensor *turned[2] = {K(dl_sub(K(dl_mul(a, cosine)), K(dl_mul(b, sine)))),
                            K(dl_add(K(dl_mul(a, sine)), K(dl_mul(b, cosine))))};
    if (!turned[0] || !turned[1]) return dl_failed();
    dl_tensor *y = K(dl_stack(turned, 2, near ? n : n - 1));
    return dl_finish(c, y ? dl_reshape(y, x->shape, n) : NULL);
}

POOLED_RULE(positional_encoding) {
    dl_tensor *x = c->in[0];
    int dim, n = x->ndim;
    DL_TRY(check(c));
    DL_TRY(dl_dim_norm(ATTR_I(c, POSITIONAL_ENCODING_DIM), n, &dim));
    if (dim == n - 1) return dl_fail(DL_ERR_VALUE, "positions lie along another dimension than the last one");
    long size = x->shape[n - 1], length = x->shape[dim], pairs = (size + 1) / 2, shape[DL_MAX_DIM], first = 0;
    dl_tensor *t = angles(p, c, numbers(p, x, length), pairs);
    dl_tensor *waves[2] = {t ? K(dl_sin(t)) : NULL, t ? K(dl_cos(t)) : NULL};
    if (!waves[0] || !waves[1]) return dl_failed();
    dl_tensor *both = K(dl_stack(waves, 2, 2)),
              *flat = both ? K(dl_reshape(both, (long[]){length, 2 * pairs}, 2)) : NULL;
    dl_tensor *table = flat ? K(dl_slice(flat, 1, &first, &size, 1)) : NULL;
    for (int i = 0; i < n; i++) shape[i] = i == dim ? length : i == n - 1 ? size : 1;
    return dl_finish(c, table ? dl_add(x, K(dl_reshape(table, shape, n))) : NULL);
}
