/* Short words in which the files of distributions write their formulas; c is the call, p its pool. */
#pragma once

#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/elementary.h"
#include "dlcore/unary.h"

#define LN_2PI 1.8378770664093454836
#define IN(i) (c->in[i])
#define ADD(a, b) K(dl_add((a), (b)))
#define SUB(a, b) K(dl_sub((a), (b)))
#define MUL(a, b) K(dl_mul((a), (b)))
#define DIV(a, b) K(dl_div((a), (b)))
#define LOG(x) K(dl_log(x))
#define SQUARE(x) K(dl_square(x))
#define LGAMMA(x) K(dl_lgamma(x))
#define DIGAMMA(x) K(dl_digamma(x))
/* The pool keeps x; NULL: a part failed. */
