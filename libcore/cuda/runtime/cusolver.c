/* Loading cuSOLVER and cuBLAS. */
#include "cuda/runtime/cusolver.h"
#include "cuda/runtime/library.h"

static dl_solver_calls calls;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char missing[256];
static dl_solver solvers[DL_MAX_GPUS];

static void open_libraries(void) {
    static const char *const dense[] = {
#define X(name) #name,
        DL_SOLVER_LIST(X) NULL};
    static const char *const blas[] = {DL_BLAS_LIST(X)
#undef X
                                           NULL};
    char so[64];
    snprintf(so, sizeof so, "libcusolver.so.%d", CUSOLVER_VER_MAJOR);
    if (!dl_library_open(so, dense, (void **)&calls, missing, sizeof missing)) return;
    snprintf(so, sizeof so, "libcublas.so.%d", CUBLAS_VER_MAJOR);
    dl_library_open(so, blas, (void **)&calls.cublasCreate_v2, missing, sizeof missing);
}

dl_status dl_solver_check(cusolverStatus_t s, const char *what) {
    return s == CUSOLVER_STATUS_SUCCESS ? DL_OK
                                        : dl_fail(DL_ERR_DEVICE, "cuSOLVER failed in %s: status %d", what, (int)s);
}

dl_status dl_blas_check(cublasStatus_t s, const char *what) {
    return s == CUBLAS_STATUS_SUCCESS ? DL_OK : dl_fail(DL_ERR_DEVICE, "cuBLAS failed in %s: status %d", what, (int)s);
}

/* The handles of a device; the lock is held. */
static dl_status ready(dl_gpu *g, dl_solver *s) {
    pthread_once(&once, open_libraries);
    if (*missing)
        return dl_fail_hint(DL_ERR_UNSUPPORTED,
                            "install cuSOLVER and cuBLAS of the CUDA toolkit, or add their folder to LD_LIBRARY_PATH",
                            "linear algebra on the GPU needs cuSOLVER and cuBLAS: %s", missing);
    s->f = &calls;
    if (!s->dense) DL_TRY(dl_solver_check(calls.cusolverDnCreate(&s->dense), "starting"));
    if (!s->params) DL_TRY(dl_solver_check(calls.cusolverDnCreateParams(&s->params), "starting"));
    if (!s->jacobi) DL_TRY(dl_solver_check(calls.cusolverDnCreateGesvdjInfo(&s->jacobi), "starting"));
    if (!s->blas) DL_TRY(dl_blas_check(calls.cublasCreate_v2(&s->blas), "starting"));
    DL_TRY(dl_solver_check(calls.cusolverDnSetStream(s->dense, g->stream), "starting"));
    return dl_blas_check(calls.cublasSetStream_v2(s->blas, g->stream), "starting");
}

dl_status dl_solver_begin(dl_gpu *g, dl_solver *s) {
    DL_TRY(dl_gpu_no_capture(g, "a factorisation"));
    pthread_mutex_lock(&lock);
    dl_status st = ready(g, &solvers[g->index]);
    if (st == DL_OK)
        *s = solvers[g->index];
    else
        pthread_mutex_unlock(&lock);
    return st;
}

void dl_solver_end(void) { pthread_mutex_unlock(&lock); }
