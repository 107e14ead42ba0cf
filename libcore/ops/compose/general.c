/* Ops made of other ops. */
#include "ops/compose/compose.h"
#include "ops/compose/rows/row_sum.h"
#include "autograd/tape.h"
#include "core/widening.h"
#include "autograd/vmap.h"
#include "core/device/device.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/unary.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/create.h"
#include "ops/rules/index.h"
#include "ops/rules/loss.h"
#include "ops/rules/reduce.h"
#include "ops/rules/unary.h"

#include <math.h>
#include <string.h>

dl_status dl_finish_own(dl_call *c, dl_tensor *result) {
    if (!result || result->st != c->in[0]->st) return dl_finish(c, result);
    DL_OWNED dl_tensor *view = result;
    return dl_finish(c, dl_clone(view));
}

/* Rows with a kernel on the CPU alone. vmap sees the rows that they are made of, which know what a batch is. */
COMPOSED_RULE(elsewhere) { return c->device || dl_vmap_watching; }
COMPOSED_RULE(watched) { return (void)c, dl_vmap_watching; }
/* Rows with a kernel on some devices. */
bool dl_lacks_kernel(const dl_call *c) {
    const dl_kernel *k = dl_kernel_of(c->op, c->device);
    return dl_vmap_watching || !k || !k->run || !(k->dtypes >> c->dtype & 1);
}
COMPOSED_RULE(without_kernel) { return dl_lacks_kernel(c); }

/* ---- making */

static dl_status filled(dl_call *c, double value) {
    return dl_finish(c, dl_full(ATTR(c, FILL_SIZE)->u.v, ATTR(c, FILL_SIZE)->n, value, c->dtype, c->device));
}
COMPOSE_RULE(zeros) { return filled(c, 0); }
COMPOSE_RULE(empty) { return filled(c, 0); }
COMPOSE_RULE(ones) { return filled(c, 1); }

POOLED_RULE(scalar_tensor) {
    const dl_aval *s = ATTR(c, SCALAR_TENSOR_S);
    dl_tensor *number = K(s->is_int ? dl_scalar_i(s->u.i) : dl_scalar_f(s->u.f));
    number = K(dl_to(number, ATTR(c, SCALAR_TENSOR_DTYPE)->given ? c->dtype : dl_default_dtype_get()));
    return dl_finish(c, number ? dl_to_device(number, c->device) : NULL);
}

/* ---- joining */

dl_tensor *dl_with_dim(dl_tensor *t, int d) {
    long shape[DL_MAX_DIM + 1];
    if (!t) return NULL;
    if (d < 0) d += t->ndim + 1;
    for (int i = 0; i <= t->ndim; i++) shape[i] = i < d ? t->shape[i] : i == d ? 1 : t->shape[i - 1];
    return dl_reshape(t, shape, t->ndim + 1);
}

COMPOSE_RULE(stack) {
    dl_tensor *part[DL_MAX_IN];
    int d, n = 0;
    DL_TRY(dl_dim_norm(ATTR_I(c, STACK_DIM), c->in[0]->ndim + 1, &d));
    dl_status s = DL_OK;
    for (; n < c->nin && s == DL_OK; n++) {
        part[n] = NULL;
        if (!dl_shape_eq(c->in[0], c->in[n])) {
            s = dl_fail_hint(DL_ERR_SHAPE, "use cat() to join along a dimension that exists",
                             "the tensors must have one shape, not %s and %s", dl_shape_of(c->in[0]),
                             dl_shape_of(c->in[n]));
        } else if (!(part[n] = dl_with_dim(c->in[n], d)))
            s = dl_failed();
    }
    if (s == DL_OK && !(c->out[0] = dl_cat(part, n, d))) s = dl_failed();
    while (n) dl_unref(part[--n]);
    return s;
}

/* t [L,...] with `value` up to the length n, behind it or before it. */
static dl_tensor *as_long(dl_tensor *t, long n, double value, int before) {
    long width[2 * DL_MAX_DIM] = {0};
    if (t->shape[0] == n) return dl_ref(t);
    width[2 * t->ndim - (before ? 2 : 1)] = n - t->shape[0];
    return dl_pad(t, width, 2 * t->ndim, value, "constant");
}

