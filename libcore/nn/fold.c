/* A batch norm of which the statistics are fixed, folded into the linear layer or convolution before it. */
#include <string.h>

#include "core/scope.h"
#include "nn/module.h"
#include "dlcore/arithmetic.h"
#include "dlcore/elementary.h"
#include "dlcore/view.h"

static bool is_transposed(const dl_module *m) { return !strncmp(m->row->kind.name, "convtranspose", 13); }

/* Channels of the layer's result. */
static long channels_of(const dl_module *m) {
    const dl_tensor *w = m->tensor[0];
    return is_transposed(m) ? w->shape[1] * dl_m_int(m, "groups") : w->shape[0];
}

static dl_status check_fold(dl_module *m, dl_module *norm) {
    const char *kind = m->row->kind.name;
    if (strcmp(kind, "linear") != 0 && strncmp(kind, "conv", 4) != 0)
        return dl_fail_hint(DL_ERR_TYPE, "give the layers themselves, as in m.conv0 and m.batchnorm0",
                            "a batch norm is folded into a linear layer or a convolution, not into %s", kind);
    if (strcmp(norm->row->kind.name, "batchnorm") != 0)
        return dl_fail(DL_ERR_TYPE, "a batchnorm is folded, not %s", norm->row->kind.name);
    DL_TRY(dl_module_check_built(m));
    DL_TRY(dl_module_check_built(norm));
    if (m->reparams)
        return dl_fail_hint(DL_ERR_STATE, "remove_parametrizations(layer, \"weight\") makes it a weight again",
                            "the tensors of the layer are computed: nothing can be folded into them");
    if (m->training || norm->training)
        return dl_fail_hint(DL_ERR_STATE, "call m.eval() first",
                            "in training a batch norm depends on the batch: it cannot be folded");
    if (!norm->tensor[2] || !norm->tensor[3])
        return dl_fail(DL_ERR_STATE,
                       "a batch norm without running statistics depends on the batch: it cannot be folded");
    if (channels_of(m) != norm->tensor[2]->numel)
        return dl_fail(DL_ERR_SHAPE, "a result of %ld channels does not fit a batch norm of %ld", channels_of(m),
                       (long)norm->tensor[2]->numel);
    return DL_OK;
}

/* What a batch norm multiplies each channel by. */
static dl_tensor *factors(const dl_module *norm) {
    DL_OWNED dl_tensor *eps = dl_scalar_f(dl_m_float(norm, "eps"));
    DL_OWNED dl_tensor *wide = eps ? dl_add(norm->tensor[3], eps) : NULL, *by = wide ? dl_rsqrt(wide) : NULL;
    return by && norm->tensor[0] ? dl_mul(by, norm->tensor[0]) : dl_ref(by);
}

/* The weight with each channel of the result scaled: [out, ...], and of transposed convolutions [in, out / groups,
 * ...].
 */
static dl_tensor *scaled_weight(const dl_module *m, dl_tensor *by) {
    dl_tensor *w = m->tensor[0];
    const int turned = is_transposed(m);
    const long groups = turned ? dl_m_int(m, "groups") : 1;
    long shape[DL_MAX_DIM] = {0}, own[DL_MAX_DIM] = {0};
    int n = 0;
    if (turned) shape[0] = own[0] = groups, shape[1] = w->shape[0] / groups, own[1] = 1, n = 2;
    for (int i = turned; i < w->ndim; i++, n++) shape[n] = w->shape[i], own[n] = i == turned ? w->shape[i] : 1;
    DL_OWNED dl_tensor *parts = dl_reshape(w, shape, n), *each = dl_reshape(by, own, n);
    DL_OWNED dl_tensor *scaled = parts && each ? dl_mul(parts, each) : NULL;
    return scaled ? dl_reshape(scaled, w->shape, w->ndim) : NULL;
}

/* (bias - mean) * factor + shift */
static dl_tensor *moved_bias(const dl_module *m, const dl_module *norm, dl_tensor *by) {
    DL_OWNED dl_tensor *off = m->tensor[1] ? dl_sub(m->tensor[1], norm->tensor[2]) : dl_neg(norm->tensor[2]);
    DL_OWNED dl_tensor *scaled = off ? dl_mul(off, by) : NULL;
    return scaled && norm->tensor[1] ? dl_add(scaled, norm->tensor[1]) : dl_ref(scaled);
}

static dl_status fill(dl_module *out, const dl_module *m, const dl_module *norm) {
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *by = factors(norm), *weight = by ? scaled_weight(m, by) : NULL,
                       *bias = weight ? moved_bias(m, norm, by) : NULL;
    if (!bias) return dl_failed();
    if (!out->tensor[1]) { /* it was left out by the option */
        out->opt[dl_m_opt(out, "bias") - out->opt].u.i = 1;
        DL_TRY(dl_module_make(out, 1, 1, bias->shape, "zeros", 0));
    }
    DL_TRY(dl_assign(out->tensor[0], weight));
    return dl_assign(out->tensor[1], bias);
}

dl_module *dl_module_fold_norm(dl_module *layer, dl_module *norm) {
    if (!layer || !norm) return dl_fail_null("the layer"), NULL;
    if (check_fold(layer, norm) != DL_OK) return NULL;
    dl_module *out = dl_module_copy(layer);
    if (out && fill(out, layer, norm) != DL_OK) return dl_module_unref(out), NULL;
    return out;
}
