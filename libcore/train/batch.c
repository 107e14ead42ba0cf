/* Batches of a trainer: made by its device from a split that lives there, or by a loader on the host. */
#include "train/trainer.h"

#include <stdlib.h>

#include "data/sampler.h"
#include "data/transforms/transform.h"

/* ---------------------------------------------------------------- the next batch */

long dl_trainer_micros(const dl_trainer *t) {
    long epoch, batch, left;
    dl_loader_position(t->loader, &epoch, &batch);
    left = dl_loader_len(t->loader) - batch;
    if (left <= 0) left = dl_loader_len(t->loader);
    return t->accumulate < left ? t->accumulate : left;
}

long dl_batch_next(const dl_loader *l, long *epoch, long *at) {
    dl_loader_view v;
    dl_loader_look(l, &v);
    dl_loader_position(l, epoch, at);
    if (*at == v.batches) ++*epoch, *at = 0;
    long from = *at * v.batch;
    return v.n - from < v.batch ? v.n - from : v.batch;
}

/* The order of an epoch, on the device. */
static dl_status put_order(dl_trainer *t, const dl_loader_view *v, long epoch) {
    if ((!v->sampling->shuffle && !v->sampling->sampler) || t->order_epoch == epoch) return DL_OK;
    long *order = malloc((size_t)v->n * (sizeof(long) + sizeof(int)));
    if (!order) return dl_fail(DL_ERR_MEMORY, "no memory for the order of %ld samples", v->n);
    int *narrow = (int *)(order + v->n);
    dl_status st = dl_sampling_order(v->sampling, v->seed, epoch, order);
    for (long i = 0; st == DL_OK && i < v->n; i++) narrow[i] = (int)order[i];
    if (st == DL_OK && !t->order && !(t->order = dl_tensor_empty(1, &v->n, DL_I32, t->device))) st = dl_failed();
    if (st == DL_OK) st = dl_device_copy(dl_ptr(t->order), t->device, narrow, 0, (size_t)v->n * sizeof *narrow);
    if (st == DL_OK) t->order_epoch = epoch;
    free(order);
    return st;
}

/* A device does not know all transforms, and changes a sample by its number, so that one drawn twice would change
 * alike. */
static bool made_by_host(const dl_trainer *t, dl_split split) {
    dl_loader_view v;
    dl_loader_look(t->loader, &v);
    return split == DL_TRAIN && v.transforms->n && (v.transforms->host || dl_sampler_repeats(v.sampling->sampler));
}

dl_split dl_batch_split(const dl_trainer *t, const dl_loader *l) {
    dl_loader_view v;
    dl_loader_look(l, &v);
    return v.data == t->held ? DL_VAL : (dl_split)v.split;
}

dl_status dl_batch_make_resident(dl_trainer *t, dl_split split) {
    const bool held = split == DL_VAL;
    if (!made_by_host(t, split) && !t->resident_asked[split] && t->backend->make_batch)
        DL_TRY(dl_data_resident(held ? t->held : t->data, held ? DL_TEST : split, t->device, &t->resident[split]));
    t->resident_asked[split] = true;
    return DL_OK;
}

dl_status dl_batch_align(dl_trainer *t) {
    dl_loader_view v;
    long at, where[2];
    DL_TRY(dl_batch_make_resident(t, DL_TRAIN));
    if (!t->resident[DL_TRAIN].x) return DL_OK;
    dl_batch_next(t->loader, &where[0], &at);
    dl_loader_look(t->loader, &v);
    DL_TRY(put_order(t, &v, where[0]));
    where[1] = at * v.batch;
    if (t->control_epoch == where[0] && t->control_from == where[1]) return DL_OK;
    t->control_epoch = where[0], t->control_from = where[1];
    return dl_control_write(t, &t->control->epoch, where, sizeof where);
}

/* ---------------------------------------------------------------- made by the device */

