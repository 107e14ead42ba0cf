/* What a GPU does at the moment. */
#pragma once

#include "cuda/runtime/base.h"

/* dl_backend.usage */
dl_status dl_cuda_usage(int index, dl_device_usage *out);
