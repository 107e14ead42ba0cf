/* Pictures of files: PNG by libspng, JPEG by libjpeg-turbo. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "dlcore.h"
#include "io/format.h"
#include "io/input.h"

/* Pixels of a picture, row by row, the channels of a pixel side by side: gray, gray and alpha, RGB, RGBA, or CMYK. */
typedef struct dl_picture {
    long channels, height, width;
    int depth;   /* bits of a number: 8, or 16 in the order of the machine */
    bool cmyk;   /* four channels that are inks */
    void *pixel; /* owned */
} dl_picture;

/* What a reader needs of its caller. */
typedef struct dl_picture_want {
    dl_picture_mode mode;
    bool upright;    /* turn as EXIF says */
    bool bytes;      /* numbers of 16 bits become 8, also where the mode is "unchanged" */
    long max_pixels; /* 0: DL_MAX_PIXELS */
} dl_picture_want;

/* A picture of a file of either format. `p` is released by the caller with free(p->pixel), also on failure. Errors:
 * DL_ERR_FORMAT with the place in the file, DL_ERR_VALUE (too many pixels), DL_ERR_MEMORY, DL_ERR_IO. */
dl_status dl_picture_decode(const dl_input *in, const dl_picture_want *want, dl_picture *p);
/* Height and width as dl_picture_decode gives them, from the beginning of the file. */
dl_status dl_picture_size(const dl_input *in, const dl_picture_want *want, long *height, long *width);
/* A file of one tensor [channels, height, width]. */
dl_tensor_file *dl_picture_from(const dl_input *in, int device);
dl_status dl_picture_save(const char *path, dl_format f, dl_tensor *t, int quality);

/* ---- shared by the readers */

/* Refuses more pixels than are wanted. p's height and width are set. */
dl_status dl_picture_check(const dl_input *in, const dl_picture_want *want, const dl_picture *p);
/* Memory for the pixels. p's sizes and depth are set. */
dl_status dl_picture_room(const dl_input *in, dl_picture *p);
static inline size_t dl_picture_row(const dl_picture *p) {
    return (size_t)p->width * (size_t)p->channels * (size_t)(p->depth / 8);
}
/* The orientation 1 to 8 in the EXIF data at p[n], which begin with "II" or "MM"; 1 where there is none. */
int dl_exif_orientation(const uint8_t *p, size_t n);
/* A reader leaves the orientation in *turn. `only_size`: no pixels are read. */
typedef dl_status dl_picture_reader(const dl_input *in, const dl_picture_want *want, bool only_size, dl_picture *p,
                                    int *turn);
dl_picture_reader dl_png_decode, dl_jpeg_decode;
/* Writes 8-bit pixels. */
dl_status dl_png_encode(const char *path, const dl_picture *p);
dl_status dl_jpeg_encode(const char *path, const dl_picture *p, int quality);
