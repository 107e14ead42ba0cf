/* Transforms: reading lists of them, and what each does to a sample. */
#include "data/transforms/transform.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row of the table; its parameters are an array of their own, ended by one without a name. */
typedef struct row {
    dl_transform_kind kind;
    int dims;
    dl_transform_fn *fn;
    dl_transform_shape *shape;
    dl_transform_batch *batch;
    bool host;
} row;

#define TRANSFORM(name, doc, dims, fn, shape, ...) static const dl_transform_param params_##name[] = {__VA_ARGS__, {0}};
#define HOST_TRANSFORM TRANSFORM
#define BATCH_TRANSFORM(name, doc, fn, ...) static const dl_transform_param params_##name[] = {__VA_ARGS__, {0}};
#include "data/transforms/transforms.def"
#undef TRANSFORM
#undef HOST_TRANSFORM
#undef BATCH_TRANSFORM
#define TRANSFORM(name, doc, dims, fn, shape, ...) {{#name, doc, params_##name}, dims, fn, shape, NULL, false},
#define HOST_TRANSFORM(name, doc, dims, fn, shape, ...) {{#name, doc, params_##name}, dims, fn, shape, NULL, true},
#define BATCH_TRANSFORM(name, doc, fn, ...) {{#name, doc, params_##name}, 0, NULL, NULL, fn, true},
static const row rows[] = {
#include "data/transforms/transforms.def"
};
#undef TRANSFORM
#undef HOST_TRANSFORM
#undef BATCH_TRANSFORM
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

/* Characters of s[len] up to one of `ends` that stands outside of brackets. */
static size_t span(const char *s, size_t len, const char *ends) {
    int deep = 0;
    size_t i = 0;
    for (; i < len; i++) {
        if (strchr("[(", s[i])) deep++;
        if (strchr("])", s[i]) && deep) deep--;
        if (!deep && strchr(ends, s[i])) break;
    }
    return i;
}

static dl_status bad_value(const row *r, const dl_transform_param *q, const char *text) {
    if (q->words)
        return dl_fail_hint(DL_ERR_VALUE, q->doc, "transform '%s': %s=%s; it is one of %s", r->kind.name, q->name, text,
                            q->words);
    if (q->count > 1)
        return dl_fail_hint(DL_ERR_VALUE, q->doc,
                            "transform '%s': %s=%s; it is a number from %g to %g, or [..] of at most %d", r->kind.name,
                            q->name, text, q->least, q->most, q->count);
    return dl_fail_hint(DL_ERR_VALUE, q->doc, "transform '%s': %s=%s; it is a number from %g to %g", r->kind.name,
                        q->name, text, q->least, q->most);
}

/* Which of "a|b|c" is it? -1: none. */
static int number_of_word(const char *words, const char *word) {
    size_t n = strlen(word);
    int k = 0;
    for (const char *p = words; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL, k++)
        if (strcspn(p, "|") == n && !strncmp(p, word, n)) return k;
    return -1;
}

/* The value of a parameter into its places. */
static dl_status read_value(const row *r, const dl_transform_param *q, const char *text, double *p) {
    if (q->words) {
        int k = number_of_word(q->words, text);
        return k < 0 ? bad_value(r, q, text) : (p[0] = k, DL_OK);
    }
    const char *at = text + strspn(text, "[( ");
    int n = 0;
    double *to = q->count > 1 ? p + 1 : p;
    while (*at && !strchr("])", *at)) {
        char *end;
        double v = strtod(at, &end);
        if (end == at || n == q->count || !(v >= q->least && v <= q->most)) return bad_value(r, q, text);
        to[n++] = v;
        at = end + strspn(end, ", ");
    }
    if (!n || (*at && at[1 + strspn(at + 1, " ")])) return bad_value(r, q, text);
    if (q->count > 1) p[0] = n;
    return DL_OK;
}

/* Places that a parameter takes. */
static int places(const dl_transform_param *q) { return q->count > 1 ? q->count + 1 : 1; }

