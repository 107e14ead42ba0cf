/* Loops of the optimizers' steps: the update formulas, as PyTorch 1.13 defines them. Includes itself once an element
 * type. */
#ifndef REAL
#include "cpu/optim.h"

#include <math.h>

#define REAL float
#define S(name) name##_f32
#define SQRT sqrtf
#include "optim_simd.c"
#undef REAL
#undef S
#undef SQRT
#define REAL double
#define S(name) name##_f64
#define SQRT sqrt
#include "optim_simd.c"

const dl_optim_loop DL_SIMD_NAME(dl_sgd_loop)[2] = {sgd_f32, sgd_f64};
const dl_optim_loop DL_SIMD_NAME(dl_adam_loop)[2] = {adam_f32, adam_f64};

#else

static void S(sgd)(long n, const dl_optim *o, void *const t[5]) {
    REAL *p = t[0], *v = t[2];
    const REAL *g = t[1];
    REAL sign = o->maximize ? -1 : 1, wd = (REAL)o->decay, lr = (REAL)o->lr, mu = (REAL)o->momentum;
    REAL keep = o->first ? 0 : mu, take = o->first ? 1 : (REAL)(1 - o->dampening);
    if (!v) {
        for (long i = 0; i < n; i++) p[i] -= lr * (sign * g[i] + wd * p[i]);
        return;
    }
    if (o->first)
        for (long i = 0; i < n; i++) v[i] = 0; /* whatever was there, NaN too, does not count */
    REAL ahead = o->nesterov ? mu : 1, own = o->nesterov ? 1 : 0;
    for (long i = 0; i < n; i++) {
        REAL d = sign * g[i] + wd * p[i];
        REAL b = keep * v[i] + take * d;
        v[i] = b;
        p[i] -= lr * (own * d + ahead * b);
    }
}

static void S(adam)(long n, const dl_optim *o, void *const t[5]) {
    REAL *p = t[0], *m = t[2], *v = t[3], *top = t[4];
    const REAL *g = t[1];
    REAL sign = o->maximize ? -1 : 1, wd = o->decoupled ? 0 : (REAL)o->decay;
    REAL shrink = o->decoupled ? (REAL)(1 - o->lr * o->decay) : 1;
    REAL b1 = (REAL)o->beta1, c1 = (REAL)(1 - o->beta1), b2 = (REAL)o->beta2, c2 = (REAL)(1 - o->beta2);
    REAL eps = (REAL)o->eps, step = (REAL)o->step, root = (REAL)(1 / o->root);
#define ADAM(LARGEST)                                                                                                  \
    for (long i = 0; i < n; i++) {                                                                                     \
        REAL d = sign * g[i] + wd * p[i];                                                                              \
        REAL a = b1 * m[i] + c1 * d, b = b2 * v[i] + c2 * d * d;                                                       \
        m[i] = a;                                                                                                      \
        v[i] = b;                                                                                                      \
        LARGEST;                                                                                                       \
        p[i] = shrink * p[i] - step * a / (SQRT(b) * root + eps);                                                      \
    }
    if (top) {
        ADAM(top[i] = b = b > top[i] || b != b ? b : top[i])
    } else {
        ADAM((void)0)
    }
#undef ADAM
}
#endif
