/* The vectorised functions of f32 against libm in f64, over every 1021st float, and those of f64 against libm in long
 * double: error in units of the last place, and the special values. Each level of the instruction set that this machine
 * has is tested. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fenv.h>
#include <math.h>
#include <string.h>

#include "cpu/kernels/pointwise/pointwise.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double silu(double x) { return x / (1 + exp(-x)); }

static double gelu(double x) { return x / 2 * erfc(-x / sqrt(2)); }
static double elu(double x) { return x > 0 ? x : expm1(x); }

static const struct {
    const char *name;
    int id;
    double (*exact)(double);
    double ulp, below; /* results smaller than this in magnitude are not judged: f32 reaches them in few bits */
} rows[] = {
    {"exp", DL_FORMULA_exp, exp, 2, 0},        {"log", DL_FORMULA_log, log, 2, 0},
    {"tanh", DL_FORMULA_tanh, tanh, 2, 0},     {"sigmoid", DL_FORMULA_sigmoid, sigmoid, 2.5, 1e-37},
    {"erf", DL_FORMULA_erf, erf, 2, 0},        {"elu", DL_FORMULA_elu, elu, 2, 0},
    {"silu", DL_FORMULA_silu, silu, 3, 1e-35}, {"softplus", DL_FORMULA_softplus, softplus, 3, 1e-37},
    {"exp2", DL_FORMULA_exp2, exp2, 2, 0},     {"expm1", DL_FORMULA_expm1, expm1, 2, 0},
    {"log1p", DL_FORMULA_log1p, log1p, 3, 0},  {"log2", DL_FORMULA_log2, log2, 1, 0},
    {"log10", DL_FORMULA_log10, log10, 1, 0},  {"sin", DL_FORMULA_sin, sin, 2, 0},
    {"cos", DL_FORMULA_cos, cos, 2, 0},        {"tan", DL_FORMULA_tan, tan, 3, 0},
    {"asin", DL_FORMULA_asin, asin, 2, 0},     {"acos", DL_FORMULA_acos, acos, 2, 0},
    {"atan", DL_FORMULA_atan, atan, 2, 0},     {"sinh", DL_FORMULA_sinh, sinh, 2, 0},
    {"cosh", DL_FORMULA_cosh, cosh, 2, 0},     {"asinh", DL_FORMULA_asinh, asinh, 3, 0},
    {"acosh", DL_FORMULA_acosh, acosh, 3, 0},  {"atanh", DL_FORMULA_atanh, atanh, 3, 0},
    {"erfc", DL_FORMULA_erfc, erfc, 3, 0},     {"gelu", DL_FORMULA_gelu_erf, gelu, 200, 1e-36},
};

/* Attributes: alpha of elu; beta and threshold of softplus. */
static dl_pointwise_arg numbers = {.number = {{.f = 1}, {.f = INFINITY}}};

static float from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* Distance of two floats of one sign in steps; a step below the normal range is that of its smallest number. */
static double ulps(float got, double want) {
    int e;
    if (isnan(want) || isinf((float)want)) return (isnan(want) && isnan(got)) || got == (float)want ? 0 : 1e9;
    frexp(want, &e);
    return fabs((double)got - want) / ldexp(1, e - 24 < -149 ? -149 : e - 24);
}

enum { BATCH = 4096 };

static void check_level(int level) {
    for (unsigned r = 0; r < sizeof rows / sizeof *rows; r++) {
        dl_loop loop = DL_SIMD_PICK(dl_pointwise)[DL_F32]->run[rows[r].id];
        double worst = 0;
        float worst_x = 0, x[BATCH], y[BATCH];
        for (uint64_t u = 0; u < (1ull << 32);) {
            long n = 0;
            for (; n < BATCH && u < (1ull << 32); n++, u += 1021) x[n] = from_bits((uint32_t)u);
            char *p[2] = {(char *)y, (char *)x};
            const long stride[2] = {4, 4};
            loop(n, p, stride, &numbers);
            for (long i = 0; i < n; i++) {
                double want = rows[r].exact(x[i]);
                if (fabs(want) < rows[r].below) continue;
                double e = ulps(y[i], want);
                if (!(e <= worst)) worst = e, worst_x = x[i];
            }
        }
        if (worst > rows[r].ulp) fail_msg("level %d: %s(%a) is %.2f ulp off", level, rows[r].name, worst_x, worst);
    }
}

