/* Probability distributions as values (distribution.c). */
#pragma once

#include "lang/command.h"

extern const dlsh_class dlsh_distribution_class;
