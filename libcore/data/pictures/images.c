/* Data sets of pictures in IDX files: MNIST and its look-alikes, any pair of such files. */
#include "data/datasets.h"
#include "data/pictures/idx.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"

/* ---------------------------------------------------------------- IDX */

/* An IDX file in memory; `bytes` belongs to it. */
typedef struct idx_file {
    dl_idx idx;
    size_t size; /* that the header promises */
    uint8_t *bytes;
} idx_file;

/* Headers are checked before elements are read: a small file may claim, and uncompress to, a huge array. */
static dl_status read_idx_header(const char *path, idx_file *f) {
    uint8_t head[DL_IDX_HEAD];
    size_t n = sizeof head;
    DL_TRY(dl_file_head(path, head, &n));
    return dl_idx_header(path, head, n, &f->idx, &f->size);
}

static dl_status read_idx(const char *path, idx_file *f) {
    size_t n;
    DL_TRY(dl_file_read(path, f->size, &f->bytes, &n));
    if (n > f->size)
        return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged; fetch it again",
                            "'%s' goes on behind the %zu bytes that its header claims", path, f->size);
    return dl_idx_parse(path, f->bytes, n, &f->idx);
}

/* The shape of a sample: greyscale pictures get one channel. */
static void sample_shape(const dl_idx *x, long *shape, int *ndim) {
    *ndim = 0;
    if (x->ndim == 3) shape[(*ndim)++] = 1;
    for (int i = 1; i < x->ndim; i++) shape[(*ndim)++] = x->shape[i];
}

static dl_dtype kept_dtype(const dl_idx *x) { return x->type == 0x08 ? DL_U8 : x->type < 0x0D ? DL_I64 : DL_F32; }

static dl_status check_pair(const dl_dataset *d, int split, const char *xpath, const dl_idx *x, const char *ypath,
                            const dl_idx *y) {
    long shape[8];
    int ndim;
    if (y->ndim != 1)
        return dl_fail(DL_ERR_FORMAT, "'%s' holds no labels: it has %d dimensions, and labels have one", ypath,
                       y->ndim);
    if (x->ndim < 2 || !x->shape[0])
        return dl_fail(DL_ERR_FORMAT, "'%s' holds no samples: its shape is %s", xpath,
                       dl_shape_text(x->ndim, x->shape));
    if (x->shape[0] != y->shape[0])
        return dl_fail_hint(DL_ERR_FORMAT, "they do not belong together", "'%s' has %ld samples and '%s' %ld labels",
                            xpath, x->shape[0], ypath, y->shape[0]);
    sample_shape(x, shape, &ndim);
    if (split && (!dl_sizes_eq(ndim, shape, d->ndim, d->shape) || kept_dtype(x) != d->dtype))
        return dl_fail(DL_ERR_FORMAT, "'%s' has samples of another kind, %s, than the training split, %s", xpath,
                       dl_shape_text(ndim, shape), dl_shape_text(d->ndim, d->shape));
    return DL_OK;
}

static dl_status copy_pair(dl_dataset *d, int split, const dl_idx *x, const dl_idx *y, const char *ypath) {
    DL_TRY(dl_data_reserve(d, split, x->shape[0]));
    dl_samples *s = &d->split[split];
    if (d->dtype == DL_U8) memcpy(s->x, x->data, (size_t)x->numel);
    for (long i = 0; d->dtype == DL_F32 && i < x->numel; i++) ((float *)s->x)[i] = (float)dl_idx_get(x, i);
    for (long i = 0; d->dtype == DL_I64 && i < x->numel; i++) ((int64_t *)s->x)[i] = (int64_t)dl_idx_get(x, i);
    for (long i = 0; i < y->numel; i++) {
        double label = dl_idx_get(y, i);
        if (!(label >= 0 && label < (double)d->classes && label == floor(label)))
            return dl_fail(DL_ERR_FORMAT, "'%s': label %ld is %g; labels are 0 to %ld", ypath, i, label,
                           d->classes - 1);
        ((int64_t *)s->y)[i] = (int64_t)label;
    }
    return DL_OK;
}

enum { MAX_CLASSES = 100000 };

/* One split from two files. With classes 0 they are counted first, up to the largest label. */
static dl_status load_pair(dl_dataset *d, int split, const char *xpath, const char *ypath, long classes,
                           const char *const *names) {
    idx_file x = {0}, y = {0};
    dl_status st = read_idx_header(xpath, &x);
    if (st == DL_OK) st = read_idx_header(ypath, &y);
    if (st == DL_OK) st = check_pair(d, split, xpath, &x.idx, ypath, &y.idx);
    if (st == DL_OK) st = read_idx(xpath, &x);
    if (st == DL_OK) st = read_idx(ypath, &y);
    if (st == DL_OK && !split) {
        long shape[8];
        int ndim;
        for (long i = 0; !names && i < y.idx.numel; i++) {
            double v = dl_idx_get(&y.idx, i);
            if (v >= (double)classes && v < MAX_CLASSES) classes = (long)v + 1;
        }
        sample_shape(&x.idx, shape, &ndim);
        d->dtype = kept_dtype(&x.idx);
        dl_data_set_shape(d, ndim, shape);
        st = dl_data_set_classes(d, classes, names);
    }
    if (st == DL_OK) st = copy_pair(d, split, &x.idx, &y.idx, ypath);
    free(x.bytes);
    free(y.bytes);
    return st;
}