static void errors_are_small(void **state) {
    (void)state;
    int last = 0;
    for (int limit = 1; limit <= 4; limit++) {
        int level = dl_simd_limit(limit);
        if (level != last) check_level(level);
        last = level;
    }
}

/* ---- f64 */

static long double sigmoid_l(long double x) { return 1 / (1 + expl(-x)); }
static long double softplus_l(long double x) { return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x)); }

static const struct {
    const char *name;
    int id;
    long double (*exact)(long double);
    double ulp, below;
} rows_f64[] = {
    {"exp", DL_FORMULA_exp, expl, 1.5, 0},
    {"log", DL_FORMULA_log, logl, 1.5, 0},
    {"expm1", DL_FORMULA_expm1, expm1l, 2.5, 0},
    {"log1p", DL_FORMULA_log1p, log1pl, 2, 0},
    {"tanh", DL_FORMULA_tanh, tanhl, 3, 0},
    {"sigmoid", DL_FORMULA_sigmoid, sigmoid_l, 2.5, 1e-300},
    {"sinh", DL_FORMULA_sinh, sinhl, 3, 0},
    {"cosh", DL_FORMULA_cosh, coshl, 2, 0},
    {"erf", DL_FORMULA_erf, erfl, 2.5, 0},
    {"erfc", DL_FORMULA_erfc, erfcl, 4, 1e-300},
    {"sin", DL_FORMULA_sin, sinl, 1.5, 0},
    {"cos", DL_FORMULA_cos, cosl, 1.5, 0},
    {"tan", DL_FORMULA_tan, tanl, 3, 0},
    {"asin", DL_FORMULA_asin, asinl, 2, 0},
    {"acos", DL_FORMULA_acos, acosl, 2, 0},
    {"atan", DL_FORMULA_atan, atanl, 2, 0},
    {"softplus", DL_FORMULA_softplus, softplus_l, 2.5, 1e-300},
    {"log2", DL_FORMULA_log2, log2l, 1, 0},
    {"log10", DL_FORMULA_log10, log10l, 1, 0},
    {"exp2", DL_FORMULA_exp2, exp2l, 1.5, 0},
    {"asinh", DL_FORMULA_asinh, asinhl, 3, 0},
    {"atanh", DL_FORMULA_atanh, atanhl, 3, 0},
};

static double ulps_f64(double got, long double want) {
    int e;
    if (isnan(want) || isinf((double)want)) return (isnan(want) && isnan(got)) || got == (double)want ? 0 : 1e9;
    frexpl(want, &e);
    return (double)(fabsl((long double)got - want) / ldexpl(1, e - 53 < -1074 ? -1074 : e - 53));
}

/* Numbers of any bits, of ordinary size, near 1, near multiples of pi/2, and special values. */
static double some_f64(uint64_t i) {
    static const double special[] = {0,     -0.0, 1,      -1,    INFINITY, -INFINITY, NAN,    5e-324,
                                     1e308, 710,  -745.5, 709.8, -37.5,    28,        -1e308, 1e6};
    if (i < sizeof special / sizeof *special) return special[i];
    uint64_t u = i * 0x9e3779b97f4a7c15ull;
    u = (u ^ u >> 29) * 0xbf58476d1ce4e5b9ull;
    u ^= u >> 32;
    double unit = (double)(u >> 11) * 0x1p-53, any;
    memcpy(&any, &u, 8);
    switch (i % 8) {
    case 0: return any;
    case 1: return 2 * unit - 1;
    case 2: return 40 * unit - 20;
    case 3: return 1 + (unit - 0.5) / (double)(1 + i % 1000);
    case 4: return (double)(u % 600000) * 1.5707963267948966;
    case 5: return 1500 * unit - 750;
    case 6: return (unit - 0.5) * 1e-3;
    default: return 2e6 * unit - 1e6;
    }
}

