/* Batch rules of layers: images join the samples with their own first dimension; where each sample has weights of its
 * own, samples are groups of channels. */
#include "ops/batch/batch.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/conv.h"
#include "ops/rules/loss.h"
#include "ops/rules/norm.h"
#include "ops/rules/recurrent.h"

#include <string.h>

static dl_status fold(dl_batched *b, int i) {
    if (!dl_samples_given(b, i)) return DL_OK;
    DL_TRY(dl_samples_spread(b, i));
    return dl_samples_fold(b, i);
}

/* The bias of relu_max_pool2d, one for each sample, is added before. */
static dl_status add_bias(dl_batched *b) {
    const int bias = DL_IN_RELU_MAX_POOL2D_BIAS;
    DL_TRY(dl_samples_spread(b, 0));
    DL_TRY(dl_samples_reshape(b, bias, (long[]){b->size, 1, b->one[bias]->numel, 1, 1}, 5));
    DL_TRY(dl_samples_put(b, 0, dl_add(b->in[0], b->in[bias])));
    DL_TRY(dl_samples_fold(b, 0));
    return dl_invoke(b->op, b->in, 1, b->attr, b->out);
}

/* Images, and what has their first dimension; parameters of one dimension are the same for all samples. */
BATCH_RULE(images) {
    for (int i = 1; i < b->nin; i++)
        if (dl_samples_has(b, i) && b->one[i]->ndim < 2)
            return b->op->id == dl_id_relu_max_pool2d ? add_bias(b) : dl_samples_each(b);
    for (int i = 0; i < b->nin; i++)
        if (b->in[i] && b->one[i]->ndim > 1) DL_TRY(fold(b, i));
    return dl_samples_invoke(b);
}

/* [size,N,C,...] as [N, size * C, ...]: each sample is a group of channels. */
static dl_status as_channels(dl_batched *b, int i) {
    long dims[DL_MAX_DIM] = {1, 0}, shape[DL_MAX_DIM];
    DL_TRY(dl_samples_spread(b, i));
    const dl_tensor *t = b->in[i];
    const int n = t->ndim;
    shape[0] = t->shape[1], shape[1] = t->shape[0] * t->shape[2];
    for (int d = 2; d < n; d++) dims[d] = d;
    for (int d = 3; d < n; d++) shape[d - 1] = t->shape[d];
    DL_TRY(dl_samples_put(b, i, dl_permute(b->in[i], dims, n)));
    return dl_samples_reshape(b, i, shape, n - 1);
}

/* The other way round, of result k. */
static dl_status from_channels(dl_batched *b, int k) {
    long dims[DL_MAX_DIM] = {1, 0}, shape[DL_MAX_DIM];
    const dl_tensor *one = b->was[k];
    const int n = one->ndim + 1;
    shape[0] = one->shape[0], shape[1] = b->size;
    for (int d = 1; d < one->ndim; d++) shape[d + 1] = one->shape[d], dims[d + 1] = d + 1;
    DL_OWNED dl_tensor *flat = b->out[k];
    b->out[k] = NULL;
    DL_OWNED dl_tensor *split = dl_reshape(flat, shape, n);
    b->out[k] = split ? dl_permute(split, dims, n) : NULL;
    return b->out[k] ? DL_OK : dl_failed();
}

BATCH_RULE(conv) {
    const int bias = DL_IN_CONV2D_BIAS, groups = dl_attr_index(b->op, "groups");
    if (!dl_samples_has(b, 1) && !dl_samples_has(b, bias)) {
        DL_TRY(fold(b, 0));
        return dl_samples_invoke(b);
    }
    if (b->op->id == dl_id_conv2d_relu_max_pool2d) return dl_samples_each(b);
    if (dl_samples_has(b, 0) || b->attr[groups].u.i != 1 || b->op->id != dl_id_conv2d) {
        DL_TRY(as_channels(b, 0));
        b->attr[groups].u.i *= b->size;
    }
    DL_TRY(fold(b, 1));
    DL_TRY(fold(b, bias));
    DL_TRY(dl_samples_invoke(b));
    return from_channels(b, 0);
}

/* Gradients of weights, one for each sample. */
BATCH_RULE(conv_weights) {
    DL_TRY(as_channels(b, 0));
    DL_TRY(as_channels(b, 1));
    b->attr[dl_attr_index(b->op, "groups")].u.i *= b->size;
    return dl_samples_invoke(b);
}

/* Statistics that are the same for all samples. */
static dl_status repeat_result(dl_batched *b, int k) {
    DL_OWNED dl_tensor *once = b->out[k];
    if (!once) return DL_OK;
    b->out[k] = dl_expand(once, (long[]){b->size, once->numel}, 2);
    return b->out[k] ? DL_OK : dl_failed();
}

