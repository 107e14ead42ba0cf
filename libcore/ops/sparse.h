/* Sparse matrices in compressed rows: what their ops share. Row r has the entries crow[r] to crow[r + 1] - 1; entry e
 * stands in column col[e]. Entries of a row may stand in any order; those of one place add up. */
#ifndef DL_OPS_SPARSE_H
#define DL_OPS_SPARSE_H

#include "ops/infer.h"

/* The first row at which crow[rows + 1] does not go up from 0 to nnz; -1: it does. */
long dl_crow_wrong(const long *crow, long rows, long nnz);
/* DL_ERR_INDEX that tells of the row that dl_crow_wrong found, and of an entry. */
dl_status dl_fail_crow(const long *crow, long rows, long nnz, long row);
dl_status dl_fail_column(long entry, long column, long cols);

#endif
