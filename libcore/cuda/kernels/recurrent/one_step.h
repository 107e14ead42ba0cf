/* One step of one recurrent layer without cuDNN, which would have the weights copied into its order: two products of
 * matrices and a kernel for the cells. An LSTM of 64 units over 1024 rows takes 25 us on an H200, where cuDNN took 53
 * to 83. */
#pragma once

#include "cuda/runtime/base.h"
#include "ops/recurrent.h"

DL_C_BEGIN

/* A step of the cells (cell.cu), whose sums are those of two products and two biases, each [batch, gates * hidden] or
 * [gates * hidden]. NULL: absent; a state of zeros; nothing is kept for a gradient. */
typedef struct dl_cell_step {
    dl_dtype t;
    dl_cell cell;
    long batch, hidden;
    const void *from_x, *from_h, *bias_x, *bias_h;
    const void *before; /* the state c of an LSTM, h of the others */
    void *y, *h, *c;    /* y and h are alike */
    void *gates,
        *extra; /* kept, in the type of computation: gates; c of an LSTM, of a GRU the part that r multiplies */
} dl_cell_step;
dl_status dl_cuda_cell(dl_gpu *g, const dl_cell_step *s);

/* Its gradient. gates, extra and before as above. */
typedef struct dl_cell_back {
    dl_dtype t;
    dl_cell cell;
    long batch, hidden;
    const void *gates, *extra, *before;
    const void *gy, *gh, *gc; /* gradients of the results; NULL: none */
    void *d_x, *d_h;          /* of the sums of both products; the same memory where they are equal: all but a GRU */
    void *direct;             /* the gradient of `before` that does not go through weights; NULL: not wanted, or none */
} dl_cell_back;
dl_status dl_cuda_cell_back(dl_gpu *g, const dl_cell_back *b);

/* Is a call of `recurrent` one step of one layer? */
static inline bool dl_one_step(const dl_recurrent_sizes *r, bool lengths) {
    return r->steps == 1 && r->layers == 1 && r->directions == 1 && !lengths && r->batch && r->input && r->hidden;
}
/* Run and gradient of such a call. */
dl_status dl_one_step_run(dl_gpu *g, dl_call *c, const dl_recurrent_sizes *r);
dl_status dl_one_step_back(dl_gpu *g, dl_back *b, const dl_recurrent_sizes *r);

DL_C_END
