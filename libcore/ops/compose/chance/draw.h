/* Draws that several distributions are made of. */
#pragma once

#include "ops/compose/compose.h"

/* Numbers of the gamma distribution of shape a and rate 1, with a gradient for a; the pool keeps them. NULL: failed. */
dl_tensor *dl_gamma_of(dl_pool *p, dl_tensor *a, const long *shape, int n);
/* Noise from dl_rand or dl_randn in the shape of a draw: the attribute shape, then that which the parameters without
 * their last `event` dimensions broadcast to, then k where k > 0. The pool keeps it. */
dl_tensor *dl_draw_noise(dl_call *c, dl_pool *p, dl_tensor *(*from)(const long *, int, int, int), int event, long k);
/* Poisson numbers of these rates, f64 without history, as a new reference. NULL: failed. */
dl_tensor *dl_poisson_of(dl_tensor *rate);
