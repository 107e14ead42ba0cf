/* Images read at places of a grid: affine_grid makes one, grid_sample reads there by kernels. Gradients of its
 * gradients come from the same made of other ops: for each place and direction there are taps, a pixel and its weight;
 * the result is the sum over all combinations of taps. */
#include "ops/compose/compose.h"
#include "core/device/device.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/matmul.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/grad.h"
#include "ops/grid.h"
#include "ops/rules/index.h"

#include <string.h>

enum { MAX_TAPS = 4 };

/* One direction of all places, [N, places]; index: in the tensor of pixels, i64, kept inside. */
typedef struct tap {
    dl_tensor *index, *inside, *weight;
} tap;

typedef struct reading {
    int dims, taps;
    bool corners;
    const char *padding;
    tap tap[3][MAX_TAPS]; /* direction 0: the first one behind the channels */
} reading;

static dl_tensor *plus(dl_pool *p, dl_tensor *t, double v) { return K(dl_add(t, N(v))); }
static dl_tensor *times(dl_pool *p, dl_tensor *t, double v) { return K(dl_mul(t, N(v))); }

/* ---- places outside the image */

/* Reflected at `low` and `high` until it lies between them. */
static dl_tensor *reflected(dl_pool *p, dl_tensor *at, double low, double high) {
    const double span = high - low;
    if (span <= 0) return times(p, at, 0);
    dl_tensor *far = K(dl_abs(plus(p, at, -low))), *rest = K(dl_fmod(far, N(span)));
    dl_tensor *turns = K(dl_floor(times(p, K(dl_detach(far)), 1 / span)));
    dl_tensor *odd = K(dl_ne(K(dl_remainder(turns, N(2))), N(0)));
    return odd ? K(dl_where(odd, plus(p, times(p, rest, -1), span + low), plus(p, rest, low))) : NULL;
}

/* A place moved into an image of n pixels, as the padding says. */
static dl_tensor *moved(dl_pool *p, const reading *r, dl_tensor *at, long n) {
    const double least = 0, most = (double)(n - 1);
    if (!strcmp(r->padding, "zeros")) return at;
    if (!strcmp(r->padding, "reflection"))
        at = r->corners ? reflected(p, at, 0, most) : reflected(p, at, -0.5, (double)n - 0.5);
    return K(dl_clamp(at, &least, &most));
}

/* ---- taps: pool is the first of MAX_TAPS of a direction */

/* The pixel at the whole numbers `at`; NaN lies outside. */
static tap make_tap(dl_pool *p, dl_tensor *at, long n, dl_tensor *weight) {
    const double least = 0, most = (double)(n - 1);
    at = K(dl_detach(at));
    dl_tensor *inside = K(dl_logical_and(K(dl_ge(at, N(0))), K(dl_le(at, N(most)))));
    dl_tensor *safe = inside ? K(dl_where(inside, at, K(dl_to_dtype(N(0), at->dtype)))) : NULL;
    return (tap){K(dl_to_dtype(K(dl_clamp(safe, &least, &most)), DL_I64)), inside, weight};
}

/* c3 t**3 + c2 t**2 + c1 t + c0 */
static dl_tensor *cubic(dl_pool *p, dl_tensor *t, double c3, double c2, double c1, double c0) {
    dl_tensor *y = plus(p, times(p, t, c3), c2);
    return plus(p, K(dl_mul(plus(p, K(dl_mul(y, t)), c1), t)), c0);
}

/* Keys: Cubic convolution interpolation (1981), with a = -0.75. */
static void cubic_taps(dl_pool *pool, reading *r, int i, dl_tensor *at, long n) {
    const double a = -0.75;
    dl_pool *p = pool;
    dl_tensor *low = K(dl_floor(K(dl_detach(at)))), *share = K(dl_sub(at, low));
    dl_tensor *rest = plus(p, times(p, share, -1), 1);
    for (int k = 0; k < MAX_TAPS; k++, p++) {
        dl_tensor *t = k < 2 ? share : rest, *place = moved(p, r, plus(p, low, k - 1), n);
        dl_tensor *w = k == 0 || k == 3 ? cubic(p, t, a, -2 * a, a, 0) : cubic(p, t, a + 2, -(a + 3), 0, 1);
        r->tap[i][k] = make_tap(p, place ? K(dl_round(place)) : NULL, n, w);
    }
}

