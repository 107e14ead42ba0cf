/* Reference cycles: tensors and nodes that only hold each other. */
#pragma once

#include "core/tensor.h"

/* To be called when t has a new gradient: makes t a candidate when that can lead back to it, and collects cycles when
 * there are many candidates or memory has grown. */
void dl_cycle_check(dl_tensor *t);
/* t, a candidate, is being freed. */
void dl_cycle_remove(dl_tensor *t);
/* Frees the cycles of this thread's candidates. Returns how many candidates were in them. */
long dl_cycles_collect(void);
