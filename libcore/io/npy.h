/* .npy from memory, for what reads arrays out of other containers. */
#ifndef DL_IO_NPY_H
#define DL_IO_NPY_H

#include <stddef.h>

#include "dlcore.h"

/* Parses a whole .npy file in memory; `name` stands in messages. NULL on failure. */
dl_tensor *dl_npy_parse(const char *name, const void *bytes, size_t n, int device);

#endif
