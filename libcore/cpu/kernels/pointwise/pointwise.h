/* Inner loops of pointwise ops, by formula and dtype: pointwise_simd.c makes them from ops/pointwise.def, pointwise.c
 * runs them. 16-bit floats have loops for formulas that are light (halves_simd.c) and dl_sign_loops; for others see
 * dl_iter_run_f32. */
#pragma once

#include "cpu/runtime/iter.h"
#include "cpu/runtime/simd.h"
#include "ops/pointwise.h"

/* NULL: not taken. The operands are result, x or a, b, c; of the gradient of an operand result, g, x or y or a, b, c.
 */
typedef struct dl_pointwise_table {
    dl_loop run[DL_NFORMULA], grad[3][DL_NFORMULA];
} const *dl_pointwise_loops;

DL_SIMD_DECL(extern const dl_pointwise_loops, dl_pointwise, [DL_NDTYPE]);
/* Of f16 and bf16; what they leave, or all where there are none, is for the loops above. */
typedef struct dl_halves_table {
    dl_some run[DL_NFORMULA], grad[3][DL_NFORMULA];
} const *dl_halves_loops;

DL_SIMD_DECL(extern const dl_halves_loops, dl_halves, [DL_NDTYPE]);
/* Of formulas that only change the sign, for f16 and bf16 as they are; NULL: of all others. */
DL_SIMD_DECL(extern const dl_loop, dl_sign_loops, [DL_NFORMULA]);
#define DL_LOOP_OF(name, dtype) (DL_SIMD_PICK(dl_pointwise)[dtype]->run[DL_FORMULA_##name])

/* `arg` of the loops; they set bits of `faults` where operands have no result. It may be NULL for ops without numbers
 * and faults. */
enum { DL_BAD_DIVISOR = 1, DL_BAD_SHIFT = 2, DL_BAD_EXPONENT = 4 };
typedef struct dl_pointwise_arg {
    dl_number number[DL_MAX_NUMBERS];
    int faults;
} dl_pointwise_arg;
