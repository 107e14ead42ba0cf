/* Initial weights: bounds, means and deviations of each initialiser, and their dependence on the seed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
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
                {"zeros", 0, 0}};
    dl_seed(1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
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
    /* every initialiser of the table is tried above */
    int n = 0;
    while (dl_init_kind_at(n)) n++;
    assert_int_equal(n, sizeof rows / sizeof *rows + 1);
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
                                       cmocka_unit_test(seeds_decide)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
