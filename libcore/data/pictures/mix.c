/* Transforms of whole batches: each sample is mixed with the one before it, the first with the last. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/transforms/transform.h"
#include "dlcore.h"

/* From a gamma distribution with this shape (Marsaglia and Tsang, A simple method for generating gamma variables,
 * 2000); shapes below 1 come from the next larger one. */
static double draw_gamma(double shape, dl_draw *r) {
    double low = shape < 1 ? pow(1 - dl_draw_unit(r), 1 / shape) : 1, d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3;
    for (;;) {
        double z = dl_draw_normal(r), v = 1 + z / sqrt(9 * d);
        double u = 1 - dl_draw_unit(r);
        if (v <= 0) continue;
        v = v * v * v;
        if (log(u) < z * z / 2 + d - d * v + d * log(v)) return low * d * v;
    }
}

/* From Beta(alpha, alpha). */
static double draw_share(double alpha, dl_draw *r) {
    double a = draw_gamma(alpha, r), b = draw_gamma(alpha, r);
    return a + b > 0 ? a / (a + b) : dl_draw_unit(r) < 0.5;
}

/* Row i becomes lam of itself and the rest of the row before it. */
static dl_status blend(float *x, long n, long each, double lam) {
    float *last = dl_memory_alloc(each, (long)sizeof *last);
    if (!last) return dl_failed();
    memcpy(last, x + (n - 1) * each, (size_t)each * sizeof *x);
    for (long i = n - 1; i >= 0; i--) {
        const float *other = i ? x + (i - 1) * each : last;
        for (long k = 0; k < each; k++) x[i * each + k] = (float)lam * x[i * each + k] + (float)(1 - lam) * other[k];
    }
    free(last);
    return DL_OK;
}

dl_status dl_transform_mixup(dl_mixed *b, const double *p, dl_draw *r) {
    double lam = draw_share(p[0], r);
    DL_TRY(blend(b->x, b->n, b->each, lam));
    return blend(b->y, b->n, b->classes, lam);
}

/* Copies the rectangle of one sample into another. */
static void put(const dl_mixed *b, const float *from, float *to, const long box[4]) {
    for (long c = 0; c < b->c; c++)
        for (long y = box[0]; y < box[1]; y++) {
            long at = (c * b->h + y) * b->w + box[2];
            memcpy(to + at, from + at, (size_t)(box[3] - box[2]) * sizeof *to);
        }
}

static long within(double v, long most) { return v < 0 ? 0 : v > (double)most ? most : (long)v; }

dl_status dl_transform_cutmix(dl_mixed *b, const double *p, dl_draw *r) {
    double lam = draw_share(p[0], r), half = 0.5 * sqrt(1 - lam);
    long cx = dl_draw_below(r, (uint32_t)b->w), cy = dl_draw_below(r, (uint32_t)b->h);
    long half_w = (long)(half * (double)b->w), half_h = (long)(half * (double)b->h);
    long box[4] = {within((double)(cy - half_h), b->h), within((double)(cy + half_h), b->h),
                   within((double)(cx - half_w), b->w), within((double)(cx + half_w), b->w)};
    float *last = dl_memory_alloc(b->each, (long)sizeof *last);
    if (!last) return dl_failed();
    memcpy(last, b->x + (b->n - 1) * b->each, (size_t)b->each * sizeof *last);
    for (long i = b->n - 1; i >= 0; i--) put(b, i ? b->x + (i - 1) * b->each : last, b->x + i * b->each, box);
    free(last);
    lam = 1 - (double)((box[1] - box[0]) * (box[3] - box[2])) / (double)(b->h * b->w);
    return blend(b->y, b->n, b->classes, lam);
}
