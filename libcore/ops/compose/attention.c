/* Scaled dot-product attention as it is called, around the op `attention`; and attention made of other ops. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/loss.h"
#include "dlcore/matmul.h"
#include "dlcore/norm.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "autograd/tape.h"
#include "core/random/rng.h"
#include "ops/attention.h"
#include "ops/rules/matmul.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- of parts */

/* Which keys a query may see, one by one with what is given; NULL and no error: all. */
static dl_tensor *allowed(const dl_attention_sizes *a, dl_pool *p, dl_tensor *mask, dl_tensor *lengths, int device) {
    dl_tensor *all = NULL;
    if (mask) all = mask->dtype == DL_BOOL ? mask : K(dl_ne(mask, N(-INFINITY)));
    if (a->causal) {
        dl_tensor *t = K(dl_tril(K(dl_full((long[]){a->rows, a->keys}, 2, 1, DL_BOOL, device)), 0));
        all = all ? K(dl_logical_and(all, t)) : t;
    }
    if (lengths) {
        double end = (double)a->keys;
        dl_tensor *n = K(dl_reshape(lengths, (long[]){a->batch, 1, 1, 1, 1}, 5));
        dl_tensor *t = K(dl_lt(K(dl_arange(0, &end, 1, DL_I64, device)), n));
        all = all ? K(dl_logical_and(all, t)) : t;
    }
    return all;
}

/* A mask of four dimensions as one of five, with the heads in groups. */
static dl_tensor *grouped(const dl_attention_sizes *a, dl_pool *p, dl_tensor *mask) {
    if (!mask) return NULL;
    const long *s = mask->shape;
    bool one = s[1] == 1;
    return K(dl_reshape(mask, (long[]){s[0], one ? 1 : a->kv_heads, one ? 1 : a->group, s[2], s[3]}, 5));
}

dl_tensor *dl_attention_by_parts(const dl_attention_sizes *a, dl_tensor *q, dl_tensor *k, dl_tensor *v, dl_tensor *mask,
                                 dl_tensor *lengths, dl_tensor *kept) {
    POOL;
    dl_dtype given = q->dtype, t = DL_BIT(given) & DL_HALVES ? DL_F32 : given;
    dl_tensor *in[3] = {q, k, v}, *bias = mask && mask->dtype != DL_BOOL ? mask : NULL;
    for (int i = 0; i < 3; i++) {
        const long *s = in[i]->shape;
        dl_tensor *wide = K(dl_to_dtype(in[i], t));
        in[i] = K(dl_reshape(wide, (long[]){s[0], a->kv_heads, i ? 1 : a->group, s[2], s[3]}, 5));
    }
    dl_tensor *s = K(dl_matmul(K(dl_mul(in[0], N(a->scale))), K(dl_permute(in[1], (long[]){0, 1, 2, 4, 3}, 5))));
    if (bias) bias = grouped(a, p, K(dl_to_dtype(bias, t)));
    dl_tensor *all = s ? allowed(a, p, bias ? bias : grouped(a, p, mask), lengths, s->st->device) : NULL;
    if (bias) s = K(dl_add(s, bias));
    if (all) s = K(dl_where(all, s, N(dl_masked_score(t))));
    dl_tensor *w = s ? K(dl_softmax(s, -1)) : NULL;
    if (all) w = K(dl_where(all, w, N(0)));
    if (kept) w = K(dl_mul(w, grouped(a, p, kept)));
    dl_tensor *y = w ? K(dl_matmul(w, in[2])) : NULL;
    if (!y) return dl_fail_null("a part of attention"), NULL;
    return dl_to_dtype(K(dl_reshape(y, (long[]){a->batch, a->heads, a->rows, a->value_size}, 4)), given);
}

/* ---- as it is called */

