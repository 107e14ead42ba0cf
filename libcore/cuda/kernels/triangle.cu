/* Kernels of tril and triu, and of the places in a triangle. */
#include "cuda/runtime/iter.cuh"
#include "ops/infer/corner.h"
#include "ops/names/create.h"
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

/* Each warp writes whole rows: of n places the rows, then the columns. */
enum { WARPS = 8 };
__global__ static void places_kernel(long *at, long n, const __grid_constant__ dl_corner t) {
    for (long row = (long)blockIdx.x * WARPS + threadIdx.y; row < t.rows; row += (long)gridDim.x * WARPS) {
        long end, from = dl_corner_row(&t, row, &end), *to = at + dl_corner_before(&t, row) - from;
        for (long j = from + threadIdx.x; j < end; j += 32) to[j] = row, to[n + j] = j;
    }
}

static dl_status run_triangle_places(dl_call *c) {
    DL_USE_GPU(g, c->device);
    const dl_corner t = {ATTR_I(c, TRIANGLE_PLACES_ROW), ATTR_I(c, TRIANGLE_PLACES_COL),
                         ATTR_I(c, TRIANGLE_PLACES_OFFSET), ATTR_I(c, TRIANGLE_PLACES_LOWER) != 0};
    dl_tensor *o = c->out[0];
    if (!o->numel) return DL_OK;
    places_kernel<<<dl_blocks(t.rows, WARPS), dim3(32, WARPS), 0, g->stream>>>(dl_data<long>(o), (long)o->shape[1], t);
    return dl_gpu_launched(g);
}
/* Results are i64, whatever the dtype of a call without inputs is. */
const dl_kernel dl_cuda_triangle_places = {run_triangle_places, NULL, DL_ALL, NULL, 0};
