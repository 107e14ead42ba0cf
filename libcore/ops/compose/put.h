/* Writing at indices, of which several may name one place. */
#pragma once

#include "ops/compose/compose.h"

typedef enum dl_put_how { DL_PUT_LAST, DL_PUT_SUM, DL_PUT_PROD, DL_PUT_MEAN, DL_PUT_MAX, DL_PUT_MIN } dl_put_how;

/* A copy of x, [n, ...], in which row index[i] is joined with row i of src, [m, ...]; of equal indices all. keep: with
 * what stands there, too. DL_PUT_LAST writes the last row of those with one index. */
dl_tensor *dl_put_rows(dl_tensor *x, dl_tensor *index, dl_tensor *src, dl_put_how how, bool keep);

/* "sum", "prod", "mean", "amax", "amin". */
dl_status dl_put_how_of(const char *name, dl_put_how *how);
/* An index with negative places counted from the end, flat; DL_ERR_INDEX for one out of range. */
dl_tensor *dl_put_index(dl_pool *p, dl_tensor *index, int dim, long size);

/* A contiguous copy of x; pooled. */
dl_tensor *dl_put_copy(dl_pool *p, dl_tensor *x);
/* That copy with src written into `part`, a view of it. DL_ERR_SHAPE; a new reference. */
dl_tensor *dl_put_part(dl_tensor *copy, const dl_tensor *part, dl_tensor *src);
