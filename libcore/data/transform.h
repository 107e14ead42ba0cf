/* Lists of transforms, as loaders apply them. */
#ifndef DL_DATA_TRANSFORM_H
#define DL_DATA_TRANSFORM_H

#include "core/error.h"
#include "data/draw.h"

enum { DL_MAX_TRANSFORM_PARAMS = 4, DL_MAX_TRANSFORMS = 16 };

/* A sample being changed: x[c][h][w] of pictures, n elements in all. `tmp` has n elements of room. */
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

/* Changes the sample in place; p has the parameters in the order of the row. */
typedef void dl_transform_fn(dl_sample *s, const double *p, dl_draw *r);

#define TRANSFORM(name, doc, dims, fn, ...) dl_transform_fn fn;
#include "data/transforms.def"
#undef TRANSFORM

/* DL_TRANSFORM_name: for devices, which cannot call a row's function. */
enum {
#define TRANSFORM(name, doc, dims, fn, ...) DL_TRANSFORM_##name,
#include "data/transforms.def"
#undef TRANSFORM
};

typedef struct dl_transforms {
    int n;
    struct {
        dl_transform_fn *fn;
        int kind;
        double p[DL_MAX_TRANSFORM_PARAMS];
    } step[DL_MAX_TRANSFORMS];
} dl_transforms;

/* Reads "crop 4, flip p=0.5"; NULL and "" are the empty list. ndim: dimensions of the samples to come. Errors:
 * DL_ERR_NAME, DL_ERR_VALUE, DL_ERR_SHAPE. */
dl_status dl_transforms_parse(const char *text, int ndim, dl_transforms *out);
void dl_transforms_apply(const dl_transforms *t, dl_sample *s, dl_draw *r);

#endif
