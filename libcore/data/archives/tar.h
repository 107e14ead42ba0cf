/* Archives of tar (ustar, and GNU's and POSIX's additions to it) in memory. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* The bytes of the file whose name, without folders, is `base`: *at within p[n], *size of them; *at NULL: there is
 * none. `name` is the archive's, for messages. DL_ERR_FORMAT with the byte at fault. */
dl_status dl_tar_find(const char *name, const uint8_t *p, size_t n, const char *base, const uint8_t **at, size_t *size);
