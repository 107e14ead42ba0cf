/* Loading OpenBLAS. Versions before 0.3.26 pick kernels by a list of processor models and give newer ones those of
 * Prescott (2004), four times slower than the AVX2 or AVX-512 kernels they also have. */
#include "cpu/blas.h"
#include "core/error.h"
#include "cpu/simd.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static dl_blas blas;
static void *library;
static bool ready;

static bool open_library(void) {
    library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    return library != NULL;
}

#define FIND(name) (__typeof__(&name))dlsym(library, #name)

static const char *core_name(void) {
    __typeof__(&openblas_get_corename) f = FIND(openblas_get_corename);
    return f ? f() : "";
}

/* The kernels' name goes through the environment, which only the library's start reads. */
static bool open_again(const char *core) {
    dlclose(library);
    setenv("OPENBLAS_CORETYPE", core, 1);
    bool good = open_library();
    unsetenv("OPENBLAS_CORETYPE");
    return good;
}

static void load(void) {
    if (!open_library()) return;
    int level = dl_simd_level();
    bool ancient = !strcasecmp(core_name(), "prescott") || !strcasecmp(core_name(), "generic");
    if (ancient && level >= 3 && !getenv("OPENBLAS_CORETYPE") && !open_again(level >= 4 ? "SkylakeX" : "Haswell"))
        return;
    blas.sgemm = FIND(cblas_sgemm);
    blas.dgemm = FIND(cblas_dgemm);
    blas.sgemv = FIND(cblas_sgemv);
    blas.dgemv = FIND(cblas_dgemv);
    __typeof__(&openblas_get_config) config = FIND(openblas_get_config);
    __typeof__(&openblas_get_parallel) parallel = FIND(openblas_get_parallel);
    __typeof__(&openblas_set_num_threads) set_threads = FIND(openblas_set_num_threads);
    snprintf(blas.core, sizeof blas.core, "%s", core_name());
    if (config) snprintf(blas.config, sizeof blas.config, "%s", config());
    /* threads of its own would fight with those of OpenMP */
    if (parallel && set_threads && parallel() == OPENBLAS_THREAD) set_threads(1);
    ready = blas.sgemm && blas.dgemm && blas.sgemv && blas.dgemv;
}

const dl_blas *dl_blas_get(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (ready) return &blas;
    dl_fail_hint(DL_ERR_UNSUPPORTED, "install it (Debian: libopenblas0-openmp)",
                 "OpenBLAS (libopenblas.so.0) cannot be loaded");
    return NULL;
}
