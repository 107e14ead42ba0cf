/* Data sets of tensors: those at hand, and those in NumPy files. */
#include "data/datasets.h"
#include "data/disk.h"

#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "core/scope.h"

/* Host memory with the elements of t in logical order as `dtype`; the caller frees it. */
static dl_status elements(dl_tensor *t, dl_dtype dtype, void **out) {
    DL_SCOPED_GRAD_MODE(0);
    dl_tensor *as = dl_to_dtype(t, dtype);
    *out = as ? dl_data_alloc(dl_numel(t), (size_t)dl_dtype_size(dtype)) : NULL;
    dl_status st = *out ? dl_read(as, *out) : dl_failed();
    dl_unref(as);
    if (st != DL_OK) {
        free(*out);
        *out = NULL;
    }
    return st;
}

static dl_status check_pair(const dl_tensor *x, const dl_tensor *y, const char *what) {
    if (!x || !y) return dl_fail_null("a tensor of the data set");
    if (dl_dtype_is_complex(dl_dtype_of(x)) || dl_dtype_is_complex(dl_dtype_of(y)))
        return dl_fail_hint(DL_ERR_DTYPE, "view_as_real(x) has the parts as a last dimension",
                            "samples and targets are real numbers; those of the %s split are complex", what);
    if (dl_ndim(x) < 1 || dl_ndim(y) < 1 || dl_shape(x)[0] != dl_shape(y)[0] || dl_ndim(x) > DL_MAX_SAMPLE_DIM ||
        dl_ndim(y) > DL_MAX_SAMPLE_DIM) {
        return dl_fail_hint(DL_ERR_SHAPE, "the first dimension counts the samples",
                            "the %s split has x %s and y %s; x [n, ...] and y [n, ...] are wanted", what,
                            dl_shape_text(dl_ndim(x), dl_shape(x)), dl_shape_text(dl_ndim(y), dl_shape(y)));
    }
    return DL_OK;
}

dl_dtype dl_data_kept_dtype(dl_dtype t, int ndim, const char *normalize) {
    if (dl_dtype_is_float(t)) return DL_F32;
    return t == DL_U8 && (ndim > 1 || !strcmp(normalize, "unit")) ? DL_U8 : DL_I64;
}

static dl_dtype kept_dtype(const dl_tensor *x, const char *normalize) {
    return dl_data_kept_dtype(dl_dtype_of(x), dl_ndim(x) - 1, normalize);
}

/* As they are; integers [n] as i64, which class numbers have. */
static dl_dtype target_dtype(const dl_tensor *y) {
    return dl_data_may_be_classes(dl_dtype_of(y), dl_ndim(y) - 1) ? DL_I64 : dl_dtype_of(y);
}

/* The test split must look like the training split. */
static dl_status check_alike(const dl_dataset *d, const dl_tensor *x, const dl_tensor *y, const char *normalize) {
    bool same = dl_sizes_eq(dl_ndim(x) - 1, dl_shape(x) + 1, d->ndim, d->shape) &&
                dl_sizes_eq(dl_ndim(y) - 1, dl_shape(y) + 1, d->target_ndim, d->target_shape);
    if (!same)
        return dl_fail(DL_ERR_SHAPE,
                       "the test split's samples are %s, the training split's %s; or their targets differ",
                       dl_shape_text(dl_ndim(x) - 1, dl_shape(x) + 1), dl_shape_text(d->ndim, d->shape));
    if (kept_dtype(x, normalize) != d->dtype)
        return dl_fail_hint(DL_ERR_DTYPE, "convert one of them with .to(DTYPE)",
                            "the test split's x is %s, the training split's %s", dl_dtype_name(dl_dtype_of(x)),
                            dl_dtype_name(d->dtype));
    if (target_dtype(y) != d->target_dtype)
        return dl_fail_hint(DL_ERR_DTYPE, "convert one of them with .to(DTYPE)",
                            "the test split's y is %s, the training split's %s", dl_dtype_name(dl_dtype_of(y)),
                            dl_dtype_name(d->target_dtype));
    return DL_OK;
}

/* Integers [n] are class numbers where all of them can be; others are targets as they are. */
static bool are_classes(const dl_tensor *y, const int64_t *label) {
    bool all = dl_data_may_be_classes(dl_dtype_of(y), dl_ndim(y) - 1);
    for (long i = 0; all && i < dl_numel(y); i++) all = label[i] >= 0 && label[i] < DL_MAX_CLASSES;
    return all;
}

