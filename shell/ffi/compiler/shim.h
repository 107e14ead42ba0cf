/* Names of headers without an address: inline functions, and macros that are not constants. Code for them is compiled
 * when they are used. */
#pragma once

#include "ffi/inside.h"

/* What such a name means, owned; VOID: recorded why it means nothing. */
dlsh_value dlsh_c_late_value(dlsh_cstate *st, dlsh_cname *n);
void dlsh_c_shims_free(dlsh_cstate *st);
