/* Data sets that are made, not read: the digits, and points for small experiments. Sample i of a split follows from
 * (seed, split, i) alone, so more samples keep the former ones. */
#include "data/datasets.h"
#include "core/scope.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "data/generated/digits.h"
#include "data/draw.h"

/* Raised when the points change: it enters fingerprints. */
enum { POINTS_VERSION = 1, MAX_SAMPLES = 100000000, MAX_WIDTH = 100000 };

static dl_status in_range(const dl_data_args *a, const char *name, long least, long most) {
    long v = dl_data_int(a, name);
    if (v >= least && v <= most) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "dataset '%s': %s=%ld; it is %ld to %ld", a->kind->name, name, v, least, most);
}

/* Fingerprint of kind, version and every option but the normalisation. */
static dl_status sign(const dl_data_args *a, dl_dataset *d, int version) {
    char *text = dl_data_options_text(a, "normalize");
    size_t n = text ? strlen(text) + strlen(d->name) + 32 : 0;
    char *full = text ? dl_data_alloc((long)n, 1) : NULL;
    dl_status st = full ? DL_OK : dl_failed();
    if (full) {
        snprintf(full, n, "%s version %d: %s", d->name, version, text);
        dl_data_set_fingerprint(d, full);
    }
    free(text);
    free(full);
    return st;
}

/* ---------------------------------------------------------------- digits */

static void render_digit(const dl_dataset *d, int split, long i, uint8_t *out) {
    dl_digits_draw(d->seed, split, i, out);
}

dl_status dl_open_digits(const dl_data_args *a, dl_dataset *d) {
    const long shape[3] = {1, DL_DIGITS_SIDE, DL_DIGITS_SIDE};
    DL_TRY(in_range(a, "n", 1, MAX_SAMPLES));
    DL_TRY(in_range(a, "test", 0, MAX_SAMPLES));
    d->dtype = DL_U8, d->seed = (uint64_t)dl_data_int(a, "seed"), d->render = render_digit;
    dl_data_set_shape(d, 3, shape);
    DL_TRY(dl_data_set_classes(d, 10, NULL));
    for (int s = 0; s < 2; s++) {
        DL_TRY(dl_data_reserve(d, s, dl_data_int(a, s ? "test" : "n")));
        for (long i = 0; i < d->split[s].n; i++) {
            DL_TRY(dl_interrupt_check_at(i));
            ((int64_t *)d->split[s].y)[i] = dl_digits_label(d->seed, s, i);
        }
    }
    DL_TRY(sign(a, d, DL_DIGITS_VERSION));
    if (strcmp(dl_data_str(a, "normalize"), "standard")) return dl_data_normalize(d, dl_data_str(a, "normalize"));
    return dl_data_standardize_bytes(d, DL_DIGITS_MEAN, DL_DIGITS_DEVIATION);
}

/* ---------------------------------------------------------------- points */

/* Fills sample i: x[numel], and the class through *label or the targets through y. */
typedef void make_point(const dl_data_args *a, const dl_dataset *d, const double *p, dl_draw *r, float *x, float *y,
                        int64_t *label);

/* Both splits of a generator. `classes` 0: regression. p: what the samples share. */
static dl_status make_points(const dl_data_args *a, dl_dataset *d, long features, long classes, const double *p,
                             make_point *make) {
    DL_TRY(in_range(a, "n", 1, MAX_SAMPLES));
    DL_TRY(in_range(a, "test", 0, MAX_SAMPLES));
    d->seed = (uint64_t)dl_data_int(a, "seed");
    dl_data_set_shape(d, 1, &features);
    if (classes) DL_TRY(dl_data_set_classes(d, classes, NULL));
    for (int s = 0; s < 2; s++) {
        dl_samples *to = &d->split[s];
        DL_TRY(dl_data_reserve(d, s, dl_data_int(a, s ? "test" : "n")));
        for (long i = 0; i < to->n; i++) {
            DL_TRY(dl_interrupt_check_at(i));
            dl_draw r = dl_draw_begin(d->seed, DL_FOR_POINTS, (uint64_t)s, (uint64_t)i);
            make(a, d, p, &r, (float *)to->x + i * features, classes ? NULL : (float *)to->y + i * d->target_numel,
                 classes ? (int64_t *)to->y + i : NULL);
        }
    }
    DL_TRY(sign(a, d, POINTS_VERSION));
    return dl_data_normalize(d, dl_data_str(a, "normalize"));
}

static void add_noise(dl_draw *r, const dl_data_args *a, const double *v, long n, float *x) {
    double noise = dl_data_float(a, "noise");
    for (long j = 0; j < n; j++) x[j] = (float)(v[j] + noise * dl_draw_normal(r));
}

