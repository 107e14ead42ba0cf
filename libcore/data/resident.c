/* Splits on a device, so that batches are made there. */
#include <sched.h>
#include <stdlib.h>

#include "core/interrupt.h"
#include "data/data.h"

enum { SHARE = 4 }; /* at most 1/SHARE of the free memory is used */

static size_t bytes_of(const dl_dataset *d, int split) {
    return (size_t)d->split[split].n * (dl_data_kept_size(d) + dl_data_target_size(d));
}

/* Draws all samples that are drawn on demand, and waits for those that a loader is drawing. */
static dl_status complete(dl_dataset *d, int split) {
    dl_samples *s = &d->split[split];
    dl_stop stop = dl_stop_begin();
    if (!d->render) return DL_OK;
#pragma omp parallel for schedule(dynamic, 16)
    for (long i = 0; i < s->n; i++) {
        if (dl_stop_asked(&stop)) continue;
        uint8_t idle = 0;
        if (__atomic_compare_exchange_n(&s->drawn[i], &idle, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            d->render(d, split, i, (uint8_t *)s->x + i * d->numel);
            __atomic_store_n(&s->drawn[i], 2, __ATOMIC_RELEASE);
        }
        while (__atomic_load_n(&s->drawn[i], __ATOMIC_ACQUIRE) != 2) sched_yield();
    }
    return stop.incomplete ? dl_fail(DL_ERR_INTERRUPT, "interrupted") : DL_OK;
}

void dl_resident_drop(dl_resident *r) {
    dl_unref(r->x);
    dl_unref(r->y);
    dl_unref(r->lut);
    *r = (dl_resident){0};
}

/* Samples and targets of a source, one after the other. */
static dl_status collect(dl_dataset *d, int split, dl_samples *s) {
    s->n = d->split[split].n;
    s->x = dl_data_alloc(s->n, dl_data_kept_size(d)), s->y = dl_data_alloc(s->n, dl_data_target_size(d));
    dl_status st = s->x && s->y ? DL_OK : dl_failed();
    for (long i = 0; st == DL_OK && i < s->n; i++)
        if ((st = dl_interrupt_check_at(16 * i)) == DL_OK)
            st = dl_data_keep(d, split, i, (char *)s->x + (size_t)i * dl_data_kept_size(d),
                              (char *)s->y + (size_t)i * dl_data_target_size(d));
    return st;
}

static dl_status put(dl_dataset *d, const dl_samples *s, int device, dl_resident *r) {
    long x[2] = {s->n, d->numel}, y[2] = {s->n, d->target_numel}, lut[2] = {d->channels, 256};
    r->device = device;
    r->x = dl_tensor_from(2, x, d->dtype, device, s->x);
    r->y = r->x ? dl_tensor_from(2, y, d->target_dtype, device, s->y) : NULL;
    if (r->y && d->dtype == DL_U8) r->lut = dl_tensor_from(2, lut, DL_F32, device, d->lut);
    bool good = r->y && (r->lut || d->dtype != DL_U8);
    if (!good) dl_resident_drop(r);
    return good ? DL_OK : dl_failed();
}

static dl_status put_split(dl_dataset *d, int split, int device, dl_resident *r) {
    dl_samples copy = {0};
    if (!d->source.read) return put(d, &d->split[split], device, r);
    dl_status st = collect(d, split, &copy);
    if (st == DL_OK) st = put(d, &copy, device, r);
    free(copy.x);
    free(copy.y);
    return st;
}

/* Kernels copy words of four bytes; what is read from elsewhere stays there. */
static bool can_reside(const dl_dataset *d) {
    bool words = dl_data_target_size(d) % 4 == 0 && (d->dtype == DL_U8 || dl_data_kept_size(d) % 4 == 0);
    return words && dl_data_reads(d) && !d->source.slow && !d->source.alone;
}

dl_status dl_data_resident(dl_dataset *d, int split, int device, dl_resident *out) {
    dl_resident *r = &d->resident[split];
    dl_device_memory m;
    *out = (dl_resident){0};
    if (!can_reside(d)) return DL_OK;
    if (!r->x || r->device != device) {
        DL_TRY(dl_device_memory_get(device, &m));
        if (bytes_of(d, split) > (size_t)(m.available + m.cached) / SHARE || d->split[split].n > INT32_MAX)
            return DL_OK;
        dl_resident_drop(r);
        DL_TRY(complete(d, split));
        dl_status st = put_split(d, split, device, r);
        if (st == DL_ERR_MEMORY) return dl_error_clear(), DL_OK; /* enough is free, but not in one block */
        DL_TRY(st);
    }
    *out = (dl_resident){device, dl_ref(r->x), dl_ref(r->y), dl_ref(r->lut)};
    return DL_OK;
}