BATCH_RULE(batch_norm) {
    const bool training = b->attr[DL_A_BATCHNORM_TRAINING].u.i;
    bool own = false;
    for (int i = 1; i < b->nin; i++) own |= dl_samples_has(b, i);
    if (!training && !own) {
        DL_TRY(fold(b, 0));
        DL_TRY(dl_samples_invoke(b));
        DL_TRY(repeat_result(b, DL_OUT_BATCH_NORM_MEAN));
        return repeat_result(b, DL_OUT_BATCH_NORM_RSTD);
    }
    if (b->one[0]->ndim < 2) return dl_samples_each(b);
    DL_TRY(as_channels(b, 0));
    for (int i = 1; i < b->nin; i++) DL_TRY(fold(b, i));
    DL_TRY(dl_samples_invoke(b));
    return from_channels(b, 0);
}

/* Parameters of the sample's last dimensions; own ones of each sample are applied behind. */
BATCH_RULE(layer_norm) {
    dl_tensor *own[2] = {0}, *out[DL_MAX_OUT] = {0};
    const int ndim = b->one[0]->ndim, nin = b->nin;
    bool apply = false;
    for (int i = 1; i < nin; i++) apply |= dl_samples_has(b, i);
    DL_TRY(dl_samples_spread(b, 0));
    if (!apply) return dl_samples_invoke(b);
    for (int i = 1; i < nin; i++) {
        if (dl_samples_has(b, i)) DL_TRY(dl_samples_deepen(b, i, ndim));
        own[i - 1] = b->in[i];
    }
    DL_TRY(dl_invoke(b->op, b->in, 1, b->attr, out));
    memcpy(b->out, out, sizeof out);
    for (int i = 0; i < 2; i++) {
        if (!own[i]) continue;
        DL_OWNED dl_tensor *y = b->out[0];
        b->out[0] = i ? dl_add(y, own[i]) : dl_mul(y, own[i]);
        if (!b->out[0]) return dl_failed();
    }
    return DL_OK;
}

/* ---- cross_entropy */

/* What the mean of each sample divides by: the weights of its labels that count. [size, labels]. */
static dl_tensor *counted(dl_batched *b, dl_tensor *labels) {
    DL_SCOPED_GRAD_MODE(0);
    const int at = b->op->id == dl_id_cross_entropy ? DL_A_CROSS_ENTROPY_IGNORE_INDEX : DL_A_NLL_PICKED_IGNORE_INDEX;
    DL_OWNED dl_tensor *ignored = dl_scalar_i(b->attr[at].u.i);
    DL_OWNED dl_tensor *here = ignored ? dl_ne(labels, ignored) : NULL;
    DL_OWNED dl_tensor *share = here ? dl_to(here, b->in[0]->dtype == DL_F64 ? DL_F64 : DL_F32) : NULL;
    if (!share || !dl_samples_given(b, DL_IN_CROSS_ENTROPY_WEIGHT)) return dl_ref(share);
    DL_OWNED dl_tensor *zero = dl_scalar_i(0);
    DL_OWNED dl_tensor *known = zero ? dl_where(here, labels, zero) : NULL;
    if (dl_samples_has(b, DL_IN_CROSS_ENTROPY_WEIGHT)) {
        DL_OWNED dl_tensor *own = known ? dl_gather(b->in[DL_IN_CROSS_ENTROPY_WEIGHT], known, 1) : NULL;
        return own ? dl_mul(own, share) : NULL;
    }
    DL_OWNED dl_tensor *flat = known ? dl_reshape(known, &known->numel, 1) : NULL;
    DL_OWNED dl_tensor *w = flat ? dl_index_select(b->in[DL_IN_CROSS_ENTROPY_WEIGHT], flat, 0) : NULL;
    DL_OWNED dl_tensor *each = w ? dl_reshape(w, labels->shape, labels->ndim) : NULL;
    return each ? dl_mul(each, share) : NULL;
}

/* The losses of all labels; weights that each sample has of its own are applied to them here. */
static dl_status losses_of_all(dl_batched *b, dl_tensor *count) {
    for (int i = 0; i < 2 && b->one[0]->ndim > 1; i++) DL_TRY(dl_samples_fold(b, i));
    strcpy(b->attr[DL_A_LOSS_REDUCTION].u.s, "none");
    if (!dl_samples_has(b, DL_IN_CROSS_ENTROPY_WEIGHT)) return dl_samples_invoke(b);
    DL_TRY(dl_invoke(b->op, b->in, 2, b->attr, b->out));
    DL_OWNED dl_tensor *plain = b->out[0];
    DL_OWNED dl_tensor *flat = count ? dl_reshape(count, plain->shape, plain->ndim) : NULL;
    b->out[0] = flat ? dl_mul(plain, flat) : NULL;
    return b->out[0] ? DL_OK : dl_failed();
}

