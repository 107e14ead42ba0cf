/* Loaders: an order that depends on seed and epoch alone, exact resuming, transforms, threads that end on request. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/data.h"
#include "data/hash.h"
#include "data/transforms/transform.h"
#include "dlcore.h"

static dl_dataset *digits;

static int setup(void **state) {
    (void)state;
    const char *options[] = {"n", "103", "test", "20", NULL};
    digits = dl_dataset_open("digits", options);
    return digits ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    dl_dataset_unref(digits);
    return 0;
}

/* Adds what the next `count` calls give to a hash; an end of epoch counts as a call. */
static uint64_t hash_calls(dl_loader *l, int count, uint64_t h) {
    for (int i = 0; i < count; i++) {
        dl_tensor *x, *y;
        assert_int_equal(dl_loader_next(l, &x, &y), DL_OK);
        h = h * 31 + 7;
        if (!x) continue;
        h = hash_bytes(hash_bytes(h, dl_data(x), (size_t)dl_numel(x) * 4), dl_data(y), (size_t)dl_numel(y) * 8);
        dl_unref(x);
        dl_unref(y);
    }
    return h;
}

static const unsigned long seed = 11;
static dl_loader_spec spec_of(int workers, int prefetch) {
    return (dl_loader_spec){.batch = 10,
                            .shuffle = 1,
                            .seed = &seed,
                            .transforms = "crop 2, flip, noise 0.05",
                            .workers = workers,
                            .prefetch = prefetch};
}

static void order_ignores_threads(void **state) {
    (void)state;
    static const int workers[] = {-1, 1, 2, 5}, prefetch[] = {0, 1, 3, 20};
    uint64_t want = 0;
    for (int k = 0; k < 4; k++) {
        dl_loader_spec s = spec_of(workers[k], prefetch[k]);
        dl_loader *l = dl_loader_new(digits, DL_TRAIN, &s);
        assert_int_equal(dl_loader_len(l), 11);
        uint64_t got = hash_calls(l, 30, 0);
        if (!k) want = got;
        assert_true(got == want);
        dl_loader_free(l);
    }
}

