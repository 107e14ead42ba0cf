/* Pointwise rows whose results are added up without being written. */
#pragma once

#include "ops/compose/loss.h"

/* The rows that a device may add up in one pass, see dl_backend.supports: with up to three operands and a formula. */
#define DL_SUMMED_ROWS(X)                                                                                              \
    X(mul)                                                                                                             \
    X(magnitude_power)                                                                                                 \
    X(square_difference)                                                                                               \
    X(huber_difference)                                                                                                \
    X(difference_power)                                                                                                \
    X(divergence)                                                                                                      \
    X(log_divergence)                                                                                                  \
    X(logit_loss)                                                                                                      \
    X(balanced_logit_loss)                                                                                             \
    X(probability_loss)                                                                                                \
    X(logistic_loss)                                                                                                   \
    X(hinge_loss)                                                                                                      \
    X(ranking_loss)                                                                                                    \
    X(poisson_loss)                                                                                                    \
    X(poisson_mean_loss)                                                                                               \
    X(normal_loss)
/* Such a device's kernel of `sum`, which has the flag DL_K_SUMS_ROWS, takes a call of the row with one operand more,
 * two numbers in host memory, and the sums of the results' last dimensions as its output: of the operands' dtype or
 * f32. They are divided by the first number and raised to the power of the second. */
enum { DL_SUMMED_OPERANDS = 3, DL_K_SUMS_ROWS = 1 << 4 };

/* The results of a row that is in DL_SUMMED_ROWS, reduced over the last dimensions (0: all). DL_REDUCE_NONE: the
 * results. number: what the formula names. Of 16 bits they have that dtype, and with `wide` in a composite that widens
 * f32, where gradients are wanted by the row's own results in f32. NULL passes. A new reference. */
dl_tensor *dl_row_total(const dl_op *op, dl_tensor *const *in, const double *number, long last, dl_reduction how,
                        bool wide);
/* Would a sum of the row's results for these operands take one pass, so that a composite is better made of this row
 * than of others? */
bool dl_row_sums(const dl_op *op, dl_tensor *const *in);
/* The same of a row that raises sizes to a power p above 0, dl_id_magnitude_power or dl_id_difference_power; and the
 * p-th root of such a sum. shift: what is added to differences. */
bool dl_sums_powers(int id, dl_tensor *const *in, double p);
dl_tensor *dl_root_of_powers(int id, dl_tensor *const *in, double p, double shift, long last, bool wide);
/* The sum of a * b, broadcast, over a dimension; wide: as above. NULL passes. A new reference. */
dl_tensor *dl_products_sum(dl_tensor *a, dl_tensor *b, long dim, bool wide);
/* The result of a loss that is that of a row for `in`, reduced as the attribute says. */
dl_status dl_finish_row(dl_call *c, int id, dl_tensor *const *in, const double *number);
/* The same, each of its results times a weight; NULL: no weights. */
dl_status dl_finish_weighted(dl_call *c, int id, dl_tensor *const *in, const double *number, dl_tensor *w);
