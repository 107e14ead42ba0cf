/* Limits on gradients: by their common norm, or element by element. */
#include "optim/clip.h"

#include <math.h>
#include <stdlib.h>

#include "autograd/journal.h"
#include "core/scope.h"
#include "dlcore/arithmetic.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"

enum { LANES = 16, BLOCK = 4096 };

/* Sum of squares in fixed order, so that it repeats bit for bit: lanes that vectorise within a block of elements,
 * blocks added up in double. Squares of a block are summed in T, which loses at most BLOCK / LANES roundings. */
#define SQUARES(name, T)                                                                                               \
    static double name(const T *p, int64_t n) {                                                                        \
        double sum = 0;                                                                                                \
        for (int64_t at = 0; at < n; at += BLOCK) {                                                                    \
            int64_t end = n - at < BLOCK ? n : at + BLOCK, i = at;                                                     \
            T lane[LANES] = {0};                                                                                       \
            for (; i + LANES <= end; i += LANES)                                                                       \
                for (int k = 0; k < LANES; k++) lane[k] += p[i + k] * p[i + k];                                        \
            for (; i < end; i++) lane[i % LANES] += p[i] * p[i];                                                       \
            for (int k = 0; k < LANES; k++) sum += (double)lane[k];                                                    \
        }                                                                                                              \
        return sum;                                                                                                    \
    }
SQUARES(squares_f32, float)
SQUARES(squares_f64, double)

/* For gradients so large or small that their squares leave the range of floats. */
static double squares_wide(const float *p, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)p[i] * (double)p[i];
    return sum;
}

static dl_status squares(dl_tensor *g, double *out) {
    if (g->st->device == 0 && dl_is_contiguous(g)) {
        if (g->dtype == DL_F32) {
            *out = squares_f32(dl_ptr(g), g->numel);
            if (!(*out > 1e-30 && *out < 1e30)) *out = squares_wide(dl_ptr(g), g->numel);
            return DL_OK;
        }
        if (g->dtype == DL_F64) return *out = squares_f64(dl_ptr(g), g->numel), DL_OK;
    }
    DL_OWNED dl_tensor *norm = dl_norm(g, NULL, 0, 0, 2);
    double v = 0;
    DL_TRY(norm ? dl_item_f(norm, &v) : dl_failed());
    *out = v * v;
    return DL_OK;
}

enum { TOGETHER = 256 };

/* The norm of n norms on an accelerator, squared and added to *sum; they are released. */
static dl_status add_norms(dl_tensor **norm, int n, double *sum) {
    double v = 0;
    DL_OWNED dl_tensor *all = n ? dl_stack(norm, n, 0) : NULL;
    DL_OWNED dl_tensor *wide = all ? dl_to_dtype(all, DL_F64) : NULL;
    DL_OWNED dl_tensor *one = wide ? dl_norm(wide, NULL, 0, 0, 2) : NULL;
    for (int i = 0; i < n; i++) dl_unref(norm[i]);
    dl_status st = !n ? DL_OK : one ? dl_item_f(one, &v) : dl_failed();
    *sum += v * v;
    return st;
}

/* Of the gradients on accelerators, TOGETHER at a time: the host waits once for each group. */
static dl_status squares_there(dl_tensor *const *grad, long n, double *sum) {
    dl_tensor *norm[TOGETHER];
    int k = 0;
    dl_status st = DL_OK;
    for (long i = 0; i < n && st == DL_OK; i++) {
        if (!grad[i]->st->device) continue;
        norm[k] = dl_norm(grad[i], NULL, 0, 0, 2);
        if (!norm[k]) st = dl_failed();
        k += st == DL_OK;
        if (k < TOGETHER) continue;
        st = add_norms(norm, k, sum);
        k = 0;
    }
    if (st == DL_OK) return add_norms(norm, k, sum);
    while (k) dl_unref(norm[--k]);
    return st;
}

dl_status dl_grads_norm(dl_tensor *const *grad, long n, double *norm) {
    double sum = 0;
    DL_SCOPED_GRAD_MODE(0);
    for (long i = 0; i < n; i++) {
        double one = 0;
        if (!grad[i]->st->device) DL_TRY(squares(grad[i], &one));
        sum += one;
    }
    DL_TRY(squares_there(grad, n, &sum));
    *norm = sqrt(sum);
    return DL_OK;
}