static void check_level_f64(int level) {
    static double x[BATCH], y[BATCH];
    for (unsigned r = 0; r < sizeof rows_f64 / sizeof *rows_f64; r++) {
        dl_loop loop = DL_SIMD_PICK(dl_pointwise)[DL_F64]->run[rows_f64[r].id];
        double worst = 0, worst_x = 0;
        for (uint64_t batch = 0; batch < 24; batch++) {
            for (uint64_t i = 0; i < BATCH; i++) x[i] = some_f64(batch * BATCH + i);
            loop(BATCH, (char *[]){(char *)y, (char *)x}, (const long[]){8, 8}, &numbers);
            for (int i = 0; i < BATCH; i++) {
                long double want = rows_f64[r].exact(x[i]);
                if (fabsl(want) < rows_f64[r].below) continue;
                double e = ulps_f64(y[i], want);
                if (x[i] == 0 && y[i] == 0 && signbit(y[i]) != signbit((double)want)) e = 1e9;
                if (!(e <= worst)) worst = e, worst_x = x[i];
            }
        }
        if (worst > rows_f64[r].ulp)
            fail_msg("level %d: %s(%a) of f64 is %.2f ulp off", level, rows_f64[r].name, worst_x, worst);
    }
}

static void errors_of_f64_are_small(void **state) {
    (void)state;
    int last = 0;
    for (int limit = 1; limit <= 4; limit++) {
        int level = dl_simd_limit(limit);
        if (level != last) check_level_f64(level);
        last = level;
    }
}

/* atan2 and pow on pairs of numbers of many sizes, and on all pairs of special values. */
static void two_operands_of_f64(void **state) {
    (void)state;
    static const struct {
        int id;
        long double (*exact)(long double, long double);
        double ulp;
    } rows2[] = {{DL_FORMULA_atan2, atan2l, 2.5}, {DL_FORMULA_pow, powl, 1.5}};
    static double a[BATCH], b[BATCH], y[BATCH];
    for (int limit = 1; limit <= 4; limit++) {
        dl_simd_limit(limit);
        for (uint64_t batch = 0; batch < 16; batch++) {
            for (uint64_t i = 0; i < BATCH; i++) {
                a[i] = batch ? some_f64(batch * BATCH + i) : some_f64(i / 64 % 16);
                b[i] =
                    batch ? i % 3 ? some_f64(9999 * batch + i) : a[i] * (double)((int)(i % 7) - 3) : some_f64(i % 16);
                if (batch > 8) a[i] = fabs(a[i]), b[i] = (double)(i % 97) / 8 - 6;
            }
            for (int r = 0; r < 2; r++) {
                DL_SIMD_PICK(dl_pointwise)
                [DL_F64] -> run[rows2[r].id](BATCH, (char *[]){(char *)y, (char *)a, (char *)b},
                                             (const long[]){8, 8, 8}, NULL);
                for (int i = 0; i < BATCH; i++) {
                    long double want = rows2[r].exact(a[i], b[i]);
                    if (ulps_f64(y[i], want) > rows2[r].ulp || (want == 0 && !signbit(want) != !signbit(y[i])))
                        fail_msg("level %d: row %d of (%a, %a) is %a, want %La", limit, r, a[i], b[i], y[i], want);
                }
            }
        }
    }
}

/* Ordinary numbers raise no flag; the logarithm of a negative number and an overflow do. A number gives the same bits
 * wherever it stands. */
