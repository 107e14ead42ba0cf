/* Initial weights: bounds, means and deviations of each initialiser, and their dependence on the seed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "dlcore.h"
#include "dlcore/create.h"

typedef struct figures {
    double mean, deviation, low, high;
    long n;
} figures;

static figures figures_of(dl_tensor *t) {
    figures f = {.low = INFINITY, .high = -INFINITY, .n = dl_numel(t)};
    double *v = malloc((size_t)f.n * sizeof *v), squares = 0;
    assert_int_equal(dl_read_f64(t, v), DL_OK);
    for (long i = 0; i < f.n; i++) f.mean += v[i] / (double)f.n, f.low = fmin(f.low, v[i]), f.high = fmax(f.high, v[i]);
    for (long i = 0; i < f.n; i++) squares += (v[i] - f.mean) * (v[i] - f.mean);
    f.deviation = sqrt(squares / (double)f.n);
    free(v);
    return f;
}

static dl_module *built(const char *text, int ndim, const long *shape) {
    dl_module *m = dl_net_parse(text);
    if (!m || dl_module_build(m, ndim, shape, DL_F32, 0) != DL_OK) fail_msg("%s: %s", text, dl_errmsg());
    return m;
}

/* Mean and deviation within five standard errors, and within [-bound, bound) when there is one. */
static void check(const char *what, dl_tensor *t, double deviation, double bound) {
    figures f = figures_of(t);
    double error = deviation / sqrt((double)f.n);
    if (fabs(f.mean) > 5 * error + 1e-12) fail_msg("%s: mean %g", what, f.mean);
    if (fabs(f.deviation - deviation) > 5 * error + 1e-12)
        fail_msg("%s: deviation %g, not %g", what, f.deviation, deviation);
    if (bound > 0 && (f.low < -bound || f.high > bound || f.high < 0.99 * bound || f.low > -0.99 * bound))
        fail_msg("%s: from %g to %g, bound %g", what, f.low, f.high, bound);
}

static void distributions(void **state) {
    (void)state;
    enum { IN = 400, OUT = 300 };
    const long x[] = {1, IN};
    double fan = IN, both = IN + OUT;
    const struct {
        const char *init;
        double deviation, bound;
    } rows[] = {{"default", 1 / sqrt(3 * fan), 1 / sqrt(fan)},
                {"kaiming_uniform", sqrt(2 / fan), sqrt(6 / fan)},
                {"kaiming_normal", sqrt(2 / fan), 0},
                {"xavier_uniform", sqrt(2 / both), sqrt(6 / both)},
                {"xavier_normal", sqrt(2 / both), 0},
                {"lecun_normal", sqrt(1 / fan), 0},
                {"uniform", 0.1 / sqrt(3), 0.1},
                {"normal", 0.02, 0},
                {"zeros", 0, 0},
                {"kaiming_uniform(a=2)", sqrt(0.4 / fan), sqrt(1.2 / fan)},
                {"kaiming_normal(mode=fan_out, nonlinearity=tanh)", 5 / (3 * sqrt(OUT)), 0},
                {"xavier_uniform(gain=3)", 3 * sqrt(2 / both), 3 * sqrt(6 / both)},
                {"xavier_normal(0.5)", 0.5 * sqrt(2 / both), 0},
                {"uniform(-3, 3)", sqrt(3), 3},
                {"normal(std=2)", 2, 0},
                {"trunc_normal", 0.879625661, 2},
                {"trunc_normal(std=0.5, a=-0.5, b=0.5)", 0.5 * 0.539560082, 0.5},
                {"orthogonal(gain=2)", 2 / sqrt(fan), 0},
                {"sparse(0.25, std=2)", sqrt(3), 0},
                {"constant(0)", 0, 0},
                {"eye", -1, 0}};
    dl_seed(1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        if (rows[i].deviation < 0) continue;
        snprintf(text, sizeof text, "linear %d init=\"%s\"", OUT, rows[i].init);
        dl_module *m = built(text, 2, x);
        check(rows[i].init, dl_module_tensor(m, "linear0.w"), rows[i].deviation, rows[i].bound);
        figures bias = figures_of(dl_module_tensor(m, "linear0.b"));
        assert_true(bias.high <= 1 / sqrt(fan) && bias.low >= -1 / sqrt(fan) && bias.deviation > 0);
        dl_module_unref(m);
    }
    dl_module *m = built("linear 3 init=\"ones\"", 2, x);
    figures f = figures_of(dl_module_tensor(m, "linear0.w"));
    assert_true(f.low == 1 && f.high == 1);
    dl_module_unref(m);
    /* every initialiser of the table is tried above, or in patterns */
    const dl_kind_row *k;
    for (int i = 0; (k = dl_init_kind_at(i)); i++) {
        bool found = !strcmp(k->name, "ones") || !strcmp(k->name, "dirac");
        for (size_t j = 0; j < sizeof rows / sizeof *rows; j++)
            found |= !strncmp(rows[j].init, k->name, strlen(k->name));
        if (!found) fail_msg("%s is not tried", k->name);
    }
}

