/* Running a program and reading what it prints. */
#ifndef DLSH_FFI_SPAWN_H
#define DLSH_FFI_SPAWN_H

#include "lang/value.h"

/* What a program printed: of many bytes the first ones. */
typedef struct dlsh_said {
    dlsh_buf text;
    size_t most;     /* bytes that are kept; 0: all */
    size_t left_out; /* bytes that were printed behind them */
} dlsh_said;
/* Runs the program at `path` without input and with messages in English; what it prints on stdout and, with `errors`,
 * on stderr is added to *said. *status as of waitpid. DL_ERR_IO: it cannot be started. */
dl_status dlsh_spawn_read(const char *path, char *const *argv, int errors, dlsh_said *said, int *status);
/* Where a program lies on the PATH. 0: nowhere. */
int dlsh_spawn_find(const char *name, char *path, size_t size);

#endif
