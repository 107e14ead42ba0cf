/* Running a program and reading what it prints. */
#ifndef DLSH_FFI_SPAWN_H
#define DLSH_FFI_SPAWN_H

#include "lang/value.h"

/* Runs the program at `path` without input and with messages in English; what it prints on stdout and, with `errors`,
 * on stderr is added to *said. *status as of waitpid. DL_ERR_IO: it cannot be started. */
dl_status dlsh_spawn_read(const char *path, char *const *argv, int errors, dlsh_buf *said, int *status);
/* Where a program lies on the PATH. 0: nowhere. */
int dlsh_spawn_find(const char *name, char *path, size_t size);

#endif
