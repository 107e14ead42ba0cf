/* The gradient of cdist. Euclidean distances that come from a product have theirs from products; others are computed
 * again, a block of rows at a time, unless the gradient is to be differentiated again. */
#include "ops/distance.h"
#include "ops/grad.h"
#include "ops/matrices.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/names/matmul.h"
#include "ops/rules/matmul.h"

#include <math.h>

/* sum_j (a_i - b_j) r_ij = a_i sum_j r_ij - (r b)_i */
static dl_tensor *pulled(dl_pool *p, dl_tensor *a, dl_tensor *b, dl_tensor *r) {
    const long last = -1;
    dl_tensor *own = K(dl_mul(a, K(dl_sum(r, &last, 1, 1)))), *others = K(dl_matmul(r, b));
    return own && others ? dl_sub(own, others) : NULL;
}

/* d y_ij / d a_i = (a_i - b_j) / y_ij, 0 where y_ij is. */
static dl_status of_products(dl_back *b, dl_tensor *x, dl_tensor *y, dl_tensor *g) {
    POOL;
    dl_tensor *d = dl_distance_wide(p, OUT_(CDIST_OUT));
    dl_tensor *share = K(dl_div(g, K(dl_where(K(dl_eq(d, NUM(0))), NUM(INFINITY), d))));
    if (!share) return dl_failed();
    if (DL_NEED(DL_IN_CDIST_X1)) GIVE(CDIST_X1, pulled(p, x, y, share));
    if (DL_NEED(DL_IN_CDIST_X2)) GIVE(CDIST_X2, pulled(p, y, x, dl_mat_turned(p, share)));
    return DL_OK;
}

/* The gradients of the distances of rows of `from` from those of `to`, new references in got[2]. */
static dl_status of_distances(dl_tensor *from, dl_tensor *to, dl_tensor *g, double ord, int create, dl_tensor **got) {
    DL_OWNED dl_tensor *d = from && to && g ? dl_distances(from, to, ord) : NULL;
    dl_tensor *wanted[] = {from, to};
    return d ? dl_gradients(d, g, wanted, 2, 1, create, got) : dl_failed();
}

/* A new leaf with the numbers of t. */
static dl_tensor *leaf(dl_pool *p, dl_tensor *t) {
    dl_tensor *l = t ? K(dl_detach(t)) : NULL;
    return l && dl_set_requires_grad(l, 1) == DL_OK ? l : NULL;
}

static dl_status add_to(dl_tensor *total, dl_tensor *part) {
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *sum = dl_add(total, part);
    return sum ? dl_assign(total, sum) : dl_failed();
}

static dl_tensor *zeros_like(dl_tensor *t) { return dl_zeros(t->shape, t->ndim, t->dtype, t->st->device); }

/* One block: rows i to end of x, and of its gradient; the gradient of y grows. */
static dl_status block(dl_tensor *x, dl_tensor *y, dl_tensor *g, double ord, long i, long end, dl_tensor *dx,
                       dl_tensor *dy) {
    POOL;
    dl_tensor *got[2] = {NULL}, *place, *rows = leaf(p, K(dl_slice(x, -2, &i, &end, 1))), *to = leaf(p, y);
    {
        DL_SCOPED_GRAD_MODE(1);
        DL_TRY(of_distances(rows, to, K(dl_slice(g, -2, &i, &end, 1)), ord, 0, got));
    }
    place = K(dl_slice(dx, -2, &i, &end, 1));
    dl_tensor *mine = K(got[0]), *theirs = K(got[1]);
    if (!place || !mine || !theirs) return dl_failed();
    DL_SCOPED_GRAD_MODE(0);
    DL_TRY(dl_assign(place, mine));
    return add_to(dy, theirs);
}

static dl_status of_blocks(dl_back *b, dl_tensor *x, dl_tensor *y, dl_tensor *g, double ord) {
    POOL;
    const long n = x->shape[x->ndim - 2], step = dl_distance_block(x, y, ord);
    dl_tensor *dx = K(zeros_like(x)), *dy = K(zeros_like(y));
    if (!dx || !dy) return dl_failed();
    for (long i = 0; i < n; i += step) DL_TRY(block(x, y, g, ord, i, i + step < n ? i + step : n, dx, dy));
    GIVE(CDIST_X1, dl_ref(dx));
    GIVE(CDIST_X2, dl_ref(dy));
    return DL_OK;
}

/* With the history of everything, for gradients of gradients. */
static dl_status of_history(dl_back *b, dl_tensor *x, dl_tensor *y, dl_tensor *g, double ord) {
    POOL;
    dl_tensor *got[2] = {NULL};
    DL_SCOPED_GRAD_MODE(1);
    dl_tensor *from = K(dl_reshape(x, x->shape, x->ndim)), *to = K(dl_reshape(y, y->shape, y->ndim));
    if (from && !dl_requires_grad(from)) from = leaf(p, from);
    if (to && !dl_requires_grad(to)) to = leaf(p, to);
    DL_TRY(of_distances(from, to, g, ord, 1, got));
    dl_tensor *of_x = K(got[0]), *of_y = K(got[1]); /* only one of them may be wanted */
    GIVE(CDIST_X1, dl_ref(of_x));
    GIVE(CDIST_X2, dl_ref(of_y));
    return DL_OK;
}

GRAD_RULE(cdist) {
    POOL;
    dl_tensor *x = dl_distance_wide(p, IN_(CDIST_X1)), *y = dl_distance_wide(p, IN_(CDIST_X2)),
              *g = dl_distance_wide(p, G0);
    const double ord = ATTR_F(b, CDIST_P);
    if (!x || !y || !g) return dl_failed();
    if (ord == 0) { /* how many differ: steps alone */
        GIVE(CDIST_X1, dl_zeros_like_in(b, DL_IN_CDIST_X1));
        GIVE(CDIST_X2, dl_zeros_like_in(b, DL_IN_CDIST_X2));
        return DL_OK;
    }
    if (dl_distance_by_product(x, y, b->attr)) return of_products(b, x, y, g);
    return b->create_graph ? of_history(b, x, y, g, ord) : of_blocks(b, x, y, g, ord);
}
