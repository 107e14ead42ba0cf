/* Functions of functions (functional.c). */
#pragma once

#include "lang/value.h"

/* A function that gives the derivatives of fn by argument number argnums; of_number: fn must give one number. */
dl_status dlsh_derivatives_of(dlsh_value fn, long argnums, int of_number, dlsh_value *result);
