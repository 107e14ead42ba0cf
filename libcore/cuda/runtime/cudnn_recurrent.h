/* Recurrent layers through cuDNN: all layers and directions are one call. */
#pragma once

#include "cuda/runtime/base.h"
#include "ops/recurrent.h"

/* Layers over dense operands. Zeroed before it is filled in, since bytes are compared. */
typedef struct dl_dnn_layers {
    dl_recurrent_sizes r;
    dl_dtype t;
    int gpu;
    bool tf32;   /* f32 operands may be rounded */
    bool padded; /* sequences have lengths of their own */
} dl_dnn_layers;

/* How cuDNN runs the steps. */
typedef enum dl_dnn_steps {
    DL_STEPS_STANDARD,   /* a kernel or more for each step */
    DL_STEPS_PERSISTENT, /* one kernel that keeps the weights in registers */
    DL_STEPS_SMALL,      /* the same for few hidden units */
    DL_NSTEPS
} dl_dnn_steps;

/* Where a parameter lies among the packed weights, in bytes. */
typedef struct dl_dnn_place {
    size_t at, bytes;
} dl_dnn_place;

typedef struct dl_dnn_recurrent dl_dnn_recurrent;

/* NULL, error recorded: it does not run so here. */
dl_dnn_recurrent *dl_dnn_recurrent_new(dl_gpu *g, const dl_dnn_layers *l, dl_dnn_steps steps);
void dl_dnn_recurrent_free(dl_dnn_recurrent *p);
/* The lengths of the sequences of the calls that follow, in host memory; of padded layers alone. */
dl_status dl_dnn_recurrent_lengths(dl_dnn_recurrent *p, const long *lengths);

/* Bytes of the packed weights, of the workspace of a call, and of what the gradient reads. */
typedef struct dl_dnn_room {
    size_t weights, work, reserve;
} dl_dnn_room;
dl_status dl_dnn_recurrent_room(dl_gpu *g, dl_dnn_recurrent *p, bool training, dl_dnn_room *out);
/* Parameter k of a layer and direction, of which `part` is the number. */
dl_dnn_place dl_dnn_recurrent_place(const dl_dnn_recurrent *p, int part, int k);

/* The operands of a run; NULL: a state of zeros, a gradient that is not wanted. */
typedef struct dl_dnn_run_of {
    const void *x, *hx, *cx, *weights;
    void *y, *h, *c;
    void *work, *reserve; /* reserve NULL: there will be no gradient */
    const void *gy, *gh, *gc;
    void *dx, *dhx, *dcx, *dweights; /* dweights is added to */
} dl_dnn_run_of;
dl_status dl_dnn_recurrent_forward(dl_gpu *g, dl_dnn_recurrent *p, const dl_dnn_room *room, const dl_dnn_run_of *o);
/* Changes the reserve. */
dl_status dl_dnn_recurrent_backward(dl_gpu *g, dl_dnn_recurrent *p, const dl_dnn_room *room, const dl_dnn_run_of *o);
