/* Available memory from /proc/meminfo and the control group (version 2, and version 1's memory controller). */
#include "core/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* One number from a file; fallback when it is missing or says "max". */
static size_t read_number(const char *path, size_t fallback) {
    FILE *f = fopen(path, "re");
    unsigned long v;
    size_t got = f && fscanf(f, "%lu", &v) == 1 ? v : fallback;
    if (f) fclose(f);
    return got;
}

static size_t cgroup_left(const char *limit_path, const char *used_path) {
    size_t limit = read_number(limit_path, SIZE_MAX), used = read_number(used_path, 0);
    return limit == SIZE_MAX ? SIZE_MAX : limit > used ? limit - used : 0;
}

/* The process's own group of the unified hierarchy, as /proc/self/cgroup names it: "0::/path". */
static size_t own_cgroup_left(void) {
    char line[512], limit[640], used[640];
    size_t left = SIZE_MAX;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "0::", 3)) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(limit, sizeof limit, "/sys/fs/cgroup%s/memory.max", line + 3);
        snprintf(used, sizeof used, "/sys/fs/cgroup%s/memory.current", line + 3);
        left = cgroup_left(limit, used);
    }
    if (f) fclose(f);
    return left;
}

static size_t mem_available(void) {
    char line[128];
    unsigned long kib = 0;
    size_t left = SIZE_MAX;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lu kB", &kib) == 1) left = (size_t)kib * 1024;
    if (f) fclose(f);
    return left;
}

size_t dl_memory_available(void) {
    size_t left[] = {
        mem_available(),
        own_cgroup_left(),
        cgroup_left("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        cgroup_left("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    };
    size_t least = SIZE_MAX;
    for (unsigned i = 0; i < sizeof left / sizeof *left; i++)
        if (left[i] < least) least = left[i];
    return least;
}
