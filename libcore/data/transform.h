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
