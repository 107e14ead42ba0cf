/* Files that appear whole or not at all: written beside their place, synced, renamed. */
#ifndef DL_IO_ATOMIC_H
#define DL_IO_ATOMIC_H

#include <stddef.h>

#include "core/error.h"

typedef struct dl_atomic {
    int fd;
    char *path, *tmp; /* the place, links followed; the file being written */
} dl_atomic;

/* Begins a file that will stand at `path`. Errors: DL_ERR_IO, DL_ERR_MEMORY; *a is then closed. */
dl_status dl_atomic_open(dl_atomic *a, const char *path);
/* Appends; on failure the file is discarded. */
dl_status dl_atomic_write(dl_atomic *a, const void *data, size_t n);
/* Syncs, renames and syncs the folder. On failure the old file, if any, is still in place. */
dl_status dl_atomic_commit(dl_atomic *a);
/* Gives up; harmless after commit or failure. */
void dl_atomic_discard(dl_atomic *a);

/* A file's bytes, mapped read-only. An empty file has data NULL. */
typedef struct dl_mapped {
    void *data;
    size_t n;
} dl_mapped;
dl_status dl_map_file(dl_mapped *m, const char *path);
void dl_unmap_file(dl_mapped *m);

#endif
