/* The work space that LAPACK asks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>

#include "cpu/lapack/lapack.h"

/* What syevd's documentation asks for with eigenvectors; its answer in f32 cannot hold each of these numbers. */
static long wanted(long n) { return 1 + 6 * n + 2 * n * n; }

static void asks_for_enough(void **state) {
    (void)state;
    const dl_lapack *l = dl_lapack_get(DL_F32);
    assert_non_null(l);
    for (int n = 2; n <= 6000; n++) {
        const int query = -1;
        float answer = 0;
        int whole = 0, info = 0;
        l->syevd("V", "L", &n, NULL, &n, NULL, &answer, &query, &whole, &query, &info, 1, 1);
        assert_int_equal(info, 0);
        if (dl_lapack_room(DL_F32, &answer) < wanted(n)) fail_msg("n = %d", n);
    }
}

static void keeps_within_ints(void **state) {
    (void)state;
    assert_int_equal(dl_lapack_room(DL_F32, &(float){0}), 1);
    assert_int_equal(dl_lapack_room(DL_F32, &(float){18018000}), 18018002); /* the next number of f32 */
    assert_int_equal(dl_lapack_room(DL_F32, &(float){1000}), 1000);
    assert_int_equal(dl_lapack_room(DL_F64, &(double){18018001}), 18018001);
    assert_int_equal(dl_lapack_room(DL_F64, &(double){1e12}), INT_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(asks_for_enough), cmocka_unit_test(keeps_within_ints)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
