/* Datasets of tensors at hand whose samples have several inputs or targets: one tensor [n, ...] for each. */
#include <stdio.h>
#include <stdlib.h>

#include "core/scope.h"
#include "core/tensor.h"
#include "data/data.h"
#include "dlcore/copy.h"

typedef struct columns {
    dl_batch of[2]; /* of each split, on the host, contiguous */
    long n[2];
} columns;

static void close_columns(void *ctx) {
    columns *c = ctx;
    dl_batch_drop(&c->of[0]);
    dl_batch_drop(&c->of[1]);
    free(c);
}

static dl_status give_row(void *ctx, dl_split split, long i, dl_tensor **x, dl_tensor **y) {
    columns *c = ctx;
    for (int k = 0; k < DL_BATCH_SLOTS; k++) {
        const dl_tensor *t = *dl_batch_slot(&c->of[split], k);
        if (!t) continue;
        dl_tensor **to = k < DL_NET_INPUTS ? &x[k] : &y[k - DL_NET_INPUTS];
        *to = dl_view_new(t->st, t->dtype, t->ndim - 1, t->shape + 1, t->stride + 1, t->offset + i * t->stride[0]);
        if (!*to) return dl_failed();
    }
    return DL_OK;
}

/* "input 2", "target 'mask'" */
static const char *column_name(const dl_batch_form *f, int slot, char buf[DL_FIELD_NAME + 32]) {
    bool target = slot >= DL_NET_INPUTS;
    int i = slot % DL_NET_INPUTS;
    const char *name = f->names[target ? f->inputs + i : i];
    if (*name)
        snprintf(buf, DL_FIELD_NAME + 32, "%s '%s'", target ? "target" : "input", name);
    else
        snprintf(buf, DL_FIELD_NAME + 32, "%s %d", target ? "target" : "input", i);
    return buf;
}

static dl_status take_column(columns *c, const dl_batch_form *f, int split, int slot, dl_tensor *t) {
    char what[DL_FIELD_NAME + 32], first[DL_FIELD_NAME + 32];
    DL_SCOPED_GRAD_MODE(0);
    if (!t) return dl_fail_null("a tensor of the data set");
    if (dl_ndim(t) < 1 || dl_ndim(t) > DL_MAX_SAMPLE_DIM)
        return dl_fail_hint(DL_ERR_SHAPE, "the first dimension counts the samples", "%s has shape %s",
                            column_name(f, slot, what), dl_shape_text(dl_ndim(t), dl_shape(t)));
    if (slot == 0) c->n[split] = dl_shape(t)[0];
    if (dl_shape(t)[0] != c->n[split])
        return dl_fail_hint(DL_ERR_SHAPE, "the first dimension counts the samples", "%s has %ld samples, and %s %ld",
                            column_name(f, slot, what), dl_shape(t)[0], column_name(f, 0, first), c->n[split]);
    DL_OWNED dl_tensor *here = dl_to_device(t, 0), *plain = here ? dl_detach(here) : NULL;
    dl_tensor *whole = plain ? dl_contiguous(plain) : NULL;
    if (!whole) return dl_failed();
    /* what the caller writes to its tensor later does not change the data set */
    *dl_batch_slot(&c->of[split], slot) = whole->st == t->st ? dl_clone(whole) : dl_ref(whole);
    dl_unref(whole);
    return *dl_batch_slot(&c->of[split], slot) ? DL_OK : dl_failed();
}

/* Targets that are one integer each are class numbers where all can be: as many as the largest says, else 0. */
static dl_status count_classes(columns *c, const dl_batch_form *f, long *classes) {
    *classes = 0;
    for (int s = 0; s < 2 && f->targets == 1 && c->n[s]; s++) {
        const dl_tensor *y = c->of[s].y[0];
        if (!dl_data_may_be_classes(y->dtype, y->ndim - 1)) return DL_OK;
        DL_OWNED dl_tensor *as = dl_to_dtype(c->of[s].y[0], DL_I64);
        if (!as) return dl_failed();
        const int64_t *label = dl_data(as);
        for (long i = 0; i < c->n[s]; i++) {
            if (label[i] < 0 || label[i] >= DL_MAX_CLASSES) return *classes = 0, DL_OK;
            if (label[i] >= *classes) *classes = (long)label[i] + 1;
        }
    }
    return DL_OK;
}

