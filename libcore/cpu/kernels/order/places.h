/* Loops of places: places_simd.c defines them, places.c runs them. */
#pragma once

#include "core/op.h"
#include "cpu/runtime/simd.h"

typedef struct dl_places_loops {
    /* at[i]: how many of the n sorted elements of `row` are before value i, of `count`; `right`: equal ones are, too */
    void (*search)(const void *row, long n, const void *values, long count, long *at, bool right);
    /* at[i]: where the best of the first i + 1 elements is, the last of equal ones; NaN is better than any number */
    void (*running)(const void *x, long *at, long n, bool largest);
} dl_places_loops;

DL_SIMD_DECL(extern const dl_places_loops, dl_places, [DL_NDTYPE]); /* i32, i64, f32, f64 */
