/* Shapes of attention. */
#include "ops/attention.h"
#include "ops/infer.h"
#include "ops/rules/matmul.h"

#include <string.h>

static void sizes(const dl_aval *attr, const long *q, const long *k, const long *v, dl_attention_sizes *a) {
    memset(a, 0, sizeof *a); /* plans compare its bytes */
    a->batch = q[0], a->heads = q[1], a->rows = q[2], a->size = q[3];
    a->kv_heads = k[1], a->keys = k[2], a->value_size = v[3];
    a->group = a->kv_heads ? a->heads / a->kv_heads : 1;
    a->causal = attr[DL_A_ATTENTION_IS_CAUSAL].u.i != 0;
    a->scale = attr[DL_A_ATTENTION_SCALE].u.f, a->dropout = attr[DL_A_ATTENTION_DROPOUT_P].u.f;
}

static dl_status misfit(const dl_call *c, int i, const char *how) {
    return dl_fail(DL_ERR_SHAPE, "%s of shape %s does not fit queries of shape %s: %s", c->op->in_name[i],
                   dl_shape_of(c->in[i]), dl_shape_of(c->in[0]), how);
}

static dl_status check_mask(const dl_call *c, const dl_attention_sizes *a) {
    const long most[4] = {a->batch, a->heads, a->rows, a->keys};
    const dl_tensor *m = INPUT(c, ATTENTION_ATTN_MASK);
    if (!m) return DL_OK;
    bool good = m->ndim == 4;
    for (int i = 0; good && i < 4; i++) good = m->shape[i] == 1 || m->shape[i] == most[i];
    if (!good)
        return dl_fail(DL_ERR_SHAPE, "attn_mask of shape %s does not broadcast to %s", dl_shape_of(m),
                       dl_shape_text(4, most));
    if (m->dtype == DL_BOOL || m->dtype == (int8_t)c->dtype) return DL_OK;
    return dl_fail_hint(DL_ERR_DTYPE, "convert it with .to(bool): true where attention is allowed",
                        "attn_mask must be bool, or floating numbers to be added, not %s", dl_type_of(m));
}

static dl_status check_lengths(const dl_call *c, const dl_attention_sizes *a) {
    const dl_tensor *t = INPUT(c, ATTENTION_LENGTHS);
    if (!t) return DL_OK;
    DL_TRY(dl_check_index(t));
    if (t->ndim == 1 && t->shape[0] == a->batch) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "lengths must have shape [%ld], one for each sequence, not %s", a->batch,
                   dl_shape_of(t));
}

static dl_status check_seed(const dl_call *c, const dl_attention_sizes *a) {
    const dl_tensor *t = INPUT(c, ATTENTION_SEED);
    if (!(a->dropout >= 0 && a->dropout <= 1))
        return dl_fail(DL_ERR_VALUE, "dropout_p is a probability, between 0 and 1, not %g", a->dropout);
    if (a->dropout == 0) return DL_OK;
    if (t && t->dtype == DL_I64 && t->ndim == 1 && t->shape[0] == 2) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "dropout takes a seed, two numbers of i64");
}

dl_status dl_attention_of(const dl_call *c, dl_attention_sizes *a) {
    for (int i = 0; i < 3; i++) {
        const dl_tensor *t = c->in[i];
        if (t->ndim != 4)
            return dl_fail(DL_ERR_SHAPE, "%s must be [N,heads,length,size], not %s", c->op->in_name[i], dl_shape_of(t));
        if (!dl_dtype_is_float(t->dtype))
            return dl_fail_hint(DL_ERR_DTYPE, "convert with .to(f32)", "%s must be floating, not %s", c->op->in_name[i],
                                dl_type_of(t));
    }
    const long *q = c->in[0]->shape, *k = c->in[1]->shape, *v = c->in[2]->shape;
    if (k[0] != q[0]) return misfit(c, 1, "the numbers of sequences differ");
    if (v[0] != q[0]) return misfit(c, 2, "the numbers of sequences differ");
    if (k[3] != q[3]) return misfit(c, 1, "the last sizes differ");
    if (v[1] != k[1]) return misfit(c, 2, "keys and values have different heads");
    if (v[2] != k[2]) return misfit(c, 2, "keys and values have different lengths");
    if (k[1] ? q[1] % k[1] != 0 : q[1] != 0) return misfit(c, 1, "its heads do not divide those of the queries");
    sizes(c->attr, q, k, v, a);
    DL_TRY(check_seed(c, a));
    DL_TRY(check_mask(c, a));
    return check_lengths(c, a);
}

void dl_attention_of_node(const dl_back *b, dl_attention_sizes *a) {
    sizes(b->attr, META(ATTENTION_QUERY)->shape, META(ATTENTION_KEY)->shape, META(ATTENTION_VALUE)->shape, a);
}

/* stats is the logarithm of the sum of a query's exponentials, in f64 of f32, whose gradient needs its digits. */
INFER_RULE(attention) {
    dl_attention_sizes a;
    DL_TRY(dl_attention_of(c, &a));
    bool half = DL_BIT(c->dtype) & DL_HALVES;
    out[DL_OUT_ATTENTION_OUT] = dl_meta_fresh(c, c->dtype, 4, (long[]){a.batch, a.heads, a.rows, a.value_size});
    out[DL_OUT_ATTENTION_STATS] = dl_meta_fresh(c, half ? DL_F32 : DL_F64, 3, (long[]){a.batch, a.heads, a.rows});
    return DL_OK;
}

FLOPS_RULE(attention) {
    dl_attention_sizes a;
    if (dl_attention_of(c, &a) != DL_OK) return 0;
    double pairs = (double)a.rows * (double)a.keys * (a.causal ? 0.5 : 1);
    return 2 * pairs * (double)(a.size + a.value_size) * (double)(a.batch * a.heads);
}
