/* Inner loops of the formulas of ops/pointwise.def. Includes itself once an element type. */
#ifndef T
#include "cpu/runtime/loop_types.h"
#include "cpu/kernels/pointwise/pointwise.h"
#include "cpu/kernels/pointwise/powers.h"
#include "cpu/runtime/vmath_bessel_jy.h"
#include "cpu/runtime/vmath_circle.h"
#include "cpu/runtime/vmath_f64.h"
#include "cpu/runtime/vmath_gamma.h"
#include "cpu/runtime/vmath_inverse.h"
#include "cpu/runtime/vmath_power.h"
#include "ops/formula_bessel.h"
#include "ops/each.h"

#define PART_T T /* the type of real numbers in formulas */
#define DL_FN(f32_name, f64_name) _Generic((PART_T)0, float : f32_name, default : f64_name)
#include "ops/formula.h"

#pragma GCC diagnostic ignored "-Wtype-limits"   /* u8 is never negative */
#pragma GCC diagnostic ignored "-Woverride-init" /* powers have loops by exponent */

/* The level's variants of a file are in one program; names of loops are static. */
#define NAME(name) DL_JOIN(name##_, T)
#define UNSIGNED_T DL_JOIN(wrap_, T)

/* ---- loops: T operands, R result; the last arguments are the formula. Without a formula no loop is made. */

/* Attributes, read before the loop. Names that end in _ are the loop's, others the formula's. */
#define DECLARE(i, n)                                                                                                  \
    const NUMBER_T n = NUMBER_OF(((const dl_pointwise_arg *)arg_)->number[i]);                                         \
    (void)n;
#define BEGIN(name, numbers)                                                                                           \
    static void NAME(name)(long n_, char **p_, const long *s_, void *arg_) {                                           \
        (void)arg_;                                                                                                    \
        DL_EACH(DECLARE, numbers)
/* A floating formula that is computed in another type, say because of a constant without NUM, is an error. */
#define FLOATING(e) _Generic((e), float : 4, double : 8, default : 0)
#define CHECK_TYPE(R, ...)                                                                                             \
    _Static_assert(FLOATING((__VA_ARGS__)) == FLOATING((R)0), "a formula of another type: write NUM(0.5), not 0.5");
#define PUT(R, out, ...) out = (R)(__VA_ARGS__);

/* One operand or more, which the formula calls by the names in the list. */
#define POINT(i, n) const T *n##_in_ = (const T *)p_[1 + i];
#define READ(i, n)                                                                                                     \
    T n = n##_in_[i_];                                                                                                 \
    (void)n;
#define IS_DENSE(i, n) &&s_[1 + i] == sizeof(T)
#define LOOP(name, R, numbers, operands, ...)                                                                            \
    __VA_OPT__(BEGIN(name, numbers)                                                                                    \
        if (s_[0] == sizeof(R) DL_EACH(IS_DENSE, operands)) {                                                          \
            R *o_ = (R *)p_[0];                                                                                        \
            DL_EACH(POINT, operands)                                                                                   \
            _Pragma("GCC ivdep") for (long i_ = 0; i_ < n_; i_++) {                                                    \
                DL_EACH(READ, operands)                                                                                \
                CHECK_TYPE(R, __VA_ARGS__)                                                                             \
                PUT(R, o_[i_], __VA_ARGS__)                                                                            \
            }                                                                                                          \
        } else {                                                                                                       \
            NAME(by_blocks)(NAME(name), DL_COUNT(operands), sizeof(R), n_, p_, s_, arg_);                              \
        }                                                                                                                \
    })

/* Three operands; loops of their own where the second or the third repeats one number, as of a column or a row that is
 * broadcast. */
#define ROW3(R, at_b, at_c, ...)                                                                                       \
    {                                                                                                                  \
        R *o_ = (R *)p_[0];                                                                                            \
        const T *u_ = (const T *)p_[1], *v_ = (const T *)p_[2], *w_ = (const T *)p_[3];                                \
        _Pragma("GCC ivdep") for (long i_ = 0; i_ < n_; i_++) {                                                        \
            T a = u_[i_], b = v_[at_b], c = w_[at_c];                                                                  \
            PUT(R, o_[i_], __VA_ARGS__)                                                                                \
        }                                                                                                              \
    }
