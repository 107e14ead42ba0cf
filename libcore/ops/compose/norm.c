/* Normalisation of rows: shape and gradients of layer_norm and rms_norm, and group_norm, which is made of layer_norm.
 */
#include "ops/compose/norm.h"
#include "core/device/device.h"
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/conv.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/norm.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "ops/rules/norm.h"

/* The dimensions normalised are the last ones, with the sizes of normalized_shape. */
static dl_status check_sizes(const dl_tensor *x, const dl_aval *sizes) {
    bool ok = sizes->n >= 1 && sizes->n <= x->ndim;
    for (int i = 0; ok && i < sizes->n; i++) ok = x->shape[x->ndim - sizes->n + i] == sizes->u.v[i];
    if (ok) return DL_OK;
    return dl_fail_hint(DL_ERR_SHAPE, "normalized_shape names the last sizes of the input",
                        "an input of shape %s does not end in %s", dl_shape_of(x), dl_shape_text(sizes->n, sizes->u.v));
}

static dl_status check_parameter(const dl_call *c, int i) {
    const dl_tensor *t = c->in[i];
    const dl_aval *sizes = ATTR(c, LAYERNORM_NORMALIZED_SHAPE);
    bool ok = !t || t->ndim == sizes->n;
    for (int d = 0; t && ok && d < t->ndim; d++) ok = t->shape[d] == sizes->u.v[d];
    if (ok) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "%s must have the shape %s that is normalised", c->op->in_name[i],
                   dl_shape_text(sizes->n, sizes->u.v));
}

/* mean and rstd, of rms_norm rstd alone, have a number a row; in f32 for 16-bit inputs. */
INFER_RULE(layer_norm) {
    const dl_tensor *x = c->in[0];
    bool half = DL_BIT(x->dtype) & DL_HALVES;
    DL_TRY(check_sizes(x, ATTR(c, LAYERNORM_NORMALIZED_SHAPE)));
    for (int i = DL_IN_LAYERNORM_WEIGHT; i < c->nin; i++) DL_TRY(check_parameter(c, i));
    out[0] = dl_meta_like(x, x->ndim, x->shape);
    for (int i = 1; i < c->op->out; i++) {
        out[i] = dl_meta_like(x, x->ndim - ATTR(c, LAYERNORM_NORMALIZED_SHAPE)->n, x->shape);
        if (half) out[i].dtype = DL_F32;
    }
    return DL_OK;
}

/* The dimensions of a row, and how many they are. */
static int row_dims(const dl_back *b, const dl_tensor *x, long *dims) {
    int n = ATTR(b, LAYERNORM_NORMALIZED_SHAPE)->n;
    for (int i = 0; i < n; i++) dims[i] = x->ndim - n + i;
    return n;
}

static bool has_weight(const dl_back *b) { return b->nin > DL_IN_LAYERNORM_WEIGHT && META(LAYERNORM_WEIGHT)->ndim; }

/* The sum of rows, the first `outer` dimensions of t; a new reference. */
static dl_tensor *over_rows(dl_tensor *t, int outer) {
    long dims[DL_MAX_DIM];
    for (int i = 0; i < outer; i++) dims[i] = i;
    return outer ? dl_sum(t, dims, outer, 0) : dl_ref(t);
}

/* Ba, Kiros, Hinton: Layer normalization (2016). xhat and rstd are computed again, so that second derivatives include
 * their dependence on x: dx = rstd * (gw - mean(gw) - xhat * mean(gw * xhat)), gw = g * weight; weight: sum(g * xhat)
 * over rows; bias: sum(g). */
GRAD_RULE(layer_norm) {
    dl_tensor *x = IN_(LAYERNORM_INPUT), *g = G0;
    if (!x) return dl_fail_null("the input");
    long dims[DL_MAX_DIM];
    int n = row_dims(b, x, dims);
    dl_tensor *centred = T(dl_sub(x, T(dl_mean(x, dims, n, 1))));
    dl_tensor *var = T(dl_mean(T(dl_square(centred)), dims, n, 1));
    dl_tensor *rstd = T(dl_rsqrt(T(dl_add(var, T(dl_scalar_f(ATTR_F(b, LAYER_NORM_EPS))))))),
              *xhat = T(dl_mul(centred, rstd));
    if (NEED(LAYERNORM_INPUT)) {
        dl_tensor *gw = has_weight(b) ? T(dl_mul(g, IN_(LAYERNORM_WEIGHT))) : g, *m = T(dl_mean(gw, dims, n, 1));
        dl_tensor *mx = T(dl_mean(T(dl_mul(gw, xhat)), dims, n, 1));
        gw = T(dl_sub(T(dl_sub(gw, m)), T(dl_mul(xhat, mx))));
        DL_TRY(dl_give(b, DL_IN_LAYERNORM_INPUT, dl_mul(gw, rstd)));
    }
    GIVE(LAYER_NORM_WEIGHT, over_rows(T(dl_mul(g, xhat)), x->ndim - n));
    GIVE(LAYER_NORM_BIAS, over_rows(g, x->ndim - n));
    return DL_OK;
}

