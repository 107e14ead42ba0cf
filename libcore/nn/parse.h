/* Text of the form "kind value name=value", for whatever is made from a kind and arguments. */
#pragma once

#include "dlcore.h"

typedef void *dl_make_fn(const char *kind, const dl_arg *args, int nargs);
/* Reads "adam lr=1e-3" or "adam(lr=1e-3)" and hands it to `make`. NULL on failure. */
void *dl_parse_call(const char *text, dl_make_fn *make);
