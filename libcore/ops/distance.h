/* Distances of all vectors of one set from all of another, for cdist and its gradient. */
#pragma once

#include "ops/compose/compose.h"

/* norm(a[i] - b[j], p), a new reference. The differences are in memory at once, unless a kernel adds them up. */
dl_tensor *dl_distances(dl_tensor *a, dl_tensor *b, double p);
/* Rows of a whose distances from all of b are computed at once, at least 1. */
long dl_distance_block(const dl_tensor *a, const dl_tensor *b, double p);
/* Are the distances roots of squares by a product of matrices? */
bool dl_distance_by_product(const dl_tensor *a, const dl_tensor *b, const dl_aval *attr);
/* t, or its numbers as f32 if they are of 16 bits; NULL: failed. */
dl_tensor *dl_distance_wide(dl_pool *p, dl_tensor *t);
