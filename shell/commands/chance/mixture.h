/* Mixtures of distributions of one kind, for distribution.c. New references; NULL: failed. */
#pragma once

#include "lang/eval/interp.h"

enum { DLSH_MIXTURE_DIM = 8 }; /* a tensor's dimensions at most */

/* The value as components take it, of which each value has `event` dimensions. */
dl_tensor *dlsh_mixture_value(dl_tensor *value, int event);
/* From the components' logarithms of densities [..., K] and the logits of the mixture. */
dl_tensor *dlsh_mixture_log_prob(dl_tensor *logits, dl_tensor *each);
/* Of draws of all components, [..., K, event], those that the indices [...] choose. */
dl_tensor *dlsh_mixture_chosen(dl_tensor *all, dl_tensor *index, long components, int event);
