/* The cross-entropy of a linear layer's logits, which are made in parts: memory for those of some examples alone. */
#include "ops/compose/loss.h"
#include "core/scope.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/loss.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/compose/compose.h"
#include "ops/grad.h"
#include "ops/rules/loss.h"

#include <math.h>

/* ---- the losses of some examples */

/* How many logits there may be at a time; of one example there are all. */
enum { LOGITS_AT_ONCE = 1 << 23 };

typedef struct layer {
    dl_tensor *x, *w, *target, *bias, *weight; /* bias, weight: NULL where there is none */
    long ignore;
    double smooth;
} layer;

static long examples_at_once(const layer *l) {
    const long features = l->w->shape[l->w->ndim - 1], each = features ? l->w->numel / features : 1;
    return each < LOGITS_AT_ONCE ? LOGITS_AT_ONCE / (each > 0 ? each : 1) : 1;
}

/* Examples from..to of the layer, with operands in the place of its own: x holds these examples alone. */
static dl_tensor *losses_of(const layer *l, dl_tensor *x, dl_tensor *w, dl_tensor *bias, long from, long to) {
    POOL;
    const long features = w->shape[w->ndim - 1], all = w->numel / (features ? features : 1);
    long shape[DL_MAX_DIM] = {x->shape[0]};
    for (int i = 0; i + 1 < w->ndim; i++) shape[i + 1] = w->shape[i];
    dl_tensor *flat = K(dl_reshape(w, (long[]){features ? all : l->w->shape[0], features}, 2));
    dl_tensor *row = bias ? K(dl_reshape(bias, &bias->numel, 1)) : NULL;
    if (bias && !row) return NULL;
    dl_tensor *logits = flat ? K(dl_linear(x, flat, row)) : NULL, *y = K(dl_slice(l->target, 0, &from, &to, 1));
    logits = logits ? K(dl_reshape(logits, shape, w->ndim)) : NULL;
    return logits && y ? dl_cross_entropy(logits, y, l->weight, "none", l->ignore, l->smooth) : NULL;
}

/* ---- all of them: linear_losses */

COMPOSE_RULE(linear_losses) {
    const layer l = {c->in[0],
                     c->in[1],
                     c->in[2],
                     INPUT(c, LINEAR_LOSSES_LINEAR_BIAS),
                     INPUT(c, LINEAR_LOSSES_WEIGHT),
                     ATTR_I(c, LINEAR_LOSSES_IGNORE_INDEX),
                     ATTR_F(c, LINEAR_LOSSES_LABEL_SMOOTHING)};
    const long n = l.x->shape[0], most = examples_at_once(&l);
    long shape[DL_MAX_DIM] = {n};
    for (int i = 1; i + 1 < l.w->ndim; i++) shape[i] = l.w->shape[i];
    DL_OWNED dl_tensor *out = dl_tensor_zeros(l.w->ndim - 1, shape, l.x->dtype, c->device);
    for (long from = 0; out && (from < n || !from); from += most) {
        const long to = from + most < n ? from + most : n;
        DL_OWNED dl_tensor *x = dl_slice(l.x, 0, &from, &to, 1), *place = dl_slice(out, 0, &from, &to, 1);
        DL_OWNED dl_tensor *part = x && place ? losses_of(&l, x, l.w, l.bias, from, to) : NULL;
        DL_TRY(part ? dl_assign(place, part) : dl_failed());
    }
    return dl_finish(c, dl_ref(out));
}

enum { OF_X, OF_W, OF_BIAS, OPERANDS };

/* A stand-in of an operand: with its history in a pass that is recorded, else a leaf. */
static dl_tensor *stand_in(dl_pool *p, const dl_back *b, dl_tensor *t, bool wanted) {
    if (!t || !wanted) return t;
    if (b->create_graph) return K(dl_reshape(t, t->shape, t->ndim));
    dl_tensor *leaf = K(dl_detach(t));
    return leaf && dl_set_requires_grad(leaf, 1) == DL_OK ? leaf : NULL;
}

