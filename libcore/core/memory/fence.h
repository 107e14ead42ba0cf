/* Host memory in which accesses outside blocks and after their release are faults: DLCORE_GUARD in the environment,
 * read once at start. For finding errors of kernels and libraries; each block costs system calls. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Is it in use? Constant after the start. */
extern bool dl_fenced;

/* A block between two inaccessible pages, filled with bytes 0xFF, which are NaN in every floating type. With
 * DLCORE_GUARD=1 it ends where the page after it begins, and its alignment is the largest power of two that divides
 * its size, at most a page; with DLCORE_GUARD=2 it begins at a page. NULL: the system refused. */
void *dl_fence_alloc(size_t bytes);
/* Makes the block inaccessible for a while. A write into the rest of its pages ends the process with a message. */
void dl_fence_free(void *p, size_t bytes);
