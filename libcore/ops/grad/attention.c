/* The gradient of attention to any order, from all scores, which are stored. The kernels bring the first order. */
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/matmul.h"
#include "dlcore/view.h"
#include "core/scope.h"
#include "ops/attention.h"
#include "ops/grad.h"
#include "ops/rules/matmul.h"

#include <stdlib.h>

/* Attention of equal scores to columns [from, from + width) of the identity: above 0 where a weight was kept. */
static dl_tensor *kept_columns(dl_back *b, dl_tensor **in, const dl_attention_sizes *a, dl_tensor *identity,
                               long from) {
    long to = from + a->value_size;
    const dl_tensor *q = in[DL_IN_ATTENTION_QUERY], *k = in[DL_IN_ATTENTION_KEY];
    dl_tensor *zero = T(dl_zeros(q->shape, 4, q->dtype, q->st->device)),
              *zero_k = T(dl_zeros(k->shape, 4, k->dtype, k->st->device));
    dl_tensor *columns = T(dl_slice(identity, 1, &from, &to, 1));
    dl_tensor *v = T(dl_expand(columns, (long[]){a->batch, a->kv_heads, a->keys, a->value_size}, 4));
    return T(dl_attention(zero, zero_k, v, in[DL_IN_ATTENTION_ATTN_MASK], in[DL_IN_ATTENTION_LENGTHS],
                          in[DL_IN_ATTENTION_SEED], a->dropout, a->causal, 1));
}

/* What dropout multiplied the weights by: which it left out is known to the kernel alone. */
static dl_tensor *kept(dl_back *b, dl_tensor **in, const dl_attention_sizes *a) {
    DL_SCOPED_GRAD_MODE(0);
    long n = (a->keys + a->value_size - 1) / a->value_size, all = n * a->value_size, first = 0;
    const dl_tensor *q = in[DL_IN_ATTENTION_QUERY];
    dl_tensor *identity = T(dl_eye(a->keys, &all, q->dtype, q->st->device)), **part = malloc((size_t)n * sizeof *part);
    if (!part) return dl_fail(DL_ERR_MEMORY, "no memory for the gradient of attention"), NULL;
    bool good = identity != NULL;
    for (long i = 0; i < n && good; i++) good = (part[i] = kept_columns(b, in, a, identity, i * a->value_size)) != NULL;
    dl_tensor *whole = good ? T(dl_cat(part, (int)n, 3)) : NULL;
    free(part);
    dl_tensor *left = whole ? T(dl_gt(T(dl_slice(whole, 3, &first, &a->keys, 1)), NUM(0))) : NULL;
    return left ? T(dl_mul(T(dl_to(left, q->dtype)), NUM(a->dropout < 1 ? 1 / (1 - a->dropout) : 0))) : NULL;
}

static dl_tensor *objective(dl_back *b, dl_tensor **in, void *arg) {
    const dl_attention_sizes *a = arg;
    dl_tensor *left = NULL;
    bool any = a->keys && a->value_size;
    if (a->dropout > 0 && any && !(left = kept(b, in, a))) return NULL;
    dl_tensor *y =
        T(dl_attention_by_parts(a, in[DL_IN_ATTENTION_QUERY], in[DL_IN_ATTENTION_KEY], in[DL_IN_ATTENTION_VALUE],
                                in[DL_IN_ATTENTION_ATTN_MASK], in[DL_IN_ATTENTION_LENGTHS], left));
    return dl_plus_product(b, NULL, y, G0);
}

GRAD_RULE(attention) {
    dl_attention_sizes a;
    dl_attention_of_node(b, &a);
    return dl_grad_by_rerun(b, objective, &a);
}