/* Sets a parameter from the word s[len], "VALUE" or "NAME=VALUE". */
static dl_status read_param(const row *r, const char *s, size_t len, double *p, bool *given) {
    const char *eq = memchr(s, '=', len);
    size_t name = eq ? (size_t)(eq - s) : 0;
    char text[96];
    int i = 0;
    const dl_transform_param *params = r->kind.params;
    while (eq && params[i].name && (strlen(params[i].name) != name || memcmp(params[i].name, s, name))) {
        p += places(&params[i]);
        i++;
    }
    if (!params[i].name)
        return dl_fail_hint(DL_ERR_NAME, r->kind.doc, "transform '%s' has no parameter '%.*s'", r->kind.name, (int)name,
                            s);
    const char *from = eq ? eq + 1 : s;
    size_t n = (size_t)(s + len - from);
    snprintf(text, sizeof text, "%.*s", n < 90 ? (int)n : 90, from);
    given[i] = true;
    return read_value(r, &params[i], text, p);
}

static dl_status set_defaults(const row *r, double *p, const bool *given) {
    for (int i = 0; r->kind.params[i].name; p += places(&r->kind.params[i++])) {
        const dl_transform_param *q = &r->kind.params[i];
        if (given[i]) continue;
        if (!q->dflt) return dl_fail_hint(DL_ERR_VALUE, q->doc, "transform '%s' needs %s", r->kind.name, q->name);
        DL_TRY(read_value(r, q, q->dflt, p));
    }
    return DL_OK;
}

/* What a step makes of the shape, and whether it may stand there. */
static dl_status take_step(const row *r, int ndim, dl_transforms *out) {
    if ((r->dims && r->dims != ndim) || (r->batch && r->batch == dl_transform_cutmix && ndim != 3))
        return dl_fail(DL_ERR_SHAPE,
                       "transform '%s' takes pictures [channels, height, width]; these samples are %d-dimensional",
                       r->kind.name, ndim);
    if (out->mixes && !r->batch)
        return dl_fail_hint(DL_ERR_VALUE, "write it before them", "transform '%s' stands behind one of whole batches",
                            r->kind.name);
    if (r->shape) {
        long before[3];
        memcpy(before, out->shape, sizeof before);
        DL_TRY(r->shape(out->shape, out->step[out->n].p));
        out->reshapes = out->reshapes || memcmp(before, out->shape, sizeof before) != 0;
        long n = out->shape[0] * out->shape[1] * out->shape[2];
        if (n > out->most) out->most = n;
    }
    out->step[out->n].kind = (int)(r - rows);
    out->step[out->n].fn = r->fn, out->step[out->n].batch = r->batch;
    out->host = out->host || r->host;
    out->n++;
    if (r->batch && !out->mixes) out->mixes = out->n;
    return DL_OK;
}

/* One transform, s[len]: its name and its parameters, between blanks. */
static dl_status read_step(const char *s, size_t len, int ndim, dl_transforms *out) {
    const row *r = NULL;
    double *p = out->step[out->n].p;
    bool given[DL_MAX_TRANSFORM_PARAMS] = {false};
    for (size_t i = 0; i < len;) {
        while (i < len && isspace((unsigned char)s[i])) i++;
        size_t from = i;
        i += span(s + i, len - i, " \t\n\r");
        if (i == from) break;
        if (r)
            DL_TRY(read_param(r, s + from, i - from, p, given));
        else if (!(r = find(s + from, i - from)))
            return DL_ERR_NAME;
    }
    if (!r)
        return dl_fail_hint(DL_ERR_VALUE, "separate transforms by one comma: \"crop 4, flip\"",
                            "a transform is missing beside a comma");
    DL_TRY(set_defaults(r, p, given));
    return take_step(r, ndim, out);
}

dl_status dl_transforms_parse(const char *text, int ndim, const long *shape, dl_transforms *out) {
    memset(out, 0, sizeof *out);
    if (!text || !*text) return DL_OK;
    out->shape[0] = out->shape[1] = out->shape[2] = 1;
    for (int i = 0; i < ndim; i++) out->shape[ndim == 3 ? i : 2] *= shape[i];
    out->most = out->shape[0] * out->shape[1] * out->shape[2];
    for (const char *at = text;; at++) {
        size_t len = span(at, strlen(at), ",");
        if (out->n == DL_MAX_TRANSFORMS)
            return dl_fail(DL_ERR_VALUE, "a list holds at most %d transforms", DL_MAX_TRANSFORMS);
        DL_TRY(read_step(at, len, ndim, out));
        at += len;
        if (!*at) return DL_OK;
    }
}

