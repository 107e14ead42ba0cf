/* The pictures of the generator `digits`, one by one. */
#pragma once

#include <stdint.h>

/* The edge of a picture in pixels. The version is raised whenever the pictures change: it enters fingerprints. */
enum { DL_DIGITS_SIDE = 28, DL_DIGITS_VERSION = 1 };
/* Of their grey values in units of 255, measured on 10,000 of them; part of the version. */
#define DL_DIGITS_MEAN 0.194
#define DL_DIGITS_DEVIATION 0.331

/* The digit that picture `index` of a split shows. */
int dl_digits_label(uint64_t seed, int split, long index);
/* The picture: 28 * 28 grey values, 0 paper, 255 ink, row by row. */
void dl_digits_draw(uint64_t seed, int split, long index, uint8_t *out);