/* Classes are as many as the largest label of all says. */
static dl_status count_classes(const dl_tensor *const y[2], int64_t *const label[2], long *classes) {
    *classes = 1;
    for (int s = 0; s < 2; s++)
        for (long i = 0; y[s] && i < dl_numel(y[s]); i++) {
            if (label[s][i] < 0 || label[s][i] >= DL_MAX_CLASSES)
                return dl_fail_hint(DL_ERR_VALUE, "number the classes from 0; or cast y to f32 for a regression",
                                    "label %ld of the %s split is %ld; classes are 0 to %d", i, s ? "test" : "train",
                                    (long)label[s][i], DL_MAX_CLASSES - 1);
            if (label[s][i] >= *classes) *classes = (long)label[s][i] + 1;
        }
    return DL_OK;
}

static dl_status fill(dl_dataset *d, dl_tensor *const x[2], dl_tensor *const y[2], const char *normalize) {
    DL_TRY(check_pair(x[0], y[0], "train"));
    d->dtype = kept_dtype(x[0], normalize), d->target_dtype = target_dtype(y[0]);
    dl_data_set_shape(d, dl_ndim(x[0]) - 1, dl_shape(x[0]) + 1);
    dl_data_set_target(d, dl_ndim(y[0]) - 1, dl_shape(y[0]) + 1);
    if (d->numel <= 0 || d->target_numel <= 0)
        return dl_fail(DL_ERR_SHAPE, "samples and targets must hold a number each");
    if (x[1]) {
        DL_TRY(check_pair(x[1], y[1], "test"));
        DL_TRY(check_alike(d, x[1], y[1], normalize));
    }
    for (int s = 0; s < 2 && x[s]; s++) {
        DL_TRY(elements(x[s], d->dtype, &d->split[s].x));
        DL_TRY(elements(y[s], d->target_dtype, &d->split[s].y));
        d->split[s].n = dl_shape(x[s])[0];
    }
    if (!are_classes(y[0], d->split[0].y)) return DL_OK;
    const dl_tensor *const labels[2] = {y[0], y[1]};
    int64_t *const values[2] = {d->split[0].y, d->split[1].y};
    long n;
    DL_TRY(count_classes(labels, values, &n));
    return dl_data_set_classes(d, n, NULL);
}

dl_dataset *dl_dataset_from(dl_tensor *x, dl_tensor *y, dl_tensor *test_x, dl_tensor *test_y, const char *name) {
    if (!x || !y || !test_x != !test_y)
        return dl_fail_null(!x || !y ? "a tensor of the data set" : "one half of the test split"), NULL;
    dl_dataset *d = dl_data_new(name ? name : "tensor");
    dl_tensor *const xs[2] = {x, test_x}, *const ys[2] = {y, test_y};
    if (d && fill(d, xs, ys, "none") == DL_OK) {
        dl_data_set_fingerprint(d, NULL);
        if (dl_data_normalize(d, d->dtype == DL_U8 ? "unit" : "none") == DL_OK) return d;
    }
    dl_dataset_unref(d);
    return NULL;
}

dl_status dl_open_tensor(const dl_data_args *a DL_UNUSED, dl_dataset *d DL_UNUSED) {
    return dl_fail_hint(DL_ERR_TYPE, "call dl_dataset_from(x, y, test_x, test_y, name)",
                        "dataset 'tensor' is made of tensors, which options cannot carry");
}

dl_status dl_open_npy(const dl_data_args *a, dl_dataset *d) {
    if (dl_npy_on_disk(a)) return dl_open_npy_disk(a, d);
    const char *path[2][2] = {{dl_data_str(a, "path"), dl_data_str(a, "labels")},
                              {dl_data_str(a, "test_path"), dl_data_str(a, "test_labels")}};
    dl_tensor *t[2][2] = {{NULL, NULL}, {NULL, NULL}};
    dl_status st = DL_OK;
    if (!*path[1][0] != !*path[1][1])
        return dl_fail(DL_ERR_VALUE,
                       "dataset 'npy': test_path and test_labels go together; only one of them was given");
    for (int s = 0; st == DL_OK && s < 2; s++)
        for (int k = 0; st == DL_OK && k < 2 && *path[s][k]; k++)
            if (!(t[s][k] = dl_npy_read(path[s][k], 0))) st = dl_failed();
    dl_tensor *const x[2] = {t[0][0], t[1][0]}, *const y[2] = {t[0][1], t[1][1]};
    if (st == DL_OK) st = fill(d, x, y, dl_data_str(a, "normalize"));
    if (st == DL_OK && !x[1]) st = dl_data_hold_out(d, dl_data_float(a, "holdout"), (uint64_t)dl_data_int(a, "seed"));
    if (st == DL_OK) st = dl_data_finish(a, d);
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < 2; k++) dl_unref(t[s][k]);
    return st;
}