static void flags_and_places_of_f64(void **state) {
    (void)state;
    enum { N = 1037 };
    static double x[2 * N], y[N], z[N];
    const int raised = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;
    const long dense[2] = {8, 8}, strided[2] = {8, 16};
    for (int limit = 1; limit <= 4; limit++) {
        dl_simd_limit(limit);
        for (unsigned r = 0; r < sizeof rows_f64 / sizeof *rows_f64; r++) {
            dl_loop loop = DL_SIMD_PICK(dl_pointwise)[DL_F64]->run[rows_f64[r].id];
            for (int i = 0; i < N; i++) x[i] = 0.001 + 0.998 * i / N;
            feclearexcept(FE_ALL_EXCEPT);
            loop(N, (char *[]){(char *)y, (char *)x}, dense, &numbers);
            if (fetestexcept(raised)) fail_msg("level %d: %s of f64 raises a flag", limit, rows_f64[r].name);
            for (int i = N - 1; i >= 0; i--) x[2 * i] = x[i], x[2 * i + 1] = 1;
            x[2 * 700] = 3e7;
            loop(N, (char *[]){(char *)z, (char *)x}, strided, &numbers);
            for (int i = 0; i < N; i++)
                if (i != 700 && memcmp(&y[i], &z[i], 8) != 0)
                    fail_msg("level %d: %s(%a) is %a and %a", limit, rows_f64[r].name, x[2 * i], y[i], z[i]);
        }
        const struct {
            int id, flag;
            double x;
        } raising[] = {{DL_FORMULA_log, FE_INVALID, -2},
                       {DL_FORMULA_exp, FE_OVERFLOW, 711},
                       {DL_FORMULA_expm1, FE_OVERFLOW, 1e300},
                       {DL_FORMULA_cosh, FE_OVERFLOW, -711}};
        for (unsigned r = 0; r < sizeof raising / sizeof *raising; r++) {
            for (int i = 0; i < N; i++) x[i] = i == 500 ? raising[r].x : 1;
            feclearexcept(FE_ALL_EXCEPT);
            DL_SIMD_PICK(dl_pointwise)
            [DL_F64] -> run[raising[r].id](N, (char *[]){(char *)y, (char *)x}, dense, NULL);
            if (!fetestexcept(raising[r].flag)) fail_msg("level %d: case %u raises no flag", limit, r);
        }
    }
}

