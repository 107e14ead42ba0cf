/* Images made larger or smaller. Every mode is done dimension by dimension: a weighted sum of slices that are selected
 * by index. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/conv.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/rounding.h"
#include "dlcore/elementary.h"
#include "dlcore/reduce.h"
#include "dlcore/where.h"
#include "dlcore/view.h"
#include "ops/rules/index.h"

#include <math.h>
#include <string.h>

typedef struct grid {
    int dims; /* the last ones of the tensor */
    long in[3], out[3];
    double scale[3]; /* pixels of the input for one of the result */
    bool corners, antialias;
} grid;

/* ---- places */

/* For each pixel of the result its place in the input, in f64: of its centre, or with the corners in place. */
static dl_tensor *centres(dl_pool *p, const grid *g, int i, int device) {
    const double end = (double)g->out[i];
    dl_tensor *at = K(dl_arange(0, &end, 1, DL_F64, device)), *scale = N(g->scale[i]);
    if (g->corners) return K(dl_mul(at, scale));
    dl_tensor *half = N(0.5);
    return K(dl_sub(K(dl_mul(K(dl_add(at, half)), scale)), half));
}

/* The terms of each pixel along a dimension: places, and in f64 weights, each [out]. */
enum { MOST = 4 };
typedef struct taps {
    int n;
    dl_tensor *place[MOST], *weight[MOST]; /* one term has no weight */
} taps;

/* Places `shift` away from `at`, or at the edge. */
static dl_tensor *places(dl_pool *p, const grid *g, int i, dl_tensor *at, long shift) {
    const double least = 0, most = (double)(g->in[i] - 1);
    return K(dl_to(K(dl_clamp(K(dl_add(at, N((double)shift))), &least, &most)), DL_I64));
}

static void by_lines(dl_pool *p, const grid *g, int i, int device, taps *t) {
    const double least = 0;
    dl_tensor *at = centres(p, g, i, device);
    if (!g->corners) at = K(dl_clamp(at, &least, NULL));
    dl_tensor *low = K(dl_floor(at)), *share = K(dl_sub(at, low));
    *t = (taps){2, {places(p, g, i, low, 0), places(p, g, i, low, 1)}, {K(dl_sub(N(1), share)), share}};
}

/* c3 t**3 + c2 t**2 + c1 t + c0 */
static dl_tensor *cubic(dl_pool *whole, dl_tensor *t, double c3, double c2, double c1, double c0) {
    const double c[3] = {c2, c1, c0};
    POOL;
    dl_tensor *y = K(dl_mul(t, N(c3)));
    for (int i = 0; i < 3; i++) {
        y = K(dl_add(y, N(c[i])));
        if (i < 2) y = K(dl_mul(y, t));
    }
    return y ? dl_keep(whole, dl_ref(y)) : NULL;
}

/* Keys: Cubic convolution interpolation (1981), with a = -0.75. */
static void by_cubics(dl_pool *p, const grid *g, int i, int device, taps *t) {
    const double a = -0.75;
    dl_tensor *at = centres(p, g, i, device), *low = K(dl_floor(at)), *share = K(dl_sub(at, low)),
              *rest = K(dl_sub(N(1), share));
    t->n = 4;
    for (long k = -1; k <= 2; k++) {
        dl_tensor *far = k < 1 ? share : rest;
        t->place[k + 1] = places(p, g, i, low, k);
        t->weight[k + 1] = k < 0 || k > 1 ? cubic(p, far, a, -2 * a, a, 0) : cubic(p, far, a + 2, -(a + 3), 0, 1);
    }
}

/* Places are rounded in f32, as PyTorch's are. */
static void by_nearest(dl_pool *p, const grid *g, int i, int device, double offset, taps *t) {
    const double end = (double)g->out[i], most = (double)(g->in[i] - 1);
    dl_tensor *at = K(dl_arange(0, &end, 1, DL_F32, device));
    if (offset != 0) at = K(dl_add(at, N(offset)));
    dl_tensor *floor = K(dl_floor(K(dl_mul(at, N((float)g->scale[i])))));
    *t = (taps){1, {K(dl_to(K(dl_clamp(floor, NULL, &most)), DL_I64))}, {NULL}};
}
static void by_nearest_pixel(dl_pool *p, const grid *g, int i, int device, taps *t) {
    by_nearest(p, g, i, device, 0, t);
}
static void by_nearest_centre(dl_pool *p, const grid *g, int i, int device, taps *t) {
    by_nearest(p, g, i, device, 0.5, t);
}

/* ---- sums of the terms */

