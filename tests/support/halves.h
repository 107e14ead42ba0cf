/* Results of 16 bits beside those of f64 for the same, rounded operands. */
#ifndef TESTS_SUPPORT_HALVES_H
#define TESTS_SUPPORT_HALVES_H

#include "support/tensors.h"

#include "dlcore/all.h"

static inline dl_tensor *in_f64(dl_tensor *t) {
    dl_tensor *own = must(dl_detach(t)), *wide = must(dl_to(own, DL_F64));
    dl_unref(own);
    return wide;
}

/* Sums in f32, rounded once, differ by half a unit in the last place, and by what f32 lost. */
static inline void rounded_once(dl_tensor *got, dl_tensor *want, double lost, const char *what) {
    double *a = values(must(got)), *b = values(must(want));
    const double unit = dl_dtype_of(got) == DL_BF16 ? 0x1.02p-8 : 0x1.02p-11;
    assert_int_equal(dl_numel(got), dl_numel(want));
    for (long i = 0; i < dl_numel(got); i++)
        if (a[i] != b[i] && !(fabs(a[i] - b[i]) <= unit * fabs(b[i]) + lost))
            fail_msg("%s: element %ld is %g, not %g", what, i, a[i], b[i]);
    free(a), free(b);
}

#endif
