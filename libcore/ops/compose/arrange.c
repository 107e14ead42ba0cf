/* Ops made of other ops that turn, join or lay out tensors: flips, rotations, moved dimensions, stacks, diagonals. */
#include "core/scope.h"
#include "ops/compose/put.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/view.h"
#include "ops/rules/create.h"
#include "ops/rules/index.h"
#include "ops/rules/view.h"

#include <string.h>

/* ---- turning */

static dl_status flipped(dl_call *c, long dim) {
    if (c->in[0]->ndim <= dim)
        return dl_fail(DL_ERR_SHAPE, "the input must have %ld dimensions or more, not %d", dim + 1, c->in[0]->ndim);
    return dl_finish(c, dl_flip(c->in[0], &dim, 1));
}
COMPOSE_RULE(fliplr) { return flipped(c, 1); }
COMPOSE_RULE(flipud) { return flipped(c, 0); }

POOLED_RULE(rot90) {
    dl_tensor *x = c->in[0];
    const dl_aval *dims = ATTR(c, ROT90_DIMS);
    const long turns = (ATTR_I(c, ROT90_K) % 4 + 4) % 4;
    long order[DL_MAX_DIM];
    int a, b;
    if (dims->n != 2) return dl_fail(DL_ERR_VALUE, "a rotation is in two dimensions, not %d", dims->n);
    DL_TRY(dl_dim_norm(dims->u.v[0], x->ndim, &a));
    DL_TRY(dl_dim_norm(dims->u.v[1], x->ndim, &b));
    if (a == b) return dl_fail(DL_ERR_VALUE, "a rotation is in two dimensions, not in dimension %d alone", a);
    if (turns == 0) return dl_finish(c, dl_clone(x));
    if (turns == 2) return dl_finish(c, dl_flip(x, (long[]){a, b}, 2));
    for (int i = 0; i < x->ndim; i++) order[i] = i == a ? b : i == b ? a : i;
    dl_tensor *swapped = K(dl_permute(x, order, x->ndim));
    return dl_finish(c, swapped ? dl_flip(swapped, &(long){turns == 1 ? a : b}, 1) : NULL);
}

COMPOSE_RULE(movedim) {
    const dl_tensor *x = c->in[0];
    const dl_aval *from = ATTR(c, MOVEDIM_SOURCE), *to = ATTR(c, MOVEDIM_DESTINATION);
    long order[DL_MAX_DIM];
    unsigned taken = 0, filled = 0;
    if (from->n != to->n) return dl_fail(DL_ERR_VALUE, "%d dimensions do not go to %d places", from->n, to->n);
    for (int i = 0; i < from->n; i++) {
        int a, b;
        DL_TRY(dl_dim_norm(from->u.v[i], x->ndim, &a));
        DL_TRY(dl_dim_norm(to->u.v[i], x->ndim, &b));
        if (taken >> a & 1 || filled >> b & 1) return dl_fail(DL_ERR_VALUE, "a dimension is named twice");
        taken |= 1u << a, filled |= 1u << b;
        order[b] = a;
    }
    for (int i = 0, k = 0; i < x->ndim; i++) {
        if (filled >> i & 1) continue;
        while (taken >> k & 1) k++;
        order[i] = k++;
    }
    return dl_finish(c, dl_permute(c->in[0], order, x->ndim));
}

/* ---- joining: the inputs get the dimensions that they lack */

typedef enum join_way { ROWS, COLUMNS, DEPTH } join_way;

static dl_tensor *with_dims(dl_tensor *t, join_way way) {
    long n = t->numel;
    if (way == COLUMNS) return t->ndim ? dl_ref(t) : dl_reshape(t, &n, 1);
    if (t->ndim < 2) return dl_reshape(t, way == ROWS ? (long[]){1, n} : (long[]){1, n, 1}, way == ROWS ? 2 : 3);
    if (way == DEPTH && t->ndim == 2) return dl_reshape(t, (long[]){t->shape[0], t->shape[1], 1}, 3);
    return dl_ref(t);
}

