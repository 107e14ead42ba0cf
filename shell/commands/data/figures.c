/* Figures of data sets: what the inputs and targets of each split hold, by field. */
#include "commands/data/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lang/session.h"
#include "view/elements.h"
#include "view/sink.h"

enum { AT_ONCE = 256, FIELDS = 2 * DL_NET_INPUTS };

typedef struct figures {
    long n, finite, zeros, nans, infs;
    double mean, squares, low, high; /* of the finite ones; squares: sum of those of the distances from the mean */
} figures;

static void add_number(figures *f, double v) {
    f->n++, f->zeros += v == 0, f->nans += isnan(v) != 0, f->infs += isinf(v) != 0;
    if (!isfinite(v)) return;
    const double away = v - f->mean;
    f->mean += away / (double)++f->finite;
    f->squares += away * (v - f->mean);
    f->low = f->finite == 1 || v < f->low ? v : f->low, f->high = f->finite == 1 || v > f->high ? v : f->high;
}

static dl_status add_tensor(figures *f, const dl_tensor *t) {
    const long n = dl_numel(t);
    DLSH_FREED double *v = malloc(((size_t)n + 1) * sizeof *v);
    if (!v) return dlsh_no_memory("the elements of a batch");
    DLSH_TRY(dl_read_f64(t, v));
    for (long i = 0; i < n; i++) add_number(f, v[i]);
    return DL_OK;
}

/* The samples from..to of a split. */
static dl_status add_samples(figures *f, dl_dataset *d, dl_split split, long from, long to) {
    const dl_batch_form *form = dl_dataset_form(d);
    dl_tensor *x[DL_NET_INPUTS] = {NULL}, *y[DL_NET_INPUTS] = {NULL};
    long index[AT_ONCE];
    for (long i = from; i < to; i++) index[i - from] = i;
    dl_status st = dl_dataset_gather(d, split, index, to - from, x, y);
    for (int i = 0; !st && i < form->inputs + form->targets; i++) {
        const dl_tensor *t = i < form->inputs ? x[i] : y[i - form->inputs];
        if (t && !dl_dtype_is_complex(dl_dtype_of(t))) st = add_tensor(&f[i], t);
    }
    for (int i = 0; i < DL_NET_INPUTS; i++) dl_unref(x[i]), dl_unref(y[i]);
    return st;
}

/* One record a field. */
static dl_status put_split(dl_dataset *d, dl_split split, const char *name, dlsh_value *row, int *n) {
    const dl_batch_form *form = dl_dataset_form(d);
    const long samples = dl_dataset_len(d, split);
    figures f[FIELDS] = {0};
    for (long at = 0; at < samples; at += AT_ONCE) {
        DLSH_TRY(dlsh_check_interrupt());
        DLSH_TRY(add_samples(f, d, split, at, at + AT_ONCE < samples ? at + AT_ONCE : samples));
    }
    for (int i = 0; samples && i < form->inputs + form->targets; i++) {
        const char *own = form->names[i], *plain = i < form->inputs ? "x" : "y";
        const double std = f[i].finite > 1 ? sqrt(f[i].squares / (double)(f[i].finite - 1)) : NAN;
        const int any = f[i].finite > 0;
        row[*n] =
            DLSH_RECORD_OF({"split", dlsh_string(name)}, {"field", dlsh_string(own && *own ? own : plain)},
                           {"samples", dlsh_int(samples)}, {"mean", dlsh_float(any ? f[i].mean : NAN)},
                           {"std", dlsh_float(std)}, {"min", dlsh_float(any ? f[i].low : NAN)},
                           {"max", dlsh_float(any ? f[i].high : NAN)}, {"n", dlsh_int(f[i].n)},
                           {"zeros", dlsh_int(f[i].zeros)}, {"nan", dlsh_int(f[i].nans)}, {"inf", dlsh_int(f[i].infs)});
        if (dlsh_failed(row[(*n)++])) return dl_failed();
    }
    return DL_OK;
}

dlsh_value dlsh_data_figures(dl_dataset *d, int from, int to) {
    static const char *const names[] = {[DL_TRAIN] = "train", [DL_TEST] = "test"};
    dlsh_value row[2 * FIELDS];
    int n = 0;
    dl_status st = DL_OK;
    for (int s = from; !st && s <= to; s++) st = put_split(d, (dl_split)s, names[s], row, &n);
    if (!st) return dlsh_list_of(row, n);
    while (n) dlsh_drop(row[--n]);
    return dlsh_void();
}

dl_status dlsh_show_data_figures(dlsh_sink *sink, dlsh_value rows) {
    enum { COLUMNS = 11 };
    static const char *const keys[COLUMNS] = {"split", "field", "samples", "mean", "std", "min",
                                              "max",   "n",     "zeros",   "nan",  "inf"};
    DLSH_SCOPED_TABLE t =
        DLSH_TABLE({"split", 'l', ""}, {"field", 'l', ""}, {"samples", 'r', ""}, {"mean", 'r', "%.5g"},
                   {"std", 'r', "%.5g"}, {"min", 'r', "%.5g"}, {"max", 'r', "%.5g"}, {"elements", 'r', ""},
                   {"zeros", 'r', ""}, {"NaN", 'r', ""}, {"Inf", 'r', ""});
    for (long i = 0; i < rows.as.list->n; i++) {
        dlsh_value cell[COLUMNS];
        for (int k = 0; k < COLUMNS; k++)
            cell[k] = dlsh_ref(*dlsh_record_get(rows.as.list->items[i].as.record, keys[k]));
        DLSH_TRY(dlsh_table_row(&t, cell));
    }
    return dlsh_table_show(sink, &t, DL_OK, NULL);
}
