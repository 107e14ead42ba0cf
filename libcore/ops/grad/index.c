/* Gradient rules of joining and picking. */
#include "ops/grad.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/pad.h"
#include "ops/rules/index.h"

GRAD_RULE(cat) {
    long dim = ATTR_I(b, CAT_DIM), from = 0;
    int d;
    DL_TRY(dl_dim_norm(dim, dl_in_meta(b, 0)->ndim, &d));
    for (int i = 0; i < b->nin; i++) {
        long to = from + dl_in_meta(b, i)->shape[d];
        DL_GIVE(i, dl_slice(G0, d, &from, &to, 1));
        from = to;
    }
    return DL_OK;
}

RULE(flip, dl_flip(G0, ATTR_V(b, FLIP_DIMS)))
RULE(index_select, dl_index_add(T(dl_zeros_like_in(b, 0)), IN_(INDEXED_INDEX), G0, ATTR_I(b, INDEXED_DIM)))

/* Each row of a bag gets the gradient of its sum, or its part of a mean. */
GRAD_RULE(bag_sum) {
    dl_tensor *index = IN_(BAG_SUM_INDEX), *g = G0;
    if (!index) return dl_failed();
    const long numel = index->numel, shape[] = {index->shape[0], index->shape[1], g->shape[1]};
    if (ATTR_I(b, BAG_SUM_MEAN)) g = T(dl_div(g, NUM((double)shape[1])));
    dl_tensor *bags = g ? T(dl_reshape(g, (long[]){shape[0], 1, shape[2]}, 3)) : NULL;
    dl_tensor *all = bags ? T(dl_expand(bags, shape, 3)) : NULL;
    dl_tensor *rows = all ? T(dl_reshape(all, (long[]){numel, shape[2]}, 2)) : NULL;
    dl_tensor *list = rows ? T(dl_reshape(index, &numel, 1)) : NULL;
    return dl_give(b, DL_IN_BAG_SUM_TABLE, list ? dl_index_add(T(dl_zeros_like_in(b, 0)), list, rows, 0) : NULL);
}

GRAD_RULE(index_add) {
    GIVE(INDEXED_INPUT, dl_ref(G0));
    GIVE(INDEX_ADD_SOURCE, dl_index_select(G0, IN_(INDEXED_INDEX), ATTR_I(b, INDEXED_DIM)));
    return DL_OK;
}

RULE(gather, dl_scatter_add(T(dl_zeros_like_in(b, 0)), IN_(INDEXED_INDEX), G0, ATTR_I(b, INDEXED_DIM)))

GRAD_RULE(scatter_add) {
    GIVE(INDEXED_INPUT, dl_ref(G0));
    GIVE(SCATTER_ADD_SRC, dl_gather(G0, IN_(INDEXED_INDEX), ATTR_I(b, INDEXED_DIM)));
    return DL_OK;
}

/* Which elements at an index along d of a tensor of x's shape are the last at their place; broadcasts to the index. */
static dl_tensor *is_last(dl_back *b, const dl_meta *x, dl_tensor *index, int d) {
    long shape[DL_MAX_DIM], line[DL_MAX_DIM];
    const long one = 1, n = index->ndim ? index->shape[d] : 1;
    const double end = (double)n;
    const dl_dtype dtype = n <= INT32_MAX ? DL_I32 : DL_I64;
    for (int i = 0; i < index->ndim; i++) {
        const bool repeats = i != d && !index->stride[i];
        if (repeats && !(index = T(dl_slice(index, i, NULL, &one, 1)))) return NULL;
        shape[i] = repeats ? 1 : x->shape[i];
        line[i] = i == d ? n : 1;
    }
    dl_tensor *count = T(dl_arange(0, &end, 1, dtype, index->st->device));
    dl_tensor *own = count ? T(dl_reshape(count, line, index->ndim)) : NULL;
    dl_tensor *all = own ? T(dl_expand(own, index->shape, index->ndim)) : NULL;
    dl_tensor *none = all ? T(dl_zeros(shape, index->ndim, dtype, index->st->device)) : NULL;
    dl_tensor *last = none ? T(dl_put_last(none, index, all, d)) : NULL;
    return last ? dl_eq(T(dl_gather(last, index, d)), own) : NULL;
}

/* What is overwritten has no gradient. */
GRAD_RULE(put_last) {
    dl_tensor *index = IN_(INDEXED_INDEX);
    int d;
    if (!index) return dl_fail_null("the index");
    DL_TRY(dl_dim_norm(ATTR_I(b, INDEXED_DIM), index->ndim, &d));
    if (NEED(INDEXED_INPUT)) {
        dl_tensor *zero = T(dl_zeros(G0->shape, 0, (dl_dtype)G0->dtype, G0->st->device));
        GIVE(INDEXED_INPUT, dl_put_last(G0, index, T(dl_expand(zero, index->shape, index->ndim)), d));
    }
    if (!NEED(PUT_LAST_SRC)) return DL_OK;
    dl_tensor *won = T(is_last(b, META(INDEXED_INPUT), index, d));
    return dl_give(b, DL_IN_PUT_LAST_SRC, dl_where(won, T(dl_gather(G0, index, d)), NUM(0)));
}