static dl_status joined(dl_call *c, join_way way) {
    dl_tensor *part[DL_MAX_IN], *out = NULL;
    int n = 0;
    while (n < c->nin && (part[n] = with_dims(c->in[n], way))) n++;
    if (n == c->nin) out = dl_cat(part, n, way == ROWS ? 0 : way == DEPTH ? 2 : part[0]->ndim > 1);
    while (n) dl_unref(part[--n]);
    return dl_finish(c, out);
}
COMPOSE_RULE(hstack) { return joined(c, COLUMNS); }
COMPOSE_RULE(vstack) { return joined(c, ROWS); }
COMPOSE_RULE(dstack) { return joined(c, DEPTH); }

static dl_status at_least(dl_call *c, join_way way) {
    DL_OWNED dl_tensor *t = with_dims(c->in[0], way);
    return dl_finish(c, t ? dl_reshape(t, t->shape, t->ndim) : NULL);
}
COMPOSE_RULE(atleast_1d) { return at_least(c, COLUMNS); }
COMPOSE_RULE(atleast_2d) { return at_least(c, ROWS); }
COMPOSE_RULE(atleast_3d) { return at_least(c, DEPTH); }

/* ---- diagonals */

POOLED_RULE(diagonal_scatter) {
    dl_tensor *x = c->in[0], *src = c->in[1];
    const long from = ATTR_I(c, DIAGONAL_SCATTER_OFFSET);
    dl_tensor *copy = dl_put_copy(p, x);
    dl_tensor *line =
        copy ? K(dl_diagonal(copy, from, ATTR_I(c, DIAGONAL_SCATTER_DIM1), ATTR_I(c, DIAGONAL_SCATTER_DIM2))) : NULL;
    return dl_finish(c, line ? dl_put_part(copy, line, src) : NULL);
}

static dl_status check_offset(long k) {
    return k > -DL_MAX_COUNT && k < DL_MAX_COUNT ? DL_OK : dl_fail(DL_ERR_VALUE, "diagonal %ld is too far off", k);
}

/* ---- a region of the memory */

/* May two elements of a region be one? Found in rising order of the strides: each must lead past what those before it
 * span. */
static bool may_overlap(const dl_aval *size, const dl_aval *stride) {
    bool done[DL_MAX_DIM] = {false};
    long span = 0;
    for (int i = 0; i < size->n; i++) {
        int next = -1;
        for (int k = 0; k < size->n; k++)
            if (!done[k] && (next < 0 || stride->u.v[k] < stride->u.v[next])) next = k;
        done[next] = true;
        if (!size->u.v[next]) return false;
        if (size->u.v[next] == 1) continue;
        if (stride->u.v[next] <= span) return true;
        span += (size->u.v[next] - 1) * stride->u.v[next];
    }
    return false;
}

/* The memory that x spans as one row, copied, with the strides that x has in it. Of an expanded tensor the elements are
 * written out. */
static dl_tensor *copy_of_memory(dl_pool *p, dl_tensor *x, long stride[DL_MAX_DIM]) {
    long span = 1;
    bool repeated = !x->numel;
    for (int i = 0; i < x->ndim && !repeated; i++) {
        span += (x->shape[i] - 1) * x->stride[i];
        repeated = x->shape[i] > 1 && !x->stride[i];
    }
    memcpy(stride, x->stride, sizeof x->stride);
    if (repeated) dl_strides_contiguous(x->ndim, x->shape, stride);
    if (repeated || dl_is_contiguous(x)) return K(dl_reshape(dl_put_copy(p, x), &x->numel, 1));
    return K(dl_clone(K(dl_as_strided(x, &span, 1, &(long){1}, 1, x->offset))));
}

POOLED_RULE(as_strided_scatter) {
    dl_tensor *x = c->in[0], *src = c->in[1];
    const dl_aval *size = ATTR(c, STRIDED_SIZE), *stride = ATTR(c, STRIDED_STRIDE);
    const long given = ATTR_I(c, STRIDED_OFFSET), at = given == -1 ? 0 : given - x->offset;
    long own[DL_MAX_DIM];
    if (size->n != stride->n) return dl_fail(DL_ERR_VALUE, "%d sizes and %d strides", size->n, stride->n);
    if (!dl_sizes_eq(src->ndim, src->shape, size->n, size->u.v))
        return dl_fail(DL_ERR_SHAPE, "the region has shape %s, the source %s", dl_shape_text(size->n, size->u.v),
                       dl_shape_of(src));
    if (may_overlap(size, stride))
        return dl_fail_hint(DL_ERR_VALUE, "x.as_strided(size, stride) reads such a region",
                            "elements of the region overlap: which one is written would be left to chance");
    dl_tensor *copy = copy_of_memory(p, x, own), *same = K(dl_to_dtype(src, x->dtype));
    dl_tensor *set = copy && same
                         ? K(dl_as_strided_set(copy, same, size->u.v, size->n, stride->u.v, size->n, copy->offset + at))
                         : NULL;
    return dl_finish(c, set ? dl_as_strided(set, x->shape, x->ndim, own, x->ndim, set->offset) : NULL);
}

