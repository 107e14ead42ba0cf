/* cuSPARSE, loaded when it is first needed, with a handle for each device. */
#ifndef DL_CUDA_CUSPARSE_H
#define DL_CUDA_CUSPARSE_H

#include "cuda/runtime/base.h"

#define DISABLE_CUSPARSE_DEPRECATED
#include <cusparse.h>

/* clang-format moves these lines at every run. */
/* clang-format off */
#define DL_CUSPARSE_LIST(X)                                                                                            \
    X(cusparseCreate) X(cusparseSetStream) X(cusparseCreateConstCsr) X(cusparseCreateConstDnMat)                       \
    X(cusparseCreateDnMat) X(cusparseDestroySpMat) X(cusparseDestroyDnMat) X(cusparseSpMM_bufferSize) X(cusparseSpMM)

typedef struct dl_cusparse_calls {
#define X(name) __typeof__(name) *name;
    DL_CUSPARSE_LIST(X)
#undef X
} dl_cusparse_calls;
/* clang-format on */

/* The library's functions and the handle of a device. */
typedef struct dl_cusparse {
    const dl_cusparse_calls *f;
    cusparseHandle_t handle;
} dl_cusparse;

/* Begins the use of the handle of a device, which one thread at a time has; DL_ERR_UNSUPPORTED when the library is
 * missing. */
dl_status dl_cusparse_begin(dl_gpu *g, dl_cusparse *s);
void dl_cusparse_end(void);

/* DL_ERR_DEVICE naming what failed. */
dl_status dl_cusparse_check(cusparseStatus_t s, const char *what);

#endif
