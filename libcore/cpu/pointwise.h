/* Inner loops of one and two operands, by function and dtype: binary_simd.c and unary_simd.c define them, binary.c and
 * unary.c run them. 16-bit floats have no loops of their own, see dl_iter_run_f32. */
#ifndef DL_CPU_POINTWISE_H
#define DL_CPU_POINTWISE_H

#include "cpu/iter.h"
#include "cpu/simd.h"

/* The formatter never comes to rest on these. */
/* clang-format off */
#define DL_BINARY_LIST(X) \
    X(add) X(sub) X(mul) X(div) X(floor_divide) X(remainder) X(pow) X(maximum) X(minimum) X(eq) X(ne) X(lt) X(le) \
    X(gt) X(ge) X(logical_and) X(logical_or) X(logical_xor) X(bitwise_and) X(bitwise_or) X(bitwise_xor) \
    X(bitwise_left_shift) X(bitwise_right_shift) X(relu_grad) X(leaky_relu_grad) X(elu_grad) X(tanh_grad) X(sigmoid_grad) \
    X(gelu_grad) X(silu_grad) X(softplus_grad) X(logit_loss)

#define DL_UNARY_LIST(X) \
    X(neg) X(abs) X(sign) X(square) X(relu) X(leaky_relu) X(elu) X(floor) X(ceil) X(round) X(clamp) X(logical_not) \
    X(bitwise_not) X(isnan) X(isinf) X(isfinite)
/* clang-format on */

enum {
#define X(name) DL_B_##name,
    DL_BINARY_LIST(X) DL_NBINARY
#undef X
};
enum {
#define X(name) DL_U_##name,
    DL_UNARY_LIST(X)
#undef X
#define FUNCTION(name, in_f32, in_f64) DL_U_##name,
#define LOOPS FUNCTION
#include "cpu/functions.def"
#undef LOOPS
#undef FUNCTION
        DL_NUNARY
};

DL_SIMD_DECL(extern const dl_loop, dl_binary_loop, [DL_NBINARY][DL_NDTYPE]);
DL_SIMD_DECL(extern const dl_loop, dl_unary_loop, [DL_NUNARY][DL_NDTYPE]);

/* `arg` of the loops: integer division, remainder, power and shifts set a bit of *(int *)arg on operands without a
 * result; leaky_relu and elu read a double; clamp reads its limits. */
enum { DL_BAD_DIVISOR = 1, DL_BAD_SHIFT = 2, DL_BAD_EXPONENT = 4 };
typedef struct dl_limits {
    double lo, hi;
    long ilo, ihi;
} dl_limits;

#endif
