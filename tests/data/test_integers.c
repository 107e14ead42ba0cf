/* Integers go from tensors, files and tables to batches unchanged: by every number of threads, shuffled, resumed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "data/data.h"
#include "dlcore.h"
#include "dlcore/create.h"

enum { N = 23, WIDTH = 3 };

/* No float holds 2^24 + 1, no double 2^53 + 1. */
static const int64_t odd[] = {16777217, 9007199254740993, -9007199254740993, INT64_MAX, INT64_MIN};

static int64_t number(long i, long k) { return odd[(i + k) % 5] ^ (i << 1); }

static dl_dataset *numbers(void) {
    int64_t x[N * WIDTH], y[N * 2];
    for (long i = 0; i < N; i++) {
        for (long k = 0; k < WIDTH; k++) x[i * WIDTH + k] = number(i, k);
        for (long k = 0; k < 2; k++) y[i * 2 + k] = number(i, k + 7);
    }
    dl_tensor *tx = dl_tensor_from(2, (long[]){N, WIDTH}, DL_I64, 0, x),
              *ty = dl_tensor_from(2, (long[]){N, 2}, DL_I64, 0, y);
    dl_dataset *d = dl_dataset_from(tx, ty, NULL, NULL, NULL);
    if (!d) fail_msg("%s", dl_errmsg());
    dl_unref(tx), dl_unref(ty);
    return d;
}

/* The next `count` batches hold samples as they were put in; their numbers are appended to order. */
static long check_batches(dl_loader *l, long count, long *order) {
    long at = 0;
    for (long b = 0; b < count; b++) {
        dl_tensor *x, *y;
        assert_int_equal(dl_loader_next(l, &x, &y), DL_OK);
        if (!x) continue;
        assert_int_equal(dl_dtype_of(x), DL_I64);
        assert_int_equal(dl_dtype_of(y), DL_I64);
        const int64_t *vx = dl_data(x), *vy = dl_data(y);
        for (long j = 0; j < dl_shape(x)[0]; j++) {
            long i = 0;
            while (i < N && memcmp(vx + j * WIDTH, (int64_t[]){number(i, 0), number(i, 1), number(i, 2)}, 24)) i++;
            assert_true(i < N);
            assert_true(vy[j * 2] == number(i, 7) && vy[j * 2 + 1] == number(i, 8));
            order[at++] = i;
        }
        dl_unref(x), dl_unref(y);
    }
    return at;
}

static void loaders_leave_them(void **state) {
    (void)state;
    static const int workers[] = {-1, 1, 2};
    const unsigned long seed = 3;
    dl_dataset *d = numbers();
    long want[2 * N], got[2 * N];
    for (int w = 0; w < 3; w++) {
        dl_loader_spec s = {.batch = 4, .shuffle = 1, .seed = &seed, .workers = workers[w]};
        dl_loader *l = dl_loader_new(d, DL_TRAIN, &s);
        assert_int_equal(check_batches(l, 13, w ? got : want), 2 * N);
        if (w) assert_memory_equal(got, want, sizeof want);
        assert_int_equal(dl_loader_seek(l, 1, 2), DL_OK);
        check_batches(l, 4, got);
        assert_memory_equal(got, want + N + 8, (N - 8) * sizeof *got);
        dl_loader_free(l);
    }
    dl_dataset_unref(d);
}

static void samples_and_splits_leave_them(void **state) {
    (void)state;
    dl_dataset *d = numbers();
    long order[N], total = 0;
    assert_int_equal(dl_dataset_dtype(d), DL_I64);
    assert_int_equal(dl_dataset_batch_dtype(d), DL_I64);
    assert_int_equal(dl_dataset_target_dtype(d), DL_I64);
    assert_int_equal(dl_dataset_classes(d), 0);
    assert_int_equal(dl_data_hold_out(d, 0.3, 1), DL_OK);
    for (int s = 0; s < 2; s++) {
        dl_loader *l = dl_loader_new(d, (dl_split)s, &(dl_loader_spec){.batch = 100});
        total += check_batches(l, 1, order);
        dl_loader_free(l);
    }
    assert_int_equal(total, N);
    dl_dataset_unref(d);
}

static dl_tensor *filled(dl_dtype t, int ndim, const long *shape, double v) {
    dl_tensor *x = dl_full(shape, ndim, v, t, 0);
    assert_non_null(x);
    return x;
}

