/* Loops of images read at places of a grid: grid_simd.c defines them, grid.c runs them. */
#pragma once

#include "cpu/runtime/simd.h"
#include "ops/grid.h"

enum {
    DL_GRID_SPACE = 4096, /* terms of the places that are worked on at once */
    DL_GRID_BYTES = DL_GRID_SPACE * (int)(sizeof(int32_t) + (1 + DL_GRID_DIMS) * sizeof(double)) + 64
};

/* Tensors are contiguous; g and dx or dgrid in the gradient. */
typedef struct dl_grid_job {
    dl_grid grid;
    long c, places, pixels; /* pixels: at most INT32_MAX */
    int terms;
    const void *x, *at, *g;
    void *out, *dx, *dgrid;
} dl_grid_job;

/* Places `from` and `count` behind it, of which `terms` times as many as DL_GRID_SPACE at most; their terms are in
 * `all`, DL_GRID_BYTES. A plane is a channel of an image. */
typedef struct dl_grid_loops {
    void (*find)(const dl_grid_job *j, long image, long from, long count, bool slopes, void *all);
    void (*read)(const dl_grid_job *j, const void *all, long plane, long from, long count);
    void (*spread)(const dl_grid_job *j, const void *all, long plane, long from, long count);
    /* dgrid, of all channels of an image */
    void (*slopes)(const dl_grid_job *j, const void *all, long image, long from, long count);
} dl_grid_loops;
DL_SIMD_DECL(extern const dl_grid_loops, dl_grid_rows, [2]); /* f32, f64 */