static void line_taps(dl_pool *p, reading *r, int i, dl_tensor *at, long n) {
    at = moved(p, r, at, n);
    dl_tensor *low = K(dl_floor(K(dl_detach(at)))), *share = K(dl_sub(at, low));
    r->tap[i][0] = make_tap(p, low, n, plus(p, times(p, share, -1), 1));
    r->tap[i][1] = make_tap(p, plus(p, low, 1), n, share);
}

static void nearest_tap(dl_pool *p, reading *r, int i, dl_tensor *at, long n) {
    /* the weight is 1, and gives the grid a gradient of 0 */
    r->tap[i][0] = make_tap(p, K(dl_round(moved(p, r, at, n))), n, plus(p, times(p, at, 0), 1));
}

static const struct mode {
    int taps;
    void (*make)(dl_pool *p, reading *r, int i, dl_tensor *at, long n);
} modes[] = {
    [DL_GRID_LINEAR] = {2, line_taps}, [DL_GRID_NEAREST] = {1, nearest_tap}, [DL_GRID_CUBIC] = {4, cubic_taps}};

/* ---- reading */

/* One for each direction and tap. */
typedef struct pools {
    dl_pool each[3][MAX_TAPS];
} pools;
static void release_all(pools *all) {
    for (int i = 0; i < 3 * MAX_TAPS; i++) dl_release(&all->each[i / MAX_TAPS][i % MAX_TAPS]);
}

/* Tap number `which` of all directions: its pixels times its weight, [N, C, places]. */
static dl_tensor *term(const reading *r, dl_tensor *flat, const long *size, int which) {
    POOL;
    dl_tensor *index = NULL, *weight = NULL, *inside = NULL;
    for (int i = 0; i < r->dims; which /= r->taps, i++) {
        const tap *t = &r->tap[i][which % r->taps];
        index = i ? K(dl_add(K(dl_mul(index, K(dl_scalar_i(size[i])))), t->index)) : t->index;
        inside = i ? K(dl_logical_and(inside, t->inside)) : t->inside;
        weight = i ? K(dl_mul(weight, t->weight)) : t->weight;
    }
    if (!index || !inside) return NULL;
    const long n = index->shape[0], places = index->shape[1], channels = flat->shape[1];
    dl_tensor *zero = K(dl_to_dtype(N(0), flat->dtype));
    dl_tensor *w = zero ? K(dl_where(inside, weight, zero)) : NULL;
    dl_tensor *row = K(dl_reshape(index, (long[]){n, 1, places}, 3));
    dl_tensor *each = row ? K(dl_expand(row, (long[]){n, channels, places}, 3)) : NULL;
    dl_tensor *pixels = each ? K(dl_gather(flat, each, 2)) : NULL;
    return pixels && w ? dl_mul(pixels, K(dl_reshape(w, (long[]){n, 1, places}, 3))) : NULL;
}

