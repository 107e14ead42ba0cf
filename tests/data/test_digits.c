/* The generators: the same data on every machine, any part of it alone, and numbers that are what they should be. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>

#include "data/generated/digits.h"
#include "data/draw.h"
#include "data/hash.h"
#include "dlcore.h"

#define GOLDEN_DIGITS 0x4a748f56d56b702dull
#define GOLDEN_POINTS 0x57813df1861b30a6ull

/* Two hundred pictures and their labels as one hash. A change of it changes everyone's data: raise
 * DL_DIGITS_VERSION with it. */
static void golden(void **state) {
    (void)state;
    unsigned char page[DL_DIGITS_SIDE * DL_DIGITS_SIDE];
    uint64_t h = HASH_START;
    for (int split = 0; split < 2; split++)
        for (long i = 0; i < 100; i++) {
            unsigned char label = (unsigned char)dl_digits_label(1, split, i);
            dl_digits_draw(1, split, i, page);
            h = hash_bytes(hash_bytes(h, page, sizeof page), &label, 1);
        }
    if (h != GOLDEN_DIGITS) fail_msg("the hash is %#lx", (unsigned long)h);
}

/* The same of the generators of points. */
static void golden_points(void **state) {
    (void)state;
    static const char *const kinds[] = {"moons", "spirals", "blobs", "xor", "regression"};
    const char *options[] = {"n", "50", "test", "0", "seed", "3", NULL};
    uint64_t h = HASH_START;
    long index[50];
    for (int i = 0; i < 50; i++) index[i] = i;
    for (int k = 0; k < 5; k++) {
        dl_tensor *x, *y;
        dl_dataset *d = dl_dataset_open(kinds[k], options);
        assert_non_null(d);
        assert_int_equal(dl_dataset_gather(d, DL_TRAIN, index, 50, &x, &y), DL_OK);
        h = hash_bytes(h, dl_data(x), (size_t)dl_numel(x) * 4);
        h = hash_bytes(h, dl_data(y), (size_t)(dl_numel(y) * dl_dtype_size(dl_dtype_of(y))));
        dl_unref(x);
        dl_unref(y);
        dl_dataset_unref(d);
    }
    if (h != GOLDEN_POINTS) fail_msg("the hash is %#lx", (unsigned long)h);
}

static void any_part_alone(void **state) {
    (void)state;
    const char *few[] = {"n", "5", "test", "1", "seed", "9", NULL},
               *many[] = {"n", "500", "test", "1", "seed", "9", NULL};
    dl_dataset *a = dl_dataset_open("digits", few), *b = dl_dataset_open("digits", many);
    assert_non_null(a);
    assert_non_null(b);
    assert_string_not_equal(dl_dataset_fingerprint(a), dl_dataset_fingerprint(b));
    for (long i = 4; i >= 0; i--) {
        dl_tensor *x[2], *y[2];
        assert_int_equal(dl_dataset_gather(a, DL_TRAIN, &i, 1, &x[0], &y[0]), DL_OK);
        assert_int_equal(dl_dataset_gather(b, DL_TRAIN, &i, 1, &x[1], &y[1]), DL_OK);
        assert_memory_equal(dl_data(x[0]), dl_data(x[1]), 784 * 4);
        assert_memory_equal(dl_data(y[0]), dl_data(y[1]), 8);
        for (int k = 0; k < 2; k++) dl_unref(x[k]), dl_unref(y[k]);
    }
    dl_dataset_unref(a);
    dl_dataset_unref(b);
}

static void balanced_and_drawn(void **state) {
    (void)state;
    int count[10] = {0};
    unsigned char page[DL_DIGITS_SIDE * DL_DIGITS_SIDE];
    double sum = 0, squares = 0, n = 0;
    for (long i = 0; i < 2000; i++) {
        count[dl_digits_label(2, 0, i)]++;
        dl_digits_draw(2, 0, i, page);
        int dark = 0;
        for (size_t j = 0; j < sizeof page; j++) {
            dark += page[j] > 100;
            sum += page[j] / 255.0, squares += page[j] / 255.0 * (page[j] / 255.0), n++;
        }
        assert_in_range(dark, 15, 400); /* there is a figure, and paper around it */
    }
    for (int k = 0; k < 10; k++) assert_in_range(count[k], 140, 260);
    /* the constants by which pictures are standardised */
    assert_true(fabs(sum / n - DL_DIGITS_MEAN) < 0.01);
    assert_true(fabs(sqrt(squares / n - sum / n * (sum / n)) - DL_DIGITS_DEVIATION) < 0.01);
}

static void sine_and_cosine(void **state) {
    (void)state;
    for (int i = -40; i <= 40; i++) {
        double s, c, t = i / 13.0;
        dl_fixed_sincos(t, &s, &c);
        assert_true(fabs(s - sin(2 * M_PI * t)) < 1e-14);
        assert_true(fabs(c - cos(2 * M_PI * t)) < 1e-14);
    }
}

static void draws(void **state) {
    (void)state;
    dl_draw r = dl_draw_begin(5, DL_FOR_POINTS, 0, 0);
    double sum = 0, squares = 0;
    for (int i = 0; i < 20000; i++) {
        double v = dl_draw_normal(&r);
        sum += v, squares += v * v;
    }
    assert_true(fabs(sum / 20000) < 0.03);
    assert_true(fabs(squares / 20000 - 1) < 0.05);
    int count[3] = {0};
    for (int i = 0; i < 3000; i++) count[dl_draw_below(&r, 3)]++;
    for (int i = 0; i < 3; i++) assert_in_range(count[i], 900, 1100);
    long order[10], seen = 0;
    dl_draw_permutation(&r, 10, order);
    for (int i = 0; i < 10; i++) seen |= 1 << order[i];
    assert_int_equal(seen, 1023);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),          cmocka_unit_test(golden_points),
        cmocka_unit_test(any_part_alone),  cmocka_unit_test(balanced_and_drawn),
        cmocka_unit_test(sine_and_cosine), cmocka_unit_test(draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
