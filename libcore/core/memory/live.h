/* The larger storages that are alive, for reports of memory. */
#ifndef DL_CORE_LIVE_H
#define DL_CORE_LIVE_H

#include "core/tensor.h"

/* Smaller storages are not listed, so that ops on small tensors pay nothing. */
enum { DL_LIVE_BYTES = 64 << 10 };

void dl_live_add(dl_storage *s);
void dl_live_remove(dl_storage *s);
/* After an allocation failed: asks who can free memory. True: it is worth another try. */
bool dl_reclaim_memory(void);

#endif