dl_status dl_transforms_apply(const dl_transforms *t, dl_sample *s, dl_draw *r) {
    for (int i = 0; i < t->n; i++)
        if (t->step[i].fn) DL_TRY(t->step[i].fn(s, t->step[i].p, r));
    return DL_OK;
}

const dl_transform_kind *dl_transform_at(int i) { return i >= 0 && i < NROWS ? &rows[i].kind : NULL; }

/* ---------------------------------------------------------------- what they do */

/* The places of the deviations. */
enum { STD = 5 };

dl_status dl_shape_normalize(long shape[3], const double *p) {
    for (int at = 0; at <= STD; at += STD)
        if (p[at] > 1 && (long)p[at] != shape[0])
            return dl_fail(DL_ERR_SHAPE, "transform 'normalize' has %g numbers, and the samples have %ld channels",
                           p[at], shape[0]);
    return DL_OK;
}

dl_status dl_transform_normalize(dl_sample *s, const double *p, dl_draw *r DL_UNUSED) {
    long plane = s->h * s->w;
    for (long c = 0; c < s->c; c++) {
        float mean = (float)dl_number_of(p, c), scale = (float)(1 / dl_number_of(p + STD, c));
        for (long i = c * plane; i < (c + 1) * plane; i++) s->x[i] = (s->x[i] - mean) * scale;
    }
    return DL_OK;
}

static void swap(float *a, float *b) {
    float t = *a;
    *a = *b, *b = t;
}

dl_status dl_transform_flip(dl_sample *s, const double *p, dl_draw *r) {
    if (dl_draw_unit(r) >= p[0]) return DL_OK;
    for (long i = 0; i < s->c * s->h; i++)
        for (long j = 0; j < s->w / 2; j++) swap(&s->x[i * s->w + j], &s->x[i * s->w + s->w - 1 - j]);
    return DL_OK;
}

dl_status dl_transform_vflip(dl_sample *s, const double *p, dl_draw *r) {
    if (dl_draw_unit(r) >= p[0]) return DL_OK;
    for (long c = 0; c < s->c; c++)
        for (long i = 0; i < s->h / 2; i++)
            for (long j = 0; j < s->w; j++)
                swap(&s->x[(c * s->h + i) * s->w + j], &s->x[(c * s->h + s->h - 1 - i) * s->w + j]);
    return DL_OK;
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

dl_status dl_transform_shift(dl_sample *s, const double *p, dl_draw *r) {
    uint32_t range = 2 * (uint32_t)p[0] + 1;
    long dy = (long)dl_draw_below(r, range) - (long)p[0], dx = (long)dl_draw_below(r, range) - (long)p[0];
    if (dy || dx) move(s, dy, dx, (float)p[1]);
    return DL_OK;
}

/* Cutting the former size out of a padded picture is a shift. */
dl_status dl_transform_crop(dl_sample *s, const double *p, dl_draw *r) { return dl_transform_shift(s, p, r); }

dl_status dl_transform_rotate(dl_sample *s, const double *p, dl_draw *r) {
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
    return DL_OK;
}

dl_status dl_transform_cutout(dl_sample *s, const double *p, dl_draw *r) {
    long size = (long)p[0], y = (long)dl_draw_below(r, (uint32_t)s->h), x = (long)dl_draw_below(r, (uint32_t)s->w);
    long i0 = y - size / 2, j0 = x - size / 2; /* the centre is anywhere, so the square may reach over the edge */
    for (long c = 0; c < s->c; c++)
        for (long i = i0 < 0 ? 0 : i0; i < i0 + size && i < s->h; i++)
            for (long j = j0 < 0 ? 0 : j0; j < j0 + size && j < s->w; j++)
                s->x[(c * s->h + i) * s->w + j] = (float)p[1];
    return DL_OK;
}

dl_status dl_transform_noise(dl_sample *s, const double *p, dl_draw *r) {
    for (long i = 0; i < s->n; i++) s->x[i] += (float)(p[0] * dl_draw_normal(r));
    return DL_OK;
}