#define LOOP3(name, R, numbers, ...)                                                                                   \
    __VA_OPT__(LOOP(name##_plain, R, numbers, (a, b, c), __VA_ARGS__) BEGIN(name, numbers)                             \
        const bool dense_ = s_[0] == sizeof(R) && s_[1] == sizeof(T);                                                  \
        if (dense_ && !s_[2] && s_[3] == sizeof(T))                                                                    \
            ROW3(R, 0, i_, __VA_ARGS__)                                                                                \
        else if (dense_ && s_[2] == sizeof(T) && !s_[3])                                                               \
            ROW3(R, i_, 0, __VA_ARGS__)                                                                                \
        else                                                                                                           \
            NAME(name##_plain)(n_, p_, s_, arg_);                                                                      \
    })

/* Two operands, which the formula calls `a` and `b`. Where it takes less time than copies of them, frequent
 * combinations of strides have loops of their own. */
#define LIGHT_add 0, 1
#define LIGHT_sub 0, 1
#define LIGHT_mul 0, 1
#define LIGHT_div 0, 1
#define LIGHT_add_scaled 0, 1
#define LIGHT_sub_scaled 0, 1
#define LIGHT_fmod 0, 1
#define LIGHT_remainder 0, 1
#define LIGHT_copysign 0, 1
#define LIGHT_heaviside 0, 1
#define LIGHT_fmax 0, 1
#define LIGHT_fmin 0, 1
#define LIGHT_maximum 0, 1
#define LIGHT_minimum 0, 1
#define LIGHT_bitwise_and 0, 1
#define LIGHT_bitwise_or 0, 1
#define LIGHT_bitwise_xor 0, 1
#define LIGHT_slope_below 0, 1
#define LIGHT_square_difference 0, 1
#define SECOND(a, b, ...) b
#define IS_LIGHT(name) DL_PASS(SECOND, LIGHT_##name, 0, )
#define LOOP2(light, name, R, numbers, ...)                                                                              \
    __VA_OPT__(BEGIN(name, numbers)                                                                                    \
        R *o_ = (R *)p_[0];                                                                                            \
        const T *u_ = (const T *)p_[1], *v_ = (const T *)p_[2];                                                        \
        bool dense_ = s_[0] == sizeof(R);                                                                              \
        if (dense_ && s_[1] == sizeof(T) && s_[2] == sizeof(T)) {                                                      \
            _Pragma("GCC ivdep") for (long i_ = 0; i_ < n_; i_++) {                                                    \
                T a = u_[i_], b = v_[i_];                                                                              \
                CHECK_TYPE(R, __VA_ARGS__)                                                                             \
                PUT(R, o_[i_], __VA_ARGS__)                                                                            \
            }                                                                                                          \
        } else if (!(light)) {                                                                                         \
            NAME(by_blocks)(NAME(name), 2, sizeof(R), n_, p_, s_, arg_);                                               \
        } else if (dense_ && s_[1] == sizeof(T) && s_[2] == 0) {                                                       \
            T b = *v_;                                                                                                 \
            _Pragma("GCC ivdep") for (long i_ = 0; i_ < n_; i_++) {                                                    \
                T a = u_[i_];                                                                                          \
                PUT(R, o_[i_], __VA_ARGS__)                                                                            \
            }                                                                                                          \
        } else if (dense_ && s_[1] == 0 && s_[2] == sizeof(T)) {                                                       \
            T a = *u_;                                                                                                 \
            _Pragma("GCC ivdep") for (long i_ = 0; i_ < n_; i_++) {                                                    \
                T b = v_[i_];                                                                                          \
                PUT(R, o_[i_], __VA_ARGS__)                                                                            \
            }                                                                                                          \
        } else {                                                                                                       \
            char *q_ = p_[0], *l_ = p_[1], *r_ = p_[2];                                                                \
            for (long i_ = 0; i_ < n_; i_++, q_ += s_[0], l_ += s_[1], r_ += s_[2]) {                                  \
                T a = *(const T *)l_, b = *(const T *)r_;                                                              \
                PUT(R, *(R *)q_, __VA_ARGS__)                                                                          \
            }                                                                                                          \
        }                                                                                                                \
    })

/* A block in which the condition holds nowhere is done by the loop of the formula. Else that loop is called for single
 * elements, and the others get the expression. */
