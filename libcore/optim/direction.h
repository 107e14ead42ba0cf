/* Optimizers whose steps go in a direction that depends on whole matrices: it is computed by ops, into the state
 * `direction`, before the row's formula runs. Rows of optimizers.def name theirs by DIRECTION(name). */
#pragma once

#include "optim/optimizer.h"

/* Fills the state `direction` of a parameter that has a gradient. */
typedef dl_status dl_direction_fn(const dl_opt_row *row, const dl_optval *val, dl_opt_param *p);
dl_direction_fn dl_direction_muon;

/* The function that the row names, or NULL. */
dl_direction_fn *dl_direction_of(const dl_opt_row *row);
