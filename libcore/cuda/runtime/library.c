/* Loading NVIDIA's libraries. */
#include "cuda/runtime/library.h"

#include <dlfcn.h>

static const char *const folders[] = {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/targets/x86_64-linux/lib/",
                                      "/usr/lib/x86_64-linux-gnu/", "/usr/local/nvidia/lib64/"};

void *dl_library_open(const char *name, const char *const *symbols, void **into, char *why, size_t size) {
    void *so = NULL;
    char path[512];
    const char *first = NULL;
    for (unsigned i = 0; !so && i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s%s", folders[i], name);
        so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        const char *error = so ? NULL : dlerror();
        if (error && !first) {
            snprintf(why, size, "%s", error);
            first = why;
        }
    }
    for (int i = 0; so && symbols[i]; i++)
        if (!(into[i] = dlsym(so, symbols[i]))) {
            snprintf(why, size, "%s lacks %s", name, symbols[i]);
            dlclose(so);
            so = NULL;
        }
    if (so) *why = 0;
    return so;
}
