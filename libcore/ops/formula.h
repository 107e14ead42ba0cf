/* The functions of formulas (ops/pointwise.def, optim/optimizers.def), for C and for CUDA. T is the type a formula
 * computes in: a macro in C, where a file is compiled once a type, and a template's parameter in CUDA. */
#pragma once

#include "ops/polynomials.h"

#include <math.h>

/* DL_FN(for f32 on the CPU, for f64 and, overloaded, on a GPU): a C file that computes in several types defines it.
 * DL_V(name): the CPU's own dl_vNAME and dl_vNAME_f64, on a GPU `name`. */
#ifdef DL_FN
#define DL_F64(cpu_name, name) cpu_name
#else
#define DL_FN(f32_name, f64_name) f64_name
#define DL_F64(cpu_name, name) name
#endif
#define DL_V(name) DL_FN(dl_v##name, DL_F64(dl_v##name##_f64, name))

/* ---- complex numbers: T has the parts re and im, of type PART_T */
#ifdef __cplusplus
#define PAIR(r, i)                                                                                                     \
    T { (r), (i) }
#define PART_T decltype(T::re)
#else
#define PAIR(r, i) ((T){(r), (i)})
#endif
#define C_MUL(a, b) DL_HELPER_OF(c_mul)(a, b)
#define C_MUL_CONJ(a, b) DL_HELPER_OF(c_mul_conj)(a, b) /* a times conj(b) */
#define C_DIV(a, b) DL_HELPER_OF(c_div)(a, b)
#define C_INVERSE(x) DL_HELPER_OF(c_inverse)(x)
#define C_EXP(x) DL_HELPER_OF(c_exp)(x)
#define C_LOG(x) DL_HELPER_OF(c_log)(x)
#define C_SQRT(x) DL_HELPER_OF(c_sqrt)(x)
#define C_SIGN(x) DL_HELPER_OF(c_sign)(x)
#define C_SIGN_SLOPE(g, x) DL_HELPER_OF(c_sign_slope)(g, x)
#define C_LERP(a, b, c) DL_HELPER_OF(c_lerp)(a, b, c)
#define C_ADD_MUL(a, b, c, factor) DL_HELPER_OF(c_add_mul)(a, b, c, (PART_T)(factor))
#define C_TANH(x) DL_HELPER_OF(c_tanh)(x)
#define C_ZERO(x) ((x).re == 0 && (x).im == 0)

/* ---- constants and types */
#define NUM(c) ((T)(c))
#define INF ((T)INFINITY)
#define PI NUM(3.14159265358979323846)
#define U(x) ((UNSIGNED_T)(x)) /* an integer, where arithmetic wraps around */
#define NEG(x) ((T)(0 - U(x)))

