/* Largest values of windows at random distances: fractional max pooling (Graham 2014), with PyTorch's windows. */
#include "ops/compose/batch.h"
#include "dlcore/arithmetic.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "ops/rules/conv.h"

typedef struct windows {
    int dims;
    long size[3], kernel[3], out[3];
} windows;

static dl_status measure(const dl_call *c, const dl_tensor *x, windows *w) {
    const dl_aval *size = ATTR(c, FRACTIONAL_OUTPUT_SIZE), *ratio = ATTR(c, FRACTIONAL_OUTPUT_RATIO);
    DL_TRY(dl_sizes(ATTR(c, FRACTIONAL_KERNEL_SIZE), "kernel_size", w->dims, 1, w->kernel));
    if (size->given == ratio->given) return dl_fail(DL_ERR_VALUE, "give one of output_size and output_ratio");
    if (ratio->given && !(ratio->u.f > 0 && ratio->u.f < 1))
        return dl_fail(DL_ERR_VALUE, "output_ratio is between 0 and 1, not %g", ratio->u.f);
    if (size->given) DL_TRY(dl_sizes(size, "output_size", w->dims, 1, w->out));
    for (int i = 0; i < w->dims; i++) {
        w->size[i] = x->shape[2 + i];
        if (ratio->given) w->out[i] = (long)((double)w->size[i] * ratio->u.f);
        if (w->out[i] < 1 || w->out[i] + w->kernel[i] - 1 > w->size[i])
            return dl_fail(DL_ERR_SHAPE, "%ld windows of %ld elements do not fit into %ld", w->out[i], w->kernel[i],
                           w->size[i]);
    }
    return DL_OK;
}

/* Where the windows of direction i begin, [N C, out]: floor((k + u) a) - floor(u a), the last one at the end. */
static dl_tensor *starts_of(dl_pool *outer, dl_tensor *u, const windows *w, int i) {
    POOL;
    const long last = w->size[i] - w->kernel[i], rows = u->shape[0];
    dl_tensor *end = K(dl_full((long[]){rows, 1}, 2, (double)last, DL_I64, u->st->device));
    if (w->out[i] == 1) return dl_keep(outer, end ? dl_ref(end) : NULL);
    const double n = (double)w->out[i] - 1, step = (double)last / n;
    /* PyTorch's samples of images are for the width first */
    dl_tensor *own = K(dl_select(u, 1, w->dims == 2 ? 1 - i : i)), *column = own ? K(dl_with_dim(own, -1)) : NULL;
    dl_tensor *count = column ? K(dl_arange(0, &n, 1, u->dtype, u->st->device)) : NULL;
    dl_tensor *first = count ? K(dl_floor(K(dl_mul(column, N(step))))) : NULL;
    dl_tensor *place = first ? K(dl_floor(K(dl_mul(K(dl_add(count, column)), N(step))))) : NULL;
    dl_tensor *whole = place && end ? K(dl_to_dtype(K(dl_sub(place, first)), DL_I64)) : NULL;
    return whole ? dl_keep(outer, dl_cat((dl_tensor *[]){whole, end}, 2, 1)) : NULL;
}

/* Places of all elements of all windows in an image laid out as one row, [N C, out ..., kernel ...]. */
static dl_tensor *places_of(dl_pool *p, dl_tensor *u, const windows *w) {
    const int n = 1 + 2 * w->dims;
    dl_tensor *sum = NULL;
    for (int i = 0; i < w->dims; i++) {
        long rows[DL_MAX_DIM] = {u->shape[0]}, inner[DL_MAX_DIM] = {1};
        for (int k = 0; k < w->dims; k++) {
            rows[1 + k] = k == i ? w->out[i] : 1, rows[1 + w->dims + k] = 1;
            inner[1 + k] = 1, inner[1 + w->dims + k] = k == i ? w->kernel[i] : 1;
        }
        const double wide = (double)w->kernel[i];
        dl_tensor *start = starts_of(p, u, w, i), *count = K(dl_arange(0, &wide, 1, DL_I64, u->st->device));
        dl_tensor *from = start ? K(dl_reshape(start, rows, n)) : NULL;
        dl_tensor *at = from && count ? K(dl_add(from, K(dl_reshape(count, inner, n)))) : NULL;
        sum = sum && at ? K(dl_add(K(dl_mul(sum, K(dl_scalar_i(w->size[i])))), at)) : at;
        if (!sum) return NULL;
    }
    return sum;
}

static dl_tensor *samples_of(dl_call *c, dl_pool *p, const dl_tensor *x, int dims) {
    dl_tensor *given = INPUT(c, FRACTIONAL__RANDOM_SAMPLES);
    const long shape[3] = {x->shape[0], x->shape[1], dims}, rows = x->shape[0] * x->shape[1];
    const dl_dtype type = x->dtype == DL_F64 ? DL_F64 : DL_F32;
    if (given && !dl_sizes_eq(given->ndim, given->shape, 3, shape))
        return dl_fail(DL_ERR_SHAPE, "_random_samples has shape %s, not [N,C,%d]", dl_shape_of(given), dims), NULL;
    dl_tensor *u = given ? K(dl_to_dtype(K(dl_detach(given)), type)) : K(dl_rand(shape, 3, type, x->st->device));
    return u ? K(dl_reshape(u, (long[]){rows, dims}, 2)) : NULL;
}

static dl_status fractional(dl_call *c, int dims, bool indices) {
    POOL;
    windows w = {.dims = dims};
    dl_tensor *x = dl_with_batch(p, c->in[0], dims + 2), *at = NULL;
    if (!x) return dl_failed();
    DL_TRY(measure(c, x, &w));
    dl_tensor *u = samples_of(c, p, x, dims), *place = u ? places_of(p, u, &w) : NULL;
    if (!place) return dl_failed();
    long shape[DL_MAX_DIM] = {x->shape[0], x->shape[1]}, number = 1, elements = 1, pixels = 1;
    for (int i = 0; i < dims; i++) number *= shape[2 + i] = w.out[i], elements *= w.kernel[i], pixels *= w.size[i];
    const long rows = u->shape[0], split[3] = {rows, number, elements};
    dl_tensor *index = K(dl_reshape(place, (long[]){rows, number * elements}, 2));
    dl_tensor *flat = K(dl_reshape(x, (long[]){rows, pixels}, 2));
    dl_tensor *read = index && flat ? K(dl_gather(flat, index, 1)) : NULL,
              *each = read ? K(dl_reshape(read, split, 3)) : NULL;
    dl_tensor *best = each ? K(dl_max_dim(each, 2, 1, &at)) : NULL;
    K(at);
    c->out[0] = dl_as_given(best, c->in[0], shape, dims + 2);
    if (!c->out[0] || !indices) return c->out[0] ? DL_OK : dl_failed();
    dl_tensor *of = K(dl_reshape(index, split, 3)), *found = of ? K(dl_gather(of, at, 2)) : NULL;
    c->out[1] = dl_as_given(found, c->in[0], shape, dims + 2);
    return c->out[1] ? DL_OK : dl_failed();
}
COMPOSE_RULE(fractional_max_pool2d) { return fractional(c, 2, false); }
COMPOSE_RULE(fractional_max_pool2d_with_indices) { return fractional(c, 2, true); }
COMPOSE_RULE(fractional_max_pool3d) { return fractional(c, 3, false); }
COMPOSE_RULE(fractional_max_pool3d_with_indices) { return fractional(c, 3, true); }
