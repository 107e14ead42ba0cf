/* NumPy files larger than memory: only headers and what says whether targets are classes is read beforehand. Files are
 * read at places and not mapped, so that pages count for nobody, address space may be limited, and a file that becomes
 * shorter is an error and not a signal. */
#include "data/disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/interrupt.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "io/input.h"
#include "io/numpy/npy.h"

/* An array [n, ...] of samples or targets. */
typedef struct array {
    dl_input in; /* its name is `path`; memory NULL and fd 0: not open */
    char *path;
    dl_npy_header h;
    dl_dtype kept;
    long numel;  /* of one */
    size_t each; /* bytes of one in the file */
    bool direct; /* elements are kept as they are in the file */
    bool open;
} array;

typedef struct disk {
    array x[2], y[2];
} disk;

static void close_array(array *a) {
    if (a->open) dl_input_close(&a->in);
    free(a->path);
}

static void close_disk(void *ctx) {
    disk *k = ctx;
    for (int s = 0; s < 2; s++) close_array(&k->x[s]), close_array(&k->y[s]);
    free(k);
}

static dl_status read_at(void *ctx, uint64_t at, void *to, size_t n) { return dl_input_read(ctx, at, to, n); }

static dl_status open_array(array *a, const char *path) {
    if (!(a->path = strdup(path))) return dl_fail(DL_ERR_MEMORY, "no memory for the name of '%s'", path);
    DL_TRY(dl_input_open(&a->in, a->path));
    a->open = true;
    DL_TRY(dl_npy_read_header(a->path, a->in.size, read_at, &a->in, &a->h));
    if (a->h.ndim < 1 || a->h.ndim > DL_MAX_SAMPLE_DIM)
        return dl_fail_hint(DL_ERR_SHAPE, "the first dimension counts the samples",
                            "'%s' has shape %s; [n, ...] of at most %d dimensions is wanted", path,
                            dl_shape_text(a->h.ndim, a->h.shape), DL_MAX_SAMPLE_DIM);
    if (a->h.fortran && a->h.ndim > 1)
        return dl_fail_hint(DL_ERR_FORMAT, "write it with np.ascontiguousarray, or give mmap=false",
                            "'%s' is stored column by column, so that no sample is in one place", path);
    a->numel = 1;
    for (int i = 1; i < a->h.ndim; i++) a->numel *= a->h.shape[i];
    a->each = (size_t)a->numel * (size_t)a->h.element.size;
    return DL_OK;
}

/* Samples from..from+n in the dtype that is kept. */
static dl_status read_some(const array *a, long from, long n, void *to) {
    uint64_t at = a->h.at + (uint64_t)from * a->each;
    if (a->direct) return dl_input_read(&a->in, at, to, (size_t)n * a->each);
    dl_input_cursor cursor = {&a->in, at};
    long count = n * a->numel;
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *raw = dl_element_tensor(a->h.element, 1, &count, 0, dl_input_next, &cursor), *as = NULL;
    if (!raw || !(as = dl_to_dtype(raw, a->kept))) return dl_failed();
    return dl_read(as, to);
}

static dl_status read_disk(const dl_dataset *d, int split, long i, void *x, void *y) {
    const disk *k = d->source.ctx;
    if (x) DL_TRY(read_some(&k->x[split], i, 1, x));
    return read_some(&k->y[split], i, 1, y);
}

/* ---------------------------------------------------------------- opening */

static void choose_dtype(array *a, dl_dtype kept) {
    dl_element e = a->h.element;
    a->kept = kept;
    a->direct = dl_element_dtype(e) == (int)kept && !e.big && e.size == dl_dtype_size(kept) && e.kind != DL_E_BOOL &&
                !(e.kind == DL_E_UINT && e.size == 8);
}

static dl_status check_real(const array *a, const char *path) {
    if (a->h.element.kind != DL_E_COMPLEX) return DL_OK;
    return dl_fail(DL_ERR_DTYPE, "%s: samples and targets are real numbers; these are complex", path);
}

static dl_status open_split(disk *k, int s, const char *x, const char *y) {
    DL_TRY(open_array(&k->x[s], x));
    DL_TRY(open_array(&k->y[s], y));
    DL_TRY(check_real(&k->x[s], x));
    DL_TRY(check_real(&k->y[s], y));
    if (k->x[s].h.shape[0] == k->y[s].h.shape[0]) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "'%s' has %ld samples, and '%s' has %ld targets", x, k->x[s].h.shape[0], y,
                   k->y[s].h.shape[0]);
}

static dl_status check_alike(const array *train, const array *test) {
    bool same = train->h.element.kind == test->h.element.kind &&
                dl_sizes_eq(train->h.ndim - 1, train->h.shape + 1, test->h.ndim - 1, test->h.shape + 1);
    return same ? DL_OK
                : dl_fail(DL_ERR_SHAPE, "'%s' has shape %s, and '%s' %s, or other elements", test->path,
                          dl_shape_text(test->h.ndim, test->h.shape), train->path,
                          dl_shape_text(train->h.ndim, train->h.shape));
}

enum { CHUNK = 1 << 16 }; /* labels read at once */

