/* Loops of recurrent layers: recurrent_simd.c defines them, recurrent.c runs them. */
#pragma once

#include "cpu/runtime/simd.h"
#include "ops/recurrent.h"

/* One sequence at one step: `hidden` numbers in each array, gates in so many blocks. */
typedef struct dl_cell_row {
    long hidden;
    void *gates;        /* forward: their sums, which become the gates; backward: the gates */
    const void *before; /* the state c of an LSTM, h of a GRU, before the step */
    void *extra;        /* the state c after it; of a GRU the part of n that r multiplies */
    const void *part;   /* GRU, forward: weight_hh h of all gates */
    const void *bias;   /* GRU, forward: bias_hh of n, or NULL */
    void *y;            /* forward: the state h after the step */
    /* backward */
    const void *g;            /* gradient of the result at this step; NULL: none */
    void *d_gates, *d_hidden; /* gradients of the sums of inputs, and of a GRU those of weight_hh h */
    /* Gradients of the states after the step, replaced by those before it: of h what does not go through weight_hh. */
    void *dh, *dc;
} dl_cell_row;

typedef struct dl_cell_loops {
    void (*step[DL_NCELL])(const dl_cell_row *r);
    void (*back[DL_NCELL])(const dl_cell_row *r);
} dl_cell_loops;

DL_SIMD_DECL(extern const dl_cell_loops, dl_cells, [2]); /* f32, f64 */