/* Opens "PREFIXtrain-images-idx3-ubyte" and its like; some archives write a point for the second dash. */
static dl_status find_idx(const char *dir, const char *prefix, const char *split, int labels, char *path, size_t size) {
    char names[2][96];
    for (int point = 0; point < 2; point++)
        snprintf(names[point], sizeof *names, "%s%s-%s%cidx%d-ubyte", prefix, split, labels ? "labels" : "images",
                 point ? '.' : '-', labels ? 1 : 3);
    return dl_file_find(dir, (const char *const[]){names[0], names[1], NULL}, path, size);
}

/* The four files of MNIST and its look-alikes. */
static dl_status load_mnist(const dl_data_args *a, dl_dataset *d, const char *prefix, const char *test, long n,
                            const char *const *classes) {
    char x[4096], y[4096];
    const char *dir = dl_data_str(a, "path");
    for (int split = 0; split < 2; split++) {
        DL_TRY(find_idx(dir, prefix, split ? test : "train", 0, x, sizeof x));
        DL_TRY(find_idx(dir, prefix, split ? test : "train", 1, y, sizeof y));
        DL_TRY(load_pair(d, split, x, y, n, classes));
    }
    return DL_OK;
}

dl_status dl_open_mnist(const dl_data_args *a, dl_dataset *d) {
    static const char *const names[10] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    DL_TRY(load_mnist(a, d, "", "t10k", 10, names));
    return dl_data_finish(a, d);
}

dl_status dl_open_fashion(const dl_data_args *a, dl_dataset *d) {
    static const char *const names[10] = {"t-shirt", "trouser", "pullover", "dress", "coat",
                                          "sandal",  "shirt",   "sneaker",  "bag",   "ankle boot"};
    DL_TRY(load_mnist(a, d, "", "t10k", 10, names));
    return dl_data_finish(a, d);
}

dl_status dl_open_kmnist(const dl_data_args *a, dl_dataset *d) {
    static const char *const names[10] = {"o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"};
    DL_TRY(load_mnist(a, d, "", "t10k", 10, names));
    return dl_data_finish(a, d);
}

/* The classes of EMNIST's splits, each a character of one of these; letters count from 1. */
static const struct {
    const char *split, *classes;
} emnist[] = {{"byclass", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"},
              {"bymerge", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt"},
              {"balanced", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt"},
              {"letters", "?abcdefghijklmnopqrstuvwxyz"},
              {"digits", "0123456789"},
              {"mnist", "0123456789"}};

/* The files hold the pictures with rows and columns exchanged. */
static void turn_upright(dl_dataset *d) {
    long h = d->shape[1], w = d->shape[2];
    for (int split = 0; split < 2; split++)
        for (long i = 0; h == w && i < d->split[split].n; i++) {
            uint8_t *p = (uint8_t *)d->split[split].x + i * h * w;
            for (long r = 0; r < h; r++)
                for (long c = r + 1; c < w; c++) {
                    uint8_t kept = p[r * w + c];
                    p[r * w + c] = p[c * w + r], p[c * w + r] = kept;
                }
        }
}

dl_status dl_open_emnist(const dl_data_args *a, dl_dataset *d) {
    char letters[64][4], prefix[64];
    const char *names[64], *split = dl_data_str(a, "split");
    size_t k = 0, n;
    while (strcmp(emnist[k].split, split) != 0) k++; /* the row of the kind lists the words */
    n = strlen(emnist[k].classes);
    for (size_t i = 0; i < n; i++) {
        snprintf(letters[i], sizeof *letters, emnist[k].classes[i] == '?' ? "N/A" : "%c", emnist[k].classes[i]);
        names[i] = letters[i];
    }
    snprintf(prefix, sizeof prefix, "emnist-%s-", split);
    DL_TRY(load_mnist(a, d, prefix, "test", (long)n, names));
    if (d->dtype == DL_U8 && d->ndim == 3 && strchr("t1", *dl_data_str(a, "upright"))) turn_upright(d);
    return dl_data_finish(a, d);
}

dl_status dl_open_idx(const dl_data_args *a, dl_dataset *d) {
    const char *x = dl_data_str(a, "test_path"), *y = dl_data_str(a, "test_labels");
    if (!*x != !*y)
        return dl_fail(DL_ERR_VALUE,
                       "dataset 'idx': test_path and test_labels go together; only one of them was given");
    DL_TRY(load_pair(d, 0, dl_data_str(a, "path"), dl_data_str(a, "labels"), 1, NULL));
    if (*x)
        DL_TRY(load_pair(d, 1, x, y, 0, NULL));
    else
        DL_TRY(dl_data_hold_out(d, dl_data_float(a, "holdout"), (uint64_t)dl_data_int(a, "seed")));
    return dl_data_finish(a, d);
}
