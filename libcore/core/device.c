/* Devices by number and name, and the calls that go to a backend. */
#include "core/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const dl_backend *backend;
static int default_device;

const dl_backend *dl_backend_get(void) { return backend; }

dl_status dl_backend_register(const dl_backend *b) {
    if (backend) return dl_fail(DL_ERR_STATE, "a %s backend is loaded already", backend->name);
    backend = b;
    return DL_OK;
}

const dl_kernel *dl_kernel_of(const dl_op *op, int device) {
    if (!device) return op->kernel[DL_BACKEND_CPU];
    if (op->id >= 0) return backend ? backend->kernel[op->id] : NULL;
    return op->kernel[DL_BACKEND_CUDA];
}

dl_status dl_device_check(int device) {
    if (device == 0) return DL_OK;
    int n = backend ? backend->count : 0;
    if (device > 0 && device <= n) return DL_OK;
    return dl_fail_hint(DL_ERR_DEVICE, "use device cpu", "there is no device %s: this build and machine offer %s",
                        dl_device_name(device), n ? "fewer devices of that kind" : "the CPU alone");
}

dl_status dl_device_parse(const char *name, int *out) {
    if (!strcmp(name, "cpu")) return *out = 0, DL_OK;
    if (!strncmp(name, "cuda", 4)) {
        char *end = NULL;
        long n = name[4] == ':' ? strtol(name + 5, &end, 10) : 0;
        if (!name[4] || (end && end > name + 5 && !*end && n >= 0 && n < 1024)) {
            DL_TRY(dl_device_check((int)n + 1));
            return *out = (int)n + 1, DL_OK;
        }
    }
    return dl_fail_hint(DL_ERR_DEVICE, "devices are cpu, cuda and cuda:N", "no device is called '%s'", name);
}

const char *dl_device_name(int device) {
    static _Thread_local char buf[32];
    if (device == 0) return "cpu";
    snprintf(buf, sizeof buf, "%s:%d", backend ? backend->name : "cuda", device - 1);
    return buf;
}

int dl_device_default_get(void) { return default_device; }

dl_status dl_device_default_set(int device) {
    DL_TRY(dl_device_check(device));
    default_device = device;
    return DL_OK;
}

void *dl_device_alloc(int device, size_t bytes) {
    if (device == 0) return dl_host_alloc(bytes);
    if (dl_device_check(device) != DL_OK) return NULL;
    return backend->alloc(device - 1, bytes);
}

void dl_device_free(int device, void *p, size_t bytes) {
    if (device == 0)
        dl_host_free(p, bytes);
    else if (backend)
        backend->release(device - 1, p, bytes);
}

dl_status dl_device_copy(void *dst, int dst_device, const void *src, int src_device, size_t bytes) {
    if (!bytes) return DL_OK;
    if (!dst_device && !src_device) return memcpy(dst, src, bytes), DL_OK;
    DL_TRY(dl_device_check(dst_device ? dst_device : src_device));
    return backend->copy(dst, dst_device, src, src_device, bytes);
}
