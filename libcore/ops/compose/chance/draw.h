/* Draws that several distributions are made of. */
#ifndef DL_OPS_COMPOSE_CHANCE_DRAW_H
#define DL_OPS_COMPOSE_CHANCE_DRAW_H

#include "ops/compose/compose.h"

/* Numbers of the gamma distribution of shape a and rate 1, with a gradient for a; the pool keeps them. NULL: failed. */
dl_tensor *dl_gamma_of(dl_pool *p, dl_tensor *a, const long *shape, int n);
/* Poisson numbers of these rates, f64 without history, as a new reference. NULL: failed. */
dl_tensor *dl_poisson_of(dl_tensor *rate);

#endif
