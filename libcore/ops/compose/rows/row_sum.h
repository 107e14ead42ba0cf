/* Pointwise rows whose results are added up without being written. */
#pragma once

#include "ops/compose/loss.h"

/* The rows that a device may add up in one pass, see dl_backend.supports: with two operands and a formula. */
#define DL_SUMMED_ROWS(X)                                                                                              \
    X(square_difference) X(huber_difference) X(divergence) X(log_divergence) X(logit_loss) X(probability_loss)
/* Such a device's kernel of `sum`, which has the flag DL_K_SUMS_ROWS, takes a call of the row with one operand more, a
 * number in host memory, and the sums of the results' last dimensions as its output: of the operands' dtype or f32.
 * They are divided by that number. */
enum { DL_SUM_BY = 2, DL_K_SUMS_ROWS = 1 << 4 };

/* The results of a row that is in DL_SUMMED_ROWS for two operands, reduced over the last dimensions (0: all).
 * DL_REDUCE_NONE: the results. number: what the formula names. Of 16 bits they have that dtype, and with `wide`, unless
 * gradients are wanted, f32. NULL passes. A new reference. */
dl_tensor *dl_row_total(const dl_op *op, dl_tensor *const *in, const double *number, long last, dl_reduction how,
                        bool wide);
/* Would a sum of the row's results for these operands take one pass, and leave nothing on the tape, so that a loss may
 * be made of this row in place of others? */
bool dl_row_sums_quietly(const dl_op *op, dl_tensor *const *in);
/* delta and scale with which huber_difference is |a - b|. */
extern const double dl_size_of_difference[2];
/* The result of a loss that is that of inputs 0 and 1, reduced as the attribute says. */
dl_status dl_finish_row(dl_call *c, const dl_op *op, const double *number);