/* Zhang, Sennrich: Root mean square layer normalization (2019). As above without a mean: dx = rstd * (gw - xhat *
 * mean(gw * xhat)). */
GRAD_RULE(rms_norm) {
    dl_tensor *x = IN_(LAYERNORM_INPUT), *g = G0;
    if (!x) return dl_fail_null("the input");
    long dims[DL_MAX_DIM];
    int n = row_dims(b, x, dims);
    dl_tensor *eps = T(dl_scalar_f(dl_rms_eps(ATTR(b, RMS_NORM_EPS), x->dtype)));
    dl_tensor *rstd = T(dl_rsqrt(T(dl_add(T(dl_mean(T(dl_square(x)), dims, n, 1)), eps)))), *xhat = T(dl_mul(x, rstd));
    if (NEED(LAYERNORM_INPUT)) {
        dl_tensor *gw = has_weight(b) ? T(dl_mul(g, IN_(LAYERNORM_WEIGHT))) : g;
        dl_tensor *mx = T(dl_mean(T(dl_mul(gw, xhat)), dims, n, 1));
        DL_TRY(dl_give(b, DL_IN_LAYERNORM_INPUT, dl_mul(T(dl_sub(gw, T(dl_mul(xhat, mx)))), rstd)));
    }
    GIVE(RMS_NORM_WEIGHT, over_rows(T(dl_mul(g, xhat)), x->ndim - n));
    return DL_OK;
}

/* y scaled and shifted by channel, in one pass: batch_norm with a mean of 0 and a variance of 1. */
static dl_tensor *affine(dl_tensor *y, dl_tensor *weight, dl_tensor *bias) {
    const long n = y->shape[1];
    int dtype = y->dtype == DL_F64 ? DL_F64 : DL_F32;
    DL_OWNED dl_tensor *zero = dl_full(&n, 1, 0, dtype, y->st->device);
    DL_OWNED dl_tensor *one = dl_full(&n, 1, 1, dtype, y->st->device);
    return zero && one ? dl_batch_norm(y, zero, one, weight, bias, 0, 0.1, 0) : NULL;
}

static dl_status check_groups(const dl_call *c, long groups) {
    const dl_tensor *x = c->in[0];
    if (x->ndim < 2)
        return dl_fail(DL_ERR_SHAPE, "the input must be [N,C] or [N,C,...], not of %d dimensions", x->ndim);
    if (groups < 1 || x->shape[1] % groups)
        return dl_fail(DL_ERR_VALUE, "%ld channels cannot be divided into %ld groups", x->shape[1], groups);
    for (int i = 1; i < c->nin; i++)
        if (c->in[i] && (c->in[i]->ndim != 1 || c->in[i]->shape[0] != x->shape[1]))
            return dl_fail(DL_ERR_SHAPE, "%s must have shape [%ld], one number a channel", c->op->in_name[i],
                           x->shape[1]);
    return DL_OK;
}

/* mean and rstd have a number a group; in f32 for 16-bit inputs. */
INFER_RULE(norm_groups) {
    const dl_tensor *x = c->in[0];
    long groups = ATTR_I(c, NORM_GROUPS_NUM_GROUPS);
    DL_TRY(check_groups(c, groups));
    out[0] = dl_meta_like(x, x->ndim, x->shape);
    out[1] = out[2] = dl_meta_like(x, 2, (long[]){x->shape[0], groups});
    if (DL_BIT(x->dtype) & DL_HALVES) out[1].dtype = out[2].dtype = DL_F32;
    return DL_OK;
}

