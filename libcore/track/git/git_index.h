/* The index of a git work tree, its files brought up to date, and what differs from a commit. */
#pragma once

#include <stdio.h>
#include <time.h>

#include "track/git/git.h"

/* Modes of files, and the bits of an entry's flags that tell the stage of a merge conflict. */
enum {
    DL_GIT_FOLDER = 040000,
    DL_GIT_PLAIN = 0100644,
    DL_GIT_PROGRAM = 0100755,
    DL_GIT_LINK = 0120000,
    DL_GIT_SUBMODULE = 0160000,
    DL_GIT_STAGE = 0x3000
};

typedef struct dl_git_entry {
    char *path;
    unsigned mode, flags, more;
    uint32_t ctime_s, ctime_ns, mtime_s, mtime_ns, inode, size;
    uint8_t id[DL_GIT_ID];
    bool gone;
} dl_git_entry;

typedef struct dl_git_index {
    dl_git_repo *r;
    struct timespec written;
    long n;
    dl_git_entry *e;
    size_t paths; /* bytes of them */
} dl_git_index;

/* Reads the index and the files as they are now, and gives the id of their tree: the result of `git add -u; git
 * write-tree`, without writing, filters and conversion of line ends. Files whose size and time are those of the index
 * are not read; for one that cannot be read before the deadline, or is larger than `unread`, size and time are hashed.
 * A submodule enters with the commit of its HEAD. False: the index cannot be read. dl_git_index_free in any case. */
bool dl_git_index_read(dl_git_index *x, dl_git_repo *r, uint8_t *tree);
void dl_git_index_free(dl_git_index *x);
/* The tree of the consecutive entries from *at on that share the first `prefix` bytes of their paths. *empty: all of
 * them are gone. */
bool dl_git_index_tree(const dl_git_index *x, long *at, size_t prefix, int depth, uint8_t *id, bool *empty);

/* Writes what differs between the tree of a commit and the files of the index, as `git diff HEAD` does and `git apply`
 * takes; contents that are not text are base85. Files that are too large or cannot be read are named in lines that
 * begin with #. */
void dl_git_diff(const dl_git_objects *f, const dl_git_index *x, const uint8_t *tree, FILE *out);
