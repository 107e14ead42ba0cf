/* How arithmetic is done, for the whole process: precision and determinism. */
#pragma once

#include "core/op.h"

#include <stdbool.h>

/* May f32 products and convolutions round their operands to tf32? */
bool dl_tf32_allowed(void);
/* Must results repeat bit for bit? */
bool dl_deterministic(void);
/* The dtype that an op takes an operand of dtype t in under the precision in force; without mixed precision t. */
dl_dtype dl_mixed_dtype(const dl_op *op, dl_dtype t);

/* With `on`, the work of this thread is recorded for a graph and not run: there are no numbers to read yet. */
void dl_deferred_set(bool on);
bool dl_deferred_get(void);