COMPOSE_RULE(pad_sequence) {
    dl_tensor *part[DL_MAX_IN], *y = NULL;
    int n = 0;
    long most = 0;
    const char *side = ATTR_S(c, PAD_SEQUENCE_PADDING_SIDE);
    const int before = !strcmp(side, "left");
    if (!before && strcmp(side, "right") != 0)
        return dl_fail(DL_ERR_VALUE, "padding_side is right or left, not %s", side);
    for (int i = 0; i < c->nin; i++) {
        if (!c->in[i]->ndim) return dl_fail(DL_ERR_SHAPE, "a sequence has at least one dimension, [L,...]");
        if (c->in[i]->shape[0] > most) most = c->in[i]->shape[0];
    }
    while (n < c->nin && (part[n] = as_long(c->in[n], most, ATTR_F(c, PAD_SEQUENCE_PADDING_VALUE), before))) n++;
    if (n == c->nin) y = dl_stack(part, n, ATTR_I(c, PAD_SEQUENCE_BATCH_FIRST) ? 0 : 1);
    while (n) dl_unref(part[--n]);
    return dl_finish(c, y);
}

/* ---- picking */

/* The rows, without history where the index is `padding`. */
static dl_tensor *without_padding(dl_pool *p, dl_tensor *rows, dl_tensor *index, long padding) {
    dl_tensor *is = K(dl_eq(index, K(dl_scalar_i(padding))));
    dl_tensor *column = is ? K(dl_reshape(is, (long[]){is->numel, 1}, 2)) : NULL;
    return column ? dl_where(column, K(dl_detach(rows)), rows) : NULL;
}

POOLED_RULE(embedding) {
    dl_tensor *index = c->in[0], *weight = c->in[1];
    long shape[DL_MAX_DIM + 1], padding = ATTR_I(c, EMBEDDING_PADDING_IDX);
    DL_TRY(dl_check_index(index));
    if (weight->ndim != 2)
        return dl_fail(DL_ERR_SHAPE, "the weight must be a table [rows, size], not of %d dimensions", weight->ndim);
    if (ATTR(c, EMBEDDING_PADDING_IDX)->given && (padding < -weight->shape[0] || padding >= weight->shape[0]))
        return dl_fail(DL_ERR_INDEX, "padding_idx %ld is out of range for a table of %ld rows", padding,
                       weight->shape[0]);
    if (padding < 0) padding += weight->shape[0];
    for (int i = 0; i < index->ndim; i++) shape[i] = index->shape[i];
    shape[index->ndim] = weight->shape[1];
    dl_tensor *flat = K(dl_reshape(index, (long[]){index->numel}, 1));
    dl_tensor *rows = flat ? K(dl_index_select(weight, flat, 0)) : NULL;
    if (rows && ATTR(c, EMBEDDING_PADDING_IDX)->given) rows = K(without_padding(p, rows, flat, padding));
    return dl_finish(c, rows ? dl_reshape(rows, shape, index->ndim + 1) : NULL);
}

/* ---- activations */

COMPOSE_RULE(relu6) { return dl_finish(c, dl_hardtanh(c->in[0], 0, 6)); }

/* ---- statistics */

static dl_tensor *root_of(dl_tensor *s, double power, dl_pool *p) {
    return power == 2 ? dl_sqrt(s) : dl_pow(s, N(1 / power));
}

/* The root of s, 0 with gradient 0 where s is 0. */
static dl_tensor *safe_root(dl_tensor *s, double power, dl_pool *p) {
    if (s && power > 0 && !dl_requires_grad(s)) return root_of(s, power, p);
    dl_tensor *zero = N(0), *is = K(dl_eq(s, zero));
    return dl_where(is, zero, K(root_of(K(dl_where(is, N(1), s)), power, p)));
}

dl_tensor *dl_norm_root(dl_tensor *sum, double power) {
    POOL;
    return !sum || power == 1 ? dl_ref(sum) : dl_ref(K(safe_root(sum, power, p)));
}

POOLED_RULE(std) {
    const dl_aval *dim = ATTR(c, STD_DIM);
    dl_tensor *v = K(
        dl_var(c->in[0], dim->given ? dim->u.v : NULL, dim->n, ATTR_I(c, STD_CORRECTION), ATTR_I(c, STD_KEEPDIM) != 0));
    return dl_finish(c, safe_root(v, 2, p));
}

/* Of a power whose sums over `dims` take one pass: how many these are, the last ones, 0 for all; else -1. Sums of sizes
 * and of squares are reductions of their own, which are quicker. */
static int in_rows(dl_tensor *x, double power, const long *dims, int n) {
    unsigned mask = 0;
    int d;
    if (!dl_sums_powers(dl_id_magnitude_power, &x, power)) return -1;
    if (power <= 2 && power == floor(power)) return -1;
    for (int i = 0; i < n; i++)
        if (dl_dim_norm(dims[i], x->ndim, &d) == DL_OK) mask |= 1u << d;
    if (n > x->ndim) return -1;
    return !n || mask == ((1u << x->ndim) - 1) >> (x->ndim - n) << (x->ndim - n) ? n : -1;
}

