/* Transforms: reading lists of them, and what each does to a sample. */
#include "data/transform.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row of the table; its parameters are an array of their own, ended by one without a name. */
typedef struct row {
    dl_transform_kind kind;
    int dims;
    dl_transform_fn *fn;
} row;

#define TRANSFORM(name, doc, dims, fn, ...) static const dl_transform_param params_##name[] = {__VA_ARGS__, {0}};
#include "data/transforms.def"
#undef TRANSFORM
#define TRANSFORM(name, doc, dims, fn, ...) {{#name, doc, params_##name}, dims, fn},
static const row rows[] = {
#include "data/transforms.def"
};
#undef TRANSFORM
enum { NROWS = sizeof rows / sizeof *rows };

/* ---------------------------------------------------------------- lists */

static const row *find(const char *name, size_t len) {
    const char *names[NROWS];
    char word[64];
    for (int i = 0; i < NROWS; i++) {
        names[i] = rows[i].kind.name;
        if (strlen(names[i]) == len && !memcmp(names[i], name, len)) return &rows[i];
    }
    snprintf(word, sizeof word, "%.*s", len < 60 ? (int)len : 60, name);
    dl_fail_unknown(word, names, NROWS, NULL, "there is no transform '%s'", word);
    return NULL;
}

/* Sets a parameter from the word s[len], "VALUE" or "NAME=VALUE". */
static dl_status read_param(const row *r, const char *s, size_t len, double *p) {
    const char *eq = memchr(s, '=', len);
    size_t name = eq ? (size_t)(eq - s) : 0;
    char text[64], *end;
    int i = 0;
    const dl_transform_param *params = r->kind.params;
    while (eq && params[i].name && (strlen(params[i].name) != name || memcmp(params[i].name, s, name))) i++;
    if (!params[i].name)
        return dl_fail_hint(DL_ERR_NAME, r->kind.doc, "transform '%s' has no parameter '%.*s'", r->kind.name, (int)name,
                            s);
    const char *from = eq ? eq + 1 : s;
    size_t n = (size_t)(s + len - from);
    snprintf(text, sizeof text, "%.*s", n < 60 ? (int)n : 60, from);
    p[i] = strtod(text, &end);
    if (end == text || *end || !(p[i] >= params[i].least && p[i] <= params[i].most))
        return dl_fail_hint(DL_ERR_VALUE, params[i].doc, "transform '%s': %s=%s; it is a number from %g to %g",
                            r->kind.name, params[i].name, text, params[i].least, params[i].most);
    return DL_OK;
}

/* One transform, s[len]: its name and its parameters, between blanks. */
static dl_status read_step(const char *s, size_t len, int ndim, dl_transforms *out) {
    const row *r = NULL;
    double *p = out->step[out->n].p;
    for (size_t i = 0; i < len;) {
        while (i < len && isspace((unsigned char)s[i])) i++;
        size_t from = i;
        while (i < len && !isspace((unsigned char)s[i])) i++;
        if (i == from) break;
        if (r) {
            DL_TRY(read_param(r, s + from, i - from, p));
            continue;
        }
        if (!(r = find(s + from, i - from))) return DL_ERR_NAME;
        for (int k = 0; r->kind.params[k].name; k++) p[k] = strtod(r->kind.params[k].dflt, NULL);
    }
    if (!r)
        return dl_fail_hint(DL_ERR_VALUE, "separate transforms by one comma: \"crop 4, flip\"",
                            "a transform is missing beside a comma");
    if (r->dims && r->dims != ndim)
        return dl_fail(DL_ERR_SHAPE,
                       "transform '%s' takes pictures [channels, height, width]; these samples are %d-dimensional",
                       r->kind.name, ndim);
    out->step[out->n].kind = (int)(r - rows);
    out->step[out->n++].fn = r->fn;
    return DL_OK;
}

dl_status dl_transforms_parse(const char *text, int ndim, dl_transforms *out) {
    memset(out, 0, sizeof *out);
    if (!text || !*text) return DL_OK;
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");
        if (out->n == DL_MAX_TRANSFORMS)
            return dl_fail(DL_ERR_VALUE, "a list holds at most %d transforms", DL_MAX_TRANSFORMS);
        DL_TRY(read_step(at, len, ndim, out));
        at += len;
        if (!*at) return DL_OK;
    }
}

