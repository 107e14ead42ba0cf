/* Devices by number and name, and the calls that go to a backend. */
#include "core/device/device.h"
#include "core/memory/live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const dl_backend *registered; /* takes the plugin's place */
static int default_device;

const dl_backend *dl_backend_get(void) {
    const char *why;
    return registered ? registered : dl_plugin_load(&why);
}

const dl_backend *dl_backend_of(int device, int *index) {
    *index = device ? device - 1 : 0;
    return device ? dl_backend_get() : &dl_cpu_backend;
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

bool dl_device_supports(const dl_op *op, dl_tensor **in, int nin, const dl_aval *attr) {
    dl_call c = {.op = op, .in = in, .nin = nin, .attr = attr, .device = in[0]->st->device};
    int index;
    c.dtype = in[0]->dtype;
    return dl_backend_of(c.device, &index)->supports(index, &c);
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

/* The device meant by a wrong name; by its letters alone "gpu" would be "cpu". */
static const char *meant(const char *name) {
    static const char *const names[] = {"cpu", "cuda", "cuda:0"};
    return !strncasecmp(name, "gpu", 3) || !strncasecmp(name, "nvidia", 6) || !strncasecmp(name, "cuda", 4) ? "cuda"
           : *name == 'c' || *name == 'C' ? dl_nearest(name, names, 3)
                                          : NULL;
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
    const char *near = meant(name);
    char hint[80] = "";
    if (near) snprintf(hint, sizeof hint, "did you mean %s? ", near);
    snprintf(hint + strlen(hint), sizeof hint - strlen(hint), "devices are cpu, cuda and cuda:N");
    return dl_fail_hint(DL_ERR_DEVICE, hint, "no device is called '%.100s'", name);
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

/* The backend B of a device, and its INDEX there; DL_ERR_DEVICE when there is no such device. */
#define FIND(device, b, index)                                                                                         \
    int index;                                                                                                         \
    DL_TRY(dl_device_check(device));                                                                                   \
    const dl_backend *b = dl_backend_of(device, &index)

dl_status dl_device_describe(int device, char *text, int size) {
    FIND(device, b, index);
    return b->describe(index, text, size);
}

dl_status dl_device_memory_get(int device, dl_device_memory *out) {
    FIND(device, b, index);
    return b->memory(index, out);
}

dl_status dl_device_reset_peak(int device) {
    FIND(device, b, index);
    return b->reset_peak(index);
}

dl_status dl_device_empty_cache(int device) {
    FIND(device, b, index);
    return b->empty_cache(index);
}

dl_status dl_device_stream(int device, void **stream) {
    *stream = NULL;
    FIND(device, b, index);
    return b->stream(index, stream);
}

dl_status dl_device_synchronize(int device) {
    FIND(device, b, index);
    return b->synchronize(index);
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
    int index;
    if (dl_device_check(device) != DL_OK) return NULL;
    return dl_backend_of(device, &index)->alloc(index, bytes);
}

void *dl_device_alloc(int device, size_t bytes) {
    void *p = alloc_on(device, bytes);
    return p || !dl_reclaim_memory() ? p : alloc_on(device, bytes);
}

void dl_device_free(int device, void *p, size_t bytes) {
    int index;
    const dl_backend *b = dl_backend_of(device, &index);
    if (b) b->release(index, p, bytes);
}

dl_status dl_device_copy(void *dst, int dst_device, const void *src, int src_device, size_t bytes) {
    if (!bytes) return DL_OK;
    FIND(dst_device ? dst_device : src_device, b, index);
    (void)index;
    return b->copy(dst, dst_device, src, src_device, bytes);
}
