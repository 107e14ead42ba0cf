/* Images rearranged: pixels and channels shuffled, windows as columns and back. */
#include "ops/compose/batch.h"
#include "ops/conv.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "ops/rules/index.h"

#include <string.h>

/* ---- shuffles */

static dl_status check_blocks(const dl_tensor *x, long r, bool larger) {
    const int n = x->ndim;
    if (n < 3) return dl_fail(DL_ERR_SHAPE, "the input must be [..., C, H, W], not of %d dimensions", n);
    if (r < 1 || r > 1 << 24) return dl_fail(DL_ERR_VALUE, "the factor must be at least 1, not %ld", r);
    const long *s = x->shape + n - 3;
    if (larger && s[0] % (r * r))
        return dl_fail(DL_ERR_SHAPE, "%ld channels cannot be divided into blocks of %ld by %ld", s[0], r, r);
    if (!larger && (s[1] % r || s[2] % r))
        return dl_fail(DL_ERR_SHAPE, "images of %ld by %ld cannot be divided into blocks of %ld by %ld", s[1], s[2], r,
                       r);
    return DL_OK;
}

/* Pixels of the last two dimensions against channels, by blocks of r by r. */
static dl_status shuffle(dl_call *c, long r, bool larger) {
    POOL;
    static const long up[] = {0, 1, 4, 2, 5, 3}, down[] = {0, 1, 3, 5, 2, 4};
    dl_tensor *x = c->in[0];
    DL_TRY(check_blocks(x, r, larger));
    const int n = x->ndim;
    const long *s = x->shape + n - 3;
    long images = 1, shape[DL_MAX_DIM];
    memcpy(shape, x->shape, sizeof shape);
    for (int i = 0; i < n - 3; i++) images *= shape[i];
    long *o = shape + n - 3;
    o[0] = larger ? s[0] / (r * r) : s[0] * r * r;
    for (int i = 1; i < 3; i++) o[i] = larger ? s[i] * r : s[i] / r;
    const long grown[] = {images, o[0], r, r, s[1], s[2]}, shrunk[] = {images, s[0], o[1], r, o[2], r};
    dl_tensor *split = K(dl_reshape(x, larger ? grown : shrunk, 6));
    dl_tensor *order = K(split ? dl_permute(split, larger ? up : down, 6) : NULL);
    return dl_finish_own(c, order ? dl_reshape(order, shape, n) : NULL);
}
COMPOSE_RULE(pixel_shuffle) { return shuffle(c, ATTR_I(c, PIXEL_SHUFFLE_UPSCALE_FACTOR), true); }
COMPOSE_RULE(pixel_unshuffle) { return shuffle(c, ATTR_I(c, PIXEL_UNSHUFFLE_DOWNSCALE_FACTOR), false); }

POOLED_RULE(channel_shuffle) {
    dl_tensor *x = c->in[0];
    const long g = ATTR_I(c, CHANNEL_SHUFFLE_GROUPS), *s = x->shape;
    if (x->ndim < 3) return dl_fail(DL_ERR_SHAPE, "the input must be [N,C,...], not of %d dimensions", x->ndim);
    if (g < 1 || s[1] % g) return dl_fail(DL_ERR_VALUE, "%ld channels cannot be divided into %ld groups", s[1], g);
    long rest = 1;
    for (int i = 2; i < x->ndim; i++) rest *= s[i];
    dl_tensor *split = K(dl_reshape(x, (long[]){s[0], g, s[1] / g, rest}, 4)),
              *order = K(split ? dl_permute(split, (long[]){0, 2, 1, 3}, 4) : NULL);
    return dl_finish_own(c, order ? dl_reshape(order, s, x->ndim) : NULL);
}

/* ---- windows as columns */

/* Reads the windows over images of g->in. */
static dl_status windows(const dl_call *c, dl_conv *g) {
    DL_TRY(dl_pair(ATTR(c, UNFOLDED_KERNEL_SIZE), "kernel_size", 1, g->k));
    DL_TRY(dl_pair(ATTR(c, UNFOLDED_DILATION), "dilation", 1, g->dil));
    DL_TRY(dl_pair(ATTR(c, UNFOLDED_PADDING), "padding", 0, g->pad));
    DL_TRY(dl_pair(ATTR(c, UNFOLDED_STRIDE), "stride", 1, g->stride));
    return dl_window_sizes(g, false, "window");
}