/* The gradients of the losses of some examples, which are computed once more; got[]: new references. */
static dl_status part_of_gradient(dl_back *b, const layer *l, const bool *need, long from, long to, dl_tensor **got) {
    POOL;
    dl_tensor *g = K(dl_slice(G0, 0, &from, &to, 1)), *own = K(dl_slice(l->x, 0, &from, &to, 1)), *wanted[OPERANDS];
    dl_tensor *in[OPERANDS] = {stand_in(p, b, own, need[OF_X]), stand_in(p, b, l->w, need[OF_W]),
                               stand_in(p, b, l->bias, need[OF_BIAS])};
    dl_tensor *each[OPERANDS] = {NULL};
    int n = 0, of[OPERANDS];
    if (!g || !in[OF_X] || !in[OF_W] || (l->bias && !in[OF_BIAS])) return dl_failed();
    for (int i = 0; i < OPERANDS; i++)
        if (need[i]) wanted[n] = in[i], of[n++] = i;
    dl_tensor *losses = K(losses_of(l, in[OF_X], in[OF_W], in[OF_BIAS], from, to));
    if (!losses) return dl_failed();
    DL_TRY(dl_gradients(losses, g, wanted, n, 1, b->create_graph, each));
    for (int i = 0; i < n; i++) got[of[i]] = each[i];
    return DL_OK;
}

/* Adds a part, which is taken, to *total. */
static dl_status add_part(dl_tensor **total, dl_tensor *part) {
    DL_OWNED dl_tensor *taken = part, *was = *total;
    if (!part) return *total = dl_ref(was), DL_OK;
    *total = was ? dl_add(was, part) : dl_ref(part);
    return *total ? DL_OK : dl_failed();
}

static dl_status add_parts(dl_back *b, const layer *l, const bool *need, dl_tensor **total) {
    const long n = l->x->shape[0], most = examples_at_once(l);
    if (need[OF_X] && !(total[OF_X] = dl_tensor_zeros(l->x->ndim, l->x->shape, l->x->dtype, l->x->st->device)))
        return dl_failed();
    for (long from = 0; from < n; from += most) {
        const long to = from + most < n ? from + most : n;
        dl_tensor *got[OPERANDS] = {NULL};
        DL_TRY(part_of_gradient(b, l, need, from, to, got));
        DL_OWNED dl_tensor *x = got[OF_X], *place = x ? dl_slice(total[OF_X], 0, &from, &to, 1) : NULL;
        dl_status st = x ? (place ? dl_assign(place, x) : dl_failed()) : DL_OK;
        for (int i = OF_W; i < OPERANDS; i++) {
            if (st == DL_OK)
                st = add_part(&total[i], got[i]);
            else
                dl_unref(got[i]);
        }
        DL_TRY(st);
    }
    return DL_OK;
}

GRAD_RULE(linear_losses) {
    static const int at[OPERANDS] = {DL_IN_LINEAR_LOSSES_INPUT, DL_IN_LINEAR_LOSSES_LINEAR_WEIGHT,
                                     DL_IN_LINEAR_LOSSES_LINEAR_BIAS};
    const bool biased = b->nin > DL_IN_LINEAR_LOSSES_LINEAR_BIAS && META(LINEAR_LOSSES_LINEAR_BIAS)->ndim,
               weighted = b->nin > DL_IN_LINEAR_LOSSES_WEIGHT && META(LINEAR_LOSSES_WEIGHT)->ndim;
    const layer l = {IN_(LINEAR_LOSSES_INPUT),
                     IN_(LINEAR_LOSSES_LINEAR_WEIGHT),
                     IN_(LINEAR_LOSSES_TARGET),
                     biased ? IN_(LINEAR_LOSSES_LINEAR_BIAS) : NULL,
                     weighted ? IN_(LINEAR_LOSSES_WEIGHT) : NULL,
                     ATTR_I(b, LINEAR_LOSSES_IGNORE_INDEX),
                     ATTR_F(b, LINEAR_LOSSES_LABEL_SMOOTHING)};
    const bool need[OPERANDS] = {NEED(LINEAR_LOSSES_INPUT), NEED(LINEAR_LOSSES_LINEAR_WEIGHT),
                                 biased && NEED(LINEAR_LOSSES_LINEAR_BIAS)};
    dl_tensor *total[OPERANDS] = {NULL};
    if (!l.x || !l.w || !l.target || (biased && !l.bias) || (weighted && !l.weight)) return dl_failed();
    DL_SCOPED_GRAD_MODE(1);
    dl_status st = add_parts(b, &l, need, total);
    for (int i = 0; i < OPERANDS; i++) {
        if (st == DL_OK && need[i])
            st = dl_give(b, at[i], total[i] ? total[i] : dl_zeros_like_in(b, at[i]));
        else
            dl_unref(total[i]);
    }
    return st;
}

