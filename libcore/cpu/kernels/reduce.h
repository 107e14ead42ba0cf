/* Reductions: the primitives of reduce_simd.c, one set a function and dtype, and the driver that lays them over a
 * strided tensor. Floats of 16 bits are read as they are and reduced in f32. Sums of f32 go through f64 from four
 * elements on, so that many terms that cancel leave what they should; the order of additions depends on shapes and
 * strides alone, never on the number of threads. */
#pragma once

#include "cpu/runtime/iter.h"
#include "cpu/runtime/simd.h"

enum { DL_REDUCE_TILE = 512, /* columns reduced side by side, at most */ DL_REDUCE_FEW = 16 };

typedef enum dl_reduce_id {
    DL_R_SUM,
    DL_R_SUM_FEW, /* f32: in f32, for at most DL_REDUCE_FEW elements a result */
    DL_R_PROD,
    DL_R_MAX,
    DL_R_MIN,
    DL_R_ANY,
    DL_R_ALL,
    DL_R_SUMEXP,    /* of e**(x - m) */
    DL_R_SUMSQUARE, /* of (x - m)**2 */
    DL_R_SUMABS,
    DL_R_SUMKNOWN, /* of those that are not NaN */
    DL_NREDUCE
} dl_reduce_id;

/* x: elements, one by `stride` bytes after the other; m: parameters of SUMEXP and SUMSQUARE, one for each result,
 * `mstride` of them apart, else unused. */
typedef struct dl_reducer {
    /* *acc = the n elements (n > 0) reduced */
    void (*row)(long n, const char *x, long stride, const void *m, void *acc);
    /* acc[j] = column j reduced, for `width` contiguous columns of `rows` > 0 rows that lie `stride` bytes apart */
    void (*cols)(long rows, long width, const char *x, long stride, const void *m, long mstride, void *acc);
    /* acc[j] = acc[j] and more[j] reduced */
    void (*join)(long n, void *acc, const void *more);
    /* n results, `step` bytes apart */
    void (*store)(long n, const void *acc, char *out, long step);
    long size, result; /* bytes of an accumulator, of a result */
    double identity;   /* the result of no elements */
} dl_reducer;

DL_SIMD_DECL(extern const dl_reducer, dl_reducer_table, [DL_NREDUCE][DL_NDTYPE]);

/* Where a value first occurs, for argmax: index of the first element equal to *v, or the first NaN when *v is NaN. */
typedef struct dl_finder {
    long (*row)(long n, const char *x, long stride, const void *v);
    void (*cols)(long rows, long width, const char *x, long stride, const void *v, long *index);
} dl_finder;
DL_SIMD_DECL(extern const dl_finder, dl_finder_table, [DL_NDTYPE]);

/* Reduces the dimensions of x in `mask` into out, contiguous in the order of the kept dimensions; m as above (or NULL),
 * laid out like out. Of 16 bits m and out are f32. DL_ERR_MEMORY. */
dl_status dl_cpu_reduce(dl_reduce_id id, const dl_tensor *x, unsigned mask, const void *m, void *out);
