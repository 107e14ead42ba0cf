/* dl_recompute: the same gradients with less memory, of results, arguments and leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "dlcore.h"
#include "dlcore/all.h"

enum { STEPS = 12, BLOCKS = 6, SIZE = 1 << 16 };

static int released;

static void release(void *arg) { released += *(int *)arg; }

/* x + sin(w x), STEPS times; w is a leaf that arg points to. */
static int block(dl_tensor **in, int n, dl_tensor **out, int max_out, void *arg) {
    dl_tensor *w = *(dl_tensor **)arg, *x = dl_ref(in[0]);
    (void)n, (void)max_out;
    for (int i = 0; i < STEPS && x; i++) {
        dl_tensor *scaled = dl_mul(w, x), *wave = dl_sin(scaled), *sum = dl_add(x, wave);
        dl_unref(scaled), dl_unref(wave), dl_unref(x);
        x = sum;
    }
    out[0] = x;
    return x ? 1 : -1;
}

/* Bytes at the peak of a pass through all blocks, with gradients of x and w. */
static long pass(int again, dl_tensor *x, dl_tensor *w) {
    dl_tensor *y = dl_ref(x);
    long before = dl_memory_held(), most = 0;
    for (int i = 0; i < BLOCKS; i++) {
        dl_tensor *next = NULL;
        int n = 0;
        if (again)
            assert_int_equal(dl_recompute(block, &w, NULL, &y, 1, &next, &n), DL_OK);
        else
            n = block(&y, 1, &next, 1, &w);
        assert_int_equal(n, 1);
        dl_unref(y);
        y = next;
        if (dl_memory_held() > most) most = dl_memory_held();
    }
    dl_tensor *sum = dl_sum(y, NULL, 0, 0);
    assert_int_equal(dl_backward(sum, NULL, 0, 0), DL_OK);
    dl_unref(sum), dl_unref(y);
    return most - before;
}

static void less_memory_and_the_same_gradients(void **state) {
    (void)state;
    static double of_x[2][SIZE];
    double of_w[2];
    long n = SIZE, held[2];
    for (int again = 0; again < 2; again++) {
        dl_tensor *x = dl_tensor_full(1, &n, DL_F32, 0, 0.5), *w = dl_tensor_full(0, &n, DL_F32, 0, 0.3);
        assert_int_equal(dl_set_requires_grad(x, 1), DL_OK);
        assert_int_equal(dl_set_requires_grad(w, 1), DL_OK);
        held[again] = pass(again, x, w);
        assert_int_equal(dl_read_f64(dl_grad(x), of_x[again]), DL_OK);
        assert_int_equal(dl_item_f(dl_grad(w), &of_w[again]), DL_OK);
        dl_unref(x), dl_unref(w);
    }
    for (int i = 0; i < SIZE; i++) assert_true(of_x[0][i] == of_x[1][i]);
    assert_true(of_w[0] < 0 && fabs(of_w[1] / of_w[0] - 1) < 1e-5); /* added up in another order */
    /* two results of each step are kept, against one of each block */
    assert_true(held[0] >= (long)(2 * STEPS * (BLOCKS - 1)) * SIZE * 4);
    assert_true(held[1] <= (long)(BLOCKS + 1) * SIZE * 4);
}

static void the_argument_is_released(void **state) {
    (void)state;
    dl_tensor *x = dl_scalar_f(2), *out[8];
    int one = 1, n = 0;
    released = 0;
    assert_int_equal(dl_recompute(NULL, &one, release, &x, 1, out, &n), DL_ERR_VALUE); /* no function */
    assert_int_equal(released, 1);
    int mode = dl_grad_mode(0);
    assert_int_equal(dl_recompute(block, &x, NULL, &x, 1, out, &n), DL_OK);
    dl_grad_mode(mode);
    dl_unref(out[0]), dl_unref(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(less_memory_and_the_same_gradients),
                                       cmocka_unit_test(the_argument_is_released)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
