/* Padding: by one value, or by elements of the tensor itself. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"
#include "ops/pad.h"
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

static const struct mode *mode_of(const char *name) {
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(name, modes[i].name)) return &modes[i];
    return NULL;
}

dl_tensor *dl_pad_places(long n, long before, long after, const char *mode, int device) {
    POOL;
    const double end = (double)(n + after);
    dl_tensor *at = K(dl_arange((double)-before, &end, 1, DL_I64, device)),
              *from = at ? mode_of(mode)->of(p, at, n) : NULL;
    return from ? dl_ref(from) : NULL;
}

long dl_pad_place(long at, long n, const char *mode) {
    if (*mode == 'c') return (at % n + n) % n;
    if (!strcmp(mode, "reflect")) return at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
    return at < 0 ? 0 : at >= n ? n - 1 : at;
}

static dl_status check_widths(const dl_tensor *x, const dl_aval *widths, const struct mode *m) {
    const int dims = widths->n / 2, nd = x->ndim;
    if (nd != dims + 1 && nd != dims + 2)
        return dl_fail_hint(DL_ERR_SHAPE, "give two widths for each dimension behind the channels",
                            "mode %s with %d widths takes a tensor of %d or %d dimensions, not %d", m->name, widths->n,
                            dims + 1, dims + 2, nd);
    for (int i = 0; i < dims; i++) {
        const long before = widths->u.v[2 * i], after = widths->u.v[2 * i + 1], n = x->shape[nd - 1 - i];
        if ((before || after) && (n < 1 || before > n - m->spare || after > n - m->spare || n + before + after < 1))
            return dl_fail_hint(DL_ERR_SHAPE, *m->limit ? m->limit : NULL,
                                "dimension %d of size %ld cannot be padded by %ld and %ld with mode %s", nd - 1 - i, n,
                                before, after, m->name);
    }
    return DL_OK;
}

/* From where the places of dimension d are taken, as [before + n + after, 1, ...] with `behind` sizes of 1; owned. */
static dl_tensor *taken(const dl_tensor *x, int d, long before, long after, const struct mode *m, int behind) {
    POOL;
    long shape[DL_MAX_DIM];
    const long n = x->shape[d];
    const double end = (double)(n + after);
    dl_tensor *at = K(dl_arange((double)-before, &end, 1, DL_I64, x->st->device));
    dl_tensor *from = at && (before || after) ? m->of(p, at, n) : at;
    for (int i = 0; i <= behind; i++) shape[i] = i ? 1 : n + before + after;
    return from ? dl_reshape(from, shape, 1 + behind) : NULL;
}

/* All padded dimensions are read at once, as one row of places. */
static dl_status by_places(dl_call *c, const dl_aval *widths, const struct mode *m) {
    POOL;
    dl_tensor *x = c->in[0], *at = NULL;
    const int dims = widths->n / 2, n = x->ndim;
    long shape[DL_MAX_DIM], outer = 1, inner = 1, row = 1;
    int first = dims, last = -1; /* of the padded ones, counted from the end */
    for (int i = 0; i < dims; i++)
        if (widths->u.v[2 * i] || widths->u.v[2 * i + 1]) first = i < first ? i : first, last = i;
    if (last < 0) return dl_finish(c, dl_clone(x));
    memcpy(shape, x->shape, sizeof shape);
    for (int i = 0; i < n; i++) *(i < n - 1 - last ? &outer : i > n - 1 - first ? &inner : &row) *= x->shape[i];
    for (int i = last; i >= first; i--) {
        const int d = n - 1 - i;
        dl_tensor *own = K(taken(x, d, widths->u.v[2 * i], widths->u.v[2 * i + 1], m, i - first));
        if (!own) return dl_failed();
        at = at ? K(dl_add(K(dl_mul(at, K(dl_scalar_i(x->shape[d])))), own)) : own;
        shape[d] += widths->u.v[2 * i] + widths->u.v[2 * i + 1];
        if (!at) return dl_failed();
    }
    dl_tensor *flat = K(dl_reshape(at, &at->numel, 1)), *rows = K(dl_reshape(x, (long[]){outer, row, inner}, 3));
    dl_tensor *picked = flat && rows ? K(dl_index_select(rows, flat, 1)) : NULL;
    return dl_finish(c, picked ? dl_reshape(picked, shape, n) : NULL);
}

COMPOSE_RULE(continued) { return by_places(c, ATTR(c, CONTINUED_PAD), mode_of(ATTR_S(c, CONTINUED_MODE))); }

/* The kernel takes what is added from what is there, which a negative width may have cut off. */
static dl_status by_mode(dl_call *c, const dl_aval *widths, const struct mode *m) {
    bool cuts = false;
    DL_TRY(check_widths(c->in[0], widths, m));
    for (int i = 0; i < widths->n; i++) cuts = cuts || widths->u.v[i] < 0;
    if (cuts) return by_places(c, widths, m);
    return dl_finish(c, dl_continued(c->in[0], widths->u.v, widths->n, m->name));
}

COMPOSE_RULE(pad) {
    const dl_aval *widths = ATTR(c, PAD_PAD);
    const char *mode = ATTR_S(c, PAD_MODE);
    if (widths->n % 2 || widths->n > 2 * c->in[0]->ndim)
        return dl_fail(DL_ERR_VALUE, "pad takes two widths a dimension, for at most %d dimensions, not %d widths",
                       c->in[0]->ndim, widths->n);
    if (!strcmp(mode, "constant")) return by_value(c, widths, dl_aval_number(ATTR(c, PAD_VALUE)));
    const struct mode *m = mode_of(mode);
    if (m) return by_mode(c, widths, m);
    return dl_fail(DL_ERR_VALUE, "mode is constant, reflect, replicate or circular, not '%s'", mode);
}