/* ---- linear_cross_entropy */

static dl_status check_layer(const dl_call *c) {
    const dl_tensor *x = c->in[0], *w = c->in[1];
    if (x->ndim < 1 || x->ndim > 2)
        return dl_fail_hint(DL_ERR_SHAPE, "reshape(x, [-1, x.shape[-1]]) makes one list of examples of sequences",
                            "the input is [N,F] or [F], not of shape %s", dl_shape_of(x));
    if (w->ndim < 2)
        return dl_fail(DL_ERR_SHAPE, "the weights of the layer are [C,F] or [C,d,...,F], not of shape %s",
                       dl_shape_of(w));
    if (x->shape[x->ndim - 1] != w->shape[w->ndim - 1])
        return dl_fail(DL_ERR_SHAPE, "examples of %ld numbers do not fit weights of shape %s", x->shape[x->ndim - 1],
                       dl_shape_of(w));
    if (w->ndim > 2 && x->ndim < 2)
        return dl_fail_hint(DL_ERR_SHAPE, "unsqueeze(x, 0) makes a batch of one",
                            "weights of shape %s take a batch of examples [N,F]", dl_shape_of(w));
    return DL_OK;
}

/* Labels that are ignored do not count in the mean; where none is left there is no loss, and no gradient. */
static dl_tensor *mean_of_labels(dl_pool *p, dl_tensor *losses, const dl_call *c, dl_tensor *target, long ignore) {
    dl_tensor *count = dl_label_weights(p, target, INPUT(c, LINEAR_CROSS_ENTROPY_WEIGHT), ignore, losses->dtype);
    dl_tensor *all = count ? K(dl_sum(count, NULL, 0, 0)) : NULL, *none = all ? K(dl_eq(all, N(0))) : NULL;
    dl_tensor *safe = none ? K(dl_where(none, N(1), all)) : NULL;
    dl_tensor *mean = safe ? K(dl_div(K(dl_sum(losses, NULL, 0, 0)), safe)) : NULL;
    dl_tensor *unknown = mean ? K(dl_to_dtype(N(NAN), mean->dtype)) : NULL;
    return unknown ? K(dl_where(none, unknown, mean)) : NULL;
}

POOLED_RULE(linear_cross_entropy) {
    dl_tensor *x = c->in[0], *target = c->in[2];
    const dl_aval *ignored = ATTR(c, LINEAR_CROSS_ENTROPY_IGNORE_INDEX);
    const long ignore = ignored->given ? ignored->u.i : -100, zero = 0;
    dl_reduction how = DL_REDUCE_MEAN;
    DL_TRY(check_layer(c));
    DL_TRY(dl_reduction_of(ATTR(c, LOSS_REDUCTION), &how));
    const bool one = x->ndim == 1, shares = dl_dtype_is_float(target->dtype);
    if (one) x = K(dl_with_dim(x, 0)), target = K(dl_with_dim(target, 0));
    if (!x || !target) return dl_failed();
    if (!target->ndim || target->shape[0] != x->shape[0])
        return dl_fail(DL_ERR_SHAPE, "targets of shape %s do not fit %ld examples", dl_shape_of(target), x->shape[0]);
    dl_tensor *losses = K(dl_linear_losses(x, c->in[1], target, INPUT(c, LINEAR_CROSS_ENTROPY_LINEAR_BIAS),
                                           INPUT(c, LINEAR_CROSS_ENTROPY_WEIGHT), ignore,
                                           ATTR_F(c, LINEAR_CROSS_ENTROPY_LABEL_SMOOTHING)));
    if (!losses) return dl_failed();
    if (how == DL_REDUCE_NONE) return dl_finish(c, one ? dl_select(losses, 0, zero) : dl_ref(losses));
    dl_tensor *wide = K(dl_to_dtype(losses, DL_BIT(losses->dtype) & DL_HALVES ? DL_F32 : losses->dtype));
    dl_tensor *out = !wide                            ? NULL
                     : how == DL_REDUCE_SUM || shares ? K(dl_reduced_loss(wide, how))
                                                      : mean_of_labels(p, wide, c, target, ignore);
    return dl_finish(c, out ? dl_to_dtype(out, losses->dtype) : NULL);
}
