/* The loops of copy_simd.c. */
#pragma once

#include "cpu/runtime/iter.h"
#include "cpu/runtime/simd.h"

enum { DL_TRANSPOSE_ROWS = 32 };

/* target[k][r] = source[r][k] for r < rows <= DL_TRANSPOSE_ROWS, k < n: the source has its n elements next to each
 * other and rows `xrow` bytes apart, the target has its rows' elements next to each other and `drow` bytes between. */
typedef void (*dl_transpose_fn)(long n, long rows, char *d, long drow, const char *x, long xrow);

DL_SIMD_DECL(extern const dl_loop, dl_copy_loop, [17]);                   /* by element size */
DL_SIMD_DECL(extern const dl_loop, dl_cast_loop, [DL_NDTYPE][DL_NDTYPE]); /* [source][target] */
DL_SIMD_DECL(extern const dl_loop, dl_where_loop, [17]);                  /* by element size */
/* Operands 1 .. *(int *)arg, one element each, side by side in operand 0, whose stride is that of so many. */
DL_SIMD_DECL(extern const dl_loop, dl_weave_loop, [17]); /* by element size */
/* Dense elements, each *(long *)arg times, one after another; the target's stride is that of so many. */
DL_SIMD_DECL(extern const dl_loop, dl_repeat_loop, [17]);       /* by element size */
DL_SIMD_DECL(extern const dl_transpose_fn, dl_transpose, [17]); /* by element size */
