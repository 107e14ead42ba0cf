/* Distances of all vectors of one set from all of another. Differences would take N M D numbers: Euclidean distances
 * come from a product of matrices, most others from a kernel, the rest from a block of rows at a time. */
#include "ops/distance.h"
#include "autograd/vmap.h"
#include "core/device/device.h"
#include "ops/matrices.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/names/matmul.h"
#include "ops/rules/matmul.h"

#include <math.h>
#include <string.h>

/* With fewer vectors on both sides differences are computed, which are more exact. */
enum { FEW = 25 };

/* Numbers of a block of differences, if it is not a single row: on the CPU at least so many, which threads share and
 * which stay in the cache; at most what keeps a GPU busy. */
#define BLOCK_CPU (1L << 18)
#define BLOCK_GPU (1L << 24)

static const long last = -1;

static long rows_of(const dl_tensor *t) { return t->shape[t->ndim - 2]; }

/* The largest size of each row. All that are as large have its whole gradient, where amax would share it among them:
 * they are 0 above it. */
static dl_tensor *largest(dl_tensor *differences) {
    POOL;
    dl_tensor *size = K(dl_abs(differences));
    if (!size || !dl_requires_grad(size)) return size ? dl_amax(size, &last, 1, 0) : NULL;
    dl_tensor *most = K(dl_amax(K(dl_detach(size)), &last, 1, 1)), *above = K(dl_sub(size, most));
    dl_tensor *ties = K(dl_where(K(dl_eq(above, N(0))), above, N(0)));
    return dl_add(K(dl_select(most, -1, 0)), K(dl_sum(ties, &last, 1, 0)));
}

static dl_tensor *by_differences(dl_tensor *a, dl_tensor *b, double ord) {
    POOL;
    dl_tensor *d = K(dl_sub(K(dl_with_dim(a, -2)), K(dl_with_dim(b, -3))));
    if (!d || !isinf(ord)) return dl_norm(d, &last, 1, 0, ord);
    return d->shape[d->ndim - 1] ? largest(d) : dl_sum(d, &last, 1, 0);
}

POOLED_RULE(row_distances) {
    return dl_finish(c, by_differences(K(dl_to_dtype(c->in[0], c->dtype)), K(dl_to_dtype(c->in[1], c->dtype)),
                                       ATTR_F(c, ROW_DISTANCES_P)));
}

dl_tensor *dl_distance_wide(dl_pool *p, dl_tensor *t) {
    return t && DL_BIT(t->dtype) & DL_HALVES ? K(dl_to_dtype(t, DL_F32)) : t;
}

/* The shape of the distances: leading dimensions are broadcast. Their number; -1: they do not fit. */
static int shape_of(const dl_tensor *a, const dl_tensor *b, long *shape) {
    const int n = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int i = 0; i < n - 2; i++) {
        const int ia = i - (n - a->ndim), ib = i - (n - b->ndim);
        const long sa = ia < 0 ? 1 : a->shape[ia], sb = ib < 0 ? 1 : b->shape[ib];
        if (sa != sb && sa != 1 && sb != 1)
            return dl_fail(DL_ERR_SHAPE, "batches of shapes %s and %s cannot be broadcast", dl_shape_of(a),
                           dl_shape_of(b)),
                   -1;
        shape[i] = sa == 1 ? sb : sa;
    }
    shape[n - 2] = rows_of(a), shape[n - 1] = rows_of(b);
    return n;
}

/* Does row_distances serve? On the CPU powers are faster in the loops of pow. */
static bool by_kernel(const dl_tensor *a, double ord) {
    const dl_kernel *k = dl_kernel_of(dl_op_row(dl_id_row_distances), a->st->device);
    const bool quick = a->st->device || ((ord <= 2 || isinf(ord)) && ord == floor(ord));
    return k && k->run && !dl_vmap_watching && quick;
}

/* t with the leading dimensions of `shape`, as one. */
static dl_tensor *as_batch(dl_pool *p, dl_tensor *t, const long *shape, int nd) {
    long full[DL_MAX_DIM], count = 1;
    for (int i = 0; i < nd - 2; i++) count *= full[i] = shape[i];
    full[nd - 2] = t->shape[t->ndim - 2], full[nd - 1] = t->shape[t->ndim - 1];
    dl_tensor *all = K(dl_expand(t, full, nd));
    return all ? K(dl_reshape(all, (long[]){count, full[nd - 2], full[nd - 1]}, 3)) : NULL;
}

dl_tensor *dl_distances(dl_tensor *a, dl_tensor *b, double ord) {
    POOL;
    if (!a || !b || !by_kernel(a, ord)) return by_differences(a, b, ord);
    long shape[DL_MAX_DIM];
    const int nd = shape_of(a, b, shape);
    if (nd < 0) return NULL;
    dl_tensor *left = as_batch(p, a, shape, nd), *right = as_batch(p, b, shape, nd);
    dl_tensor *d = left && right ? K(dl_row_distances(left, right, ord)) : NULL;
    return d ? dl_reshape(d, shape, nd) : NULL;
}