/* What is done to a sample does not depend on the batch it is dealt in. */
static void transforms_ignore_batches(void **state) {
    (void)state;
    enum { N = 103, SIZE = 784 };
    static float x[2][N * SIZE];
    for (int k = 0; k < 2; k++) {
        dl_loader_spec s = spec_of(1, 2);
        s.batch = k ? 17 : N;
        dl_loader *l = dl_loader_new(digits, DL_TRAIN, &s);
        long at = 0;
        for (dl_tensor *bx, *by; dl_loader_next(l, &bx, &by) == DL_OK && bx; dl_unref(bx), dl_unref(by)) {
            assert_true(at + dl_numel(bx) <= N * SIZE);
            memcpy(x[k] + at, dl_data(bx), (size_t)dl_numel(bx) * sizeof(float));
            at += dl_numel(bx);
        }
        assert_int_equal(at, N * SIZE);
        dl_loader_free(l);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
}

static void resumes_exactly(void **state) {
    (void)state;
    dl_loader_spec s = spec_of(2, 3);
    dl_loader *l = dl_loader_new(digits, DL_TRAIN, &s);
    for (int stop = 0; stop < 26; stop += 5) {
        long epoch, batch;
        assert_int_equal(dl_loader_seek(l, 0, 0), DL_OK);
        hash_calls(l, stop, 0);
        dl_loader_position(l, &epoch, &batch);
        assert_int_equal(epoch, stop / 12);
        assert_int_equal(batch, stop % 12);
        uint64_t want = hash_calls(l, 15, 0);
        dl_loader *again = dl_loader_new(digits, DL_TRAIN, &s);
        assert_int_equal(dl_loader_seek(again, epoch, batch), DL_OK);
        assert_true(hash_calls(again, 15, 0) == want);
        dl_loader_free(again);
    }
    assert_int_equal(dl_loader_seek(l, 0, 12), DL_ERR_INDEX);
    assert_int_equal(dl_loader_seek(l, -1, 0), DL_ERR_INDEX);
    dl_loader_free(l);
}

/* What threads were making when the loader was moved does not turn up afterwards. */
static void seeks_while_threads_work(void **state) {
    (void)state;
    dl_loader_spec busy = spec_of(3, 5), calm = spec_of(-1, 0);
    dl_loader *l = dl_loader_new(digits, DL_TRAIN, &busy), *plain = dl_loader_new(digits, DL_TRAIN, &calm);
    for (int i = 0; i < 300; i++) {
        long epoch = i * 7 % 5, batch = i * 5 % 11;
        assert_int_equal(dl_loader_seek(l, epoch, batch), DL_OK);
        assert_int_equal(dl_loader_seek(plain, epoch, batch), DL_OK);
        assert_true(hash_calls(l, 1 + i % 3, 0) == hash_calls(plain, 1 + i % 3, 0));
    }
    dl_loader_free(l);
    dl_loader_free(plain);
}

/* Every sample once an epoch; another order in the next; the order of the set without shuffling. */
static void deals_all_samples(void **state) {
    (void)state;
    long n = 50, shape[] = {n, 1};
    float values[50];
    long zeros[50] = {0};
    for (int i = 0; i < 50; i++) values[i] = (float)i;
    dl_tensor *x = dl_tensor_from(2, shape, DL_F32, 0, values), *y = dl_tensor_from(1, shape, DL_I64, 0, zeros);
    dl_dataset *d = dl_dataset_from(x, y, NULL, NULL, NULL);
    assert_non_null(d);
    dl_unref(x);
    dl_unref(y);
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        dl_loader_spec s = {.batch = 8, .shuffle = shuffle, .drop_last = 0};
        dl_loader *l = dl_loader_new(d, DL_TRAIN, &s);
        long order[2][50];
        for (int e = 0; e < 2; e++) {
            int at = 0;
            uint64_t seen = 0;
            while (dl_loader_next(l, &x, &y) == DL_OK && x) {
                for (long i = 0; i < dl_shape(x)[0]; i++) {
                    order[e][at++] = (long)((float *)dl_data(x))[i];
                    seen |= 1ull << order[e][at - 1];
                }
                dl_unref(x);
                dl_unref(y);
            }
            assert_int_equal(at, 50);
            assert_true(seen == (1ull << 50) - 1);
        }
        assert_int_equal(!memcmp(order[0], order[1], sizeof order[0]), !shuffle);
        assert_int_equal(order[0][0] == 0 && order[0][49] == 49, !shuffle);
        dl_loader_free(l);
    }
    dl_loader_spec s = {.batch = 8, .drop_last = 1};
    dl_loader *l = dl_loader_new(d, DL_TRAIN, &s);
    assert_int_equal(dl_loader_len(l), 6);
    dl_loader_free(l);
    s.batch = 51;
    assert_null(dl_loader_new(d, DL_TRAIN, &s));
    assert_int_equal(dl_failed(), DL_ERR_VALUE);
    assert_null(dl_loader_new(d, DL_TEST, NULL)); /* empty */
    dl_dataset_unref(d);
}

/* Stopping at any time: before the first batch, in the middle, while threads are at work. */
static void ends_at_any_time(void **state) {
    (void)state;
    for (int i = 0; i < 40; i++) {
        dl_loader_spec s = spec_of(1 + i % 4, 1 + i % 7);
        dl_loader *l = dl_loader_new(digits, i % 2 ? DL_TEST : DL_TRAIN, &s);
        hash_calls(l, i % 5, 0);
        if (i % 3 == 0) dl_loader_seek(l, i, 0);
        dl_loader_free(l);
    }
    dl_loader_free(NULL);
}

/* A thread's failure comes out of next(), and does not move the position. */
static void failures_surface(void **state) {
    (void)state;
    for (int workers = -1; workers < 3; workers += 2) {
        dl_loader_spec s = {.workers = workers};
        dl_loader *l = dl_loader_new(digits, DL_TRAIN, &s);
        long side = digits->shape[1], epoch, batch;
        digits->shape[1] = 1L << 60;
        dl_tensor *x, *y;
        for (int again = 0; again < 3; again++) {
            dl_error_clear();
            assert_int_equal(dl_loader_next(l, &x, &y), DL_ERR_SHAPE);
            assert_null(x);
            assert_int_equal(dl_failed(), DL_ERR_SHAPE);
        }
        dl_loader_position(l, &epoch, &batch);
        assert_int_equal(batch, 0);
        dl_loader_free(l);
        digits->shape[1] = side;
    }
}