/* Classes are as many as the largest label says, where all of the training split can be class numbers. */
static dl_status find_classes(dl_dataset *d, const disk *k) {
    int64_t most = -1, *label = dl_data_alloc(CHUNK, sizeof *label);
    dl_status st = label ? DL_OK : dl_failed();
    bool all = true;
    for (int s = 0; s < 2 && all; s++)
        for (long from = 0, n = d->split[s].n, some; st == DL_OK && all && from < n; from += some) {
            some = n - from < CHUNK ? n - from : CHUNK;
            if ((st = dl_interrupt_check()) == DL_OK) st = read_some(&k->y[s], from, some, label);
            for (long i = 0; st == DL_OK && all && i < some; i++) {
                all = label[i] >= 0 && label[i] < DL_MAX_CLASSES;
                if (label[i] > most) most = label[i];
            }
        }
    free(label);
    DL_TRY(st);
    return all && most >= 0 ? dl_data_set_classes(d, most + 1, NULL) : DL_OK;
}

/* A file of any size is known by its shape, its size, and pieces of it at equal distances. */
enum { PIECES = 64, PIECE = 4096 };

static dl_status read_pieces(const array *a, char *to) {
    size_t n = a->in.size < PIECE ? (size_t)a->in.size : PIECE;
    for (uint64_t i = 0; i < PIECES; i++)
        DL_TRY(dl_input_read(&a->in, (a->in.size - n) / (PIECES - 1) * i, to + i * PIECE, n));
    return DL_OK;
}

static dl_status set_mark(dl_dataset *d, disk *k) {
    dl_piece pieces[12];
    int n = 0;
    array *all[] = {&k->x[0], &k->y[0], &k->x[1], &k->y[1]};
    char *room = dl_data_alloc(4 * PIECES, PIECE);
    dl_status st = room ? DL_OK : dl_failed();
    for (int i = 0; i < 4 && st == DL_OK; i++) {
        if (!all[i]->open) continue;
        char *to = room + (size_t)i * PIECES * PIECE;
        st = read_pieces(all[i], to);
        pieces[n++] = (dl_piece){all[i]->h.shape, (size_t)all[i]->h.ndim * sizeof(long)};
        pieces[n++] = (dl_piece){&all[i]->in.size, sizeof all[i]->in.size};
        pieces[n++] = (dl_piece){to, (size_t)PIECES * PIECE};
    }
    if (st == DL_OK) dl_data_set_fingerprint_of(d, pieces, n);
    free(room);
    return st;
}

static dl_status fill(const dl_data_args *a, dl_dataset *d, disk *k) {
    const char *test = dl_data_str(a, "test_path"), *how = dl_data_str(a, "normalize");
    DL_TRY(open_split(k, 0, dl_data_str(a, "path"), dl_data_str(a, "labels")));
    if (*test) {
        DL_TRY(open_split(k, 1, test, dl_data_str(a, "test_labels")));
        DL_TRY(check_alike(&k->x[0], &k->x[1]));
        DL_TRY(check_alike(&k->y[0], &k->y[1]));
    }
    const dl_npy_header *x = &k->x[0].h, *y = &k->y[0].h;
    int types[2] = {dl_element_dtype(x->element), dl_element_dtype(y->element)};
    if (types[0] < 0 || types[1] < 0) return dl_fail(DL_ERR_DTYPE, "elements of '%s' have no dtype here", k->x[0].path);
    dl_data_set_shape(d, x->ndim - 1, x->shape + 1);
    dl_data_set_target(d, y->ndim - 1, y->shape + 1);
    if (d->numel <= 0 || d->target_numel <= 0)
        return dl_fail(DL_ERR_SHAPE, "samples and targets must hold a number each");
    bool labels = dl_data_may_be_classes((dl_dtype)types[1], d->target_ndim);
    d->dtype = dl_data_kept_dtype((dl_dtype)types[0], d->ndim, how);
    d->target_dtype = labels ? DL_I64 : (dl_dtype)types[1];
    for (int s = 0; s < 2; s++) {
        if (!k->x[s].open) continue;
        choose_dtype(&k->x[s], d->dtype);
        choose_dtype(&k->y[s], d->target_dtype);
        d->split[s].n = k->x[s].h.shape[0];
    }
    return labels ? find_classes(d, k) : DL_OK;
}

static bool is_large(const char *path) {
    struct stat info;
    return *path && !stat(path, &info) && info.st_size > 1L << 30;
}

bool dl_npy_on_disk(const dl_data_args *a) {
    const char *how = dl_data_str(a, "mmap");
    if (strcmp(how, "auto")) return !strcmp(how, "true");
    return strcmp(dl_data_str(a, "normalize"), "standard") != 0 &&
           (is_large(dl_data_str(a, "path")) || is_large(dl_data_str(a, "test_path")));
}

dl_status dl_open_npy_disk(const dl_data_args *a, dl_dataset *d) {
    if (!*dl_data_str(a, "test_path") != !*dl_data_str(a, "test_labels"))
        return dl_fail(DL_ERR_VALUE,
                       "dataset 'npy': test_path and test_labels go together; only one of them was given");
    disk *k = dl_data_alloc(1, sizeof *k);
    if (!k) return dl_failed();
    d->source = (dl_data_source){.read = read_disk, .close = close_disk, .ctx = k, .slow = true};
    DL_TRY(fill(a, d, k));
    DL_TRY(set_mark(d, k));
    DL_TRY(dl_data_normalize(d, dl_data_str(a, "normalize")));
    if (*dl_data_str(a, "test_path")) return DL_OK;
    return dl_data_hold_out(d, dl_data_float(a, "holdout"), (uint64_t)dl_data_int(a, "seed"));
}
