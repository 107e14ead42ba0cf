/* Ranks of elements along a dimension. */
#pragma once

#include "core/op.h"

/* The dimension of a call of ranked_place and its size; an error where it has no element of the rank. */
dl_status dl_rank_of(const dl_call *c, int *d, long *n);
