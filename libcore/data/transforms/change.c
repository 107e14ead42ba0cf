/* Batches and tensors changed by a list of transforms. */
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "data/transforms/transform.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/view.h"

/* One sample of `numel` elements at `from` into the `most` elements at `to`, which may be the same place. */
static dl_status change_sample(const dl_changes *c, const float *from, long numel, const long shape[3], uint64_t sample,
                               float *to) {
    const dl_transforms *t = c->list;
    dl_sample s = {c->room, c->room + t->most, numel, shape[0], shape[1], shape[2]};
    dl_draw r = dl_draw_begin(c->seed, DL_FOR_TRANSFORM, c->epoch, sample);
    memcpy(s.x, from, (size_t)numel * sizeof *from);
    DL_TRY(dl_transforms_apply(t, &s, &r));
    memcpy(to, s.x, (size_t)s.n * sizeof *to);
    return DL_OK;
}

/* [c, h, w] of samples of these dimensions; of others all elements are a row. */
static void planes_of(const dl_tensor *x, long shape[3]) {
    const long *each = dl_shape(x) + 1;
    shape[0] = shape[1] = 1, shape[2] = 1;
    for (int i = 0; i + 1 < dl_ndim(x); i++) shape[dl_ndim(x) == 4 ? i : 2] *= each[i];
}

static dl_status change_samples(const dl_changes *c, dl_tensor **x) {
    long n = dl_shape(*x)[0], shape[3], in = n ? dl_numel(*x) / n : 0;
    const dl_transforms *t = c->list;
    long sizes[4] = {n, t->shape[0], t->shape[1], t->shape[2]}, out = t->reshapes ? sizes[1] * sizes[2] * sizes[3] : in;
    DL_OWNED dl_tensor *made = t->reshapes ? dl_tensor_empty(4, sizes, DL_F32, 0) : dl_ref(*x);
    if (!made) return dl_failed();
    planes_of(*x, shape);
    for (long i = 0; i < n; i++) {
        DL_TRY(dl_interrupt_check_at(64 * i));
        DL_TRY(change_sample(c, (const float *)dl_ptr(*x) + i * in, in, shape, (uint64_t)c->sample[i],
                             (float *)dl_ptr(made) + i * out));
    }
    dl_unref(*x);
    *x = dl_ref(made);
    return DL_OK;
}

/* Class numbers as shares of 0 and 1. */
static dl_status to_shares(const dl_changes *c, dl_tensor **y) {
    long shape[2] = {dl_numel(*y), c->classes};
    dl_tensor *made = dl_zeros(shape, 2, DL_F32, 0);
    if (!made) return dl_failed();
    for (long i = 0; i < shape[0]; i++) {
        int64_t label = ((const int64_t *)dl_ptr(*y))[i];
        if (label < 0 || label >= c->classes) {
            dl_unref(made);
            return dl_fail(DL_ERR_VALUE, "a sample that is to be mixed has class %ld; there are %ld", (long)label,
                           c->classes);
        }
        ((float *)dl_ptr(made))[i * c->classes + label] = 1;
    }
    dl_unref(*y);
    *y = made;
    return DL_OK;
}

static dl_status mix(const dl_changes *c, dl_tensor *x, dl_tensor **y) {
    const dl_transforms *t = c->list;
    DL_TRY(to_shares(c, y));
    dl_mixed b = {.x = dl_ptr(x), .y = dl_ptr(*y), .n = dl_shape(x)[0], .classes = c->classes};
    if (!b.n) return DL_OK;
    b.each = dl_numel(x) / b.n, b.c = t->shape[0], b.h = t->shape[1], b.w = t->shape[2];
    dl_draw r = dl_draw_begin(c->seed, DL_FOR_MIXING, c->epoch, c->batch);
    for (int i = 0; i < t->n; i++)
        if (t->step[i].batch) DL_TRY(t->step[i].batch(&b, t->step[i].p, &r));
    return DL_OK;
}

dl_status dl_transforms_change(const dl_changes *c, dl_tensor **x, dl_tensor **y) {
    DL_SCOPED_GRAD_MODE(0);
    DL_TRY(change_samples(c, x));
    return c->list->mixes ? mix(c, *x, y) : DL_OK;
}

/* ---------------------------------------------------------------- tensors */

/* f32 on the host, of its own; bytes as 0 to 1. */
static dl_tensor *floats_of(dl_tensor *x) {
    DL_OWNED dl_tensor *here = dl_to_device(x, 0), *f = here ? dl_to_dtype(here, DL_F32) : NULL;
    if (f && dl_dtype_of(x) == DL_U8) {
        DL_OWNED dl_tensor *full = dl_scalar_f(255);
        return full ? dl_div(f, full) : NULL;
    }
    return f ? dl_clone(f) : NULL;
}

static dl_tensor *change_batch(dl_changes *c, dl_tensor *batch) {
    long n = dl_shape(batch)[0], *sample = dl_memory_alloc(n, (long)sizeof *sample);
    dl_tensor *x = dl_ref(batch);
    c->room = dl_memory_alloc(2 * c->list->most, (long)sizeof *c->room);
    dl_status st = sample && c->room ? DL_OK : dl_failed();
    for (long i = 0; st == DL_OK && i < n; i++) sample[i] = i;
    c->sample = sample;
    if (st == DL_OK) st = dl_transforms_change(c, &x, NULL);
    free(sample);
    free(c->room);
    if (st == DL_OK) return x;
    dl_unref(x);
    return NULL;
}

/* x as a batch of one. */
static dl_tensor *lead(dl_tensor *x) {
    long shape[DL_MAX_DIM + 1] = {1};
    memcpy(shape + 1, dl_shape(x), (size_t)dl_ndim(x) * sizeof *shape);
    if (dl_ndim(x) < DL_MAX_DIM) return dl_reshape(x, shape, dl_ndim(x) + 1);
    return dl_fail(DL_ERR_SHAPE, "a sample has at most %d dimensions", DL_MAX_DIM - 1), NULL;
}

dl_tensor *dl_transform_tensor(const char *transforms, dl_tensor *x, unsigned long seed) {
    dl_transforms list;
    if (!x) return dl_fail_null("the sample to transform"), NULL;
    int ndim = dl_ndim(x), batch = ndim == 4;
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *f = floats_of(x), *in = NULL, *out = NULL;
    if (!f || dl_transforms_parse(transforms, batch ? 3 : ndim, dl_shape(x) + batch, &list) != DL_OK) return NULL;
    if (list.mixes)
        return dl_fail_hint(DL_ERR_VALUE, "loader(d, transforms=\"mixup\") mixes them with their targets",
                            "mixup and cutmix need targets"),
               NULL;
    if (!list.n) return dl_to_device(f, dl_device_of(x));
    in = batch ? dl_ref(f) : lead(f);
    if (!in) return NULL;
    dl_changes c = {.list = &list, .seed = seed};
    out = change_batch(&c, in);
    DL_OWNED dl_tensor *whole = !out ? NULL : batch ? dl_ref(out) : dl_select(out, 0, 0);
    return whole ? dl_to_device(whole, dl_device_of(x)) : NULL;
}
