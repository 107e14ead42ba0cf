/* How much memory this process can still get, and the gate that allocations pass. Linux overcommits, so the check comes
 * before the allocation: using memory that the system has promised and does not have ends in SIGKILL. */
#pragma once

#include <stddef.h>
#include "core/error.h"

/* Bytes left, and of how many: the least of what the machine, the control groups (versions 1 and 2, the process's group
 * and all above it) and the limits of the process leave. Page cache counts as free. SIZE_MAX: unknown. */
typedef struct dl_memory_space {
    size_t left, of;
} dl_memory_space;
dl_memory_space dl_memory_available(void);
/* For tests: the folder below which the system's files are read, in place of /. NULL: / again. */
void dl_memory_root(const char *root);

/* Asks for `bytes` before they are allocated. DL_ERR_MEMORY when less than the reserve would be left, even after cached
 * memory was released. Cheap: asks the system once in many calls, more often the less is left. */
dl_status dl_memory_request(size_t bytes);
/* After the allocation: when little is left, writes to its pages, so that the system counts them as used at the next
 * request. The contents are lost. */
void dl_memory_commit(void *p, size_t bytes);
