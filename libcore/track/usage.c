/* How much of the machine the process uses: processors, memory, power, and those of a GPU, as metrics of its open runs.
 */
#include "track/usage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/active.h"
#include "core/device/device.h"
#include "track/store.h"

static double seconds_of(clockid_t clock) {
    struct timespec t;
    return clock_gettime(clock, &t) ? 0 : (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The n-th number of a file; NaN: it cannot be read. */
static double number_in(const char *path, int n) {
    double v = NAN;
    FILE *f = fopen(path, "re");
    for (int i = 0; f && i <= n; i++)
        if (fscanf(f, "%lf", &v) != 1) v = NAN;
    if (f) fclose(f);
    return v;
}

/* Energy of the processor's packages since some moment. Kernels let only the superuser read it. */
static double joules(void) {
    double sum = 0;
    char path[64];
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "/sys/class/powercap/intel-rapl:%d/energy_uj", i);
        double one = number_in(path, 0);
        if (isnan(one)) return i ? sum / 1e6 : NAN;
        sum += one;
    }
    return sum / 1e6;
}

/* The number of the device that "cuda:1 NVIDIA ..." names; 0 for the CPU. */
static int device_of(const char *text) {
    if (!text || strncmp(text, "cuda", 4)) return 0;
    return 1 + (text[4] == ':' ? atoi(text + 5) : 0);
}

void dl_usage_begin(dl_usage *u, const char *device) {
    *u = (dl_usage){.device = device_of(device)};
    dl_usage_next(u);
}

void dl_usage_next(dl_usage *u) {
    u->active_us = dl_active_us(NULL);
    u->wall = seconds_of(CLOCK_MONOTONIC);
    u->cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    u->joules = joules();
}

/* DLCORE_USAGE_S: between two records; 0: there are none. */
static int64_t interval_us(void) {
    const char *text = getenv("DLCORE_USAGE_S");
    double s = text && *text ? atof(text) : DL_USAGE_S;
    return s > 0 ? (int64_t)(s * 1e6) : INT64_MAX;
}

int dl_usage_due(const dl_usage *u) {
    static int64_t interval;
    if (!interval) interval = interval_us();
    return dl_active_us(NULL) - u->active_us >= interval;
}

/* Not dl_series_push: the thread that calls this is the one that a full ring waits for. */
static void push(dl_run *r, const char *key, int64_t step, double value) {
    dl_series *s = isnan(value) ? NULL : dl_series_of(r, key);
    if (!s || dl_series_push_at_once(s, step, value) != DL_OK) dl_error_clear();
}

void dl_usage_record(dl_run *r) {
    dl_usage before = r->usage;
    dl_usage_next(&r->usage);
    double wall = r->usage.wall - before.wall, page = (double)sysconf(_SC_PAGESIZE);
    int64_t step = dl_activity_end(r) / 1000000;
    if (wall <= 0) return;
    push(r, "system/cpu", step, 100 * (r->usage.cpu - before.cpu) / wall);
    push(r, "system/memory_mb", step, number_in("/proc/self/statm", 1) * page / 1048576);
    double power = (r->usage.joules - before.joules) / wall;
    if (power >= 0) push(r, "system/cpu_power_w", step, power); /* the counter begins again at times */
    int index;
    const dl_backend *b = before.device ? dl_backend_of(before.device, &index) : NULL;
    dl_device_usage gpu = {NAN, NAN, NAN};
    if (!b || !b->usage || b->usage(index, &gpu) != DL_OK) dl_error_clear();
    push(r, "system/gpu", step, gpu.percent);
    push(r, "system/gpu_memory_mb", step, gpu.memory_mb);
    push(r, "system/gpu_power_w", step, gpu.power_w);
}
