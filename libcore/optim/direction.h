/* Optimizers whose steps go in a direction that depends on whole matrices: it is computed by ops, into the state
 * `direction`, before the row's formula runs. Rows of optimizers.def name theirs by DIRECTION(name). */
#pragma once

#include "optim/optimizer.h"

/* Fills the state `direction` of a parameter that has a gradient. number: the rate, behind it a halt where it has two
 * elements, and the number of the step, which lie on the parameter's device. */
typedef dl_status dl_direction_fn(const dl_opt_row *row, const dl_optval *val, dl_opt_param *p,
                                  dl_tensor *const *number);
dl_direction_fn dl_direction_muon, dl_direction_adafactor;

/* The function that the row names, or NULL. */
dl_direction_fn *dl_direction_of(const dl_opt_row *row);
/* FACTORED: the direction is there during a step alone, and the optional states have shapes of their own. */
bool dl_direction_passes(const dl_opt_row *row);
