/* Loops of dropout. Multiplied by 0, not set to it, so that NaN stays NaN. */
#include "cpu/kernels/dropout.h"

#define DROPOUT(T, S)                                                                                                  \
    static void dropout_##S(long n, const uint32_t *w, uint32_t least, double scale, const void *xv, void *yv,         \
                            unsigned char *mask) {                                                                     \
        const T *x = xv;                                                                                               \
        T *y = yv, k = (T)scale;                                                                                       \
        for (long i = 0; i < n; i++) y[i] = x[i] * (w[i] >= least ? k : 0);                                            \
        for (long i = 0; i < n; i++) mask[i] = w[i] >= least;                                                          \
    }
DROPOUT(float, f32)
DROPOUT(double, f64)

const dl_dropout_loop DL_SIMD_NAME(dl_dropout)[2] = {dropout_f32, dropout_f64};
