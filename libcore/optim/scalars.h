/* Functions that compute the scalars of an optimizer's step: scalars_NAME(v, lr, t, k) puts the rate and the scalars of
 * the row of optimizers.def into k, from the options v, the rate lr and the number t of the step. No guard: a source
 * includes this once, and DL_SCALARS_FN says where they run. */
#include <math.h>

#ifndef DL_SCALARS_FN
#define DL_SCALARS_FN static inline
#endif
/* Product of nadam's momenta, beta * (1 - 0.96^(i * decay) / 2) for i = 1 ... t: a series of its logarithm, so that the
 * time does not depend on t; 0 where it is below the precision of 1 minus it. */
DL_SCALARS_FN double nadam_product(double beta, double decay, double t) {
    if (!(beta > 0) || t * log(beta) < -40) return 0;
    double sum = t * log(beta), half = 0.5, q = decay * log(0.96);
    for (int k = 1; k <= 52; k++, half *= 0.5)
        sum -= half / k * (q < 0 ? exp(k * q) * expm1(k * t * q) / expm1(k * q) : t);
    return exp(sum);
}

#define LR(def)
#define DL_TAKE_FLOAT(id)                                                                                              \
    const double id = *v++;                                                                                            \
    (void)id;
#define DL_TAKE_BOOL(id) DL_TAKE_FLOAT(id)
#define DL_TAKE_FLOATS(id)                                                                                             \
    DL_TAKE_FLOAT(id##1)                                                                                               \
    DL_TAKE_FLOAT(id##2)
#define O(id, other, kind, def, text) DL_TAKE_##kind(id)
#define OPTIONS(npos, ...) __VA_ARGS__
#define K(name, expr)                                                                                                  \
    const double name = (expr);                                                                                        \
    *k++ = name;
#define SCALARS(...) __VA_ARGS__
#define OPTIMIZER(name, other, text, how, options, ranges, states, optional, when, scalars, ...)                       \
    DL_SCALARS_FN void scalars_##name(const double *v, double lr, double t, double *k) {                               \
        options(void) t;                                                                                               \
        *k++ = lr;                                                                                                     \
        scalars                                                                                                        \
    }
#include "optim/optimizers.def"
#undef LR
#undef DL_TAKE_FLOAT
#undef DL_TAKE_BOOL
#undef DL_TAKE_FLOATS
#undef O
#undef OPTIONS
#undef K
#undef SCALARS