POOLED_RULE(diag_embed) {
    dl_tensor *x = c->in[0];
    const long k = ATTR_I(c, DIAG_EMBED_OFFSET), n = x->ndim ? x->shape[x->ndim - 1] + (k < 0 ? -k : k) : 0;
    long shape[DL_MAX_DIM + 1], stride[DL_MAX_DIM], order[DL_MAX_DIM], whole[DL_MAX_DIM];
    const int nd = x->ndim + 1;
    int a, b;
    if (!x->ndim || nd > DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "the input must have 1 to %d dimensions", DL_MAX_DIM - 1);
    DL_TRY(check_offset(k));
    DL_TRY(dl_dim_norm(ATTR_I(c, DIAG_EMBED_DIM1), nd, &a));
    DL_TRY(dl_dim_norm(ATTR_I(c, DIAG_EMBED_DIM2), nd, &b));
    if (a == b) return dl_fail(DL_ERR_VALUE, "the two dimensions of a diagonal must differ");
    for (int i = 0; i < nd; i++) shape[i] = i < nd - 2 ? x->shape[i] : n;
    dl_strides_contiguous(nd, shape, whole);
    memcpy(stride, whole, sizeof stride);
    stride[nd - 2] = n + 1;
    dl_tensor *zeros = K(dl_zeros(shape, nd, x->dtype, x->st->device));
    dl_tensor *set =
        zeros ? K(dl_as_strided_set(zeros, x, x->shape, x->ndim, stride, x->ndim, k < 0 ? -k * n : k)) : NULL;
    for (int i = 0, m = 0; i < nd; i++) order[i] = i == a ? nd - 2 : i == b ? nd - 1 : m++;
    return dl_finish(c, set ? dl_permute(set, order, nd) : NULL);
}

POOLED_RULE(diagflat) {
    dl_tensor *row = K(dl_reshape(c->in[0], (long[]){c->in[0]->numel}, 1));
    return dl_finish(c, row ? dl_diag(row, ATTR_I(c, DIAGFLAT_OFFSET)) : NULL);
}

COMPOSE_RULE(block_diag) {
    long rows = 0, columns = 0;
    for (int i = 0; i < c->nin; i++) {
        const dl_tensor *t = c->in[i];
        if (t->ndim > 2) return dl_fail(DL_ERR_SHAPE, "blocks are matrices, not of shape %s", dl_shape_of(t));
        rows += t->ndim == 2 ? t->shape[0] : 1;
        columns += t->ndim == 2 ? t->shape[1] : t->numel;
    }
    dl_tensor *out = dl_zeros((long[]){rows, columns}, 2, c->dtype, c->device);
    for (long i = 0, row = 0, column = 0; i < c->nin && out; i++) {
        DL_OWNED dl_tensor *whole = out;
        const dl_tensor *t = c->in[i];
        const long size[2] = {t->ndim == 2 ? t->shape[0] : 1, t->ndim == 2 ? t->shape[1] : t->numel};
        DL_OWNED dl_tensor *block = dl_reshape(c->in[i], size, 2);
        out = block ? dl_as_strided_set(whole, block, size, 2, (long[]){columns, 1}, 2, row * columns + column) : NULL;
        row += size[0], column += size[1];
    }
    return dl_finish(c, out);
}

/* ---- places in a triangle */

static dl_status triangle(dl_call *c, bool lower) {
    POOL;
    dl_tensor *at =
        K(dl_triangle_places(ATTR_I(c, CORNER_ROW), ATTR_I(c, CORNER_COL), ATTR_I(c, CORNER_OFFSET), lower, c->device));
    return dl_finish(c, at ? dl_to_dtype(at, ATTR(c, CORNER_DTYPE)->given ? c->dtype : DL_I64) : NULL);
}
COMPOSE_RULE(tril_indices) { return triangle(c, true); }
COMPOSE_RULE(triu_indices) { return triangle(c, false); }