/* As that of layer_norm, the rows being groups, of which weight and bias have a number a channel. */
GRAD_RULE(norm_groups) {
    dl_tensor *x = IN_(NORM_GROUPS_INPUT), *g = G0;
    if (!x) return dl_fail_null("the input");
    long groups = ATTR_I(b, NORM_GROUPS_NUM_GROUPS), row = x->numel ? x->numel / (x->shape[0] * groups) : 0;
    long shape[3] = {x->shape[0], groups, row};
    long across[DL_MAX_DIM] = {1, x->shape[1]}, dims[DL_MAX_DIM] = {0}, last = 2;
    for (int i = 2; i < x->ndim; i++) across[i] = 1, dims[i - 1] = i;
    dl_tensor *rows = T(dl_reshape(x, shape, 3)), *centred = T(dl_sub(rows, T(dl_mean(rows, &last, 1, 1))));
    dl_tensor *var = T(dl_mean(T(dl_square(centred)), &last, 1, 1));
    dl_tensor *rstd = T(dl_rsqrt(T(dl_add(var, T(dl_scalar_f(ATTR_F(b, NORM_GROUPS_EPS))))))),
              *xhat = T(dl_mul(centred, rstd));
    if (NEED(NORM_GROUPS_INPUT)) {
        bool weight = b->nin > DL_IN_NORM_GROUPS_WEIGHT && META(NORM_GROUPS_WEIGHT)->ndim;
        dl_tensor *gw = weight ? T(dl_mul(g, T(dl_reshape(IN_(NORM_GROUPS_WEIGHT), across, x->ndim)))) : g;
        gw = T(gw ? dl_reshape(gw, shape, 3) : NULL);
        dl_tensor *m = T(dl_mean(gw, &last, 1, 1)), *mx = T(dl_mean(T(dl_mul(gw, xhat)), &last, 1, 1));
        gw = T(dl_mul(T(dl_sub(T(dl_sub(gw, m)), T(dl_mul(xhat, mx)))), rstd));
        DL_TRY(dl_give(b, DL_IN_NORM_GROUPS_INPUT, gw ? dl_reshape(gw, x->shape, x->ndim) : NULL));
    }
    if (NEED(NORM_GROUPS_WEIGHT)) {
        dl_tensor *full = T(xhat ? dl_reshape(xhat, x->shape, x->ndim) : NULL);
        DL_TRY(dl_give(b, DL_IN_NORM_GROUPS_WEIGHT, dl_sum(T(dl_mul(g, full)), dims, x->ndim - 1, 0)));
    }
    GIVE(NORM_GROUPS_BIAS, dl_sum(g, dims, x->ndim - 1, 0));
    return DL_OK;
}

/* The channels of a group are a row; where the device has a kernel for that, it is one pass. */
COMPOSE_RULE(group_norm) {
    dl_tensor *x = c->in[0], *weight = INPUT(c, GROUP_NORM_WEIGHT), *bias = INPUT(c, GROUP_NORM_BIAS);
    long groups = ATTR_I(c, GROUP_NORM_NUM_GROUPS);
    DL_TRY(check_groups(c, groups));
    if (dl_device_supports(dl_op_row(dl_id_norm_groups), &x, 1, NULL))
        return dl_finish(c, dl_norm_groups(x, weight, bias, groups, ATTR_F(c, GROUP_NORM_EPS)));
    long row = x->shape[1] / groups;
    for (int i = 2; i < x->ndim; i++) row *= x->shape[i];
    POOL;
    dl_tensor *rows = K(dl_reshape(x, (long[]){x->shape[0], groups, row}, 3));
    dl_tensor *normal = rows ? K(dl_layer_norm(rows, NULL, NULL, &row, 1, ATTR_F(c, GROUP_NORM_EPS))) : NULL;
    dl_tensor *y = normal ? K(dl_reshape(normal, x->shape, x->ndim)) : NULL;
    return dl_finish(c, y && (weight || bias) ? affine(y, weight, bias) : dl_ref(y));
}

/* ---- channels of each example */

/* Moves a running statistic towards numbers [C], by a batch whose mean (spread 0) or variance they are: batch
 * normalisation alone knows whether the step has halted, and then leaves it. */
static dl_status move_statistic(dl_tensor *statistic, dl_tensor *numbers, bool variance, double momentum) {
    POOL;
    dl_tensor *row = K(dl_reshape(K(dl_to_dtype(numbers, statistic->dtype)), (long[]){1, numbers->numel}, 2));
    dl_tensor *other = K(dl_zeros(statistic->shape, 1, statistic->dtype, statistic->st->device));
    if (row && variance) row = K(dl_sqrt(K(dl_mul(row, N(0.5))))); /* of -a and a: 2 a^2 */
    dl_tensor *rows[2] = {row, variance && row ? K(dl_neg(row)) : row};
    dl_tensor *batch = row && rows[1] ? K(dl_cat(rows, 2, 0)) : NULL;
    if (!batch || !other) return dl_failed();
    dl_tensor *y = variance ? K(dl_batch_norm(batch, other, statistic, NULL, NULL, 1, momentum, 1e-5))
                            : K(dl_batch_norm(batch, statistic, other, NULL, NULL, 1, momentum, 1e-5));
    return y ? DL_OK : dl_failed();
}

