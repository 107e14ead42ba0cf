/* How much memory the machine can still give. Linux overcommits, so a refusal must come before the allocation. */
#ifndef DL_CORE_MEMORY_H
#define DL_CORE_MEMORY_H

#include <stddef.h>

enum { DL_LARGE_ALLOCATION = 64 << 20 };

/* The least of MemAvailable and what the control group leaves; SIZE_MAX when the system does not say. */
size_t dl_memory_available(void);

#endif
