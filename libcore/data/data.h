/* Internals of datasets: what the open function of a kind fills in, and helpers for such functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "dlcore.h"

/* Class numbers are below DL_MAX_CLASSES. */
enum { DL_MAX_DATA_OPTIONS = 16, DL_MAX_SAMPLE_DIM = 7, DL_MAX_CLASSES = 100000 };

/* Draws sample `index` of a split into `out`, dl_dataset.numel bytes. For generators that draw on demand. */
typedef void dl_render(const dl_dataset *d, int split, long index, uint8_t *out);

typedef struct dl_samples {
    long n;
    void *x;        /* n samples of `dtype`, owned */
    void *y;        /* n targets of `target_dtype`, `target_numel` each; owned */
    uint8_t *drawn; /* with `render`: 0 to be drawn, 1 being drawn, 2 there */
} dl_samples;

/* Where the samples are that are not in memory. One of `read` and `give` is there. */
typedef struct dl_data_source {
    /* Sample i as the dataset keeps it: x (NULL: not wanted) of dl_data_kept_size bytes, and a target. */
    dl_status (*read)(const dl_dataset *d, int split, long i, void *x, void *y);
    /* New references to sample i, whose shapes may be of its own; DL_OK only with all of the form. Only this kind of
     * source has several inputs or targets. */
    dl_status (*give)(const dl_dataset *d, int split, long i, dl_tensor **x, dl_tensor **y);
    void (*close)(void *ctx); /* releases `ctx`; NULL: nothing to do */
    /* Of a view: the references that it holds; NULL: none. */
    void (*references)(void *ctx, const dl_references *to);
    void *ctx;
    bool alone; /* only the thread that asks for batches may read: a function of a language */
    bool slow;  /* to read all samples takes long */
} dl_data_source;

/* The tensors of samples or of a batch; NULL past those that there are. */
typedef struct dl_batch {
    dl_tensor *x[DL_NET_INPUTS], *y[DL_NET_INPUTS];
    long n; /* samples in the batch of a trainer */
} dl_batch;
enum { DL_BATCH_SLOTS = 2 * DL_NET_INPUTS };
/* Slot i: the inputs, then the targets. */
static inline dl_tensor **dl_batch_slot(dl_batch *b, int i) {
    return i < DL_NET_INPUTS ? &b->x[i] : &b->y[i - DL_NET_INPUTS];
}
void dl_batch_drop(dl_batch *b);
static inline dl_batch dl_batch_ref(const dl_batch *b) {
    dl_batch copy = *b;
    for (int i = 0; i < DL_BATCH_SLOTS; i++) dl_ref(*dl_batch_slot(&copy, i));
    return copy;
}
/* A batch that the block owns. */
#define DL_SCOPED_BATCH __attribute__((cleanup(dl_batch_drop), unused)) dl_batch

/* An input or a target. */
typedef struct dl_field {
    int ndim;
    long shape[DL_MAX_SAMPLE_DIM];
    dl_dtype kept, dtype; /* of samples, and in batches */
    double pad;
    const float *lut; /* of bytes; NULL: to 0..1 */
} dl_field;

/* A split on a device; x NULL: not there. */
typedef struct dl_resident {
    int device;
    dl_tensor *x, *y, *lut; /* as in the split; lut NULL when batches have x as it is */
} dl_resident;

