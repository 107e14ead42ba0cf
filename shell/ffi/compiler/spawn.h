/* Running a program and reading what it prints. */
#pragma once

#include "lang/value.h"

/* What a program printed, up to a limit. */
typedef struct dlsh_output {
    dlsh_buf text;
    size_t limit;    /* bytes to keep; 0: all */
    size_t left_out; /* bytes printed beyond the limit */
} dlsh_output;
/* Runs the program at `path` without input and with messages in English; what it prints on stdout and, with `errors`,
 * on stderr is added to *said. *status as of waitpid. DL_ERR_IO: it cannot be started. */
dl_status dlsh_spawn_read(const char *path, char *const *argv, int errors, dlsh_output *said, int *status);
/* The environment with one more setting, "NAME=value", which replaces that of the name; the caller frees the array
 * alone. NULL without memory (recorded). */
char **dlsh_spawn_environment(const char *setting);
/* The path of a program that is found on PATH; 0: there is none. */
int dlsh_spawn_find(const char *name, char *path, size_t size);
