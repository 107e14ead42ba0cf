/* Shapes and strides: checks, broadcasting, text. */
#include "core/tensor.h"

#include <stdio.h>
#include <stdlib.h>

const char *dl_shape_text(int ndim, const long *shape) {
    enum { TEXTS = 4, SIZE = 192 };
    static _Thread_local char texts[TEXTS][SIZE];
    static _Thread_local unsigned calls;
    char *text = texts[calls++ % TEXTS];
    int n = snprintf(text, SIZE, "[");
    for (int i = 0; i < ndim && n < SIZE; i++)
        n += snprintf(text + n, (size_t)(SIZE - n), "%s%ld", i ? "," : "", shape[i]);
    if (n < SIZE) snprintf(text + n, (size_t)(SIZE - n), "]");
    return text;
}

dl_status dl_shape_check(int ndim, const long *shape, int64_t *numel) {
    if (ndim < 0 || ndim > DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "a tensor has at most %d dimensions, not %d", DL_MAX_DIM, ndim);
    int64_t span = 1, n = 1; /* span ignores zeros, so that a huge shape with a 0 in it is still refused */
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return dl_fail(DL_ERR_SHAPE, "size %ld in shape %s is negative", shape[i], dl_shape_text(ndim, shape));
        if (!dl_count_mul(&span, shape[i] ? shape[i] : 1))
            return dl_fail(DL_ERR_SHAPE, "shape %s is too large to address", dl_shape_text(ndim, shape));
        n *= shape[i];
    }
    *numel = n;
    return DL_OK;
}

long dl_shape_count(int ndim, const long *shape) {
    int64_t n;
    return dl_shape_check(ndim, shape, &n) == DL_OK ? (long)n : -1;
}

void dl_strides_contiguous(int ndim, const long *shape, long *stride) {
    unsigned long s = 1; /* wraps for shapes that dl_shape_check refuses when the tensor is made */
    for (int i = ndim - 1; i >= 0; i--) {
        stride[i] = (long)s;
        s *= shape[i] > 1 ? (unsigned long)shape[i] : 1;
    }
}

bool dl_strides_are_contiguous(int ndim, const long *shape, const long *stride) {
    long want = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        if (shape[i] == 0) return true;
        if (shape[i] != 1 && stride[i] != want) return false;
        want *= shape[i];
    }
    return true;
}

bool dl_strides_are_dense(int ndim, const long *shape, const long *stride) {
    int order[DL_MAX_DIM], n = 0;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 0) return true;
        if (shape[i] == 1) continue;
        int j = n++;
        for (; j > 0 && labs(stride[order[j - 1]]) > labs(stride[i]); j--) order[j] = order[j - 1];
        order[j] = i;
    }
    long span = 0; /* largest distance reachable with the dims so far */
    for (int k = 0; k < n; k++) {
        long s = labs(stride[order[k]]);
        if (s <= span) return false;
        span += s * (shape[order[k]] - 1);
    }
    return true;
}

bool dl_is_dense(const dl_tensor *t) {
    long span = 1;
    for (int i = 0; i < t->ndim; i++) span += (t->shape[i] - 1) * t->stride[i];
    return !t->numel || (span == t->numel && dl_strides_are_dense(t->ndim, t->shape, t->stride));
}

dl_status dl_broadcast(int na, const long *a, int nb, const long *b, int *nout, long *out) {
    int n = na > nb ? na : nb;
    long res[DL_MAX_DIM];
    for (int i = 1; i <= n; i++) {
        long x = i <= na ? a[na - i] : 1, y = i <= nb ? b[nb - i] : 1;
        if (x != y && x != 1 && y != 1)
            return dl_fail_hint(DL_ERR_SHAPE, "sizes must be equal or 1, counted from the last dimension",
                                "shapes %s and %s do not broadcast: %ld against %ld in dimension %d",
                                dl_shape_text(na, a), dl_shape_text(nb, b), x, y, n - i);
        res[n - i] = x == 1 ? y : x;
    }
    for (int i = 0; i < n; i++) out[i] = res[i];
    *nout = n;
    return DL_OK;
}

dl_status dl_dim_norm(long dim, int ndim, int *out) {
    int n = ndim ? ndim : 1;
    if (dim < -n || dim >= n)
        return dl_fail(DL_ERR_INDEX, "dimension %ld is outside -%d..%d of a %d-d tensor", dim, n, n - 1, ndim);
    *out = (int)(dim < 0 ? dim + n : dim);
    return DL_OK;
}
