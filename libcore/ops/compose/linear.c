/* Products made of matmul: mm, mv, bmm, dot, outer, addmm; kron, and distances of all pairs. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/index.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/matmul.h"

/* Operands of so many dimensions. */
static dl_status check_dims(const dl_call *c, int first, int a, int b) {
    const int want[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        const dl_tensor *t = c->in[first + i];
        if (t->ndim != want[i])
            return dl_fail_hint(DL_ERR_SHAPE, "matmul(a, b) takes vectors, matrices and batches of them",
                                "%s must be %d-d, not of shape %s", c->op->in_name[first + i], want[i], dl_shape_of(t));
    }
    return DL_OK;
}

static dl_status product(dl_call *c, int a, int b) {
    DL_TRY(check_dims(c, 0, a, b));
    return dl_finish(c, dl_matmul(c->in[0], c->in[1]));
}

COMPOSE_RULE(mm) { return product(c, 2, 2); }
COMPOSE_RULE(mv) { return product(c, 2, 1); }
COMPOSE_RULE(dot) { return product(c, 1, 1); }

POOLED_RULE(outer) {
    DL_TRY(check_dims(c, 0, 1, 1));
    return dl_finish(c, dl_mul(K(dl_reshape(c->in[0], (long[]){c->in[0]->numel, 1}, 2)), c->in[1]));
}

/* factor * t; t itself for a factor of 1. */
static dl_tensor *times(dl_pool *p, dl_tensor *t, const dl_aval *factor) {
    if (factor->is_int && factor->u.i == 1) return t;
    return K(dl_mul(t, K(factor->is_int ? dl_scalar_i(factor->u.i) : dl_scalar_f(factor->u.f))));
}

/* beta * input + alpha * product, which is taken over; an input with beta 0 is not read. */
static dl_status added(dl_call *c, dl_tensor *product) {
    POOL;
    const dl_aval *beta = ATTR(c, ADDED_BETA);
    product = times(p, K(product), ATTR(c, ADDED_ALPHA));
    dl_tensor *x = c->in[0];
    if (dl_aval_number(beta) != 0) return dl_finish(c, dl_add(times(p, x, beta), product));
    dl_tensor *zero = K(dl_to_dtype(K(dl_scalar_i(0)), x->dtype));
    return dl_finish(c, dl_add(K(dl_where(K(dl_eq(zero, zero)), zero, x)), product));
}

static dl_status check_batches(const dl_call *c, int first) {
    DL_TRY(check_dims(c, first, 3, 3));
    const dl_tensor *a = c->in[first], *b = c->in[first + 1];
    if (a->shape[0] == b->shape[0]) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "the batches have %ld and %ld matrices", a->shape[0], b->shape[0]);
}

COMPOSE_RULE(addmm) {
    DL_TRY(check_dims(c, 1, 2, 2));
    return added(c, dl_matmul(c->in[1], c->in[2]));
}
COMPOSE_RULE(addmv) {
    DL_TRY(check_dims(c, 1, 2, 1));
    return added(c, dl_matmul(c->in[1], c->in[2]));
}
/* One pass where nothing is to be done to the input but to add. */
POOLED_RULE(addr) {
    const dl_aval *beta = ATTR(c, ADDED_BETA), *alpha = ATTR(c, ADDED_ALPHA);
    dl_tensor *u = c->in[1], *v = c->in[2];
    if (!dl_dtype_is_float(c->dtype) || dl_aval_number(beta) != 1) return added(c, dl_outer(u, v));
    DL_TRY(check_dims(c, 1, 1, 1));
    return dl_finish(c, dl_addcmul(c->in[0], K(dl_reshape(u, (long[]){u->numel, 1}, 2)), v, dl_aval_number(alpha)));
}
COMPOSE_RULE(baddbmm) {
    DL_TRY(check_batches(c, 1));
    return added(c, dl_matmul(c->in[1], c->in[2]));
}
POOLED_RULE(addbmm) {
    const long batches = 0;
    DL_TRY(check_batches(c, 1));
    return added(c, dl_sum(K(dl_matmul(c->in[1], c->in[2])), &batches, 1, 0));
}

