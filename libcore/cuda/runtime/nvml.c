/* What a GPU does at the moment, from NVIDIA's management library, which comes with the driver. */
#include "cuda/runtime/nvml.h"

#include <math.h>

#include "cuda/runtime/library.h"

/* Of nvml.h, which not every installation has. */
typedef struct nvml_utilization {
    unsigned gpu, memory; /* percent of the time */
} nvml_utilization;
typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;

enum { INIT, HANDLE, UTILIZATION, MEMORY, POWER, NCALL };
static const char *const names[NCALL + 1] = {"nvmlInit_v2",
                                             "nvmlDeviceGetHandleByPciBusId_v2",
                                             "nvmlDeviceGetUtilizationRates",
                                             "nvmlDeviceGetMemoryInfo",
                                             "nvmlDeviceGetPowerUsage",
                                             NULL};
static void *calls[NCALL];
static int ready;

static void load(void) {
    char why[512];
    ready = dl_library_open("libnvidia-ml.so.1", names, calls, why, sizeof why) && !((int (*)(void))calls[INIT])();
}

dl_status dl_cuda_usage(int index, dl_device_usage *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char bus[32];
    void *device = NULL;
    nvml_utilization busy;
    nvml_memory memory;
    unsigned milliwatts;
    *out = (dl_device_usage){NAN, NAN, NAN};
    pthread_once(&once, load);
    /* the bus tells devices apart: the library counts those, too, that CUDA_VISIBLE_DEVICES hides */
    if (!ready || cudaDeviceGetPCIBusId(bus, sizeof bus, index) != cudaSuccess) return DL_OK;
    if (((int (*)(const char *, void **))calls[HANDLE])(bus, &device)) return DL_OK;
    if (!((int (*)(void *, nvml_utilization *))calls[UTILIZATION])(device, &busy)) out->percent = busy.gpu;
    if (!((int (*)(void *, nvml_memory *))calls[MEMORY])(device, &memory))
        out->memory_mb = (double)memory.used / 1048576;
    if (!((int (*)(void *, unsigned *))calls[POWER])(device, &milliwatts)) out->power_w = milliwatts / 1e3;
    return DL_OK;
}
