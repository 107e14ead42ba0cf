/* The vectorised functions of f32 against libm in f64, over every 1021st float: error in units of the last place, and
 * the special values. Each level of the instruction set that this machine has is tested. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "cpu/kernels/pointwise/pointwise.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double silu(double x) { return x / (1 + exp(-x)); }

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
};

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
            dl_pointwise_arg alpha = {.number = {{.f = 1}}}; /* of elu */
            loop(n, p, stride, &alpha);
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
    };
    for (int limit = 1; limit <= 4; limit++) {
        dl_simd_limit(limit);
        for (unsigned r = 0; r < sizeof cases / sizeof *cases; r++) {
            float y[8];
            char *p[2] = {(char *)y, (char *)x};
            const long stride[2] = {4, 4};
            DL_SIMD_PICK(dl_pointwise)[DL_F32]->run[cases[r].id](8, p, stride, NULL);
            for (int i = 0; i < 8; i++)
                if (!(isnan(y[i]) ? isnan(cases[r].want[i]) : ulps(y[i], cases[r].want[i]) <= 2))
                    fail_msg("level %d, case %u: f(%a) = %a, want %a", limit, r, x[i], y[i], cases[r].want[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_small),
        cmocka_unit_test(special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
