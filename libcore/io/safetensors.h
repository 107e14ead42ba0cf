/* Safetensors from memory: what the fuzz target and the reader share. */
#ifndef DL_IO_SAFETENSORS_H
#define DL_IO_SAFETENSORS_H

#include <stddef.h>

#include "dlcore.h"

/* Parses a whole file in memory; `name` stands in messages. NULL on failure. */
dl_tensor_file *dl_safetensors_parse(const char *name, const void *data, size_t n, int device);

#endif
