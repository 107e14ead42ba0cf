/* Tensors for tests: drawn from a fixed sequence, compared with each other. */
#ifndef TESTS_SUPPORT_TENSORS_H
#define TESTS_SUPPORT_TENSORS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/op.h"

#define SHAPE(...) ((long[]){__VA_ARGS__})

static inline void ok(dl_status s) {
    if (s != DL_OK) fail_msg("%s", dl_errmsg());
}

/* NULL fails the test with the library's message. */
static inline dl_tensor *must(dl_tensor *t) {
    if (!t) fail_msg("%s", dl_errmsg());
    return t;
}

/* Roughly normal numbers, the same for the same seed. */
static inline dl_tensor *drawn(unsigned seed, int ndim, const long *shape, dl_dtype dtype) {
    dl_tensor *t = must(dl_tensor_empty(ndim, shape, dtype, 0));
    uint32_t s = seed * 2654435761u + 12345u;
    for (long i = 0; i < dl_numel(t); i++) {
        double sum = 0;
        for (int k = 0; k < 6; k++) {
            s = s * 1664525u + 1013904223u;
            sum += (double)(s >> 8) / (1 << 24) - 0.5;
        }
        dl_store_f64((char *)dl_data(t) + i * dl_dtype_size(dtype), dtype, sum * 1.4);
    }
    return t;
}

static inline dl_tensor *leaf(dl_tensor *t) {
    ok(dl_set_requires_grad(t, 1));
    return t;
}

static inline dl_tensor *labels(long n, const long *v) { return must(dl_tensor_from(1, &n, DL_I64, 0, v)); }

static inline double *values(const dl_tensor *t) {
    double *v = calloc((size_t)dl_numel(t) + 1, sizeof *v);
    assert_non_null(v);
    ok(dl_read_f64(t, v));
    return v;
}

/* |a - b| / |b|, both as vectors; NaN must meet NaN and an infinity itself, else infinity. */
static inline double distance(const dl_tensor *a, const dl_tensor *b) {
    assert_int_equal(dl_ndim(a), dl_ndim(b));
    for (int i = 0; i < dl_ndim(a); i++) assert_int_equal(dl_shape(a)[i], dl_shape(b)[i]);
    double *x = values(a), *y = values(b), num = 0, den = 0;
    for (long i = 0; i < dl_numel(a); i++) {
        if (isfinite(x[i]) && isfinite(y[i])) {
            num += (x[i] - y[i]) * (x[i] - y[i]);
            den += y[i] * y[i];
        } else if (!(x[i] == y[i] || (isnan(x[i]) && isnan(y[i])))) {
            num = INFINITY;
        }
    }
    free(x);
    free(y);
    return den > 0 ? sqrt(num / den) : sqrt(num);
}

/* `tol` 0: the same values exactly. */
static inline void near(const dl_tensor *a, const dl_tensor *b, double tol, const char *what) {
    double d = distance(a, b);
    if (!(d <= tol)) fail_msg("%s: off by %g, at most %g allowed", what, d, tol);
}

/* The call must fail with this code, and its message contain the text. */
static inline void fails(dl_tensor *result, dl_status code, const char *text) {
    if (result) fail_msg("no error where '%s' was expected", text);
    assert_int_equal(dl_failed(), code);
    if (!strstr(dl_errmsg(), text)) fail_msg("'%s' lacks '%s'", dl_errmsg(), text);
}

/* The gradient of sum(y * seed), by the fused or by the composite rule. */
static inline void gradients(dl_tensor *y, dl_tensor *seed, dl_tensor **in, int n, int composite, dl_tensor **out) {
    ok(dl_gradients(y, seed, in, n, 1, composite, out));
}

/* Both rules must give the same gradients. seed has y's shape. */
static inline void rules_agree(dl_tensor *y, dl_tensor **in, int n, double tol, const char *what) {
    dl_tensor *fused[8] = {0}, *composite[8] = {0}, *seed = drawn(77, dl_ndim(y), dl_shape(y), dl_dtype_of(y));
    gradients(y, seed, in, n, 0, fused);
    gradients(y, seed, in, n, 1, composite);
    for (int i = 0; i < n; i++) {
        near(must(fused[i]), must(composite[i]), tol, what);
        dl_unref(fused[i]);
        dl_unref(composite[i]);
    }
    dl_unref(seed);
}

#endif
