/* Multihead attention, with names, arguments and masks as PyTorch has them: a mask is true where attention is not
 * allowed, or is added. */
#include <math.h>

#include "nn/layers.h"
#include "nn/reparam.h"
#include "ops/attention.h"
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/loss.h"
#include "dlcore/matmul.h"
#include "dlcore/norm.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"

enum { QUERY, KEY, VALUE, PADDING, WEIGHTS, MASK, AVERAGE, CAUSAL };

static dl_status check_least(const dl_module *m, const char *option) {
    const dl_optval *v = dl_m_opt(m, option);
    if (!v->given || (v->u.i >= 1 && v->u.i <= 1 << 20)) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "layer %s: %s must be 1 to %d, not %ld", m->row->kind.name, option, 1 << 20, v->u.i);
}

dl_status dl_layer_attention_check(dl_module *m) {
    static const char *const sizes[] = {"embed_dim", "num_heads", "kdim", "vdim"};
    double p = dl_m_float(m, "dropout");
    for (int i = 0; i < 4; i++) DL_TRY(check_least(m, sizes[i]));
    long size = dl_m_int(m, "embed_dim"), heads = dl_m_int(m, "num_heads");
    if (size % heads)
        return dl_fail(DL_ERR_VALUE, "layer %s: embed_dim must be divisible by num_heads, %ld is not by %ld",
                       m->row->kind.name, size, heads);
    if (p >= 0 && p <= 1) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "layer %s: dropout is a probability, between 0 and 1, not %g", m->row->kind.name, p);
}

static long size_of(const dl_module *m, const char *option) {
    const dl_optval *v = dl_m_opt(m, option);
    return v->given ? v->u.i : dl_m_int(m, "embed_dim");
}

dl_status dl_layer_attention_parts(dl_module *m) {
    long size = dl_m_int(m, "embed_dim"), kdim = size_of(m, "kdim"), vdim = size_of(m, "vdim");
    const dl_arg out[] = {{.name = "out_features", .kind = DL_ARG_INT, .i = size},
                          {.name = "bias", .kind = DL_ARG_BOOL, .i = dl_m_int(m, "bias")}};
    if (kdim == size && vdim == size) {
        DL_TRY(dl_part_weight(m, "in_proj_weight", 2, (long[]){3 * size, size}, "xavier_uniform"));
    } else {
        DL_TRY(dl_part_weight(m, "q_proj_weight", 2, (long[]){size, size}, "xavier_uniform"));
        DL_TRY(dl_part_weight(m, "k_proj_weight", 2, (long[]){size, kdim}, "xavier_uniform"));
        DL_TRY(dl_part_weight(m, "v_proj_weight", 2, (long[]){size, vdim}, "xavier_uniform"));
    }
    if (dl_m_int(m, "bias")) DL_TRY(dl_part_weight(m, "in_proj_bias", 1, (long[]){3 * size}, "zeros"));
    if (dl_m_int(m, "add_bias_kv")) {
        DL_TRY(dl_part_weight(m, "bias_k", 3, (long[]){1, 1, size}, "xavier_normal"));
        DL_TRY(dl_part_weight(m, "bias_v", 3, (long[]){1, 1, size}, "xavier_normal"));
    }
    return dl_part_layer(m, "out_proj", "linear", out, 2);
}

/* Makes the weights that are not there; the bias of out_proj starts as zeros. */
static dl_module *made(dl_module *m, const dl_tensor *x) {
    long size = dl_m_int(m, "embed_dim");
    dl_module *out = dl_part_of(m, "out_proj");
    if (dl_part_weights_make(m, size, dl_device_of(x)) != DL_OK) return NULL;
    if (out->built) return out;
    if (dl_module_build_one(out, size, dl_device_of(x)) != DL_OK) return NULL;
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *zero = dl_scalar_f(0);
    return !out->tensor[1] || dl_assign(out->tensor[1], zero) == DL_OK ? out : NULL;
}

/* ---------------------------------------------------------------- one call */

/* Sizes of a call, of which sequences may be alone, [L,size], or come [N,L,size] or [L,N,size]. */
typedef struct call {
    dl_module *m;
    dl_tensor *in[3];
    bool alone, first; /* the batch comes first */
    long batch, rows, keys, heads, size;
} call;

/* The value of a switch, a tensor without dimensions. */
static dl_status read_switch(const dl_pack *in, int i, bool *on) {
    const dl_tensor *t = dl_pack_tensor(in, i);
    double v;
    if (!t) return DL_OK;
    if (t->numel != 1) return dl_fail(DL_ERR_VALUE, "a switch is true or false, not a tensor of %ld", (long)t->numel);
    DL_TRY(dl_read_f64(t, &v));
    *on = v != 0;
    return DL_OK;
}

