/* What gradient rules and compositions of linear algebra share: batches of matrices, [..., rows, columns]. Functions
 * take NULL for an operand that failed, and return temporaries of the pool. */
#pragma once

#include "ops/compose/compose.h"

/* Rows and columns swapped. */
dl_tensor *dl_mat_turned(dl_pool *p, dl_tensor *t);
/* The same, and of complex numbers the conjugates. */
dl_tensor *dl_mat_adjoint(dl_pool *p, dl_tensor *t);
dl_tensor *dl_mat_mul(dl_pool *p, dl_tensor *a, dl_tensor *b);
/* Columns of t, [..., n, k], times the numbers v, [..., k]; and rows times v, [..., n]. */
dl_tensor *dl_mat_scale_columns(dl_pool *p, dl_tensor *t, dl_tensor *v);
dl_tensor *dl_mat_scale_rows(dl_pool *p, dl_tensor *t, dl_tensor *v);
/* X with A X = B of a triangular A, or with adjoint A^H X = B. */
dl_tensor *dl_mat_triangle(dl_pool *p, dl_tensor *a, dl_tensor *b, bool upper, bool adjoint, bool unit);
/* Ones on the diagonal, in the dtype of t and on its device. */
dl_tensor *dl_mat_eye(dl_pool *p, const dl_tensor *t, long n);
/* Indices from..to (to < 0: the end) of the rows, or of the columns. */
dl_tensor *dl_mat_rows(dl_pool *p, dl_tensor *t, long from, long to);
dl_tensor *dl_mat_columns(dl_pool *p, dl_tensor *t, long from, long to);
/* Row order[i] of t as row i; with back row i as row order[i]. */
dl_tensor *dl_mat_order_rows(dl_pool *p, dl_tensor *t, dl_tensor *order, bool back);
/* t, [..., n, n], with the diagonal replaced by v, [..., n], or by one number. */
dl_tensor *dl_mat_with_diagonal(dl_pool *p, dl_tensor *t, dl_tensor *v);

static inline long dl_mat_height(const dl_tensor *t) { return t->shape[t->ndim - 2]; }
static inline long dl_mat_width(const dl_tensor *t) { return t->shape[t->ndim - 1]; }
