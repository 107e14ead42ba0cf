/* Transforms that move, cut and resize pictures, with the formulas of torchvision's. */
#include <math.h>

#include "data/pictures/resample.h"
#include "data/transforms/transform.h"

#define PI 3.14159265358979323846

/* ---------------------------------------------------------------- sizes */

/* Height and width of a parameter with one or two numbers. */
static void size_of(const double *p, long *h, long *w) { *h = (long)p[1], *w = (long)p[p[0] > 1 ? 2 : 1]; }

dl_status dl_shape_crop(long shape[3], const double *p) { return size_of(p, &shape[1], &shape[2]), DL_OK; }

dl_status dl_shape_resize(long shape[3], const double *p) {
    long h, w, side = (long)p[1];
    size_of(p, &h, &w);
    if (p[0] < 2 && shape[1] <= shape[2])
        h = side, w = side * shape[2] / shape[1];
    else if (p[0] < 2)
        w = side, h = side * shape[1] / shape[2];
    shape[1] = h, shape[2] = w;
    return DL_OK;
}

/* size[3], padding, fill. */
enum { CROP_PADDING = 3, CROP_FILL = 4 };

dl_status dl_shape_random_crop(long shape[3], const double *p) {
    long h, w, pad = (long)p[CROP_PADDING];
    size_of(p, &h, &w);
    if (h > shape[1] + 2 * pad || w > shape[2] + 2 * pad)
        return dl_fail_hint(DL_ERR_SHAPE, "padding=4 adds pixels on all sides",
                            "transform 'random_crop' cuts %ld x %ld pixels out of %ld x %ld", w, h, shape[2] + 2 * pad,
                            shape[1] + 2 * pad);
    shape[1] = h, shape[2] = w;
    return DL_OK;
}

/* tmp, which was filled as h x w, becomes the picture. */
static void take(dl_sample *s, long h, long w) {
    float *x = s->x;
    s->x = s->tmp, s->tmp = x;
    s->h = h, s->w = w, s->n = s->c * h * w;
}

/* The h x w pixels from (top, left) on; `fill` outside of the picture. */
static void cut(dl_sample *s, long top, long left, long h, long w, float fill) {
    for (long c = 0; c < s->c; c++)
        for (long i = 0; i < h; i++)
            for (long j = 0; j < w; j++) {
                long y = top + i, x = left + j;
                int inside = y >= 0 && y < s->h && x >= 0 && x < s->w;
                s->tmp[(c * h + i) * w + j] = inside ? s->x[(c * s->h + y) * s->w + x] : fill;
            }
    take(s, h, w);
}

/* Where `size` pixels of `have` begin; pixels that are missing are added on both sides, the odd one at the end. */
static long middle(long have, long size) {
    return size > have ? -((size - have) / 2) : (long)rint((double)(have - size) / 2);
}

dl_status dl_transform_center_crop(dl_sample *s, const double *p, dl_draw *r DL_UNUSED) {
    long h, w;
    size_of(p, &h, &w);
    cut(s, middle(s->h, h), middle(s->w, w), h, w, 0);
    return DL_OK;
}

dl_status dl_transform_random_crop(dl_sample *s, const double *p, dl_draw *r) {
    long h, w, pad = (long)p[CROP_PADDING];
    size_of(p, &h, &w);
    long top = (long)dl_draw_below(r, (uint32_t)(s->h + 2 * pad - h + 1)) - pad,
         left = (long)dl_draw_below(r, (uint32_t)(s->w + 2 * pad - w + 1)) - pad;
    cut(s, top, left, h, w, (float)p[CROP_FILL]);
    return DL_OK;
}

/* ---------------------------------------------------------------- resizing */

static dl_status resize_part(dl_sample *s, long top, long left, long ph, long pw, long h, long w, const double *how) {
    dl_planes part = {s->x + top * s->w + left, s->c, ph, pw, s->w, s->h * s->w};
    DL_TRY(dl_resample(&part, h, w, (dl_interpolation)how[0], how[1] > 0, s->tmp));
    take(s, h, w);
    return DL_OK;
}

