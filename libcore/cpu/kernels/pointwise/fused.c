/* Kernels of fused ops: batch_norm_relu, conv2d_norm, relu_max_pool2d, conv2d_relu_max_pool2d, glu, frexp.
 * They run the kernels, or the loops, of the ops that they are made of one after another, in place. */
#include "cpu/kernels/pointwise/pointwise.h"
#include "core/aside.h"
#include "core/scope.h"
#include "cpu/runtime/control.h"
#include "ops/conv.h"
#include "dlcore/compare.h"
#include "dlcore/where.h"
#include "ops/rules/arithmetic.h"
#include "ops/rules/conv.h"
#include "ops/rules/norm.h"
#include "ops/rules/unary.h"

#include <string.h>

static dl_status rectify(const dl_call *c) {
    dl_call r = *c;
    r.op = dl_op_row(dl_id_relu);
    r.in = r.out = (dl_tensor *[]){c->out[0]};
    r.nin = r.nout = 1;
    return dl_cpu_relu.run(&r);
}

static dl_status batch_norm_relu_run(dl_call *c) {
    DL_TRY(dl_cpu_batch_norm.run(c));
    return rectify(c);
}

/* The gradient where the result is positive, or NaN, through batch_norm's. */
static dl_status batch_norm_relu_fused(dl_back *b) {
    dl_tensor *given = G0, *zero = T(dl_scalar_f(0));
    b->g[0] = T(dl_where(T(dl_le(OUT_(BATCH_NORM_RELU_OUT), zero)), zero, given));
    dl_status s = b->g[0] ? dl_cpu_batch_norm.fused_grad(b) : dl_failed();
    b->g[0] = given;
    return s;
}

const dl_kernel dl_cpu_batch_norm_relu = {
    .run = batch_norm_relu_run, .fused_grad = batch_norm_relu_fused, .dtypes = DL_FLOATS};

/* batch_norm of the result by the given statistics, in place; weight and bias may be NULL. */
static dl_status normalise(const dl_call *c, dl_tensor *mean, dl_tensor *var, dl_tensor *weight, dl_tensor *bias,
                           dl_aval eps) {
    dl_tensor *in[] = {[DL_IN_BATCH_NORM_INPUT] = c->out[0],
                       [DL_IN_BATCH_NORM_RUNNING_MEAN] = mean,
                       [DL_IN_BATCH_NORM_RUNNING_VAR] = var,
                       [DL_IN_BATCH_NORM_WEIGHT] = weight,
                       [DL_IN_BATCH_NORM_BIAS] = bias};
    dl_dtype t = DL_BIT(c->dtype) & DL_HALVES ? DL_F32 : c->dtype;
    long channels = c->out[0]->shape[1];
    dl_tensor *out[3] = {c->out[0], dl_tensor_empty(1, &channels, t, 0), dl_tensor_empty(1, &channels, t, 0)};
    const dl_aval attr[] = {[DL_A_BATCH_NORM_TRAINING] = {.given = true},
                            [DL_A_BATCH_NORM_MOMENTUM] = {.given = true},
                            [DL_A_BATCH_NORM_EPS] = eps};
    dl_call n = {.op = dl_op_row(dl_id_batch_norm), .in = in, .out = out, .nin = 5, .nout = 3, .attr = attr};
    n.dtype = c->dtype;
    dl_status s = out[1] && out[2] ? dl_cpu_batch_norm.run(&n) : dl_failed();
    dl_unref(out[1]);
    dl_unref(out[2]);
    return s;
}

static dl_status conv2d_norm_run(dl_call *c) {
    dl_call inner;
    if (!c->out[0]->numel) return DL_OK;
    dl_conv_norm_inner(c, &inner);
    dl_tensor *given = INPUT(c, CONV2D_NORM_BIAS), *bias = given ? dl_to_dtype(given, c->dtype) : NULL;
    if (given && !bias) return dl_failed();
    inner.in = (dl_tensor *[]){c->in[0], c->in[1], bias}, inner.nin = 3;
    dl_status s = dl_cpu_conv2d.run(&inner);
    dl_unref(bias);
    if (s == DL_OK)
        s = normalise(c, INPUT(c, CONV2D_NORM_RUNNING_MEAN), INPUT(c, CONV2D_NORM_RUNNING_VAR),
                      INPUT(c, CONV2D_NORM_NORM_WEIGHT), INPUT(c, CONV2D_NORM_NORM_BIAS), *ATTR(c, CONV2D_NORM_EPS));
    return s == DL_OK && ATTR_I(c, CONV2D_NORM_RELU) ? rectify(c) : s;
}

const dl_kernel dl_cpu_conv2d_norm = {.run = conv2d_norm_run, .dtypes = DL_FLOATS};

/* x + bias by channel, of the dtype of x. */
static dl_status add_bias(dl_tensor *x, const dl_tensor *bias, dl_tensor *out) {
    long shape[4] = {1, bias->shape[0], 1, 1}, stride[4] = {0, bias->stride[0], 0, 0};
    DL_OWNED dl_tensor *b = dl_view_new(bias->st, bias->dtype, 4, shape, stride, bias->offset);
    if (!b) return dl_failed();
    dl_call add = {.op = dl_op_row(dl_id_add), .nin = 2, .nout = 1, .dtype = x->dtype};
    add.in = (dl_tensor *[]){x, b}, add.out = &out;
    return dl_cpu_add.run(&add);
}

/* The sum of the squares, for who wants it. */
static dl_status give_squares(dl_tensor *y) {
    dl_tensor **sums = dl_squares_wanted();
    double norm;
    const long one = 1;
    if (!sums) return DL_OK;
    DL_TRY(dl_cpu_measure(y, DL_BREAK_NORM, &norm));
    if (!(*sums = dl_tensor_empty(1, &one, DL_F64, 0))) return dl_failed();
    *(double *)dl_ptr(*sums) = norm * norm;
    return DL_OK;
}

