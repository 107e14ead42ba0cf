/* Shape rules of views: where their elements lie in the memory of the input. */
#include "ops/infer.h"
#include "autograd/journal.h"
#include "ops/rules/view.h"

#include <string.h>

#define TEXT(list) dl_shape_text((list)->n, (list)->u.v)

/* The input itself, to be changed into the view. */
static void start(const dl_call *c, dl_meta *out) {
    *out = dl_meta_of(c->in[0]);
    out->alias = 0;
}

static dl_status check_count(const dl_aval *list, const char *what) {
    if (list->n > DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "a tensor has at most %d dimensions; %s has more", DL_MAX_DIM, what);
    return DL_OK;
}

/* ---- reshape */

/* Fills in a size of -1 and checks the number of elements. */
static dl_status resolve(const dl_tensor *x, const dl_aval *want, long *shape) {
    long known = 1, at = -1;
    DL_TRY(check_count(want, "the shape"));
    for (int i = 0; i < want->n; i++) {
        shape[i] = want->u.v[i];
        if (shape[i] == -1 && at >= 0) return dl_fail(DL_ERR_SHAPE, "only one size of %s can be -1", TEXT(want));
        if (shape[i] < -1) return dl_fail(DL_ERR_SHAPE, "size %ld in shape %s is negative", shape[i], TEXT(want));
        if (shape[i] == -1)
            at = i;
        else if (__builtin_mul_overflow(known, shape[i], &known))
            return dl_fail(DL_ERR_SHAPE, "shape %s is too large to address", TEXT(want));
    }
    if (at >= 0 && known == 0)
        return dl_fail(DL_ERR_SHAPE, "the size -1 in %s could be anything, because another one is 0", TEXT(want));
    if (at >= 0 && x->numel % known == 0) {
        shape[at] = x->numel / known;
        known = x->numel;
    }
    if (known == x->numel) return DL_OK;
    return dl_fail_hint(DL_ERR_SHAPE, "the sizes must multiply to the same number",
                        "%ld elements of shape %s do not fit shape %s", (long)x->numel, dl_shape_of(x), TEXT(want));
}

/* Strides of a view of x with another shape; false where there is none. Contiguous runs of dimensions are split into
 * the new sizes. */
static bool view_strides(const dl_tensor *x, int ndim, const long *shape, long *stride) {
    if (x->numel == 0) return dl_strides_contiguous(ndim, shape, stride), true;
    int d = ndim - 1;
    long step = x->ndim ? x->stride[x->ndim - 1] : 1, have = 1, used = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        have *= x->shape[i];
        if (i > 0 && (x->shape[i - 1] == 1 || x->stride[i - 1] == have * step)) continue;
        while (d >= 0 && (used < have || shape[d] == 1)) {
            stride[d] = used * step;
            used *= shape[d--];
        }
        if (used != have) return false;
        if (i > 0) step = x->stride[i - 1], have = used = 1;
    }
    while (d >= 0) stride[d--] = 1; /* sizes of 1 in front, or all of a 0-d input */
    return true;
}

INFER_RULE(reshape) {
    const dl_tensor *x = c->in[0];
    long shape[DL_MAX_DIM];
    DL_TRY(resolve(x, ATTR(c, RESHAPE_SHAPE), shape));
    start(c, out);
    out->ndim = ATTR(c, RESHAPE_SHAPE)->n;
    memcpy(out->shape, shape, sizeof shape);
    dl_journal_reshaped(x, out->ndim, shape);
    if (view_strides(x, out->ndim, shape, out->stride)) return DL_OK;
    out->alias = -1;
    out->offset = 0;
    out->strided = false;
    return DL_OK;
}

/* ---- dimensions */