#define LOOP_FAR(name, condition, ...)                                                                                 \
    static void NAME(name##_or_far)(long n_, char **p_, const long *s_, void *arg_) {                                  \
        for (long b_ = 0, m_; b_ < n_; b_ += m_) {                                                                     \
            char *at_[2] = {p_[0] + b_ * s_[0], p_[1] + b_ * s_[1]};                                                   \
            int far_ = 0;                                                                                              \
            m_ = n_ - b_ < FAR_BLOCK ? n_ - b_ : FAR_BLOCK;                                                            \
            if (s_[1] == sizeof(T)) {                                                                                  \
                for (long i_ = 0; i_ < m_; i_++) {                                                                     \
                    T x = ((const T *)at_[1])[i_];                                                                     \
                    far_ |= (condition) ? 1 : 0;                                                                       \
                }                                                                                                      \
            } else {                                                                                                   \
                for (long i_ = 0; i_ < m_; i_++) {                                                                     \
                    T x = *(const T *)(at_[1] + i_ * s_[1]);                                                           \
                    far_ |= (condition) ? 1 : 0;                                                                       \
                }                                                                                                      \
            }                                                                                                          \
            for (long i_ = 0; far_ && i_ < m_; i_++, at_[0] += s_[0], at_[1] += s_[1]) {                               \
                T x = *(const T *)at_[1];                                                                              \
                if (condition)                                                                                         \
                    *(T *)at_[0] = (__VA_ARGS__);                                                                      \
                else                                                                                                   \
                    NAME(name)(1, at_, s_, arg_);                                                                      \
            }                                                                                                          \
            if (!far_) NAME(name)(m_, at_, s_, arg_);                                                                  \
        }                                                                                                              \
    }
/* The same of two operands. */
#define LOOP2_FAR(name, condition, ...)                                                                                \
    static void NAME(name##_or_far)(long n_, char **p_, const long *s_, void *arg_) {                                  \
        char *at_[3] = {p_[0], p_[1], p_[2]};                                                                          \
        for (long b_ = 0, m_; b_ < n_; b_ += m_) {                                                                     \
            int far_ = 0;                                                                                              \
            m_ = n_ - b_ < FAR_BLOCK ? n_ - b_ : FAR_BLOCK;                                                            \
            if (s_[1] == sizeof(T) && s_[2] == sizeof(T)) {                                                            \
                for (long i_ = 0; i_ < m_; i_++) {                                                                     \
                    T a = ((const T *)at_[1])[i_], b = ((const T *)at_[2])[i_];                                        \
                    far_ |= (condition) ? 1 : 0;                                                                       \
                }                                                                                                      \
            } else if (s_[1] == sizeof(T) && s_[2] == 0) {                                                             \
                T b = *(const T *)at_[2];                                                                              \
                for (long i_ = 0; i_ < m_; i_++) {                                                                     \
                    T a = ((const T *)at_[1])[i_];                                                                     \
                    far_ |= (condition) ? 1 : 0;                                                                       \
                }                                                                                                      \
            } else {                                                                                                   \
                for (long i_ = 0; i_ < m_; i_++) {                                                                     \
                    T a = *(const T *)(at_[1] + i_ * s_[1]), b = *(const T *)(at_[2] + i_ * s_[2]);                    \
                    far_ |= (condition) ? 1 : 0;                                                                       \
                }                                                                                                      \
            }                                                                                                          \
            if (!far_) NAME(name)(m_, (char *[]){at_[0], at_[1], at_[2]}, s_, arg_);                                   \
            for (long i_ = 0; far_ && i_ < m_; i_++) {                                                                 \
                char *one_[3] = {at_[0] + i_ * s_[0], at_[1] + i_ * s_[1], at_[2] + i_ * s_[2]};                       \
                T a = *(const T *)one_[1], b = *(const T *)one_[2];                                                    \
                if (condition)                                                                                         \
                    *(T *)one_[0] = (__VA_ARGS__);                                                                     \
                else                                                                                                   \
                    NAME(name)(1, one_, s_, arg_);                                                                     \
            }                                                                                                          \
            for (int k_ = 0; k_ < 3; k_++) at_[k_] += m_ * s_[k_];                                                     \
        }                                                                                                              \
    }
enum { FAR_BLOCK = 512, STRIDED_BLOCK = 256, SHORT_ROW = 16 };

/* ---- integers: operands without a result are flagged */

static void flag(int *faults, int bit) { __atomic_fetch_or(faults, bit, __ATOMIC_RELAXED); }
#define DL_AT &((dl_pointwise_arg *)arg_)->faults
#define FAULT_AT int *
#define FAULT(kind, value) flag(at, DL_BAD_##kind)
#define DL_HELPER_OF NAME
#define DL_HELPER(name) static inline T NAME(name)

