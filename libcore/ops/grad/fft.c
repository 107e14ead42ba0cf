/* Gradient rules of Fourier transforms: transforms the other way. Of n real numbers there are n / 2 + 1 frequencies,
 * and all but the first, and of an even n the last, stand for two. */
#include "dlcore/arithmetic.h"
#include "dlcore/fft.h"
#include "dlcore/view.h"
#include "ops/rules/fft.h"

#include <stdlib.h>

GRAD_RULE(fft_complex) {
    const dl_aval *dim = ATTR(b, FFT_COMPLEX_DIM);
    return dl_give(b, 0,
                   dl_fft_complex(G0, dim->u.v, dim->n, !ATTR_I(b, FFT_COMPLEX_INVERSE), ATTR_F(b, FFT_COMPLEX_SCALE)));
}

/* How often each frequency of n numbers counts, along dimension d of the gradient's shape. */
static dl_tensor *counts(dl_back *b, const dl_tensor *like, int d, long n) {
    long shape[DL_MAX_DIM], m = n / 2 + 1;
    double *v = malloc((size_t)m * sizeof *v);
    if (!v) return dl_fail(DL_ERR_MEMORY, "no memory for %ld numbers", m), NULL;
    for (long k = 0; k < m; k++) v[k] = k == 0 || 2 * k == n ? 1 : 2;
    dl_tensor *t = T(dl_tensor_from(1, &m, DL_F64, like->st->device, v));
    free(v);
    for (int i = 0; i < like->ndim; i++) shape[i] = i == d ? m : 1;
    dl_tensor *cast = t ? T(dl_to_dtype(t, dl_dtype_of_parts(like->dtype))) : NULL;
    return cast ? T(dl_reshape(cast, shape, like->ndim)) : NULL;
}

GRAD_RULE(fft_from_real) {
    const dl_meta *m = dl_in_meta(b, 0);
    const dl_aval *dim = ATTR(b, FFT_FROM_REAL_DIM);
    int d;
    DL_TRY(dl_dim_norm(dim->u.v[dim->n - 1], m->ndim, &d));
    const long n = m->shape[d];
    dl_tensor *once = T(dl_div(G0, counts(b, G0, d, n)));
    return dl_give(b, 0, once ? dl_fft_to_real(once, dim->u.v, dim->n, n, ATTR_F(b, FFT_FROM_REAL_SCALE)) : NULL);
}

GRAD_RULE(fft_to_real) {
    const dl_aval *dim = ATTR(b, FFT_TO_REAL_DIM);
    int d;
    DL_TRY(dl_dim_norm(dim->u.v[dim->n - 1], dl_in_meta(b, 0)->ndim, &d));
    dl_tensor *g = T(dl_fft_from_real(G0, dim->u.v, dim->n, ATTR_F(b, FFT_TO_REAL_SCALE)));
    return dl_give(b, 0, g ? dl_mul(g, counts(b, g, d, ATTR_I(b, FFT_TO_REAL_N))) : NULL);
}
