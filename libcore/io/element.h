/* The element types of files. One that tensors do not have is read as the smallest dtype that holds all its values. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "dlcore.h"

typedef enum dl_element_kind {
    DL_E_BOOL,
    DL_E_UINT,
    DL_E_INT,
    DL_E_FLOAT,
    DL_E_BFLOAT,
    DL_E_E4M3,    /* 8-bit floats of the OCP specification, 1.0: no infinities, NaN is 0x7f and 0xff */
    DL_E_E5M2,    /* the upper half of an f16 */
    DL_E_COMPLEX, /* two floats of half the size each, real part first */
} dl_element_kind;

typedef struct dl_element {
    dl_element_kind kind;
    int size; /* bytes */
    bool big; /* the first byte is the highest */
} dl_element;

/* The dtype that such elements are read as; -1: there is none. */
int dl_element_dtype(dl_element e);
/* Gives the next n bytes of a file. */
typedef dl_status dl_element_reader(void *ctx, void *to, size_t n);
/* A fresh tensor of the elements that `next` gives, row-major. DL_ERR_DTYPE: a 64-bit unsigned number is above
 * 2**63 - 1. */
dl_tensor *dl_element_tensor(dl_element e, int ndim, const long *shape, int device, dl_element_reader *next, void *ctx);

/* A copy of the elements of t, row-major in host memory, to be freed; *bytes of them. NULL on failure. */
void *dl_element_copy(dl_tensor *t, size_t *bytes);