COMPOSE_RULE(bmm) {
    DL_TRY(check_batches(c, 0));
    return product(c, 3, 3);
}

/* Sums over the last dimension of both. */
POOLED_RULE(inner) {
    dl_tensor *a = c->in[0], *b = c->in[1];
    if (!a->ndim || !b->ndim) return dl_finish(c, dl_mul(a, b));
    long shape[2 * DL_MAX_DIM], n = a->shape[a->ndim - 1];
    if (n != b->shape[b->ndim - 1])
        return dl_fail(DL_ERR_SHAPE, "the last dimensions have sizes %ld and %ld", n, b->shape[b->ndim - 1]);
    if (a->ndim + b->ndim - 2 > DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "the result would have %d dimensions", a->ndim + b->ndim - 2);
    int nd = 0;
    long rows[2] = {1, 1};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i + 1 < c->in[k]->ndim; i++) rows[k] *= shape[nd++] = c->in[k]->shape[i];
    dl_tensor *left = K(dl_reshape(a, (long[]){rows[0], n}, 2)), *right = K(dl_reshape(b, (long[]){rows[1], n}, 2));
    dl_tensor *turned = right ? K(dl_permute(right, (long[]){1, 0}, 2)) : NULL;
    dl_tensor *out = left && turned ? K(dl_matmul(left, turned)) : NULL;
    return dl_finish(c, out ? dl_reshape(out, shape, nd) : NULL);
}

/* Complex numbers and integers have no kernel. */
COMPOSED_RULE(cross) { return !dl_dtype_is_float(c->dtype); }

/* Each element is made of the two that follow it in turn. */
POOLED_RULE(cross) {
    long shape[DL_MAX_DIM];
    int nd, d;
    dl_tensor *t[2] = {c->in[0], c->in[1]}, *part[2][3], *made[3];
    dl_meta checked;
    DL_TRY(dl_infer_cross(c, &checked));
    DL_TRY(dl_broadcast(t[0]->ndim, t[0]->shape, t[1]->ndim, t[1]->shape, &nd, shape));
    DL_TRY(dl_dim_norm(ATTR_I(c, CROSS_DIM), nd, &d));
    for (int i = 0; i < 2; i++) {
        if (!(t[i] = K(dl_expand(t[i], shape, nd)))) return dl_failed();
        for (int k = 0; k < 3; k++)
            if (!(part[i][k] = K(dl_select(t[i], d, k)))) return dl_failed();
    }
    for (int k = 0; k < 3; k++) {
        const int next = (k + 1) % 3, last = (k + 2) % 3;
        made[k] = K(dl_addcmul(K(dl_mul(part[0][next], part[1][last])), part[0][last], part[1][next], -1));
        if (!made[k]) return dl_failed();
    }
    return dl_finish(c, dl_stack(made, 3, d));
}

/* Rows of a Kronecker product shorter than SHORT are joined up to JOINED numbers: each number of a row of the first
 * operand is repeated, and so are rows of the second as a whole. That pays where many rows read what is laid out so,
 * and longer rows would not stay in the nearest cache: of 32 by 32 with 32 by 32 in f64 the product takes 222 us
 * without this, 158 with rows of 256 and 195 with rows of 1,024. */
enum { SHORT = 64, MANY = 8, JOINED = 256 };

static bool has_short_rows(dl_tensor *const t[2]) {
    for (int k = 0; k < 2; k++)
        if (!t[k]->ndim || !t[k]->numel || t[k]->numel / t[k]->shape[t[k]->ndim - 1] < MANY) return false;
    return t[0]->shape[t[0]->ndim - 1] > 1 && t[1]->shape[t[1]->ndim - 1] < SHORT;
}

/* How many of n rows of the second operand become one: a divisor of n, all where only 1 is small enough. */
static long rows_in_one(long n, long width) {
    long k = n < JOINED / width ? n : JOINED / width;
    while (k > 1 && n % k) k--;
    return k > 1 ? k : n;
}

