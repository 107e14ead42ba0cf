/* Recorded calls that are random or write to their operands, run again on other operands. */
#pragma once

#include "lang/session.h"

/* Can the call be run again so that chance falls as it did and nothing is written to? */
int dlsh_again_is_known(const dl_recorded *c);
/* Runs it; out[0] to out[*n - 1] are owned by the caller. They are the first results of the call. */
dl_status dlsh_again(const dl_recorded *c, dl_tensor *const *in, dl_tensor **out, int *n);
