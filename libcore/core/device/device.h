/* Devices: 0 is the CPU, 1 + N is device N of the accelerator backend, a plugin that registers itself here. */
#pragma once

#include "core/device/control.h"
#include "core/op.h"

typedef struct dl_graph dl_graph;

/* In what order of memory an op leaves images. */
typedef enum dl_layout { DL_LAYOUT_OF_INPUT, DL_LAYOUT_CHANNELS_LAST } dl_layout;

/* What a device does at the moment, whoever uses it; NaN: not known. */
typedef struct dl_device_usage {
    double percent, memory_mb, power_w;
} dl_device_usage;

/* The services of a backend. Entries are required unless said otherwise; `index` counts its devices from 0. */
typedef struct dl_backend {
    const char *name; /* "cuda" */
    int count;
    const char *none;               /* when count is 0: the reason, a sentence */
    const dl_kernel *const *kernel; /* [DL_NOP] */
    void *(*alloc)(int index, size_t bytes);
    void (*release)(int index, void *p, size_t bytes);
    /* Copies between devices; device numbers as in dl_tensor (0: host). Ordered after work already issued. */
    dl_status (*copy)(void *dst, int dst_device, const void *src, int src_device, size_t bytes);
    /* Waits for all work issued, and reports its faults. */
    dl_status (*synchronize)(int index);
    dl_status (*describe)(int index, char *text, int size);
    dl_status (*memory)(int index, dl_device_memory *out);
    /* The highest use so far is the present one. */
    dl_status (*reset_peak)(int index);
    /* Asked from any thread. NULL: not known. */
    dl_status (*usage)(int index, dl_device_usage *out);
    /* The stream that work is issued on. */
    dl_status (*stream)(int index, void **out);
    /* Gives unused memory back to the driver. */
    dl_status (*empty_cache)(int index);
    /* With `on`, every launch is waited for, so that a fault is reported at the statement that caused it. */
    void (*sync_every)(bool on);
    /* Zeroed host memory that the device reads and writes in place. NULL: the failure is recorded. */
    void *(*pinned)(int index, size_t bytes);
    void (*unpin)(int index, void *p);
    /* Has all work issued ended? Reports its faults. */
    dl_status (*idle)(int index, bool *yes);
    /* The order of the result in which this call of conv2d or conv2d_dx, and what follows it, are fastest. */
    dl_layout (*prefers_layout)(int index, const dl_call *c);
    /* Is this call of a row that joins others (norm_groups, relu_max_pool2d, conv2d_relu_max_pool2d) faster than they
     * are? Attributes may be missing where the answer is the same for all. */
    bool (*supports)(int index, const dl_call *c);

    /* ---- training without waits: core/device/control.h says what these do */
    /* Work issued from now on belongs to the trainer with this control block: its halt holds for running statistics,
     * and random numbers are drawn from positions counted from `rng`. NULL: to no trainer. */
    void (*use_control)(int index, const dl_control *c, const dl_rng_at *rng);
    dl_status (*accumulate)(int index, dl_control *c, const dl_accumulate *a);
    dl_status (*decide)(int index, dl_control *c, const dl_decide *d);
    dl_status (*finish_step)(int index, dl_control *c, const dl_finish_step *f);
    /* avg[i] = keep * avg[i] + (1 - keep) * p[i], all contiguous. */
    dl_status (*average)(int index, const dl_control *c, dl_tensor *const *avg, dl_tensor *const *p, int n,
                         double keep);
    /* The n samples at the control's position: x f32, y as stored. NULL: batches come from a loader. */
    dl_status (*make_batch)(int index, const dl_control *c, const dl_batch_source *s, void *x, void *y, long n);
    /* Copies host memory to the device beside the work under way, and before later work. The source has been read when
     * it returns. NULL: the device works in host memory. */
    dl_status (*async_copy)(int index, void *dst, const void *src, size_t bytes);

    /* ---- times. NULL: work is done when a call returns, and the host's clock tells. */
    /* Puts a mark behind the work issued so far. */
    dl_status (*mark)(int index, void **out);
    /* Seconds from one mark to another, when all work has ended. */
    dl_status (*between)(int index, void *from, void *to, double *seconds);
    void (*unmark)(int index, void *mark);

    /* ---- capture: between begin and end, work is recorded and not run. Memory that it allocates belongs to the graph.
     * NULL: the device has no graphs. */
    dl_status (*capture_begin)(int index, dl_graph **out);
    /* keep: makes the graph ready to run; else, and on failure, it is freed. */
    dl_status (*capture_end)(int index, dl_graph *graph, bool keep);
    dl_status (*replay)(int index, dl_graph *graph);
    void (*graph_free)(int index, dl_graph *graph);
} dl_backend;

/* Device 0; its kernels are in the rows of the ops (cpu/runtime/backend.c). */
extern const dl_backend dl_cpu_backend;
/* The backend of a device that exists, and the device's number there. */
const dl_backend *dl_backend_of(int device, int *index);
/* The backend in use for devices above 0, loaded by the first call; NULL when there is none. */
const dl_backend *dl_backend_get(void);
/* Makes b, which must stay valid for the life of the process, the backend of devices above 0 in place of the plugin, if
 * that has not been loaded. DL_ERR_STATE: there is one already. */
dl_status dl_backend_register(const dl_backend *b);
/* The CUDA plugin, loaded by the first call (core/device/plugin.c). NULL: *why is the reason. */
const dl_backend *dl_plugin_load(const char **why);

const dl_kernel *dl_kernel_of(const dl_op *op, int device);

/* dl_backend.supports, of the device that the first operand lives on. */
bool dl_device_supports(const dl_op *op, dl_tensor **in, int nin, const dl_aval *attr);

void *dl_device_alloc(int device, size_t bytes);
void dl_device_free(int device, void *p, size_t bytes);
dl_status dl_device_copy(void *dst, int dst_device, const void *src, int src_device, size_t bytes);
/* DL_ERR_DEVICE when there is no such device on this machine. */
dl_status dl_device_check(int device);
