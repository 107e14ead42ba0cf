/* Sorting: shapes and gradient of sort and topk, and argsort, which is made of sort. */
#include "ops/grad.h"

static dl_status values_and_places(const dl_call *c, dl_meta *out) {
    const dl_tensor *x = c->in[0];
    out[0] = dl_meta_fresh(c, c->dtype, x->ndim, x->shape);
    out[1] = dl_meta_fresh(c, DL_I64, x->ndim, x->shape);
    return DL_OK;
}

INFER_RULE(sort) {
    int d;
    DL_TRY(dl_dim_norm(c->attr[0].u.i, c->in[0]->ndim, &d));
    return values_and_places(c, out);
}

INFER_RULE(topk) {
    const dl_tensor *x = c->in[0];
    long k = c->attr[0].u.i;
    int d;
    DL_TRY(dl_dim_norm(c->attr[1].u.i, x->ndim, &d));
    long n = x->ndim ? x->shape[d] : 1;
    if (k < 0 || k > n) return dl_fail(DL_ERR_VALUE, "dimension %d has %ld elements: k cannot be %ld", d, n, k);
    if (!x->ndim && !k) return dl_fail(DL_ERR_VALUE, "k cannot be 0 for a 0-d tensor");
    DL_TRY(values_and_places(c, out));
    if (x->ndim) out[0].shape[d] = out[1].shape[d] = k;
    return DL_OK;
}

/* What was picked goes back to its place. */
static dl_status back(dl_back *b, long dim) {
    if (!G0) return DL_OK;
    DL_GIVE(0, dl_scatter_add(T(dl_zeros_like_in(b, 0)), OUT_(1), G0, dim));
    return DL_OK;
}

GRAD_RULE(sort) { return back(b, b->attr[0].u.i); }
GRAD_RULE(topk) { return back(b, b->attr[1].u.i); }

COMPOSE_RULE(argsort) {
    dl_tensor *values = dl_sort(c->in[0], c->attr[0].u.i, c->attr[1].u.i != 0, &c->out[0]);
    dl_unref(values);
    return values ? DL_OK : dl_error_last()->code;
}
