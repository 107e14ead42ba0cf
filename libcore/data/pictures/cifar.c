/* CIFAR-10 and CIFAR-100: records of bytes in binary files, or dicts in pickles, in a folder or in a tar archive. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/tensor.h"
#include "data/datasets.h"
#include "data/archives/tar.h"
#include "io/pickle/pickle_value.h"

enum { PICTURE = 3 * 32 * 32 };

/* What differs between the two. */
typedef struct cifar {
    const char *files[2][6]; /* of each split; in the binary version with .bin */
    const char *folders[2];  /* of the binary and the Python version, in the archives */
    int labels;              /* bytes before a picture in a record */
    int label;               /* the one that counts */
    const char *key;         /* of the labels in a dict */
    long classes;
} cifar;

typedef struct source {
    const char *path; /* of the folder or archive */
    uint8_t *tar;     /* the archive's bytes, or NULL: a folder */
    size_t n;
} source;

/* One file: its bytes, owned where they were not in the archive. */
typedef struct piece {
    const uint8_t *bytes;
    uint8_t *owned;
    size_t n;
    char path[4096];
    bool binary;
} piece;

static bool is_file(const char *path) {
    struct stat info;
    return !stat(path, &info) && S_ISREG(info.st_mode);
}

static dl_status open_source(const char *path, source *s) {
    s->path = path;
    return is_file(path) ? dl_file_read(path, 0, &s->tar, &s->n) : DL_OK;
}

/* dir[/folder]/name[.bin][.gz], the first that there is. */
static bool find_in_folders(const cifar *c, const char *dir, const char *name, piece *p) {
    for (int binary = 1; binary >= 0; binary--)
        for (int below = 0; below < 2; below++)
            for (int gz = 0; gz < 2; gz++) {
                int n = snprintf(p->path, sizeof p->path, "%s%s%s/%s%s%s", dir, below ? "/" : "",
                                 below ? c->folders[!binary] : "", name, binary ? ".bin" : "", gz ? ".gz" : "");
                p->binary = binary;
                if (n < (int)sizeof p->path && is_file(p->path)) return true;
            }
    return false;
}

static dl_status find_in_archive(const source *s, const char *name, piece *p) {
    char base[64];
    for (int binary = 1; binary >= 0 && !p->bytes; binary--) {
        snprintf(base, sizeof base, "%s%s", name, binary ? ".bin" : "");
        p->binary = binary;
        DL_TRY(dl_tar_find(s->path, s->tar, s->n, base, &p->bytes, &p->n));
    }
    snprintf(p->path, sizeof p->path, "%.3000s: %s", s->path, base);
    return DL_OK;
}

static dl_status find_piece(const cifar *c, const source *s, const char *name, piece *p) {
    struct stat info;
    if (s->tar) DL_TRY(find_in_archive(s, name, p));
    if (!s->tar && find_in_folders(c, s->path, name, p)) {
        DL_TRY(dl_file_read(p->path, 0, &p->owned, &p->n));
        p->bytes = p->owned;
    }
    if (p->bytes) return DL_OK;
    return dl_fail_hint(DL_ERR_IO, "the official files must be there under their own names",
                        stat(s->path, &info) ? "'%s' does not exist" : "'%s' has neither %s.bin nor %s", s->path, name,
                        name);
}

/* ---------------------------------------------------------------- the two versions */

static dl_status bad_label(const dl_dataset *d, const piece *p, long i, long label) {
    return dl_fail(DL_ERR_FORMAT, "'%s': record %ld has the label %ld; labels are 0 to %ld", p->path, i, label,
                   d->classes - 1);
}

static dl_status add_records(const cifar *c, dl_dataset *d, dl_samples *s, const piece *p) {
    size_t record = (size_t)c->labels + PICTURE;
    for (size_t at = 0; at < p->n; at += record, s->n++) {
        long label = p->bytes[at + (size_t)c->label];
        if (label >= d->classes) return bad_label(d, p, (long)(at / record), label);
        ((int64_t *)s->y)[s->n] = label;
        memcpy((uint8_t *)s->x + s->n * PICTURE, p->bytes + at + c->labels, PICTURE);
    }
    return DL_OK;
}

static const dl_stored *field(const dl_stored *r, const char *key) {
    for (long i = 0; r->kind == DL_STORED_RECORD && i < r->n; i++)
        if (!strcmp(r->keys[i], key)) return &r->items[i];
    return NULL;
}

/* {"data": u8 [n, 3072], "labels": [...]}. *x and *y are borrowed from the value. */
static dl_status check_dict(const cifar *c, const piece *p, const dl_stored *v, const dl_tensor **x,
                            const dl_stored **y) {
    const dl_stored *data = field(v, "data");
    const dl_tensor *t = data && data->kind == DL_STORED_TENSOR ? data->tensor : NULL;
    *x = t, *y = field(v, c->key);
    if (!t || !*y || (*y)->kind != DL_STORED_LIST)
        return dl_fail(DL_ERR_FORMAT, "'%s' is not a batch of CIFAR: it has no array 'data' and list '%s'", p->path,
                       c->key);
    if (t->dtype != DL_U8 || t->ndim != 2 || t->shape[1] != PICTURE || t->shape[0] != (*y)->n)
        return dl_fail(DL_ERR_FORMAT, "'%s': data is %s%s with %ld labels; u8 [n,%d] with n labels is wanted", p->path,
                       dl_type_of(t), dl_shape_of(t), (*y)->n, PICTURE);
    return DL_OK;
}

