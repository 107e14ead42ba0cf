/* Datasets whose samples come one by one: from a function of the caller, or a list. */
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/scope.h"
#include "data/data.h"

static dl_status give(const dl_dataset *d, int split, long i, dl_tensor **x, dl_tensor **y) {
    const dl_dataset_spec *s = d->source.ctx;
    *x = *y = NULL;
    DL_TRY(s->give(s->ctx, (dl_split)split, i, x, y));
    return *x && *y ? DL_OK : dl_fail(DL_ERR_VALUE, "sample %ld of '%s' is missing", i, d->name);
}

static void close_given(void *ctx) {
    dl_dataset_spec *s = ctx;
    if (s->release) s->release(s->ctx);
    free(s);
}

/* Forms and dtypes are those of the first sample. */
static dl_status take_form(dl_dataset *d) {
    DL_OWNED dl_tensor *x = NULL, *y = NULL;
    DL_TRY(give(d, d->split[0].n ? 0 : 1, 0, &x, &y));
    if (dl_ndim(x) >= DL_MAX_SAMPLE_DIM || dl_ndim(y) >= DL_MAX_SAMPLE_DIM)
        return dl_fail(DL_ERR_SHAPE, "samples and targets have at most %d dimensions", DL_MAX_SAMPLE_DIM - 1);
    dl_data_set_shape(d, dl_ndim(x), dl_shape(x));
    dl_data_set_target(d, dl_ndim(y), dl_shape(y));
    d->dtype = dl_data_kept_dtype(dl_dtype_of(x), d->ndim, "none");
    d->target_dtype = dl_data_may_be_classes(dl_dtype_of(y), d->target_ndim) ? DL_I64 : dl_dtype_of(y);
    return dl_data_normalize(d, d->dtype == DL_U8 ? "unit" : "none");
}

/* Of all samples, in order. */
static dl_status hash(dl_dataset *d) {
    char chain[2 * sizeof d->fingerprint] = "";
    for (int s = 0; s < 2; s++)
        for (long i = 0; i < d->split[s].n; i++) {
            DL_OWNED dl_tensor *x = NULL, *y = NULL;
            DL_TRY(dl_interrupt_check_at(16 * i));
            bool padded = d->padded;
            d->padded = true; /* one sample has the shape it has */
            dl_status st = dl_data_collate(d, s, &i, 1, &x, &y);
            d->padded = padded;
            DL_TRY(st);
            dl_piece pieces[] = {{chain, sizeof d->fingerprint},
                                 {dl_shape(x), (size_t)dl_ndim(x) * sizeof(long)},
                                 {dl_data(x), (size_t)dl_numel(x) * (size_t)dl_dtype_size(dl_dtype_of(x))},
                                 {dl_data(y), (size_t)dl_numel(y) * (size_t)dl_dtype_size(dl_dtype_of(y))}};
            dl_data_set_fingerprint_of(d, pieces, 4);
            memcpy(chain, d->fingerprint, sizeof d->fingerprint);
        }
    return DL_OK;
}

static dl_status fill(dl_dataset *d, const dl_dataset_spec *spec) {
    d->split[0].n = spec->n[0], d->split[1].n = spec->n[1];
    d->padded = spec->padded, d->pad = spec->pad, d->pad_target = spec->pad_target;
    if (spec->n[0] < 0 || spec->n[1] < 0 || spec->n[0] + spec->n[1] < 1)
        return dl_fail(DL_ERR_VALUE, "'%s' would have %ld samples to train and %ld to test; at least one is needed",
                       d->name, spec->n[0], spec->n[1]);
    DL_TRY(take_form(d));
    if (spec->classes) {
        if (!dl_data_may_be_classes(d->target_dtype, d->target_ndim))
            return dl_fail(DL_ERR_TYPE, "classes=%ld, but targets are %s of %d dimensions and not class numbers",
                           spec->classes, dl_dtype_name(d->target_dtype), d->target_ndim);
        DL_TRY(dl_data_set_classes(d, spec->classes, NULL));
    }
    if (!spec->mark) return hash(d);
    dl_data_set_fingerprint(d, spec->mark);
    return DL_OK;
}

dl_dataset *dl_dataset_given(const dl_dataset_spec *spec) {
    if (!spec || !spec->give) return dl_fail_null("the samples of a data set"), NULL;
    dl_dataset *d = dl_data_new(spec->name ? spec->name : "samples");
    dl_dataset_spec *copy = d ? dl_data_alloc(1, sizeof *copy) : NULL;
    if (!copy) {
        if (spec->release) spec->release(spec->ctx);
        dl_dataset_unref(d);
        return NULL;
    }
    *copy = *spec;
    d->source = (dl_data_source){.give = give, .close = close_given, .ctx = copy, .alone = !spec->any_thread};
    if (fill(d, spec) == DL_OK) return d;
    dl_dataset_unref(d);
    return NULL;
}
