/* What ops do that work captured from them would not do again by itself, or would do to memory that was there before.
 */
#pragma once

#include "core/list.h"
#include "core/tensor.h"

typedef struct dl_effects {
    uint64_t before;     /* storages with lower serials are older than the watch */
    dl_addresses writes; /* those of them that were written to */
    bool incomplete;     /* memory for the list ran out */
    bool host_draws;     /* an op on the CPU has drawn random numbers */
} dl_effects;

/* From now on notes what ops of this thread do. */
void dl_effects_watch(dl_effects *e);
void dl_effects_end(dl_effects *e);
void dl_effects_free(dl_effects *e);
/* The ops' side. */
void dl_effects_write(const dl_storage *s);
void dl_effects_draw(int device);