void dl_transforms_apply(const dl_transforms *t, dl_sample *s, dl_draw *r) {
    for (int i = 0; i < t->n; i++) t->step[i].fn(s, t->step[i].p, r);
}

const dl_transform_kind *dl_transform_at(int i) { return i >= 0 && i < NROWS ? &rows[i].kind : NULL; }

/* ---------------------------------------------------------------- what they do */

void dl_transform_normalize(dl_sample *s, const double *p, dl_draw *r) {
    (void)r;
    float mean = (float)p[0], scale = (float)(1 / p[1]);
    for (long i = 0; i < s->n; i++) s->x[i] = (s->x[i] - mean) * scale;
}

static void swap(float *a, float *b) {
    float t = *a;
    *a = *b, *b = t;
}

void dl_transform_flip(dl_sample *s, const double *p, dl_draw *r) {
    if (dl_draw_unit(r) >= p[0]) return;
    for (long i = 0; i < s->c * s->h; i++)
        for (long j = 0; j < s->w / 2; j++) swap(&s->x[i * s->w + j], &s->x[i * s->w + s->w - 1 - j]);
}

void dl_transform_vflip(dl_sample *s, const double *p, dl_draw *r) {
    if (dl_draw_unit(r) >= p[0]) return;
    for (long c = 0; c < s->c; c++)
        for (long i = 0; i < s->h / 2; i++)
            for (long j = 0; j < s->w; j++)
                swap(&s->x[(c * s->h + i) * s->w + j], &s->x[(c * s->h + s->h - 1 - i) * s->w + j]);
}

/* Moves the picture down by dy and right by dx. */
static void move(dl_sample *s, long dy, long dx, float fill) {
    memcpy(s->tmp, s->x, (size_t)s->n * sizeof *s->x);
    for (long c = 0; c < s->c; c++)
        for (long i = 0; i < s->h; i++)
            for (long j = 0; j < s->w; j++) {
                long y = i - dy, x = j - dx;
                bool inside = y >= 0 && y < s->h && x >= 0 && x < s->w;
                s->x[(c * s->h + i) * s->w + j] = inside ? s->tmp[(c * s->h + y) * s->w + x] : fill;
            }
}

void dl_transform_shift(dl_sample *s, const double *p, dl_draw *r) {
    uint32_t range = 2 * (uint32_t)p[0] + 1;
    long dy = (long)dl_draw_below(r, range) - (long)p[0], dx = (long)dl_draw_below(r, range) - (long)p[0];
    if (dy || dx) move(s, dy, dx, (float)p[1]);
}

/* Cutting the former size out of a padded picture is a shift. */
void dl_transform_crop(dl_sample *s, const double *p, dl_draw *r) { dl_transform_shift(s, p, r); }

void dl_transform_rotate(dl_sample *s, const double *p, dl_draw *r) {
    double sine, cosine, cy = (double)(s->h - 1) / 2, cx = (double)(s->w - 1) / 2;
    dl_fixed_sincos(dl_draw_in(r, -p[0], p[0]) / 360, &sine, &cosine);
    memcpy(s->tmp, s->x, (size_t)s->n * sizeof *s->x);
    for (long c = 0; c < s->c; c++)
        for (long i = 0; i < s->h; i++)
            for (long j = 0; j < s->w; j++) {
                double dy = (double)i - cy, dx = (double)j - cx;
                s->x[(c * s->h + i) * s->w + j] =
                    dl_pixel_between(s->tmp + c * s->h * s->w, s->h, s->w, cy + cosine * dy - sine * dx,
                                     cx + sine * dy + cosine * dx, (float)p[1]);
            }
}

void dl_transform_cutout(dl_sample *s, const double *p, dl_draw *r) {
    long size = (long)p[0], y = (long)dl_draw_below(r, (uint32_t)s->h), x = (long)dl_draw_below(r, (uint32_t)s->w);
    long i0 = y - size / 2, j0 = x - size / 2; /* the centre is anywhere, so the square may reach over the edge */
    for (long c = 0; c < s->c; c++)
        for (long i = i0 < 0 ? 0 : i0; i < i0 + size && i < s->h; i++)
            for (long j = j0 < 0 ? 0 : j0; j < j0 + size && j < s->w; j++)
                s->x[(c * s->h + i) * s->w + j] = (float)p[1];
}

void dl_transform_noise(dl_sample *s, const double *p, dl_draw *r) {
    for (long i = 0; i < s->n; i++) s->x[i] += (float)(p[0] * dl_draw_normal(r));
}
