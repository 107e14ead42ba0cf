/* The structures of DLPack, by which array libraries share memory. Their layout is fixed by the DLPack
 * specification, version 1.0 (dmlc.github.io/dlpack); DLManagedTensor is the form of versions before. */
#pragma once

#include <stdint.h>

#include "dlcore.h"

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0 };

enum { DLPACK_CPU = 1, DLPACK_CUDA = 2, DLPACK_CUDA_HOST = 3, DLPACK_CUDA_MANAGED = 13 };
enum { DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4, DLPACK_COMPLEX = 5, DLPACK_BOOL = 6 };
enum { DLPACK_READ_ONLY = 1, DLPACK_IS_COPIED = 2 }; /* bits of DLManagedTensorVersioned.flags */

typedef struct dlpack_device {
    int32_t type, id;
} dlpack_device;

typedef struct dlpack_dtype {
    uint8_t code, bits;
    uint16_t lanes;
} dlpack_dtype;

typedef struct dlpack_tensor {
    void *data;
    dlpack_device device;
    int32_t ndim;
    dlpack_dtype dtype;
    int64_t *shape, *strides; /* strides in elements; NULL: row-major */
    uint64_t byte_offset;
} dlpack_tensor;

struct DLManagedTensor {
    dlpack_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    dlpack_tensor dl_tensor;
};