/* What each dtype of samples becomes in batches. */
static void dtypes(void **state) {
    (void)state;
    static const struct {
        dl_dtype from, to;
        int ndim;
    } rows[] = {{DL_F64, DL_F32, 2}, {DL_F16, DL_F32, 1}, {DL_I32, DL_I64, 2}, {DL_BOOL, DL_I64, 2},
                {DL_U8, DL_I64, 1},  {DL_U8, DL_I64, 2},  {DL_U8, DL_F32, 3},  {DL_U8, DL_F32, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dl_tensor *x = filled(rows[i].from, rows[i].ndim, (long[]){4, 2, 2, 2}, 1),
                  *y = filled(DL_I64, 1, (long[]){4}, 0), *bx, *by;
        dl_dataset *d = dl_dataset_from(x, y, x, y, NULL);
        if (!d) fail_msg("%s", dl_errmsg());
        assert_int_equal(dl_dataset_gather(d, DL_TEST, (long[]){3, 0}, 2, &bx, &by), DL_OK);
        assert_int_equal(dl_dtype_of(bx), rows[i].to);
        assert_int_equal(dl_dtype_of(bx), dl_dataset_batch_dtype(d));
        assert_int_equal(dl_dataset_classes(d), 1);
        dl_unref(bx), dl_unref(by);
        dl_dataset_unref(d);
        dl_unref(x), dl_unref(y);
    }
}

/* Integers [n] are class numbers where all of them can be. */
static void targets(void **state) {
    (void)state;
    static const int64_t labels[][3] = {{0, 4, 2}, {-1, 1, 1}, {0, 16777217, 5}};
    static const long classes[] = {5, 0, 0};
    for (int i = 0; i < 3; i++) {
        dl_tensor *x = filled(DL_F32, 2, (long[]){3, 2}, 1), *y = dl_tensor_from(1, (long[]){3}, DL_I64, 0, labels[i]),
                  *bx, *by;
        dl_dataset *d = dl_dataset_from(x, y, NULL, NULL, NULL);
        assert_non_null(d);
        assert_int_equal(dl_dataset_classes(d), classes[i]);
        assert_int_equal(dl_dataset_gather(d, DL_TRAIN, (long[]){0, 1, 2}, 3, &bx, &by), DL_OK);
        assert_int_equal(dl_dtype_of(by), DL_I64);
        assert_memory_equal(dl_data(by), labels[i], sizeof labels[i]);
        dl_unref(bx), dl_unref(by), dl_unref(x), dl_unref(y);
        dl_dataset_unref(d);
    }
}

static void refused(void **state) {
    (void)state;
    dl_dataset *d = numbers();
    assert_null(dl_loader_new(d, DL_TRAIN, &(dl_loader_spec){.transforms = "noise 0.1"}));
    assert_int_equal(dl_failed(), DL_ERR_DTYPE);
    dl_dataset_unref(d);
    dl_tensor *x = filled(DL_I64, 2, (long[]){4, 2}, 1), *f = filled(DL_F32, 2, (long[]){4, 2}, 1),
              *y = filled(DL_I64, 1, (long[]){4}, 0);
    assert_null(dl_dataset_from(x, y, f, y, NULL));
    assert_int_equal(dl_failed(), DL_ERR_DTYPE);
    assert_null(dl_dataset_from(x, f, x, x, NULL));
    assert_int_equal(dl_failed(), DL_ERR_DTYPE);
    dl_unref(x), dl_unref(f), dl_unref(y);
}

/* The same numbers have the same fingerprint, and other dtypes another. */
static void fingerprints(void **state) {
    (void)state;
    dl_dataset *a = numbers(), *b = numbers();
    assert_string_equal(dl_dataset_fingerprint(a), dl_dataset_fingerprint(b));
    dl_dataset_unref(b);
    int64_t zero[N * WIDTH] = {0};
    dl_tensor *x = dl_tensor_from(2, (long[]){N, WIDTH}, DL_I64, 0, zero), *y = filled(DL_I64, 2, (long[]){N, 1}, 0),
              *f = filled(DL_F32, 2, (long[]){N, 2}, 0);
    a = (dl_dataset_unref(a), dl_dataset_from(x, y, NULL, NULL, NULL)), b = dl_dataset_from(x, f, NULL, NULL, NULL);
    assert_string_not_equal(dl_dataset_fingerprint(a), dl_dataset_fingerprint(b));
    dl_unref(x), dl_unref(y), dl_unref(f);
    dl_dataset_unref(a), dl_dataset_unref(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaders_leave_them),
        cmocka_unit_test(samples_and_splits_leave_them),
        cmocka_unit_test(dtypes),
        cmocka_unit_test(targets),
        cmocka_unit_test(refused),
        cmocka_unit_test(fingerprints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
