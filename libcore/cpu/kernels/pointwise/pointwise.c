/* Kernels of the ops that have a formula, and the fused gradients of activations. */
#include "cpu/kernels/pointwise/pointwise.h"
#include "ops/each.h"
#include "ops/grad.h"
#include "ops/rules/arithmetic.h"
#include "ops/rules/binary.h"
#include "ops/rules/compare.h"
#include "ops/rules/elementary.h"
#include "ops/rules/rounding.h"
#include "ops/rules/unary.h"
#include "ops/rules/where.h"

#include <string.h>

static dl_status refused(int faults) {
    if (faults & DL_BAD_DIVISOR)
        return dl_fail_hint(DL_ERR_VALUE,
                            "integers have no infinity; convert to f32 first, or use / for a true quotient",
                            "integer division by zero");
    if (faults & DL_BAD_SHIFT)
        return dl_fail(DL_ERR_VALUE, "a shift must be at least 0 and less than the number of bits of the dtype");
    return dl_fail_hint(DL_ERR_VALUE, "convert the base to f32 first",
                        "an integer to a negative integer power is not an integer");
}

/* Runs formula i. Inlined into the function of each op, where the other arguments are constants. */
static inline dl_status run_pointwise(dl_call *c, int i, int operands, bool test, int numbers) {
    dl_tensor *out = c->out[0], *op[4] = {out};
    for (int k = 0; k < operands; k++) op[1 + k] = c->in[k];
    dl_dtype t = c->dtype, result = out->dtype;
    dl_pointwise_arg arg;
    arg.faults = 0;
    if (numbers) dl_formula_numbers(i, c->op, c->attr, arg.number);
    if (result != t && !test) { /* integers with a limit that is not an integer become f32 first */
        dl_cpu_copy(out, op[1]);
        op[1] = out;
        t = result;
    }
    bool halves = DL_BIT(t) & DL_HALVES;
    for (int k = 0; k <= operands; k++) halves = halves && op[k]->dtype == (int8_t)t;
    const dl_loop sign = halves ? DL_SIMD_PICK(dl_sign_loops)[i] : NULL;
    dl_iter it;
    dl_iter_init(&it, 1 + operands, op);
    const dl_halves_loops some = DL_SIMD_PICK(dl_halves)[t];
    if (sign)
        dl_iter_run(&it, sign, &arg);
    else
        dl_iter_run_halves(&it, 1, DL_SIMD_PICK(dl_pointwise)[t]->run[i], some ? some->run[i] : NULL, &arg);
    return arg.faults ? refused(arg.faults) : DL_OK;
}

/* ---- gradients in one pass */

static dl_tensor *laid_out_like(dl_tensor *x) {
    dl_tensor *d = dl_tensor_empty(x->ndim, x->shape, x->dtype, 0);
    if (!d || dl_is_contiguous(x)) return d;
    dl_meta m = {0};
    dl_call c = {.in = &x, .nin = 1, .nout = 1, .dtype = x->dtype};
    if (dl_infer_same(&c, &m) == DL_OK && m.strided) memcpy(d->stride, m.stride, sizeof d->stride);
    return d;
}

/* The gradient of input `to`: of op, whose first place is for the result, the incoming gradient and what the formula
 * reads. */
static dl_status fused(dl_back *b, int to, int n, dl_tensor **op, dl_tensor *like) {
    op[0] = laid_out_like(like);
    if (!op[0]) return dl_failed();
    dl_pointwise_arg arg = {.faults = 0};
    int i = dl_formula_of(b->op);
    dl_formula_numbers(i, b->op, b->attr, arg.number);
    dl_iter it;
    dl_iter_init(&it, n, op);
    const dl_halves_loops some = DL_SIMD_PICK(dl_halves)[like->dtype];
    dl_iter_run_halves(&it, 1, DL_SIMD_PICK(dl_pointwise)[like->dtype]->grad[to][i], some ? some->grad[to][i] : NULL,
                       &arg);
    return dl_give(b, to, op[0]);
}