/* The new values in the place of g's; takes the reference. */
static dl_status put(dl_tensor *g, dl_tensor *values) {
    DL_OWNED dl_tensor *v = values;
    const uint32_t version = g->st->version;
    DL_TRY(v ? dl_assign(g, v) : dl_failed());
    dl_journal_changed(g, version);
    return DL_OK;
}

dl_status dl_grads_scale(dl_tensor *const *grad, long n, double factor) {
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *f = dl_scalar_f(factor);
    if (!f) return dl_failed();
    for (long i = 0; i < n; i++) DL_TRY(put(grad[i], dl_mul(grad[i], f)));
    return DL_OK;
}

dl_status dl_grads_clamp(dl_tensor *const *grad, long n, double max) {
    double low = -max;
    DL_SCOPED_GRAD_MODE(0);
    for (long i = 0; i < n; i++) DL_TRY(put(grad[i], dl_clamp(grad[i], &low, &max)));
    return DL_OK;
}

/* ---- of parameters */

/* The gradients that there are; the caller frees the list. */
static dl_tensor **grads_of(dl_tensor *const *params, long n, long *count) {
    dl_tensor **grad = malloc((size_t)(n + 1) * sizeof(dl_tensor *));
    *count = 0;
    if (!grad) dl_fail(DL_ERR_MEMORY, "no memory for the list of gradients");
    for (long i = 0; grad && i < n; i++)
        if (params[i]->grad) grad[(*count)++] = params[i]->grad;
    return grad;
}

/* The norm p of the norms p of all, in f64. */
static dl_status norm_by(dl_tensor *const *grad, long n, double p, double *norm) {
    DL_SCOPED_GRAD_MODE(0);
    DL_FREED double *each = malloc((size_t)(n + 1) * sizeof *each);
    if (!each) return dl_fail(DL_ERR_MEMORY, "no memory for the norms of gradients");
    for (long i = 0; i < n; i++) {
        DL_OWNED dl_tensor *one = dl_norm(grad[i], NULL, 0, 0, p);
        DL_TRY(one ? dl_item_f(one, &each[i]) : dl_failed());
    }
    DL_OWNED dl_tensor *all = dl_tensor_from(1, &n, DL_F64, 0, each), *whole = all ? dl_norm(all, NULL, 0, 0, p) : NULL;
    *norm = 0;
    return !n ? DL_OK : whole ? dl_item_f(whole, norm) : dl_failed();
}

dl_status dl_clip_grad_norm(dl_tensor *const *params, long n, double max, double *norm) {
    return dl_clip_grad_norm_by(params, n, max, 2, 0, norm);
}

dl_status dl_clip_grad_norm_by(dl_tensor *const *params, long n, double max, double p, int finite, double *norm) {
    DL_SCOPED_INTERRUPT_HOLD(1);
    long count;
    double total = 0;
    dl_tensor **grad = grads_of(params, n, &count);
    dl_status st = !grad ? dl_failed() : p == 2 ? dl_grads_norm(grad, count, &total) : norm_by(grad, count, p, &total);
    if (norm) *norm = total;
    if (st == DL_OK && finite && !isfinite(total))
        st = dl_fail_hint(DL_ERR_VALUE, "why x.grad tells where it comes from", "the norm of the gradients is %g",
                          total);
    free(grad);
    return st == DL_OK ? dl_clip_grads_with_norm(params, n, max, total) : st;
}

dl_status dl_clip_grads_with_norm(dl_tensor *const *params, long n, double max, double norm) {
    DL_SCOPED_INTERRUPT_HOLD(1);
    long count;
    DL_FREED dl_tensor **grad = grads_of(params, n, &count);
    if (!grad) return dl_failed();
    dl_journal_clip(n ? params[0] : NULL, max, norm);
    double factor = dl_clip_factor(max, norm);
    return factor < 1 ? dl_grads_scale(grad, count, factor) : DL_OK;
}

dl_status dl_clip_grad_value(dl_tensor *const *params, long n, double max) {
    if (!(max > 0)) return dl_fail(DL_ERR_VALUE, "gradients are limited to a positive value, not %g", max);
    DL_SCOPED_INTERRUPT_HOLD(1);
    long count;
    DL_FREED dl_tensor **grad = grads_of(params, n, &count);
    dl_journal_clip(n ? params[0] : NULL, max, NAN);
    return grad ? dl_grads_clamp(grad, count, max) : dl_failed();
}