/* Weights in the dtype of x, along dimension d. */
static dl_tensor *along(dl_pool *p, dl_tensor *x, int d, dl_tensor *weight) {
    long shape[DL_MAX_DIM];
    for (int i = 0; i < x->ndim; i++) shape[i] = i == d ? weight->numel : 1;
    return K(dl_to(K(dl_reshape(weight, shape, x->ndim)), x->dtype));
}

static dl_tensor *summed(dl_tensor *x, int d, const taps *t) {
    POOL;
    dl_tensor *part[MOST], *sum = NULL;
    for (int k = 0; k < t->n; k++)
        if (!(part[k] = K(dl_index_select(x, t->place[k], d)))) return NULL;
    if (t->n == 1) return dl_ref(part[0]);
    if (t->n == 2) return dl_lerp(part[0], part[1], along(p, x, d, t->weight[1]));
    for (int k = 0; k < t->n; k++) {
        dl_tensor *weight = along(p, x, d, t->weight[k]);
        sum = K(k ? dl_addcmul(sum, part[k], weight, 1) : dl_mul(part[k], weight));
    }
    return sum ? dl_ref(sum) : NULL;
}

/* By a kernel in one pass where there is one. */
static dl_tensor *resampled(dl_tensor *x, int d, const taps *t) {
    POOL;
    dl_tensor *place = K(dl_stack((dl_tensor **)(uintptr_t)t->place, t->n, 0)), *weight = NULL;
    if (t->weight[0] && !(weight = K(dl_stack((dl_tensor **)(uintptr_t)t->weight, t->n, 0)))) return NULL;
    return place ? dl_resample_along(x, place, weight, d) : NULL;
}

/* ---- means over what a pixel covers */

/* Filters of the distance t, which reach `support` pixels: a triangle, and Keys's cubics with a = -0.5. */
static dl_tensor *triangle(dl_pool *p, dl_tensor *t) {
    const double least = 0;
    return K(dl_clamp(K(dl_sub(N(1), t)), &least, NULL));
}
static dl_tensor *cubics(dl_pool *p, dl_tensor *t) {
    const double a = -0.5;
    dl_tensor *near = cubic(p, t, a + 2, -(a + 3), 0, 1), *far = cubic(p, t, a, -5 * a, 8 * a, -4 * a);
    dl_tensor *beyond = K(dl_ge(t, N(2))), *outer = K(dl_ge(t, N(1)));
    dl_tensor *rest = beyond && far ? K(dl_where(beyond, K(dl_mul(far, N(0))), far)) : NULL;
    return outer && near && rest ? K(dl_where(outer, rest, near)) : NULL;
}
static const struct filter {
    const char *mode;
    double support;
    dl_tensor *(*of)(dl_pool *p, dl_tensor *t);
} filters[] = {{"bilinear", 1, triangle}, {"bicubic", 2, cubics}};

/* A filter as wide as a pixel of the result, where that is larger than one of the input; weights add up to 1. */
static dl_tensor *filtered(dl_tensor *x, int d, const grid *g, int i, const struct filter *f) {
    POOL;
    const double wide = fmax(g->scale[i], 1), support = f->support * wide, least = 0, past = (double)g->in[i];
    const double terms = 2 * ceil(support) + 1, end = (double)g->out[i], most = past - 1;
    const long first = 0, column[2] = {(long)terms, 1};
    const int device = x->st->device;
    dl_tensor *centre = K(dl_mul(K(dl_add(K(dl_arange(0, &end, 1, DL_F64, device)), N(0.5))), N(g->scale[i])));
    dl_tensor *from = K(dl_clamp(K(dl_floor(K(dl_add(centre, N(0.5 - support))))), &least, NULL));
    dl_tensor *to = K(dl_clamp(K(dl_floor(K(dl_add(centre, N(0.5 + support))))), NULL, &past));
    dl_tensor *k = K(dl_arange(0, &terms, 1, DL_F64, device));
    dl_tensor *place = K(dl_add(from, k ? K(dl_reshape(k, column, 2)) : NULL));
    dl_tensor *far = K(dl_abs(K(dl_div(K(dl_add(K(dl_sub(place, centre)), N(0.5))), N(wide)))));
    dl_tensor *weight = far ? f->of(p, far) : NULL, *inside = K(dl_to(K(dl_lt(place, to)), DL_F64));
    weight = K(dl_mul(weight, inside));
    weight = weight ? K(dl_div(weight, K(dl_sum(weight, &first, 1, 1)))) : NULL;
    dl_tensor *index = K(dl_to(K(dl_clamp(place, NULL, &most)), DL_I64));
    return weight && index ? dl_resample_along(x, index, K(dl_to(weight, x->dtype)), d) : NULL;
}

