/* Composites that compute in f32, and convert an operand of 16 bits only where a row cannot read it as it is. */
#pragma once

#include "core/op.h"

/* A further flag of rows, as DL_F_WIDE; and three of kernels: they make f32 of inputs of 16 bits where the output is
 * f32; 16 bits of a first input of 16 bits and a second one of f32, for which they compute in f32; and calls in f32
 * read operands of other real dtypes as they are. */
enum { DL_F_WIDEN = 1 << 15, DL_K_WIDE = 1 << 3, DL_K_NARROW = 1 << 5, DL_K_READS = 1 << 6 };

/* In the thread's rows from here on, as in such a composite; NULL: not so. Returns what it was, for a later call. */
struct dl_widening *dl_widening_swap(struct dl_widening *to);

/* Does the result of this call of a composite stay in f32, for one that runs it? */
bool dl_widening_goes_on(const dl_call *c);
/* The row that makes the result of this call comes next: a kernel with DL_K_NARROW or DL_K_WIDE rounds it once, where
 * no gradient is wanted. */
void dl_widening_ends(const dl_call *c);
