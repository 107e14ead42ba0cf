/* Planes of one size made into another, as torch.nn.functional.interpolate(align_corners=False) makes them. */
#pragma once

#include <stdbool.h>

#include "core/error.h"

typedef enum dl_interpolation { DL_NEAREST, DL_BILINEAR, DL_BICUBIC } dl_interpolation;

/* A part of some planes: rows of `width` numbers that begin `row` numbers apart, planes `plane` numbers apart. */
typedef struct dl_planes {
    const float *x;
    long channels, height, width, row, plane;
} dl_planes;

/* out[channels][height][width]; antialias: a smaller picture is the mean of what it covers. DL_ERR_MEMORY. */
dl_status dl_resample(const dl_planes *in, long height, long width, dl_interpolation how, bool antialias, float *out);