/* The losses of all labels, each sample's added up, and divided by their count for the mean. */
BATCH_RULE(cross_entropy) {
    const char *reduction = b->attr[DL_A_LOSS_REDUCTION].u.s;
    const bool none = !strcmp(reduction, "none"), mean = !strcmp(reduction, "mean"),
               shares = b->op->id == dl_id_cross_entropy, own = dl_samples_has(b, DL_IN_CROSS_ENTROPY_WEIGHT);
    if (shares && (own || b->one[0]->ndim < 2 || !b->one[1]->numel)) return dl_samples_each(b);
    DL_TRY(dl_samples_spread(b, 0));
    DL_TRY(dl_samples_spread(b, 1));
    DL_OWNED dl_tensor *labels = dl_reshape(b->in[1], (long[]){b->size, b->one[1]->numel}, 2);
    DL_OWNED dl_tensor *count = labels && (mean || own) ? counted(b, labels) : NULL;
    if (!labels) return dl_failed();
    DL_TRY(losses_of_all(b, count));
    if (none) return DL_OK;
    DL_OWNED dl_tensor *losses = dl_reshape(b->out[0], labels->shape, 2);
    DL_OWNED dl_tensor *total = losses ? dl_sum(losses, (long[]){1}, 1, 0) : NULL;
    DL_OWNED dl_tensor *by = mean && total && count ? dl_sum(count, (long[]){1}, 1, 0) : NULL;
    dl_unref(b->out[0]);
    b->out[0] = !mean ? dl_ref(total) : by ? dl_div(total, by) : NULL;
    return b->out[0] ? DL_OK : dl_failed();
}

/* The examples of all samples in a row, where the layer is the same for all. */
BATCH_RULE(linear_losses) {
    static const int examples[] = {DL_IN_LINEAR_LOSSES_INPUT, DL_IN_LINEAR_LOSSES_TARGET};
    for (int i = 0; i < b->nin; i++)
        if (i != examples[0] && i != examples[1] && dl_samples_has(b, i)) return dl_samples_each(b);
    for (int i = 0; i < 2; i++) {
        DL_TRY(dl_samples_spread(b, examples[i]));
        DL_TRY(dl_samples_fold(b, examples[i]));
    }
    return dl_samples_invoke(b);
}

/* ---- recurrent layers */

/* [size,T,N,...] as [T, size * N, ...]. */
static dl_status as_sequences(dl_batched *b, int i) {
    if (!dl_samples_given(b, i)) return DL_OK;
    DL_TRY(dl_samples_spread(b, i));
    const long *s = b->in[i]->shape;
    const long shape[] = {s[1], s[0] * s[2], s[3]};
    DL_TRY(dl_samples_put(b, i, dl_permute(b->in[i], (long[]){1, 0, 2, 3}, 4)));
    return dl_samples_reshape(b, i, shape, 3);
}

/* Sequences of all samples side by side; each sample's own weights are used one after another. */
BATCH_RULE(recurrent) {
    for (int i = DL_IN_RECURRENT_PARAMS; i < b->nin; i++)
        if (dl_samples_has(b, i)) return dl_samples_each(b);
    for (int i = DL_IN_RECURRENT_INPUT; i <= DL_IN_RECURRENT_CX; i++) DL_TRY(as_sequences(b, i));
    DL_TRY(fold(b, DL_IN_RECURRENT_LENGTHS));
    DL_TRY(dl_samples_invoke(b));
    for (int k = 0; k < DL_OUT_RECURRENT_RESERVE; k++) {
        if (!b->out[k]) continue;
        const long *s = b->was[k]->shape;
        DL_OWNED dl_tensor *flat = b->out[k];
        b->out[k] = NULL;
        DL_OWNED dl_tensor *split = dl_reshape(flat, (long[]){s[0], b->size, s[1], s[2]}, 4);
        b->out[k] = split ? dl_permute(split, (long[]){1, 0, 2, 3}, 4) : NULL;
        if (!b->out[k]) return dl_failed();
    }
    return DL_OK;
}

/* The same of sequences of labels. */
BATCH_RULE(ctc_paths) {
    DL_TRY(as_sequences(b, DL_IN_CTC_PATHS_LOG_PROBS));
    for (int i = DL_IN_CTC_PATHS_LABELS; i <= DL_IN_CTC_PATHS_LENGTHS; i++) DL_TRY(fold(b, i));
    return dl_samples_invoke(b);
}
