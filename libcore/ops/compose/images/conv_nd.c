/* Convolutions of rows and volumes, made of those of images. A row is an image of height 1. Of a volume, the slices
 * along the depth under a kernel are channels of an image: one product, in whose weight depth and channels are already
 * side by side. */
#include "ops/compose/batch.h"
#include "ops/conv.h"
#include "dlcore/arithmetic.h"
#include "dlcore/conv.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "ops/names/conv.h"
#include "ops/rules/conv.h"

/* The calls whose padding is a word. */
COMPOSED_RULE(padded_same) {
    const dl_aval *pad = ATTR(c, CONV_PADDING);
    return pad->n == 1 && pad->u.v[0] == DL_PADDING_SAME;
}

/* Index 0 is the depth of a volume; of a row there is one direction. */
typedef struct geometry {
    int dims;
    long stride[3], pad[3], dil[3], more[3], groups;
    bool same; /* pad is yet to be found */
} geometry;

static dl_status check_same(const geometry *g) {
    for (int i = 0; i < g->dims; i++)
        if (g->stride[i] != 1)
            return dl_fail_hint(DL_ERR_VALUE, "give padding as a number",
                                "padding=\"same\" is for a stride of 1, not %ld", g->stride[i]);
    return DL_OK;
}

static dl_status read(const dl_call *c, int dims, bool transposed, geometry *g) {
    const dl_tensor *x = c->in[0], *w = c->in[1], *b = c->nin > 2 ? c->in[2] : NULL;
    g->dims = dims;
    DL_TRY(dl_sizes(ATTR(c, CONV_STRIDE), "stride", dims, 1, g->stride));
    g->same = !transposed && dl_composed_padded_same(c);
    DL_TRY(g->same ? check_same(g) : dl_sizes(ATTR(c, CONV_PADDING), "padding", dims, 0, g->pad));
    DL_TRY(dl_sizes(ATTR(c, CONV_DILATION), "dilation", dims, 1, g->dil));
    g->groups = ATTR_I(c, CONV_GROUPS);
    if (g->groups < 1) return dl_fail(DL_ERR_VALUE, "groups must be at least 1, not %ld", g->groups);
    if (w->ndim != dims + 2)
        return dl_fail(DL_ERR_SHAPE, "the weight must have %d dimensions, channels of both sides and its size, not %d",
                       dims + 2, w->ndim);
    if (x->ndim != dims + 2 && x->ndim != dims + 1)
        return dl_fail(DL_ERR_SHAPE, "the input must have %d dimensions, [N,C] and its size, not %d", dims + 2,
                       x->ndim);
    const long channels = x->shape[x->ndim - dims - 1], wants = transposed ? w->shape[0] : w->shape[1] * g->groups,
               out = transposed ? w->shape[1] * g->groups : w->shape[0];
    if (channels != wants)
        return dl_fail(DL_ERR_SHAPE, "an input of %ld channels does not fit a weight for %ld", channels, wants);
    if (channels % g->groups || out % g->groups)
        return dl_fail(DL_ERR_SHAPE, "%ld and %ld channels cannot be divided into %ld groups", channels, out,
                       g->groups);
    if (b && (b->ndim != 1 || b->shape[0] != out))
        return dl_fail(DL_ERR_SHAPE, "the bias must have shape [%ld], one number an output channel", out);
    for (int i = 0; i < dims; i++)
        if (w->shape[2 + i] < 1) return dl_fail(DL_ERR_SHAPE, "the kernel is empty");
    return DL_OK;
}

/* The input of a convolution, which has one element more at the end where padding="same" needs an odd number; g gets
 * what is missing on both sides. NULL: an error. */
static dl_tensor *input_of(dl_pool *p, const dl_call *c, geometry *g) {
    long width[6] = {0}, more = 0;
    for (int i = 0; i < g->dims && g->same; i++)
        more |= width[2 * (g->dims - 1 - i) + 1] = dl_same_padding(c->in[1]->shape[2 + i], g->dil[i], &g->pad[i]);
    return more ? K(dl_pad(c->in[0], width, 2 * g->dims, 0, "constant")) : c->in[0];
}

/* ---- images, where padding is a word */

POOLED_RULE(conv2d) {
    geometry g = {0};
    DL_TRY(read(c, 2, false, &g));
    dl_tensor *x = input_of(p, c, &g);
    if (!x) return dl_failed();
    return dl_finish(c, dl_conv2d(x, c->in[1], INPUT(c, CONV2D_BIAS), g.stride, 2, g.pad, 2, g.dil, 2, g.groups));
}

/* ---- rows */

static dl_tensor *flat_image(dl_pool *p, dl_tensor *t) {
    return t ? K(dl_reshape(t, (long[]){t->shape[0], t->shape[1], 1, t->shape[2]}, 4)) : NULL;
}