/* The weight of a net of one layer, as numbers. */
static double *weight_of(const char *text, const char *name, int ndim, const long *shape, long n) {
    dl_module *m = built(text, ndim, shape);
    dl_tensor *w = dl_module_tensor(m, name);
    assert_int_equal(dl_numel(w), n);
    double *v = malloc((size_t)n * sizeof *v);
    assert_int_equal(dl_read_f64(w, v), DL_OK);
    dl_module_unref(m);
    return v;
}

static void check_orthogonal(long out, long in) {
    char text[64];
    snprintf(text, sizeof text, "linear %ld init=\"orthogonal(gain=2)\"", out);
    double *w = weight_of(text, "linear0.w", 2, (long[]){1, in}, out * in);
    long k = out < in ? out : in, n = out < in ? in : out, across = out < in ? in : 1, along = out < in ? 1 : in;
    for (long a = 0; a < k; a++)
        for (long b = 0; b <= a; b++) {
            double dot = 0;
            for (long j = 0; j < n; j++) dot += w[a * across + j * along] * w[b * across + j * along];
            if (fabs(dot - (a == b ? 4 : 0)) > 1e-5)
                fail_msg("orthogonal %ld %ld: vectors %ld %ld: %g", out, in, a, b, dot);
        }
    free(w);
}

static void patterns(void **state) {
    (void)state;
    check_orthogonal(20, 50);
    check_orthogonal(50, 20);
    double *w = weight_of("linear 3 init=\"eye\"", "linear0.w", 2, (long[]){1, 4}, 12);
    for (long i = 0; i < 12; i++) assert_true(w[i] == (i / 4 == i % 4));
    free(w);
    w = weight_of("conv 6 k=3 init=\"dirac(2)\"", "conv0.w", 4, (long[]){1, 2, 5, 5}, 108);
    for (long i = 0; i < 108; i++) assert_true(w[i] == (i % 9 == 4 && i / 18 % 3 == i / 9 % 2));
    free(w);
    w = weight_of("linear 10 init=\"sparse(0.25)\"", "linear0.w", 2, (long[]){1, 7}, 70);
    for (long c = 0; c < 7; c++) {
        int zeros = 0;
        for (long r = 0; r < 10; r++) zeros += w[r * 7 + c] == 0;
        assert_int_equal(zeros, 3);
    }
    free(w);
    w = weight_of("linear 10 init=\"uniform(2, 3)\"", "linear0.w", 2, (long[]){1, 7}, 70);
    for (long i = 0; i < 70; i++) assert_true(w[i] >= 2 && w[i] <= 3);
    free(w);
    /* what saves write reads back */
    dl_module *m = built("linear 4 init=\"normal(mean=1, std=0)\"", 2, (long[]){1, 7});
    char *text = dl_module_text(m);
    w = weight_of(text, "linear0.w", 2, (long[]){1, 7}, 28);
    assert_true(w[0] == 1 && w[27] == 1);
    free(w);
    free(text);
    dl_module_unref(m);
    static const char *const wrong[] = {"constant",
                                        "normal(std=-1)",
                                        "uniform(1, 0)",
                                        "sparse",
                                        "sparse(2)",
                                        "dirac(0)",
                                        "othogonal",
                                        "xavier_uniform(gian=2)",
                                        "kaiming_normal(mode=out)",
                                        "kaiming_normal(nonlinearity=cube)",
                                        ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[128];
        snprintf(text, sizeof text, "linear 4 init=\"%s\"", wrong[i]);
        if (dl_net_parse(text)) fail_msg("%s is taken", text);
    }
}

static void convolutions_count_taps(void **state) {
    (void)state;
    dl_seed(2);
    dl_module *m = built("conv 64 k=[3, 5]", 4, (long[]){1, 16, 9, 9});
    double fan = 16 * 15;
    check("conv", dl_module_tensor(m, "conv0.w"), 1 / sqrt(3 * fan), 1 / sqrt(fan));
    dl_module_unref(m);
    m = built("conv 64 k=3 groups=4 init=\"kaiming_normal\"", 4, (long[]){1, 16, 9, 9});
    check("grouped conv", dl_module_tensor(m, "conv0.w"), sqrt(2 / (4 * 9.0)), 0);
    dl_module_unref(m);
}

static void seeds_decide(void **state) {
    (void)state;
    const long x[] = {1, 50};
    float a[3][500];
    for (int i = 0; i < 3; i++) {
        dl_seed(i < 2 ? 7 : 8);
        dl_tensor *other = dl_randn(x, 2, DL_F32, 0); /* another stream: of no influence */
        dl_unref(other);
        dl_module *m = built("linear 10", 2, x);
        assert_int_equal(dl_read(dl_module_tensor(m, "linear0.w"), a[i]), DL_OK);
        dl_module_unref(m);
    }
    assert_memory_equal(a[0], a[1], sizeof a[0]);
    assert_memory_not_equal(a[0], a[2], sizeof a[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(distributions), cmocka_unit_test(convolutions_count_taps),
                                       cmocka_unit_test(patterns), cmocka_unit_test(seeds_decide)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
