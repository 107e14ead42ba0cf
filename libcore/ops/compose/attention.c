/* Scaled dot-product attention, made of other ops. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/loss.h"
#include "dlcore/matmul.h"
#include "dlcore/norm.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/matmul.h"

#include <math.h>

/* t with its last two dimensions exchanged. */
static dl_tensor *transposed(dl_tensor *t) {
    long dims[DL_MAX_DIM];
    for (int i = 0; i < t->ndim; i++) dims[i] = i < t->ndim - 2 ? i : 2 * t->ndim - 3 - i;
    return dl_permute(t, dims, t->ndim);
}

static dl_status check(const dl_call *c, bool causal) {
    const dl_tensor *q = c->in[0], *k = c->in[1], *v = c->in[2], *mask = INPUT(c, ATTENTION_ATTN_MASK);
    for (int i = 0; i < 3; i++) {
        if (c->in[i]->ndim < 2)
            return dl_fail(DL_ERR_SHAPE, "%s must be [..., length, size], not of %d dimension%s", c->op->in_name[i],
                           c->in[i]->ndim, c->in[i]->ndim == 1 ? "" : "s");
        if (!dl_dtype_is_float((dl_dtype)c->in[i]->dtype) || c->in[i]->dtype != q->dtype)
            return dl_fail_hint(DL_ERR_DTYPE, "convert them with .to(DTYPE)",
                                "query, key and value must have one floating dtype; %s is %s", c->op->in_name[i],
                                dl_dtype_name((dl_dtype)c->in[i]->dtype));
    }
    if (q->shape[q->ndim - 1] != k->shape[k->ndim - 1])
        return dl_fail(DL_ERR_SHAPE, "the last sizes of query and key differ: %s and %s",
                       dl_shape_text(q->ndim, q->shape), dl_shape_text(k->ndim, k->shape));
    if (k->shape[k->ndim - 2] != v->shape[v->ndim - 2])
        return dl_fail(DL_ERR_SHAPE, "key and value have different lengths: %s and %s",
                       dl_shape_text(k->ndim, k->shape), dl_shape_text(v->ndim, v->shape));
    if (mask && causal)
        return dl_fail_hint(DL_ERR_VALUE, "join them: attn_mask=mask & tril(ones(L, S, dtype=bool))",
                            "attn_mask and is_causal cannot both be given");
    if (mask && mask->dtype != DL_BOOL && !dl_dtype_is_float((dl_dtype)mask->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "convert it with .to(bool): true where attention is allowed",
                            "attn_mask must be bool, or floating numbers to be added, not %s",
                            dl_dtype_name((dl_dtype)mask->dtype));
    return DL_OK;
}

/* True where a key is not after the query. */
static dl_tensor *causal_mask(dl_pool *p, const dl_tensor *scores) {
    const long shape[2] = {scores->shape[scores->ndim - 2], scores->shape[scores->ndim - 1]};
    return K(dl_tril(K(dl_full(shape, 2, 1, DL_BOOL, scores->st->device)), 0));
}

/* softmax(query key' scale + mask) value. A query all of whose keys are masked gets 0. */
COMPOSE_RULE(scaled_dot_product_attention) {
    POOL;
    dl_tensor *q = c->in[0], *k = c->in[1], *v = c->in[2], *mask = INPUT(c, ATTENTION_ATTN_MASK);
    double dropout = ATTR_F(c, ATTENTION_DROPOUT_P), scale = ATTR_F(c, ATTENTION_SCALE);
    bool causal = ATTR_I(c, ATTENTION_IS_CAUSAL) != 0, given = mask != NULL;
    DL_TRY(check(c, causal));
    if (!ATTR(c, ATTENTION_SCALE)->given) scale = 1 / sqrt((double)q->shape[q->ndim - 1]);
    dl_tensor *s = K(dl_matmul(K(dl_mul(q, K(dl_scalar_f(scale)))), K(transposed(k))));
    if (s && causal) mask = causal_mask(p, s);
    bool additive = mask && mask->dtype != DL_BOOL;
    if (s && additive) s = K(dl_add(s, K(dl_to_dtype(mask, (dl_dtype)s->dtype))));
    if (s && mask && !additive) s = K(dl_where(mask, s, K(dl_scalar_f(-INFINITY))));
    dl_tensor *w = s ? K(dl_softmax(s, -1)) : NULL;
    if (w && given && !additive) w = K(dl_where(mask, w, K(dl_scalar_f(0))));
    if (w && dropout != 0) w = K(dl_dropout(w, dropout, 1));
    return dl_finish(c, dl_matmul(w, v));
}
