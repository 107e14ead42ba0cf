/* Writing at indices, of which several may name one place. */
#pragma once

#include "ops/compose/compose.h"

typedef enum dl_put_how { DL_PUT_LAST, DL_PUT_SUM, DL_PUT_PROD, DL_PUT_MEAN, DL_PUT_MAX, DL_PUT_MIN } dl_put_how;

/* A copy of x in which the elements of src are joined along dim at the places of an index of src's shape; of equal
 * places all. keep: with what stands there, too. DL_PUT_LAST writes the last of those with one place. */
dl_tensor *dl_put_elements(dl_tensor *x, dl_tensor *index, dl_tensor *src, int dim, dl_put_how how, bool keep);
/* The same with rows of src at a list of indices. */
dl_tensor *dl_put_rows(dl_tensor *x, dl_tensor *index, dl_tensor *src, int dim, dl_put_how how, bool keep);

/* "sum", "prod", "mean", "amax", "amin". */
dl_status dl_put_how_of(const char *name, dl_put_how *how);

/* A contiguous copy of x; pooled. */
dl_tensor *dl_put_copy(dl_pool *p, dl_tensor *x);
/* That copy with src written into `part`, a view of it. DL_ERR_SHAPE; a new reference. */
dl_tensor *dl_put_part(dl_tensor *copy, const dl_tensor *part, dl_tensor *src);