/* ---- the types */

#define NONE(...)
#define ALL(...) __VA_ARGS__

/* floats: attributes are numbers of the type */
#define OF_COMPLEX NONE
#define DL_REAL_HELPERS
#define OF_REAL ALL
#define OF_INT NONE
#define OF_BOOL NONE
#define NUMBER_T T
#define NUMBER_OF(v) (T)(v).f
#define LOW(n) n
#define HIGH(n) n
#define T f32
#include "pointwise_simd.c"
#undef T
#define T f64
#include "pointwise_simd.c"
#undef T
#undef DL_REAL_HELPERS
#undef OF_REAL
#undef OF_INT
#undef NUMBER_T
#undef NUMBER_OF
#undef LOW
#undef HIGH

/* integers: attributes are kept as they are */
#define DL_INT_HELPERS
#define OF_REAL NONE
#define OF_INT ALL
#define NUMBER_T dl_number
#define NUMBER_OF(v) (v)
#define LEAST ((T)-1 < 0 ? -(long)(~0ul >> 1 >> (64 - 8 * sizeof(T))) - 1 : 0)
#define LARGEST (long)(~0ul >> ((T)-1 < 0) >> (64 - 8 * sizeof(T)))
#define WITHIN(v) (T)((v) < LEAST ? LEAST : (v) > LARGEST ? LARGEST : (v))
#define REAL(n) (n).f
#define WHOLE(n) (n).i
#define LOW(n) ((n).given ? WITHIN((n).i) : (T)LEAST)
#define HIGH(n) ((n).given ? WITHIN((n).i) : (T)LARGEST)
#define T u8
#include "pointwise_simd.c"
#undef T
#define T i32
#include "pointwise_simd.c"
#undef T
#define T i64
#include "pointwise_simd.c"
#undef T
#undef DL_INT_HELPERS
#undef OF_INT
#undef OF_BOOL

#define OF_INT NONE
#define OF_BOOL ALL
#define T bool_t
#include "pointwise_simd.c"
#undef T
#undef OF_BOOL
#undef OF_COMPLEX

/* complex numbers: a struct is not cast, and its formulas have a type anyhow */
#define DL_COMPLEX_HELPERS
#define OF_BOOL NONE
#define OF_COMPLEX ALL
#undef CHECK_TYPE
#define CHECK_TYPE(R, ...)
#undef PUT
#define PUT(R, out, ...) out = (__VA_ARGS__);
#undef PART_T
#define PART_T f32
#define T c64
#include "pointwise_simd.c"
#undef T
#undef PART_T
#define PART_T f64
#define T c128
#include "pointwise_simd.c"
#undef T

const dl_pointwise_loops DL_SIMD_NAME(dl_pointwise)[DL_NDTYPE] = {
    [DL_F32] = &loops_f32, [DL_F16] = &loops_f32,  [DL_BF16] = &loops_f32, [DL_F64] = &loops_f64,
    [DL_U8] = &loops_u8,   [DL_I32] = &loops_i32,  [DL_I64] = &loops_i64,  [DL_BOOL] = &loops_bool_t,
    [DL_C64] = &loops_c64, [DL_C128] = &loops_c128};

/* 16-bit floats of which only the sign changes, without a way through f32; u and v: the bits of the first and the last
 * operand. */
#define SIGN_LOOP(name, last, ...)                                                                                     \
    static void name(long n, char **p, const long *s, void *arg) {                                                     \
        (void)arg;                                                                                                     \
        const bool dense = s[0] == 2 && s[1] == 2 && s[last] == 2;                                                     \
        char *o = p[0], *a = p[1], *b = p[last];                                                                       \
        if (dense) {                                                                                                   \
            _Pragma("GCC ivdep") for (long i = 0; i < n; i++) {                                                        \
                const unsigned u = ((unsigned short *)a)[i], v = ((unsigned short *)b)[i];                             \
                (void)v;                                                                                               \
                ((unsigned short *)o)[i] = (unsigned short)(__VA_ARGS__);                                              \
            }                                                                                                          \
        }                                                                                                              \
        for (long i = 0; !dense && i < n; i++, o += s[0], a += s[1], b += s[last]) {                                   \
            const unsigned u = *(unsigned short *)a, v = *(unsigned short *)b;                                         \
            (void)v;                                                                                                   \
            *(unsigned short *)o = (unsigned short)(__VA_ARGS__);                                                      \
        }                                                                                                              \
    }