static dl_status of_rows(dl_call *c, bool transposed) {
    POOL;
    geometry g = {0};
    DL_TRY(read(c, 1, transposed, &g));
    dl_tensor *x = flat_image(p, dl_with_batch(p, input_of(p, c, &g), 3)), *w = flat_image(p, c->in[1]),
              *bias = c->nin > 2 ? c->in[2] : NULL;
    if (!x || !w) return dl_failed();
    const long stride[] = {1, g.stride[0]}, pad[] = {0, g.pad[0]}, dil[] = {1, g.dil[0]};
    if (transposed) DL_TRY(dl_sizes(ATTR(c, CONV_TRANSPOSE1D_OUTPUT_PADDING), "output_padding", 1, 0, g.more));
    const long more[] = {0, g.more[0]};
    dl_tensor *y = K(transposed ? dl_conv_transpose2d(x, w, bias, stride, 2, pad, 2, more, 2, g.groups, dil, 2, NULL, 0)
                                : dl_conv2d(x, w, bias, stride, 2, pad, 2, dil, 2, g.groups));
    return dl_finish(c, y ? dl_as_given(y, c->in[0], (long[]){y->shape[0], y->shape[1], y->shape[3]}, 3) : NULL);
}
COMPOSE_RULE(conv1d) { return of_rows(c, false); }
COMPOSE_RULE(conv_transpose1d) { return of_rows(c, true); }

/* ---- volumes */

/* Slices that kernels of k see from n places: [n k] of i64, of which that of place i and tap j is i stride + j
 * dilation: a view of the numbers from 0 on. */
static dl_tensor *seen(dl_pool *p, const geometry *g, long n, long k, int device) {
    const double all = (double)((n - 1) * g->stride[0] + (k - 1) * g->dil[0] + 1);
    const long shape[] = {n, k}, stride[] = {g->stride[0], g->dil[0]}, flat = -1;
    dl_tensor *numbers = K(dl_arange(0, &all, 1, DL_I64, device));
    dl_tensor *both = numbers ? K(dl_as_strided(numbers, shape, 2, stride, 2, 0)) : NULL;
    return both ? K(dl_reshape(both, &flat, 1)) : NULL;
}

/* A weight [a, b, depth, height, width] of images of b * depth channels. */
static dl_tensor *joined(dl_pool *p, dl_tensor *w) {
    if (!w) return NULL;
    const long *s = w->shape;
    return K(dl_reshape(w, (long[]){s[0], s[1] * s[2], s[3], s[4]}, 4));
}

/* The weight of the images: that of one group goes with channels within the taps. */
static dl_tensor *as_images(dl_pool *p, dl_tensor *w, const geometry *g) {
    return joined(p, g->groups > 1 ? w : K(dl_permute(w, (long[]){0, 2, 1, 3, 4}, 5)));
}

/* [N, places, C, H, W] as [N, C, places, H, W], or the other way round, as a new reference. */
static dl_tensor *turned(dl_pool *p, dl_tensor *t, const long *shape) {
    dl_tensor *split = K(t ? dl_reshape(t, shape, 5) : NULL);
    return split ? dl_permute(split, (long[]){0, 2, 1, 3, 4}, 5) : NULL;
}

/* What a row of volumes is called with; its shapes are checked. */
static dl_status volume(const dl_call *c, dl_conv_nd *v, geometry *g) {
    DL_TRY(dl_conv_volume_of(c, v));
    *g = (geometry){.dims = 3, .groups = v->groups};
    for (int i = 0; i < 3; i++) g->stride[i] = v->stride[i], g->pad[i] = v->pad[i], g->dil[i] = v->dil[i];
    return DL_OK;
}

/* The images [N places, channels k, H, W] that a volume is seen as: k slices for each place. Of one group channels may
 * have any order, and lie within the taps, as the slices give them; of several, taps lie within the channels. */
static dl_tensor *images_of(dl_pool *p, dl_tensor *x, const dl_conv_nd *v, const geometry *g) {
    if (g->pad[0]) x = K(dl_pad(x, (long[]){0, 0, 0, 0, g->pad[0], g->pad[0]}, 6, 0, "constant"));
    if (!x) return NULL;
    const bool within = g->groups > 1;
    const long *s = x->shape, *step = x->stride, k = v->k[0], taps[] = {k, step[2] * g->dil[0]},
               channels[] = {s[1], step[1]}, *outer = within ? channels : taps, *inner = within ? taps : channels;
    const long size[] = {s[0], v->out[0], outer[0], inner[0], s[3], s[4]},
               stride[] = {step[0], step[2] * g->stride[0], outer[1], inner[1], step[3], step[4]};
    dl_tensor *slices = K(dl_as_strided(x, size, 6, stride, 6, -1));
    return slices ? K(dl_reshape(slices, (long[]){s[0] * v->out[0], s[1] * k, s[3], s[4]}, 4)) : NULL;
}