static void special_values(void **state) {
    (void)state;
    const float x[8] = {0, -0.0f, INFINITY, -INFINITY, NAN, 88.73f, -104.5f, 1e-45f};
    static const struct {
        int id;
        float want[8];
    } cases[] = {
        {DL_FORMULA_exp, {1, 1, INFINITY, 0, NAN, INFINITY, 0, 1}},
        {DL_FORMULA_log, {-INFINITY, -INFINITY, INFINITY, NAN, NAN, 4.4855981f, NAN, -103.27893f}},
        {DL_FORMULA_tanh, {0, -0.0f, 1, -1, NAN, 1, -1, 1e-45f}},
        {DL_FORMULA_sigmoid, {0.5f, 0.5f, 1, 0, NAN, 1, 0, 0.5f}},
        {DL_FORMULA_erf, {0, -0.0f, 1, -1, NAN, 1, -1, 1e-45f}},
        {DL_FORMULA_softplus, {0.69314718f, 0.69314718f, INFINITY, 0, NAN, 88.73f, 0, 0.69314718f}},
        {DL_FORMULA_expm1, {0, -0.0f, INFINITY, -1, NAN, INFINITY, -1, 1e-45f}},
        {DL_FORMULA_exp2, {1, 1, INFINITY, 0, NAN, 5.13325147e+26f, 3.48630554e-32f, 1}},
        {DL_FORMULA_log1p, {0, -0.0f, INFINITY, NAN, NAN, 4.49680519f, NAN, 1e-45f}},
        {DL_FORMULA_log2, {-INFINITY, -INFINITY, INFINITY, NAN, NAN, 6.47135019f, NAN, -149}},
        {DL_FORMULA_sin, {0, -0.0f, NAN, NAN, NAN, 0.692832053f, 0.736202896f, 1e-45f}},
        {DL_FORMULA_tan, {0, -0.0f, NAN, NAN, NAN, 0.960800135f, -1.08783318f, 1e-45f}},
        {DL_FORMULA_atan, {0, -0.0f, 1.5707964f, -1.5707964f, NAN, 1.55952668f, -1.5612272f, 1e-45f}},
        {DL_FORMULA_asin, {0, -0.0f, NAN, NAN, NAN, NAN, NAN, 1e-45f}},
        {DL_FORMULA_sinh, {0, -0.0f, INFINITY, -INFINITY, NAN, 1.71364497e+38f, -INFINITY, 1e-45f}},
        {DL_FORMULA_asinh, {0, -0.0f, INFINITY, -INFINITY, NAN, 5.17877722f, -5.34235716f, 1e-45f}},
        {DL_FORMULA_acosh, {NAN, NAN, INFINITY, NAN, NAN, 5.17871332f, NAN, NAN}},
        {DL_FORMULA_atanh, {0, -0.0f, NAN, NAN, NAN, NAN, NAN, 1e-45f}},
        {DL_FORMULA_erfc, {1, 1, 0, 2, NAN, 0, 2, 1}},
    };
    for (int limit = 1; limit <= 4; limit++) {
        dl_simd_limit(limit);
        for (unsigned r = 0; r < sizeof cases / sizeof *cases; r++) {
            float y[8];
            char *p[2] = {(char *)y, (char *)x};
            const long stride[2] = {4, 4};
            DL_SIMD_PICK(dl_pointwise)[DL_F32]->run[cases[r].id](8, p, stride, &numbers);
            for (int i = 0; i < 8; i++)
                if (!(isnan(y[i]) ? isnan(cases[r].want[i]) : ulps(y[i], cases[r].want[i]) <= 2) ||
                    (y[i] == 0 && !signbit(y[i]) != !signbit(cases[r].want[i])))
                    fail_msg("level %d, case %u: f(%a) = %a, want %a", limit, r, x[i], y[i], cases[r].want[i]);
        }
    }
}

/* atan2, hypot and pow on pairs of floats of any bits, and on all pairs of special values. */
static void two_operands(void **state) {
    (void)state;
    static const float special[] = {0, -0.0f, 1, -1, INFINITY, -INFINITY, NAN, 1e-45f, -1e-45f, 3e38f};
    enum { N = sizeof special / sizeof *special };
    static const struct {
        int id;
        double (*exact)(double, double);
    } rows2[] = {{DL_FORMULA_atan2, atan2}, {DL_FORMULA_hypot, hypot}, {DL_FORMULA_pow, pow}};
    float a[BATCH], b[BATCH], y[BATCH];
    uint32_t u = 1;
    for (int i = 0; i < BATCH; i++) {
        a[i] = i < N * N ? special[i / N] : from_bits(u = u * 1664525u + 1013904223u);
        b[i] = i < N * N ? special[i % N] : from_bits(u = u * 1664525u + 1013904223u);
        if (i % 3 == 0 && i >= N * N) b[i] = a[i] * (float)(i % 7 - 3);
        if (i % 3 == 1 && i >= N * N) b[i] = (float)(i % 65 - 32) / 4, a[i] = from_bits((u & 0x83ffffff) | 0x3c000000);
    }
    for (int limit = 1; limit <= 4; limit++) {
        dl_simd_limit(limit);
        for (int r = 0; r < 3; r++) {
            char *p[3] = {(char *)y, (char *)a, (char *)b};
            const long stride[3] = {4, 4, 4};
            DL_SIMD_PICK(dl_pointwise)[DL_F32]->run[rows2[r].id](BATCH, p, stride, NULL);
            for (int i = 0; i < BATCH; i++) {
                double want = rows2[r].exact(a[i], b[i]);
                if (ulps(y[i], want) > 2 || (want == 0 && !signbit(want) != !signbit(y[i])))
                    fail_msg("level %d: row %d of (%a, %a) is %a, want %a", limit, r, a[i], b[i], y[i], want);
            }
        }
    }
}