static void moon(const dl_data_args *a, const dl_dataset *d DL_UNUSED, const double *p DL_UNUSED, dl_draw *r, float *x,
                 float *y DL_UNUSED, int64_t *label) {
    double s, c;
    *label = dl_draw_below(r, 2);
    dl_fixed_sincos(dl_draw_unit(r) / 2, &s, &c);
    add_noise(r, a, *label ? (double[]){1 - c, 0.5 - s} : (double[]){c, s}, 2, x);
}

dl_status dl_open_moons(const dl_data_args *a, dl_dataset *d) { return make_points(a, d, 2, 2, NULL, moon); }

static void on_spiral(const dl_data_args *a, const dl_dataset *d, const double *p DL_UNUSED, dl_draw *r, float *x,
                      float *y DL_UNUSED, int64_t *label) {
    double s, c, t = sqrt(dl_draw_unit(r)), turns = dl_data_float(a, "turns");
    *label = dl_draw_below(r, (uint32_t)d->classes);
    dl_fixed_sincos(turns * t + (double)*label / (double)d->classes, &s, &c);
    add_noise(r, a, (double[]){t * c, t * s}, 2, x);
}

dl_status dl_open_spirals(const dl_data_args *a, dl_dataset *d) {
    DL_TRY(in_range(a, "classes", 1, 1000));
    return make_points(a, d, 2, dl_data_int(a, "classes"), NULL, on_spiral);
}

static void in_cloud(const dl_data_args *a, const dl_dataset *d, const double *p, dl_draw *r, float *x,
                     float *y DL_UNUSED, int64_t *label) {
    double std = dl_data_float(a, "std");
    *label = dl_draw_below(r, (uint32_t)d->classes);
    for (long j = 0; j < d->numel; j++) x[j] = (float)(p[*label * d->numel + j] + std * dl_draw_normal(r));
}

dl_status dl_open_blobs(const dl_data_args *a, dl_dataset *d) {
    DL_TRY(in_range(a, "classes", 1, 1000));
    DL_TRY(in_range(a, "features", 1, MAX_WIDTH));
    long classes = dl_data_int(a, "classes"), features = dl_data_int(a, "features");
    DL_FREED double *centre = dl_data_alloc(classes * features, sizeof *centre);
    if (!centre) return dl_failed();
    dl_draw r = dl_draw_begin((uint64_t)dl_data_int(a, "seed"), DL_FOR_PARAMETERS, 0, 0);
    for (long i = 0; i < classes * features; i++) centre[i] = dl_draw_in(&r, -5, 5);
    return make_points(a, d, features, classes, centre, in_cloud);
}

static void in_square(const dl_data_args *a, const dl_dataset *d DL_UNUSED, const double *p DL_UNUSED, dl_draw *r,
                      float *x, float *y DL_UNUSED, int64_t *label) {
    double v[2] = {dl_draw_in(r, -1, 1), dl_draw_in(r, -1, 1)};
    *label = (v[0] < 0) != (v[1] < 0);
    add_noise(r, a, v, 2, x);
}

dl_status dl_open_xor(const dl_data_args *a, dl_dataset *d) { return make_points(a, d, 2, 2, NULL, in_square); }

/* p: the weights [features][targets], then the biases. */
static void on_plane(const dl_data_args *a, const dl_dataset *d, const double *p, dl_draw *r, float *x, float *y,
                     int64_t *label DL_UNUSED) {
    long n = d->numel, k = d->target_numel;
    double noise = dl_data_float(a, "noise");
    for (long j = 0; j < n; j++) x[j] = (float)dl_draw_normal(r);
    for (long t = 0; t < k; t++) {
        double sum = p[n * k + t];
        for (long j = 0; j < n; j++) sum += x[j] * p[j * k + t];
        y[t] = (float)(sum + noise * dl_draw_normal(r));
    }
}

dl_status dl_open_regression(const dl_data_args *a, dl_dataset *d) {
    DL_TRY(in_range(a, "features", 1, MAX_WIDTH));
    DL_TRY(in_range(a, "targets", 1, MAX_WIDTH));
    long features = dl_data_int(a, "features"), targets = dl_data_int(a, "targets"), n = (features + 1) * targets;
    DL_FREED double *p = dl_data_alloc(n, sizeof *p);
    if (!p) return dl_failed();
    dl_draw r = dl_draw_begin((uint64_t)dl_data_int(a, "seed"), DL_FOR_PARAMETERS, 1, 0);
    for (long i = 0; i < n; i++) p[i] = dl_draw_normal(&r);
    dl_data_set_target(d, 1, &targets);
    return make_points(a, d, features, 0, p, on_plane);
}
