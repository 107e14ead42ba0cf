/* How much memory this process can still get, and the gate that allocations pass. Linux overcommits, so a refusal must
 * come before the allocation: what the system has promised and cannot give ends in SIGKILL. */
#ifndef DL_CORE_MEMORY_H
#define DL_CORE_MEMORY_H

#include <stddef.h>
#include "core/error.h"

/* What is left, and of how much: the least of what the machine, the control groups (version 1 and 2, the process's own
 * and all above it) and the process's own limits leave. Page cache counts as free. SIZE_MAX: the system does not say.
 */
typedef struct dl_memory_room {
    size_t left, of;
} dl_memory_room;
dl_memory_room dl_memory_look(void);
/* For tests: the folder that takes the place of / when the system's files are read. NULL: / again. */
void dl_memory_root(const char *root);

/* Says that `bytes` more are going to be allocated. DL_ERR_MEMORY when they would not leave the reserve, after unused
 * memory was given back. Cheap: looks once in many calls, more often the less is left. */
dl_status dl_memory_take(size_t bytes);
/* After an allocation that passed the gate: when little is left, makes its pages real now, so that the next look sees
 * that they are taken. The contents are lost. */
void dl_memory_settle(void *p, size_t bytes);

#endif
