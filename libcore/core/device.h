/* Devices: 0 is the CPU, 1 + N is device N of the accelerator backend, a plugin that registers itself here. */
#ifndef DL_CORE_DEVICE_H
#define DL_CORE_DEVICE_H

#include "core/op.h"

/* What a backend offers. Every entry is required; `index` counts its devices from 0. */
typedef struct dl_backend {
    const char *name; /* "cuda" */
    int count;
    const char *none;               /* when count is 0: the reason, a sentence */
    const dl_kernel *const *kernel; /* [DL_NOP] */
    void *(*alloc)(int index, size_t bytes);
    void (*release)(int index, void *p, size_t bytes);
    /* Copies between devices; device numbers as in dl_tensor (0: host). Ordered after work already issued. */
    dl_status (*copy)(void *dst, int dst_device, const void *src, int src_device, size_t bytes);
    /* Waits for all work issued, and reports the faults that it had. */
    dl_status (*synchronize)(int index);
    dl_status (*describe)(int index, char *text, int size);
    dl_status (*memory)(int index, dl_device_memory *out);
    /* Gives unused memory back to the driver. */
    dl_status (*empty_cache)(int index);
    /* With `on`, every launch waits for its end, so that faults are found at the statement that made them. */
    void (*sync_every)(bool on);
} dl_backend;

/* The backend in use for devices above 0, loaded by the first call; NULL when there is none. */
const dl_backend *dl_backend_get(void);
dl_status dl_backend_register(const dl_backend *b);
/* Loads the CUDA plugin, once in the process (core/plugin.c). NULL: *why is the reason. */
const dl_backend *dl_plugin_load(const char **why);

const dl_kernel *dl_kernel_of(const dl_op *op, int device);

void *dl_device_alloc(int device, size_t bytes);
void dl_device_free(int device, void *p, size_t bytes);
dl_status dl_device_copy(void *dst, int dst_device, const void *src, int src_device, size_t bytes);
/* DL_ERR_DEVICE when there is no such device on this machine. */
dl_status dl_device_check(int device);

#endif
