/* Means, variances and modes of distributions (moments.c). */
#pragma once

#include "lang/value.h"

/* mean, variance, stddev or mode of a distribution of that kind with these parameters, as the ops take them.
 * DL_ERR_NAME, unrecorded: it is no such field, or none of this kind. */
dl_status dlsh_moment(const char *kind, dl_tensor *const *param, const char *field, dlsh_value *out);
/* The probabilities of classes, or of a coin, that logits stand for. */
dl_tensor *dlsh_shares_of(dl_tensor *logits, int of_classes);