static dl_tensor *length_of_rows(dl_pool *p, dl_tensor *x, double power, int last, int keep, bool wide) {
    dl_tensor *root = K(dl_root_of_powers(dl_id_magnitude_power, &x, power, 0, last, wide));
    long shape[DL_MAX_DIM];
    for (int i = 0; i < x->ndim; i++) shape[i] = last && i < x->ndim - last ? x->shape[i] : 1;
    return root && keep ? K(dl_reshape(root, shape, x->ndim)) : root;
}

/* (sum |x|**p)**(1/p) over dims; the gradient at 0 is 0. */
static dl_tensor *length(dl_pool *p, dl_tensor *x, double power, const long *dims, int n, int keep, bool wide) {
    const int last = in_rows(x, power, dims, n);
    dl_tensor *out = NULL, *size;
    if (last >= 0) {
        out = length_of_rows(p, x, power, last, keep, wide);
    } else if (power == 2) {
        out = K(dl_root_square_sum(x, dims, n, keep));
    } else if (power == 0) {
        out = K(dl_sum(K(dl_to(K(dl_ne(x, N(0))), x->dtype)), dims, n, keep));
    } else if (power == 1 && !dl_dtype_is_complex(x->dtype)) {
        out = K(dl_magnitude_sum(x, dims, n, keep));
    } else if (power > 2 && power == floor(power) && !isinf(power) && !dl_dtype_is_complex(x->dtype)) {
        out = K(safe_root(K(dl_magnitude_sum(K(dl_pow(x, N(power))), dims, n, keep)), power, p));
    } else if ((size = K(dl_abs(x))) && (power == 1 || isinf(power))) {
        out = K(power == 1  ? dl_sum(size, dims, n, keep)
                : power > 0 ? dl_amax(size, dims, n, keep)
                            : dl_amin(size, dims, n, keep));
    } else if (size) {
        out = K(safe_root(K(dl_sum(K(dl_pow(size, N(power))), dims, n, keep)), power, p));
    }
    return out;
}

POOLED_RULE(norm) {
    const dl_aval *dim = ATTR(c, NORM_DIM);
    const double power = ATTR_F(c, NORM_P);
    if (isnan(power)) return dl_fail(DL_ERR_VALUE, "p cannot be %g", power);
    if (power == 2) dl_widening_ends(c);
    dl_tensor *x = dl_dtype_is_complex(c->in[0]->dtype) ? K(dl_abs(c->in[0])) : c->in[0];
    dl_tensor *out =
        length(p, x, power, dim->given ? dim->u.v : NULL, dim->n, ATTR_I(c, NORM_KEEPDIM) != 0, dl_widening_goes_on(c));
    RESULT(out);
}

POOLED_RULE(normalize) {
    const double n = ATTR_F(c, NORMALIZE_P), eps = ATTR_F(c, NORMALIZE_EPS);
    if (n == 0 || isnan(n)) return dl_fail(DL_ERR_VALUE, "p cannot be %g", n);
    dl_tensor *by = K(dl_clamp(length(p, c->in[0], n, &ATTR_I(c, NORMALIZE_DIM), 1, 1, true), &eps, NULL));
    dl_widening_ends(c);
    return dl_finish(c, dl_div(c->in[0], by));
}

POOLED_RULE(cosine_similarity) {
    const double eps = ATTR_F(c, COSINE_SIMILARITY_EPS);
    dl_tensor *a = c->in[0], *b = c->in[1];
    long dim = ATTR_I(c, COSINE_SIMILARITY_DIM), shape[DL_MAX_DIM];
    int nd, d;
    DL_TRY(dl_broadcast(a->ndim, a->shape, b->ndim, b->shape, &nd, shape));
    DL_TRY(dl_dim_norm(dim, nd, &d));
    a = K(dl_expand(a, shape, nd)), b = K(dl_expand(b, shape, nd));
    if (!a || !b) return dl_finish(c, NULL);
    dim = d;
    dl_tensor *na = K(dl_clamp(K(dl_norm(a, &dim, 1, 0, 2)), &eps, NULL)),
              *nb = K(dl_clamp(K(dl_norm(b, &dim, 1, 0, 2)), &eps, NULL));
    return dl_finish(c, dl_div(K(dl_products_sum(a, b, dim, true)), K(dl_mul(na, nb))));
}
