/* The update of a row of optimizers.def as a loop over elements, for the kernels of every backend, and what its norms
 * measure as another one before it. The source defines LIST(i), where list i lies (parameter, gradient, states),
 * POINTER, the declarator of a pointer to it, and ELEMENTS, the head of the loop, which counts in i_; for measures also
 * SQUARE(i, x), which adds x**2 to the sum of norm i. Around it are T, the type of the states, in which the update is
 * computed; STORED, that of parameter and gradient, with LOAD(x) and STORE(x) to and from T; k_, the scalars; norms_,
 * the norms; first_; and wants_, bits of the optional states that there are. Names of the loop's own end in _: others
 * are the formula's. */
#pragma once

#include "ops/each.h"
#include "ops/formula.h"

#define STATES(...) (__VA_ARGS__)
#define OPTIONAL(...) (__VA_ARGS__)
#define SCALARS(...) __VA_ARGS__
#define NORMS(...) (__VA_ARGS__)
#define MEASURE(...) __VA_ARGS__
#define UPDATE(...) __VA_ARGS__
#define FIRST first_
#define K(name, expr)                                                                                                  \
    const T name = (T)*k_++;                                                                                           \
    (void)name;

#define DL_HAS_STATE(i, n) const bool has_##n = wants_ >> i & 1;
#define DL_STATE_AT(i, n) T POINTER n##_ = (T *)LIST(at_ + i);
#define DL_STATE_READ(i, n) T n = n##_[i_];
#define DL_STATE_READ_OPTIONAL(i, n) T n = has_##n ? n##_[i_] : (T)0;
#define DL_STATE_PEEK(i, n)                                                                                            \
    const T n = n##_[i_];                                                                                              \
    (void)n;
#define DL_STATE_PEEK_OPTIONAL(i, n)                                                                                   \
    const T n = has_##n ? n##_[i_] : (T)0;                                                                             \
    (void)n;
#define DL_STATE_WRITE(i, n) n##_[i_] = n;
#define DL_STATE_WRITE_OPTIONAL(i, n)                                                                                  \
    if (has_##n) n##_[i_] = n;
#define DL_NORM_READ(i, n) const T n = (T)norms_[i];
#define DL_NORM_START(i, n) T n = 0;
#define DL_NORM_SQUARE(i, n) SQUARE(i, n)
#define DL_OPTIM_LISTS(states, optional, scalars)                                                                      \
    const T lr = (T)*k_++;                                                                                             \
    scalars STORED POINTER p_ = (STORED *)LIST(0);                                                                     \
    const STORED POINTER g_ = (const STORED *)LIST(1);                                                                 \
    int at_ = 2;                                                                                                       \
    (void)lr;                                                                                                          \
    DL_EACH(DL_STATE_AT, states)                                                                                       \
    at_ += DL_COUNT(states);                                                                                           \
    (void)at_;                                                                                                         \
    DL_EACH(DL_HAS_STATE, optional)                                                                                    \
    DL_EACH(DL_STATE_AT, optional)
#define DL_UPDATE_LOOP(states, optional, scalars, norms, update)                                                       \
    DL_OPTIM_LISTS(states, optional, scalars)                                                                          \
    DL_EACH(DL_NORM_READ, norms)                                                                                       \
    ELEMENTS {                                                                                                         \
        T p = LOAD(p_[i_]);                                                                                            \
        const T g = LOAD(g_[i_]);                                                                                      \
        DL_EACH(DL_STATE_READ, states)                                                                                 \
        DL_EACH(DL_STATE_READ_OPTIONAL, optional)                                                                      \
        update p_[i_] = STORE(p);                                                                                      \
        DL_EACH(DL_STATE_WRITE, states)                                                                                \
        DL_EACH(DL_STATE_WRITE_OPTIONAL, optional)                                                                     \
    }
#define DL_MEASURE_LOOP(states, optional, scalars, norms, measure)                                                     \
    DL_OPTIM_LISTS(states, optional, scalars)                                                                          \
    ELEMENTS {                                                                                                         \
        const T p = LOAD(p_[i_]), g = LOAD(g_[i_]);                                                                    \
        (void)p, (void)g;                                                                                              \
        DL_EACH(DL_STATE_PEEK, states)                                                                                 \
        DL_EACH(DL_STATE_PEEK_OPTIONAL, optional)                                                                      \
        DL_EACH(DL_NORM_START, norms)                                                                                  \
        measure DL_EACH(DL_NORM_SQUARE, norms)                                                                         \
    }
