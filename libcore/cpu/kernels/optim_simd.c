/* Loops of the optimizers' steps: the update formulas of optim/optimizers.def. Includes itself once an element type. */
#ifndef T
#include "cpu/kernels/optim.h"
#include "ops/each.h"

#define DL_FN(f32_name, f64_name) _Generic((T)0, float : f32_name, default : f64_name)
#include "cpu/runtime/vmath.h"
#include "ops/formula.h"

#define NAME(name) DL_JOIN(name##_, T)

/* States: whether an optional one is there, where it lies, and its element. Names of the loop's own end in _. */
#define HAS(i, n) const bool has_##n = wants_ >> i & 1;
#define PLACE(i, n) T *const n##_ = t_[at_ + i];
#define READ(i, n) T n = n##_[i_];
#define READ_OPTIONAL(i, n) T n = has_##n ? n##_[i_] : 0;
#define WRITE(i, n) n##_[i_] = n;
#define WRITE_OPTIONAL(i, n)                                                                                           \
    if (has_##n) n##_[i_] = n;

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

const dl_optim_loop DL_SIMD_NAME(dl_optim_loops)[DL_NOPTIMIZER][2] = {
#define OPTIMIZER(name, ...) {name##_float, name##_double},
#include "optim/optimizers.def"
};

#else

#define STATES(...) (__VA_ARGS__)
#define OPTIONAL(...) (__VA_ARGS__)
#define SCALARS(...) __VA_ARGS__
#define K(name, expr) const T name = (T)*k_++;
#define UPDATE(...) __VA_ARGS__
#define FIRST o_->first
#define OPTIMIZER(name, other, text, how, options, ranges, states, optional, when, scalars, update, samples)           \
    static inline __attribute__((always_inline)) void NAME(name##_loop)(long n_, const dl_optim *o_, void *const *t_,  \
                                                                        const unsigned wants_) {                       \
        const double *k_ = o_->scalar;                                                                                 \
        const T lr = (T)*k_++;                                                                                         \
        scalars T *const p_ = t_[0];                                                                                   \
        const T *const g_ = t_[1];                                                                                     \
        int at_ = 2;                                                                                                   \
        (void)wants_;                                                                                                  \
        (void)lr;                                                                                                      \
        DL_EACH(PLACE, states)                                                                                         \
        at_ += DL_COUNT(states);                                                                                       \
        (void)at_;                                                                                                     \
        DL_EACH(HAS, optional)                                                                                         \
        DL_EACH(PLACE, optional)                                                                                       \
        _Pragma("GCC ivdep") for (long i_ = 0; i_ < n_; i_++) {                                                        \
            T p = p_[i_];                                                                                              \
            const T g = g_[i_];                                                                                        \
            DL_EACH(READ, states)                                                                                      \
            DL_EACH(READ_OPTIONAL, optional)                                                                           \
            update p_[i_] = p;                                                                                         \
            DL_EACH(WRITE, states)                                                                                     \
            DL_EACH(WRITE_OPTIONAL, optional)                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void NAME(name)(long n, const dl_optim *o, void *const *t) { DL_JOIN(SELECT_, DL_COUNT(optional))(name) }
#include "optim/optimizers.def"
#undef STATES
#undef OPTIONAL
#undef SCALARS
#undef K
#undef UPDATE
#undef FIRST

#endif
