/* Searches: what Parzen estimators gain over random points, and trials that processes claim. */
#include "support.h"
#include "track/sweep.h"

/* ---------------------------------------------------------------- five functions */

static double sphere(const double *x) { return pow(x[0] - 0.3, 2) + pow(x[1] - 0.7, 2) + pow(x[2] - 0.2, 2); }

static double rosenbrock(const double *u) {
    double x = 4 * u[0] - 2, y = 4 * u[1] - 1;
    return log1p(pow(1 - x, 2) + 100 * pow(y - x * x, 2)) + u[2];
}

static double branin(const double *u) {
    double x = 15 * u[0] - 5, y = 15 * u[1], a = y - 5.1 / (4 * M_PI * M_PI) * x * x + 5 / M_PI * x - 6;
    return a * a + 10 * (1 - 1 / (8 * M_PI)) * cos(x) + 10 + u[2];
}

static double ackley(const double *u) {
    double s = 0, c = 0;
    for (int i = 0; i < 3; i++) s += pow(8 * u[i] - 5, 2), c += cos(2 * M_PI * (8 * u[i] - 5));
    return -20 * exp(-0.2 * sqrt(s / 3)) - exp(c / 3) + 20 + M_E;
}

/* A rate, a width and a choice, as of a training. */
static double training(const double *x) { return pow(x[0] - 0.6, 2) * 4 + pow(x[1] - 0.4, 2) + (x[2] < 0.5 ? 0 : 0.3); }

typedef double function(const double *x);
enum { TRIALS = 50, SEEDS = 20 };

static double best_of(function *f, int tpe, unsigned seed) {
    static const dl_dimension dims[3];
    dl_tried tried[TRIALS];
    double best = INFINITY;
    for (int i = 0; i < TRIALS; i++) {
        double point[DL_SWEEP_DIMS], value;
        dl_tpe_suggest(dims, 3, tried, tpe ? i : 0, seed * 1000003u + (unsigned)i, point);
        for (int k = 0; k < 3; k++) assert_true(point[k] >= 0 && point[k] < 1);
        value = f(point);
        if (value < best) best = value;
        tried[i] = (dl_tried){.worth = -value};
        memcpy(tried[i].point, point, sizeof point);
    }
    return best;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(function *f, int tpe) {
    double v[SEEDS];
    for (int i = 0; i < SEEDS; i++) v[i] = best_of(f, tpe, (unsigned)i + 1);
    qsort(v, SEEDS, sizeof *v, ascending);
    return (v[SEEDS / 2 - 1] + v[SEEDS / 2]) / 2;
}

static void parzen_beats_random(void **state) {
    (void)state;
    function *const f[] = {sphere, rosenbrock, branin, ackley, training};
    for (int i = 0; i < 5; i++) {
        double tpe = median_of(f[i], 1), random = median_of(f[i], 0);
        if (!(tpe < random)) fail_msg("function %d: %g by tpe, %g at random", i, tpe, random);
    }
}

/* ---------------------------------------------------------------- trials */

static void trials_are_claimed_once(void **state) {
    (void)state;
    static const dl_dimension dims[] = {{3, 1}, {2, 0}};
    static const long seeds[] = {1, 2};
    dl_store *s = dl_store_open(db_path);
    dl_trial t;
    dl_claim claim;
    long id = dl_sweep_begin(
        s, &(dl_sweep_spec){.method = "grid", .dims = dims, .ndim = 2, .seeds = seeds, .nseed = 2, .text = "[]"});
    assert_int_equal(id, 1);
    for (int i = 1; i <= 12; i++) {
        ok(dl_trial_claim(s, id, &t, &claim));
        assert_int_equal(claim, DL_CLAIM_GOT);
        assert_int_equal(t.number, i);
        assert_int_equal(t.seed, 1 + (i - 1) % 2);
        assert_int_equal((int)t.point[1], (i - 1) / 2 % 2);
    }
    ok(dl_trial_claim(s, id, &t, &claim));
    assert_int_equal(claim, DL_CLAIM_WAIT);
    for (long i = 1; i <= 12; i++) ok(dl_trial_end(s, i, i == 5 ? DL_TRIAL_GIVEN_BACK : DL_TRIAL_FAILED, "no"));
    ok(dl_trial_claim(s, id, &t, &claim));
    assert_int_equal(t.number, 5);
    ok(dl_trial_end(s, t.id, DL_TRIAL_FAILED, "no"));
    ok(dl_trial_claim(s, id, &t, &claim));
    assert_int_equal(claim, DL_CLAIM_DONE);
    assert_int_equal(dl_trial_claim(s, 99, &t, &claim), DL_ERR_NAME);
    assert_int_equal(dl_sweep_begin(s, &(dl_sweep_spec){.method = "best", .dims = dims, .ndim = 2}), 0);
    error_says("no such search");
    dl_store_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parzen_beats_random),
        cmocka_unit_test_setup_teardown(trials_are_claimed_once, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