/* ---- functions of floats. The CPU's own (cpu/runtime/vmath*.h) are vectorised; others are libm's. */
#define ABS(x) DL_FN(fabsf, fabs)(x)
#define EXP(x) DL_V(exp)(x)
#define EXP2(x) DL_V(exp2)(x)
#define EXPM1(x) DL_V(expm1)(x)
#define EXPM1_BELOW(x) DL_FN(dl_vless1, DL_F64(dl_vexpm1_f64, expm1))(x) /* x <= 0 */
#define LOG(x) DL_V(log)(x)
#define LOG2(x) DL_V(log2)(x)
#define LOG10(x) DL_V(log10)(x)
#define LOG1P(x) DL_V(log1p)(x)
#define LOG1P_UNIT(x) DL_FN(dl_vlog1p01, DL_F64(dl_vlog1p01_f64, log1p))(x) /* 0 <= x <= 1 */
#define SQRT(x) DL_FN(sqrtf, sqrt)(x)
#define CBRT(x) DL_FN(cbrtf, cbrt)(x)
#define SIN(x) DL_FN(sinf, sin)(x)
#define COS(x) DL_FN(cosf, cos)(x)
#define TAN(x) DL_FN(tanf, tan)(x)
#define NEAR_SIN(x) DL_V(sin)(x) /* these of |x| <= NEAR */
#define NEAR_COS(x) DL_V(cos)(x)
#define NEAR_TAN(x) DL_V(tan)(x)
#define NEAR NUM(1e6)
#define NEAR_PART ((PART_T)1e6) /* the same of parts of complex numbers */
#define ASIN(x) DL_V(asin)(x)
#define ACOS(x) DL_V(acos)(x)
#define ATAN(x) DL_V(atan)(x)
#define ATAN2(y, x) DL_V(atan2)(y, x)
#define SINH(x) DL_V(sinh)(x)
#define COSH(x) DL_V(cosh)(x)
#define TANH(x) DL_V(tanh)(x)
#define ASINH(x) DL_V(asinh)(x)
#define ACOSH(x) DL_FN(dl_vacosh, acosh)(x)
#define ATANH(x) DL_V(atanh)(x)
#define ERF(x) DL_V(erf)(x)
#define ERFC(x) DL_V(erfc)(x)
#define MANTISSA(x) DL_V(mantissa)(x) /* of frexp, as a number of type T its exponent */
#define EXPONENT(x) DL_V(exponent)(x)
#define TGAMMA(x) DL_FN(tgammaf, tgamma)(x)
#define LGAMMA(x) DL_FN(dl_vlgamma, lgamma)(x)
#define LIBM_LGAMMA(x) DL_FN(lgammaf, lgamma)(x)
#define FLOOR(x) DL_FN(floorf, floor)(x)
#define CEIL(x) DL_FN(ceilf, ceil)(x)
#define TRUNC(x) DL_FN(truncf, trunc)(x)
#define FMOD(x, y) DL_FN(fmodf, fmod)(x, y)
#define FMA(x, y, z) DL_FN(fmaf, fma)(x, y, z)
#define NEAR_QUOTIENT(x, y) (ABS(x) < NUM(4194304) * ABS(y))
#define LIBM_POW(x, y) DL_FN(powf, pow)(x, y)
#define HYPOT(x, y) DL_V(hypot)(x, y)
#define NEXTAFTER(x, y) DL_V(nextafter)(x, y)
#define COPYSIGN(x, y) DL_FN(copysignf, copysign)(x, y)
#define SIGMOID(x) (1 / (1 + EXP(-(x))))
#define WITHIN_UNIT(x, eps) ((x) < (eps) ? (eps) : (x) > 1 - (eps) ? 1 - (eps) : (x)) /* x itself where eps is NaN */
#define SOFTPLUS(x) (((x) > 0 ? (x) : 0) + LOG1P_UNIT(EXP(-ABS(x))))
#define HARD_SIGMOID(x) ((x) + 3 < 0 ? 0 : (x) + 3 > 6 ? 1 : ((x) + 3) / 6)
/* tanh(softplus(x)), which is near 1 from 20 on, and its slope, both from e**x */
#define MISH_EXP(x) EXP((x) < 20 ? (x) : 20)
#define MISH_GATE(e) ((e) * ((e) + 2) / ((e) * ((e) + 2) + 2))
#define MISH_SLOPE(e) (4 * (e) * (1 + (e)) / (((e) * ((e) + 2) + 2) * ((e) * ((e) + 2) + 2)))
#define KAISER_ARG(x, beta) (ABS(beta) * SQRT((x) * (x) < 1 ? 1 - (x) * (x) : 0))
#define NOT_BELOW(x, least) ((x) < (least) ? (least) : (x))
/* Stirling's approximation of ln(y!) of y > 1, and its slope */
#define LOG_FACTORIAL(y) ((y)*LOG(y) - (y) + NUM(0.5) * LOG(2 * PI * (y)))
#define LOG_FACTORIAL_SLOPE(y) (LOG(y) + NUM(0.5) / (y))
/* g times the slope of |x| ** p */
#define SIZE_SLOPE(g, x, p) ((x) == 0 ? 0 : ((x) < 0 ? -(g) : (g)) * ((p) == 1 ? 1 : (p)*POW(ABS(x), (p)-1)))
#define LOG_FROM(y) ((y) < -100 ? -100 : (y))
/* (1 + tanh(u)) / 2 = sigmoid(2 u): of gelu by tanh 2 u, and its derivative */
#define GELU_ARG(x) (NUM(1.59576912160573071) * ((x) + NUM(0.044715) * (x) * (x) * (x)))
#define GELU_SLOPE(x) (NUM(1.59576912160573071) * (1 + NUM(0.134145) * (x) * (x)))
#ifdef __cplusplus
#define POW(x, y) dl_pow(x, y)
#define SINCOS(x, sine, cosine) sincos(x, &(sine), &(cosine)) /* both in the time of one */
#define NEAR_FMOD(x, y) FMOD(x, y)
#define NORMAL_CDF(x) dl_normal_cdf(x) /* the share of normal numbers below x */
#define TWICE_CDF(x) (2 * dl_normal_cdf(x))
#define NORMAL_BELL(x) EXP(NUM(-0.5) * x * x)
#define ROUND(x) rint(x) /* ties to even */
#define ERF_INVERSE(x) erfinv(x)
#define ERFCX(x) DL_HELPER_OF(erfc_scaled)(x)
#define LOG_NORMAL_CDF(x) DL_HELPER_OF(log_normal_cdf)(x)
#define NORMAL_QUANTILE(x) normcdfinv(x)
#define QUICK_EXP(x) __expf(x)           /* relative error 1e-6, 0 below the normal numbers */
#define QUICK_DIV(x, y) __fdividef(x, y) /* the same */
#else
#define POW(x, y) DL_V(pow)(x, y)
#define SINCOS(x, sine, cosine) ((sine) = SIN(x), (cosine) = COS(x))
#define NEAR_FMOD(x, y) DL_HELPER_OF(near_fmod)(x, y) /* where NEAR_QUOTIENT holds */
#define ROUND(x) DL_FN(nearbyintf, nearbyint)(x)
#define NORMAL_CDF(x) (NUM(0.5) * TWICE_CDF(x))
#define ERF_INVERSE(x) DL_V(erfinv)(x)
#define ERFCX(x) DL_V(erfcx)(x)
#define LOG_NORMAL_CDF(x)                                                                                              \
    ((x) < 1 ? LOG(ERFCX((x)*NUM(-0.70710678118654752440)) / 2) - (x) * (x) / 2                                        \
             : LOG1P(ERFC((x)*NUM(0.70710678118654752440)) * NUM(-0.5)))