POOLED_RULE(unfold) {
    dl_conv g = {0};
    dl_tensor *x = c->in[0];
    if (x->ndim != 3 && x->ndim != 4)
        return dl_fail(DL_ERR_SHAPE, "the input must be images [N,C,H,W] or one image [C,H,W], not of %d dimensions",
                       x->ndim);
    for (int i = 0; i < 2; i++) g.in[i] = x->shape[x->ndim - 2 + i];
    DL_TRY(windows(c, &g));
    x = dl_with_batch(p, x, 4);
    if (x && (g.pad[0] || g.pad[1]))
        x = K(dl_pad(x, (long[]){g.pad[1], g.pad[1], g.pad[0], g.pad[0]}, 4, 0, "constant"));
    if (!x) return dl_failed();
    const long *s = x->stride, columns = g.k[0] * g.k[1] * x->shape[1], count = g.out[0] * g.out[1];
    dl_tensor *view = K(dl_as_strided(
        x, (long[]){x->shape[0], x->shape[1], g.k[0], g.k[1], g.out[0], g.out[1]}, 6,
        (long[]){s[0], s[1], s[2] * g.dil[0], s[3] * g.dil[1], s[2] * g.stride[0], s[3] * g.stride[1]}, 6, x->offset));
    const bool batch = c->in[0]->ndim == 4;
    const long shape[] = {x->shape[0], columns, count};
    dl_tensor *y = view ? dl_reshape(view, shape + !batch, 2 + batch) : NULL;
    if (!y || y->st != c->in[0]->st) return dl_finish(c, y);
    K(y); /* one window an image: a view still */
    return dl_finish(c, dl_clone(y));
}

/* Where each element of the columns lies in a padded image that is `width` wide: [k0 k1 out0 out1] of i64. */
static dl_tensor *landing(dl_pool *p, const dl_conv *g, long width, int device) {
    const long size[] = {g->k[0], g->k[1], g->out[0], g->out[1]},
               step[] = {g->dil[0] * width, g->dil[1], g->stride[0] * width, g->stride[1]}, flat = -1;
    dl_tensor *sum = K(dl_full((long[]){0}, 0, 0, DL_I64, device));
    for (int i = 0; i < 4 && sum; i++) {
        long shape[4] = {1, 1, 1, 1};
        shape[i] = size[i];
        const double end = (double)size[i];
        dl_tensor *at = K(dl_mul(K(dl_arange(0, &end, 1, DL_I64, device)), K(dl_scalar_i(step[i]))));
        sum = at ? K(dl_add(sum, K(dl_reshape(at, shape, 4)))) : NULL;
    }
    return sum ? K(dl_reshape(sum, &flat, 1)) : NULL;
}

POOLED_RULE(fold) {
    dl_conv g = {0};
    dl_tensor *x = c->in[0];
    if (x->ndim != 2 && x->ndim != 3)
        return dl_fail(DL_ERR_SHAPE,
                       "the input must be columns [N, C * pixels of a window, windows], not of %d dimensions", x->ndim);
    DL_TRY(dl_pair(ATTR(c, FOLD_OUTPUT_SIZE), "output_size", 1, g.in));
    DL_TRY(windows(c, &g));
    const long pixels = g.k[0] * g.k[1], count = g.out[0] * g.out[1], rows = x->shape[x->ndim - 2];
    if (rows % pixels || x->shape[x->ndim - 1] != count)
        return dl_fail(DL_ERR_SHAPE,
                       "images of %ld by %ld have %ld windows of %ld pixels, which do not fit columns of shape %s",
                       g.in[0], g.in[1], count, pixels, dl_shape_of(x));
    const long n = x->ndim == 3 ? x->shape[0] : 1, channels = rows / pixels, h = g.in[0] + 2 * g.pad[0],
               w = g.in[1] + 2 * g.pad[1], shape[] = {n, channels, g.in[0], g.in[1]};
    dl_tensor *at = landing(p, &g, w, x->st->device);
    dl_tensor *flat = K(dl_reshape(x, (long[]){n * channels, pixels * count}, 2));
    dl_tensor *zeros = K(dl_full((long[]){n * channels, h * w}, 2, 0, x->dtype, x->st->device));
    dl_tensor *sums = K(at && flat && zeros ? dl_index_add(zeros, at, flat, 1) : NULL);
    dl_tensor *whole = K(sums ? dl_reshape(sums, (long[]){n, channels, h, w}, 4) : NULL);
    if (whole && (g.pad[0] || g.pad[1]))
        whole = K(dl_pad(whole, (long[]){-g.pad[1], -g.pad[1], -g.pad[0], -g.pad[0]}, 4, 0, "constant"));
    const bool batch = x->ndim == 3;
    return dl_finish(c, whole ? dl_reshape(whole, shape + !batch, 3 + batch) : NULL);
}
