/* Resampling, one axis after the other: every output is a sum of neighbouring inputs, whose weights are computed once
 * for an axis. */
#include "data/pictures/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dlcore.h"

/* The weights of an axis: output i is the sum of weight[i * most + k] times input first[i] + k, k below count[i]. */
typedef struct axis {
    long in, out, most;
    long *first, *count; /* both in one block */
    float *weight;
} axis;

static double triangle(double x) {
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static double cubic(double x, double a) {
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

static double filter(dl_interpolation how, double x) { return how == DL_BICUBIC ? cubic(x, -0.5) : triangle(x); }

/* A filter as wide as an output covers, its weights adding up to 1. */
static void smooth(axis *a, dl_interpolation how, long i) {
    double scale = (double)a->in / (double)a->out, wide = scale > 1 ? scale : 1;
    double support = (how == DL_BICUBIC ? 2 : 1) * wide, centre = scale * ((double)i + 0.5), sum = 0;
    long from = (long)(centre - support + 0.5), to = (long)(centre + support + 0.5);
    from = from < 0 ? 0 : from, to = to > a->in ? a->in : to;
    a->first[i] = from, a->count[i] = to - from;
    for (long k = from; k < to; k++) sum += filter(how, ((double)k - centre + 0.5) / wide);
    for (long k = from; k < to; k++)
        a->weight[i * a->most + k - from] = (float)(filter(how, ((double)k - centre + 0.5) / wide) / sum);
}

/* Between two or four inputs; those beyond the edge are the one at the edge. */
static void between(axis *a, dl_interpolation how, long i) {
    double scale = (double)a->in / (double)a->out, at = scale * ((double)i + 0.5) - 0.5;
    if (how == DL_BILINEAR && at < 0) at = 0;
    long base = (long)floor(at), from = how == DL_BICUBIC ? base - 1 : base,
         to = how == DL_BICUBIC ? base + 3 : base + 2;
    long first = from < 0 ? 0 : from < a->in ? from : a->in - 1;
    a->first[i] = first, a->count[i] = 1;
    for (long k = from; k < to; k++) {
        long inside = k < 0 ? 0 : k < a->in ? k : a->in - 1;
        double w = how == DL_BICUBIC ? cubic((double)k - at, -0.75) : triangle((double)k - at);
        a->weight[i * a->most + inside - first] += (float)w;
        if (inside - first >= a->count[i]) a->count[i] = inside - first + 1;
    }
}

static void copy(axis *a, long i) {
    long at = (long)((float)i * ((float)a->in / (float)a->out)); /* PyTorch computes it in f32 */
    a->first[i] = at < a->in ? at : a->in - 1, a->count[i] = 1;
    a->weight[i * a->most] = 1;
}

static dl_status make_axis(axis *a, long in, long out, dl_interpolation how, bool antialias) {
    double scale = (double)in / (double)out,
           support = (how == DL_BICUBIC ? 2 : 1) * (scale > 1 && antialias ? scale : 1);
    *a = (axis){.in = in, .out = out, .most = 2 * (long)ceil(support) + 2};
    a->first = dl_memory_alloc(out, 2 * (long)sizeof(long));
    a->weight = dl_memory_alloc(out * a->most, (long)sizeof(float));
    if (!a->first || !a->weight) return dl_failed();
    a->count = a->first + out;
    memset(a->weight, 0, (size_t)(out * a->most) * sizeof *a->weight);
    for (long i = 0; i < out; i++) {
        if (how == DL_NEAREST)
            copy(a, i);
        else if (antialias)
            smooth(a, how, i);
        else
            between(a, how, i);
    }
    return DL_OK;
}

static void free_axis(axis *a) {
    free(a->first);
    free(a->weight);
}

/* A row to its new width. */
static void across(const axis *a, const float *from, float *to) {
    for (long i = 0; i < a->out; i++) {
        const float *w = a->weight + i * a->most, *x = from + a->first[i];
        float sum = 0;
        for (long k = 0; k < a->count[i]; k++) sum += w[k] * x[k];
        to[i] = sum;
    }
}

/* Row i of the new height. */
static void down(const axis *a, const float *rows, long width, long i, float *to) {
    memset(to, 0, (size_t)width * sizeof *to);
    for (long k = 0; k < a->count[i]; k++) {
        float w = a->weight[i * a->most + k];
        const float *x = rows + (a->first[i] + k) * width;
        for (long j = 0; j < width; j++) to[j] += w * x[j];
    }
}

dl_status dl_resample(const dl_planes *in, long height, long width, dl_interpolation how, bool antialias, float *out) {
    axis x = {0}, y = {0};
    float *rows = dl_memory_alloc(in->height * width, (long)sizeof *rows);
    dl_status st = rows ? make_axis(&x, in->width, width, how, antialias) : dl_failed();
    if (st == DL_OK) st = make_axis(&y, in->height, height, how, antialias);
    for (long c = 0; st == DL_OK && c < in->channels; c++) {
        for (long i = 0; i < in->height; i++) across(&x, in->x + c * in->plane + i * in->row, rows + i * width);
        for (long i = 0; i < height; i++) down(&y, rows, width, i, out + (c * height + i) * width);
    }
    free(rows);
    free_axis(&x);
    free_axis(&y);
    return st;
}