/* Running statistics move towards the mean over the examples of mean and variance of a channel. */
static dl_status follow(dl_call *c, dl_tensor *mean, dl_tensor *var) {
    POOL;
    DL_SCOPED_GRAD_MODE(0);
    dl_tensor *x = c->in[0], *to[2] = {mean, var};
    long dims[DL_MAX_DIM], first = 0;
    for (int i = 2; i < x->ndim; i++) dims[i - 2] = i;
    dl_tensor *now[2] = {K(dl_mean(x, dims, x->ndim - 2, 0)), K(dl_var(x, dims, x->ndim - 2, 1, 0))};
    for (int i = 0; i < 2; i++) {
        dl_tensor *all = now[i] ? K(dl_mean(now[i], &first, 1, 0)) : NULL;
        if (!all) return dl_failed();
        DL_TRY(move_statistic(to[i], all, i == 1, ATTR_F(c, INSTANCE_NORM_MOMENTUM)));
    }
    return DL_OK;
}

COMPOSE_RULE(instance_norm) {
    dl_tensor *x = c->in[0], *mean = INPUT(c, INSTANCE_NORM_RUNNING_MEAN), *var = INPUT(c, INSTANCE_NORM_RUNNING_VAR),
              *weight = INPUT(c, INSTANCE_NORM_WEIGHT), *bias = INPUT(c, INSTANCE_NORM_BIAS);
    const double eps = ATTR_F(c, INSTANCE_NORM_EPS);
    if (x->ndim < 3) return dl_fail(DL_ERR_SHAPE, "the input must be [N,C,...], not of %d dimensions", x->ndim);
    if (!mean != !var) return dl_fail(DL_ERR_VALUE, "give running_mean and running_var, or neither");
    DL_TRY(check_groups(c, x->shape[1] ? x->shape[1] : 1));
    if (!ATTR_I(c, INSTANCE_NORM_USE_INPUT_STATS)) {
        if (!mean)
            return dl_fail(DL_ERR_VALUE, "without statistics of the input it needs running_mean and running_var");
        return dl_finish(c, dl_batch_norm(x, mean, var, weight, bias, 0, 0.1, eps));
    }
    if (x->numel && x->numel / (x->shape[0] * x->shape[1]) < 2)
        return dl_fail(DL_ERR_SHAPE, "a channel of one element has no variance");
    DL_OWNED dl_tensor *y = dl_group_norm(x, weight, bias, x->shape[1], eps);
    if (!y) return dl_failed();
    if (mean) DL_TRY(follow(c, mean, var));
    return dl_finish(c, dl_ref(y));
}

/* Krizhevsky and others: ImageNet classification with deep convolutional neural networks (2012). The means are an
 * average pooling along the channels. */
POOLED_RULE(local_response_norm) {
    dl_tensor *x = c->in[0];
    const long n = ATTR_I(c, LOCAL_RESPONSE_NORM_SIZE), *s = x->shape;
    if (x->ndim < 3) return dl_fail(DL_ERR_SHAPE, "the input must be [N,C,...], not of %d dimensions", x->ndim);
    if (n < 1) return dl_fail(DL_ERR_VALUE, "size must be at least 1, not %ld", n);
    if (!x->numel) return dl_finish(c, dl_clone(x));
    const long shape[] = {s[0], 1, s[1], x->numel / (s[0] * s[1])}, one[] = {1, 1}, window[] = {n, 1};
    dl_tensor *square = K(dl_reshape(K(dl_square(x)), shape, 4));
    dl_tensor *room = square ? K(dl_pad(square, (long[]){0, 0, n / 2, (n - 1) / 2}, 4, 0, "constant")) : NULL;
    dl_tensor *mean = room ? K(dl_avg_pool2d(room, window, 2, one, 2, NULL, 0, 0, 1)) : NULL;
    dl_tensor *full = mean ? K(dl_reshape(mean, s, x->ndim)) : NULL;
    dl_tensor *scaled = K(dl_mul(full, N(ATTR_F(c, LOCAL_RESPONSE_NORM_ALPHA))));
    dl_tensor *base = K(dl_add(scaled, N(ATTR_F(c, LOCAL_RESPONSE_NORM_K))));
    return dl_finish(c, dl_div(x, K(dl_pow(base, N(ATTR_F(c, LOCAL_RESPONSE_NORM_BETA))))));
}
