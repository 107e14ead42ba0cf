/* Composites that compute in f32, and convert an operand of 16 bits only where a row cannot read it as it is. */
#pragma once

#include "core/op.h"

/* A further flag of rows, as DL_F_WIDE; and one of kernels: they make f32 of inputs of 16 bits where the output is f32.
 */
enum { DL_F_WIDEN = 1 << 15, DL_K_WIDE = 1 << 3 };

/* In the thread's rows from here on, as in such a composite; NULL: not so. Returns what it was, for a later call. */
struct dl_widening *dl_widening_swap(struct dl_widening *to);
