/* Functions that compute the scalars of an optimizer's step: scalars_NAME(v, lr, t, k) puts the rate and the scalars of
 * the row of optimizers.def into k, from the options v, the rate lr and the number t of the step. No guard: a source
 * includes this once, and DL_SCALARS_FN says where they run. */
#include <math.h>

#ifndef DL_SCALARS_FN
#define DL_SCALARS_FN static inline
#endif
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
#define OPTIMIZER(name, other, text, how, options, ranges, states, optional, when, scalars, update, samples)           \
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
