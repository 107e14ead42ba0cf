/* Shape rules of Fourier transforms. */
#include "ops/infer.h"
#include "ops/rules/fft.h"

INFER_RULE(fft_complex) {
    const dl_tensor *x = c->in[0];
    *out = dl_meta_fresh(c, c->dtype, x->ndim, x->shape);
    return DL_OK;
}

INFER_RULE(fft_from_real) {
    const dl_tensor *x = c->in[0];
    const dl_aval *dim = ATTR(c, FFT_FROM_REAL_DIM);
    int d;
    DL_TRY(dl_dim_norm(dim->u.v[dim->n - 1], x->ndim, &d));
    if (!x->shape[d]) return dl_fail(DL_ERR_SHAPE, "a transform is of 1 element or more, not of 0");
    *out = dl_meta_fresh(c, dl_dtype_to_complex(c->dtype), x->ndim, x->shape);
    out->shape[d] = x->shape[d] / 2 + 1;
    return DL_OK;
}

INFER_RULE(fft_to_real) {
    const dl_tensor *x = c->in[0];
    const dl_aval *dim = ATTR(c, FFT_TO_REAL_DIM);
    const long n = ATTR_I(c, FFT_TO_REAL_N);
    int d;
    DL_TRY(dl_dim_norm(dim->u.v[dim->n - 1], x->ndim, &d));
    if (n < 1 || x->shape[d] != n / 2 + 1)
        return dl_fail(DL_ERR_SHAPE, "%ld real numbers have %ld frequencies, not %ld", n, n / 2 + 1, x->shape[d]);
    *out = dl_meta_fresh(c, dl_dtype_of_parts(c->dtype), x->ndim, x->shape);
    out->shape[d] = n;
    return DL_OK;
}
