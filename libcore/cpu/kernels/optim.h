/* Loops of the optimizers' steps: optim_simd.c makes them from optim/optimizers.def, optim.c runs them. */
#ifndef DL_CPU_OPTIM_H
#define DL_CPU_OPTIM_H

#include "cpu/runtime/simd.h"
#include "optim/steps.h"

enum {
#define OPTIMIZER(name, ...) DL_OPTIMIZER_##name,
#include "optim/optimizers.def"
    DL_NOPTIMIZER
};

/* One step: the rate and the scalars of the optimizer, and bits of the optional states that there are. */
typedef struct dl_optim {
    double scalar[DL_OPTIM_SCALARS];
    unsigned wants;
    bool first;
} dl_optim;

/* n elements of parameter, gradient and states: the optimizer's own states, then its optional ones; absent ones are
 * NULL. */
typedef void (*dl_optim_loop)(long n, const dl_optim *o, void *const *t);

DL_SIMD_DECL(extern const dl_optim_loop, dl_optim_loops, [DL_NOPTIMIZER][2]); /* f32, f64 */

#endif
