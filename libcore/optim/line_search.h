/* A step length along a direction that meets the strong Wolfe conditions (Nocedal, Wright: Numerical Optimization,
 * 2006, algorithms 3.5 and 3.6), with PyTorch's constants and safeguards. */
#pragma once

#include "core/tensor.h"

/* A point of the line: where, the loss there, its slope along the line, and the whole gradient. */
typedef struct dl_line_point {
    double t, loss, slope;
    dl_tensor *grad;
} dl_line_point;

/* Evaluates the point at p->t: fills in the rest, grad with a reference of the caller's. */
typedef dl_status dl_line_fn(void *ctx, dl_line_point *p);

typedef struct dl_line {
    dl_line_fn *at;
    void *ctx;
    dl_line_point start; /* t = 0; its gradient is borrowed */
    double longest;      /* largest element of the direction */
    double tolerance;    /* brackets shorter than this, times `longest`, end the search */
    long evaluations;    /* made by the search */
} dl_line;

/* From the first guess out->t to the point found, with a reference to its gradient. */
dl_status dl_line_search(dl_line *l, dl_line_point *out);