static void set_mark(dl_dataset *d, columns *c) {
    dl_piece pieces[2 * 2 * DL_BATCH_SLOTS + 1] = {{&d->form, sizeof d->form}};
    int n = 1;
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < DL_BATCH_SLOTS; k++) {
            const dl_tensor *t = *dl_batch_slot(&c->of[s], k);
            if (!t) continue;
            pieces[n++] = (dl_piece){t->shape, (size_t)t->ndim * sizeof *t->shape};
            pieces[n++] = (dl_piece){dl_data((dl_tensor *)t), (size_t)t->numel * (size_t)dl_dtype_size(t->dtype)};
        }
    dl_data_set_fingerprint_of(d, pieces, n);
}

static dl_status fill(columns *c, const dl_columns *s) {
    for (int split = 0; split < 2; split++) {
        if (!s->x[split]) continue;
        for (int i = 0; i < s->form.inputs; i++) DL_TRY(take_column(c, &s->form, split, i, s->x[split][i]));
        for (int i = 0; i < s->form.targets; i++)
            DL_TRY(take_column(c, &s->form, split, DL_NET_INPUTS + i, s->y[split][i]));
    }
    return DL_OK;
}

static dl_dataset *of_several(const dl_columns *s, const char *name) {
    columns *c = dl_data_alloc(1, sizeof *c);
    long classes = 0;
    if (!c) return NULL;
    if (fill(c, s) != DL_OK || count_classes(c, &s->form, &classes) != DL_OK) {
        close_columns(c);
        return NULL;
    }
    dl_dataset_spec spec = {.name = name,
                            .n = {c->n[0], c->n[1]},
                            .give = give_row,
                            .release = close_columns,
                            .ctx = c,
                            .any_thread = 1,
                            .classes = classes,
                            .mark = "tensors",
                            .form = &s->form};
    dl_dataset *d = dl_dataset_given(&spec);
    if (d) set_mark(d, c);
    return d;
}

dl_status dl_data_not_classes(const dl_dataset *d, long classes) {
    int n = d->target_ndim;
    return dl_fail_hint(DL_ERR_TYPE, "leave classes= out: it belongs to targets that are one class number a sample",
                        "classes=%ld, but a target is %s of %d dimension%s, not a class number", classes,
                        dl_dtype_name(d->target_dtype), n, n == 1 ? "" : "s");
}

/* Some classes may have no sample. */
static dl_status set_classes(dl_dataset *d, long classes) {
    if (!classes) return DL_OK;
    if (classes < 0) return dl_data_drop_classes(d), DL_OK;
    if (!d->classes) return dl_data_not_classes(d, classes);
    if (classes < d->classes)
        return dl_fail(DL_ERR_VALUE, "classes=%ld, but the largest class number is %ld", classes, d->classes - 1);
    return dl_data_set_classes(d, classes, NULL);
}

dl_dataset *dl_dataset_columns(const dl_columns *s, const char *name) {
    if (!s || !s->x[0] || !s->y[0] || !s->x[1] != !s->y[1]) return dl_fail_null("a tensor of the data set"), NULL;
    bool several = s->form.inputs > 1 || s->form.targets > 1;
    if (!name) name = "tensor";
    dl_dataset *d = several ? of_several(s, name)
                            : dl_dataset_from(s->x[0][0], s->y[0][0], s->x[1] ? s->x[1][0] : NULL,
                                              s->y[1] ? s->y[1][0] : NULL, name);
    if (!d || set_classes(d, s->classes) == DL_OK) return d;
    dl_dataset_unref(d);
    return NULL;
}
