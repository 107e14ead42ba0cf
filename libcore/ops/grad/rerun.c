/* Gradients to any order of ops whose kernels bring the first order themselves: the op is computed again by
 * differentiable ones. */
#include "dlcore/arithmetic.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "core/scope.h"
#include "ops/grad.h"
#include "ops/rules/loss.h"

dl_tensor *dl_plus_product(dl_back *b, dl_tensor *total, dl_tensor *t, dl_tensor *g) {
    dl_tensor *s = t && g ? T(dl_sum(T(dl_mul(t, g)), NULL, 0, 0)) : NULL;
    return total && s ? T(dl_add(total, s)) : s;
}

/* A stand-in of a saved input: with its history in a pass that is recorded, else a leaf. */
static dl_tensor *stand_in(dl_back *b, int i) {
    dl_tensor *t = dl_in_meta(b, i)->ndim ? dl_saved_in(b, i) : NULL;
    if (!t || !DL_NEED(i)) return t;
    if (b->create_graph) return T(dl_reshape(t, t->shape, t->ndim));
    dl_tensor *leaf = T(dl_detach(t));
    return leaf && dl_set_requires_grad(leaf, 1) == DL_OK ? leaf : NULL;
}

/* Fills in[], wanted[] and which[] from the saved inputs; how many gradients are wanted. -1: failed. */
static int stand_ins(dl_back *b, dl_tensor **in, dl_tensor **wanted, int *which) {
    int n = 0;
    for (int i = 0; i < b->nin; i++) {
        in[i] = stand_in(b, i);
        if (!in[i] && dl_in_meta(b, i)->ndim) return -1;
        if (DL_NEED(i) && in[i] && dl_requires_grad(in[i])) wanted[n] = in[i], which[n++] = i;
    }
    return n;
}

dl_status dl_grad_by_rerun(dl_back *b, dl_tensor *(*objective)(dl_back *, dl_tensor **, void *), void *arg) {
    dl_tensor *in[DL_MAX_IN] = {NULL}, *wanted[DL_MAX_IN], *got[DL_MAX_IN];
    int which[DL_MAX_IN];
    DL_SCOPED_GRAD_MODE(1);
    int n = stand_ins(b, in, wanted, which);
    dl_tensor *total = n < 0 ? NULL : objective(b, in, arg);
    if (!total) return dl_fail_null("a part of the gradient");
    DL_TRY(dl_gradients(total, NULL, wanted, n, 1, b->create_graph, got));
    dl_status s = DL_OK;
    for (int i = 0; i < n; i++) {
        if (s == DL_OK && got[i])
            s = dl_give(b, which[i], got[i]);
        else
            dl_unref(got[i]);
    }
    return s;
}

/* Rows that are made of other rows elsewhere: of those. */
static dl_tensor *composed(dl_back *b, dl_tensor **in, void *arg) {
    dl_tensor *out[DL_MAX_OUT] = {0};
    dl_call c = {.op = b->op, .in = in, .out = out, .nin = b->nin, .nout = b->op->out, .attr = b->attr};
    (void)arg;
    c.dtype = dl_in_meta(b, 0)->dtype, c.device = dl_in_meta(b, 0)->device;
    return b->op->compose(&c) == DL_OK ? dl_plus_product(b, NULL, T(out[0]), G0) : NULL;
}
GRAD_RULE(by_parts) { return dl_grad_by_rerun(b, composed, NULL); }
