/* Loading cuSPARSE. */
#include "cuda/runtime/cusparse.h"
#include "cuda/runtime/library.h"

static dl_cusparse_calls calls;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char missing[256];
static dl_cusparse handles[DL_MAX_GPUS];

static void open_library(void) {
    static const char *const names[] = {
#define X(name) #name,
        DL_CUSPARSE_LIST(X) NULL};
#undef X
    char so[64];
    snprintf(so, sizeof so, "libcusparse.so.%d", CUSPARSE_VER_MAJOR);
    dl_library_open(so, names, (void **)&calls, missing, sizeof missing);
}

dl_status dl_cusparse_check(cusparseStatus_t s, const char *what) {
    return s == CUSPARSE_STATUS_SUCCESS ? DL_OK
                                        : dl_fail(DL_ERR_DEVICE, "cuSPARSE failed in %s: status %d", what, (int)s);
}

/* The handle of a device; the lock is held. */
static dl_status ready(dl_gpu *g, dl_cusparse *s) {
    pthread_once(&once, open_library);
    if (*missing)
        return dl_fail_hint(DL_ERR_UNSUPPORTED,
                            "install cuSPARSE of the CUDA toolkit, or add its folder to LD_LIBRARY_PATH",
                            "products of sparse matrices on the GPU need cuSPARSE: %s", missing);
    s->f = &calls;
    if (!s->handle) {
        DL_TRY(dl_gpu_no_capture(g, "starting cuSPARSE"));
        DL_TRY(dl_cusparse_check(calls.cusparseCreate(&s->handle), "starting"));
    }
    return dl_cusparse_check(calls.cusparseSetStream(s->handle, g->stream), "starting");
}

dl_status dl_cusparse_begin(dl_gpu *g, dl_cusparse *s) {
    pthread_mutex_lock(&lock);
    dl_status st = ready(g, &handles[g->index]);
    if (st == DL_OK)
        *s = handles[g->index];
    else
        pthread_mutex_unlock(&lock);
    return st;
}

void dl_cusparse_end(void) { pthread_mutex_unlock(&lock); }
