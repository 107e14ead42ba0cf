/* Batches: samples that are read into place, and those that come as tensors, of one shape or padded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "data/data.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"

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

/* What all samples of a batch share: of an input, or of a target. */
typedef struct part {
    const dl_dataset *d;
    const char *name; /* "": the only one of its kind */
    bool target;
    dl_field is;
} part;

static part part_of(const dl_dataset *d, int field) {
    return (part){d, d->form.names[field], field >= d->form.inputs, dl_data_field(d, field)};
}

/* "target 'mask' of sample 7 of 'list'" */
static const char *place_of(const part *p, long i, char buf[200]) {
    snprintf(buf, 200, "%s%s%s%ssample %ld of '%.60s'",
             p->target  ? "target "
             : *p->name ? "input "
                        : "",
             *p->name ? "'" : "", p->name,
             *p->name    ? "' of "
             : p->target ? "of "
                         : "",
             i, p->d->name);
    return buf;
}

/* Numbers must not lose anything on their way into the batch. */
static bool converts(dl_dtype from, dl_dtype to) {
    if (from == to) return true;
    if (dl_dtype_is_complex(from) || dl_dtype_is_complex(to)) return false;
    return dl_dtype_is_float(from) ? dl_dtype_is_float(to) : !dl_dtype_is_float(to) && to == DL_I64;
}

/* Checks tensor t of sample i, and widens the sizes. A sample alone has the shape it has. */
static dl_status measure(const part *p, const dl_tensor *t, long i, bool alone, long *sizes) {
    int ndim = dl_ndim(t);
    const long *shape = dl_shape(t);
    char place[200];
    bool same = dl_sizes_eq(ndim, shape, p->is.ndim, p->is.shape);
    if (!same && ((!p->d->padded && !alone) || ndim != p->is.ndim))
        return dl_fail_hint(DL_ERR_SHAPE,
                            ndim == p->is.ndim ? "pad=0 fills up those of a batch to the largest"
                                               : "all samples have the same number of dimensions",
                            "%s is %s, that of the first %s", place_of(p, i, place), dl_shape_text(ndim, shape),
                            dl_shape_text(p->is.ndim, p->is.shape));
    if (dl_numel(t) && !converts(dl_dtype_of(t), p->is.kept)) /* an empty list has no dtype of its own */
        return dl_fail_hint(DL_ERR_DTYPE, "convert one of them with .to(DTYPE)", "%s is %s, that of the first %s",
                            place_of(p, i, place), dl_dtype_name(dl_dtype_of(t)), dl_dtype_name(p->is.kept));
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
    DL_OWNED dl_tensor *as = dl_to_dtype(t, p->is.kept);
    if (!as) return dl_failed();
    DL_TRY(dl_read(as, room));
    if (p->is.kept != p->is.dtype) { /* bytes to f32, from the last one */
        float *wide = (float *)room;
        const uint8_t *bytes = (const uint8_t *)room;
        for (long j = dl_numel(t) - 1; j >= 0; j--)
            wide[j] = p->is.lut ? p->is.lut[bytes[j]] : (float)(bytes[j] / 255.0);
    }
    spread(room, dl_shape(t), to, sizes, p->is.ndim, (size_t)dl_dtype_size(p->is.dtype));
    return DL_OK;
}

/* Tensor `field` of each sample, one after the other. */
static dl_status stack(const dl_dataset *d, int field, dl_batch *list, const long *index, long n, dl_tensor **out) {
    part p = part_of(d, field);
    int slot = p.target ? DL_NET_INPUTS + field - d->form.inputs : field, ndim = p.is.ndim;
    long sizes[DL_MAX_SAMPLE_DIM + 1] = {n};
    bool free_shape = d->padded || n == 1;
    if (!free_shape) memcpy(sizes + 1, p.is.shape, (size_t)ndim * sizeof *sizes);
    for (long i = 0; i < n; i++) DL_TRY(measure(&p, *dl_batch_slot(&list[i], slot), index[i], n == 1, sizes + 1));
    if (!(*out = d->padded ? dl_full(sizes, ndim + 1, p.is.pad, p.is.dtype, 0)
                           : dl_tensor_empty(ndim + 1, sizes, p.is.dtype, 0)))
        return dl_failed();
    size_t each = n ? (size_t)(dl_numel(*out) / n) * (size_t)dl_dtype_size(p.is.dtype) : 0;
    char *room = dl_data_alloc((long)each + 1, 1);
    dl_status st = room ? DL_OK : dl_failed();
    for (long i = 0; st == DL_OK && i < n; i++)
        st = put_tensor(&p, *dl_batch_slot(&list[i], slot), (char *)dl_data(*out) + (size_t)i * each, sizes + 1, room);
    free(room);
    return st;
}

