/* Probability distributions as values (distribution.c). */
#pragma once

#include "lang/command.h"

extern const dlsh_class dlsh_distribution_class;
/* Parameter number i of a distribution, of a mixture those of its parts, borrowed; NULL: it has fewer. */
dl_tensor *dlsh_distribution_param(const void *self, int i);
