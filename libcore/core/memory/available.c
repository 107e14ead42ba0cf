/* What is left of memory: /proc/meminfo, the control groups of both versions, the limits of the process. */
#include "core/memory/memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *root = "";

/* A file's first bytes as text, without malloc: this runs when memory is short. */
static bool read_text(const char *path, char *text, size_t size) {
    char full[4096];
    text[0] = 0;
    if (snprintf(full, sizeof full, "%s%s", root, path) >= (int)sizeof full) return false;
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    for (ssize_t got = fd < 0 ? 0 : 1; got > 0 && n < size - 1; n += (size_t)(got > 0 ? got : 0))
        got = read(fd, text + n, size - 1 - n);
    text[n] = 0;
    if (fd >= 0) close(fd);
    return n > 0;
}

/* The number after `key` at the start of a line; 0 without one. */
static size_t number_of(const char *text, const char *key) {
    size_t n = strlen(key);
    for (const char *p = text; p; p = strchr(p, '\n')) {
        if (*p == '\n') p++;
        if (!strncmp(p, key, n) && strchr(" :\t", p[n])) return strtoul(p + n + strspn(p + n, " :\t"), NULL, 10);
    }
    return 0;
}

static void narrow(dl_memory_space *r, size_t left, size_t of) {
    if (left < r->left) *r = (dl_memory_space){left, of};
}

static size_t beyond(size_t limit, size_t used) { return limit > used ? limit - used : 0; }

/* ---------------------------------------------------------------- control groups */

/* The hierarchy of a version that accounts for memory: its files, and where it is mounted. */
typedef struct hierarchy {
    const char *type, *option; /* of the mount; a comma's list must hold the option */
    const char *limit, *used;
    const char *cache[3];        /* keys of memory.stat: what the kernel takes back before it kills */
    char mount[1024], top[1024]; /* the folder, "" for none; the group that is seen there, "" for the root */
} hierarchy;

static hierarchy hierarchies[] = {
    {"cgroup2", NULL, "memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}, "", ""},
    {"cgroup",
     "memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file", "total_active_file"},
     "",
     ""},
};
enum { NHIERARCHIES = sizeof hierarchies / sizeof *hierarchies, NCACHE = 3 };
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Is `word` in a list with commas, of n bytes? */
static bool listed(const char *list, size_t n, const char *word) {
    for (const char *p = list, *end = list + n; p < end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        size_t len = (size_t)((comma ? comma : end) - p);
        if (len == strlen(word) && !strncmp(p, word, len)) return true;
        p += len + 1;
    }
    return false;
}

/* A line of mountinfo: ID PARENT DEVICE TOP MOUNT OPTIONS [TAGS] - TYPE SOURCE SUPER-OPTIONS. */
static void read_mount(const char *line) {
    char top[1024], mount[1024], type[32], options[512] = "";
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*s %*s %*s %1023s %1023s", top, mount) != 2) return;
    if (sscanf(rest, " - %31s %*s %511s", type, options) < 1) return;
    for (int i = 0; i < NHIERARCHIES; i++) {
        hierarchy *h = &hierarchies[i];
        if (h->mount[0] || strcmp(type, h->type)) continue;
        if (h->option && !listed(options, strlen(options), h->option)) continue;
        memcpy(h->mount, mount, sizeof mount);
        memcpy(h->top, strcmp(top, "/") ? top : "", strcmp(top, "/") ? sizeof top : 1);
    }
}

static void find_mounts(void) {
    char path[4096], *line = NULL;
    size_t cap = 0;
    for (int i = 0; i < NHIERARCHIES; i++) hierarchies[i].mount[0] = 0;
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    FILE *f = fopen(path, "re");
    while (f && getline(&line, &cap, f) > 0) read_mount(line);
    free(line);
    if (f) fclose(f);
}