SIGN_LOOP(negative_half, 1, u ^ 0x8000)
SIGN_LOOP(magnitude_half, 1, u & 0x7fff)
SIGN_LOOP(signed_half, 2, (u & 0x7fff) | (v & 0x8000))

const dl_loop DL_SIMD_NAME(dl_sign_loops)[DL_NFORMULA] = {
    [DL_FORMULA_neg] = negative_half, [DL_FORMULA_abs] = magnitude_half, [DL_FORMULA_copysign] = signed_half};

#else /* what is made for one type */

#include "ops/formula_math.h"

/* Long rows whose elements do not lie side by side go through blocks that do, where the formula is vectorised; of a row
 * that repeats one element one block is computed. */
static void NAME(by_blocks)(dl_loop loop, int operands, long out_size, long n, char **p, const long *s, void *arg) {
    const long dense[5] = {out_size, sizeof(T), sizeof(T), sizeof(T), sizeof(T)};
    T in[4][STRIDED_BLOCK], out[STRIDED_BLOCK]; /* results are T or bool_t */
    bool same = true, side_by_side = s[0] == out_size;
    for (int k = 1; k <= operands; k++) same = same && s[k] == 0;
    for (long at = 0, m; at < n; at += m) {
        char *to = p[0] + at * s[0], *q[5] = {side_by_side ? to : (char *)out};
        m = n - at < STRIDED_BLOCK ? n - at : STRIDED_BLOCK;
        for (int k = 1; k <= operands; k++) {
            const char *from = p[k] + at * s[k];
            q[k] = s[k] == sizeof(T) ? (char *)(uintptr_t)from : (char *)in[k - 1];
            if (s[k] == 2 * sizeof(T)) /* parts of complex numbers, which vectors bring together */
                for (long i = 0; i < m; i++) in[k - 1][i] = ((const T *)from)[2 * i];
            else if (s[k] != sizeof(T) && (s[k] || !at))
                for (long i = 0; i < m; i++) in[k - 1][i] = *(const T *)(from + i * s[k]);
        }
        if (!same || !at)
            loop(m, q, dense, arg);
        else if (side_by_side)
            memcpy(to, p[0], (size_t)(m * out_size));
        for (long i = 0; i < m && !side_by_side; i++, to += s[0])
            if (out_size == sizeof(T))
                *(T *)to = out[i];
            else
                *(bool_t *)to = ((const bool_t *)out)[i];
    }
}

#define FUNCTION_OF(name, numbers, ...) LOOP(name, T, numbers, (x), __VA_ARGS__)
#define FUNCTION2_OF(name, numbers, ...) LOOP2(IS_LIGHT(name), name, T, numbers, __VA_ARGS__)
#define FUNCTION3_OF(name, numbers, ...) LOOP3(name, T, numbers, __VA_ARGS__)
#define TEST(name, ...) LOOP(name, bool_t, (), (x), __VA_ARGS__)
#define TEST2(name, ...) LOOP2(1, name, bool_t, (), __VA_ARGS__)
#define FLOAT OF_REAL
#define COMPLEX OF_COMPLEX
#define INT OF_INT
#define BOOL OF_BOOL
#include "ops/pointwise.def"

#ifdef DL_REAL_HELPERS
/* Gradients: only the formula that follows from one of the two fields. */
#define FUNCTION_OF(name, numbers, ...) LOOP(name##_grad_a, T, numbers, (g, x), __VA_ARGS__)
#define GRAD_X ALL
#include "ops/pointwise.def"
#define FUNCTION_OF(name, numbers, ...) LOOP(name##_grad_a, T, numbers, (g, y), __VA_ARGS__)
#define GRAD_Y ALL
#include "ops/pointwise.def"
#define FUNCTION2_OF(name, numbers, ...) LOOP(name##_grad_a, T, numbers, (g, a, b), __VA_ARGS__)
#define FUNCTION3_OF(name, numbers, ...) LOOP(name##_grad_a, T, numbers, (g, a, b, c), __VA_ARGS__)
#define GRAD_A ALL
#include "ops/pointwise.def"
#define FUNCTION2_OF(name, numbers, ...) LOOP(name##_grad_b, T, numbers, (g, a, b), __VA_ARGS__)
#define FUNCTION3_OF(name, numbers, ...) LOOP(name##_grad_b, T, numbers, (g, a, b, c), __VA_ARGS__)
#define GRAD_B ALL
#include "ops/pointwise.def"
#define FUNCTION3_OF(name, numbers, ...) LOOP(name##_grad_c, T, numbers, (g, a, b, c), __VA_ARGS__)
#define GRAD_C ALL
#include "ops/pointwise.def"

