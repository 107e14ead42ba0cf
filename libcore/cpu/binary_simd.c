/* Inner loops of two operands, and of gradients that take the incoming one (a) and a saved value (b). */
#include "cpu/loop_types.h"
#include "cpu/pointwise.h"
#include "cpu/vmath.h"

/* T operands, R result; the expression sees a and b, and `before` runs once. The runs that matter have loops of their
 * own. */
#define LOOP_ARG(name, T, R, before, expr)                                                                             \
    static void name(long n, char **p, const long *s, void *arg) {                                                     \
        (void)arg;                                                                                                     \
        before;                                                                                                        \
        R *o = (R *)p[0];                                                                                              \
        const T *x = (const T *)p[1], *y = (const T *)p[2];                                                            \
        bool dense = s[0] == sizeof(R);                                                                                \
        if (dense && s[1] == sizeof(T) && s[2] == sizeof(T)) {                                                         \
            _Pragma("GCC ivdep") for (long i = 0; i < n; i++) {                                                        \
                T a = x[i], b = y[i];                                                                                  \
                o[i] = expr;                                                                                           \
            }                                                                                                          \
        } else if (dense && s[1] == sizeof(T) && s[2] == 0) {                                                          \
            T b = *y;                                                                                                  \
            _Pragma("GCC ivdep") for (long i = 0; i < n; i++) {                                                        \
                T a = x[i];                                                                                            \
                o[i] = expr;                                                                                           \
            }                                                                                                          \
        } else if (dense && s[1] == 0 && s[2] == sizeof(T)) {                                                          \
            T a = *x;                                                                                                  \
            _Pragma("GCC ivdep") for (long i = 0; i < n; i++) {                                                        \
                T b = y[i];                                                                                            \
                o[i] = expr;                                                                                           \
            }                                                                                                          \
        } else {                                                                                                       \
            SLOW_BODY(T, R, expr)                                                                                      \
        }                                                                                                              \
    }
#define LOOP(name, T, R, expr) LOOP_ARG(name, T, R, (void)0, expr)
#define SLOW_BODY(T, R, expr)                                                                                          \
    char *q = p[0], *u = p[1], *v = p[2];                                                                              \
    for (long i = 0; i < n; i++, q += s[0], u += s[1], v += s[2]) {                                                    \
        T a = *(const T *)u, b = *(const T *)v;                                                                        \
        *(R *)q = expr;                                                                                                \
    }
/* For functions whose own time hides the strides; the expression may use `arg`. */
#define SLOW(name, T, R, expr)                                                                                         \
    static void name(long n, char **p, const long *s, void *arg) {                                                     \
        (void)arg;                                                                                                     \
        SLOW_BODY(T, R, expr)                                                                                          \
    }

#define EACH_INT(X) X(u8) X(i32) X(i64)
#define EACH_FLOAT(X) X(f32) X(f64)
#define EACH_NUMBER(X) EACH_INT(X) EACH_FLOAT(X)

