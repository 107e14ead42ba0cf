/* Reading a git repository: its references, objects and index. No program is run. */
#pragma once

#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_Init and its kin, which allocate nothing and so cannot fail */
#include <openssl/sha.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum { DL_GIT_PATH = 4096, DL_GIT_ID = 32 /* bytes of an object's name: 20 of SHA-1, 32 of SHA-256 */ };

typedef struct dl_git_repo {
    char tree[DL_GIT_PATH];   /* the work tree */
    char dir[DL_GIT_PATH];    /* its .git: HEAD and index */
    char common[DL_GIT_PATH]; /* what work trees share: refs and objects */
    int id_bytes;
    bool file_mode; /* whether the file system keeps the bit for programs */
    int64_t deadline_us;
    uint64_t unread; /* bytes of changed files that may still be read */
} dl_git_repo;

/* A regular file of at most `limit` bytes, followed by a NUL; *n bytes. NULL: there is none, or it cannot be read. */
char *dl_git_slurp(const char *path, size_t limit, size_t *n);
/* Bytes from hexadecimal; false when it is none. */
bool dl_git_from_hex(const char *hex, int bytes, uint8_t *out);

/* What objects are, as packs number them. */
typedef enum dl_git_kind { DL_GIT_NOTHING, DL_GIT_COMMIT, DL_GIT_TREE, DL_GIT_BLOB } dl_git_kind;
/* The objects of a repository, which it borrows. NULL: no memory. */
typedef struct dl_git_objects dl_git_objects;
dl_git_objects *dl_git_objects_open(const dl_git_repo *r);
void dl_git_objects_close(dl_git_objects *f);
/* The contents of an object, *n bytes, to be freed. NULL: it is not there, damaged, too large, or of another kind. */
uint8_t *dl_git_object(const dl_git_objects *f, const uint8_t *id, dl_git_kind kind, size_t *n);
/* The tree of a commit. False when the object cannot be read. */
bool dl_git_commit_tree(const dl_git_objects *f, const uint8_t *commit, uint8_t *tree);
/* The commit that is checked out in the work tree at a path, `bytes` of it. False: there is none. */
bool dl_git_head_of(const char *tree, int bytes, uint8_t *commit);

/* Hash of an object: its kind, its size, and the bytes given to dl_git_hash_add. */
typedef struct dl_git_hash {
    int id_bytes; /* 20: SHA-1, 32: SHA-256 */
    union {
        SHA_CTX sha1;
        SHA256_CTX sha256;
    } c;
} dl_git_hash;
void dl_git_hash_begin(dl_git_hash *h, int id_bytes, const char *kind, uint64_t size);
void dl_git_hash_add(dl_git_hash *h, const void *data, size_t n);
void dl_git_hash_end(dl_git_hash *h, uint8_t *id);
/* The same of n bytes at once. */
void dl_git_hash_of(int id_bytes, const char *kind, const void *data, size_t n, uint8_t *id);
