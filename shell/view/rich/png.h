/* Pictures as PNG files in memory. */
#pragma once

#include <stdint.h>

#include "lang/value.h"

/* Appends a PNG of height * width pixels of 8 bits, rows from the top: channels 1 grey, 3 RGB; 2 and 4
 * the same with opacity. DL_ERR_MEMORY. */
dl_status dlsh_png(dlsh_buf *out, const uint8_t *pixels, long width, long height, int channels);
