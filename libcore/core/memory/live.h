/* The larger live storages, for reports of memory. */
#pragma once

#include "core/tensor.h"

/* Smaller storages are not listed, so that ops on small tensors pay nothing. */
enum { DL_LIVE_BYTES = 64 << 10 };

void dl_live_add(dl_storage *s);
void dl_live_remove(dl_storage *s);
/* After a failed allocation: frees memory that is held by cycles. True: another attempt may succeed. */
bool dl_reclaim_memory(void);
