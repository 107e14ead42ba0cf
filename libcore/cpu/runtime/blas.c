/* Loading OpenBLAS. Versions before 0.3.26 choose kernels by a list of processor models; newer processors get those of
 * Prescott (2004), four times slower than the AVX2 or AVX-512 kernels that the library has. */
#include "cpu/runtime/blas.h"
#include "core/error.h"
#include "core/tensor.h"
#include "cpu/runtime/simd.h"
#include "cpu/runtime/team.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/mman.h>

static dl_blas blas;
static void *library;
static bool ready;
static char why[200]; /* the library cannot be used */

/* ---------------------------------------------------------------- its buffers
 * OpenBLAS takes a buffer for each of its threads and one for each call under way, and keeps them; when the system
 * refuses one, it tries again for ever. So a call begins only when there is room for the buffers that it may take. */

enum { BUFFER = 128 << 20, LIBRARY = 64 << 20 }; /* bytes; no build has larger buffers than those for x86-64 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int buffers, calls; /* buffers that there is room for; calls under way; atomic */

/* Is there so much more address space, and memory for malloc? (libgfortran, which comes with OpenBLAS, ends the process
 * when malloc fails.) */
static bool has_room(size_t bytes) {
    void *some = malloc(1 << 16),
         *p = some ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    free(some);
    if (p == MAP_FAILED) return false;
    munmap(p, bytes);
    return true;
}

static dl_status no_room(size_t bytes) {
    return dl_fail_hint(
        DL_ERR_MEMORY, "raise the limit (`ulimit -v`, `ulimit -d`), or use fewer threads (`set threads 1`)",
        "OpenBLAS needs %zu MiB of address space for its buffers, and the system refuses them", bytes >> 20);
}

/* Checks that there is room for n buffers in all, and for `more` bytes. */
static dl_status ensure(int n, size_t more) {
    size_t bytes = more + (n > buffers ? (size_t)(n - buffers) * BUFFER : 0);
    if (bytes && !has_room(bytes)) {
        dl_host_empty_cache();
        if (!has_room(bytes)) return no_room(bytes);
    }
    if (n > buffers) __atomic_store_n(&buffers, n, __ATOMIC_RELEASE);
    return DL_OK;
}

dl_status dl_blas_begin(void) {
    int want = __atomic_add_fetch(&calls, 1, __ATOMIC_ACQ_REL) + dl_cpu_team();
    if (want <= __atomic_load_n(&buffers, __ATOMIC_ACQUIRE)) return DL_OK;
    pthread_mutex_lock(&lock);
    dl_status st = ensure(want, 0);
    pthread_mutex_unlock(&lock);
    if (st) dl_blas_end();
    return st;
}

void dl_blas_end(void) { __atomic_sub_fetch(&calls, 1, __ATOMIC_ACQ_REL); }

/* ---------------------------------------------------------------- loading */

static bool open_library(void) {
    library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) snprintf(why, sizeof why, "%s", dlerror());
    return library != NULL;
}

#define FIND(name) (__typeof__(&name))dlsym(library, #name)

static const char *core_name(void) {
    __typeof__(&openblas_get_corename) f = FIND(openblas_get_corename);
    return f ? f() : "";
}

void *dl_blas_symbol(const char *name) { return dlsym(library, name); }

/* The library reads the name of the kernels from the environment, once, when it is loaded. */
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
    /* threads of its own would compete with those of OpenMP */
    if (parallel && set_threads && parallel() == OPENBLAS_THREAD) set_threads(1);
    bool all = blas.sgemm && blas.dgemm && blas.sgemv && blas.dgemv;
    if (!all) snprintf(why, sizeof why, "it lacks functions of CBLAS");
    __atomic_store_n(&ready, all, __ATOMIC_RELEASE);
}

const dl_blas *dl_blas_get(void) {
    static bool tried;
    if (__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) return &blas;
    int threads = dl_cpu_team();
    pthread_mutex_lock(&lock);
    dl_status st = tried ? DL_OK : ensure(threads, LIBRARY + BUFFER);
    if (!tried && st == DL_OK) tried = true, load();
    pthread_mutex_unlock(&lock);
    if (st) return NULL;
    if (ready) return &blas;
    dl_fail_hint(DL_ERR_UNSUPPORTED, "install it (Debian: libopenblas0-openmp)",
                 "OpenBLAS (libopenblas.so.0) cannot be loaded: %s", why);
    return NULL;
}