/* Each number of t is repeated `each` times, and each row `times` times. */
static dl_tensor *with_long_rows(dl_pool *p, dl_tensor *t, long times, long each) {
    const int n = t->ndim - 1;
    long shape[DL_MAX_DIM + 2];
    for (int i = 0; i < n; i++) shape[i] = t->shape[i];
    shape[n] = 1, shape[n + 1] = t->shape[n], shape[n + 2] = 1;
    dl_tensor *apart = K(dl_reshape(t, shape, n + 3));
    shape[n] = times, shape[n + 2] = each;
    dl_tensor *all = apart ? K(dl_expand(apart, shape, n + 3)) : NULL;
    shape[n] = times * t->shape[n] * each;
    return all ? K(dl_reshape(all, shape, n + 1)) : NULL;
}

/* The dimensions of the operands alternate, and are joined in pairs. */
POOLED_RULE(kron) {
    dl_tensor *t[2] = {c->in[0], c->in[1]};
    const int n = t[0]->ndim > t[1]->ndim ? t[0]->ndim : t[1]->ndim;
    long shape[2][2 * DL_MAX_DIM], joined[DL_MAX_DIM];
    if (2 * n > DL_MAX_DIM) return dl_fail(DL_ERR_SHAPE, "kron takes at most %d dimensions, not %d", DL_MAX_DIM / 2, n);
    const bool longer = has_short_rows(t);
    for (int i = 0; i < n; i++) joined[i] = 1;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < n; i++) {
            int d = i - (n - t[k]->ndim);
            long size = d < 0 ? 1 : t[k]->shape[d];
            shape[k][2 * i + k] = size, shape[k][2 * i + !k] = 1;
            joined[i] *= size;
        }
    if (longer) {
        const long width = t[1]->shape[t[1]->ndim - 1], times = rows_in_one(shape[0][2 * n - 2], width);
        t[0] = with_long_rows(p, t[0], 1, width), t[1] = with_long_rows(p, t[1], times, 1);
        shape[0][2 * n - 2] /= times;
        for (int k = 0; k < 2; k++) shape[k][2 * n - 1] = times * width;
        if (!t[0] || !t[1]) return dl_failed();
    }
    dl_tensor *left = K(dl_reshape(t[0], shape[0], 2 * n));
    dl_tensor *product = K(dl_mul(left, K(dl_reshape(t[1], shape[1], 2 * n))));
    return dl_finish(c, product ? dl_reshape(product, joined, n) : NULL);
}

POOLED_RULE(bilinear) {
    dl_tensor *a = c->in[0], *b = c->in[1], *w = c->in[2], *bias = INPUT(c, BILINEAR_BIAS);
    const int n = a->ndim;
    long shape[DL_MAX_DIM] = {0}, rows = 1;
    bool fits =
        n >= 1 && b->ndim == n && w->ndim == 3 && a->shape[n - 1] == w->shape[1] && b->shape[n - 1] == w->shape[2];
    for (int i = 0; fits && i < n - 1; i++)
        fits = a->shape[i] == b->shape[i], shape[i] = a->shape[i], rows *= a->shape[i];
    if (!fits)
        return dl_fail_hint(DL_ERR_SHAPE, "the weight is [out, size of input1, size of input2]",
                            "inputs of shapes %s and %s do not fit", dl_shape_text(n, a->shape), dl_shape_of(b));
    if (bias && (bias->ndim != 1 || bias->shape[0] != w->shape[0]))
        return dl_fail(DL_ERR_SHAPE, "the bias must have shape [%ld]", w->shape[0]);
    shape[n - 1] = w->shape[0];
    dl_tensor *left = K(dl_reshape(a, (long[]){rows, w->shape[1]}, 2)),
              *right = K(dl_reshape(b, (long[]){rows, w->shape[2]}, 2));
    dl_tensor *part[] = {left, w, right}, *y = left && right ? K(dl_einsum(part, 3, "ni,oij,nj->no")) : NULL;
    if (y && bias) y = K(dl_add(y, bias));
    return dl_finish(c, y ? dl_reshape(y, shape, n) : NULL);
}