#define FUNCTION_OF(name, numbers, ...) __VA_OPT__(LOOP_FAR(name, __VA_ARGS__))
#define FUNCTION2_OF(name, numbers, ...) __VA_OPT__(LOOP2_FAR(name, __VA_ARGS__))
#define FAR ALL
#include "ops/pointwise.def"

/* Parts of complex numbers do not lie side by side: copies to where they do cost less than roots one by one. */
static void NAME(any_hypot)(long n, char **p, const long *s, void *arg) {
    if (n < SHORT_ROW || (s[1] == sizeof(T) && s[2] == sizeof(T)))
        NAME(hypot)(n, p, s, arg);
    else
        NAME(by_blocks)(NAME(hypot), 2, sizeof(T), n, p, s, arg);
}

#define POWER(exponent, name, ...) LOOP2(1, name, T, (), __VA_ARGS__)
DL_POWERS(POWER)
#undef POWER
static void NAME(any_pow)(long n, char **p, const long *s, void *arg) {
#define POWER(exponent, name, ...) NAME(name),
    static const dl_loop quick[] = {DL_POWERS(POWER)};
#undef POWER
    const int i = s[2] || !n ? -1 : dl_power_place(*(const T *)p[2], sizeof(T) == sizeof(f32) ? DL_F32 : DL_F64);
    if (i >= 0)
        quick[i](n, p, s, arg);
    else if (n < SHORT_ROW || (s[1] == sizeof(T) && s[2] == sizeof(T)))
        NAME(pow)(n, p, s, arg);
    else /* compilers do not vectorise the loop of one exponent or base */
        NAME(by_blocks)(NAME(pow), 2, sizeof(T), n, p, s, arg);
}

/* Sizes of differences, and powers of them by the loops above. */
LOOP2(1, difference_size, T, (p, shift), ABS(a - b + shift))
static void NAME(any_difference_power)(long n, char **p, const long *s, void *arg) {
    T exponent = (T)((const dl_pointwise_arg *)arg)->number[0].f;
    NAME(difference_size)(n, (char *[]){p[0], p[1], p[2]}, s, arg);
    if (exponent != 1) NAME(any_pow)(n, (char *[]){p[0], p[0], (char *)&exponent}, (long[]){s[0], s[0], 0}, arg);
}

/* The frequent order of polygamma, the slope of digamma, has a loop without branches. */
LOOP(psi_slope, T, (), (x), NAME(psi_1)(x))
static void NAME(any_polygamma)(long n, char **p, const long *s, void *arg) {
    (((const dl_pointwise_arg *)arg)->number[0].f == 1 ? NAME(psi_slope) : NAME(polygamma))(n, p, s, arg);
}
#endif

#ifdef DL_INT_HELPERS
/* Numbers below 2**51 are f64 without a loss, and their quotient is not rounded to a whole number that it is not:
 * vectors divide those, in blocks without a divisor of 0. */
#define FAR_INT(v) (sizeof(T) == 8 ? ((unsigned long)(v) + (1ul << 51)) >> 52 : 0)
#define AS_F64(v) (sizeof(T) == 8 ? dl_vdouble(dl_vplus((long)(v), 0x4338000000000000)) - DL_VROUND : (double)(v))
static bool NAME(in_f64)(long n, const T *a, const T *b, bool row) {
    unsigned long far = 0;
    for (long i = 0; i < n; i++) {
        const T c = row ? b[i] : *b;
        far |= FAR_INT(a[i]) | FAR_INT(c) | (unsigned long)(c == 0);
    }
    return !far;
}
#define DIVIDE(b_, ...)                                                                                                \
    _Pragma("GCC ivdep") for (long i_ = 0; i_ < m_; i_++) {                                                            \
        const double a = AS_F64(u_[i_]), b = AS_F64(b_);                                                               \
        o_[i_] = (T)dl_vless(dl_vbits_f64((__VA_ARGS__) + DL_VROUND), 0x4338000000000000);                             \
    }
