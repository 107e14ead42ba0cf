/* More words for gradient rules, beside those of rules.h. */
#ifndef DL_OPS_GRAD_H
#define DL_OPS_GRAD_H

#include "ops/infer.h"
#include "ops/rules.h"

/* A pooled number of the language. */
#define NUM(v) T(dl_scalar_f(v))
/* A tensor of zeros laid out by expansion of a single one: takes no memory, and must not be written. */
dl_tensor *dl_zeros_like_in(dl_back *b, int i);

#endif
