/* Folders of runs: the files of one kind in each of them. */
#pragma once

#include "core/error.h"

/* Gets the files of a folder by name, whose path from where the walk began is `below`. */
typedef dl_status dl_walk_visitor(void *ctx, const char *folder, char *const *files, long n, const char *below);
/* Is a file, by its name without folders, of the kind? */
typedef int dl_walk_kind(const char *name);
/* From `path` on, folders below it before it. Names that begin with a point are passed over. */
dl_status dl_walk(const char *path, dl_walk_kind *is, dl_walk_visitor *visit, void *ctx);
/* Is it such a file, or a folder with one in it or below? */
int dl_walk_found(const char *path, dl_walk_kind *is);
