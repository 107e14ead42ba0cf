/* What a GPU does at the moment. */
#ifndef DL_CUDA_NVML_H
#define DL_CUDA_NVML_H

#include "cuda/runtime/base.h"

/* dl_backend.usage */
dl_status dl_cuda_usage(int index, dl_device_usage *out);

#endif
