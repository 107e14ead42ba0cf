/* Strided 1x1 convolutions without padding as convolutions of stride 1 over the pixels that their windows read; the
 * gradient of the other pixels is zero. oneDNN does the same in scratch memory, which its kernels of backward weights
 * overrun for channels-last images (2.6 to 3.6: they count the scratch memory in blocks of channels but store whole
 * pixels there). So the pixels are gathered here, and no primitive is given such a stride. */
#include "cpu/conv/conv.h"
#include "cpu/runtime/iter.h"

#include <string.h>

bool dl_conv_is_strided_1x1(const dl_conv *g) {
    for (int d = 0; d < 2; d++)
        if (g->k[d] != 1 || g->pad[d]) return false;
    return g->stride[0] > 1 || g->stride[1] > 1;
}

dl_conv dl_conv_unstrided(const dl_conv *g) {
    dl_conv r = *g;
    for (int d = 0; d < 2; d++) r.in[d] = g->out[d], r.stride[d] = 1;
    return r;
}

/* Source and target of a copy of pixels, whose channels are dense; strides in elements. */
typedef struct pixels {
    const dl_conv *g;
    const float *from;
    float *to;
    const long *fs, *ts;
} pixels;

static inline void copy_pixel(float *to, const float *from, long n) {
    for (long c = 0; c < n; c++) to[c] = from[c];
}

static void gather_row(void *arg, long i) {
    const pixels *p = arg;
    const dl_conv *g = p->g;
    long n = i / g->out[0], y = i % g->out[0], step = g->stride[1] * p->fs[3];
    const float *from = p->from + n * p->fs[0] + y * g->stride[0] * p->fs[2];
    float *to = p->to + n * p->ts[0] + y * p->ts[2];
    for (long x = 0; x < g->out[1]; x++, from += step, to += p->ts[3]) copy_pixel(to, from, g->C);
}

static void scatter_row(void *arg, long i) {
    const pixels *p = arg;
    const dl_conv *g = p->g;
    long n = i / g->in[0], h = i % g->in[0], y = h / g->stride[0], step = g->stride[1] * g->C;
    float *to = p->to + n * p->ts[0] + h * p->ts[2];
    const float *from = p->from + n * p->fs[0] + y * p->fs[2];
    memset(to, 0, (size_t)(g->in[1] * g->C) * sizeof *to);
    if (h % g->stride[0] == 0 && y < g->out[0])
        for (long x = 0; x < g->out[1]; x++, to += step, from += p->fs[3]) copy_pixel(to, from, g->C);
}

void dl_conv_gather_pixels(const dl_conv *g, dl_tensor *dense, const dl_tensor *image) {
    const long *s = image->stride;
    pixels p = {g, dl_ptr(image), dl_ptr(dense), s, dense->stride};
    if (s[1] == 1 || g->C == 1)
        dl_cpu_for(g->N * g->out[0], dl_cpu_threads(dense->numel), gather_row, &p);
    else
        dl_cpu_copy_strided(4, dense->shape, p.to, DL_F32, dense->stride, p.from, DL_F32,
                            (long[]){s[0], s[1], s[2] * g->stride[0], s[3] * g->stride[1]});
}

void dl_conv_scatter_pixels(const dl_conv *g, dl_tensor *image, const dl_tensor *dense) {
    const long *s = image->stride;
    pixels p = {g, dl_ptr(dense), dl_ptr(image), dense->stride, s};
    if ((s[1] == 1 || g->C == 1) && (s[3] == g->C || g->in[1] == 1)) {
        dl_cpu_for(g->N * g->in[0], dl_cpu_threads(image->numel), scatter_row, &p);
        return;
    }
    memset(p.to, 0, (size_t)image->numel * sizeof(float));
    dl_cpu_copy_strided(4, dense->shape, p.to, DL_F32, (long[]){s[0], s[1], s[2] * g->stride[0], s[3] * g->stride[1]},
                        p.from, DL_F32, dense->stride);
}