#define ARITH(T)                                                                                                       \
    LOOP(add_##T, T, T, (T)((wrap_##T)a + (wrap_##T)b))                                                                \
    LOOP(sub_##T, T, T, (T)((wrap_##T)a - (wrap_##T)b))                                                                \
    LOOP(mul_##T, T, T, (T)((wrap_##T)a * (wrap_##T)b))
EACH_NUMBER(ARITH)

#define ORDER_FLOAT(T)                                                                                                 \
    LOOP(div_##T, T, T, a / b)                                                                                         \
    LOOP(maximum_##T, T, T, a > b || a != a ? a : b)                                                                   \
    LOOP(minimum_##T, T, T, a < b || a != a ? a : b)
EACH_FLOAT(ORDER_FLOAT)
#define ORDER_INT(T)                                                                                                   \
    LOOP(maximum_##T, T, T, a > b ? a : b)                                                                             \
    LOOP(minimum_##T, T, T, a < b ? a : b)
EACH_INT(ORDER_INT)

#define COMPARE_LOOPS(T)                                                                                               \
    LOOP(eq_##T, T, bool_t, a == b)                                                                                    \
    LOOP(ne_##T, T, bool_t, a != b)                                                                                    \
    LOOP(lt_##T, T, bool_t, a < b)                                                                                     \
    LOOP(le_##T, T, bool_t, a <= b)                                                                                    \
    LOOP(gt_##T, T, bool_t, a > b)                                                                                     \
    LOOP(ge_##T, T, bool_t, a >= b)                                                                                    \
    LOOP(logical_and_##T, T, bool_t, (a != 0) & (b != 0))                                                              \
    LOOP(logical_or_##T, T, bool_t, (a != 0) | (b != 0))                                                               \
    LOOP(logical_xor_##T, T, bool_t, (a != 0) ^ (b != 0))
EACH_NUMBER(COMPARE_LOOPS)

#define BITS(T)                                                                                                        \
    LOOP(bitwise_and_##T, T, T, (T)(a & b))                                                                            \
    LOOP(bitwise_or_##T, T, T, (T)(a | b))                                                                             \
    LOOP(bitwise_xor_##T, T, T, (T)(a ^ b))
EACH_INT(BITS)

/* ---- integers: operands without a result are flagged */

static void flag(void *arg, int bit) { __atomic_fetch_or((int *)arg, bit, __ATOMIC_RELAXED); }

#define INT_DIVISION(T, SIGNED)                                                                                        \
    static inline T quotient_##T(T a, T b, void *arg) {                                                                \
        if (b == 0) return flag(arg, DL_BAD_DIVISOR), (T)0;                                                            \
        if (SIGNED && b == (T)-1) return (T)(0 - (wrap_##T)a);                                                         \
        T q = (T)(a / b);                                                                                              \
        return (T)(SIGNED && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q);                                            \
    }                                                                                                                  \
    static inline T rest_##T(T a, T b, void *arg) {                                                                    \
        if (b == 0) return flag(arg, DL_BAD_DIVISOR), (T)0;                                                            \
        if (SIGNED && b == (T)-1) return 0;                                                                            \
        T r = (T)(a % b);                                                                                              \
        return (T)(SIGNED && r != 0 && (r < 0) != (b < 0) ? r + b : r);                                                \
    }                                                                                                                  \
    static inline T power_##T(T a, T b, void *arg) {                                                                   \
        if (SIGNED && b < 0) return flag(arg, DL_BAD_EXPONENT), (T)0;                                                  \
        wrap_##T r = 1, f = (wrap_##T)a;                                                                               \
        for (wrap_##T e = (wrap_##T)b; e; e >>= 1, f = (wrap_##T)(f * f))                                              \
            if (e & 1) r = (wrap_##T)(r * f);                                                                          \
        return (T)r;                                                                                                   \
    }                                                                                                                  \
    static inline T left_##T(T a, T b, void *arg) {                                                                    \
        if (b < 0 || b >= (T)(8 * sizeof(T))) return flag(arg, DL_BAD_SHIFT), (T)0;                                    \
        return (T)((wrap_##T)a << b);                                                                                  \
    }                                                                                                                  \
    static inline T right_##T(T a, T b, void *arg) {                                                                   \
        if (b < 0 || b >= (T)(8 * sizeof(T))) return flag(arg, DL_BAD_SHIFT), (T)0;                                    \
        return (T)(a >> b);                                                                                            \
    }                                                                                                                  \
    SLOW(floor_divide_##T, T, T, quotient_##T(a, b, arg))                                                              \
    SLOW(remainder_##T, T, T, rest_##T(a, b, arg))                                                                     \
    SLOW(pow_##T, T, T, power_##T(a, b, arg))                                                                          \
    SLOW(bitwise_left_shift_##T, T, T, left_##T(a, b, arg))                                                            \
    SLOW(bitwise_right_shift_##T, T, T, right_##T(a, b, arg))

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits" /* u8 is never negative */
INT_DIVISION(u8, 0)
INT_DIVISION(i32, 1)
INT_DIVISION(i64, 1)
#pragma GCC diagnostic pop

/* ---- floating division and power */

#define FLOAT_DIVISION(T, f)                                                                                           \
    static inline T quotient_##T(T a, T b) {                                                                           \
        if (b == 0) return a / b;                                                                                      \
        T r = fmod##f(a, b), q = (a - r) / b; /* exact up to rounding, so floor() below cannot be one off */           \
        if (r != 0 && (r < 0) != (b < 0)) q -= 1;                                                                      \
        if (q == 0) return copysign##f(0, a / b);                                                                      \
        T w = floor##f(q);                                                                                             \
        return q - w > (T)0.5 ? w + 1 : w;                                                                             \
    }                                                                                                                  \
    static inline T rest_##T(T a, T b) {                                                                               \
        T r = fmod##f(a, b);                                                                                           \
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                                               \
    }                                                                                                                  \
    SLOW(floor_divide_##T, T, T, quotient_##T(a, b))                                                                   \
    SLOW(remainder_##T, T, T, rest_##T(a, b))                                                                          \
    LOOP(first_of_##T, T, T, b == b ? a : b)                                                                           \
    LOOP(square_of_##T, T, T, b == b ? a * a : b)                                                                      \
    LOOP(cube_of_##T, T, T, b == b ? a * a * a : b)                                                                    \
    SLOW(any_power_##T, T, T, pow##f(a, b))                                                                            \
    static void pow_##T(long n, char **p, const long *s, void *arg) {                                                  \
        T e = n ? *(const T *)p[2] : 0;                                                                                \
        dl_loop loop = s[2] || (e != 1 && e != 2 && e != 3) ? any_power_##T                                            \
                       : e == 1                             ? first_of_##T                                             \
                       : e == 2                             ? square_of_##T                                            \
                                                            : cube_of_##T;                                                                         \
        loop(n, p, s, arg);                                                                                            \
    }
FLOAT_DIVISION(f32, f)
FLOAT_DIVISION(f64, )

/* ---- gradients */

#define GRADS(T)                                                                                                       \
    LOOP(relu_grad_##T, T, T, b <= 0 ? 0 : a)                                                                          \
    LOOP(tanh_grad_##T, T, T, a *(1 - b * b))                                                                          \
    LOOP(sigmoid_grad_##T, T, T, a *(b * (1 - b)))
EACH_FLOAT(GRADS)

#define SLOPE(T) T slope = (T) * (const double *)arg
LOOP_ARG(leaky_relu_grad_f32, float, float, SLOPE(float), b > 0 ? a : a * slope)
LOOP_ARG(leaky_relu_grad_f64, double, double, SLOPE(double), b > 0 ? a : a * slope)
LOOP_ARG(elu_grad_f32, float, float, SLOPE(float), b > 0 ? a : a * (slope * dl_vexp(b)))
LOOP_ARG(elu_grad_f64, double, double, SLOPE(double), b > 0 ? a : a * (slope * exp(b)))

static inline float gelu_slope_f32(float x) {
    return 0.5f * (1.0f + dl_verf(x * 0.707106781f)) + x * 0.398942280f * dl_vexp(-0.5f * x * x);
}
static inline double gelu_slope_f64(double x) {
    return 0.5 * erfc(-x * 0.70710678118654752440) + x * 0.39894228040143267794 * exp(-0.5 * x * x);
}
static inline float silu_slope_f32(float x) {
    float s = dl_vsigmoid(x);
    return s * (1.0f + x * (1.0f - s));
}
static inline double silu_slope_f64(double x) {
    double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}
LOOP(gelu_grad_f32, float, float, a *gelu_slope_f32(b))
SLOW(gelu_grad_f64, double, double, a *gelu_slope_f64(b))
LOOP(silu_grad_f32, float, float, a *silu_slope_f32(b))
SLOW(silu_grad_f64, double, double, a *silu_slope_f64(b))
LOOP(softplus_grad_f32, float, float, a *dl_vsigmoid(b))
SLOW(softplus_grad_f64, double, double, a / (1 + exp(-b)))

/* ---- losses: target * softplus(-x) + (1 - target) * softplus(x), exact for large logits of either sign */

LOOP(logit_loss_f32, float, float, dl_vlog1p01(dl_vexp(-fabsf(a))) + (a > 0 ? (1 - b) * a : -b * a))
SLOW(logit_loss_f64, double, double, log1p(exp(-fabs(a))) + (a > 0 ? (1 - b) * a : -b * a))

/* ---- the table */

#define ROW_INT(op) [DL_U8] = op##_u8, [DL_I32] = op##_i32, [DL_I64] = op##_i64
#define ROW_FLOAT(op) [DL_F16] = op##_f32, [DL_BF16] = op##_f32, [DL_F32] = op##_f32, [DL_F64] = op##_f64
#define ROW_NUMBER(op) ROW_INT(op), ROW_FLOAT(op)

const dl_loop DL_SIMD_NAME(dl_binary_loop)[DL_NBINARY][DL_NDTYPE] = {
    [DL_B_add] = {[DL_BOOL] = bitwise_or_u8, ROW_NUMBER(add)},
    [DL_B_sub] = {ROW_NUMBER(sub)},
    [DL_B_mul] = {[DL_BOOL] = bitwise_and_u8, ROW_NUMBER(mul)},
    [DL_B_div] = {ROW_FLOAT(div)},
    [DL_B_floor_divide] = {ROW_NUMBER(floor_divide)},
    [DL_B_remainder] = {ROW_NUMBER(remainder)},
    [DL_B_pow] = {ROW_NUMBER(pow)},
    [DL_B_maximum] = {[DL_BOOL] = bitwise_or_u8, ROW_NUMBER(maximum)},
    [DL_B_minimum] = {[DL_BOOL] = bitwise_and_u8, ROW_NUMBER(minimum)},
    [DL_B_eq] = {[DL_BOOL] = eq_u8, ROW_NUMBER(eq)},
    [DL_B_ne] = {[DL_BOOL] = ne_u8, ROW_NUMBER(ne)},
    [DL_B_lt] = {[DL_BOOL] = lt_u8, ROW_NUMBER(lt)},
    [DL_B_le] = {[DL_BOOL] = le_u8, ROW_NUMBER(le)},
    [DL_B_gt] = {[DL_BOOL] = gt_u8, ROW_NUMBER(gt)},
    [DL_B_ge] = {[DL_BOOL] = ge_u8, ROW_NUMBER(ge)},
    [DL_B_logical_and] = {[DL_BOOL] = logical_and_u8, ROW_NUMBER(logical_and)},
    [DL_B_logical_or] = {[DL_BOOL] = logical_or_u8, ROW_NUMBER(logical_or)},
    [DL_B_logical_xor] = {[DL_BOOL] = logical_xor_u8, ROW_NUMBER(logical_xor)},
    [DL_B_bitwise_and] = {[DL_BOOL] = bitwise_and_u8, ROW_INT(bitwise_and)},
    [DL_B_bitwise_or] = {[DL_BOOL] = bitwise_or_u8, ROW_INT(bitwise_or)},
    [DL_B_bitwise_xor] = {[DL_BOOL] = bitwise_xor_u8, ROW_INT(bitwise_xor)},
    [DL_B_bitwise_left_shift] = {ROW_INT(bitwise_left_shift)},
    [DL_B_bitwise_right_shift] = {ROW_INT(bitwise_right_shift)},
    [DL_B_relu_grad] = {ROW_FLOAT(relu_grad)},
    [DL_B_leaky_relu_grad] = {ROW_FLOAT(leaky_relu_grad)},
    [DL_B_elu_grad] = {ROW_FLOAT(elu_grad)},
    [DL_B_tanh_grad] = {ROW_FLOAT(tanh_grad)},
    [DL_B_sigmoid_grad] = {ROW_FLOAT(sigmoid_grad)},
    [DL_B_gelu_grad] = {ROW_FLOAT(gelu_grad)},
    [DL_B_silu_grad] = {ROW_FLOAT(silu_grad)},
    [DL_B_softplus_grad] = {ROW_FLOAT(softplus_grad)},
    [DL_B_logit_loss] = {ROW_FLOAT(logit_loss)},
};
