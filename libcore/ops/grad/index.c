/* Gradient rules of joining and picking. */
#include "ops/grad.h"
#include "dlcore/index.h"
#include "dlcore/view.h"
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
