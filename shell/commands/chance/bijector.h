/* Invertible functions of what a distribution draws (bijector.c). */
#pragma once

#include "lang/command.h"

extern const dlsh_class dlsh_bijector_class;
/* Dimensions and sizes. */
enum { DLSH_MAX_SIZES = 8 };
typedef struct dlsh_sizes {
    int n;
    long size[DLSH_MAX_SIZES];
} dlsh_sizes;

/* The functions below give new references; NULL: failed. self: a value of that class. `by`: a list of such values, one
 * of which is applied after the other. */
/* What the transform makes of x, or with `back` what it made y of. */
dl_tensor *dlsh_bijector_apply(const void *self, dl_tensor *x, int back);
dl_tensor *dlsh_bijectors_apply(const dlsh_list *by, dl_tensor *x, int back);
/* ln|dy / dx|, of each value: the last dlsh_bijector_event(self, 0) dimensions of x are one. */
dl_tensor *dlsh_bijector_slope(const void *self, dl_tensor *x, dl_tensor *y);
/* The same where the last `event` dimensions of x are one value, at least as many as the bijectors take for one. */
dl_tensor *dlsh_bijectors_slope(const dlsh_list *by, dl_tensor *x, dl_tensor *y, int event);
/* How many dimensions one value has, before or after. */
int dlsh_bijector_event(const void *self, int after);
int dlsh_bijectors_event(const dlsh_list *by, int after);
/* Sizes after, or with `back` before. */
dl_status dlsh_bijector_sizes(const void *self, dlsh_sizes *s, int back);
dl_status dlsh_bijectors_sizes(const dlsh_list *by, dlsh_sizes *s, int back);