static dl_status give_all(dl_dataset *d, int split, const long *index, long n, dl_tensor **x, dl_tensor **y) {
    dl_batch *list = dl_data_alloc(n, sizeof *list);
    dl_status st = list ? DL_OK : dl_failed();
    for (long i = 0; st == DL_OK && i < n; i++)
        if ((st = dl_interrupt_check()) == DL_OK) st = d->source.give(d, split, index[i], list[i].x, list[i].y);
    DL_SCOPED_GRAD_MODE(0);
    for (int k = 0; st == DL_OK && k < d->form.inputs; k++) st = stack(d, k, list, index, n, &x[k]);
    for (int k = 0; st == DL_OK && k < d->form.targets; k++) st = stack(d, d->form.inputs + k, list, index, n, &y[k]);
    for (long i = 0; list && i < n; i++) dl_batch_drop(&list[i]);
    free(list);
    return st;
}

void dl_batch_drop(dl_batch *b) {
    for (int i = 0; i < DL_BATCH_SLOTS; i++) dl_unref(*dl_batch_slot(b, i));
    *b = (dl_batch){0};
}

dl_status dl_data_collate(dl_dataset *d, int split, const long *index, long n, dl_tensor **x, dl_tensor **y) {
    dl_batch made = {0};
    dl_status st = (dl_data_reads(d) ? read_all : give_all)(d, split, index, n, made.x, made.y);
    if (st != DL_OK) dl_batch_drop(&made);
    memcpy(x, made.x, (size_t)d->form.inputs * sizeof *x);
    memcpy(y, made.y, (size_t)d->form.targets * sizeof *y);
    return st;
}

/* ---------------------------------------------------------------- functions that make batches */

struct dl_collate {
    int refs, place; /* first, for dl_loader_references */
    dl_collate_fn *fn;
    void *ctx;
    void (*release)(void *ctx);
};

dl_collate *dl_collate_new(dl_collate_fn *fn, void *ctx, void (*release)(void *ctx)) {
    dl_collate *c = fn ? dl_data_alloc(1, sizeof *c) : NULL;
    if (!fn) dl_fail_null("the function that makes batches");
    if (c)
        *c = (dl_collate){1, -1, fn, ctx, release};
    else if (release)
        release(ctx);
    return c;
}

DL_REF_FUNCTION(dl_collate)

void dl_collate_unref(dl_collate *c) {
    if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (c->release) c->release(c->ctx);
    free(c);
}

void *dl_collate_context(const dl_collate *c) { return c->ctx; }

/* A tensor of a batch lies on the host, in memory of its own, without history. */
static dl_status settle(dl_tensor **t) {
    DL_SCOPED_GRAD_MODE(0);
    if (!*t) return DL_OK;
    DL_OWNED dl_tensor *here = dl_to_device(*t, 0), *plain = here ? dl_contiguous(here) : NULL;
    if (!plain) return dl_failed();
    bool own = plain->st->bytes == (size_t)plain->numel * (size_t)dl_dtype_size(plain->dtype);
    dl_tensor *made = own && !plain->requires_grad && !plain->node ? dl_ref(plain) : dl_clone(plain);
    if (!made) return dl_failed();
    dl_unref(*t);
    *t = made;
    return DL_OK;
}

/* The function may run for ever. */
static dl_status call(const dl_collate *c, dl_dataset *d, int split, const long *index, long n, dl_batch_form *got,
                      dl_batch *out) {
    DL_SCOPED_INTERRUPT_HOLD(0);
    return c->fn(c->ctx, d, (dl_split)split, index, n, got, out->x, out->y);
}

dl_status dl_collate_run(const dl_collate *c, dl_dataset *d, int split, const long *index, long n, bool first,
                         dl_batch_form *form, dl_batch *out) {
    dl_batch_form got = {0};
    dl_status st = call(c, d, split, index, n, &got, out);
    bool good = got.inputs > 0 && got.inputs <= DL_NET_INPUTS && got.targets > 0 && got.targets <= DL_NET_INPUTS;
    for (int i = 0; good && i < DL_NET_INPUTS; i++)
        good = (out->x[i] != NULL) == (i < got.inputs) && (out->y[i] != NULL) == (i < got.targets);
    if (st == DL_OK && !good)
        st = dl_fail(DL_ERR_VALUE, "the collate function gave no batch: it has 1 to %d inputs and as many targets",
                     DL_NET_INPUTS);
    if (st == DL_OK && !first && (got.inputs != form->inputs || got.targets != form->targets))
        st = dl_fail(DL_ERR_VALUE, "the collate function gave %d inputs and %d targets, and at first %d and %d",
                     got.inputs, got.targets, form->inputs, form->targets);
    for (int i = 0; st == DL_OK && i < DL_BATCH_SLOTS; i++) st = settle(dl_batch_slot(out, i));
    if (st == DL_OK && first) *form = got;
    if (st != DL_OK) dl_batch_drop(out);
    return st;
}