struct dl_dataset {
    int refs, place; /* first, for dl_dataset_references */
    char *name, *options;
    char fingerprint[65];
    dl_batch_form form;
    dl_field *fields; /* [inputs + targets]; NULL: one of each. The members below tell of the first input and target */
    int ndim;
    long shape[DL_MAX_SAMPLE_DIM], numel;
    dl_dtype dtype; /* of a sample here: DL_U8, which batches have as f32 by way of `lut`; DL_F32; DL_I64 */
    bool padded;    /* samples differ in shape; a batch has the largest sizes of its own, filled with pad, pad_target */
    double pad, pad_target;
    long classes; /* 0: targets are not a class numbers */
    char **class_names;
    int target_ndim;
    long target_shape[DL_MAX_SAMPLE_DIM], target_numel;
    dl_dtype target_dtype; /* DL_I64 of classes */
    dl_samples split[2];
    dl_render *render; /* NULL: all samples are in memory, or elsewhere: */
    dl_data_source source;
    uint64_t seed; /* of a generator */
    /* u8: what byte b of channel c becomes is lut[c * 256 + b]; channels are shape[0] of images, else 1. Owned. */
    float *lut;
    long channels;
    dl_resident resident[2]; /* of each split, where it was put last */
    char **skipped;          /* files that could not be read and are left out; owned */
    long nskipped;
};

/* The options of one dl_dataset_open, defaults filled in. Names are those of the row; another fails an assertion. */
typedef struct dl_data_args {
    const dl_data_kind *kind;
    const char *value[DL_MAX_DATA_OPTIONS];
    const dl_tokenizer *tokenizer; /* at hand; NULL: none */
} dl_data_args;
const char *dl_data_str(const dl_data_args *a, const char *name);
long dl_data_int(const dl_data_args *a, const char *name);
double dl_data_float(const dl_data_args *a, const char *name);

/* Fills a zeroed dataset; what it has set is released by the caller, also on failure. Options
 * have been checked to be of their type. */
typedef dl_status dl_data_open(const dl_data_args *a, dl_dataset *d);

/* ---- for open functions */

/* An empty dataset with one reference. NULL with DL_ERR_MEMORY. */
dl_dataset *dl_data_new(const char *name);
/* "n=100 seed=1", without the option `but` (NULL: all); the caller frees it. NULL with DL_ERR_MEMORY. */
char *dl_data_options_text(const dl_data_args *a, const char *but);
/* Zeroed memory; NULL with DL_ERR_MEMORY. Sizes are multiplied with a check. */
void *dl_data_alloc(long n, size_t size);
/* Allocates x and y of a split for n samples; shape and dtype of the dataset must be set. */
dl_status dl_data_reserve(dl_dataset *d, int split, long n);
void dl_data_set_shape(dl_dataset *d, int ndim, const long *shape);
void dl_data_set_target(dl_dataset *d, int ndim, const long *shape);
/* Fields, dtypes and padding as those of another dataset. */
dl_status dl_data_take_fields(dl_dataset *d, const dl_dataset *of);
/* Field i, inputs first. */
dl_field dl_data_field(const dl_dataset *d, int i);
/* Copies n names; NULL: "0", "1", ... Sets `classes` and the targets' dtype. */
dl_status dl_data_set_classes(dl_dataset *d, long n, const char *const *names);
void dl_data_drop_classes(dl_dataset *d);
/* Moves the fraction "holdout" of the training samples, chosen by "seed", to an empty test split; order is kept. */
dl_status dl_data_hold_out(dl_dataset *d, double fraction, uint64_t seed);
/* "unit", "standard" or "none". */
dl_status dl_data_normalize(dl_dataset *d, const char *how);
/* The last step of what reads files: the fingerprint, and the normalisation of the option. */
dl_status dl_data_finish(const dl_data_args *a, dl_dataset *d);
/* The same as "standard", for bytes of one channel whose mean and deviation, in units of 255, are known beforehand. */
dl_status dl_data_standardize_bytes(dl_dataset *d, double mean, double deviation);
/* SHA-256 of shape, dtype and contents of both splits; of `text` alone when it is not NULL. */
void dl_data_set_fingerprint(dl_dataset *d, const char *text);
/* SHA-256 of some pieces of memory. */
typedef struct dl_piece {
    const void *at;
    size_t bytes;
} dl_piece;
void dl_data_set_fingerprint_of(dl_dataset *d, const dl_piece *pieces, int n);

