/* Padding: by one value, or by elements of the tensor itself. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"
#include "ops/rules/index.h"

#include <string.h>

/* t without the elements of dimension d that negative widths cut off; takes over the reference. */
static dl_tensor *cut(dl_tensor *t, int d, long before, long after) {
    long from = before < 0 ? -before : 0, to = t->shape[d] + (after < 0 ? after : 0);
    if (from == 0 && to == t->shape[d]) return t;
    DL_OWNED dl_tensor *taken = t;
    if (t->shape[d] + before + after < 0)
        return dl_fail(DL_ERR_SHAPE, "%ld cannot be cut off a dimension of size %ld",
                       -(before < 0 ? before : 0) - after, t->shape[d]),
               NULL;
    if (to < from) from = to = 0;
    return dl_slice(t, d, &from, &to, 1);
}

/* A tensor of the value, with the rest of the input written into it. */
static dl_status by_value(dl_call *c, const dl_aval *widths, double value) {
    const dl_tensor *x = c->in[0];
    long shape[DL_MAX_DIM], stride[DL_MAX_DIM], offset = 0;
    int n = x->ndim;
    memcpy(shape, x->shape, sizeof shape);
    DL_OWNED dl_tensor *t = dl_ref(c->in[0]);
    for (int i = 0; i < widths->n / 2 && t; i++) {
        int d = n - 1 - i;
        long before = widths->u.v[2 * i], after = widths->u.v[2 * i + 1];
        shape[d] += before + after;
        t = cut(t, d, before, after);
    }
    if (!t) return dl_failed();
    int64_t numel;
    DL_TRY(dl_shape_check(n, shape, &numel));
    dl_strides_contiguous(n, shape, stride);
    for (int i = 0; i < widths->n / 2; i++)
        if (widths->u.v[2 * i] > 0) offset += widths->u.v[2 * i] * stride[n - 1 - i];
    DL_OWNED dl_tensor *full = dl_full(shape, n, value, t->dtype, t->st->device);
    return dl_finish(c, full ? dl_as_strided_set(full, t, t->shape, n, stride, n, offset) : NULL);
}

/* ---- modes that continue the tensor: for each place of the result the place it is taken from */

typedef dl_tensor *places(dl_pool *p, dl_tensor *at, long n);

static dl_tensor *mirrored(dl_pool *p, dl_tensor *at, long n) {
    dl_tensor *last = K(dl_scalar_i(n - 1)), *back = K(dl_sub(last, K(dl_abs(at))));
    return K(dl_sub(last, K(dl_abs(back))));
}
static dl_tensor *held(dl_pool *p, dl_tensor *at, long n) {
    const double least = 0, most = (double)(n - 1);
    return K(dl_clamp(at, &least, &most));
}
static dl_tensor *around(dl_pool *p, dl_tensor *at, long n) { return K(dl_remainder(at, K(dl_scalar_i(n)))); }

/* How many elements more than there are a width may take is `spare` less than the size. */
static const struct mode {
    const char *name;
    places *of;
    long spare;
    const char *limit;
} modes[] = {{"reflect", mirrored, 1, "reflection takes fewer elements than there are"},
             {"circular", around, 0, "a turn takes at most all elements"},
             {"replicate", held, -DL_MAX_COUNT, ""}};

static dl_tensor *continued(dl_tensor *x, int d, long before, long after, const struct mode *m) {
    POOL;
    const long n = x->shape[d];
    if (n < 1 || before > n - m->spare || after > n - m->spare || n + before + after < 1) {
        dl_fail_hint(DL_ERR_SHAPE, *m->limit ? m->limit : NULL,
                     "dimension %d of size %ld cannot be padded by %ld and %ld with mode %s", d, n, before, after,
                     m->name);
        return NULL;
    }
    const double end = (double)(n + after);
    dl_tensor *at = K(dl_arange((double)-before, &end, 1, DL_I64, x->st->device));
    dl_tensor *from = at ? m->of(p, at, n) : NULL;
    return from ? dl_index_select(x, from, d) : NULL;
}

static dl_status by_places(dl_call *c, const dl_aval *widths, const struct mode *m) {
    const int dims = widths->n / 2, n = c->in[0]->ndim;
    if (n != dims + 1 && n != dims + 2)
        return dl_fail_hint(DL_ERR_SHAPE, "give two widths for each dimension behind the channels",
                            "mode %s with %d widths takes a tensor of %d or %d dimensions, not %d", m->name, widths->n,
                            dims + 1, dims + 2, n);
    dl_tensor *t = dl_ref(c->in[0]);
    for (int i = 0; i < dims && t; i++) {
        DL_OWNED dl_tensor *old = t;
        const long before = widths->u.v[2 * i], after = widths->u.v[2 * i + 1];
        t = before || after ? continued(old, n - 1 - i, before, after, m) : dl_ref(old);
    }
    if (t != c->in[0]) return dl_finish(c, t);
    DL_OWNED dl_tensor *same = t;
    return dl_finish(c, dl_clone(same));
}

COMPOSE_RULE(pad) {
    const dl_aval *widths = ATTR(c, PAD_PAD);
    const char *mode = ATTR_S(c, PAD_MODE);
    if (widths->n % 2 || widths->n > 2 * c->in[0]->ndim)
        return dl_fail(DL_ERR_VALUE, "pad takes two widths a dimension, for at most %d dimensions, not %d widths",
                       c->in[0]->ndim, widths->n);
    if (!strcmp(mode, "constant")) return by_value(c, widths, dl_aval_number(ATTR(c, PAD_VALUE)));
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(mode, modes[i].name)) return by_places(c, widths, &modes[i]);
    return dl_fail(DL_ERR_VALUE, "mode is constant, reflect, replicate or circular, not '%s'", mode);
}
