/* Kernel of cross: a thread a vector, whose elements lie some bytes apart in each operand. */
#include "cuda/runtime/iter.cuh"
#include "ops/names/matmul.h"

template <class T> struct cross_f {
    long apart[3]; /* of result and operands */
    __device__ static calc_t<T> get(const char *p) { return dl_up(*(const T *)p); }
    __device__ void operator()(char *const *p) const {
        typedef calc_t<T> C;
        const long a = apart[1], b = apart[2];
        const C x = get(p[1]), y = get(p[1] + a), z = get(p[1] + 2 * a);
        const C u = get(p[2]), v = get(p[2] + b), w = get(p[2] + 2 * b);
        *(T *)p[0] = dl_convert<T, C>::of(y * w - z * v);
        *(T *)(p[0] + apart[0]) = dl_convert<T, C>::of(z * u - x * w);
        *(T *)(p[0] + 2 * apart[0]) = dl_convert<T, C>::of(x * v - y * u);
    }
};

static dl_status run(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *t[3] = {c->out[0], c->in[0], c->in[1]};
    long shape[DL_MAX_DIM], apart[3];
    const int nd = t[0]->ndim, dim = (int)ATTR_I(c, CROSS_DIM), d = dim < 0 ? dim + nd : dim;
    dl_it it;
    if (!t[0]->numel) return DL_OK;
    for (int i = 0; i < nd; i++) shape[i] = i == d ? 1 : t[0]->shape[i];
    dl_it_begin(&it, nd, shape);
    for (int k = 0; k < 3; k++) {
        long own[DL_MAX_DIM];
        for (int i = 0; i < nd; i++) own[i] = i == d ? 1 : t[k]->shape[i];
        apart[k] = t[k]->shape[d] == 3 ? t[k]->stride[d] * (long)dl_esize(t[k]) : 0;
        dl_it_operand(&it, dl_ptr(t[k]), dl_esize(t[k]), nd, own, t[k]->stride);
    }
    dl_it_end(&it);
    return dl_dispatch<DL_FLOATS>(t[0]->dtype, [&](auto tag) {
        return dl_places<3>(g, it, cross_f<decltype(tag)>{{apart[0], apart[1], apart[2]}});
    });
}
const dl_kernel dl_cuda_cross = {run, NULL, DL_FLOATS, NULL, 0};