static dl_status sizes_of(call *c, const dl_pack *in) {
    static const char *const names[] = {"query", "key", "value"};
    const long want[] = {dl_m_int(c->m, "embed_dim"), size_of(c->m, "kdim"), size_of(c->m, "vdim")};
    for (int i = 0; i < 3; i++) {
        dl_tensor *t = dl_pack_tensor(in, i);
        c->in[i] = t ? t : c->in[i ? i - 1 : 0];
        if (c->in[i]->ndim != c->in[0]->ndim || c->in[i]->ndim < 2 || c->in[i]->ndim > 3)
            return dl_fail(DL_ERR_SHAPE, "layer %s takes [N,L,size] in some order, or [L,size]; %s has shape %s",
                           c->m->row->kind.name, names[i], dl_shape_of(c->in[i]));
        if (c->in[i]->shape[c->in[i]->ndim - 1] != want[i])
            return dl_fail(DL_ERR_SHAPE, "the last size of %s must be %ld, not that of %s", names[i], want[i],
                           dl_shape_of(c->in[i]));
    }
    const long *q = c->in[0]->shape, *k = c->in[1]->shape, *v = c->in[2]->shape;
    c->alone = c->in[0]->ndim == 2, c->first = dl_m_int(c->m, "batch_first") || c->alone;
    int n = c->first ? 0 : 1, l = c->alone ? 0 : 1 - n;
    c->batch = c->alone ? 1 : q[n], c->rows = q[l], c->keys = k[l];
    c->heads = dl_m_int(c->m, "num_heads"), c->size = dl_m_int(c->m, "embed_dim") / c->heads;
    if (v[l] != k[l] || (!c->alone && (k[n] != q[n] || v[n] != q[n])))
        return dl_fail(DL_ERR_SHAPE, "query, key and value of shapes %s, %s, %s do not fit",
                       dl_shape_text(c->in[0]->ndim, q), dl_shape_text(c->in[1]->ndim, k),
                       dl_shape_text(c->in[2]->ndim, v));
    return DL_OK;
}

/* ---------------------------------------------------------------- projections */

static dl_tensor *part(dl_pool *p, dl_tensor *t, long dim, long i, long size) {
    long from = i * size, to = from + size;
    return t ? K(dl_slice(t, dim, &from, &to, 1)) : NULL;
}

/* [N,heads,length,size] of a projection. */
static dl_tensor *split(const call *c, dl_pool *p, dl_tensor *t, long length) {
    const long n = c->first ? c->batch : length, l = c->first ? length : c->batch;
    dl_tensor *s = t ? K(dl_reshape(t, (long[]){n, l, c->heads, c->size}, 4)) : NULL;
    return s ? K(dl_permute(s, c->first ? (long[]){0, 2, 1, 3} : (long[]){1, 2, 0, 3}, 4)) : NULL;
}

static dl_status project(const call *c, dl_pool *p, dl_tensor *out[3]) {
    static const char *const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    dl_tensor *all = dl_part_tensor(c->m, "in_proj_weight"), *bias = dl_part_tensor(c->m, "in_proj_bias"), *joined;
    long size = c->heads * c->size;
    if (all && c->in[0] == c->in[1] && c->in[0] == c->in[2]) { /* one product */
        joined = K(dl_linear(c->in[0], all, bias));
        for (int i = 0; i < 3; i++) out[i] = part(p, joined, -1, i, size);
    } else {
        for (int i = 0; i < 3; i++)
            out[i] = K(dl_linear(c->in[i], all ? part(p, all, 0, i, size) : dl_part_tensor(c->m, names[i]),
                                 part(p, bias, 0, i, size)));
    }
    for (int i = 0; i < 3; i++)
        if (!(out[i] = split(c, p, out[i], i ? c->keys : c->rows))) return dl_failed();
    return DL_OK;
}

/* One more key and value: a trained one. */
static dl_tensor *with_trained(const call *c, dl_pool *p, dl_tensor *t, const char *name) {
    dl_tensor *one = K(dl_reshape(dl_part_tensor(c->m, name), (long[]){1, c->heads, 1, c->size}, 4));
    dl_tensor *each = one ? K(dl_expand(one, (long[]){c->batch, c->heads, 1, c->size}, 4)) : NULL;
    return each ? K(dl_cat((dl_tensor *[]){t, each}, 2, 2)) : NULL;
}
static dl_tensor *with_zeros(const call *c, dl_pool *p, dl_tensor *t) {
    dl_tensor *none = K(dl_zeros((long[]){c->batch, c->heads, 1, c->size}, 4, t->dtype, t->st->device));
    return none ? K(dl_cat((dl_tensor *[]){t, none}, 2, 2)) : NULL;
}