/* Ordinary numbers raise no flag: the watch for NaN looks at the results of what raises one. The same number gives the
 * same bits wherever it stands, beside a large one and in a strided operand, too. */
static void flags_and_places(void **state) {
    (void)state;
    enum { N = 1037 };
    static float x[2 * N], y[N], z[N];
    const int raised = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;
    for (int limit = 1; limit <= 4; limit++) {
        dl_simd_limit(limit);
        for (unsigned r = 0; r < sizeof rows / sizeof *rows; r++) {
            dl_loop loop = DL_SIMD_PICK(dl_pointwise)[DL_F32]->run[rows[r].id];
            for (int i = 0; i < N; i++) x[i] = 0.01f + 0.98f * (float)i / N + (rows[r].id == DL_FORMULA_acosh);
            char *p[2] = {(char *)y, (char *)x};
            const long dense[2] = {4, 4}, strided[2] = {4, 8};
            feclearexcept(FE_ALL_EXCEPT);
            loop(N, p, dense, &numbers);
            if (fetestexcept(raised)) fail_msg("level %d: %s raises a flag", limit, rows[r].name);
            for (int i = N - 1; i >= 0; i--) x[2 * i] = x[i], x[2 * i + 1] = 1;
            x[2 * 700] = 3e7f;
            loop(N, (char *[]){(char *)z, (char *)x}, strided, &numbers);
            for (int i = 0; i < N; i++)
                if (i != 700 && memcmp(&y[i], &z[i], 4) != 0)
                    fail_msg("level %d: %s(%a) is %a and %a", limit, rows[r].name, x[2 * i], y[i], z[i]);
        }
    }
}

/* ---- functions that libm lacks */

/* A step of Newton's from y: with half of the digits right it has all. The share of x outside is small: `out` of 1. */
static long double inverse_step(long double in, long double out, long double y) {
    long double miss = in < 0.5L ? erfl(y) - in : out - erfcl(y);
    return y - miss * 0.88622692545275801365L * expl(y * y);
}
static long double erfinv_from(long double x, long double y) {
    return copysignl(inverse_step(fabsl(x), 1 - fabsl(x), fabsl(y)), x);
}
static long double ndtri_from(long double p, long double y) {
    long double out = 2 * (p < 0.5L ? p : 1 - p), root = 1.41421356237309504880L;
    return copysignl(root * inverse_step(1 - out, out, fabsl(y) / root), p - 0.5L);
}
/* e**x K(x): the integral of e**(x - x cosh(t)) cosh(order t), by trapezoids. */
static long double bessel_k(int order, long double x) {
    const long double narrow = 0.5L / sqrtl(x), h = narrow < 0.2L ? narrow : 0.2L;
    long double sum = 0.5L;
    for (int k = 1; k < 4000; k++) {
        const long double t = k * h, half = sinhl(t / 2), fall = 2 * x * half * half;
        if (fall > 50 + order * t) break;
        sum += expl(-fall) * (order ? coshl(t) : 1);
    }
    return h * sum;
}
static long double k0_scaled(long double x, long double y) { return (void)y, bessel_k(0, x); }
static long double k1_scaled(long double x, long double y) { return (void)y, bessel_k(1, x); }

