/* Safetensors from memory: what the fuzz target and the reader share. */
#pragma once

#include <stddef.h>

#include "core/error.h"
#include "dlcore.h"

/* Parses a whole file in memory; `name` is used in messages. NULL on failure. */
dl_tensor_file *dl_safetensors_parse(const char *name, const void *data, size_t n, int device);

/* For readers of other formats: a handle with room for `most` tensors, and one more in it; takes the reference, also
 * on failure. `format` is borrowed. */
dl_tensor_file *dl_tensor_file_new(long most, const char *format);
dl_status dl_tensor_file_add(dl_tensor_file *f, const char *name, dl_tensor *t);
/* After a failure to read the tensor of that name: when only its dtype is unknown it is left out, see
 * dl_tensor_file_skipped; another failure is given back. */
dl_status dl_tensor_file_leave_out(dl_tensor_file *f, const char *name);
/* The value that the file is, see dl_tensor_file_value; *v is moved into the handle. */
void dl_tensor_file_keep(dl_tensor_file *f, dl_stored *v);