/* ---------------------------------------------------------------- transforms */

static void apply(const char *list, float *x, long c, long h, long w, uint64_t s) {
    dl_transforms t;
    float tmp[64];
    if (dl_transforms_parse(list, 3, (long[]){c, h, w}, &t)) fail_msg("%s", dl_errmsg());
    dl_sample sample = {x, tmp, c * h * w, c, h, w};
    dl_draw r = dl_draw_begin(s, DL_FOR_TRANSFORM, 0, 0);
    dl_transforms_apply(&t, &sample, &r);
}

static void transforms_do_what_they_say(void **state) {
    (void)state;
    float a[4] = {1, 2, 3, 4};
    apply("flip 1", a, 1, 2, 2, 0);
    assert_memory_equal(a, ((float[]){2, 1, 4, 3}), sizeof a);
    apply("vflip p=1", a, 1, 2, 2, 0);
    assert_memory_equal(a, ((float[]){4, 3, 2, 1}), sizeof a);
    apply("flip 0, normalize mean=1 std=2", a, 2, 1, 2, 0);
    assert_memory_equal(a, ((float[]){1.5f, 1, 0.5f, 0}), sizeof a);
    apply("cutout 4 fill=9", a, 1, 2, 2, 0);
    assert_memory_equal(a, ((float[]){9, 9, 9, 9}), sizeof a);
    float b[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, same[9];
    memcpy(same, b, sizeof b);
    apply("rotate 0, shift 0, crop pad=0, noise 0", b, 1, 3, 3, 0);
    assert_memory_equal(b, same, sizeof b);
    int moved = 0;
    for (int i = 0; i < 20; i++) {
        float v[9] = {0, 0, 0, 0, 1, 0, 0, 0, 0}, sum = 0;
        apply("shift 1 fill=0", v, 1, 3, 3, (uint64_t)i);
        for (int j = 0; j < 9; j++) sum += v[j];
        assert_true(sum == 1);
        moved += v[4] == 0;
    }
    assert_in_range(moved, 10, 20);
    float turned[9] = {0, 0, 0, 1, 1, 1, 0, 0, 0}, sum = 0;
    apply("rotate degrees=45", turned, 1, 3, 3, 3);
    for (int j = 0; j < 9; j++) sum += turned[j];
    assert_true(fabsf(turned[4] - 1) < 1e-6f && sum > 1.5f && sum < 3.5f && turned[3] < 1);
}

static void refuses(const char *list, int ndim, dl_status code, const char *part) {
    dl_transforms t;
    assert_int_equal(dl_transforms_parse(list, ndim, (long[]){1, 8, 8}, &t), code);
    if (!strstr(dl_error_last()->message, part)) fail_msg("\"%s\" lacks \"%s\"", dl_error_last()->message, part);
}

static void transforms_are_checked(void **state) {
    (void)state;
    refuses("flp", 3, DL_ERR_NAME, "there is no transform 'flp'");
    assert_string_equal(dl_error_last()->hint, "did you mean 'flip'?");
    refuses("flip q=1", 3, DL_ERR_NAME, "no parameter 'q'");
    refuses("flip 1.5", 3, DL_ERR_VALUE, "a number from 0 to 1");
    refuses("crop x", 3, DL_ERR_VALUE, "pad=x");
    refuses("flip,", 3, DL_ERR_VALUE, "missing beside a comma");
    refuses("flip", 1, DL_ERR_SHAPE, "takes pictures");
    dl_transforms t;
    assert_int_equal(dl_transforms_parse("noise 0.1", 1, (long[]){4}, &t), DL_OK);
    assert_int_equal(dl_transforms_parse(NULL, 1, (long[]){4}, &t), DL_OK);
    assert_int_equal(t.n, 0);
    for (int i = 0; dl_transform_at(i); i++) assert_non_null(dl_transform_at(i)->doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_ignores_threads),    cmocka_unit_test(transforms_ignore_batches),
        cmocka_unit_test(seeks_while_threads_work), cmocka_unit_test(resumes_exactly),
        cmocka_unit_test(deals_all_samples),        cmocka_unit_test(ends_at_any_time),
        cmocka_unit_test(failures_surface),         cmocka_unit_test(transforms_do_what_they_say),
        cmocka_unit_test(transforms_are_checked),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
