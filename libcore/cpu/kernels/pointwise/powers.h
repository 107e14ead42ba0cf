/* Powers a ** b whose exponent is the same for all elements of a loop, by formulas without pow; the same as pow at
 * zeros, infinities and below 0. */
#pragma once

#include "core/dtype.h"

/* Each: exponent, name of the loop, formula. */
#define DL_POWERS(POWER)                                                                                               \
    POWER(1, first_of, b == b ? a : b)                                                                                 \
    POWER(2, square_of, b == b ? a * a : b)                                                                            \
    POWER(3, cube_of, b == b ? a * a * a : b)                                                                          \
    POWER(0.5, root_of, b == b ? (a == -INF ? INF : SQRT(a + 0)) : b)                                                  \
    POWER(-1, inverse_of, b == b ? 1 / a : b)                                                                          \
    POWER(-0.5, root_inverse_of, (T)(b == b ? (a == -INF ? 0 : 1 / sqrt((f64)a + 0)) : b))                             \
    POWER(-2, square_inverse_of, (T)(b == b ? 1 / ((f64)a * (f64)a) : b))

/* The place of this exponent, -1: it has none. In f64 the square of the last one could be below the normal numbers, and
 * is left to pow. */
static inline int dl_power_place(double exponent, dl_dtype computed) {
#define DL_EXPONENT(exponent, ...) exponent,
    static const double known[] = {DL_POWERS(DL_EXPONENT)};
#undef DL_EXPONENT
    const int count = (int)(sizeof known / sizeof *known) - (computed == DL_F64);
    for (int i = 0; i < count; i++)
        if (known[i] == exponent) return i;
    return -1;
}
