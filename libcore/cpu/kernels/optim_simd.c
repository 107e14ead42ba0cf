/* Loops of the optimizers' steps: the formulas of optim/optimizers.def. Includes itself once an element type. */
#ifndef T
#include "cpu/kernels/optim.h"

#define DL_FN(f32_name, f64_name) _Generic((T)0, float : f32_name, default : f64_name)
#include "cpu/runtime/vmath_f64.h"
#include "optim/update_loop.h"

#define NAME(name) DL_JOIN(name##_, T)

#define LIST(i) t_[i]
#define POINTER *const
#define STORED T /* 16-bit parameters are copied */
#define LOAD(x) x
#define STORE(x) x
#define ELEMENTS _Pragma("GCC ivdep") for (long i_ = 0; i_ < n_; i_++)

/* In f64: the squares of f32 do not leave its range. */
#define SQUARE(i, x) squares_[i] += (double)(x) * (double)(x);

/* A loop for each selection of the optional states. */
#define SELECT_0(name) NAME(name##_loop)(n, o, t, 0);
#define SELECT_1(name)                                                                                                 \
    if (o->wants & 1)                                                                                                  \
        NAME(name##_loop)(n, o, t, 1);                                                                                 \
    else                                                                                                               \
        SELECT_0(name)
#define SELECT_2(name)                                                                                                 \
    if (o->wants == 3)                                                                                                 \
        NAME(name##_loop)(n, o, t, 3);                                                                                 \
    else if (o->wants == 2)                                                                                            \
        NAME(name##_loop)(n, o, t, 2);                                                                                 \
    else                                                                                                               \
        SELECT_1(name)
#define SELECT_3(name) NAME(name##_loop)(n, o, t, o->wants);

#define T float
#include "optim_simd.c"
#undef T
#define T double
#include "optim_simd.c"

const dl_optim_loops DL_SIMD_NAME(dl_optim_row_loops)[DL_NOPTIMIZER] = {
#define OPTIMIZER(name, other, text, how, options, ranges, states, optional, when, scalars, norms, ...)                \
    {DL_COUNT(norms), {name##_measure_float, name##_measure_double}, {name##_float, name##_double}},
#include "optim/optimizers.def"
};

#else

#define OPTIMIZER(name, other, text, how, options, ranges, states, optional, when, scalars, norms, measure, update,    \
                  samples)                                                                                             \
    static inline __attribute__((always_inline)) void NAME(name##_loop)(long n_, const dl_optim *o_, void *const *t_,  \
                                                                        const unsigned wants_) {                       \
        const double *k_ = o_->scalar;                                                                                 \
        const bool first_ = o_->first;                                                                                 \
        const double *norms_ = o_->norm;                                                                               \
        (void)wants_, (void)first_, (void)norms_;                                                                      \
        DL_UPDATE_LOOP(states, optional, scalars, norms, update)                                                       \
    }                                                                                                                  \
    static void NAME(name##_measure)(long n_, const dl_optim *o_, void *const *t_, double *squares_) {                 \
        const double *k_ = o_->scalar;                                                                                 \
        const unsigned wants_ = o_->wants;                                                                             \
        const bool first_ = o_->first;                                                                                 \
        (void)wants_, (void)first_, (void)squares_;                                                                    \
        if (!DL_COUNT(norms)) return;                                                                                  \
        DL_MEASURE_LOOP(states, optional, scalars, norms, measure)                                                     \
    }                                                                                                                  \
    static void NAME(name)(long n, const dl_optim *o, void *const *t) { DL_JOIN(SELECT_, DL_COUNT(optional))(name) }
#include "optim/optimizers.def"
#endif
