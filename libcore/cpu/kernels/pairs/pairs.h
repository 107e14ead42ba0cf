/* Loops of sums over pairs: pairs_simd.c defines them; pairs.c runs them. */
#pragma once

#include "cpu/runtime/simd.h"
#include "core/op.h"

enum { DL_PAIR_ROWS = 4 }; /* rows whose distances are computed together */

/* Distances of n rows of `depth` numbers from each other, of all pairs i < j one after another; or from all of m other
 * rows, [n, m]. */
typedef struct dl_pairs {
    double p;
    bool others; /* of other rows */
    long n, m, depth;
    long wide;          /* columns of `turned`: m and a vector more */
    long row;           /* numbers of a row of x and y: depth, and zeros up to whole vectors */
    const void *x;      /* [n, row], with zeros behind */
    const void *y;      /* [m, row]; x, if there are no others */
    const void *turned; /* [depth, wide]: y */
    void *out;
    const void *d, *g; /* of the gradient: distances and their gradients */
    long tiles;
} dl_pairs;

/* The labels of a row stand first, and end at a negative one. */
typedef struct dl_margins {
    long n, classes;
    const void *x, *g;
    const long *y;
    void *out;
} dl_margins;

typedef struct dl_pair_loops {
    void (*distances)(const dl_pairs *j, long tile);
    void (*distances_back)(const dl_pairs *j, long i);
    void (*margins)(const dl_margins *j, long row);
    void (*margins_back)(const dl_margins *j, long row);
} dl_pair_loops;
DL_SIMD_DECL(extern const dl_pair_loops, dl_pair, [2]); /* f32, f64 */
