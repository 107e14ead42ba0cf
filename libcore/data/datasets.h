/* Prototypes of the open functions that the rows of data/datasets.def name. Naming one in a row declares it: what
 * defines it includes this file, so that the two agree. */
#pragma once

#include "data/data.h"

#define KIND(name, doc, open, ...) dl_data_open open;
#include "data/datasets.def"
#undef KIND
