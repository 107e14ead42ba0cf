/* Sorting: shapes and gradients of sort and topk, the part of their kernels that all devices share, and argsort. */
#include "core/scope.h"
#include "ops/grad.h"
#include "ops/infer/ranks.h"
#include "dlcore/index.h"
#include "dlcore/sort.h"
#include "ops/rules/sort.h"

static dl_status values_and_places(const dl_call *c, dl_meta *out) {
    const dl_tensor *x = c->in[0];
    out[0] = dl_meta_fresh(c, c->dtype, x->ndim, x->shape);
    out[1] = dl_meta_fresh(c, DL_I64, x->ndim, x->shape);
    return DL_OK;
}

INFER_RULE(sort) {
    int d;
    DL_TRY(dl_dim_norm(ATTR_I(c, SORT_DIM), c->in[0]->ndim, &d));
    return values_and_places(c, out);
}

dl_status dl_rank_of(const dl_call *c, int *d, long *n) {
    const dl_tensor *x = c->in[0];
    const dl_aval *k = ATTR(c, RANKED_PLACE_K);
    *d = 0;
    if (x->ndim || ATTR_I(c, RANKED_PLACE_DIM)) DL_TRY(dl_dim_norm(ATTR_I(c, RANKED_PLACE_DIM), x->ndim, d));
    *n = x->ndim ? x->shape[*d] : 1;
    if (!*n || (k->given && (k->u.i < 0 || k->u.i >= *n)))
        return dl_fail(DL_ERR_INDEX, "a dimension of %ld elements has no rank %ld", *n, k->given ? k->u.i : 0);
    return DL_OK;
}

INFER_RULE(ranked_place) {
    const dl_tensor *x = c->in[0];
    long shape[DL_MAX_DIM], n;
    int d;
    DL_TRY(dl_rank_of(c, &d, &n));
    for (int i = 0; i < x->ndim; i++) shape[i] = i == d ? 1 : x->shape[i];
    *out = dl_meta_fresh(c, DL_I64, x->ndim, shape);
    return DL_OK;
}

INFER_RULE(topk) {
    const dl_tensor *x = c->in[0];
    long k = ATTR_I(c, TOPK_K);
    int d;
    DL_TRY(dl_dim_norm(ATTR_I(c, TOPK_DIM), x->ndim, &d));
    long n = x->ndim ? x->shape[d] : 1;
    if (k < 0 || k > n) return dl_fail(DL_ERR_VALUE, "dimension %d has %ld elements: k cannot be %ld", d, n, k);
    if (!x->ndim && !k) return dl_fail(DL_ERR_VALUE, "k cannot be 0 for a 0-d tensor");
    DL_TRY(values_and_places(c, out));
    if (x->ndim) out[0].shape[d] = out[1].shape[d] = k;
    return DL_OK;
}

/* Scatters the gradient to the places the values came from. The outputs of sort and topk are in the same places. */
static dl_status back(dl_back *b, long dim) {
    if (!G0) return DL_OK;
    return dl_give(b, 0, dl_scatter_add(T(dl_zeros_like_in(b, 0)), OUT_(SORT_INDICES), G0, dim));
}

GRAD_RULE(sort) { return back(b, ATTR_I(b, SORT_DIM)); }
GRAD_RULE(topk) { return back(b, ATTR_I(b, TOPK_DIM)); }

COMPOSE_RULE(argsort) {
    DL_OWNED dl_tensor *values =
        dl_sort(c->in[0], ATTR_I(c, ARGSORT_DIM), ATTR_I(c, ARGSORT_DESCENDING) != 0, &c->out[0]);
    return values ? DL_OK : dl_failed();
}

/* ---------------------------------------------------------------- kernels of every device */

/* t seen with dimension d last. */
static dl_tensor *with_last(const dl_tensor *t, int d) {
    long shape[DL_MAX_DIM], stride[DL_MAX_DIM];
    for (int i = 0; i < t->ndim; i++) {
        int from = i == t->ndim - 1 ? d : i + (i >= d);
        shape[i] = t->shape[from], stride[i] = t->stride[from];
    }
    return dl_view_new(t->st, t->dtype, t->ndim, shape, stride, t->offset);
}

/* A fresh contiguous tensor of the shape of t. */
static dl_tensor *room_for(const dl_tensor *t) {
    return t ? dl_tensor_empty(t->ndim, t->shape, t->dtype, t->st->device) : NULL;
}

dl_status dl_sort_along(const dl_call *c, long dim, bool down, const dl_sorter *device) {
    dl_tensor *t[3] = {c->in[0], c->out[0], c->out[1]}, *view[3] = {NULL}, *own[3] = {NULL};
    int d = 0;
    dl_dim_norm(dim, t[0]->ndim, &d); /* checked by infer */
    if ((!t[0]->ndim || d == t[0]->ndim - 1) && dl_is_contiguous(t[0])) return device->sort(t[0], down, t[1], t[2]);
    bool good = true;
    for (int i = 0; i < 3; i++) good = (view[i] = with_last(t[i], d)) && (own[i] = room_for(view[i])) && good;
    dl_status s = good ? device->copy(own[0], view[0]) : dl_failed();
    if (s == DL_OK) s = device->sort(own[0], down, own[1], own[2]);
    for (int i = 1; i < 3 && s == DL_OK; i++) s = device->copy(view[i], own[i]);
    for (int i = 0; i < 3; i++) dl_unref(view[i]), dl_unref(own[i]);
    return s;
}
