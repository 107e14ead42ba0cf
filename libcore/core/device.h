/* Devices: 0 is the CPU, 1 + N is device N of the accelerator backend, a plugin that registers itself here. */
#ifndef DL_CORE_DEVICE_H
#define DL_CORE_DEVICE_H

#include "core/op.h"

/* What a backend offers. Every entry is required. */
typedef struct dl_backend {
    const char *name; /* "cuda" */
    int count;
    const dl_kernel *const *kernel; /* [DL_NOP] */
    void *(*alloc)(int index, size_t bytes);
    void (*release)(int index, void *p, size_t bytes);
    /* Copies between devices; device numbers as in dl_tensor (0: host). Ordered after work already issued. */
    dl_status (*copy)(void *dst, int dst_device, const void *src, int src_device, size_t bytes);
} dl_backend;

/* The backend in use for devices above 0; NULL when there is none. */
const dl_backend *dl_backend_get(void);
dl_status dl_backend_register(const dl_backend *b);

static inline int dl_backend_of(int device) { return device ? DL_BACKEND_CUDA : DL_BACKEND_CPU; }
const dl_kernel *dl_kernel_of(const dl_op *op, int device);

void *dl_device_alloc(int device, size_t bytes);
void dl_device_free(int device, void *p, size_t bytes);
dl_status dl_device_copy(void *dst, int dst_device, const void *src, int src_device, size_t bytes);
/* DL_ERR_DEVICE when there is no such device on this machine. */
dl_status dl_device_check(int device);

#endif