/* ---- tensors (data/tensors.c) */

/* How samples [n, ...] or [...] of these dimensions are kept: floating numbers as f32, pictures of bytes as they are,
 * other integers as i64. Vectors of bytes are pictures where they are to be scaled. `ndim` counts without n. */
dl_dtype dl_data_kept_dtype(dl_dtype t, int ndim, const char *normalize);
/* Integers of one number each may be class numbers. */
static inline bool dl_data_may_be_classes(dl_dtype target, int ndim) {
    return !dl_dtype_is_float(target) && target != DL_BOOL && ndim == 0;
}
/* classes= was given for targets that are none. */
dl_status dl_data_not_classes(const dl_dataset *d, long classes);

/* ---- files (data/file.c) */

/* A whole file, uncompressed when it is gzip. *bytes is owned by the caller, who frees it. `expected` is the size that
 * its header promises: memory is taken for it at once, and no more than one byte beyond it is read. 0: it is not known;
 * then what uncompresses to hundreds of times its size is refused. Errors: DL_ERR_IO, DL_ERR_FORMAT, DL_ERR_MEMORY. */
dl_status dl_file_read(const char *path, size_t expected, uint8_t **bytes, size_t *n);
/* The first *n bytes of the same, for a header; *n becomes their number where there are fewer. */
dl_status dl_file_head(const char *path, uint8_t *bytes, size_t *n);
/* dir/name, or dir/name.gz, whichever there is, into path[size]. DL_ERR_IO naming both. */
dl_status dl_file_find(const char *dir, const char *const *names, char *path, size_t size);

/* ---- for devices that make batches themselves (data/resident.c) */

/* Puts a split on a device, where it takes at most a quarter of the memory there. out->x NULL: it does not fit; else
 * the caller drops what it got. */
dl_status dl_data_resident(dl_dataset *d, int split, int device, dl_resident *out);
void dl_resident_drop(dl_resident *r);
/* What a loader's batches are made of. */
typedef struct dl_loader_view {
    dl_dataset *data;
    int split;
    long n, batch, batches; /* samples of an epoch; samples in a batch; batches in an epoch */
    const struct dl_sampling *sampling;
    uint64_t seed;
    const struct dl_transforms *transforms;
} dl_loader_view;
void dl_loader_look(const dl_loader *l, dl_loader_view *v);

/* ---- for loaders */

/* Bytes of a sample as it is kept, of one in a batch, and of a target. */
size_t dl_data_kept_size(const dl_dataset *d);
size_t dl_data_sample_size(const dl_dataset *d);
size_t dl_data_target_size(const dl_dataset *d);
/* Whether samples are read into memory of the caller: there is no source that gives tensors. */
static inline bool dl_data_reads(const dl_dataset *d) { return !d->source.give; }
/* Sample i of a split as it is kept, x (NULL: not wanted) and y, and as batches have it. 0 <= i < n; dl_data_reads. */
dl_status dl_data_keep(dl_dataset *d, int split, long i, void *x, void *y);
dl_status dl_data_fetch(dl_dataset *d, int split, long i, void *x, void *y);
/* Calls a function that makes batches and checks what it gave. `first`: *form is to be filled in, else to be met. */
dl_status dl_collate_run(const dl_collate *c, dl_dataset *d, int split, const long *index, long n, bool first,
                         dl_batch_form *form, dl_batch *out);
/* Fresh x and y of the samples index[n] of a split, on the host; padded where the dataset is. 0 <= index < n. */
dl_status dl_data_collate(dl_dataset *d, int split, const long *index, long n, dl_tensor **x, dl_tensor **y);
/* Target i of a split, as one number; d->target_numel is 1. */
dl_status dl_data_label(dl_dataset *d, int split, long i, int64_t *label);
/* Fresh x and y for n samples, on a device. */
dl_status dl_data_batch(const dl_dataset *d, long n, int device, dl_tensor **x, dl_tensor **y);
