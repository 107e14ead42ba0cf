/* What gradcheck does beyond derivatives for an op that a user has made in C. */
#pragma once

#include "ffi/call/userop.h"

/* Inputs to check with, by the op's sample sizes: f64, or the dtype that an input is of. in[] has room for 8. */
dl_status dlsh_opcheck_inputs(const dlsh_userop *u, dl_tensor **in);
/* Checks that inputs stay unchanged, that strided, empty and NaN inputs work, that f32 agrees with f64; with functions
 * for a GPU the same there, and results and gradients are those of the CPU; without a GPU a line says so. Each check's
 * outcome is printed and entered into the record; *ok becomes 0 when one fails. */
dl_status dlsh_opcheck(const dlsh_userop *u, const char *name, dl_tensor **in, int n, struct dlsh_sink *sink,
                       dlsh_record *record, int *ok);
