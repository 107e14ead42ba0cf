/* Invertible functions of what a distribution draws (bijector.c). */
#pragma once

#include "lang/command.h"

extern const dlsh_class dlsh_bijector_class;
/* The functions below give new references; NULL: failed. self: a value of that class. */
/* What the transform makes of x, or with `back` what it made y of. */
dl_tensor *dlsh_bijector_apply(const void *self, dl_tensor *x, int back);
/* ln|dy / dx| for each element. */
dl_tensor *dlsh_bijector_slope(const void *self, dl_tensor *x, dl_tensor *y);
