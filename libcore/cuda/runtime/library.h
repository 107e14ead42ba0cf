/* NVIDIA's libraries, loaded when they are first needed, so that the plugin works where they are missing. */
#pragma once

#include "cuda/runtime/base.h"

/* Opens `name` ("libcublasLt.so.13") wherever the system finds it, else in the usual folders of the CUDA toolkit, and
 * looks up the symbols, named in a list that ends with NULL, into `into`. Returns the handle, why then being "", or
 * NULL with *why. */
void *dl_library_open(const char *name, const char *const *symbols, void **into, char *why, size_t size);
