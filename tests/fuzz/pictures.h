/* What the targets of pictures check: every pixel of one that is read can be read, in every mode. */
#ifndef TESTS_FUZZ_PICTURES_H
#define TESTS_FUZZ_PICTURES_H

#include <stdint.h>
#include <stdlib.h>

#include "io/pictures/picture.h"

/* The first byte chooses the mode of reading; few pixels, so that a run is short. The bytes go to `reader`, then to the
 * one that they ask for. */
static inline int fuzz_picture(dl_picture_reader *reader, const uint8_t *data, size_t size) {
    if (!size) return 0;
    dl_input in = dl_input_memory("fuzz", data + 1, size - 1);
    dl_picture_want want = {
        .mode = (dl_picture_mode)(*data & 3), .upright = *data & 4, .bytes = *data & 8, .max_pixels = 1 << 16};
    dl_picture p = {0};
    int turn = 1;
    unsigned sum = 0;
    (void)reader(&in, &want, false, &p, &turn);
    free(p.pixel);
    if (dl_picture_decode(&in, &want, &p) == DL_OK)
        for (size_t i = 0; i < dl_picture_row(&p) * (size_t)p.height; i++) sum += ((uint8_t *)p.pixel)[i];
    free(p.pixel);
    return sum == UINT32_MAX;
}

#endif