#define IMAGE_ARGS g.stride + 1, 2, g.pad + 1, 2, g.dil + 1, 2, g.groups

POOLED_RULE(conv_volume) {
    geometry g;
    dl_conv_nd v;
    DL_TRY(volume(c, &v, &g));
    dl_tensor *images = images_of(p, c->in[0], &v, &g), *w = c->in[1], *weight = images ? as_images(p, w, &g) : NULL;
    if (!weight) return dl_failed();
    dl_tensor *y = K(dl_conv2d(images, weight, INPUT(c, CONV_VOLUME_BIAS), IMAGE_ARGS));
    return dl_finish(c, turned(p, y, (long[]){v.N, v.out[0], v.O, v.out[1], v.out[2]}));
}

/* The gradient of the weight as images have it, which is turned back. */
POOLED_RULE(conv_volume_dw) {
    geometry g;
    dl_conv_nd v;
    DL_TRY(volume(c, &v, &g));
    const long cg = v.C / v.groups, *k = v.k;
    dl_tensor *images = images_of(p, c->in[1], &v, &g),
              *turn = images ? K(dl_permute(c->in[0], (long[]){0, 2, 1, 3, 4}, 5)) : NULL,
              *grad = turn ? K(dl_reshape(turn, (long[]){v.N * v.out[0], v.O, v.out[1], v.out[2]}, 4)) : NULL;
    dl_tensor *dw = grad ? K(dl_conv2d_dw(grad, images, k + 1, 2, IMAGE_ARGS)) : NULL;
    if (!dw) return dl_failed();
    if (v.groups > 1) return dl_finish(c, dl_reshape(dw, (long[]){v.O, cg, k[0], k[1], k[2]}, 5));
    dl_tensor *apart = K(dl_reshape(dw, (long[]){v.O, k[0], cg, k[1], k[2]}, 5));
    return dl_finish(c, apart ? dl_permute(apart, (long[]){0, 2, 1, 3, 4}, 5) : NULL);
}

/* The rows of volumes do the work, after what they do not know: examples without a batch, and padding as a word. */
POOLED_RULE(conv3d) {
    geometry g = {0};
    DL_TRY(read(c, 3, false, &g));
    dl_tensor *x = dl_with_batch(p, input_of(p, c, &g), 5);
    if (!x) return dl_failed();
    dl_tensor *y = K(dl_conv_volume(x, c->in[1], INPUT(c, CONV2D_BIAS), g.stride, 3, g.pad, 3, g.dil, 3, g.groups));
    return dl_finish(c, y ? dl_as_given(y, c->in[0], y->shape, 5) : NULL);
}

static dl_tensor *biased(dl_pool *p, dl_tensor *y, dl_tensor *bias) {
    if (!y || !bias) return y;
    dl_tensor *column = K(dl_reshape(bias, (long[]){1, bias->shape[0], 1, 1, 1}, 5));
    return K(dl_add(y, column));
}

/* The result of volumes x, of sizes `whole` along the depth before padding is cut off and `size` after: the images of
 * each slice have a channel for each depth of the kernel; those are added where they belong. */
static dl_tensor *transposed(dl_pool *p, dl_tensor *x, dl_tensor *w, const geometry *g, long whole, long left) {
    const long *xs = x->shape, n = xs[0], depth = xs[2], k = w->shape[2], out = w->shape[1] * g->groups;
    dl_tensor *weight = joined(p, w), *turn = weight ? K(dl_permute(x, (long[]){0, 2, 1, 3, 4}, 5)) : NULL;
    dl_tensor *images = K(turn ? dl_reshape(turn, (long[]){n * depth, xs[1], xs[3], xs[4]}, 4) : NULL);
    dl_tensor *y = K(images ? dl_conv_transpose2d(images, weight, NULL, g->stride + 1, 2, g->pad + 1, 2, g->more + 1, 2,
                                                  g->groups, g->dil + 1, 2, NULL, 0)
                            : NULL);
    if (!y) return NULL;
    const long h = y->shape[2], wide = y->shape[3];
    dl_tensor *all = K(turned(p, y, (long[]){n, depth, out, k * h, wide}));
    dl_tensor *slices = K(all ? dl_reshape(all, (long[]){n, out, depth * k, h, wide}, 5) : NULL);
    dl_tensor *at = seen(p, g, depth, k, x->st->device);
    dl_tensor *zeros = K(dl_full((long[]){n, out, whole, h, wide}, 5, 0, y->dtype, x->st->device));
    dl_tensor *sum = K(slices && at && zeros ? dl_index_add(zeros, at, slices, 2) : NULL);
    const long from = g->pad[0], to = from + left;
    return sum && g->pad[0] ? K(dl_slice(sum, 2, &from, &to, 1)) : sum;
}

