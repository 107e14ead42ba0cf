/* A call of an optimizer's op, NAME_step, as its kernels see it: options as numbers, in the order of the row of
 * optimizers.def. */
#pragma once

#include "core/op.h"

enum { DL_OPTIM_STATES = 3, DL_OPTIM_SCALARS = 16, DL_OPTIM_NORMS = 4 };

/* The inputs are the rate, the number of the step and lists: parameters, gradients, and each state that there is. */
typedef struct dl_optim_call {
    double v[DL_MAX_ATTR];
    unsigned states; /* bits: those that there are, the row's own first */
    int own;         /* so many are the row's own; others are optional */
    bool first;      /* of these parameters: the states are zero */
} dl_optim_call;

/* Of the states of a parameter: those of 16-bit ones are f32, in which their updates are computed. */
static inline dl_dtype dl_optim_state_dtype(const dl_tensor *p) {
    return p->dtype == DL_F16 || p->dtype == DL_BF16 ? DL_F32 : (dl_dtype)p->dtype;
}

void dl_optim_read(const dl_call *c, dl_optim_call *out);
