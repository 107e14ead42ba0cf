/* File formats: which one a name's ending asks for, and which one a file's first bytes show. */
#pragma once

#include <stddef.h>

#include "core/error.h"
#include "dlcore.h"

typedef enum dl_format {
#define FORMAT(id, ...) DL_FORMAT_##id,
#include "io/formats.def"
#undef FORMAT
    DL_NFORMAT /* none of them */
} dl_format;

enum { DL_FORMAT_FIRST = 16 }; /* bytes that tell a format */

/* The format that is written under this name. DL_ERR_UNSUPPORTED: it cannot hold that, or there is no such ending. */
dl_status dl_format_to_write(const char *path, dl_content content, dl_format *out);
/* The format a name's ending stands for; DL_NFORMAT: none. */
dl_format dl_format_of_name(const char *path);
/* The format of a file by its first n bytes. Archives of PyTorch and of NumPy begin alike: both are DL_FORMAT_NPZ. */
dl_format dl_format_of_bytes(const void *first, size_t n);
/* DL_ERR_FORMAT when the bytes are those of another format than `wanted`; DL_OK else, also for unknown ones. */
dl_status dl_format_not_other(const char *path, dl_format wanted, const void *first, size_t n);
/* Which of the formats that tensors are read from a file has. Its name and its bytes must agree. */
dl_status dl_format_to_read(const char *path, const void *first, size_t n, dl_format *out);
const char *dl_format_name(dl_format f);
