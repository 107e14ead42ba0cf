/* .npy from memory and inside other containers: what .npz, the readers and the fuzz targets share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "io/element.h"
#include "dlcore.h"

enum { DL_NPY_HEAD = 512 }; /* room for the header of a file that is written */

typedef struct dl_npy_header {
    dl_element element;
    bool fortran; /* elements stand column-major */
    int ndim;
    long shape[8];
    uint64_t at;  /* where the elements begin */
    size_t bytes; /* that they take */
} dl_npy_header;

/* Gives the bytes [at, at + n) of a file; places only grow. */
typedef dl_status dl_npy_reader(void *ctx, uint64_t at, void *to, size_t n);
/* Reads and checks the header of a file of `size` bytes, before any element. `name` is used in messages. */
dl_status dl_npy_read_header(const char *name, uint64_t size, dl_npy_reader *read, void *ctx, dl_npy_header *h);
/* The shape whose row-major elements are those of the file. */
void dl_npy_stored_shape(const dl_npy_header *h, long *shape);
/* The array in the shape of the header; takes `raw`, whose shape is the one above. */
dl_tensor *dl_npy_transpose(const dl_npy_header *h, dl_tensor *raw);
/* The bytes in front of the elements of t, *n of them, into out[DL_NPY_HEAD]. DL_ERR_DTYPE. */
dl_status dl_npy_make_header(const dl_tensor *t, char *out, size_t *n);

/* Parses a whole .npy file in memory; `name` is used in messages. NULL on failure. */
dl_tensor *dl_npy_parse(const char *name, const void *bytes, size_t n, int device);