long dl_distance_block(const dl_tensor *a, const dl_tensor *b, double ord) {
    if (by_kernel(a, ord)) return rows_of(a) > 1 ? rows_of(a) : 1;
    long row = b->numel, batch = 1;
    for (int i = 0; i < a->ndim - 2; i++) batch *= a->shape[i]; /* of b counts already */
    if (row < batch * a->shape[a->ndim - 1]) row = batch * a->shape[a->ndim - 1];
    long n = !row ? rows_of(a) : a->st->device ? BLOCK_GPU / row : (BLOCK_CPU + row - 1) / row;
    return n > 1 ? n : 1;
}

bool dl_distance_by_product(const dl_tensor *a, const dl_tensor *b, const dl_aval *attr) {
    const char *mode = attr[DL_A_CDIST_COMPUTE_MODE].u.s;
    if (attr[DL_A_CDIST_P].u.f != 2 || !strncmp(mode, "donot", 5)) return false;
    return !strcmp(mode, "use_mm_for_euclid_dist") || rows_of(a) > FEW || rows_of(b) > FEW;
}

/* [t, squares, 1] or [t, 1, squares], whose products are squares of distances when one t is times -2. */
static dl_tensor *with_squares(dl_tensor *t, double factor, bool squares_first) {
    POOL;
    if (!t) return NULL;
    dl_tensor *squares = K(dl_sum(K(dl_square(t)), &last, 1, 1));
    if (!squares) return NULL;
    dl_tensor *one = K(dl_ones(squares->shape, squares->ndim, t->dtype, t->st->device));
    dl_tensor *x = factor == 1 ? t : K(dl_mul(t, K(dl_scalar_f(factor))));
    dl_tensor *part[] = {x, squares_first ? squares : one, squares_first ? one : squares};
    return x && one ? dl_cat(part, 3, -1) : NULL;
}

static dl_tensor *by_product(dl_tensor *a, dl_tensor *b) {
    POOL;
    const double zero = 0;
    dl_tensor *left = K(with_squares(a, -2, true)), *right = K(with_squares(b, 1, false));
    DL_OWNED dl_tensor *squares = dl_matmul(left, dl_mat_turned(p, right));
    DL_OWNED dl_tensor *clamped = squares ? dl_clamp(squares, &zero, NULL) : NULL;
    dl_unref(squares), squares = NULL; /* of N M numbers, no more than two are in memory */
    return clamped ? dl_sqrt(clamped) : NULL;
}

static dl_tensor *by_blocks(dl_tensor *a, dl_tensor *b, double ord) {
    long shape[DL_MAX_DIM], step = dl_distance_block(a, b, ord), n = rows_of(a);
    const int nd = shape_of(a, b, shape);
    if (nd < 0) return NULL;
    if (step >= n) return dl_distances(a, b, ord);
    DL_OWNED dl_tensor *out = dl_zeros(shape, nd, a->dtype, a->st->device);
    for (long i = 0; out && i < n; i += step) {
        POOL;
        const long end = i + step < n ? i + step : n;
        dl_tensor *rows = K(dl_slice(a, -2, &i, &end, 1)), *to = K(dl_slice(out, -2, &i, &end, 1)),
                  *part = rows && to ? K(dl_distances(rows, b, ord)) : NULL;
        if (!part || dl_assign(to, part) != DL_OK) return NULL;
    }
    return out ? dl_ref(out) : NULL;
}

static dl_status check(const dl_call *c) {
    static const char *const modes[] = {"use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
                                        "donot_use_mm_for_euclid_dist"};
    const dl_tensor *a = c->in[0], *b = c->in[1];
    const char *mode = ATTR_S(c, CDIST_COMPUTE_MODE);
    if (a->ndim < 2 || b->ndim < 2 || a->shape[a->ndim - 1] != b->shape[b->ndim - 1])
        return dl_fail(DL_ERR_SHAPE, "the operands must be [..., N, D] and [..., M, D], not %s and %s", dl_shape_of(a),
                       dl_shape_of(b));
    if (!(ATTR_F(c, CDIST_P) >= 0)) return dl_fail(DL_ERR_VALUE, "p must be 0 or more, not %g", ATTR_F(c, CDIST_P));
    if (a->ndim == DL_MAX_DIM || b->ndim == DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "cdist takes at most %d dimensions", DL_MAX_DIM - 1);
    bool known = !*mode;
    for (int i = 0; i < 3; i++) known = known || !strcmp(mode, modes[i]);
    if (known) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "compute_mode is %s, %s or %s, not '%s'", modes[0], modes[1], modes[2], mode);
}

POOLED_RULE(cdist) {
    DL_TRY(check(c));
    dl_tensor *a = dl_distance_wide(p, c->in[0]), *b = dl_distance_wide(p, c->in[1]);
    if (!a || !b) return dl_failed();
    dl_tensor *y = dl_distance_by_product(a, b, c->attr) ? by_product(a, b) : by_blocks(a, b, ATTR_F(c, CDIST_P));
    if (y && y->dtype != c->in[0]->dtype) y = dl_to_dtype(K(y), c->in[0]->dtype);
    return dl_finish(c, y);
}
