/* Kernels of rows with two operands. */
#include "cpu/pointwise.h"
#include "ops/rules.h"

static dl_status refused(int flags) {
    if (flags & DL_BAD_DIVISOR)
        return dl_fail_hint(DL_ERR_VALUE,
                            "integers have no infinity; convert to f32 first, or use / for a true quotient",
                            "integer division by zero");
    if (flags & DL_BAD_SHIFT)
        return dl_fail(DL_ERR_VALUE, "a shift must be at least 0 and less than the number of bits of the dtype");
    return dl_fail_hint(DL_ERR_VALUE, "convert the base to f32 first",
                        "an integer to a negative integer power is not an integer");
}

static dl_status run_binary(dl_call *c, int id) {
    dl_tensor *op[3] = {c->out[0], c->in[0], c->in[1]};
    dl_iter it;
    int flags = 0;
    dl_iter_init(&it, 3, op);
    dl_iter_run_f32(&it, 1, DL_SIMD_PICK(dl_binary_loop)[id][c->dtype], &flags);
    return flags ? refused(flags) : DL_OK;
}

#define KERNEL(name, set)                                                                                              \
    static dl_status run_##name(dl_call *c) { return run_binary(c, DL_B_##name); }                                     \
    const dl_kernel dl_cpu_##name = {.run = run_##name, .dtypes = set};

KERNEL(add, DL_ANY)
KERNEL(sub, DL_NUMBERS)
KERNEL(mul, DL_ANY)
KERNEL(div, DL_FLOATS)
KERNEL(floor_divide, DL_NUMBERS)
KERNEL(remainder, DL_NUMBERS)
KERNEL(pow, DL_NUMBERS)
KERNEL(maximum, DL_ANY)
KERNEL(minimum, DL_ANY)
KERNEL(eq, DL_ANY)
KERNEL(ne, DL_ANY)
KERNEL(lt, DL_ANY)
KERNEL(le, DL_ANY)
KERNEL(gt, DL_ANY)
KERNEL(ge, DL_ANY)
KERNEL(logical_and, DL_ANY)
KERNEL(logical_or, DL_ANY)
KERNEL(logical_xor, DL_ANY)
KERNEL(bitwise_and, DL_INTS | DL_BIT(DL_BOOL))
KERNEL(bitwise_or, DL_INTS | DL_BIT(DL_BOOL))
KERNEL(bitwise_xor, DL_INTS | DL_BIT(DL_BOOL))
KERNEL(bitwise_left_shift, DL_INTS)
KERNEL(bitwise_right_shift, DL_INTS)
KERNEL(logit_loss, DL_FLOATS)
