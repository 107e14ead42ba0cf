/* Kernels of rows with one operand, and the fused gradients of activations. */
#include "cpu/pointwise.h"
#include "ops/rules.h"

#include <math.h>
#include <string.h>

static dl_status run_unary(dl_call *c, int id, void *arg) {
    dl_tensor *op[2] = {c->out[0], c->in[0]};
    dl_iter it;
    dl_iter_init(&it, 2, op);
    dl_iter_run_f32(&it, 1, DL_SIMD_PICK(dl_unary_loop)[id][c->dtype], arg);
    return DL_OK;
}

#define KERNEL(name, set)                                                                                              \
    static dl_status run_##name(dl_call *c) { return run_unary(c, DL_U_##name, NULL); }                                \
    const dl_kernel dl_cpu_##name = {.run = run_##name, .dtypes = set};

KERNEL(neg, DL_NUMBERS)
KERNEL(abs, DL_NUMBERS)
KERNEL(sign, DL_ANY)
KERNEL(square, DL_NUMBERS)
KERNEL(floor, DL_NUMBERS)
KERNEL(ceil, DL_NUMBERS)
KERNEL(round, DL_NUMBERS)
KERNEL(logical_not, DL_ANY)
KERNEL(bitwise_not, DL_INTS | DL_BIT(DL_BOOL))
KERNEL(isnan, DL_ANY)
KERNEL(isinf, DL_ANY)
KERNEL(isfinite, DL_ANY)
#define FUNCTION(name, in_f32, in_f64) KERNEL(name, DL_FLOATS)
#define LOOPS(name, in_f32, in_f64)
#include "cpu/functions.def"
#undef LOOPS
#undef FUNCTION

/* The limits in both forms; an absent one lies beyond all values. */
static dl_status run_clamp(dl_call *c) {
    const dl_aval *lo = ATTR(c, CLAMP_MIN), *hi = ATTR(c, CLAMP_MAX);
    dl_limits lim = {-INFINITY, INFINITY, -__LONG_MAX__ - 1, __LONG_MAX__};
    if (lo->given) lim.lo = lo->is_int ? (double)lo->u.i : lo->u.f;
    if (hi->given) lim.hi = hi->is_int ? (double)hi->u.i : hi->u.f;
    if (lo->given && lo->is_int) lim.ilo = lo->u.i;
    if (hi->given && hi->is_int) lim.ihi = hi->u.i;
    if (c->out[0]->dtype == c->in[0]->dtype) return run_unary(c, DL_U_clamp, &lim);
    dl_cpu_copy(c->out[0], c->in[0]); /* integers with a limit that is none become f32 first */
    dl_call f = *c;
    f.in = c->out;
    f.dtype = (dl_dtype)c->out[0]->dtype;
    return run_unary(&f, DL_U_clamp, &lim);
}
const dl_kernel dl_cpu_clamp = {.run = run_clamp, .dtypes = DL_NUMBERS};

/* ---- activations: gradient of the input from the incoming one and a saved tensor, in one pass */

static dl_tensor *laid_out_like(dl_tensor *x) {
    dl_tensor *d = dl_tensor_empty(x->ndim, x->shape, (dl_dtype)x->dtype, 0);
    if (!d || dl_is_contiguous(x)) return d;
    dl_meta m = {0};
    dl_call c = {.in = &x, .nin = 1, .nout = 1, .dtype = (dl_dtype)x->dtype};
    if (dl_infer_same(&c, &m) == DL_OK && m.strided) memcpy(d->stride, m.stride, sizeof d->stride);
    return d;
}

static dl_status fused(dl_back *b, dl_tensor *saved, int id, void *arg) {
    dl_tensor *g = saved ? dl_tmp(b, dl_to_dtype(b->g[0], (dl_dtype)saved->dtype)) : NULL;
    dl_tensor *d = g ? laid_out_like(saved) : NULL;
    if (!d) return dl_failed();
    dl_tensor *op[3] = {d, g, saved};
    dl_iter it;
    dl_iter_init(&it, 3, op);
    dl_iter_run_f32(&it, 1, DL_SIMD_PICK(dl_binary_loop)[id][saved->dtype], arg);
    return dl_give(b, 0, d);
}

#define ACTIVATION(name, set, saved)                                                                                   \
    static dl_status run_##name(dl_call *c) { return run_unary(c, DL_U_##name, NULL); }                                \
    static dl_status grad_##name(dl_back *b) { return fused(b, saved, DL_B_##name##_grad, NULL); }                     \
    const dl_kernel dl_cpu_##name = {.run = run_##name, .fused_grad = grad_##name, .dtypes = set};

ACTIVATION(relu, DL_NUMBERS, OUT_(UNARY_OUT))
ACTIVATION(tanh, DL_FLOATS, OUT_(UNARY_OUT))
ACTIVATION(sigmoid, DL_FLOATS, OUT_(UNARY_OUT))
ACTIVATION(gelu, DL_FLOATS, IN_(UNARY_INPUT))
ACTIVATION(silu, DL_FLOATS, IN_(UNARY_INPUT))
ACTIVATION(softplus, DL_FLOATS, IN_(UNARY_INPUT))

/* With a number, an attribute. */
#define ACTIVATION_OF(name, number, set)                                                                               \
    static dl_status run_##name(dl_call *c) { return run_unary(c, DL_U_##name, &(double){ATTR_F(c, number)}); }        \
    static dl_status grad_##name(dl_back *b) {                                                                         \
        return fused(b, IN_(UNARY_INPUT), DL_B_##name##_grad, &(double){ATTR_F(b, number)});                           \
    }                                                                                                                  \
    const dl_kernel dl_cpu_##name = {.run = run_##name, .fused_grad = grad_##name, .dtypes = set};

ACTIVATION_OF(leaky_relu, LEAKY_RELU_NEGATIVE_SLOPE, DL_NUMBERS)
ACTIVATION_OF(elu, ELU_ALPHA, DL_FLOATS)
