/* cuSOLVER and cuBLAS, loaded when they are first needed, with a handle of each for each device. */
#pragma once

#include "cuda/runtime/base.h"

#include <cublas_v2.h>
#include <cusolverDn.h>

/* Eigenvalues of any matrices came with CUDA 12.8. */
#if CUSOLVER_VERSION >= 11702
#define DL_HAVE_GEEV 1
#define DL_GEEV_LIST(X) X(cusolverDnXgeev_bufferSize) X(cusolverDnXgeev)
#else
#define DL_GEEV_LIST(X)
#endif

/* clang-format moves these lines at every run. */
/* clang-format off */
#define DL_SOLVER_LIST(X)                                                                                              \
    X(cusolverDnCreate) X(cusolverDnSetStream) X(cusolverDnCreateParams)                                               \
    X(cusolverDnXgetrf_bufferSize) X(cusolverDnXgetrf) X(cusolverDnXpotrf_bufferSize) X(cusolverDnXpotrf)              \
    X(cusolverDnXgeqrf_bufferSize) X(cusolverDnXgeqrf) X(cusolverDnXsyevd_bufferSize) X(cusolverDnXsyevd)              \
    X(cusolverDnXgesvd_bufferSize) X(cusolverDnXgesvd)                                                                 \
    X(cusolverDnSorgqr_bufferSize) X(cusolverDnSorgqr) X(cusolverDnDorgqr_bufferSize) X(cusolverDnDorgqr)              \
    X(cusolverDnSpotrfBatched) X(cusolverDnDpotrfBatched)                                                              \
    X(cusolverDnXsyevBatched_bufferSize) X(cusolverDnXsyevBatched) X(cusolverDnCreateGesvdjInfo)                       \
    X(cusolverDnSgesvdj_bufferSize) X(cusolverDnSgesvdj) X(cusolverDnDgesvdj_bufferSize) X(cusolverDnDgesvdj)          \
    X(cusolverDnSgesvdjBatched_bufferSize) X(cusolverDnSgesvdjBatched)                                                 \
    X(cusolverDnDgesvdjBatched_bufferSize) X(cusolverDnDgesvdjBatched)                                                 \
    X(cusolverDnCungqr_bufferSize) X(cusolverDnCungqr) X(cusolverDnZungqr_bufferSize) X(cusolverDnZungqr)              \
    DL_GEEV_LIST(X)
#define DL_BLAS_LIST(X)                                                                                                \
    X(cublasCreate_v2) X(cublasSetStream_v2) X(cublasStrsm_v2) X(cublasDtrsm_v2)                                       \
    X(cublasCtrsm_v2) X(cublasZtrsm_v2)                                                                                \
    X(cublasStrsmBatched) X(cublasDtrsmBatched) X(cublasSgetrfBatched) X(cublasDgetrfBatched)

typedef struct dl_solver_calls {
#define X(name) __typeof__(name) *name;
    DL_SOLVER_LIST(X)
    DL_BLAS_LIST(X)
#undef X
} dl_solver_calls;
/* clang-format on */

/* The libraries' functions and the handles of a device. */
typedef struct dl_solver {
    const dl_solver_calls *f;
    cusolverDnHandle_t dense;
    cusolverDnParams_t params;
    gesvdjInfo_t jacobi;
    cublasHandle_t blas;
} dl_solver;

/* Begins the use of the handles of a device, which one thread at a time has; DL_ERR_UNSUPPORTED when a library is
 * missing. */
dl_status dl_solver_begin(dl_gpu *g, dl_solver *s);
void dl_solver_end(void);

/* DL_ERR_DEVICE naming the function that failed. */
dl_status dl_solver_check(cusolverStatus_t s, const char *what);
dl_status dl_blas_check(cublasStatus_t s, const char *what);
