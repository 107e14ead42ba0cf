/* Values as unsigned keys of their order: the smaller key comes first. NaN counts as larger than all numbers, the two
 * zeros as equal. Plain C and C++17, for sorting kernels of every backend. */
#pragma once

#include <stdbool.h>

#include "core/dtype.h"
#include "core/random/rng.h" /* DL_HD */

typedef struct dl_order {
    uint64_t sign, all; /* bits of the sign (0: there is none) and of the whole number */
    uint64_t inf;       /* bits of infinity; 0: no floating numbers */
    bool down;          /* the largest first */
} dl_order;

static inline dl_order dl_order_of(dl_dtype t, bool down) {
    uint64_t inf = t == DL_F64    ? 0x7ff0000000000000
                   : t == DL_F32  ? 0x7f800000
                   : t == DL_F16  ? 0x7c00
                   : t == DL_BF16 ? 0x7f80
                                  : 0;
    uint64_t top = (uint64_t)1 << (8 * dl_dtype_size(t) - 1);
    dl_order o = {t == DL_U8 || t == DL_BOOL ? 0 : top, top | (top - 1), inf, down};
    return o;
}

DL_HD uint64_t dl_order_key(dl_order o, uint64_t bits) {
    uint64_t size = bits & ~o.sign;
    if (!o.inf)
        bits ^= o.sign;
    else if (size > o.inf)
        bits = o.all;
    else
        bits = !size ? o.sign : bits & o.sign ? bits ^ o.all : bits | o.sign;
    return o.down ? bits ^ o.all : bits;
}
