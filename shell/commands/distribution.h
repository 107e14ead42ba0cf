/* Probability distributions as values (distribution.c). */
#ifndef DLSH_COMMANDS_DISTRIBUTION_H
#define DLSH_COMMANDS_DISTRIBUTION_H

#include "lang/command.h"

extern const dlsh_class dlsh_distribution_class;

#endif