static dl_status check_grid(const dl_call *c) {
    const dl_tensor *x = c->in[0], *g = c->in[1];
    const char *mode = ATTR_S(c, GRID_SAMPLE_MODE), *padding = ATTR_S(c, GRID_SAMPLE_PADDING_MODE);
    const int dims = x->ndim - 2;
    if (dl_grid_padding_of(padding) < 0)
        return dl_fail(DL_ERR_VALUE, "padding_mode is zeros, border or reflection, not '%s'", padding);
    if (dl_grid_mode_of(mode) < 0) return dl_fail(DL_ERR_VALUE, "mode is bilinear, nearest or bicubic, not '%s'", mode);
    if (x->ndim != 4 && x->ndim != 5)
        return dl_fail(DL_ERR_SHAPE, "the input must be [N,C,H,W] or [N,C,D,H,W], not of %d dimensions", x->ndim);
    if (dims == 3 && dl_grid_mode_of(mode) == DL_GRID_CUBIC)
        return dl_fail(DL_ERR_SHAPE, "bicubic is for images [N,C,H,W]");
    if (g->ndim != x->ndim || g->shape[0] != x->shape[0] || g->shape[g->ndim - 1] != dims)
        return dl_fail(DL_ERR_SHAPE, "the grid must be %s, not of shape %s", dims == 2 ? "[N,H,W,2]" : "[N,D,H,W,3]",
                       dl_shape_of(g));
    if (x->dtype != g->dtype)
        return dl_fail(DL_ERR_DTYPE, "input and grid must be of one dtype, not %s and %s", dl_type_of(x),
                       dl_type_of(g));
    for (int i = 2; i < x->ndim; i++)
        if (x->shape[i] < 1) return dl_fail(DL_ERR_SHAPE, "the images have no pixels");
    return DL_OK;
}

/* In f32 where it has 16 bits, whose roundings would move places to other pixels. */
static dl_tensor *wide(dl_pool *p, dl_tensor *t) {
    return DL_BIT(t->dtype) & DL_HALVES ? K(dl_to_dtype(t, DL_F32)) : t;
}

/* Kernels that take 16 bits compute in f32. */
static bool has_kernel(const dl_call *c) { return dl_device_supports(dl_op_row(dl_id_grid_read), c->in, 2, NULL); }

POOLED_RULE(grid_sample) {
    DL_TRY(check_grid(c));
    const bool corners = ATTR(c, GRID_SAMPLE_ALIGN_CORNERS)->given && ATTR_I(c, GRID_SAMPLE_ALIGN_CORNERS);
    const bool as_they_are = has_kernel(c);
    dl_tensor *x = as_they_are ? c->in[0] : wide(p, c->in[0]), *grid = as_they_are ? c->in[1] : wide(p, c->in[1]);
    dl_tensor *y =
        x && grid ? K(dl_grid_read(x, grid, ATTR_S(c, GRID_SAMPLE_MODE), ATTR_S(c, GRID_SAMPLE_PADDING_MODE), corners))
                  : NULL;
    return dl_finish(c, y ? dl_to_dtype(y, c->in[0]->dtype) : NULL);
}

/* The result of grid_read for operands with a history, by other ops. */
static dl_tensor *by_parts(dl_back *b, dl_tensor *x, dl_tensor *grid) {
    POOL;
    pools parts DL_SCOPE(release_all) = {0};
    const struct mode *mode = &modes[dl_grid_mode_of(ATTR_S(b, GRID_READ_MODE))];
    reading r = {.dims = x->ndim - 2,
                 .taps = mode->taps,
                 .corners = ATTR_I(b, GRID_READ_ALIGN_CORNERS),
                 .padding = ATTR_S(b, GRID_READ_PADDING_MODE)};
    const long n = x->shape[0], *size = x->shape + 2;
    long places = 1, pixels = 1, shape[5] = {n, x->shape[1]};
    for (int i = 0; i < r.dims; i++) places *= shape[2 + i] = grid->shape[1 + i], pixels *= size[i];
    dl_tensor *flat = K(dl_reshape(x, (long[]){n, x->shape[1], pixels}, 3));
    dl_tensor *rows = K(dl_reshape(grid, (long[]){n, places, r.dims}, 3)), *sum = NULL;
    if (!flat || !rows) return NULL;
    int all = 1;
    for (int i = 0; i < r.dims; i++, all *= r.taps) { /* the grid names the last direction first */
        const double wide = (double)size[i], scale = r.corners ? (wide - 1) / 2 : wide / 2;
        dl_tensor *at = dl_keep(parts.each[i], dl_select(rows, 2, r.dims - 1 - i));
        at = at ? plus(parts.each[i], times(parts.each[i], at, scale), (wide - 1) / 2) : NULL;
        if (!at) return NULL;
        mode->make(parts.each[i], &r, i, at, size[i]);
    }
    for (int k = 0; k < all; k++) {
        dl_tensor *part = term(&r, flat, size, k), *was = sum;
        sum = part && was ? dl_add(was, part) : part ? dl_ref(part) : NULL;
        dl_unref(part), dl_unref(was);
        if (!sum) return NULL;
    }
    return dl_reshape(K(sum), shape, r.dims + 2);
}

