/* Inner loops of one operand; those of floating functions come from functions.def. */
#include "cpu/loop_types.h"
#include "cpu/pointwise.h"
#include "cpu/vmath.h"

/* T operand, R result; the expression sees x, and `before` runs once. */
#define LOOP_ARG(name, T, R, before, expr)                                                                             \
    static void name(long n, char **p, const long *s, void *arg) {                                                     \
        (void)arg;                                                                                                     \
        before;                                                                                                        \
        if (s[0] == sizeof(R) && s[1] == sizeof(T)) {                                                                  \
            R *o = (R *)p[0];                                                                                          \
            const T *in = (const T *)p[1];                                                                             \
            _Pragma("GCC ivdep") for (long i = 0; i < n; i++) {                                                        \
                T x = in[i];                                                                                           \
                o[i] = expr;                                                                                           \
            }                                                                                                          \
        } else {                                                                                                       \
            char *o = p[0], *in = p[1];                                                                                \
            for (long i = 0; i < n; i++, o += s[0], in += s[1]) {                                                      \
                T x = *(const T *)in;                                                                                  \
                *(R *)o = expr;                                                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }
#define LOOP(name, T, R, expr) LOOP_ARG(name, T, R, (void)0, expr)

/* ---- integers; rounding is the identity */

#define INT_LOOPS(T)                                                                                                   \
    LOOP(neg_##T, T, T, (T)(0 - (wrap_##T)x))                                                                          \
    LOOP(square_##T, T, T, (T)((wrap_##T)x * (wrap_##T)x))                                                             \
    LOOP(bitwise_not_##T, T, T, (T)~x)                                                                                 \
    LOOP(floor_##T, T, T, x)                                                                                           \
    LOOP(isnan_##T, T, bool_t, x != x)                                                                                 \
    LOOP(isfinite_##T, T, bool_t, x == x)                                                                              \
    LOOP(logical_not_##T, T, bool_t, x == 0)                                                                           \
    LOOP_ARG(leaky_relu_##T, T, T, double slope = *(const double *)arg, x > 0 ? x : (T)(long)((double)x * slope))
INT_LOOPS(u8)
INT_LOOPS(i32)
INT_LOOPS(i64)
#define SIGNED_LOOPS(T)                                                                                                \
    LOOP(abs_##T, T, T, x < 0 ? (T)(0 - (wrap_##T)x) : x)                                                              \
    LOOP(sign_##T, T, T, (T)((x > 0) - (x < 0)))                                                                       \
    LOOP(relu_##T, T, T, x > 0 ? x : 0)
SIGNED_LOOPS(i32)
SIGNED_LOOPS(i64)
LOOP(sign_u8, u8, u8, x > 0)
LOOP(bitwise_not_bool, u8, u8, x == 0)

#define INT_CLAMP(T, MIN, MAX)                                                                                         \
    LOOP_ARG(clamp_##T, T, T, const dl_limits *lim = (const dl_limits *)arg;                                           \
             T lo = (T)(lim->ilo < (MIN)   ? (MIN)                                                                     \
                        : lim->ilo > (MAX) ? (MAX)                                                                     \
                                           : lim->ilo);                                                                \
             T hi = (T)(lim->ihi < (MIN)   ? (MIN)                                                                     \
                        : lim->ihi > (MAX) ? (MAX)                                                                     \
                                           : lim->ihi),                                                                \
             (x < lo ? lo : x) > hi ? hi : (x < lo ? lo : x))
INT_CLAMP(u8, 0, 255)
INT_CLAMP(i32, -2147483647L - 1, 2147483647L)
INT_CLAMP(i64, -__LONG_MAX__ - 1, __LONG_MAX__)

/* ---- floats, what is the same for both */

#define FLOAT_LOOPS(T, f)                                                                                              \
    LOOP(neg_##T, T, T, -x)                                                                                            \
    LOOP(abs_##T, T, T, fabs##f(x))                                                                                    \
    LOOP(sign_##T, T, T, x > 0 ? 1 : x < 0 ? -1 : x == x ? 0 : x)                                                      \
    LOOP(square_##T, T, T, x *x)                                                                                       \
    LOOP(relu_##T, T, T, x < 0 ? 0 : x)                                                                                \
    LOOP_ARG(leaky_relu_##T, T, T, T slope = (T) * (const double *)arg, x > 0 ? x : x * slope)                         \
    LOOP(floor_##T, T, T, floor##f(x))                                                                                 \
    LOOP(ceil_##T, T, T, ceil##f(x))                                                                                   \
    LOOP(round_##T, T, T, nearbyint##f(x))                                                                             \
    LOOP(logical_not_##T, T, bool_t, x == 0)                                                                           \
    LOOP(isnan_##T, T, bool_t, x != x)                                                                                 \
    LOOP(isinf_##T, T, bool_t, fabs##f(x) == (T)INFINITY)                                                              \
    LOOP(isfinite_##T, T, bool_t, fabs##f(x) < (T)INFINITY)                                                            \
    LOOP_ARG(clamp_##T, T, T, const dl_limits *lim = (const dl_limits *)arg; T lo = (T)lim->lo;                        \
             T hi = (T)lim->hi, (x < lo ? lo : x) > hi ? hi : (x < lo ? lo : x))
FLOAT_LOOPS(f32, f)
FLOAT_LOOPS(f64, )

LOOP_ARG(elu_f32, f32, f32, f32 alpha = (f32) * (const double *)arg, x > 0 ? x : alpha * dl_vless1(x))
LOOP_ARG(elu_f64, f64, f64, f64 alpha = *(const double *)arg, x > 0 ? x : alpha * expm1(x))

#define FUNCTION(name, in_f32, in_f64)                                                                                 \
    LOOP(name##_f32, f32, f32, in_f32)                                                                                 \
    LOOP(name##_f64, f64, f64, in_f64)
#define LOOPS FUNCTION
#include "cpu/functions.def"
#undef FUNCTION

/* ---- the table */

#define ROW_FLOAT(op) [DL_F16] = op##_f32, [DL_BF16] = op##_f32, [DL_F32] = op##_f32, [DL_F64] = op##_f64
#define ROW_NUMBER(op) [DL_U8] = op##_u8, [DL_I32] = op##_i32, [DL_I64] = op##_i64, ROW_FLOAT(op)
/* Integers of any size, with one loop for what does not touch u8. */
#define ROW_SIGNED(op) [DL_U8] = floor_u8, [DL_I32] = op##_i32, [DL_I64] = op##_i64, ROW_FLOAT(op)
#define ROW_ROUND(op) [DL_U8] = floor_u8, [DL_I32] = floor_i32, [DL_I64] = floor_i64, ROW_FLOAT(op)

const dl_loop DL_SIMD_NAME(dl_unary_loop)[DL_NUNARY][DL_NDTYPE] = {
    [DL_U_neg] = {ROW_NUMBER(neg)},
    [DL_U_abs] = {ROW_SIGNED(abs)},
    [DL_U_sign] = {[DL_BOOL] = floor_u8, ROW_NUMBER(sign)},
    [DL_U_square] = {ROW_NUMBER(square)},
    [DL_U_relu] = {ROW_SIGNED(relu)},
    [DL_U_leaky_relu] = {ROW_NUMBER(leaky_relu)},
    [DL_U_elu] = {ROW_FLOAT(elu)},
    [DL_U_floor] = {ROW_ROUND(floor)},
    [DL_U_ceil] = {ROW_ROUND(ceil)},
    [DL_U_round] = {ROW_ROUND(round)},
    [DL_U_clamp] = {ROW_NUMBER(clamp)},
    [DL_U_logical_not] = {[DL_BOOL] = logical_not_u8, ROW_NUMBER(logical_not)},
    [DL_U_bitwise_not] = {[DL_BOOL] = bitwise_not_bool,
                          [DL_U8] = bitwise_not_u8,
                          [DL_I32] = bitwise_not_i32,
                          [DL_I64] = bitwise_not_i64},
    [DL_U_isnan] = {[DL_BOOL] = isnan_u8, ROW_NUMBER(isnan)},
    [DL_U_isinf] =
        {[DL_BOOL] = isnan_u8, [DL_U8] = isnan_u8, [DL_I32] = isnan_i32, [DL_I64] = isnan_i64, ROW_FLOAT(isinf)},
    [DL_U_isfinite] = {[DL_BOOL] = isfinite_u8, ROW_NUMBER(isfinite)},
#define FUNCTION(name, in_f32, in_f64) [DL_U_##name] = {ROW_FLOAT(name)},
#include "cpu/functions.def"
};
