/* Finding LAPACK in OpenBLAS. */
#include "cpu/lapack/lapack.h"
#include "core/dtype.h"
#include "core/error.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>

static dl_lapack lapack[4]; /* f32, f64, c64, c128 */
static char missing[32];

/* The function of a name without its first letter, which is that of the type. */
static void *find(const char *type, const char *name) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "%s%s_", type, name);
    void *f = dl_blas_symbol(symbol);
    if (!f && !*missing) snprintf(missing, sizeof missing, "%s", symbol);
    return f;
}

static void load(void) {
    static const char *const types[4] = {"s", "d", "c", "z"};
#define FIND_AS(member, name) l->member = (__typeof__(l->member))find(types[i], name)
#define FIND(name) FIND_AS(name, #name)
    for (int i = 0; i < 4; i++) {
        dl_lapack *l = &lapack[i];
        FIND(getrf), FIND(laswp), FIND(potrf), FIND(geqrf), FIND(trsm), FIND(gemm);
        if (i < 2) {
            FIND(syevd), FIND(gesdd), FIND(geev);
            FIND(labrd), FIND(gebrd), FIND(bdsdc), FIND(ormbr);
        } else {
            FIND_AS(gesdd_complex, "gesdd"), FIND_AS(geev_complex, "geev"), FIND(heevd);
        }
    }
}

const dl_lapack *dl_lapack_get(dl_dtype t) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!dl_blas_get()) return NULL;
    pthread_once(&once, load);
    if (!*missing) return &lapack[t == DL_F32 ? 0 : t == DL_F64 ? 1 : t == DL_C64 ? 2 : 3];
    dl_fail_hint(DL_ERR_UNSUPPORTED, "install a build of OpenBLAS with LAPACK (Debian: libopenblas0-openmp)",
                 "OpenBLAS lacks %s of LAPACK", missing);
    return NULL;
}

/* OpenBLAS 0.3.21 rounds an answer in f32 to the nearest number, which may be below what it wants. */
int dl_lapack_room(dl_dtype t, const void *answer) {
    const double n =
        dl_dtype_of_parts(t) == DL_F64 ? *(const double *)answer : (double)nextafterf(*(const float *)answer, INFINITY);
    return n < 1 ? 1 : n > INT_MAX ? INT_MAX : (int)n;
}
