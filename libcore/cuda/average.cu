/* Kernels of average pooling and of its gradient: a thread a pixel of the result, which is a weighted sum over a
 * rectangle of the other image, in a fixed order. */
#include "cuda/images.cuh"
#include "ops/average.h"

/* Operands: result, the plane of the other image, row, column. */
template <class T> struct average_f {
    dl_average g;
    dl_plane x;
    bool back;
    __device__ void operator()(char *const *p) const {
        const T *plane = (const T *)p[1];
        long row = (long)p[2], col = (long)p[3], y0, y1, z0, z1, lo, hi, ny = 1, nz = 1, n;
        double sum = 0;
        if (back) {
            dl_average_cover(&g, 0, row, &y0, &y1);
            dl_average_cover(&g, 1, col, &z0, &z1);
        } else {
            dl_average_window(&g, 0, row, &y0, &y1, &ny);
            dl_average_window(&g, 1, col, &z0, &z1, &nz);
        }
        for (long y = y0; y < y1; y++) {
            double line = 0;
            for (long z = z0; z < z1; z++) {
                double v = (double)dl_up(plane[y * x.h + z * x.w]);
                if (back) dl_average_window(&g, 1, z, &lo, &hi, &n), v /= (double)n;
                line += v;
            }
            if (back) dl_average_window(&g, 0, y, &lo, &hi, &n), line /= (double)n;
            sum += line;
        }
        *(T *)p[0] = dl_down<T>((calc_t<T>)(sum / (double)(ny * nz)));
    }
};

static dl_status run_average(dl_call *c) {
    dl_gpu *gpu = dl_gpu_use(c->device);
    dl_tensor *o = c->out[0], *x = c->in[0];
    dl_average g;
    if (!gpu) return dl_error_last()->code;
    dl_status s = dl_average_of(c, &g);
    if (s != DL_OK) return s;
    bool back = c->op->id == DL_OP_avg_pool2d_dx || c->op->id == DL_OP_adaptive_pool2d_dx;
    dl_it it;
    dl_it_pixels(&it, o);
    dl_it_plane(&it, o, x);
    dl_it_row_col(&it, o);
    dl_it_end(&it);
    return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        return dl_places<4>(gpu, it, average_f<decltype(tag)>{g, dl_plane_of(x), back});
    });
}

const dl_kernel dl_cuda_avg_pool2d = {run_average, NULL, DL_FLOATS, NULL, 0};
const dl_kernel dl_cuda_avg_pool2d_dx = {run_average, NULL, DL_FLOATS, NULL, 0};
const dl_kernel dl_cuda_adaptive_pool2d = {run_average, NULL, DL_FLOATS, NULL, 0};
const dl_kernel dl_cuda_adaptive_pool2d_dx = {run_average, NULL, DL_FLOATS, NULL, 0};
