/* The golden samples of the op table, made by tests/ops/make_goldens.py: read before a group of tests, released after.
 */
#ifndef TESTS_SUPPORT_GOLDEN_H
#define TESTS_SUPPORT_GOLDEN_H

#include "support/tensors.h"

#include <stdio.h>

static dl_tensor_file *golden;

static int open_golden(void **state) {
    (void)state;
    golden = dl_safetensors_read("tests/ops/golden.safetensors", 0);
    if (!golden) print_error("%s\n", dl_errmsg());
    return golden ? 0 : -1;
}

static int close_golden(void **state) {
    (void)state;
    dl_tensor_file_free(golden);
    return 0;
}

/* The largest distance of got from want, relative to the larger of 1 and the largest magnitude in want; NaN agrees with
 * NaN. Where it is: why; want is the result of `peer`. */
static inline double worst(const dl_tensor *got, const dl_tensor *want, const char *peer, char *why, size_t size) {
    if (!dl_shape_eq(got, want)) {
        snprintf(why, size, "shape %s, with %s %s", dl_shape_text(got->ndim, got->shape), peer,
                 dl_shape_text(want->ndim, want->shape));
        return INFINITY;
    }
    double *x = values(got), *y = values(want), most = 0, scale = 1;
    for (long i = 0; i < dl_numel(got); i++)
        if (fabs(y[i]) > scale && !isinf(y[i])) scale = fabs(y[i]);
    for (long i = 0; i < dl_numel(got); i++) {
        double d = x[i] == y[i] || (isnan(x[i]) && isnan(y[i])) ? 0 : fabs(x[i] - y[i]) / scale;
        if (isnan(d)) d = INFINITY;
        if (d > most) most = d, snprintf(why, size, "element %ld is %.17g, with %s %.17g", i, x[i], peer, y[i]);
    }
    free(x), free(y);
    return most;
}

#endif
