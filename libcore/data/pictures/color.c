/* Transforms of colours, with the formulas of torchvision's: numbers are from 0 to 1. */
#include <math.h>
#include <string.h>

#include "data/transforms/transform.h"

static dl_status check_color(const char *what, const long shape[3]) {
    if (shape[0] == 1 || shape[0] == 3) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "%s takes pictures of 1 or 3 channels, and these have %ld", what, shape[0]);
}

dl_status dl_shape_color(long shape[3], const double *p DL_UNUSED) {
    return check_color("a transform of colours", shape);
}

dl_status dl_shape_grayscale(long shape[3], const double *p) {
    DL_TRY(check_color("transform 'grayscale'", shape));
    if (p[0] != 1 && p[0] != 3)
        return dl_fail(DL_ERR_VALUE, "transform 'grayscale': num_output_channels=%g; it is 1 or 3", p[0]);
    shape[0] = (long)p[0];
    return DL_OK;
}

/* ---------------------------------------------------------------- gray */

static float gray_at(const dl_sample *s, long i) {
    long plane = s->h * s->w;
    return s->c < 3 ? s->x[i] : 0.2989f * s->x[i] + 0.587f * s->x[plane + i] + 0.114f * s->x[2 * plane + i];
}

static void make_gray(dl_sample *s, long channels) {
    long plane = s->h * s->w;
    for (long i = 0; i < plane; i++) s->tmp[i] = gray_at(s, i);
    for (long c = 0; c < channels; c++) memcpy(s->x + c * plane, s->tmp, (size_t)plane * sizeof *s->x);
    s->c = channels, s->n = channels * plane;
}

dl_status dl_transform_grayscale(dl_sample *s, const double *p, dl_draw *r DL_UNUSED) {
    make_gray(s, (long)p[0]);
    return DL_OK;
}

dl_status dl_transform_random_grayscale(dl_sample *s, const double *p, dl_draw *r) {
    if (dl_draw_unit(r) < p[0]) make_gray(s, s->c);
    return DL_OK;
}

/* ---------------------------------------------------------------- jitter */

static float inside(float v) { return v < 0 ? 0 : v > 1 ? 1 : v; }

static void brightness(dl_sample *s, double f) {
    for (long i = 0; i < s->n; i++) s->x[i] = inside((float)f * s->x[i]);
}

static void contrast(dl_sample *s, double f) {
    double mean = 0;
    for (long i = 0; i < s->h * s->w; i++) mean += gray_at(s, i);
    float rest = (float)((1 - f) * mean / (double)(s->h * s->w));
    for (long i = 0; i < s->n; i++) s->x[i] = inside((float)f * s->x[i] + rest);
}

static void saturation(dl_sample *s, double f) {
    long plane = s->h * s->w;
    for (long i = 0; s->c == 3 && i < plane; i++) {
        float rest = (float)(1 - f) * gray_at(s, i);
        for (long c = 0; c < 3; c++) s->x[c * plane + i] = inside((float)f * s->x[c * plane + i] + rest);
    }
}

/* Turns the hue of one pixel by f of a whole turn. */
static void turn_hue(float rgb[3], double f) {
    float r = rgb[0], g = rgb[1], b = rgb[2], most = fmaxf(r, fmaxf(g, b)), least = fminf(r, fminf(g, b));
    float range = most - least, h;
    if (range <= 0) return;
    if (most == r)
        h = (g - b) / range;
    else if (most == g)
        h = 2 + (b - r) / range;
    else
        h = 4 + (r - g) / range;
    double turned = (double)h / 6 + f;
    turned = (turned - floor(turned)) * 6;
    int sector = (int)turned % 6;
    float t = (float)(turned - floor(turned)), s = range / most;
    float p = inside(most * (1 - s)), q = inside(most * (1 - s * t)), u = inside(most * (1 - s * (1 - t)));
    const float of[6][3] = {{most, u, p}, {q, most, p}, {p, most, u}, {p, q, most}, {u, p, most}, {most, p, q}};
    memcpy(rgb, of[sector], sizeof of[sector]);
}

static void hue(dl_sample *s, double f) {
    long plane = s->h * s->w;
    for (long i = 0; s->c == 3 && i < plane; i++) {
        float rgb[3] = {s->x[i], s->x[plane + i], s->x[2 * plane + i]};
        turn_hue(rgb, f);
        for (long c = 0; c < 3; c++) s->x[c * plane + i] = rgb[c];
    }
}

/* From a list of one number b, around `middle` but not below `floor_at`; or of the least and the most. */
static double draw_factor(const double *p, double middle, double floor_at, dl_draw *r) {
    double lo = p[0] < 2 ? middle - p[1] : p[1], hi = p[0] < 2 ? middle + p[1] : p[2];
    return dl_draw_in(r, lo < floor_at ? floor_at : lo, hi);
}

static bool is_off(const double *p, double middle) { return p[0] < 2 ? p[1] == 0 : p[1] == middle && p[2] == middle; }

/* brightness[3], contrast[3], saturation[3], hue[3]. */
dl_status dl_transform_color_jitter(dl_sample *s, const double *p, dl_draw *r) {
    static void (*const change[4])(dl_sample *, double) = {brightness, contrast, saturation, hue};
    double factor[4];
    long order[4];
    dl_draw_permutation(r, 4, order);
    for (int i = 0; i < 4; i++) factor[i] = draw_factor(p + 3 * i, i < 3, i < 3 ? 0 : -0.5, r);
    for (int i = 0; i < 4; i++)
        if (!is_off(p + 3 * order[i], order[i] < 3)) change[order[i]](s, factor[order[i]]);
    return DL_OK;
}