static dl_status add_dict(const cifar *c, dl_dataset *d, dl_samples *s, const piece *p, const dl_stored *v) {
    const dl_tensor *x = NULL;
    const dl_stored *y = NULL;
    DL_TRY(check_dict(c, p, v, &x, &y));
    memcpy((uint8_t *)s->x + s->n * PICTURE, dl_ptr(x), (size_t)x->numel);
    for (long i = 0; i < y->n; i++) {
        if (y->items[i].kind != DL_STORED_INT || y->items[i].i < 0 || y->items[i].i >= d->classes)
            return bad_label(d, p, i, y->items[i].i);
        ((int64_t *)s->y)[s->n++] = y->items[i].i;
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- a split */

typedef struct batch {
    piece p;
    dl_tensor_file *dict; /* of the Python version */
    long n;
} batch;

static dl_status read_batch(const cifar *c, const source *s, const char *name, batch *b) {
    size_t record = (size_t)c->labels + PICTURE;
    const dl_tensor *x = NULL;
    const dl_stored *y = NULL;
    DL_TRY(find_piece(c, s, name, &b->p));
    if (b->p.binary) {
        b->n = (long)(b->p.n / record);
        if (b->p.n && b->p.n % record == 0) return DL_OK;
        return dl_fail_hint(DL_ERR_FORMAT, "the file is of another data set, or was not copied whole",
                            "'%s' has %zu bytes, which are not a whole number of records of %zu", b->p.path, b->p.n,
                            record);
    }
    dl_pickle_reader r = {.name = b->p.path};
    if (!(b->dict = dl_pickle_read(&r, b->p.bytes, b->p.n, "pickle"))) return dl_failed();
    DL_TRY(check_dict(c, &b->p, dl_tensor_file_value(b->dict), &x, &y));
    b->n = y->n;
    return DL_OK;
}

static dl_status load_split(const cifar *c, const source *s, dl_dataset *d, int split) {
    enum { MOST = 5 };
    batch *b = dl_data_alloc(MOST, sizeof *b);
    if (!b) return dl_failed();
    long total = 0;
    int count = 0;
    dl_status st = DL_OK;
    for (; st == DL_OK && c->files[split][count]; count++) {
        st = read_batch(c, s, c->files[split][count], &b[count]);
        total += b[count].n;
    }
    if (st == DL_OK) st = dl_data_reserve(d, split, total);
    d->split[split].n = 0;
    for (int i = 0; st == DL_OK && i < count; i++)
        st = b[i].dict ? add_dict(c, d, &d->split[split], &b[i].p, dl_tensor_file_value(b[i].dict))
                       : add_records(c, d, &d->split[split], &b[i].p);
    for (int i = 0; i < count; i++) {
        free(b[i].p.owned);
        dl_tensor_file_free(b[i].dict);
    }
    free(b);
    return st;
}

static dl_status load(const dl_data_args *a, dl_dataset *d, const cifar *c, const char *const *names) {
    const long shape[3] = {3, 32, 32};
    source s = {0};
    d->dtype = DL_U8;
    dl_data_set_shape(d, 3, shape);
    DL_TRY(dl_data_set_classes(d, c->classes, names));
    DL_TRY(open_source(dl_data_str(a, "path"), &s));
    dl_status st = load_split(c, &s, d, DL_TRAIN);
    if (st == DL_OK) st = load_split(c, &s, d, DL_TEST);
    free(s.tar);
    DL_TRY(st);
    return dl_data_finish(a, d);
}

dl_status dl_open_cifar10(const dl_data_args *a, dl_dataset *d) {
    static const char *const names[10] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                          "dog",      "frog",       "horse", "ship", "truck"};
    static const cifar c = {
        {{"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"}, {"test_batch"}},
        {"cifar-10-batches-bin", "cifar-10-batches-py"},
        1,
        0,
        "labels",
        10};
    return load(a, d, &c, names);
}

dl_status dl_open_cifar100(const dl_data_args *a, dl_dataset *d) {
    static const char *const fine[100] = {
#define FINE(name) name,
#define COARSE(name)
#include "data/pictures/cifar100.def"
#undef FINE
#undef COARSE
    };
    static const char *const coarse[20] = {
#define FINE(name)
#define COARSE(name) name,
#include "data/pictures/cifar100.def"
#undef FINE
#undef COARSE
    };
    bool is_coarse = !strcmp(dl_data_str(a, "labels"), "coarse");
    const cifar c = {{{"train"}, {"test"}}, {"cifar-100-binary", "cifar-100-python"},    2,
                     is_coarse ? 0 : 1,     is_coarse ? "coarse_labels" : "fine_labels", is_coarse ? 20 : 100};
    return load(a, d, &c, is_coarse ? coarse : fine);
}