static dl_status relu_max_pool2d_run(dl_call *c) {
    dl_tensor *x = c->in[0], *bias = INPUT(c, RELU_MAX_POOL2D_BIAS);
    if (!x->numel || !c->out[0]->numel) return DL_OK;
    dl_tensor *y = dl_tensor_empty(4, x->shape, x->dtype, 0);
    dl_tensor *index = dl_tensor_empty(4, c->out[1]->shape, DL_I64, 0);
    dl_status s = y && index ? DL_OK : dl_failed();
    if (s == DL_OK && bias)
        s = add_bias(x, bias, y);
    else if (s == DL_OK)
        dl_cpu_copy(y, x);
    dl_call r = {.op = dl_op_row(dl_id_relu), .in = &y, .out = &y, .nin = 1, .nout = 1, .dtype = c->dtype};
    if (s == DL_OK) s = dl_cpu_relu.run(&r);
    if (s == DL_OK) s = give_squares(y);
    dl_call pool = *c;
    pool.op = dl_op_row(dl_id_max_pool2d), pool.in = &y, pool.nin = 1, pool.out = (dl_tensor *[]){c->out[0], index};
    if (s == DL_OK) s = dl_cpu_max_pool2d.run(&pool);
    if (s == DL_OK) dl_cpu_copy(c->out[1], index);
    dl_unref(y);
    dl_unref(index);
    return s;
}

const dl_kernel dl_cpu_relu_max_pool2d = {.run = relu_max_pool2d_run, .dtypes = DL_FLOATS};

static dl_status conv2d_relu_max_pool2d_run(dl_call *c) {
    dl_conv_pool p;
    dl_status s = dl_conv_pool_begin(c, &p);
    if (s == DL_OK && p.y->numel) s = dl_cpu_conv2d.run(&p.conv);
    if (s == DL_OK) s = relu_max_pool2d_run(&p.pool);
    dl_conv_pool_end(&p);
    return s;
}

const dl_kernel dl_cpu_conv2d_relu_max_pool2d = {.run = conv2d_relu_max_pool2d_run, .dtypes = DL_FLOATS};

/* ---- glu: gated, of the halves of a dimension */

static dl_tensor *half_of(const dl_tensor *t, int d, long which) {
    long shape[DL_MAX_DIM];
    memcpy(shape, t->shape, sizeof shape);
    shape[d] /= 2;
    return dl_view_new(t->st, (dl_dtype)t->dtype, t->ndim, shape, t->stride,
                       t->offset + which * shape[d] * t->stride[d]);
}

static void run_loop(int n, dl_tensor *const *op, dl_loop loop) {
    dl_pointwise_arg arg = {.faults = 0};
    dl_iter it;
    dl_iter_init(&it, n, op);
    dl_iter_run_f32(&it, 1, loop, &arg);
}

static dl_status glu_run(dl_call *c) {
    int d;
    DL_TRY(dl_dim_norm(ATTR_I(c, GLU_DIM), c->in[0]->ndim, &d));
    DL_OWNED dl_tensor *a = half_of(c->in[0], d, 0), *gate = half_of(c->in[0], d, 1);
    if (!a || !gate) return dl_failed();
    run_loop(3, (dl_tensor *[]){c->out[0], a, gate}, DL_LOOP_OF(gated, c->dtype));
    return DL_OK;
}

static dl_status glu_back(dl_back *b) {
    dl_tensor *x = dl_saved_in(b, 0);
    int d;
    if (!x) return dl_failed();
    DL_TRY(dl_dim_norm(ATTR_I(b, GLU_DIM), x->ndim, &d));
    dl_tensor *g = dl_tmp(b, dl_to_dtype(b->g[0], (dl_dtype)x->dtype)), *a = T(half_of(x, d, 0)),
              *gate = T(half_of(x, d, 1));
    DL_OWNED dl_tensor *dx = dl_tensor_empty(x->ndim, x->shape, (dl_dtype)x->dtype, 0);
    for (int k = 0; k < 2; k++) {
        dl_tensor *part = dx ? T(half_of(dx, d, k)) : NULL;
        if (!g || !a || !gate || !part) return dl_failed();
        run_loop(4, (dl_tensor *[]){part, g, a, gate}, DL_SIMD_PICK(dl_pointwise)[x->dtype]->grad[k][DL_FORMULA_gated]);
    }
    return dl_give(b, 0, dl_ref(dx));
}
const dl_kernel dl_cpu_glu = {.run = glu_run, .fused_grad = glu_back, .dtypes = DL_FLOATS};

/* ---- frexp: mantissa and exponent, which becomes a whole number */

static dl_status frexp_run(dl_call *c) {
    dl_tensor *x = c->in[0];
    DL_OWNED dl_tensor *exponent = dl_tensor_empty(x->ndim, x->shape, c->dtype, 0);
    if (!exponent) return dl_failed();
    dl_call m = {.op = dl_op_row(dl_id_mantissa), .in = &x, .out = c->out, .nin = 1, .nout = 1, .dtype = c->dtype};
    dl_call e = {.op = dl_op_row(dl_id_exponent), .in = &x, .out = &exponent, .nin = 1, .nout = 1, .dtype = c->dtype};
    DL_TRY(dl_cpu_mantissa.run(&m));
    DL_TRY(dl_cpu_exponent.run(&e));
    dl_cpu_copy(c->out[1], exponent);
    return DL_OK;
}
const dl_kernel dl_cpu_frexp = {.run = frexp_run, .dtypes = DL_FLOATS};