static dl_status add_keys(const call *c, dl_pool *p, dl_tensor *t[3]) {
    bool trained = dl_m_int(c->m, "add_bias_kv"), zeros = dl_m_int(c->m, "add_zero_attn");
    for (int i = 1; i < 3; i++) {
        if (trained && !(t[i] = with_trained(c, p, t[i], i == 1 ? "bias_k" : "bias_v"))) return dl_failed();
        if (zeros && !(t[i] = with_zeros(c, p, t[i]))) return dl_failed();
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- masks */

/* A mask with columns of zeros for the keys that were added. */
static dl_tensor *widened(dl_pool *p, dl_tensor *t, long more) {
    long shape[DL_MAX_DIM];
    if (!more) return t;
    for (int i = 0; i < t->ndim; i++) shape[i] = i == t->ndim - 1 ? more : t->shape[i];
    dl_tensor *none = K(dl_zeros(shape, t->ndim, t->dtype, t->st->device));
    return none ? K(dl_cat((dl_tensor *[]){t, none}, 2, -1)) : NULL;
}

/* A mask of the caller with four dimensions; ok: its shape is one of those given for its number of dimensions. */
static dl_tensor *shaped(const call *c, dl_pool *p, dl_tensor *t, bool padding, long more) {
    const long n = c->batch, h = c->heads, l = c->rows, s = c->keys;
    const char *name = padding ? "key_padding_mask" : "attn_mask";
    const long *d = t->shape;
    bool good = padding        ? (c->alone ? t->ndim == 1 && d[0] == s : t->ndim == 2 && d[0] == n && d[1] == s)
                : t->ndim == 2 ? d[0] == l && d[1] == s
                               : t->ndim == 3 && d[0] == n * h && d[1] == l && d[2] == s;
    if (t->dtype != DL_BOOL && !dl_dtype_is_float(t->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "convert it with .to(bool): true where attention is not allowed",
                            "%s must be bool, or floating numbers to be added, not %s", name, dl_type_of(t)),
               NULL;
    if (!good)
        return dl_fail(DL_ERR_SHAPE, "%s must have shape %s, not %s", name,
                       padding && c->alone ? dl_shape_text(1, &s)
                       : padding           ? dl_shape_text(2, (long[]){n, s})
                                           : dl_shape_text(2, (long[]){l, s}),
                       dl_shape_of(t)),
               NULL;
    if (!(t = widened(p, t, more))) return NULL;
    if (padding) return K(dl_reshape(t, (long[]){n, 1, 1, s + more}, 4));
    return K(dl_reshape(t, (long[]){t->ndim == 3 ? n : 1, t->ndim == 3 ? h : 1, l, s + more}, 4));
}

/* A mask of bools as numbers to be added. */
static dl_tensor *added(dl_pool *p, dl_tensor *t, dl_dtype dtype) {
    if (t->dtype != DL_BOOL) return K(dl_to_dtype(t, dtype));
    dl_tensor *none = K(dl_scalar_f(0)), *low = K(dl_scalar_f(-INFINITY));
    dl_tensor *w = K(dl_where(t, low, none));
    return w ? K(dl_to_dtype(w, dtype)) : NULL;
}

/* Both masks as one that scaled_dot_product_attention takes: true where attention is allowed, or added. NULL for none.
 */
static dl_status join(const call *c, dl_pool *p, dl_tensor *const given[3], long more, dl_tensor **out) {
    dl_tensor *all = NULL;
    dl_dtype dtype = c->in[0]->dtype;
    for (int i = 0; i < 3; i++) {
        if (!given[i]) continue;
        dl_tensor *t = i < 2 ? shaped(c, p, given[i], i == 0, more) : widened(p, given[i], more);
        if (!t) return dl_failed();
        if (!all)
            all = t;
        else if (all->dtype == DL_BOOL && t->dtype == DL_BOOL)
            all = K(dl_logical_or(all, t));
        else
            all = K(dl_add(added(p, all, dtype), added(p, t, dtype)));
        if (!all) return dl_failed();
    }
    if (all && all->dtype == DL_BOOL && !(all = K(dl_logical_not(all)))) return dl_failed();
    *out = all;
    return DL_OK;
}

/* True above the diagonal. */
static dl_tensor *later(const call *c, dl_pool *p) {
    const long shape[4] = {1, 1, c->rows, c->keys};
    dl_tensor *ones = K(dl_full(shape, 4, 1, DL_BOOL, c->in[0]->st->device));
    return ones ? K(dl_triu(ones, 1)) : NULL;
}

/* ---------------------------------------------------------------- attention */

/* The weights, whose matrix is stored since they are asked for, and their sums of values. */
static dl_tensor *by_weights(dl_pool *p, dl_tensor *const t[3], dl_tensor *mask, double dropout, dl_tensor **weights) {
    double scale = 1 / sqrt((double)t[0]->shape[3]);
    dl_tensor *s = K(dl_matmul(K(dl_mul(t[0], K(dl_scalar_f(scale)))), K(dl_permute(t[1], (long[]){0, 1, 3, 2}, 4))));
    bool bools = mask && mask->dtype == DL_BOOL;
    if (bools) s = K(dl_where(mask, s, K(dl_scalar_f(dl_masked_score(t[0]->dtype)))));
    if (mask && !bools) s = K(dl_add(s, mask));
    dl_tensor *w = s ? K(dl_softmax(s, -1)) : NULL;
    if (bools) w = K(dl_where(mask, w, K(dl_scalar_f(0))));
    if (w && dropout > 0) w = K(dl_dropout(w, dropout, 1));
    *weights = w;
    return w ? K(dl_matmul(w, t[2])) : NULL;
}

/* [N,heads,L,size] as the caller has its operands, through out_proj. Owned. */
static dl_tensor *joined_heads(const call *c, dl_pool *p, dl_module *out, dl_tensor *y) {
    const long size = c->heads * c->size;
    dl_tensor *t = K(dl_permute(y, c->first ? (long[]){0, 2, 1, 3} : (long[]){2, 0, 1, 3}, 4));
    if (t && c->alone)
        t = K(dl_reshape(t, (long[]){c->rows, size}, 2));
    else if (t)
        t = K(dl_reshape(t, (long[]){c->first ? c->batch : c->rows, c->first ? c->rows : c->batch, size}, 3));
    bool entered = false;
    if (!t || (out->reparams && dl_module_compute(out, &entered) != DL_OK)) return NULL;
    dl_tensor *joined = dl_linear(t, out->tensor[0], out->tensor[1]);
    if (entered) dl_reparam_leave(out);
    return joined;
}

/* Weights of all heads, or their mean. Owned. */
static dl_tensor *shown(const call *c, dl_pool *p, dl_tensor *w, bool average) {
    dl_tensor *t = average ? K(dl_mean(w, (long[]){1}, 1, 0)) : w;
    if (!t || !c->alone) return dl_ref(t);
    return dl_reshape(t, t->shape + 1, t->ndim - 1);
}

static dl_pack *attend(call *c, dl_pack *in, dl_module *out, bool weights, bool average, bool causal) {
    POOL;
    dl_tensor *t[3], *mask = NULL, *w = NULL, *y[2] = {NULL};
    dl_tensor *given[3] = {dl_pack_tensor(in, PADDING), dl_pack_tensor(in, MASK), NULL};
    double dropout = dl_m_training(c->m) ? dl_m_float(c->m, "dropout") : 0;
    if (project(c, p, t) != DL_OK || add_keys(c, p, t) != DL_OK) return NULL;
    long more = t[1]->shape[2] - c->keys;
    bool plain = causal && !weights && !given[0] && !more; /* which the kernels know */
    if (causal) given[1] = NULL;
    if (causal && !plain && !(given[2] = later(c, p))) return NULL;
    if (join(c, p, given, more, &mask) != DL_OK) return NULL;
    dl_tensor *o = weights ? by_weights(p, t, mask, dropout, &w)
                           : K(dl_scaled_dot_product_attention(t[0], t[1], t[2], mask, NULL, dropout, plain, NULL, 0));
    y[0] = o ? joined_heads(c, p, out, o) : NULL;
    if (y[0] && w) y[1] = shown(c, p, w, average);
    dl_pack *both = y[0] && (y[1] || !weights) ? dl_pack_new(y, weights ? 2 : 1, NULL, NULL) : NULL;
    dl_unref(y[0]), dl_unref(y[1]);
    return both;
}

/* The query alone, as in a chain, attends to itself, and no weights are given. */
dl_pack *dl_layer_attention_call(dl_module *m, dl_pack *in) {
    call c = {.m = m, .in = {dl_pack_tensor(in, QUERY)}};
    bool weights = dl_pack_tensor(in, KEY) != NULL, average = true, causal = false;
    if (sizes_of(&c, in) != DL_OK || read_switch(in, WEIGHTS, &weights) != DL_OK ||
        read_switch(in, AVERAGE, &average) != DL_OK || read_switch(in, CAUSAL, &causal) != DL_OK)
        return NULL;
    dl_module *out = made(m, c.in[0]);
    return out ? attend(&c, in, out, weights, average, causal) : NULL;
}
