/* Datasets whose samples come one by one: from a function of the caller, or a list. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/scope.h"
#include "data/data.h"

/* A function that only the asking thread calls is one of the caller, which may run for ever. */
static dl_status ask(const dl_dataset_spec *s, int split, long i, dl_tensor **x, dl_tensor **y) {
    if (s->any_thread) return s->give(s->ctx, (dl_split)split, i, x, y);
    DL_SCOPED_INTERRUPT_HOLD(0);
    return s->give(s->ctx, (dl_split)split, i, x, y);
}

static dl_status give(const dl_dataset *d, int split, long i, dl_tensor **x, dl_tensor **y) {
    DL_TRY(ask(d->source.ctx, split, i, x, y));
    bool all = true;
    for (int k = 0; k < d->form.inputs; k++) all = all && x[k];
    for (int k = 0; k < d->form.targets; k++) all = all && y[k];
    return all ? DL_OK : dl_fail(DL_ERR_VALUE, "sample %ld of '%s' is missing", i, d->name);
}

static void close_given(void *ctx) {
    dl_dataset_spec *s = ctx;
    if (s->release) s->release(s->ctx);
    free(s);
}

static dl_dtype target_dtype(const dl_tensor *y) {
    return dl_data_may_be_classes(dl_dtype_of(y), dl_ndim(y)) ? DL_I64 : dl_dtype_of(y);
}

/* What each of several inputs and targets is. */
static dl_status take_fields(dl_dataset *d, dl_batch *b) {
    int inputs = d->form.inputs, n = inputs + d->form.targets;
    if (n == 2) return DL_OK;
    if (!(d->fields = dl_data_alloc(n, sizeof *d->fields))) return dl_failed();
    for (int i = 0; i < n; i++) {
        const dl_tensor *t = i < inputs ? b->x[i] : b->y[i - inputs];
        dl_dtype kept = i < inputs ? dl_data_kept_dtype(dl_dtype_of(t), dl_ndim(t), "none") : target_dtype(t);
        d->fields[i] = (dl_field){.ndim = dl_ndim(t),
                                  .kept = kept,
                                  .dtype = i < inputs && kept == DL_U8 ? DL_F32 : kept,
                                  .pad = i < inputs ? d->pad : d->pad_target};
        memcpy(d->fields[i].shape, dl_shape(t), (size_t)dl_ndim(t) * sizeof(long));
    }
    return DL_OK;
}

/* Can a batch of this dtype be filled up with this number? */
static dl_status check_pad(const char *option, double pad, const char *what, dl_dtype t) {
    bool whole = pad == rint(pad) && fabs(pad) < 9223372036854775808.0;
    if (dl_dtype_is_float(t) || dl_dtype_is_complex(t)) return DL_OK;
    if (whole && (t != DL_BOOL || pad == 0 || pad == 1) && (t != DL_I32 || pad == (double)(int32_t)pad) &&
        (t != DL_U8 || (pad >= 0 && pad <= 255)))
        return DL_OK;
    return dl_fail_hint(DL_ERR_DTYPE, "give a number of their dtype, or convert them with .to(DTYPE)",
                        "%s=%.17g does not fit %s of %s", option, pad, what, dl_dtype_name(t));
}

static dl_status check_pads(const dl_dataset *d) {
    int n = d->form.inputs + d->form.targets;
    for (int i = 0; d->padded && i < n; i++) {
        bool target = i >= d->form.inputs;
        dl_dtype t = d->fields ? d->fields[i].dtype : target ? d->target_dtype : d->dtype == DL_U8 ? DL_F32 : d->dtype;
        DL_TRY(check_pad(target ? "pad_target" : "pad", target ? d->pad_target : d->pad, target ? "targets" : "samples",
                         t));
    }
    return DL_OK;
}

/* Forms and dtypes are those of the first sample. */
static dl_status take_form(dl_dataset *d) {
    DL_SCOPED_BATCH b = {0};
    DL_TRY(give(d, d->split[0].n ? 0 : 1, 0, b.x, b.y));
    for (int i = 0; i < DL_BATCH_SLOTS; i++)
        if (*dl_batch_slot(&b, i) && dl_ndim(*dl_batch_slot(&b, i)) >= DL_MAX_SAMPLE_DIM)
            return dl_fail(DL_ERR_SHAPE, "samples and targets have at most %d dimensions", DL_MAX_SAMPLE_DIM - 1);
    dl_tensor *x = b.x[0], *y = b.y[0];
    dl_data_set_shape(d, dl_ndim(x), dl_shape(x));
    dl_data_set_target(d, dl_ndim(y), dl_shape(y));
    d->dtype = dl_data_kept_dtype(dl_dtype_of(x), d->ndim, "none");
    d->target_dtype = target_dtype(y);
    DL_TRY(dl_data_normalize(d, d->dtype == DL_U8 ? "unit" : "none"));
    DL_TRY(take_fields(d, &b));
    return check_pads(d);
}

void *dl_dataset_context(const dl_dataset *d, void (*release)(void *)) {
    const dl_dataset_spec *s = d->source.close == close_given ? d->source.ctx : NULL;
    return s && s->release == release ? s->ctx : NULL;
}

/* Of all samples, in order. */
static dl_status hash(dl_dataset *d) {
    char chain[2 * sizeof d->fingerprint] = "";
    for (int s = 0; s < 2; s++)
        for (long i = 0; i < d->split[s].n; i++) {
            DL_SCOPED_BATCH b = {0};
            DL_TRY(dl_interrupt_check_at(16 * i));
            DL_TRY(dl_data_collate(d, s, &i, 1, b.x, b.y));
            dl_piece pieces[1 + 2 * DL_BATCH_SLOTS] = {{chain, sizeof d->fingerprint}};
            int n = 1;
            for (int k = 0; k < DL_BATCH_SLOTS; k++) {
                const dl_tensor *t = *dl_batch_slot(&b, k);
                if (!t) continue;
                if (k < DL_NET_INPUTS) pieces[n++] = (dl_piece){dl_shape(t), (size_t)dl_ndim(t) * sizeof(long)};
                pieces[n++] = (dl_piece){dl_data(t), (size_t)dl_numel(t) * (size_t)dl_dtype_size(dl_dtype_of(t))};
            }
            dl_data_set_fingerprint_of(d, pieces, n);
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
    if (spec->form) d->form = *spec->form;
    if (d->form.inputs < 1 || d->form.inputs > DL_NET_INPUTS || d->form.targets < 1 || d->form.targets > DL_NET_INPUTS)
        return dl_fail(DL_ERR_VALUE, "a sample has 1 to %d inputs and as many targets, not %d and %d", DL_NET_INPUTS,
                       d->form.inputs, d->form.targets);
    DL_TRY(take_form(d));
    if (spec->classes) {
        if (!dl_data_may_be_classes(d->target_dtype, d->target_ndim)) return dl_data_not_classes(d, spec->classes);
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