static const struct filter *find_filter(const char *mode) {
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (!strcmp(filters[i].mode, mode)) return &filters[i];
    return dl_fail(DL_ERR_VALUE, "antialias is for bilinear and bicubic, not for %s", mode), NULL;
}

/* ---- modes */

typedef void terms(dl_pool *p, const grid *g, int i, int device, taps *t);
static const struct mode {
    const char *name;
    int dims; /* that it is for, or 0 for any */
    terms *of;
    bool has_corners;
} modes[] = {{"nearest", 0, by_nearest_pixel, false},
             {"nearest-exact", 0, by_nearest_centre, false},
             {"linear", 1, by_lines, true},
             {"bilinear", 2, by_lines, true},
             {"trilinear", 3, by_lines, true},
             {"bicubic", 2, by_cubics, true},
             {"area", 0, NULL, false}};

static const struct mode *find_mode(const char *name, int dims) {
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        const struct mode *m = &modes[i];
        if (strcmp(name, m->name)) continue;
        if (!m->dims || m->dims == dims) return m;
        dl_fail_hint(DL_ERR_SHAPE, "linear is for rows, bilinear and bicubic for images, trilinear for volumes",
                     "mode %s takes a tensor of %d dimensions, not %d", name, m->dims + 2, dims + 2);
        return NULL;
    }
    dl_fail(DL_ERR_VALUE, "mode is nearest, nearest-exact, linear, bilinear, trilinear, bicubic or area, not '%s'",
            name);
    return NULL;
}

/* The sizes of the result, from size or scale_factor, of which one is given. */
static dl_status sizes(const dl_call *c, grid *g) {
    const dl_aval *size = ATTR(c, INTERPOLATE_SIZE), *factor = ATTR(c, INTERPOLATE_SCALE_FACTOR);
    if ((size->given && size->n) == factor->given)
        return dl_fail(DL_ERR_VALUE,
                       factor->given ? "give size or scale_factor, not both" : "give size or scale_factor");
    if (size->given && size->n && size->n != 1 && size->n != g->dims)
        return dl_fail(DL_ERR_VALUE, "size takes one number or %d, not %d", g->dims, size->n);
    for (int i = 0; i < g->dims; i++) {
        g->in[i] = c->in[0]->shape[2 + i];
        double out = factor->given ? floor((double)g->in[i] * factor->u.f) : (double)size->u.v[size->n == 1 ? 0 : i];
        if (!(out >= 1 && out <= (double)DL_MAX_COUNT && g->in[i] >= 1))
            return dl_fail(DL_ERR_SHAPE, "sizes must be at least 1: dimension %d would go from %ld to %g", 2 + i,
                           g->in[i], out);
        g->out[i] = (long)out;
        bool exact = factor->given && !ATTR_I(c, INTERPOLATE_RECOMPUTE_SCALE_FACTOR);
        g->scale[i] = exact ? 1 / factor->u.f : (double)g->in[i] / (double)g->out[i];
        if (g->corners) g->scale[i] = g->out[i] > 1 ? (double)(g->in[i] - 1) / (double)(g->out[i] - 1) : 0;
    }
    return DL_OK;
}

/* nearest, each pixel becoming a block: one copy of an expanded view. NULL without an error: it is not so. */
static dl_tensor *blocks(dl_tensor *x, const grid *g, const struct mode *m) {
    POOL;
    long ones[DL_MAX_DIM], wide[DL_MAX_DIM], shape[DL_MAX_DIM];
    int n = 2;
    if (m->of != by_nearest_pixel || 2 + 2 * g->dims > DL_MAX_DIM) return NULL;
    for (int i = 0; i < 2; i++) ones[i] = wide[i] = shape[i] = x->shape[i];
    for (int i = 0; i < g->dims; i++) {
        if (g->out[i] % g->in[i] || g->scale[i] * (double)g->out[i] != (double)g->in[i]) return NULL;
        ones[n] = wide[n] = g->in[i], ones[n + 1] = 1, wide[n + 1] = g->out[i] / g->in[i];
        shape[2 + i] = g->out[i], n += 2;
    }
    dl_tensor *each = K(dl_reshape(x, ones, n)), *all = K(each ? dl_expand(each, wide, n) : NULL);
    return all ? dl_reshape(all, shape, x->ndim) : NULL;
}

enum { SMALL = 16 }; /* pixels */

/* Blocks whose sums, which gradients are, the CPU has a way for; larger ones are resampled there. */
static bool are_small(const grid *g) {
    long pixels = 1;
    for (int i = 0; i < g->dims; i++) pixels *= g->out[i] / g->in[i];
    return pixels <= SMALL;
}

