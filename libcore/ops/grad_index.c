/* Gradient rules of joining and picking. */
#include "ops/grad.h"

GRAD_RULE(cat) {
    long dim = b->attr[0].u.i, from = 0;
    int d;
    DL_TRY(dl_dim_norm(dim, dl_in_meta(b, 0)->ndim, &d));
    for (int i = 0; i < b->nin; i++) {
        long to = from + dl_in_meta(b, i)->shape[d];
        DL_GIVE(i, dl_slice(G0, d, &from, &to, 1));
        from = to;
    }
    return DL_OK;
}

GRAD_RULE(flip) {
    DL_GIVE(0, dl_flip(G0, b->attr[0].u.v, b->attr[0].n));
    return DL_OK;
}

GRAD_RULE(index_select) {
    DL_GIVE(0, dl_index_add(T(dl_zeros_like_in(b, 0)), IN_(1), G0, b->attr[0].u.i));
    return DL_OK;
}

GRAD_RULE(index_add) {
    DL_GIVE(0, dl_ref(G0));
    DL_GIVE(2, dl_index_select(G0, IN_(1), b->attr[0].u.i));
    return DL_OK;
}

GRAD_RULE(gather) {
    DL_GIVE(0, dl_scatter_add(T(dl_zeros_like_in(b, 0)), IN_(1), G0, b->attr[0].u.i));
    return DL_OK;
}

GRAD_RULE(scatter_add) {
    DL_GIVE(0, dl_ref(G0));
    DL_GIVE(2, dl_gather(G0, IN_(1), b->attr[0].u.i));
    return DL_OK;
}
