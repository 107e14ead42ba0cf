/* Devices by number and name, and the calls that go to a backend. */
#include "core/device.h"
#include "core/interrupt.h"
#include "core/live.h"
#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const dl_backend *registered; /* takes the plugin's place */
static int default_device;

const dl_backend *dl_backend_get(void) {
    const char *why;
    return registered ? registered : dl_plugin_load(&why);
}

dl_status dl_backend_register(const dl_backend *b) {
    if (registered) return dl_fail(DL_ERR_STATE, "a %s backend is registered already", registered->name);
    registered = b;
    return DL_OK;
}

const dl_kernel *dl_kernel_of(const dl_op *op, int device) {
    if (!device) return op->kernel[DL_BACKEND_CPU];
    const dl_backend *b = dl_backend_get();
    return op->id < 0 ? op->kernel[DL_BACKEND_CUDA] : b ? b->kernel[op->id] : NULL;
}

dl_status dl_device_check(int device) {
    if (device == 0) return DL_OK;
    const dl_backend *b = dl_backend_get();
    const char *why = "";
    if (device > 0 && b && device <= b->count) return DL_OK;
    if (!b) dl_plugin_load(&why);
    if (!b)
        return dl_fail_hint(DL_ERR_DEVICE, "use device cpu", "there is no device %s: %s", dl_device_name(device), why);
    char most[40] = "";
    if (b->count > 1) snprintf(most, sizeof most, " to %s:%d", b->name, b->count - 1);
    return dl_fail_hint(DL_ERR_DEVICE, "`show devices` lists them", "there is no device %s: this machine has %s:0%s",
                        dl_device_name(device), b->name, most);
}

dl_status dl_device_parse(const char *name, int *out) {
    if (!name) return dl_fail_null("the name of a device");
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
    snprintf(buf, sizeof buf, "%s:%d", registered ? registered->name : "cuda", device - 1);
    return buf;
}

int dl_device_default_get(void) { return default_device; }

dl_status dl_device_default_set(int device) {
    DL_TRY(dl_device_check(device));
    default_device = device;
    return DL_OK;
}

int dl_device_count(void) {
    const dl_backend *b = dl_backend_get();
    return 1 + (b ? b->count : 0);
}

const char *dl_device_missing(void) {
    const char *why = "";
    if (!registered && !dl_plugin_load(&why)) return why;
    return "";
}

dl_status dl_device_describe(int device, char *text, int size) {
    DL_TRY(dl_device_check(device));
    if (device) return dl_backend_get()->describe(device - 1, text, size);
    snprintf(text, (size_t)size, "%d thread%s", dl_threads(), dl_threads() == 1 ? "" : "s");
    return DL_OK;
}

dl_status dl_device_memory_get(int device, dl_device_memory *out) {
    DL_TRY(dl_device_check(device));
    if (device) return dl_backend_get()->memory(device - 1, out);
    size_t left = dl_memory_look().left, used = dl_host_bytes();
    *out = (dl_device_memory){.used = (long)used,
                              .peak = (long)dl_host_peak(),
                              .cached = (long)dl_host_cached(),
                              .available = left == SIZE_MAX ? 0 : (long)left};
    return DL_OK;
}

dl_status dl_device_empty_cache(int device) {
    DL_TRY(dl_device_check(device));
    if (device) return dl_backend_get()->empty_cache(device - 1);
    dl_host_empty_cache();
    return DL_OK;
}

dl_status dl_device_stream(int device, void **stream) {
    *stream = NULL;
    DL_TRY(dl_device_check(device));
    return device ? dl_backend_get()->stream(device - 1, stream) : DL_OK;
}

dl_status dl_device_synchronize(int device) {
    DL_TRY(dl_device_check(device));
    return device ? dl_backend_get()->synchronize(device - 1) : DL_OK;
}

static int every;

dl_status dl_device_sync_every(int on) {
    const dl_backend *b = dl_backend_get();
    if (b) b->sync_every(on);
    every = on;
    return DL_OK;
}

int dl_device_sync_every_get(void) { return every; }

static void *alloc_on(int device, size_t bytes) {
    if (device == 0) return dl_host_alloc(bytes);
    if (dl_device_check(device) != DL_OK) return NULL;
    return dl_backend_get()->alloc(device - 1, bytes);
}

void *dl_device_alloc(int device, size_t bytes) {
    void *p = alloc_on(device, bytes);
    return p || !dl_reclaim_memory() ? p : alloc_on(device, bytes);
}

void dl_device_free(int device, void *p, size_t bytes) {
    if (device == 0)
        dl_host_free(p, bytes);
    else if (dl_backend_get())
        dl_backend_get()->release(device - 1, p, bytes);
}

/* In pieces that take some milliseconds, also when they come from a mapped file. */
static dl_status copy_host(char *dst, const char *src, size_t bytes) {
    enum { PIECE = 1 << 22 };
    for (size_t at = 0; at < bytes; at += PIECE) {
        memcpy(dst + at, src + at, bytes - at < PIECE ? bytes - at : PIECE);
        if (bytes > PIECE) DL_TRY(dl_interrupt_check());
    }
    return DL_OK;
}

dl_status dl_device_copy(void *dst, int dst_device, const void *src, int src_device, size_t bytes) {
    if (!bytes) return DL_OK;
    if (!dst_device && !src_device) return copy_host(dst, src, bytes);
    DL_TRY(dl_device_check(dst_device ? dst_device : src_device));
    return dl_backend_get()->copy(dst, dst_device, src, src_device, bytes);
}
