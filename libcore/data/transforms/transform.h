/* Lists of transforms, as loaders apply them. */
#pragma once

#include <stdbool.h>

#include "core/error.h"
#include "data/draw.h"

/* Numbers that the parameters of a transform take, here and on devices. */
enum { DL_MAX_TRANSFORM_PARAMS = 24, DL_DEVICE_TRANSFORM_PARAMS = 10, DL_MAX_TRANSFORMS = 16 };

/* A sample being changed: x[c][h][w] of pictures, n elements in all. `tmp` has room for as many as any step makes. */
typedef struct dl_sample {
    float *x, *tmp;
    long n, c, h, w;
} dl_sample;

/* Value at (y, x) between pixel centres; `fill` outside. For every device. */
DL_HD float dl_pixel_between(const float *plane, long h, long w, double y, double x, float fill) {
    double fy = floor(y), fx = floor(x), ty = y - fy, tx = x - fx, v = 0;
    for (int k = 0; k < 4; k++) {
        long i = (long)fy + (k >> 1), j = (long)fx + (k & 1);
        int inside = i >= 0 && i < h && j >= 0 && j < w;
        v += (k >> 1 ? ty : 1 - ty) * (k & 1 ? tx : 1 - tx) * (inside ? plane[i * w + j] : fill);
    }
    return (float)v;
}

/* Number i of the list of which the first place is p, which has one number for all or one for each. */
DL_HD double dl_number_of(const double *p, long i) { return p[1 + (p[0] > 1 ? i : 0)]; }

/* A batch of n samples x, of `each` elements, and their targets y as shares of `classes`. */
typedef struct dl_mixed {
    float *x, *y;
    long n, each, c, h, w, classes;
} dl_mixed;

/* Changes the sample, in place or by exchanging x and tmp; p has the parameters in the order of the row. */
typedef dl_status dl_transform_fn(dl_sample *s, const double *p, dl_draw *r);
/* The size of a sample that the transform gets becomes that of what it makes. */
typedef dl_status dl_transform_shape(long shape[3], const double *p);
typedef dl_status dl_transform_batch(dl_mixed *b, const double *p, dl_draw *r);

#define TRANSFORM(name, doc, dims, fn, shape, ...) dl_transform_fn fn;
#define HOST_TRANSFORM TRANSFORM
#define BATCH_TRANSFORM(name, doc, fn, ...) dl_transform_batch fn;
#include "data/transforms/transforms.def"
#undef TRANSFORM
#undef HOST_TRANSFORM
#undef BATCH_TRANSFORM
dl_transform_shape dl_shape_normalize, dl_shape_resize, dl_shape_crop, dl_shape_random_crop, dl_shape_color,
    dl_shape_grayscale, dl_shape_resized_crop, dl_shape_erasing, dl_shape_affine;

/* DL_TRANSFORM_name: for devices, which cannot call a row's function. */
enum {
#define TRANSFORM(name, ...) DL_TRANSFORM_##name,
#define HOST_TRANSFORM TRANSFORM
#define BATCH_TRANSFORM TRANSFORM
#include "data/transforms/transforms.def"
#undef TRANSFORM
#undef HOST_TRANSFORM
#undef BATCH_TRANSFORM
};

typedef struct dl_transforms {
    int n;
    bool host;           /* some step is the host's alone */
    bool reshapes;       /* batches have `shape`, and not that of the samples */
    int mixes;           /* step + 1 of the first that takes whole batches, after all others; 0: there is none */
    long shape[3], most; /* of what is made; elements of the largest sample on the way */
    struct {
        dl_transform_fn *fn;
        dl_transform_batch *batch;
        int kind;
        double p[DL_MAX_TRANSFORM_PARAMS];
    } step[DL_MAX_TRANSFORMS];
} dl_transforms;

/* Reads "crop 4, flip p=0.5" for samples of this shape; NULL and "" are the empty list. Errors: DL_ERR_NAME,
 * DL_ERR_VALUE, DL_ERR_SHAPE. */
dl_status dl_transforms_parse(const char *text, int ndim, const long *shape, dl_transforms *out);

/* The steps that take samples; the result is in s->x. */
dl_status dl_transforms_apply(const dl_transforms *t, dl_sample *s, dl_draw *r);

/* What a batch is changed by. */
typedef struct dl_changes {
    const dl_transforms *list;
    uint64_t seed, epoch, batch; /* batch: the number of its first sample in the epoch */
    const long *sample;          /* the numbers by which the samples draw */
    float *room;                 /* twice list->most elements */
    long classes;
} dl_changes;
/* Changes f32 samples x [n, ...]; x becomes another tensor where their shape changes, and y one of shares where samples
 * are mixed. Errors: DL_ERR_MEMORY, and those of a step. */
dl_status dl_transforms_change(const dl_changes *c, dl_tensor **x, dl_tensor **y);
