/* How arithmetic is done, for the whole process: precision and determinism. */
#ifndef DL_CORE_MODE_H
#define DL_CORE_MODE_H

#include "core/op.h"

#include <stdbool.h>

/* f32 products and convolutions may round their operands to tf32. */
bool dl_tf32_allowed(void);
/* Library algorithms must be among those that repeat bit for bit. */
bool dl_deterministic(void);
/* The dtype in which a row takes an operand of dtype t under the present precision; t itself mostly. */
dl_dtype dl_mixed_dtype(const dl_op *op, dl_dtype t);

#endif
