/* The sizes of recurrent layers, read from the operands and checked once for shape rules and kernels. Plain C and
 * C++17.
 */
#pragma once

#include "core/op.h"

typedef enum dl_cell { DL_CELL_LSTM, DL_CELL_GRU, DL_CELL_TANH, DL_CELL_RELU, DL_NCELL } dl_cell;

/* Inputs are [steps,batch,input], results [steps,batch,directions * hidden], states [layers * directions,batch,hidden].
 * A weight has `gates` blocks of `hidden` rows: i f g o of an LSTM, r z n of a GRU. */
typedef struct dl_recurrent_sizes {
    dl_cell cell;
    int gates, layers, directions;
    int each; /* parameters of a layer and direction: weight_ih, weight_hh, and bias_ih, bias_hh or none */
    long steps, batch, input, hidden;
} dl_recurrent_sizes;

/* Of a call of `recurrent`, with everything checked but the values of lengths; of its node, which was checked. */
dl_status dl_recurrent_of(const dl_call *c, dl_recurrent_sizes *r);
dl_status dl_recurrent_of_node(const dl_back *b, dl_recurrent_sizes *r);

/* Does a call keep what its gradient reads? */
bool dl_recurrent_keeps(const dl_call *c);

/* Parameter k of a layer and direction among the inputs of `recurrent`; how many of its layers and directions there
 * are; the size of a layer's input. */
int dl_recurrent_param(const dl_recurrent_sizes *r, int layer, int direction, int k);
static inline int dl_recurrent_parts(const dl_recurrent_sizes *r) { return r->layers * r->directions; }
static inline long dl_recurrent_input(const dl_recurrent_sizes *r, int layer) {
    return layer ? r->hidden * r->directions : r->input;
}
/* The number of gates by the name of a mode, "lstm"; -1: there is no such mode. */
int dl_cell_gates(const char *mode);
/* DL_ERR_VALUE unless all n lengths lie between 1 and the number of steps. */
dl_status dl_recurrent_check_lengths(const dl_recurrent_sizes *r, const long *lengths);
