/* Gradient rules of views and of writing into memory. */
#include "ops/grad.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/view.h"
#include "ops/rules/view.h"

#include <string.h>

dl_tensor *dl_zeros_like_in(dl_back *b, int i) {
    const dl_meta *m = dl_in_meta(b, i);
    dl_tensor *zero = T(dl_tensor_zeros(0, m->shape, m->dtype, m->device));
    return zero ? dl_expand(zero, m->shape, m->ndim) : NULL;
}

GRAD_RULE(reshape) {
    const dl_meta *m = dl_in_meta(b, 0);
    return dl_give(b, 0, dl_reshape(G0, m->shape, m->ndim));
}

GRAD_RULE(permute) {
    const dl_aval *dims = ATTR(b, PERMUTE_DIMS);
    long back[DL_MAX_DIM];
    for (int i = 0; i < dims->n; i++) back[dims->u.v[i] < 0 ? dims->u.v[i] + dims->n : dims->u.v[i]] = i;
    return dl_give(b, 0, dl_permute(G0, back, dims->n));
}

/* Any view whose elements do not overlap: zeros like the input, with the gradient written into the same view of them */
GRAD_RULE(view) {
    const dl_meta *m = dl_in_meta(b, 0);
    dl_tensor *zeros = T(dl_tensor_zeros(m->ndim, m->shape, m->dtype, m->device));
    if (!zeros) return dl_failed();
    dl_tensor *view = T(dl_invoke1(b->op, &zeros, 1, b->attr));
    if (!view) return dl_failed();
    DL_TRY(dl_assign(view, G0));
    return dl_give(b, 0, dl_ref(zeros));
}

/* The flat positions of a region, as an i64 tensor of its shape, owned by the pool. */
static dl_tensor *positions(dl_back *b, const dl_aval *size, const dl_aval *stride, long offset, int device) {
    dl_tensor *at = T(dl_full(size->u.v, 0, (double)offset, DL_I64, device));
    for (int d = 0; d < size->n && at; d++) {
        double stop = (double)size->u.v[d];
        long shape[DL_MAX_DIM];
        for (int i = 0; i < size->n; i++) shape[i] = i == d ? size->u.v[d] : 1;
        dl_tensor *steps = T(dl_mul(T(dl_arange(0, &stop, 1, DL_I64, device)), T(dl_scalar_i(stride->u.v[d]))));
        at = T(dl_add(at, T(dl_reshape(steps, shape, size->n))));
    }
    return at;
}

/* The flat image of a gradient divided by how often the input has each place: elements that share one share its
 * gradient, as in PyTorch. */
static dl_tensor *shared(dl_back *b, dl_tensor *flat, const dl_meta *m, long offset) {
    dl_aval size = {.n = m->ndim}, stride = {.n = m->ndim};
    const long all = -1;
    if (!flat || dl_strides_are_dense(m->ndim, m->shape, m->stride)) return flat;
    memcpy(size.u.v, m->shape, sizeof size.u.v), memcpy(stride.u.v, m->stride, sizeof stride.u.v);
    dl_tensor *at = T(dl_reshape(positions(b, &size, &stride, offset, m->device), &all, 1));
    dl_tensor *none = T(dl_tensor_zeros(1, flat->shape, m->dtype, m->device));
    dl_tensor *ones = at ? T(dl_full(at->shape, 1, 1, m->dtype, m->device)) : NULL;
    dl_tensor *count = ones ? T(dl_index_add(none, at, ones, 0)) : NULL;
    return count ? T(dl_div(flat, T(dl_maximum(count, NUM(1))))) : NULL;
}

/* Adds the gradient up in a flat image of the memory that input and view span, and views that as the input. Overlapping
 * elements, as of an expanded view, each add their part. */
GRAD_RULE(as_strided) {
    const dl_meta *m = dl_in_meta(b, 0);
    const dl_aval *size = ATTR(b, AS_STRIDED_SIZE), *stride = ATTR(b, AS_STRIDED_STRIDE);
    const long given = ATTR_I(b, AS_STRIDED_OFFSET), offset = given == -1 ? m->offset : given;
    long first = offset < m->offset ? offset : m->offset, span = 1;
    long end_in = m->offset - first, end_view = offset - first;
    for (int i = 0; i < m->ndim; i++) end_in += m->shape[i] ? (m->shape[i] - 1) * m->stride[i] : 0;
    for (int i = 0; i < size->n; i++) end_view += size->u.v[i] ? (size->u.v[i] - 1) * stride->u.v[i] : 0;
    span = (end_in > end_view ? end_in : end_view) + 1;
    dl_tensor *flat = T(dl_tensor_zeros(1, &span, m->dtype, m->device));
    if (!flat) return dl_failed();
    if (dl_strides_are_dense(size->n, size->u.v, stride->u.v)) {
        dl_tensor *view = T(dl_as_strided(flat, size->u.v, size->n, stride->u.v, size->n, offset - first));
        if (!view) return dl_failed();
        DL_TRY(dl_assign(view, G0));
    } else {
        const long all = -1;
        dl_tensor *at = T(dl_reshape(positions(b, size, stride, offset - first, m->device), &all, 1));
        flat = T(dl_index_add(flat, at, T(dl_reshape(G0, &all, 1)), 0));
    }
    flat = shared(b, flat, m, m->offset - first);
    if (!flat) return dl_failed();
    return dl_give(b, 0, dl_as_strided(flat, m->shape, m->ndim, m->stride, m->ndim, m->offset - first));
}

static bool has_strides(const dl_tensor *t, const dl_meta *m) {
    for (int i = 0; i < m->ndim; i++)
        if (m->shape[i] > 1 && t->stride[i] != m->stride[i]) return false;
    return true;
}

/* The input gets the gradient outside of the region, the value that of the region. The gradient is first given the
 * strides of the input, so that the region is the same in both. For the value alone it is not copied where it has them.
 */
GRAD_RULE(as_strided_set) {
    const dl_meta *m = dl_in_meta(b, 0);
    const dl_aval *size = ATTR(b, AS_STRIDED_SET_SIZE), *stride = ATTR(b, AS_STRIDED_SET_STRIDE);
    long offset = ATTR_I(b, AS_STRIDED_SET_OFFSET) - m->offset;
    if (!NEED(AS_STRIDED_SET_INPUT) && offset >= 0 && has_strides(G0, m)) {
        GIVE(AS_STRIDED_SET_VALUE, dl_as_strided(G0, size->u.v, size->n, stride->u.v, size->n, G0->offset + offset));
        return DL_OK;
    }
    dl_tensor *g = T(dl_restride(G0, m->stride, m->ndim));
    if (!g) return dl_failed();
    GIVE(AS_STRIDED_SET_VALUE, dl_as_strided(NEED(AS_STRIDED_SET_INPUT) ? T(dl_clone(g)) : g, size->u.v, size->n,
                                             stride->u.v, size->n, offset));
    if (!NEED(AS_STRIDED_SET_INPUT)) return DL_OK;
    dl_tensor *region = T(dl_as_strided(g, size->u.v, size->n, stride->u.v, size->n, offset));
    if (!region) return dl_failed();
    DL_TRY(dl_assign(region, NUM(0)));
    GIVE(AS_STRIDED_SET_INPUT, dl_ref(g));
    return DL_OK;
}
