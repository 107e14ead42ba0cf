/* The bytes of a file from its beginning, uncompressed where they are gzip. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

typedef struct dl_gz dl_gz;
/* NULL on failure: DL_ERR_IO, DL_ERR_MEMORY. `path` is borrowed. */
dl_gz *dl_gz_open(const char *path);
/* The next bytes, *got of them: n, or fewer at the end. The end is that of the file's last gzip member, after which
 * zeros may stand and nothing else. Errors: DL_ERR_FORMAT, DL_ERR_IO, DL_ERR_MEMORY. */
dl_status dl_gz_read(dl_gz *f, uint8_t *to, size_t n, size_t *got);
/* Bytes of the file that were used so far. */
uint64_t dl_gz_used(const dl_gz *f);
void dl_gz_close(dl_gz *f);
