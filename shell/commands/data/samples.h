/* Datasets made of values of the language. */
#pragma once

#include "lang/command.h"

/* What dataset(FIRST, ...) makes of a FIRST that is not a name of a kind: of tensors, lists, records, an iterator, a
 * function, or other datasets. */
dl_status dlsh_dataset_of_values(const dlsh_args *a, dl_dataset **d);
/* The same with tensors that are at hand, after the first `skip` arguments: dataset("tensor", x, y). */
dl_status dlsh_dataset_of_tensors(const dlsh_args *a, const dlsh_value *values, int n, dl_dataset **d);