/* n samples of a resident split from the control's position on. */
static dl_status make(dl_trainer *t, const dl_control *c, dl_loader *l, const dl_tensor *order, long n, dl_tensor **x,
                      dl_tensor **y) {
    dl_loader_view v;
    dl_loader_look(l, &v);
    const dl_dataset *d = v.data;
    const dl_resident *r = &t->resident[dl_batch_split(t, l)];
    dl_batch_source s = {.x = dl_ptr(r->x),
                         .y = dl_ptr(r->y),
                         .lut = r->lut ? dl_ptr(r->lut) : NULL,
                         .order = order ? dl_ptr(order) : NULL,
                         .numel = d->numel,
                         .plane = d->numel / d->channels,
                         .size = dl_dtype_size(d->dtype),
                         .target = (long)dl_data_target_size(d),
                         .c = 1,
                         .h = 1,
                         .w = d->numel,
                         .seed = v.seed,
                         .transforms = v.transforms};
    if (d->ndim == 3) s.c = d->shape[0], s.h = d->shape[1], s.w = d->shape[2];
    DL_TRY(dl_data_batch(d, n, t->device, x, y));
    dl_status st = t->backend->make_batch(t->index, c, &s, dl_ptr(*x), dl_ptr(*y), n);
    if (st == DL_OK) return DL_OK;
    dl_unref(*x);
    dl_unref(*y);
    *x = *y = NULL;
    return st;
}

/* ---------------------------------------------------------------- made by a loader */

/* The next batch of the host: as it is, or on the device, in the tensors of b where they are given, else in fresh ones.
 */
static dl_status send(dl_trainer *t, dl_loader *l, dl_batch *b) {
    DL_SCOPED_BATCH h = {0};
    DL_TRY(dl_loader_next(l, h.x, h.y));
    if (!h.x[0]) DL_TRY(dl_loader_next(l, h.x, h.y)); /* one epoch ended, the next begins */
    if (!t->backend->async_copy) {
        *b = h, h = (dl_batch){0};
        return DL_OK;
    }
    for (int i = 0; i < DL_BATCH_SLOTS; i++) {
        const dl_tensor *from = *dl_batch_slot(&h, i);
        dl_tensor **to = dl_batch_slot(b, i);
        if (!from) continue;
        if (!*to && !(*to = dl_tensor_empty(from->ndim, from->shape, (dl_dtype)from->dtype, t->device)))
            return dl_failed();
        DL_TRY(t->backend->async_copy(t->index, dl_ptr(*to), dl_ptr(from), from->st->bytes));
    }
    return DL_OK;
}

dl_status dl_batch_send(dl_trainer *t, dl_batch *b) { return send(t, t->loader, b); }

/* ---------------------------------------------------------------- where the net wants it */

static dl_status replace(dl_tensor **slot, dl_tensor *made) {
    if (!made) return dl_failed();
    dl_unref(*slot);
    *slot = made;
    return DL_OK;
}

/* Replaces floating tensors by what has the dtype of the net. */
static dl_status convert(dl_trainer *t, dl_batch *b) {
    dl_dtype want = t->nparam ? dl_dtype_of(t->param[0]) : DL_F32;
    for (int i = 0; want != DL_F32 && i < DL_BATCH_SLOTS; i++) {
        dl_tensor **at = dl_batch_slot(b, i);
        if (*at && dl_dtype_is_float(dl_dtype_of(*at))) DL_TRY(replace(at, dl_to_dtype(*at, want)));
    }
    return DL_OK;
}

dl_status dl_batch_fetch(dl_trainer *t) {
    long epoch, at, n = dl_batch_next(t->loader, &epoch, &at);
    dl_batch *b = &t->batch;
    dl_status st;
    dl_trainer_drop_batch(t);
    if (t->resident[DL_TRAIN].x) {
        st = make(t, t->control, t->loader, t->order, n, &b->x[0], &b->y[0]);
        if (st == DL_OK) st = dl_loader_seek(t->loader, epoch, at + 1);
    } else if (t->resend) {
        *b = dl_batch_ref(&t->sent);
        t->resend = false;
        st = dl_loader_seek(t->loader, epoch, at + 1);
    } else {
        st = send(t, t->loader, b);
        dl_batch_drop(&t->sent);
        t->sent = dl_batch_ref(b);
    }
    t->epoch = epoch, b->n = n;
    return st == DL_OK ? convert(t, b) : st;
}

dl_status dl_batch_fetch_eval(dl_trainer *t, dl_loader *l, dl_batch *b) {
    long epoch, at, n = dl_batch_next(l, &epoch, &at);
    dl_loader_position(l, &epoch, &at);
    *b = (dl_batch){0};
    if (at == dl_loader_len(l)) return DL_OK;
    if (t->resident[dl_batch_split(t, l)].x) {
        DL_TRY(make(t, t->eval_control, l, NULL, n, &b->x[0], &b->y[0]));
        DL_TRY(dl_loader_seek(l, epoch, at + 1));
    } else
        DL_TRY(send(t, l, b));
    b->n = n;
    return convert(t, b);
}