INFER_RULE(permute) {
    const dl_tensor *x = c->in[0];
    const dl_aval *dims = ATTR(c, PERMUTE_DIMS);
    unsigned seen = 0;
    start(c, out);
    if (dims->n != x->ndim) return dl_fail(DL_ERR_SHAPE, "%d dimensions are given for a %d-d tensor", dims->n, x->ndim);
    for (int i = 0; i < x->ndim; i++) {
        int d;
        DL_TRY(dl_dim_norm(dims->u.v[i], x->ndim, &d));
        if (seen >> d & 1) return dl_fail(DL_ERR_VALUE, "dimension %d is named twice", d);
        seen |= 1u << d;
        out->shape[i] = x->shape[d];
        out->stride[i] = x->stride[d];
    }
    return DL_OK;
}

INFER_RULE(expand) {
    const dl_tensor *x = c->in[0];
    const dl_aval *size = ATTR(c, EXPAND_SIZE);
    DL_TRY(check_count(size, "the size"));
    start(c, out);
    int lead = size->n - x->ndim;
    if (lead < 0)
        return dl_fail(DL_ERR_SHAPE, "shape %s cannot be expanded to the fewer dimensions of %s", dl_shape_of(x),
                       TEXT(size));
    out->ndim = size->n;
    for (int i = 0; i < size->n; i++) {
        long want = size->u.v[i], have = i < lead ? 1 : x->shape[i - lead];
        if (want == -1 && i >= lead) want = have;
        if (want < 0) return dl_fail(DL_ERR_SHAPE, "size %ld in %s is negative", want, TEXT(size));
        if (want != have && have != 1)
            return dl_fail_hint(DL_ERR_SHAPE, "only sizes of 1 can be repeated", "shape %s cannot be expanded to %s",
                                dl_shape_of(x), TEXT(size));
        out->shape[i] = want;
        out->stride[i] = i < lead || want != have ? 0 : x->stride[i - lead];
    }
    return DL_OK;
}

/* A bound of a slice, where negative ones count from the end, limited to 0..size. */
static long bound(const dl_aval *a, long size, long dflt) {
    if (!a->given) return dflt;
    long i = a->u.i < 0 ? a->u.i + size : a->u.i;
    return i < 0 ? 0 : i > size ? size : i;
}

INFER_RULE(slice) {
    const dl_tensor *x = c->in[0];
    long step = ATTR_I(c, SLICE_STEP);
    int d;
    if (!x->ndim) return dl_fail(DL_ERR_INDEX, "a 0-d tensor has no dimension to slice");
    DL_TRY(dl_dim_norm(ATTR_I(c, SLICE_DIM), x->ndim, &d));
    if (step < 1)
        return dl_fail_hint(DL_ERR_VALUE, "use flip() to reverse", "the step of a slice must be at least 1, not %ld",
                            step);
    start(c, out);
    long lo = bound(ATTR(c, SLICE_START), x->shape[d], 0), hi = bound(ATTR(c, SLICE_END), x->shape[d], x->shape[d]);
    long n = hi > lo ? (hi - lo - 1) / step + 1 : 0;
    out->shape[d] = n;
    if (n) out->offset += lo * x->stride[d];
    if (n > 1) out->stride[d] *= step;
    return DL_OK;
}

INFER_RULE(select) {
    const dl_tensor *x = c->in[0];
    long i = ATTR_I(c, SELECT_INDEX);
    int d;
    if (!x->ndim) return dl_fail(DL_ERR_INDEX, "a 0-d tensor cannot be indexed");
    DL_TRY(dl_dim_norm(ATTR_I(c, SELECT_DIM), x->ndim, &d));
    if (i < -x->shape[d] || i >= x->shape[d]) return dl_fail_index(i, d, x->shape[d]);
    start(c, out);
    out->offset += (i < 0 ? i + x->shape[d] : i) * x->stride[d];
    out->ndim--;
    for (int k = d; k < out->ndim; k++) {
        out->shape[k] = x->shape[k + 1];
        out->stride[k] = x->stride[k + 1];
    }
    return DL_OK;
}

