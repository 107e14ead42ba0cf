/* Short words for tests of ops: tensors from literals, checks of values and of errors. */
#ifndef TESTS_OPS_H
#define TESTS_OPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "dlcore/view.h"

#include <math.h>
#include <string.h>

#include "core/op.h"

#define COUNT(...) ((long)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))
/* A list, and the same in another dtype. */
#define V(...) vec(DL_F32, COUNT(__VA_ARGS__), (double[]){__VA_ARGS__})
#define VT(dtype, ...) vec(dtype, COUNT(__VA_ARGS__), (double[]){__VA_ARGS__})
#define SHAPE(...) (const long[]){__VA_ARGS__}, (int)COUNT(__VA_ARGS__)
/* Releases the tensor after comparing all elements, NaN with NaN. */
#define IS(tensor, ...) is(tensor, COUNT(__VA_ARGS__), (double[]){__VA_ARGS__}, __LINE__)
/* The call must fail with this code, and a message that contains `part`. */
#define FAILS(tensor, status, part) fails(tensor, status, part, __LINE__)

/* Tensors of the running test, released by `drop`. */
static dl_tensor *held[256];
static int nheld;

static inline dl_tensor *hold(dl_tensor *t) {
    assert_non_null(t);
    assert_in_range(nheld, 0, 255);
    return held[nheld++] = t;
}

static inline int drop(void **state) {
    (void)state;
    while (nheld) dl_unref(held[--nheld]);
    dl_error_clear();
    return 0;
}

static inline dl_tensor *vec(dl_dtype dtype, long n, const double *v) {
    dl_tensor *t = hold(dl_tensor_empty(1, &n, dtype, 0));
    for (long i = 0; i < n; i++) dl_store_f64((char *)dl_data(t) + i * dl_dtype_size(dtype), dtype, v[i]);
    return t;
}

static inline dl_tensor *shaped(dl_tensor *t, const long *shape, int n) { return hold(dl_reshape(t, shape, n)); }

static inline void is(dl_tensor *t, long n, const double *want, int line) {
    double got[1024];
    if (!t) fail_msg("line %d: %s", line, dl_errmsg());
    if (dl_numel(t) != n) fail_msg("line %d: %ld elements, want %ld", line, dl_numel(t), n);
    assert_int_equal(dl_read_f64(t, got), DL_OK);
    for (long i = 0; i < n; i++)
        if (!(isnan(want[i]) ? isnan(got[i]) : fabs(got[i] - want[i]) <= 1e-6 * fabs(want[i]) || got[i] == want[i]))
            fail_msg("line %d: element %ld is %.9g, want %.9g", line, i, got[i], want[i]);
    dl_unref(t);
}

static inline void fails(dl_tensor *t, dl_status status, const char *part, int line) {
    if (t) fail_msg("line %d: no error", line);
    dl_error e;
    if (dl_error_take(&e) != status) fail_msg("line %d: %s, want %s", line, e.message, dl_status_name(status));
    if (!strstr(e.message, part)) fail_msg("line %d: '%s' lacks '%s'", line, e.message, part);
}

#define TEST(f) cmocka_unit_test_teardown(f, drop)

#endif
