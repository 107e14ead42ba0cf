/* Trees of values read from files (dl_stored): making them, and the tensors in them by name. */
#pragma once

#include <stddef.h>

#include "core/error.h"
#include "dlcore.h"

/* Values are zeroed where they are made, so that what was filled in part can be released. */
void dl_stored_clear(dl_stored *v);
/* text[n] as a string. DL_ERR_FORMAT when it holds NUL or is not UTF-8; `name` is used in the message. */
dl_status dl_stored_set_text(dl_stored *v, const char *name, const char *text, size_t n);
/* n values to be filled in, DL_STORED_NONE at first; a record's keys are NULL until they are set. */
dl_status dl_stored_set_items(dl_stored *v, dl_stored_kind kind, long n);
/* Key i of a record, from text[n]. */
dl_status dl_stored_set_key(dl_stored *v, long i, const char *name, const char *text, size_t n);

/* A handle on the value at *v, which is taken, with every tensor in it, whose name is the way to it: "model.0.weight".
 * `format` is borrowed. NULL on failure; *v is then cleared. */
dl_tensor_file *dl_stored_file(dl_stored *v, const char *format);
/* Where in such a file the weights of a net stand, as a prefix of names: "" when tensors lie at the top, else that of
 * the only record of tensors there, or of the one with a usual name. DL_ERR_NAME: it is not clear which. */
dl_status dl_stored_weights(const dl_tensor_file *f, const char *path, char *prefix, size_t size);
