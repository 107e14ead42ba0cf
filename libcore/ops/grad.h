/* More words for gradient rules, beside those of rules.h. */
#ifndef DL_OPS_GRAD_H
#define DL_OPS_GRAD_H

#include "ops/infer.h"
#include "ops/rules.h"

/* A pooled number of the language. */
#define NUM(v) T(dl_scalar_f(v))
/* Zeros in the shape of an input, a single one expanded: not to be written. */
dl_tensor *dl_zeros_like_in(dl_back *b, int i);

#endif
