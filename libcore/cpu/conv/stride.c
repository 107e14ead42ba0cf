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

/* Source and target of a copy of pixels, whose channels are dense; strides in elements, which have `size` bytes. */
typedef struct pixels {
    const dl_conv *g;
    const char *from;
    char *to;
    const long *fs, *ts;
    long size;
} pixels;

static void copy_pixels(char *to, long ts, const char *from, long fs, long count, size_t bytes) {
    for (long i = 0; i < count; i++, to += ts, from += fs) memcpy(to, from, bytes);
}

static void gather_row(void *arg, long i) {
    const pixels *p = arg;
    const dl_conv *g = p->g;
    long n = i / g->out[0], y = i % g->out[0], step = g->stride[1] * p->fs[3];
    const char *from = p->from + (n * p->fs[0] + y * g->stride[0] * p->fs[2]) * p->size;
    char *to = p->to + (n * p->ts[0] + y * p->ts[2]) * p->size;
    copy_pixels(to, p->ts[3] * p->size, from, step * p->size, g->out[1], (size_t)(g->C * p->size));
}

static void scatter_row(void *arg, long i) {
    const pixels *p = arg;
    const dl_conv *g = p->g;
    long n = i / g->in[0], h = i % g->in[0], y = h / g->stride[0], step = g->stride[1] * g->C;
    char *to = p->to + (n * p->ts[0] + h * p->ts[2]) * p->size;
    const char *from = p->from + (n * p->fs[0] + y * p->fs[2]) * p->size;
    memset(to, 0, (size_t)(g->in[1] * g->C * p->size));
    if (h % g->stride[0] == 0 && y < g->out[0])
        copy_pixels(to, step * p->size, from, p->fs[3] * p->size, g->out[1], (size_t)(g->C * p->size));
}

void dl_conv_gather_pixels(const dl_conv *g, dl_tensor *dense, const dl_tensor *image) {
    const long *s = image->stride;
    pixels p = {g, dl_ptr(image), dl_ptr(dense), s, dense->stride, (long)dl_esize(image)};
    if (s[1] == 1 || g->C == 1)
        dl_cpu_for(g->N * g->out[0], dl_cpu_threads(dense->numel), gather_row, &p);
    else
        dl_cpu_copy_strided(4, dense->shape, p.to, dense->dtype, dense->stride, p.from, image->dtype,
                            (long[]){s[0], s[1], s[2] * g->stride[0], s[3] * g->stride[1]});
}

void dl_conv_scatter_pixels(const dl_conv *g, dl_tensor *image, const dl_tensor *dense) {
    const long *s = image->stride;
    pixels p = {g, dl_ptr(dense), dl_ptr(image), dense->stride, s, (long)dl_esize(image)};
    if ((s[1] == 1 || g->C == 1) && (s[3] == g->C || g->in[1] == 1)) {
        dl_cpu_for(g->N * g->in[0], dl_cpu_threads(image->numel), scatter_row, &p);
        return;
    }
    memset(p.to, 0, (size_t)image->numel * dl_esize(image));
    dl_cpu_copy_strided(4, dense->shape, p.to, image->dtype,
                        (long[]){s[0], s[1], s[2] * g->stride[0], s[3] * g->stride[1]}, p.from, dense->dtype,
                        dense->stride);
}