#define NORMAL_QUANTILE(x) DL_V(quantile)(x)
#define TWICE_CDF(x) DL_FN(dl_vtwice_cdf, dl_vtwice_cdf_f64)(x)
#define NORMAL_BELL(x) DL_FN(dl_vbell, dl_vbell_f64)(x)
#endif

/* ---- a polynomial of degree n of a family (ops/polynomials.h) at x, and its slope there */
#define ORTHOGONAL(n, x, ...) DL_HELPER_OF(orthogonal)(n, x, 0, __VA_ARGS__)
#define ORTHOGONAL_SLOPE(n, x, ...) DL_HELPER_OF(orthogonal)(n, x, 1, __VA_ARGS__)

/* ---- what needs more than an expression: ops/formula_math.h. Those of integers report operands that have no result.
 */
#define FLOOR_QUOTIENT(a, b, rest) DL_HELPER_OF(floor_quotient)(a, b, rest)
#define FLOOR_REST(b, rest) DL_HELPER_OF(floor_rest)(b, rest)
#define LOGIT_SLOPE(x, target) DL_HELPER_OF(logit_slope)(x, target)
#define DIGAMMA(x) DL_HELPER_OF(psi)(x)
#define POLYGAMMA(n, x) DL_HELPER_OF(psi_n)(n, x)
#define HURWITZ(s, q) DL_HELPER_OF(hurwitz)(s, q)
#define AIRY(x, slope) DL_HELPER_OF(airy)(x, slope)
#define BESSEL_I(order, x) DL_V(bessel)(order, x)   /* times e**-|x| */
#define BESSEL_K(order, x) DL_V(bessel_k)(order, x) /* times e**x */
#define BESSEL_J0(x) DL_V(j0)(x)                    /* these of |x| <= NEAR */
#define BESSEL_J1(x) DL_V(j1)(x)
#define BESSEL_Y0(x) DL_V(y0)(x)
#define BESSEL_Y1(x) DL_V(y1)(x)
#define LIBM_J0(x) DL_FN(j0f, j0)(x)
#define LIBM_J1(x) DL_FN(j1f, j1)(x)
#define LIBM_Y0(x) DL_FN(y0f, y0)(x)
#define LIBM_Y1(x) DL_FN(y1f, y1)(x)
#define GAMMA_SHARE(a, x, above) DL_HELPER_OF(gamma_share)(a, x, above)
#define GAMMA_SLOPE(a, x) DL_HELPER_OF(gamma_motion)(a, x)
#define POISSON_QUANTILE(rate, u) DL_HELPER_OF(poisson_least)(rate, u)
#define INT_GCD(a, b) DL_HELPER_OF(int_gcd)(a, b)
#define INT_LCM(a, b) DL_HELPER_OF(int_lcm)(a, b)
#define INT_QUOTIENT(a, b) DL_HELPER_OF(int_quotient)(a, b, DL_AT)
#define INT_REST(a, b) DL_HELPER_OF(int_rest)(a, b, DL_AT)
#define INT_FMOD(a, b) DL_HELPER_OF(int_fmod)(a, b, DL_AT)
#define INT_POWER(a, b) DL_HELPER_OF(int_power)(a, b, DL_AT)
#define SHIFT_LEFT(a, b) DL_HELPER_OF(shift_left)(a, b, DL_AT)
#define SHIFT_RIGHT(a, b) DL_HELPER_OF(shift_right)(a, b, DL_AT)
