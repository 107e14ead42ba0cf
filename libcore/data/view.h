/* Datasets made of samples of others. */
#pragma once

#include "data/data.h"

/* Makes of an empty dataset a view of parts of others, one of which may be NULL. */
dl_status dl_data_become_view(dl_dataset *d, const dl_part *train, const dl_part *test);
/* Moves `out` samples of the training split of a source, chosen by seed, to the empty test split. */
dl_status dl_data_hold_out_view(dl_dataset *d, long out, uint64_t seed);