/* With stride 1 the gradient of the image is the convolution of that of the result with the weight turned round, which
 * needs no sums over slices. Is it one of these? *around: how far the gradient is padded. */
static bool is_turned_round(const dl_conv_nd *v, long around[3]) {
    bool fits = true;
    for (int i = 0; i < 3; i++) {
        around[i] = v->dil[i] * (v->k[i] - 1) - v->pad[i];
        fits = fits && v->stride[i] == 1 && around[i] >= 0;
    }
    return fits;
}

/* The weight [O, C/groups, depth, height, width] as [C, O/groups, ...], its taps the other way round. */
static dl_tensor *turned_round(dl_pool *p, dl_tensor *w, const dl_conv_nd *v) {
    const long G = v->groups, og = v->O / G, cg = v->C / G, *k = v->k;
    dl_tensor *split = K(dl_reshape(w, (long[]){G, og, cg, k[0], k[1], k[2]}, 6));
    dl_tensor *turn = K(split ? dl_permute(split, (long[]){0, 2, 1, 3, 4, 5}, 6) : NULL);
    dl_tensor *flat = K(turn ? dl_reshape(turn, (long[]){v->C, og, k[0], k[1], k[2]}, 5) : NULL);
    return flat ? K(dl_flip(flat, (long[]){2, 3, 4}, 3)) : NULL;
}

POOLED_RULE(conv_volume_dx) {
    geometry g;
    dl_conv_nd v;
    long around[3];
    DL_TRY(volume(c, &v, &g));
    if (is_turned_round(&v, around)) {
        dl_tensor *w = turned_round(p, c->in[1], &v);
        return dl_finish(c, w ? dl_conv_volume(c->in[0], w, NULL, g.stride, 3, around, 3, g.dil, 3, g.groups) : NULL);
    }
    for (int i = 0; i < 3; i++) g.more[i] = (v.in[i] + 2 * v.pad[i] - v.dil[i] * (v.k[i] - 1) - 1) % v.stride[i];
    const long whole = v.in[0] + 2 * v.pad[0];
    dl_tensor *x = transposed(p, c->in[0], c->in[1], &g, whole, v.in[0]);
    return dl_finish(c, x ? dl_ref(x) : NULL);
}

/* Sizes of the result of a transposed convolution; more[i], what is to be added behind the input: elements of
 * output_padding that a whole step of the kernel reaches, which larger taps make possible. */
static dl_status transposed_sizes(const dl_call *c, const geometry *g, const dl_tensor *x, long size[3], long more[3]) {
    const long *in = x->shape + 2, *k = c->in[1]->shape + 2;
    for (int i = 0; i < 3; i++) {
        if (g->more[i] >= g->stride[i] && g->more[i] >= g->dil[i])
            return dl_fail(DL_ERR_VALUE, "output_padding must be smaller than stride or dilation, not %ld", g->more[i]);
        size[i] = (in[i] - 1) * g->stride[i] + g->dil[i] * (k[i] - 1) + 1 + g->more[i] - 2 * g->pad[i];
        if (size[i] < 1)
            return dl_fail_hint(DL_ERR_SHAPE, "use less padding or larger volumes", "the result would be empty");
        more[i] = g->more[i] / g->stride[i];
    }
    return DL_OK;
}

/* The gradient of the convolution with respect to its input. */
POOLED_RULE(conv_transpose3d) {
    geometry g = {0};
    long size[3], more[3];
    DL_TRY(read(c, 3, true, &g));
    DL_TRY(dl_sizes(ATTR(c, CONV_TRANSPOSE3D_OUTPUT_PADDING), "output_padding", 3, 0, g.more));
    dl_tensor *x = dl_with_batch(p, c->in[0], 5);
    if (!x) return dl_failed();
    DL_TRY(transposed_sizes(c, &g, x, size, more));
    if (more[0] || more[1] || more[2]) x = K(dl_pad(x, (long[]){0, more[2], 0, more[1], 0, more[0]}, 6, 0, "constant"));
    dl_tensor *y = x ? K(dl_conv_volume_dx(x, c->in[1], size, 3, g.stride, 3, g.pad, 3, g.dil, 3, g.groups)) : NULL;
    dl_tensor *sum = biased(p, y, INPUT(c, CONV_TRANSPOSE3D_BIAS));
    return dl_finish(c, sum ? dl_as_given(sum, c->in[0], sum->shape, 5) : NULL);
}