static long double erfcx_of(long double x, long double y) {
    if (x < 6) return (void)y, expl(x * x) * erfcl(x);
    long double rest = x;
    for (int k = 60; k > 0; k--) rest = x + k / (2 * rest);
    return 0.564189583547756286948L / rest;
}
static long double lgamma_of(long double x, long double y) { return (void)y, lgammal(x); }

static const struct {
    const char *name;
    int id;
    long double (*exact)(long double x, long double y);
    double low, high, depth; /* numbers from low to high, and high times powers of 2 down to -depth */
    double ulp, ulp_f64;
} rows_own[] = {
    {"erfinv", DL_FORMULA_erfinv, erfinv_from, -1, 1, 60, 4, 4},
    {"ndtri", DL_FORMULA_ndtri, ndtri_from, 0, 1, 120, 4, 4},
    {"scaled_modified_bessel_k0", DL_FORMULA_scaled_modified_bessel_k0, k0_scaled, 0, 4, 40, 9, 8},
    {"scaled_modified_bessel_k1", DL_FORMULA_scaled_modified_bessel_k1, k1_scaled, 0, 64, 40, 6, 6},
    {"erfcx", DL_FORMULA_erfcx, erfcx_of, -5, 100, 30, 4, 6},
    {"lgamma", DL_FORMULA_lgamma, lgamma_of, 0, 100, 60, 4, 4},
};

static void errors_of_inverses(void **state) {
    (void)state;
    enum { N = 512 };
    double x[N], y[N];
    float u[N], v[N];
    for (int limit = 1; limit <= 4; limit++) {
        dl_simd_limit(limit);
        for (unsigned r = 0; r < sizeof rows_own / sizeof *rows_own; r++) {
            const double low = rows_own[r].low, high = rows_own[r].high;
            for (int i = 0; i < N; i++) {
                const double unit = (i + 0.5) / N;
                x[i] = i % 2 ? low + (high - low) * unit : high * exp2(-rows_own[r].depth * unit);
                u[i] = (float)x[i];
            }
            DL_SIMD_PICK(dl_pointwise)
            [DL_F64] -> run[rows_own[r].id](N, (char *[]){(char *)y, (char *)x}, (const long[]){8, 8}, NULL);
            DL_SIMD_PICK(dl_pointwise)
            [DL_F32] -> run[rows_own[r].id](N, (char *[]){(char *)v, (char *)u}, (const long[]){4, 4}, NULL);
            for (int i = 0; i < N; i++) {
                const double e = ulps_f64(y[i], rows_own[r].exact(x[i], y[i]));
                const double f = ulps(v[i], (double)rows_own[r].exact(u[i], v[i]));
                if (!(e <= rows_own[r].ulp_f64 && f <= rows_own[r].ulp))
                    fail_msg("level %d: %s(%a) is %.2f ulp off in f64, %.2f in f32", limit, rows_own[r].name, x[i], e,
                             f);
            }
        }
    }
}

/* Bessel functions against libm, whose waves have zeros: errors in parts of the largest value near x. The logarithm of
 * the gamma function below 0, too. */
