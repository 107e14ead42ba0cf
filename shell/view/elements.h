/* Reading elements of tensors for showing them, one by one and strided, without copying; and statistics over them. */
#pragma once

#include "dlcore.h"

/* A tensor opened for reading: host memory, the tensor's own when it lies on the CPU. */
typedef struct dlsh_elements {
    dl_tensor *owned; /* the copy on the CPU, or a reference */
    const char *data;
    dl_dtype dtype;
    int ndim;
    const long *shape, *stride;
    long numel;
} dlsh_elements;

/* Of complex numbers the parts are opened, as a last dimension. DL_ERR_DEVICE and whatever else copying to the host may
 * fail with. */
dl_status dlsh_elements_open(dlsh_elements *e, const dl_tensor *t);
void dlsh_elements_close(dlsh_elements *e);
/* The element `offset` elements (sum of index times stride) from the first, as double or, for integers and bool, long.
 */
double dlsh_element_f(const dlsh_elements *e, long offset);
long dlsh_element_i(const dlsh_elements *e, long offset);

/* Steps through all elements in logical order: `for (at = begin; ok; ok = next)`. */
typedef struct dlsh_walk {
    long index[8];
    long offset;
    int done;
} dlsh_walk;
void dlsh_walk_begin(const dlsh_elements *e, dlsh_walk *w);
void dlsh_walk_next(const dlsh_elements *e, dlsh_walk *w);

/* Figures of a tensor, of complex numbers of their absolute values. NaN is counted and left out of the others;
 * infinities are left out of mean, std and norm. std has Bessel's correction; NaN when n < 2. */
typedef struct dlsh_stats {
    long n, nans, infs, zeros;
    double min, max, mean, std, norm; /* min and max of finite elements; NaN when there are none */
} dlsh_stats;
dl_status dlsh_stats_of(const dl_tensor *t, dlsh_stats *out);

/* Counts of the finite elements in n equal bins from lo to hi (the last one closed); those outside are left out. */
dl_status dlsh_histogram(const dl_tensor *t, double lo, double hi, int n, long *counts);
