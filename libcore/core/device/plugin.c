/* Finding and loading the CUDA plugin, on the first use of a device that it may offer. */
#define _GNU_SOURCE /* dladdr */
#include "core/device/imports.h"
#include "abi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN "libdlcore_cuda.so"
#define DRIVER "libcuda.so.1"

static const dl_imports imports = {
#define IMPORT(name) .p_##name = name,
#include "core/device/imports.def"
#undef IMPORT
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const dl_backend *loaded;
static char reason[768]; /* why there is none */

/* The folder of the file that this code was loaded from, without detours such as bin/../lib. */
static void own_folder(char *buf, size_t size) {
    Dl_info info;
    const char *path = dladdr((void *)&imports, &info) && info.dli_fname ? info.dli_fname : "";
    const char *slash = strrchr(path, '/');
    snprintf(buf, size, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    char *real = realpath(buf, NULL);
    if (real && strlen(real) < size) strcpy(buf, real);
    free(real);
}

/* Without the driver the plugin can offer nothing, and its runtime library would register each of its kernels, in
 * memory whose lack it does not check. */
static void load(const char *path) {
    if (!dlopen(DRIVER, RTLD_LAZY | RTLD_LOCAL)) {
        snprintf(reason, sizeof reason, "there is no NVIDIA driver on this machine: %s", dlerror());
        return;
    }
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        snprintf(reason, sizeof reason, "the CUDA plugin cannot be loaded: %s", dlerror());
        return;
    }
    dl_plugin_fn *plugin = (dl_plugin_fn *)dlsym(so, DL_PLUGIN_SYMBOL);
    const char *abi = DL_ABI;
    const dl_backend *b = plugin ? plugin(&imports, &abi) : NULL;
    if (!plugin)
        snprintf(reason, sizeof reason, "%s is not a plugin of this library: it lacks %s", path, DL_PLUGIN_SYMBOL);
    else if (!b)
        snprintf(reason, sizeof reason,
                 "%s was built from other sources than this library (plugin %.16s, library %.16s); rebuild both", path,
                 abi, DL_ABI);
    else if (!b->count)
        snprintf(reason, sizeof reason, "%s", b->none);
    else
        loaded = b;
    if (!plugin || !b) dlclose(so);
}

/* The places to look: the folder named by the environment, else beside this library, else in the lib folder beside a
 * program's. */
static void find(void) {
    const char *named = getenv("DLCORE_PLUGIN_PATH");
    char own[512], path[640];
    own_folder(own, sizeof own);
    if (named && *named) {
        snprintf(path, sizeof path, "%s/%s", named, PLUGIN);
        load(path);
        return;
    }
    static const char *const below[] = {"", "/../lib"};
    for (unsigned i = 0; i < sizeof below / sizeof *below; i++) {
        snprintf(path, sizeof path, "%s%s/%s", own, below[i], PLUGIN);
        if (access(path, R_OK)) continue;
        load(path);
        return;
    }
    snprintf(reason, sizeof reason, "this build is CPU-only: there is no %s in %s", PLUGIN, own);
}

const dl_backend *dl_plugin_load(const char **why) {
    pthread_once(&once, find);
    *why = reason;
    return loaded;
}
