/* For batch rules: operands in which the samples lie along dimension 0 are "mapped"; the shape of one sample is that of
 * b->one[i]. A rule changes operands and attributes, then calls the row once for all samples. */
#pragma once

#include "core/scope.h"
#include "ops/rules.h"

/* Operand i becomes t, whose reference is taken; NULL: the error recorded. */
dl_status dl_samples_put(dl_batched *b, int i, dl_tensor *t);
/* Operand i in a shape of ndim sizes. */
dl_status dl_samples_reshape(dl_batched *b, int i, const long *shape, int ndim);
/* Makes operand i, where it is the same for all samples, a mapped one without copying it. */
dl_status dl_samples_spread(dl_batched *b, int i);
dl_status dl_samples_spread_all(dl_batched *b);
/* Gives the samples of operand i sizes of 1 in front until they have ndim dimensions. */
dl_status dl_samples_deepen(dl_batched *b, int i, int ndim);
/* Joins the samples with dimension 0 of each: [size, n, ...] to [size * n, ...]. */
dl_status dl_samples_fold(dl_batched *b, int i);
/* The row itself, with the operands and attributes as they are now. */
dl_status dl_samples_invoke(dl_batched *b);
/* Dimensions that attributes name are those of a sample of ndim dimensions: makes them those of the batch. `all`: a
 * list that is absent or empty means all of them. */
dl_status dl_samples_shift(dl_batched *b, int ndim, bool all);
/* This call has no batched form. */
static inline dl_status dl_samples_each(dl_batched *b) { return b->each = true, DL_OK; }

/* Mapped? Absent operands are not. */
static inline bool dl_samples_has(const dl_batched *b, int i) { return i < b->nin && b->in[i] && b->mapped[i]; }
/* Is there such an operand? */
static inline bool dl_samples_given(const dl_batched *b, int i) { return i < b->nin && b->in[i]; }
