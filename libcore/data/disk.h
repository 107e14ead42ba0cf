/* Arrays that stay in their files, from which batches read what they need. */
#pragma once

#include "data/data.h"

/* Does the option mmap, or the size of the files, ask for it? */
bool dl_npy_on_disk(const dl_data_args *a);
dl_status dl_open_npy_disk(const dl_data_args *a, dl_dataset *d);