/* An index of x along d that is the same in every line of it, as a list. NULL without an error: it is not so. */
static dl_tensor *list_of(dl_back *b, const dl_meta *x, dl_tensor *index, int d) {
    const long one = 1, all = -1;
    dl_tensor *list = index;
    bool repeats = index && index->ndim > 1 && index->numel;
    for (int i = 0; repeats && i < index->ndim; i++)
        repeats = i == d || (index->shape[i] == x->shape[i] && (index->shape[i] == 1 || !index->stride[i]));
    for (int i = 0; repeats && list && i < index->ndim; i++)
        if (i != d) list = T(dl_slice(list, i, NULL, &one, 1));
    return repeats && list ? T(dl_reshape(list, &all, 1)) : NULL;
}

/* Equal winners share the gradient. */
GRAD_RULE(put_best) {
    dl_tensor *x = IN_(INDEXED_INPUT), *index = IN_(INDEXED_INDEX), *src = IN_(PUT_BEST_SRC), *y = OUT_(PUT_BEST_OUT);
    const long dim = ATTR_I(b, INDEXED_DIM);
    int d;
    if (!index) return dl_fail_null("the index");
    DL_TRY(dl_dim_norm(dim, index->ndim, &d));
    dl_tensor *list = list_of(b, META(INDEXED_INPUT), index, d);
    dl_tensor *own = T(dl_eq(x, y));
    dl_tensor *won = T(dl_eq(src, T(list ? dl_index_select(y, list, dim) : dl_gather(y, index, dim))));
    dl_tensor *start = T(dl_to_dtype(own, G0->dtype)), *parts = T(dl_to_dtype(won, G0->dtype));
    dl_tensor *n = T(list ? dl_index_add(start, list, parts, dim) : dl_scatter_add(start, index, parts, dim));
    dl_tensor *share = T(dl_div(G0, n));
    GIVE(INDEXED_INPUT, dl_where(own, share, NUM(0)));
    GIVE(PUT_BEST_SRC,
         dl_where(won, T(list ? dl_index_select(share, list, dim) : dl_gather(share, index, dim)), NUM(0)));
    return DL_OK;
}

/* ---- elements moved */

GRAD_RULE(roll) {
    const dl_aval *shifts = ATTR(b, ROLL_SHIFTS);
    long back[DL_MAX_DIM];
    for (int i = 0; i < shifts->n; i++) back[i] = -shifts->u.v[i];
    return dl_give(b, 0, dl_roll(G0, back, shifts->n, ATTR_V(b, ROLL_DIMS)));
}

RULE(diag_embed, dl_diagonal(G0, ATTR_I(b, DIAG_EMBED_OFFSET), ATTR_I(b, DIAG_EMBED_DIM1), ATTR_I(b, DIAG_EMBED_DIM2)))

GRAD_RULE(unfold) {
    const dl_meta *x = META(UNFOLD_INPUT);
    return dl_give(b, 0,
                   dl_fold(G0, ATTR_V(b, UNFOLDED_KERNEL_SIZE), ATTR_V(b, UNFOLDED_DILATION),
                           ATTR_V(b, UNFOLDED_PADDING), ATTR_V(b, UNFOLDED_STRIDE), x->shape + x->ndim - 2, 2));
}

RULE(fold, dl_unfold(G0, ATTR_V(b, UNFOLDED_KERNEL_SIZE), ATTR_V(b, UNFOLDED_DILATION), ATTR_V(b, UNFOLDED_PADDING),
                     ATTR_V(b, UNFOLDED_STRIDE)))

/* Of each block its place in the gradient. */
GRAD_RULE(block_diag) {
    for (long i = 0, row = 0, column = 0; i < b->nin; i++) {
        const dl_meta *m = dl_in_meta(b, (int)i);
        const long height = m->ndim == 2 ? m->shape[0] : 1, width = m->ndim ? m->shape[m->ndim - 1] : 1;
        const long bottom = row + height, right = column + width;
        if (DL_NEED(i)) {
            dl_tensor *rows = T(dl_slice(G0, 0, &row, &bottom, 1));
            dl_tensor *block = rows ? T(dl_slice(rows, 1, &column, &right, 1)) : NULL;
            DL_TRY(dl_give(b, (int)i, block ? dl_reshape(block, m->shape, m->ndim) : NULL));
        }
        row = bottom, column = right;
    }
    return DL_OK;
}

/* Back along each dimension, the last widened first: what is added goes to the places that it was taken from. */
GRAD_RULE(continued) {
    const dl_aval *widths = ATTR(b, CONTINUED_PAD);
    const dl_meta *m = dl_in_meta(b, 0);
    dl_tensor *g = G0;
    for (int i = widths->n / 2 - 1; i >= 0 && g; i--) {
        const int d = m->ndim - 1 - i;
        const long before = widths->u.v[2 * i], after = widths->u.v[2 * i + 1];
        long shape[DL_MAX_DIM];
        memcpy(shape, g->shape, sizeof shape);
        shape[d] = m->shape[d];
        if (!before && !after) continue;
        dl_tensor *from = T(dl_pad_places(m->shape[d], before, after, ATTR_S(b, CONTINUED_MODE), m->device));
        dl_tensor *zero = from ? T(dl_zeros(shape, g->ndim, g->dtype, m->device)) : NULL;
        g = zero ? T(dl_index_add(zero, from, g, d)) : NULL;
    }
    return dl_give(b, 0, g ? dl_ref(g) : NULL);
}
