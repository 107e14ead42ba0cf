/* Optimizers that are algorithms: a step of theirs evaluates the loss several times. Their options are rows of
 * optimizers.def, too. */
#pragma once

#include "optim/optimizer.h"

/* The tensor of that name in a state, or NULL; borrowed. */
typedef dl_tensor *dl_find_fn(const void *ctx, const char *name);

struct dl_opt_algorithm {
    void *(*create)(void); /* what the algorithm keeps: the optimizer's `algorithm` */
    void (*destroy)(void *self);
    dl_status (*check)(const dl_kind_row *k, const dl_optval *val); /* of options that no range limits */
    dl_status (*run)(dl_optimizer *o, dl_closure_fn *closure, void *ctx, double *loss);
    dl_status (*state)(void *self, dl_state_fn *fn, void *ctx);
    /* On failure, and where `write` is off, it is as before. */
    dl_status (*restore)(dl_optimizer *o, dl_find_fn *find, const void *ctx, bool write);
};
extern const dl_opt_algorithm dl_algorithm_lbfgs;
