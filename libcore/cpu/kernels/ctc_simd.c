/* Loops over the states of a sequence, see ctc.h. */
#include "cpu/kernels/ctc.h"
#include "cpu/runtime/vmath_f64.h"

static void join(long n, const double *restrict a, const double *restrict b, const double *restrict c,
                 const double *restrict skip, const double *restrict add, double *restrict out) {
    for (long s = 0; s < n; s++) {
        const double u = a[s], v = b[s], w = c[s] + skip[s], two = u > v ? u : v, all = two > w ? two : w;
        const double top = all > -INFINITY ? all : 0;
        out[s] = dl_vlog_f64(dl_vexp_f64(u - top) + dl_vexp_f64(v - top) + dl_vexp_f64(w - top)) + top + add[s];
    }
}

static void shares(long n, const double *restrict a, const double *restrict b, double by, double *restrict out) {
    for (long s = 0; s < n; s++) out[s] = dl_vexp_f64(a[s] + b[s] + by);
}

const dl_ctc_loops DL_SIMD_NAME(dl_ctc) = {join, shares};