INFER_RULE(diagonal) {
    const dl_tensor *x = c->in[0];
    long off = ATTR_I(c, DIAGONAL_OFFSET);
    int a, b, n = 0;
    if (x->ndim < 2) return dl_fail(DL_ERR_SHAPE, "a diagonal needs two dimensions, not %d", x->ndim);
    DL_TRY(dl_dim_norm(ATTR_I(c, DIAGONAL_DIM1), x->ndim, &a));
    DL_TRY(dl_dim_norm(ATTR_I(c, DIAGONAL_DIM2), x->ndim, &b));
    if (a == b) return dl_fail(DL_ERR_VALUE, "dim1 and dim2 are both %d", a);
    off = off < -DL_MAX_COUNT ? -DL_MAX_COUNT : off; /* beyond any size */
    start(c, out);
    long rows = x->shape[a] - (off < 0 ? -off : 0), cols = x->shape[b] - (off > 0 ? off : 0);
    long len = rows < cols ? rows : cols;
    if (len < 0) len = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (d == a || d == b) continue;
        out->shape[n] = x->shape[d];
        out->stride[n++] = x->stride[d];
    }
    out->shape[n] = len;
    out->stride[n++] = x->stride[a] + x->stride[b];
    out->ndim = (int8_t)n;
    if (len) out->offset += off > 0 ? off * x->stride[b] : -off * x->stride[a];
    return DL_OK;
}

/* ---- regions of the memory */

static dl_status check_region(const dl_call *c, const dl_aval *size, const dl_aval *stride, long offset) {
    const dl_tensor *x = c->in[0];
    DL_TRY(check_count(size, "the size"));
    if (size->n != stride->n) return dl_fail(DL_ERR_SHAPE, "%d sizes and %d strides are given", size->n, stride->n);
    int64_t numel, last = offset, end = (int64_t)(x->st->bytes / dl_esize(x));
    DL_TRY(dl_shape_check(size->n, size->u.v, &numel));
    for (int i = 0; i < size->n; i++) {
        if (stride->u.v[i] < 0) return dl_fail(DL_ERR_VALUE, "stride %ld is negative", stride->u.v[i]);
        int64_t span;
        if (numel && (__builtin_mul_overflow(size->u.v[i] - 1, stride->u.v[i], &span) ||
                      __builtin_add_overflow(last, span, &last)))
            return dl_fail(DL_ERR_INDEX, "the region is too large to address");
    }
    if (offset < 0) return dl_fail(DL_ERR_INDEX, "the region begins at element %ld, before the memory", offset);
    if (numel && last >= end)
        return dl_fail(DL_ERR_INDEX, "the region reaches element %ld; the memory holds %ld", (long)last, (long)end);
    return DL_OK;
}

INFER_RULE(as_strided) {
    const dl_aval *size = ATTR(c, STRIDED_SIZE), *stride = ATTR(c, STRIDED_STRIDE);
    const long given = ATTR_I(c, STRIDED_OFFSET), offset = given == -1 ? c->in[0]->offset : given;
    DL_TRY(check_region(c, size, stride, offset));
    start(c, out);
    out->ndim = size->n;
    out->offset = offset;
    memcpy(out->shape, size->u.v, sizeof out->shape);
    memcpy(out->stride, stride->u.v, sizeof out->stride);
    return DL_OK;
}

INFER_RULE(as_strided_set) {
    const dl_aval *size = ATTR(c, STRIDED_SIZE);
    const dl_tensor *v = c->in[1];
    DL_TRY(check_region(c, size, ATTR(c, STRIDED_STRIDE), ATTR_I(c, STRIDED_OFFSET)));
    long shape[DL_MAX_DIM];
    int ndim;
    DL_TRY(dl_broadcast(size->n, size->u.v, v->ndim, v->shape, &ndim, shape));
    if (!dl_sizes_eq(ndim, shape, size->n, size->u.v))
        return dl_fail_hint(
            DL_ERR_SHAPE, "the value must have the region's shape, or sizes of 1 where it is to be repeated",
            "a value of shape %s cannot be written into a region of shape %s", dl_shape_of(v), TEXT(size));
    start(c, out);
    return DL_OK;
}
