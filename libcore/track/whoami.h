/* What a run records of its surroundings: process, host, git, library versions. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "dlcore.h"

/* Identity of a process: pid numbers and host names are reused, boot and start time tell them apart. */
struct dl_whoami {
    char host[64], boot_id[40];
    int64_t pid;
    uint64_t pid_start; /* clock ticks since boot, field 22 of /proc/PID/stat; 0 when unknown */
};
typedef struct dl_whoami dl_whoami;

/* Of this process. */
const dl_whoami *dl_whoami_self(void);
/* Has the process ended? 1 yes, 0 no, -1 unknown (another host). */
int dl_whoami_gone(const dl_whoami *who);

/* Commit of the git work tree around the working directory, and a hash of commit and present contents of its tracked
 * files where these differ. Files are read; no program is run. "" without a work tree, or where it cannot be read;
 * diff_sha is "" too when nothing is uncommitted, and DL_GIT_UNKNOWN when that is not known: objects or an index that
 * cannot be read, or six seconds have passed. */
#define DL_GIT_UNKNOWN "unknown"
typedef struct dl_git_state {
    char commit[80], diff_sha[65];
    void *diff; /* the changes, a gzip file; NULL: none, or none that can be read. The caller frees it. */
    size_t ndiff;
} dl_git_state;
void dl_git_read_state(dl_git_state *out);

/* Hex SHA-256. */
void dl_sha256_hex(const void *data, uint64_t n, char out[65]);
/* Of a file, with its size. Errors: DL_ERR_IO. */
dl_status dl_sha256_file(const char *path, char out[65], int64_t *bytes);
/* Version 4. */
void dl_uuid(char out[37]);
int64_t dl_now_us(void);
/* Of a clock that nobody sets, for differences; it counts the time that the machine sleeps. */
int64_t dl_steady_us(void);

/* Versions of libraries, kernel, compiler and processor as a JSON object, with `extra` (key, value, ..., NULL) added.
 * Owned by the caller. NULL: DL_ERR_MEMORY. */
char *dl_env_json(const char *const *extra);
/* Command line of this process with arguments quoted as a shell wants them. Owned by the caller. NULL on failure. */
char *dl_cmdline(void);