/* The process's own group in h, from lines "ID:CONTROLLERS:/path" of /proc/self/cgroup. */
static bool own_group(const hierarchy *h, const char *lines, char *group, size_t size) {
    for (const char *line = lines, *next; *line; line = next) {
        size_t len = strcspn(line, "\n");
        next = line + len + (line[len] == '\n');
        const char *list = memchr(line, ':', len),
                   *path = list ? memchr(list + 1, ':', len - (size_t)(list + 1 - line)) : NULL;
        if (!path) continue;
        list++;
        size_t n = (size_t)(path - list);
        if (h->option ? !listed(list, n, h->option) : n > 0) continue;
        return snprintf(group, size, "%.*s", (int)(line + len - path - 1), path + 1) < (int)size;
    }
    return false;
}

/* The limit of the group in folder `dir`. */
static void limit_by_group(const hierarchy *h, const char *dir, dl_memory_space *r) {
    char path[2400], text[8192];
    snprintf(path, sizeof path, "%s/%s", dir, h->limit);
    if (!read_text(path, text, sizeof text) || text[0] < '0' || text[0] > '9') return; /* "max", or none */
    size_t limit = strtoul(text, NULL, 10), cache = 0;
    if (limit >= (size_t)1 << 62) return; /* how version 1 writes that there is none */
    snprintf(path, sizeof path, "%s/%s", dir, h->used);
    size_t used = read_text(path, text, sizeof text) ? strtoul(text, NULL, 10) : 0;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    read_text(path, text, sizeof text);
    for (int i = 0; i < NCACHE && h->cache[i]; i++) cache += number_of(text, h->cache[i]);
    narrow(r, beyond(limit, beyond(used, cache)), limit);
}

/* The process's group and all above it, up to the one that the mount shows. A group that is not below that one, as in
 * a container that sees only its own, counts as that one. */
static void limit_by_groups(const hierarchy *h, const char *lines, dl_memory_space *r) {
    char group[1024], dir[2100];
    if (!h->mount[0] || !own_group(h, lines, group, sizeof group)) return;
    size_t top = strlen(h->top), mount = strlen(h->mount);
    bool below = !strncmp(group, h->top, top) && (group[top] == '/' || !group[top]) && !strstr(group, "/..");
    snprintf(dir, sizeof dir, "%s%s", h->mount, below && strcmp(group + top, "/") ? group + top : "");
    for (;;) {
        limit_by_group(h, dir, r);
        if (strlen(dir) <= mount) return;
        *strrchr(dir, '/') = 0;
    }
}

/* ---------------------------------------------------------------- the machine and the process */

static void limit_by_machine(dl_memory_space *r) {
    char text[8192];
    if (!read_text("/proc/meminfo", text, sizeof text)) return;
    size_t kib = number_of(text, "MemAvailable"), of = number_of(text, "MemTotal");
    if (of) narrow(r, kib * 1024, of * 1024);
}

/* RLIMIT_AS and RLIMIT_DATA, in pages of /proc/self/statm. */
static void limit_by_rlimits(dl_memory_space *r) {
    struct rlimit space, data;
    char text[256];
    size_t total = 0, private = 0, page = (size_t)sysconf(_SC_PAGESIZE);
    bool narrow_space = !getrlimit(RLIMIT_AS, &space) && space.rlim_cur != RLIM_INFINITY,
         narrow_data = !getrlimit(RLIMIT_DATA, &data) && data.rlim_cur != RLIM_INFINITY;
    if ((!narrow_space && !narrow_data) || !read_text("/proc/self/statm", text, sizeof text)) return;
    if (sscanf(text, "%zu %*u %*u %*u %*u %zu", &total, &private) != 2) return;
    if (narrow_space) narrow(r, beyond(space.rlim_cur, total * page), space.rlim_cur);
    if (narrow_data) narrow(r, beyond(data.rlim_cur, private * page), data.rlim_cur);
}

dl_memory_space dl_memory_available(void) {
    char lines[4096];
    dl_memory_space r = {SIZE_MAX, SIZE_MAX};
    pthread_once(&once, find_mounts);
    limit_by_machine(&r);
    limit_by_rlimits(&r);
    if (read_text("/proc/self/cgroup", lines, sizeof lines))
        for (int i = 0; i < NHIERARCHIES; i++) limit_by_groups(&hierarchies[i], lines, &r);
    return r;
}

void dl_memory_root(const char *path) {
    root = path ? path : "";
    pthread_once(&once, find_mounts);
    find_mounts();
}
