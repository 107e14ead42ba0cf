/* Kernels of tril and triu. */
#include "cuda/runtime/iter.cuh"
#include "ops/names/index.h"

/* p[2], which is not an address, counts column - row. */
template <class T> struct triangle_f {
    long diagonal;
    bool upper;
    __device__ void operator()(char *const p[3]) const {
        long at = (long)p[2];
        bool inside = upper ? at >= diagonal : at <= diagonal;
        *(T *)p[0] = inside ? *(const T *)p[1] : T();
    }
};

static dl_status run(dl_call *c, bool upper) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0], *x = c->in[0];
    long step[DL_MAX_DIM] = {0};
    step[o->ndim - 2] = -1, step[o->ndim - 1] = 1;
    dl_it it;
    dl_it_begin(&it, o->ndim, o->shape);
    dl_it_tensor(&it, o);
    dl_it_tensor(&it, x);
    dl_it_count(&it, o->ndim, o->shape, step);
    dl_it_end(&it);
    return dl_dispatch_size<16>(dl_esize(o), [&](auto tag) {
        return dl_places<3>(g, it, triangle_f<decltype(tag)>{ATTR_I(c, TRIANGLE_DIAGONAL), upper});
    });
}

static dl_status run_tril(dl_call *c) { return run(c, false); }
static dl_status run_triu(dl_call *c) { return run(c, true); }
const dl_kernel dl_cuda_tril = {run_tril, NULL, DL_ALL, NULL, 0};
const dl_kernel dl_cuda_triu = {run_triu, NULL, DL_ALL, NULL, 0};
