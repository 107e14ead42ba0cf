/* More words for gradient rules, beside those of rules.h. */
#pragma once

#include "ops/infer.h"
#include "ops/rules.h"

/* A pooled number of the language. */
#define NUM(v) T(dl_scalar_f(v))
/* The conjugate of complex numbers, a temporary; real ones themselves. */
dl_tensor *dl_conj_of(dl_back *b, dl_tensor *t);
#define CONJ(t) dl_conj_of(b, (t))
/* Zeros in the shape of an input, a single one expanded: not to be written. */
dl_tensor *dl_zeros_like_in(dl_back *b, int i);
/* For ops that save all inputs. The gradients of the number that `objective` makes by differentiable ops from stand-ins
 * of the inputs: the sum of results times the gradients of outputs; NULL: it failed. */
dl_status dl_grad_by_rerun(dl_back *b, dl_tensor *(*objective)(dl_back *b, dl_tensor **in, void *arg), void *arg);
/* Is addcmul's product that of a column [m, 1] and a row, [n] or [1, n], of m by n numbers? The rule computes their
 * gradients as products of the incoming one with a vector, which no fused gradient need do faster. */
bool dl_addcmul_is_outer(dl_back *b);
/* total + sum(t * g), pooled; total NULL: the first term. */
dl_tensor *dl_plus_product(dl_back *b, dl_tensor *total, dl_tensor *t, dl_tensor *g);