static dl_tensor *objective(dl_back *b, dl_tensor **in, void *arg) {
    (void)arg;
    POOL;
    dl_tensor *x = wide(p, in[DL_IN_GRID_READ_INPUT]), *grid = wide(p, in[DL_IN_GRID_READ_GRID]);
    dl_tensor *y = x && grid ? T(by_parts(b, x, grid)) : NULL;
    return y ? dl_plus_product(b, NULL, y, G0) : NULL;
}
GRAD_RULE(grid_read) { return dl_grad_by_rerun(b, objective, NULL); }

/* ---- grids */

/* Places from -1 to 1 along a direction: of the pixels' centres, or with the outermost ones at the ends. */
static dl_tensor *axis(dl_pool *p, long n, bool corners, dl_dtype t, int device) {
    if (corners && n == 1) return K(dl_zeros(&n, 1, t, device));
    const double end = corners ? 1 : 1 - 1 / (double)n;
    return K(dl_linspace(-end, end, n, t, device));
}

POOLED_RULE(affine_grid) {
    dl_tensor *theta = c->in[0];
    const dl_aval *size = ATTR(c, AFFINE_GRID_SIZE);
    const int dims = size->n - 2, device = theta->st->device;
    const bool corners = ATTR(c, AFFINE_GRID_ALIGN_CORNERS)->given && ATTR_I(c, AFFINE_GRID_ALIGN_CORNERS);
    const dl_dtype t = theta->dtype;
    if (dims != 2 && dims != 3)
        return dl_fail(DL_ERR_VALUE, "size is that of images, [N,C,H,W] or [N,C,D,H,W], not %d numbers", size->n);
    for (int i = 0; i < size->n; i++)
        if (size->u.v[i] < 1) return dl_fail(DL_ERR_VALUE, "sizes must be at least 1, not %ld", size->u.v[i]);
    if (theta->ndim != 3 || theta->shape[0] != size->u.v[0] || theta->shape[1] != dims || theta->shape[2] != dims + 1)
        return dl_fail(DL_ERR_SHAPE, "theta must be [%ld,%d,%d], not of shape %s", size->u.v[0], dims, dims + 1,
                       dl_shape_of(theta));
    long full[5], own[4], places = 1;
    for (int i = 0; i < dims; i++) places *= full[i] = size->u.v[2 + i];
    dl_tensor *column[4];
    for (int i = 0; i <= dims; i++) { /* the last direction first, then 1 */
        const int d = dims - 1 - i;
        for (int k = 0; k < dims; k++) own[k] = k == d ? full[k] : 1;
        dl_tensor *line = d >= 0 ? axis(p, full[d], corners, t, device) : K(dl_ones(own, dims, t, device));
        line = line ? K(dl_reshape(line, own, dims)) : NULL;
        dl_tensor *wide = line ? K(dl_expand(line, full, dims)) : NULL;
        if (!(column[i] = wide ? K(dl_reshape(wide, &places, 1)) : NULL)) return dl_failed();
    }
    dl_tensor *base = K(dl_stack(column, dims + 1, 1));
    dl_tensor *turned = base ? K(dl_permute(theta, (long[]){0, 2, 1}, 3)) : NULL;
    dl_tensor *grid = turned ? K(dl_matmul(base, turned)) : NULL;
    long shape[5] = {size->u.v[0]};
    for (int i = 0; i < dims; i++) shape[1 + i] = full[i];
    shape[dims + 1] = dims;
    return dl_finish(c, grid ? dl_reshape(grid, shape, dims + 2) : NULL);
}
