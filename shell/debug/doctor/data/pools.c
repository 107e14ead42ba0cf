/* The samples that variables hold, by hashes of their rows. */
#include "debug/doctor/data/pools.h"

#include <stdio.h>
#include <stdlib.h>

#include "commands/data/data.h"
#include "dlcore/view.h"

enum { CHUNK = 512, ROW_ELEMENTS = 1 << 26 };

static int by_hash(const void *a, const void *b) {
    const unsigned long x = ((const dlsh_pool_row *)a)->hash, y = ((const dlsh_pool_row *)b)->hash;
    return (x > y) - (x < y);
}

const dlsh_pool_row *dlsh_row_of(const dlsh_pool *p, unsigned long hash) {
    const dlsh_pool_row key = {hash, 0};
    return p->n ? bsearch(&key, p->row, (size_t)p->n, sizeof key, by_hash) : NULL;
}

int dlsh_has_row(const dlsh_pool *p, unsigned long hash) { return dlsh_row_of(p, hash) != NULL; }

int dlsh_rows_in(const dlsh_pool *p, const dl_journal_row *r) {
    int n = 0;
    for (long i = 0; i < r->nrows; i++) n += dlsh_has_row(p, r->rows[i]);
    return n;
}

/* Rows from `first` on of a dlsh_pool; NULL: they cannot be read. */
static dl_tensor *rows_of(const dlsh_pool *p, long first, long n) {
    dl_tensor *x[DL_NET_INPUTS] = {NULL}, *y[DL_NET_INPUTS] = {NULL};
    long index[CHUNK];
    if (p->tensor) return dl_narrow(p->tensor, 0, first, n);
    for (long i = 0; i < n; i++) index[i] = first + i;
    int st = dl_dataset_gather(p->data, p->split, index, n, x, y);
    for (int i = 0; i < DL_NET_INPUTS; i++) {
        dl_unref(y[i]);
        if (i || st) dl_unref(x[i]), x[i] = NULL;
    }
    return x[0];
}

int dlsh_pool_fill(dlsh_pool *p, long width) {
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_FREED double *v = malloc((size_t)(CHUNK * width) * sizeof *v);
    p->row = p->n * width <= ROW_ELEMENTS ? malloc(((size_t)p->n + 1) * sizeof *p->row) : NULL;
    int good = v && p->row;
    for (long i = 0; good && i < p->n; i += CHUNK) {
        const long n = p->n - i < CHUNK ? p->n - i : CHUNK;
        DLSH_OWNED dl_tensor *x = rows_of(p, i, n);
        good = x && dl_numel(x) == n * width && !dl_read_f64(x, v);
        for (long k = 0; good && k < n; k++)
            p->row[i + k] = (dlsh_pool_row){dl_hash(v + k * width, width * (long)sizeof *v), i + k};
    }
    dl_error_clear();
    if (good) qsort(p->row, (size_t)p->n, sizeof *p->row, by_hash);
    if (!good) free(p->row), p->row = NULL;
    return good;
}

static void add_pool(dlsh_pools *all, dlsh_pool p, long width) {
    if (all->n == DLSH_POOLS || p.n < 4) return;
    for (int i = 0; i < all->n; i++)
        if (all->at[i].data == p.data && all->at[i].tensor == p.tensor && all->at[i].split == p.split) return;
    if (dlsh_pool_fill(&p, width)) all->at[all->n++] = p;
}

static void add_splits(dlsh_pools *all, const char *name, dl_dataset *d, long width) {
    static const struct {
        const char *name;
        dl_split split;
    } splits[] = {{"train", DL_TRAIN}, {"test", DL_TEST}};
    for (size_t i = 0; i < DLSH_COUNT(splits) && !dl_dataset_slow(d); i++) {
        dlsh_pool p = {.data = d, .split = splits[i].split, .n = dl_dataset_len(d, splits[i].split)};
        snprintf(p.name, sizeof p.name, "%.60s.%s", name, splits[i].name);
        add_pool(all, p, width);
    }
}

void dlsh_pools_find(const dlsh_examination *e, dlsh_pools *all, long width) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        const char *name = h->name;
        dl_dataset *d = dlsh_unwrap(h->value, &dlsh_dataset_class);
        dlsh_split *part = dlsh_unwrap(h->value, &dlsh_split_class);
        dl_tensor *t =
            h->value.type == DLSH_TENSOR && !dl_requires_grad(h->value.as.tensor) ? h->value.as.tensor : NULL;
        if (d || part) add_splits(all, name, d ? d : part->data, width);
        if (!t || !dl_ndim(t) || dl_dtype_is_complex(dl_dtype_of(t)) || !dl_shape(t)[0] ||
            dl_numel(t) / dl_shape(t)[0] != width)
            continue;
        dlsh_pool p = {.tensor = t, .n = dl_shape(t)[0]};
        snprintf(p.name, sizeof p.name, "%s", name);
        add_pool(all, p, width);
    }
    dl_trainer *t = e->trainer;
    if (t && dl_trainer_loader(t)) add_splits(all, "the data", dl_loader_dataset(dl_trainer_loader(t)), width);
}

void dlsh_pools_free(dlsh_pools *all) {
    for (int i = 0; i < all->n; i++) free(all->at[i].row);
}

dl_tensor *dlsh_labels_of(const dlsh_examination *e, const dlsh_pool *p, int number) {
    dl_tensor *x[DL_NET_INPUTS] = {NULL}, *y[DL_NET_INPUTS] = {NULL};
    if (p->n > DLSH_LABELS || (p->data && number)) return NULL;
    if (p->data) {
        DLSH_FREED long *index = malloc((size_t)p->n * sizeof *index);
        for (long i = 0; index && i < p->n; i++) index[i] = i;
        const int st = !index || dl_dataset_gather(p->data, p->split, index, p->n, x, y);
        for (int i = 0; i < DL_NET_INPUTS; i++) {
            dl_unref(x[i]);
            if (i || st) dl_unref(y[i]), y[i] = NULL;
        }
        return y[0];
    }
    DLSH_EACH_HOLDER (h, &e->holders) {
        dl_tensor *t = h->value.type == DLSH_TENSOR ? h->value.as.tensor : NULL;
        if (t && dl_ndim(t) && dl_numel(t) == p->n && dl_shape(t)[0] == p->n && t != p->tensor && !number--)
            return dl_ref(t);
    }
    return NULL;
}
