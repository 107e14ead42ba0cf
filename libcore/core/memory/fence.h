/* Host memory that shows every access outside its blocks, and every access after their end: DLCORE_GUARD in the
 * environment, read once at start. For finding errors of kernels and of libraries; each block costs system calls. */
#ifndef DL_CORE_FENCE_H
#define DL_CORE_FENCE_H

#include <stdbool.h>
#include <stddef.h>

/* Is it in use? Constant from the start on. */
extern bool dl_fenced;

/* A block between two pages that cannot be touched, filled with bytes 0xFF, which are NaN in every floating type. It
 * ends where the page behind it begins (DLCORE_GUARD=1), and its alignment is the largest power of two that divides its
 * size, at most a page; or it begins at a page (DLCORE_GUARD=2). NULL: the system refused. */
void *dl_fence_alloc(size_t bytes);
/* Makes the block untouchable for a while. What was written into the rest of its pages ends the process with a
 * message. */
void dl_fence_free(void *p, size_t bytes);

#endif
