/* Loops of the optimizers' steps: optim_simd.c makes them from optim/optimizers.def, optim.c runs them. */
#pragma once

#include "cpu/runtime/simd.h"
#include "optim/steps.h"

enum {
#define OPTIMIZER(name, ...) DL_OPTIMIZER_##name,
#include "optim/optimizers.def"
    DL_NOPTIMIZER
};

/* One step: the rate and the scalars of the optimizer, the norms of one tensor, and bits of the optional states that
 * there are. */
typedef struct dl_optim {
    double scalar[DL_OPTIM_SCALARS], norm[DL_OPTIM_NORMS];
    unsigned wants;
    bool first;
} dl_optim;

/* n elements of parameter, gradient and states: the optimizer's own states, then its optional ones; absent ones are
 * NULL. */
typedef void (*dl_optim_loop)(long n, const dl_optim *o, void *const *t);
/* Of such elements the sums of squares of what the optimizer measures, into sum[DL_OPTIM_NORMS]. */
typedef void (*dl_optim_measure)(long n, const dl_optim *o, void *const *t, double *sum);

typedef struct dl_optim_loops {
    int norms;                   /* 0: nothing is measured */
    dl_optim_measure measure[2]; /* f32, f64 */
    dl_optim_loop update[2];
} dl_optim_loops;
DL_SIMD_DECL(extern const dl_optim_loops, dl_optim_row_loops, [DL_NOPTIMIZER]);
