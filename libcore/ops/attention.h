/* The sizes of attention, read from the operands and checked once for shape rules and kernels; attention made of ops
 * that store all scores. Plain C and C++17. */
#pragma once

#include "core/op.h"

/* Queries are [batch,heads,rows,size], keys [batch,kv_heads,keys,size], values [batch,kv_heads,keys,value_size]; head h
 * of the queries sees head h / group of the keys. */
typedef struct dl_attention_sizes {
    long batch, heads, kv_heads, group, rows, keys, size, value_size;
    bool causal;
    double scale, dropout;
} dl_attention_sizes;

/* Of a call of `attention`, with everything checked but the values of lengths; of its node, which was checked. */
dl_status dl_attention_of(const dl_call *c, dl_attention_sizes *a);
void dl_attention_of_node(const dl_back *b, dl_attention_sizes *a);

/* A score so low that its weight is 0. It is finite: a query all of whose keys are masked makes no NaN. */
static inline double dl_masked_score(dl_dtype t) { return t == DL_F16 ? -60000 : -1e30; }

/* Attention by ops that are differentiable in q, k, v and an added mask. `kept` [batch,heads,rows,keys], unless NULL,
 * is multiplied with the weights. Owned; NULL: failed. */
dl_tensor *dl_attention_by_parts(const dl_attention_sizes *a, dl_tensor *q, dl_tensor *k, dl_tensor *v, dl_tensor *mask,
                                 dl_tensor *lengths, dl_tensor *kept);
