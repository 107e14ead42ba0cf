/* Batches: samples that are read into place, and those that come as tensors, of one shape or padded. */
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "data/data.h"

static dl_status read_all(dl_dataset *d, int split, const long *index, long n, dl_tensor **x, dl_tensor **y) {
    size_t sx = dl_data_sample_size(d), sy = dl_data_target_size(d);
    DL_TRY(dl_data_batch(d, n, 0, x, y));
    for (long i = 0; i < n; i++) {
        DL_TRY(dl_interrupt_check_at(16 * i));
        DL_TRY(dl_data_fetch(d, split, index[i], (char *)dl_data(*x) + (size_t)i * sx,
                             (char *)dl_data(*y) + (size_t)i * sy));
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- tensors */

/* What all samples of a batch share: of the x, or of the y. */
typedef struct part {
    const dl_dataset *d;
    const char *what; /* "sample" or "target of sample" */
    dl_dtype dtype, kept;
    int ndim;
    const long *shape; /* of those that are not padded */
    double pad;
    const float *lut; /* of bytes */
} part;

static part part_of(const dl_dataset *d, bool target) {
    if (target)
        return (part){
            d,   "target of sample", d->target_dtype, d->target_dtype, d->target_ndim, d->target_shape, d->pad_target,
            NULL};
    return (part){d, "sample", dl_dataset_batch_dtype(d), d->dtype, d->ndim, d->shape, d->pad, d->lut};
}

/* Numbers must not lose anything on their way into the batch. */
static bool converts(dl_dtype from, dl_dtype to) {
    if (from == to) return true;
    return dl_dtype_is_float(from) ? dl_dtype_is_float(to) : !dl_dtype_is_float(to) && to == DL_I64;
}

/* Checks tensor t of sample i, and widens the sizes. */
static dl_status measure(const part *p, const dl_tensor *t, long i, long *sizes) {
    int ndim = dl_ndim(t);
    const long *shape = dl_shape(t);
    bool same = ndim == p->ndim && !memcmp(shape, p->shape, (size_t)ndim * sizeof *shape);
    if (!same && (!p->d->padded || ndim != p->ndim))
        return dl_fail_hint(DL_ERR_SHAPE,
                            ndim == p->ndim ? "pad=0 fills up those of a batch to the largest"
                                            : "all samples have the same number of dimensions",
                            "%s %ld of '%s' is %s, that of the first %s", p->what, i, p->d->name,
                            dl_shape_text(ndim, shape), dl_shape_text(p->ndim, p->shape));
    if (!converts(dl_dtype_of(t), p->kept))
        return dl_fail_hint(DL_ERR_DTYPE, "convert one of them with .to(DTYPE)",
                            "%s %ld of '%s' is %s, that of the first %s", p->what, i, p->d->name,
                            dl_dtype_name(dl_dtype_of(t)), dl_dtype_name(p->kept));
    for (int k = 0; k < ndim; k++)
        if (shape[k] > sizes[k]) sizes[k] = shape[k];
    return DL_OK;
}

/* Row-major elements of `shape` into those of the larger `sizes`. */
static void spread(const char *from, const long *shape, char *to, const long *sizes, int ndim, size_t element) {
    if (ndim == 0) {
        memcpy(to, from, element);
        return;
    }
    if (ndim == 1) {
        memcpy(to, from, (size_t)shape[0] * element);
        return;
    }
    size_t inner = element, outer = element;
    for (int k = 1; k < ndim; k++) inner *= (size_t)shape[k], outer *= (size_t)sizes[k];
    for (long i = 0; i < shape[0]; i++)
        spread(from + (size_t)i * inner, shape + 1, to + (size_t)i * outer, sizes + 1, ndim - 1, element);
}

static dl_status put_tensor(const part *p, dl_tensor *t, char *to, const long *sizes, char *room) {
    DL_OWNED dl_tensor *as = dl_to_dtype(t, p->kept);
    if (!as) return dl_failed();
    DL_TRY(dl_read(as, room));
    if (p->lut) { /* bytes to f32, from the last one */
        float *wide = (float *)room;
        for (long j = dl_numel(t) - 1; j >= 0; j--) wide[j] = p->lut[((const uint8_t *)room)[j]];
    }
    spread(room, dl_shape(t), to, sizes, p->ndim, (size_t)dl_dtype_size(p->dtype));
    return DL_OK;
}

static dl_status stack(const dl_dataset *d, bool target, dl_tensor *const *list, const long *index, long n,
                       dl_tensor **out) {
    part p = part_of(d, target);
    long sizes[DL_MAX_SAMPLE_DIM + 1] = {n}, shape[DL_MAX_SAMPLE_DIM + 1];
    if (!d->padded) memcpy(sizes + 1, p.shape, (size_t)p.ndim * sizeof *sizes);
    for (long i = 0; i < n; i++) DL_TRY(measure(&p, list[2 * i + target], index[i], sizes + 1));
    memcpy(shape, sizes, sizeof shape);
    if (!(*out = d->padded ? dl_full(shape, p.ndim + 1, p.pad, p.dtype, 0)
                           : dl_tensor_empty(p.ndim + 1, shape, p.dtype, 0)))
        return dl_failed();
    size_t each = n ? (size_t)(dl_numel(*out) / n) * (size_t)dl_dtype_size(p.dtype) : 0;
    char *room = dl_data_alloc((long)each + 1, 1);
    dl_status st = room ? DL_OK : dl_failed();
    for (long i = 0; st == DL_OK && i < n; i++)
        st = put_tensor(&p, list[2 * i + target], (char *)dl_data(*out) + (size_t)i * each, sizes + 1, room);
    free(room);
    return st;
}

static dl_status give_all(dl_dataset *d, int split, const long *index, long n, dl_tensor **x, dl_tensor **y) {
    dl_tensor **list = dl_data_alloc(2 * n, sizeof *list);
    dl_status st = list ? DL_OK : dl_failed();
    for (long i = 0; st == DL_OK && i < n; i++)
        if ((st = dl_interrupt_check()) == DL_OK)
            st = d->source.give(d, split, index[i], &list[2 * i], &list[2 * i + 1]);
    DL_SCOPED_GRAD_MODE(0);
    if (st == DL_OK) st = stack(d, false, list, index, n, x);
    if (st == DL_OK) st = stack(d, true, list, index, n, y);
    for (long i = 0; list && i < 2 * n; i++) dl_unref(list[i]);
    free(list);
    return st;
}

dl_status dl_data_collate(dl_dataset *d, int split, const long *index, long n, dl_tensor **x, dl_tensor **y) {
    *x = *y = NULL;
    dl_status st = (dl_data_reads(d) ? read_all : give_all)(d, split, index, n, x, y);
    if (st == DL_OK) return st;
    dl_unref(*x);
    dl_unref(*y);
    *x = *y = NULL;
    return st;
}