/* size[3], interpolation, antialias. */
dl_status dl_transform_resize(dl_sample *s, const double *p, dl_draw *r DL_UNUSED) {
    long shape[3] = {s->c, s->h, s->w};
    DL_TRY(dl_shape_resize(shape, p));
    return resize_part(s, 0, 0, s->h, s->w, shape[1], shape[2], p + 3);
}

enum { TRIES = 10 };

/* A part of the picture: its area, by scale[3], and the ratio of its sides, by ratio[3]. */
static void draw_part(const dl_sample *s, const double *scale, const double *ratio, dl_draw *r, double *area,
                      double *shape) {
    *area = (double)(s->h * s->w) * dl_draw_in(r, scale[1], scale[2]);
    *shape = exp(dl_draw_in(r, log(ratio[1]), log(ratio[2])));
}

static dl_status check_ranges(const char *name, const double *scale, const double *ratio) {
    if (scale[0] == 2 && ratio[0] == 2 && scale[1] <= scale[2] && ratio[1] <= ratio[2]) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "transform '%s': scale and ratio are [least, most]", name);
}

dl_status dl_shape_resized_crop(long shape[3], const double *p) {
    DL_TRY(check_ranges("random_resized_crop", p + 3, p + 6));
    return dl_shape_crop(shape, p);
}

dl_status dl_shape_erasing(long shape[3] DL_UNUSED, const double *p) {
    return check_ranges("random_erasing", p + 1, p + 4);
}

/* The largest part in the middle that has a ratio of width to height from ratio[1] to ratio[2]. */
static void middle_part(const dl_sample *s, const double *ratio, long *h, long *w) {
    double in = (double)s->w / (double)s->h;
    *w = s->w, *h = s->h;
    if (in < ratio[1]) *h = (long)rint((double)s->w / ratio[1]);
    if (in > ratio[2]) *w = (long)rint((double)s->h * ratio[2]);
}

/* size[3], scale[3], ratio[3], interpolation, antialias. */
dl_status dl_transform_random_resized_crop(dl_sample *s, const double *p, dl_draw *r) {
    const double *scale = p + 3, *ratio = p + 6;
    double area, shape;
    long h, w, ph, pw;
    size_of(p, &h, &w);
    for (int i = 0; i < TRIES; i++) {
        draw_part(s, scale, ratio, r, &area, &shape);
        pw = (long)rint(sqrt(area * shape)), ph = (long)rint(sqrt(area / shape));
        if (pw < 1 || pw > s->w || ph < 1 || ph > s->h) continue;
        long top = (long)dl_draw_below(r, (uint32_t)(s->h - ph + 1)),
             left = (long)dl_draw_below(r, (uint32_t)(s->w - pw + 1));
        return resize_part(s, top, left, ph, pw, h, w, p + 9);
    }
    middle_part(s, ratio, &ph, &pw);
    return resize_part(s, (s->h - ph) / 2, (s->w - pw) / 2, ph, pw, h, w, p + 9);
}