/* From a saved tensor. */
static dl_status grad_from(dl_back *b, dl_tensor *saved) {
    dl_tensor *g = saved ? dl_tmp(b, dl_to_dtype(b->g[0], saved->dtype)) : NULL;
    return g ? fused(b, 0, 3, (dl_tensor *[]){NULL, g, saved}, saved) : dl_failed();
}
static dl_status grad_of_x(dl_back *b) { return grad_from(b, IN_(UNARY_INPUT)); }
static dl_status grad_of_y(dl_back *b) { return grad_from(b, OUT_(UNARY_OUT)); }

/* Of several operands; one that the row does not save is not read. */
static dl_status grads_of_all(dl_back *b) {
    dl_tensor *g = b->g[0], *op[5] = {NULL, g, g, g, g};
    if (b->op->id == dl_id_addcmul && dl_addcmul_is_outer(b)) return b->op->grad(b);
    for (int k = 0; k < b->nin; k++)
        if (b->op->save_in >> k & 1 && !(op[2 + k] = dl_tmp(b, dl_to_dtype(dl_saved_in(b, k), g->dtype))))
            return dl_failed();
    for (int k = 0; k < b->nin; k++) {
        if (!(b->need >> k & 1)) continue;
        const bool same = !DL_SIMD_PICK(dl_pointwise)[DL_F32]->grad[k][dl_formula_of(b->op)];
        DL_TRY(same ? dl_give(b, k, dl_ref(g)) : fused(b, k, 2 + b->nin, op, g));
    }
    return DL_OK;
}

/* ---- kernels: first the dtypes of each op, by the formulas that it has, and what its gradient in one pass is made
 * from */

enum from { FROM_X = 1, FROM_Y = 2, FROM_ALL = 4, OF_REAL = 8, OF_COMPLEX = 16 };
#define FUNCTION_OF(name, numbers, ...) enum { dtypes_of_##name = 0 __VA_ARGS__ };
#define FUNCTION2_OF FUNCTION_OF
#define FUNCTION3_OF FUNCTION_OF
#define TEST(name, ...) enum { dtypes_of_##name = 0 __VA_ARGS__ };
#define TEST2 TEST
#define FLOAT(...) | DL_FLOATS
#define INT(...) | DL_INTS
#define BOOL(...) | DL_BIT(DL_BOOL)
#define COMPLEX(...) | DL_COMPLEX
#include "ops/pointwise.def"
#define FUNCTION_OF(name, numbers, ...) enum { grad_of_##name = 0 __VA_ARGS__ };
#define FUNCTION2_OF FUNCTION_OF
#define FUNCTION3_OF FUNCTION_OF
#define GRAD_X(...) | FROM_X | OF_REAL
#define GRAD_Y(...) | FROM_Y | OF_REAL
#define GRAD_B(...) | FROM_ALL | OF_REAL
#define GRAD_COMPLEX_X(...) | FROM_X | OF_COMPLEX
#define GRAD_COMPLEX_Y(...) | FROM_Y | OF_COMPLEX
#include "ops/pointwise.def"

#define FUSED(from) (from & FROM_ALL ? grads_of_all : from & FROM_Y ? grad_of_y : from & FROM_X ? grad_of_x : NULL)
#define FUSED_FLAGS(from) (from & OF_COMPLEX ? from & OF_REAL ? DL_K_GRAD_BOTH : DL_K_GRAD_COMPLEX : 0)
#define ROW(name, operands, test, numbers, from)                                                                       \
    static dl_status run_##name(dl_call *c) {                                                                          \
        return run_pointwise(c, DL_FORMULA_##name, operands, test, DL_COUNT(numbers));                                 \
    }                                                                                                                  \
    const dl_kernel dl_cpu_##name = {                                                                                  \
        .run = run_##name, .fused_grad = FUSED(from), .dtypes = dtypes_of_##name, .flags = FUSED_FLAGS(from)};
#define FUNCTION_OF(name, numbers, ...) ROW(name, 1, false, numbers, grad_of_##name)
#define FUNCTION2_OF(name, numbers, ...) ROW(name, 2, false, numbers, grad_of_##name)
#define FUNCTION3_OF(name, numbers, ...) ROW(name, 3, false, numbers, grad_of_##name)
#define TEST(name, ...) ROW(name, 1, true, (), 0)
#define TEST2(name, ...) ROW(name, 2, true, (), 0)
#include "ops/pointwise.def"
