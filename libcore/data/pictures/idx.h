/* IDX, the format of the MNIST files, from memory: for the readers of data sets and the fuzz target. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

typedef struct dl_idx {
    uint8_t type; /* 0x08 u8, 0x09 i8, 0x0B i16, 0x0C i32, 0x0D f32, 0x0E f64 */
    int ndim;
    long shape[8];
    long numel;
    const uint8_t *data; /* big-endian elements, inside the bytes parsed */
} dl_idx;

enum { DL_IDX_HEAD = 4 + 4 * 8 }; /* bytes of the longest header */
/* Checks a header, from the first bytes of a file; *size is that of the whole file. `data` is NULL. */
dl_status dl_idx_header(const char *name, const uint8_t *bytes, size_t n, dl_idx *out, size_t *size);
/* Checks header and length; `name` is used in messages. Errors: DL_ERR_FORMAT. */
dl_status dl_idx_parse(const char *name, const uint8_t *bytes, size_t n, dl_idx *out);
/* Element i. */
double dl_idx_get(const dl_idx *x, long i);