static dl_tensor *areas(dl_tensor *x, const grid *g) {
    if (g->dims == 1) return dl_adaptive_avg_pool1d(x, g->out, 1);
    return g->dims == 2 ? dl_adaptive_avg_pool2d(x, g->out, 2) : dl_adaptive_avg_pool3d(x, g->out, 3);
}

static dl_tensor *resized(dl_tensor *x, int d, const grid *g, int i, const struct mode *m) {
    POOL;
    taps t = {0};
    if (g->antialias) return filtered(x, d, g, i, find_filter(m->name));
    m->of(p, g, i, x->st->device, &t);
    for (int k = 0; k < t.n; k++)
        if (!t.place[k] || (t.n > 1 && !t.weight[k])) return NULL;
    return x->st->device || !dl_dtype_is_float(x->dtype) ? summed(x, d, &t) : resampled(x, d, &t);
}

/* The sum so far (NULL: 0) and term k, a new reference. */
static dl_tensor *with_term(dl_tensor *sum, dl_tensor *x, int d, dl_tensor *places, dl_tensor *weights, long k) {
    POOL;
    dl_tensor *place = K(dl_select(places, 0, k)), *w = K(dl_select(weights, 0, k));
    dl_tensor *part = place ? K(dl_index_select(x, place, d)) : NULL,
              *term = part && w ? K(dl_mul(part, along(p, x, d, w))) : NULL;
    return !term ? NULL : sum ? dl_add(sum, term) : dl_ref(term);
}

/* The sum of the terms, elsewhere than on the CPU. */
POOLED_RULE(resample_along) {
    dl_tensor *x = c->in[0], *index = INPUT(c, RESAMPLE_ALONG_INDEX), *weight = INPUT(c, RESAMPLE_ALONG_WEIGHT),
              *sum = NULL;
    const double least = 0;
    int d;
    DL_TRY(dl_dim_norm(ATTR_I(c, RESAMPLE_ALONG_DIM), x->ndim, &d));
    dl_tensor *safe = K(dl_clamp(index, &least, NULL)), *there = K(dl_to(K(dl_ge(index, K(dl_scalar_i(0)))), x->dtype));
    if (weight && there) there = K(dl_mul(there, weight));
    if (!there || !safe) return dl_failed();
    for (long k = 0; k < index->shape[0]; k++) {
        dl_tensor *before = sum;
        sum = with_term(before, x, d, safe, there, k);
        dl_unref(before);
        if (!sum) return dl_failed();
    }
    return dl_finish(c, sum);
}

POOLED_RULE(interpolate) {
    const dl_aval *corners = ATTR(c, INTERPOLATE_ALIGN_CORNERS);
    dl_tensor *x = c->in[0];
    grid g = {
        .dims = x->ndim - 2, .corners = corners->given && corners->u.i, .antialias = ATTR_I(c, INTERPOLATE_ANTIALIAS)};
    if (x->ndim < 3 || x->ndim > 5)
        return dl_fail_hint(DL_ERR_SHAPE, "give a single image a batch dimension, x[none]",
                            "the input must be [N,C,L], [N,C,H,W] or [N,C,D,H,W], not of %d dimensions", x->ndim);
    const struct mode *m = find_mode(ATTR_S(c, INTERPOLATE_MODE), g.dims);
    if (!m) return dl_failed();
    if (corners->given && !m->has_corners)
        return dl_fail(DL_ERR_VALUE, "align_corners is for linear, bilinear, trilinear and bicubic, not for %s",
                       m->name);
    DL_TRY(sizes(c, &g));
    if (g.antialias && !find_filter(m->name)) return dl_failed();
    if (g.antialias && !dl_dtype_is_float(x->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "x.float()", "antialias needs floating numbers, got %s",
                            dl_dtype_name(x->dtype));
    const bool moves = m->of == by_nearest_pixel || m->of == by_nearest_centre; /* 16 bits as they are */
    if (!moves && DL_BIT(x->dtype) & DL_HALVES && !(x = K(dl_to(x, DL_F32)))) return dl_failed();
    if (!m->of) return dl_finish(c, areas(x, &g));
    dl_tensor *t = x->st->device || !dl_dtype_is_float(x->dtype) || are_small(&g) ? blocks(x, &g, m) : NULL;
    if (t && t != x) return dl_finish_own(c, t);
    dl_unref(t);
    t = dl_ref(x);
    const bool grows = g.out[0] > g.in[0]; /* then the last dimension, along which elements move one by one, is first */
    for (int k = 0; k < g.dims && t; k++) {
        const int i = grows ? g.dims - 1 - k : k;
        DL_OWNED dl_tensor *old = t;
        t = g.in[i] == g.out[i] && g.scale[i] == 1 ? dl_ref(old) : resized(old, 2 + i, &g, i, m);
    }
    return dl_finish_own(c, t);
}