static void errors_of_waves(void **state) {
    (void)state;
    enum { N = 4096 };
    static const struct {
        const char *name;
        int id;
        long double (*exact)(long double);
        double low, high;
    } waves[] = {{"bessel_j0", DL_FORMULA_bessel_j0, j0l, -60, 60},  {"bessel_j1", DL_FORMULA_bessel_j1, j1l, -60, 60},
                 {"bessel_y0", DL_FORMULA_bessel_y0, y0l, 0, 60},    {"bessel_y1", DL_FORMULA_bessel_y1, y1l, 0, 60},
                 {"bessel_j0", DL_FORMULA_bessel_j0, j0l, 9e5, 2e6}, {"bessel_y1", DL_FORMULA_bessel_y1, y1l, 9e5, 2e6},
                 {"lgamma", DL_FORMULA_lgamma, lgammal, -20, 0}};
    static double x[N], y[N];
    static float u[N], v[N];
    for (int limit = 1; limit <= 4; limit++) {
        dl_simd_limit(limit);
        for (unsigned r = 0; r < sizeof waves / sizeof *waves; r++) {
            for (int i = 0; i < N; i++) {
                u[i] = (float)(waves[r].low + (waves[r].high - waves[r].low) * (i + 0.5) / N);
                x[i] = u[i];
            }
            DL_SIMD_PICK(dl_pointwise)
            [DL_F64] -> run[waves[r].id](N, (char *[]){(char *)y, (char *)x}, (const long[]){8, 8}, NULL);
            DL_SIMD_PICK(dl_pointwise)
            [DL_F32] -> run[waves[r].id](N, (char *[]){(char *)v, (char *)u}, (const long[]){4, 4}, NULL);
            for (int i = 0; i < N; i++) {
                const double want = (double)waves[r].exact(x[i]), a = fabs(x[i]);
                const double near = waves[r].id == DL_FORMULA_lgamma ? 1 : sqrt(0.6 / (a > 0.6 ? a : 0.6));
                const double size = fabs(want) > near ? fabs(want) : near, e = fabs(y[i] - want), f = fabs(v[i] - want);
                const double digits = a > 1e3 ? 1e-9 : 6e-15;
                if (!(e <= digits * size && f <= 8e-7 * size))
                    fail_msg("level %d: %s(%a) is %g off in f64, %g in f32", limit, waves[r].name, x[i], e, f);
            }
        }
    }
}

/* Quotients and rests of integers: blocks of small numbers are divided in f64, blocks with others one by one. */
static void divisions_of_integers(void **state) {
    (void)state;
    static long a[BATCH], b[BATCH], y[3][BATCH];
    static const int ids[] = {DL_FORMULA_floor_divide, DL_FORMULA_remainder, DL_FORMULA_fmod};
    for (int limit = 1; limit <= 4; limit++) {
        dl_simd_limit(limit);
        for (int bits = 2; bits <= 63; bits++) {
            uint64_t u = (uint64_t)bits;
            for (int i = 0; i < BATCH; i++) {
                u = u * 6364136223846793005u + 1442695040888963407u;
                b[i] = (long)(u >> (63 - i % bits)) - (1l << (i % bits));
                u = u * 6364136223846793005u + 1442695040888963407u;
                a[i] = i % 3 ? (long)(u >> (65 - bits)) - (1l << (bits - 2))
                             : (long)((uint64_t)b[i] * (uint64_t)(i % 5)) - i % 2;
                if (!b[i]) b[i] = -1;
            }
            const long one = b[bits], stride[3] = {8, 8, bits % 2 ? 8 : 0};
            for (int r = 0; r < 3; r++) DL_SIMD_PICK(dl_pointwise)
            [DL_I64] -> run[ids[r]](BATCH, (char *[]){(char *)y[r], (char *)a, stride[2] ? (char *)b : (char *)&one},
                                    stride, &(dl_pointwise_arg){0});
            for (int i = 0; i < BATCH; i++) {
                const long d = stride[2] ? b[i] : one, q = a[i] / d, m = a[i] % d, down = m && (m < 0) != (d < 0);
                if (y[0][i] != q - down || y[1][i] != m + (down ? d : 0) || y[2][i] != m)
                    fail_msg("level %d: %ld and %ld give %ld, %ld, %ld", limit, a[i], d, y[0][i], y[1][i], y[2][i]);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_small),
        cmocka_unit_test(special_values),
        cmocka_unit_test(two_operands),
        cmocka_unit_test(flags_and_places),
        cmocka_unit_test(errors_of_f64_are_small),
        cmocka_unit_test(two_operands_of_f64),
        cmocka_unit_test(flags_and_places_of_f64),
        cmocka_unit_test(errors_of_inverses),
        cmocka_unit_test(errors_of_waves),
        cmocka_unit_test(divisions_of_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
