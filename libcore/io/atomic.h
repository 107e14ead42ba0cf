/* Files that appear whole or not at all: written beside their place, synced, renamed. */
#pragma once

#include <stddef.h>

#include "core/error.h"

typedef struct dl_atomic {
    int fd;
    char *path, *tmp; /* the place, links followed; the file being written, NULL: a device or FIFO, written in place */
} dl_atomic;

/* Begins a file that will stand at `path`, with the permissions of the one it replaces. What killed writers left in
 * that folder is removed. Errors: DL_ERR_IO, DL_ERR_MEMORY; *a is then closed. */
dl_status dl_atomic_open(dl_atomic *a, const char *path);
/* Appends; on failure the file is discarded. */
dl_status dl_atomic_write(dl_atomic *a, const void *data, size_t n);
/* Syncs, renames and syncs the folder. On failure the old file, if any, is still in place. */
dl_status dl_atomic_commit(dl_atomic *a);
/* This thread's files are shown when they are complete and synced, before they get their names. NULL: no longer. */
typedef void dl_atomic_fn(void *ctx, const char *written, const char *path);
void dl_atomic_watch(dl_atomic_fn *fn, void *ctx);
/* Commits when st is DL_OK, else discards the file. Returns st, or the failure of the commit. */
dl_status dl_atomic_finish(dl_atomic *a, dl_status st);
/* Gives up; harmless after commit or failure. */
void dl_atomic_discard(dl_atomic *a);
