/* Attention of 16-bit operands through cuDNN: one graph forward, one for the gradients. */
#pragma once

#include "cuda/runtime/base.h"
#include "ops/attention.h"

enum { DL_DNN_Q, DL_DNN_K, DL_DNN_V, DL_DNN_G, DL_DNN_VIEWS };

/* Zeroed before it is filled in, since bytes are compared. */
typedef struct dl_dnn_attention {
    dl_attention_sizes a;
    dl_dtype t;
    int gpu;
    bool backward;
    bool lengths;       /* sequences have lengths of their own */
    bool deterministic; /* the gradient of queries is not added up in any order, which takes scores in memory */
    bool bias;          /* numbers are added to scores */
    long bias_shape[4], bias_stride[4];
    long stride[DL_DNN_VIEWS][4]; /* of query, key, value and the gradient of the result; 1 along the last dimension */
} dl_dnn_attention;

typedef struct dl_dnn_attention_plan dl_dnn_attention_plan;
/* NULL, error recorded: cuDNN does not run it here. */
dl_dnn_attention_plan *dl_dnn_attention_new(dl_gpu *g, const dl_dnn_attention *p);
void dl_dnn_attention_free(dl_dnn_attention_plan *plan);
size_t dl_dnn_attention_workspace(const dl_dnn_attention_plan *plan);

/* Results and their gradients are contiguous; lengths are i32. */
typedef struct dl_dnn_attention_run {
    const void *view[DL_DNN_VIEWS];
    void *out, *stats; /* read in a run backward */
    const void *bias;
    const int64_t *seed;
    const int *rows, *keys; /* lengths of queries and keys */
    void *dq, *dk, *dv;
    void *workspace;
} dl_dnn_attention_run;
dl_status dl_dnn_attention_execute(dl_gpu *g, dl_dnn_attention_plan *plan, const dl_dnn_attention_run *r);