/* p, scale[3], ratio[3], value. */
dl_status dl_transform_random_erasing(dl_sample *s, const double *p, dl_draw *r) {
    const double *scale = p + 1, *ratio = p + 4;
    double area, shape;
    if (dl_draw_unit(r) >= p[0]) return DL_OK;
    for (int i = 0; i < TRIES; i++) {
        draw_part(s, scale, ratio, r, &area, &shape);
        long h = (long)rint(sqrt(area * shape)), w = (long)rint(sqrt(area / shape));
        if (h >= s->h || w >= s->w) continue;
        long top = (long)dl_draw_below(r, (uint32_t)(s->h - h + 1)),
             left = (long)dl_draw_below(r, (uint32_t)(s->w - w + 1));
        for (long c = 0; c < s->c; c++)
            for (long y = top; y < top + h; y++)
                for (long x = left; x < left + w; x++) s->x[(c * s->h + y) * s->w + x] = (float)p[7];
        return DL_OK;
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- affine maps */

/* Where a pixel comes from, around the centre: (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]). Angles in degrees. */
static void inverse(double angle, double tx, double ty, double scale, double shear_x, double shear_y, double m[6]) {
    double rot = angle * PI / 180, sx = shear_x * PI / 180, sy = shear_y * PI / 180;
    double a = cos(rot - sy) / cos(sy), b = -cos(rot - sy) * tan(sx) / cos(sy) - sin(rot), c = sin(rot - sy) / cos(sy),
           d = -sin(rot - sy) * tan(sx) / cos(sy) + cos(rot);
    m[0] = d / scale, m[1] = -b / scale, m[3] = -c / scale, m[4] = a / scale;
    m[2] = -m[0] * tx - m[1] * ty, m[5] = -m[3] * tx - m[4] * ty;
}

static float nearest(const float *plane, long h, long w, double y, double x, float fill) {
    long i = (long)rint(y), j = (long)rint(x);
    return i >= 0 && i < h && j >= 0 && j < w ? plane[i * w + j] : fill;
}

/* how: interpolation, fill. */
static void map(dl_sample *s, const double m[6], const double *how) {
    double cx = (double)s->w / 2 - 0.5, cy = (double)s->h / 2 - 0.5;
    for (long c = 0; c < s->c; c++) {
        const float *plane = s->x + c * s->h * s->w;
        for (long i = 0; i < s->h; i++)
            for (long j = 0; j < s->w; j++) {
                double dx = (double)j - cx, dy = (double)i - cy, x = m[0] * dx + m[1] * dy + m[2] + cx,
                       y = m[3] * dx + m[4] * dy + m[5] + cy;
                s->tmp[(c * s->h + i) * s->w + j] =
                    (how[0] > 0 ? dl_pixel_between : nearest)(plane, s->h, s->w, y, x, (float)how[1]);
            }
    }
    take(s, s->h, s->w);
}

/* Of a list with one number, from its negative to it; else between its numbers i and i + 1. */
static double draw_angle(const double *p, int i, dl_draw *r) {
    return p[0] < 2 ? dl_draw_in(r, -p[1], p[1]) : dl_draw_in(r, p[1 + i], p[2 + i]);
}

/* degrees[3], interpolation, fill. */
dl_status dl_transform_random_rotation(dl_sample *s, const double *p, dl_draw *r) {
    double m[6];
    inverse(-draw_angle(p, 0, r), 0, 0, 1, 0, 0, m);
    map(s, m, p + 3);
    return DL_OK;
}

dl_status dl_shape_affine(long shape[3] DL_UNUSED, const double *p) {
    const double *translate = p + 3, *scale = p + 6, *shear = p + 9;
    if (translate[0] == 2 && scale[0] == 2 && scale[1] <= scale[2] && shear[0] != 3) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "transform 'random_affine': translate is [along the width, along the height], scale "
                                 "[least, most], shear one, two or four numbers");
}

/* degrees[3], translate[3], scale[3], shear[5], interpolation, fill. */
dl_status dl_transform_random_affine(dl_sample *s, const double *p, dl_draw *r) {
    const double *translate = p + 3, *scale = p + 6, *shear = p + 9;
    double m[6];
    double angle = draw_angle(p, 0, r), wide = translate[1] * (double)s->w, high = translate[2] * (double)s->h;
    double tx = rint(dl_draw_in(r, -wide, wide)), ty = rint(dl_draw_in(r, -high, high));
    double factor = dl_draw_in(r, scale[1], scale[2]), sx = draw_angle(shear, 0, r);
    double sy = shear[0] == 4 ? draw_angle(shear, 2, r) : 0;
    inverse(angle, tx, ty, factor, sx, sy, m);
    map(s, m, p + 14);
    return DL_OK;
}