static dl_status check(const dl_call *c, bool causal) {
    const dl_tensor *q = c->in[0], *k = c->in[1], *v = c->in[2], *mask = INPUT(c, SDPA_ATTN_MASK);
    for (int i = 0; i < 3; i++) {
        if (c->in[i]->ndim < 2)
            return dl_fail(DL_ERR_SHAPE, "%s must be [..., length, size], not of %d dimension%s", c->op->in_name[i],
                           c->in[i]->ndim, c->in[i]->ndim == 1 ? "" : "s");
        if (!dl_dtype_is_float(c->in[i]->dtype) || c->in[i]->dtype != q->dtype)
            return dl_fail_hint(DL_ERR_DTYPE, "convert them with .to(DTYPE)",
                                "query, key and value must have one floating dtype; %s is %s", c->op->in_name[i],
                                dl_type_of(c->in[i]));
    }
    if (q->shape[q->ndim - 1] != k->shape[k->ndim - 1])
        return dl_fail(DL_ERR_SHAPE, "the last sizes of query and key differ: %s and %s", dl_shape_of(q),
                       dl_shape_of(k));
    if (k->shape[k->ndim - 2] != v->shape[v->ndim - 2])
        return dl_fail(DL_ERR_SHAPE, "key and value have different lengths: %s and %s", dl_shape_of(k), dl_shape_of(v));
    if (mask && causal)
        return dl_fail_hint(DL_ERR_VALUE, "join them: attn_mask=mask & tril(ones(L, S, dtype=bool))",
                            "attn_mask and is_causal cannot both be given");
    if (mask && mask->dtype != DL_BOOL && !dl_dtype_is_float(mask->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "convert it with .to(bool): true where attention is allowed",
                            "attn_mask must be bool, or floating numbers to be added, not %s", dl_type_of(mask));
    return DL_OK;
}

/* The dimensions before the last two, broadcast together; heads that share keys are those of the queries. */
typedef struct batch {
    int n;
    long shape[DL_MAX_DIM], heads[3];
    bool grouped;
} batch;

static long size_at(const dl_tensor *t, const batch *b, int i) {
    int at = i - (b->n - (t->ndim - 2));
    return at < 0 ? 1 : t->shape[at];
}

static dl_status batch_of(const dl_call *c, batch *b) {
    *b = (batch){.heads = {1, 1, 1}, .grouped = ATTR_I(c, SDPA_ENABLE_GQA) != 0};
    for (int i = 0; i < 3; i++) b->n = c->in[i]->ndim - 2 > b->n ? c->in[i]->ndim - 2 : b->n;
    if (b->grouped && !b->n) return dl_fail(DL_ERR_SHAPE, "enable_gqa takes [..., heads, length, size]");
    for (int i = 0; i < b->n; i++) {
        bool heads = b->grouped && i == b->n - 1;
        b->shape[i] = size_at(c->in[0], b, i);
        for (int w = 0; w < 3 && i == b->n - 1; w++) b->heads[w] = size_at(c->in[w], b, i);
        for (int w = 1; w < 3 && !heads; w++) {
            long s = size_at(c->in[w], b, i);
            if (s != 1 && b->shape[i] != 1 && s != b->shape[i])
                return dl_fail(DL_ERR_SHAPE, "%s of shape %s does not fit a query of shape %s", c->op->in_name[w],
                               dl_shape_of(c->in[w]), dl_shape_of(c->in[0]));
            if (s != 1) b->shape[i] = s;
        }
    }
    if (!b->grouped)
        for (int w = 0; b->n && w < 3; w++) b->heads[w] = b->shape[b->n - 1];
    if (!b->grouped || (b->heads[1] && b->heads[1] == b->heads[2] && b->heads[0] % b->heads[1] == 0)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE,
                   "the heads of key and value, %ld and %ld, must be one number that divides those of the "
                   "query, %ld",
                   b->heads[1], b->heads[2], b->heads[0]);
}

/* An operand expanded to the batch, with four dimensions. [N,L,E] without grouped heads are N sequences. */
static dl_tensor *operand(dl_pool *p, const batch *b, dl_tensor *t, long heads, long rows, long cols) {
    long full[DL_MAX_DIM], outer = 1, inner = b->n ? heads : 1;
    bool same = t->ndim == b->n + 2;
    for (int i = 0; i < b->n; i++) {
        full[i] = i == b->n - 1 ? heads : b->shape[i];
        if (i < b->n - 1) outer *= full[i];
        same = same && t->shape[i] == full[i];
    }
    full[b->n] = rows, full[b->n + 1] = cols;
    if (b->n == 1 && !b->grouped) outer = heads, inner = 1;
    dl_tensor *e = same ? t : K(dl_expand(t, full, b->n + 2));
    if (!e || (e->ndim == 4 && b->n == 2)) return e;
    return K(dl_reshape(e, (long[]){outer, inner, rows, cols}, 4));
}

/* The mask with four dimensions, of which those of size 1 stay so where they can. */
static dl_tensor *mask_of(dl_pool *p, const dl_call *c, const batch *b, dl_tensor *mask, long rows, long keys) {
    long ones[4] = {1, 1, 1, 1};
    if (mask->ndim > b->n + 2)
        return dl_fail(DL_ERR_SHAPE, "attn_mask of shape %s does not broadcast to the scores of %s", dl_shape_of(mask),
                       dl_shape_of(c->in[0])),
               NULL;
    bool shared = true; /* by all of the batch */
    for (int i = 0; i < mask->ndim - 2; i++) shared = shared && mask->shape[i] == 1;
    if (!shared && b->n != 2) return operand(p, b, mask, b->heads[0], rows, keys);
    int last = mask->ndim < 2 || shared ? (mask->ndim < 2 ? mask->ndim : 2) : mask->ndim;
    for (int i = 0; i < last; i++) ones[3 - i] = mask->shape[mask->ndim - 1 - i];
    return K(dl_reshape(mask, ones, 4));
}

/* Two numbers that say which weights are left out, drawn where dropout draws. */
static dl_tensor *seed_of(dl_pool *p, int device) {
    dl_stream former = dl_rng_use(DL_STREAM_DROPOUT);
    dl_tensor *seed = K(dl_randint(0, LONG_MAX, (long[]){2}, 1, DL_I64, device));
    dl_rng_use(former);
    return seed;
}

/* A mask whose gradient is wanted is as large as the scores, so these may be stored. */
static dl_tensor *with_gradient_of_mask(dl_tensor *const in[3], dl_tensor *mask, dl_tensor *lengths, double scale,
                                        double dropout) {
    POOL;
    const long *q = in[0]->shape, *k = in[1]->shape;
    dl_attention_sizes a = {q[0],  q[1],  k[1], k[1] ? q[1] / k[1] : 1, q[2], k[2], q[3], in[2]->shape[3],
                            false, scale, 0};
    dl_tensor *kept = NULL;
    if (dropout != 0) {
        kept = K(dl_full((long[]){a.batch, a.heads, a.rows, a.keys}, 4, 1, in[0]->dtype, in[0]->st->device));
        if (!(kept = kept ? K(dl_dropout(kept, dropout, 1)) : NULL)) return NULL;
    }
    return dl_attention_by_parts(&a, in[0], in[1], in[2], mask, lengths, kept);
}

/* softmax(query key' scale + mask) value. A query all of whose keys are masked gets 0. */
POOLED_RULE(scaled_dot_product_attention) {
    dl_tensor *q = c->in[0], *mask = INPUT(c, SDPA_ATTN_MASK), *lengths = INPUT(c, SDPA_LENGTHS), *in[3], *seed = NULL;
    double dropout = ATTR_F(c, SDPA_DROPOUT_P), scale = ATTR_F(c, SDPA_SCALE);
    bool causal = ATTR_I(c, SDPA_IS_CAUSAL) != 0;
    long size = q->shape[q->ndim - 1], rows, keys, full[DL_MAX_DIM];
    batch b;
    DL_TRY(check(c, causal));
    DL_TRY(batch_of(c, &b));
    if (!ATTR(c, SDPA_SCALE)->given) scale = 1 / sqrt((double)size);
    for (int i = 0; i < 3; i++) {
        dl_tensor *t = c->in[i];
        in[i] = operand(p, &b, t, b.heads[i], t->shape[t->ndim - 2], t->shape[t->ndim - 1]);
        if (!in[i]) return dl_failed();
    }
    rows = in[0]->shape[2], keys = in[1]->shape[2];
    if (mask && mask->dtype != DL_BOOL) mask = K(dl_to_dtype(mask, q->dtype));
    if (mask && !(mask = mask_of(p, c, &b, mask, rows, keys))) return dl_failed();
    if (dropout != 0 && !(seed = seed_of(p, c->device))) return dl_failed();
    dl_tensor *y = mask && dl_requires_grad(mask) && dl_recording()
                       ? K(with_gradient_of_mask(in, mask, lengths, scale, dropout))
                       : K(dl_attention(in[0], in[1], in[2], mask, lengths, seed, dropout, causal, scale));
    if (!y) return dl_failed();
    memcpy(full, b.shape, sizeof full);
    if (b.n) full[b.n - 1] = b.heads[0];
    full[b.n] = rows, full[b.n + 1] = y->shape[3];
    return dl_finish(c, dl_reshape(y, full, b.n + 2));
}
