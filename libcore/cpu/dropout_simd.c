/* Loops of dropout. Multiplied by 0, not set to it, so that NaN stays NaN. */
#include "cpu/dropout.h"

#define DROPOUT(T, S)                                                                                                  \
    static void dropout_##S(long n, const uint32_t *w, uint32_t least, double scale, const void *xv, long xs,          \
                            void *yv, unsigned char *mask, long ys) {                                                  \
        const T *x = xv;                                                                                               \
        T *y = yv, k = (T)scale;                                                                                       \
        if (xs == 1 && ys == 1) {                                                                                      \
            for (long i = 0; i < n; i++) y[i] = x[i] * (w[i] >= least ? k : 0);                                        \
            for (long i = 0; i < n; i++) mask[i] = w[i] >= least;                                                      \
            return;                                                                                                    \
        }                                                                                                              \
        for (long i = 0; i < n; i++) {                                                                                 \
            y[i * ys] = x[i * xs] * (w[i] >= least ? k : 0);                                                           \
            mask[i * ys] = w[i] >= least;                                                                              \
        }                                                                                                              \
    }
DROPOUT(float, f32)
DROPOUT(double, f64)

const dl_dropout_loop DL_SIMD_NAME(dl_dropout)[2] = {dropout_f32, dropout_f64};
