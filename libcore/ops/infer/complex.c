/* Shape rules of views of complex numbers and of their parts. */
#include "ops/rules/arithmetic.h"
#include "ops/rules/complex.h"

INFER_RULE(view_as_real) {
    const dl_tensor *x = c->in[0];
    if (!dl_dtype_is_complex(x->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "complex(re, im) makes complex numbers", "numbers of %s have no parts",
                            dl_type_of(x));
    if (x->ndim == DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "a tensor has at most %d dimensions; the parts would be one more", DL_MAX_DIM);
    *out = dl_meta_of(x);
    out->alias = 0;
    out->dtype = (int8_t)dl_dtype_of_parts(x->dtype);
    out->offset *= 2;
    for (int i = 0; i < x->ndim; i++) out->stride[i] *= 2;
    out->shape[x->ndim] = 2;
    out->stride[x->ndim] = 1;
    out->ndim++;
    return DL_OK;
}

/* Whether the parts of each number stand together, at a place that is a whole number of pairs. */
static bool pairs(const dl_tensor *x) {
    int last = x->ndim - 1;
    bool even = x->stride[last] == 1 && x->offset % 2 == 0;
    for (int i = 0; i < last; i++) even = even && (x->stride[i] % 2 == 0 || x->shape[i] < 2);
    return even || !x->numel;
}

INFER_RULE(joined) {
    DL_TRY(dl_infer_broadcast(c, out));
    out->dtype = (int8_t)dl_dtype_to_complex(out->dtype);
    return DL_OK;
}

INFER_RULE(view_as_complex) {
    const dl_tensor *x = c->in[0];
    if (x->dtype != DL_F32 && x->dtype != DL_F64)
        return dl_fail_hint(DL_ERR_DTYPE, "convert it with .to(f32)",
                            "the parts of complex numbers are f32 or f64, not %s", dl_type_of(x));
    if (!x->ndim || x->shape[x->ndim - 1] != 2)
        return dl_fail(DL_ERR_SHAPE, "the last dimension must have the two parts of each number; the shape is %s",
                       dl_shape_of(x));
    if (!pairs(x))
        return dl_fail_hint(DL_ERR_SHAPE, "x.contiguous() has them so",
                            "the two parts of each number do not stand together in memory");
    *out = dl_meta_of(x);
    out->alias = 0;
    out->dtype = (int8_t)dl_dtype_to_complex(x->dtype);
    out->offset /= 2;
    for (int i = 0; i < x->ndim; i++) out->stride[i] /= 2;
    out->ndim--;
    return DL_OK;
}