#define DIVISION(name, ...)                                                                                            \
    static void NAME(any_##name)(long n_, char **p_, const long *s_, void *arg_) {                                     \
        const bool row_ = s_[2] != 0, dense_ = s_[0] == sizeof(T) && s_[1] == s_[0] && (!row_ || s_[2] == s_[0]);      \
        for (long at_ = 0, m_; at_ < n_; at_ += m_) {                                                                  \
            m_ = dense_ && n_ - at_ > FAR_BLOCK ? FAR_BLOCK : n_ - at_;                                                \
            char *to_[3] = {p_[0] + at_ * s_[0], p_[1] + at_ * s_[1], p_[2] + at_ * s_[2]};                            \
            T *o_ = (T *)to_[0];                                                                                       \
            const T *u_ = (const T *)to_[1], *v_ = (const T *)to_[2];                                                  \
            if (!dense_ || !NAME(in_f64)(m_, u_, v_, row_))                                                            \
                NAME(name)(m_, to_, s_, arg_);                                                                         \
            else if (row_)                                                                                             \
                DIVIDE(v_[i_], __VA_ARGS__)                                                                            \
            else                                                                                                       \
                DIVIDE(*v_, __VA_ARGS__)                                                                               \
        }                                                                                                              \
    }
DIVISION(floor_divide, floor(a / b))
DIVISION(remainder, a - b * floor(a / b))
DIVISION(fmod, a - b * trunc(a / b))
#endif

#ifdef DL_COMPLEX_HELPERS
#define FUNCTION_OF(name, numbers, ...) LOOP(name##_grad_a, T, numbers, (g, x), __VA_ARGS__)
#define GRAD_COMPLEX_X ALL
#include "ops/pointwise.def"
#define FUNCTION_OF(name, numbers, ...) LOOP(name##_grad_a, T, numbers, (g, y), __VA_ARGS__)
#define GRAD_COMPLEX_Y ALL
#include "ops/pointwise.def"
#define FUNCTION_OF(name, numbers, ...) __VA_OPT__(LOOP_FAR(name, __VA_ARGS__))
#define FAR_COMPLEX ALL
#include "ops/pointwise.def"
#endif

#define ENTRY(name, function, ...) __VA_OPT__([DL_FORMULA_##name] = NAME(function), )
static const struct dl_pointwise_table NAME(loops) = {
    .run =
        {
#define FUNCTION_OF(name, numbers, ...) ENTRY(name, name, __VA_ARGS__)
#define FUNCTION2_OF FUNCTION_OF
#define FUNCTION3_OF FUNCTION_OF
#define TEST(name, ...) ENTRY(name, name, __VA_ARGS__)
#define TEST2 TEST
#define FLOAT OF_REAL
#define COMPLEX OF_COMPLEX
#define INT OF_INT
#define BOOL OF_BOOL
#include "ops/pointwise.def"
#ifdef DL_INT_HELPERS
            [DL_FORMULA_floor_divide] = NAME(any_floor_divide),
            [DL_FORMULA_remainder] = NAME(any_remainder),
            [DL_FORMULA_fmod] = NAME(any_fmod),
#endif
#ifdef DL_REAL_HELPERS
            [DL_FORMULA_pow] = NAME(any_pow),
            [DL_FORMULA_hypot] = NAME(any_hypot),
            [DL_FORMULA_polygamma] = NAME(any_polygamma),
            [DL_FORMULA_difference_power] = NAME(any_difference_power),
#define FUNCTION_OF(name, numbers, ...) ENTRY(name, name##_or_far, __VA_ARGS__)
#define FUNCTION2_OF FUNCTION_OF
#define FAR ALL
#include "ops/pointwise.def"
        },
    .grad =
        {
#include "cpu/kernels/pointwise/gradients.def"
#endif
#ifdef DL_COMPLEX_HELPERS
#define FUNCTION_OF(name, numbers, ...) ENTRY(name, name##_or_far, __VA_ARGS__)
#define FAR_COMPLEX ALL
#include "ops/pointwise.def"
        },
    .grad = {{
#define FUNCTION_OF(name, numbers, ...) ENTRY(name, name##_grad_a, __VA_ARGS__)
#define GRAD_COMPLEX_X ALL
#define GRAD_COMPLEX_Y ALL
#include "ops/pointwise.def"
    }
#endif
    },
};
#undef ENTRY

#endif
