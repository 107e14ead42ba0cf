/* OpenBLAS, loaded when it is first needed: programs without large products of matrices do not pay for it, and a
 * library that does not know the processor can be loaded again with the right kernels. */
#pragma once

#include <cblas.h>
#include <stdbool.h>

#include "dlcore.h"

typedef struct dl_blas {
    __typeof__(&cblas_sgemm) sgemm;
    __typeof__(&cblas_dgemm) dgemm;
    __typeof__(&cblas_sgemv) sgemv;
    __typeof__(&cblas_dgemv) dgemv;
    char core[32], config[192]; /* names of the kernels in use and of the build */
} dl_blas;

/* NULL, with DL_ERR_UNSUPPORTED recorded, when the library cannot be loaded, and with DL_ERR_MEMORY when there is no
 * room for its buffers. */
const dl_blas *dl_blas_get(void);
/* A function of the loaded library; NULL: it has none of that name. */
void *dl_blas_symbol(const char *name);
/* Around every call of it: checks that there is room for the buffers that the call may take. DL_ERR_MEMORY: do not
 * call. */
dl_status dl_blas_begin(void);
void dl_blas_end(void);
