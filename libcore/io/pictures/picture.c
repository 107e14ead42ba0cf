/* Pictures: the reader of a file, the mode that is wanted, EXIF's orientation, and tensors of pictures. */
#include "io/pictures/picture.h"

#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "core/tensor.h"
#include "io/safetensors.h"

/* ---------------------------------------------------------------- room */

dl_status dl_picture_check(const dl_input *in, const dl_picture_want *want, const dl_picture *p) {
    long most = want->max_pixels ? want->max_pixels : DL_MAX_PIXELS;
    if (p->width && p->height > most / p->width)
        return dl_fail_hint(DL_ERR_VALUE, "max_pixels=N allows more",
                            "%s: a picture of %ld x %ld pixels; at most %ld pixels are read", in->name, p->width,
                            p->height, most);
    return DL_OK;
}

dl_status dl_picture_room(const dl_input *in, dl_picture *p) {
    if ((p->pixel = dl_memory_alloc(p->width * p->height, p->channels * (p->depth / 8)))) return DL_OK;
    dl_error_context(NULL, in->name);
    return dl_failed();
}

/* ---------------------------------------------------------------- modes */

static uint8_t luminance(const uint8_t *p) {
    return (uint8_t)((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16); /* Pillow's "L" */
}

/* Channel c of the mode, from a pixel of gray, gray and alpha, RGB or RGBA. */
static uint8_t converted(const uint8_t *from, long channels, long to, long c) {
    if (c == 3) return channels % 2 ? 255 : from[channels - 1];
    if (channels < 3) return from[0];
    return to == 1 ? luminance(from) : from[c];
}

static dl_status convert(const dl_input *in, dl_picture_mode mode, dl_picture *p) {
    static const long channels[] = {
        [DL_PICTURE_UNCHANGED] = 0, [DL_PICTURE_GRAY] = 1, [DL_PICTURE_RGB] = 3, [DL_PICTURE_RGBA] = 4};
    long to = channels[mode], n = p->width * p->height;
    if (!to || to == p->channels) return DL_OK;
    uint8_t *from = p->pixel, *out = dl_memory_alloc(n, to);
    if (!out) return dl_error_context(NULL, in->name), dl_failed();
    for (long i = 0; i < n; i++)
        for (long c = 0; c < to; c++) out[i * to + c] = converted(from + i * p->channels, p->channels, to, c);
    free(from);
    p->pixel = out, p->channels = to;
    return DL_OK;
}

/* ---------------------------------------------------------------- EXIF */

static unsigned number(const uint8_t *p, int n, bool little) {
    unsigned v = 0;
    for (int i = 0; i < n; i++) v = v << 8 | p[little ? n - 1 - i : i];
    return v;
}

int dl_exif_orientation(const uint8_t *p, size_t n) {
    enum { TAG = 0x0112, SHORT = 3 };
    if (n < 8 || (memcmp(p, "II", 2) && memcmp(p, "MM", 2))) return 1;
    bool little = *p == 'I';
    size_t at = number(p + 4, 4, little);
    if (at > n || n - at < 2) return 1;
    for (unsigned left = number(p + at, 2, little); left && n - at >= 2 + 12; left--, at += 12) {
        const uint8_t *entry = p + at + 2;
        unsigned turn = number(entry + 8, 2, little);
        if (number(entry, 2, little) == TAG && number(entry + 2, 2, little) == SHORT)
            return turn >= 1 && turn <= 8 ? (int)turn : 1;
    }
    return 1;
}

/* Orientations: 2 mirrored, 3 turned by 180 degrees, 4 upside down; 5 to 8 the same with rows and columns exchanged. */
static dl_status set_upright(const dl_input *in, int turn, dl_picture *p) {
    if (turn == 1) return DL_OK;
    bool exchange = turn >= 5, flip_x = turn == 2 || turn == 3 || turn == 7 || turn == 6,
         flip_y = turn == 3 || turn == 4 || turn == 7 || turn == 8;
    long h = exchange ? p->width : p->height, w = exchange ? p->height : p->width;
    size_t each = (size_t)p->channels * (size_t)(p->depth / 8);
    char *out = dl_memory_alloc(h * w, (long)each), *from = p->pixel;
    if (!out) return dl_error_context(NULL, in->name), dl_failed();
    for (long i = 0; i < h; i++)
        for (long k = 0; k < w; k++) {
            long y = flip_y ? h - 1 - i : i, x = flip_x ? w - 1 - k : k;
            long at = exchange ? x * p->width + y : y * p->width + x;
            memcpy(out + (size_t)(i * w + k) * each, from + (size_t)at * each, each);
        }
    free(from);
    p->pixel = out, p->height = h, p->width = w;
    return DL_OK;
}

/* ---------------------------------------------------------------- reading */

static dl_status reader_of(const dl_input *in, dl_picture_reader **read) {
    uint8_t first[DL_FORMAT_FIRST];
    size_t n = in->size < sizeof first ? (size_t)in->size : sizeof first;
    DL_TRY(dl_input_read(in, 0, first, n));
    dl_format f = dl_format_of_bytes(first, n);
    *read = f == DL_FORMAT_PNG ? dl_png_decode : f == DL_FORMAT_JPEG ? dl_jpeg_decode : NULL;
    if (*read) return DL_OK;
    return dl_fail_hint(DL_ERR_FORMAT, "PNG and JPEG files are read",
                        "'%s' is not a picture: by its first bytes it is %s", in->name,
                        f < DL_NFORMAT ? dl_format_name(f) : "of no known format");
}

dl_status dl_picture_decode(const dl_input *in, const dl_picture_want *want, dl_picture *p) {
    dl_picture_reader *read;
    int turn = 1;
    *p = (dl_picture){0};
    DL_TRY(reader_of(in, &read));
    DL_TRY(read(in, want, false, p, &turn));
    if (!p->cmyk) DL_TRY(convert(in, want->mode, p));
    return want->upright ? set_upright(in, turn, p) : DL_OK;
}

dl_status dl_picture_size(const dl_input *in, const dl_picture_want *want, long *height, long *width) {
    dl_picture_reader *read;
    dl_picture p = {0};
    int turn = 1;
    DL_TRY(reader_of(in, &read));
    DL_TRY(read(in, want, true, &p, &turn));
    bool exchange = want->upright && turn >= 5;
    *height = exchange ? p.width : p.height, *width = exchange ? p.height : p.width;
    return DL_OK;
}

/* ---------------------------------------------------------------- tensors */

static dl_tensor *tensor_of(const dl_picture *p, int device) {
    long shape[3] = {p->channels, p->height, p->width}, plane = p->height * p->width;
    DL_OWNED dl_tensor *t = dl_tensor_empty(3, shape, p->depth == 8 ? DL_U8 : DL_I32, 0);
    if (!t) return NULL;
    for (long c = 0; c < p->channels; c++)
        for (long i = 0; i < plane; i++) {
            if (p->depth == 8)
                ((uint8_t *)dl_ptr(t))[c * plane + i] = ((const uint8_t *)p->pixel)[i * p->channels + c];
            else
                ((int32_t *)dl_ptr(t))[c * plane + i] = ((const uint16_t *)p->pixel)[i * p->channels + c];
        }
    return dl_to_device(t, device);
}

static dl_tensor *read_tensor(const dl_input *in, const dl_picture_want *want, int device) {
    dl_picture p;
    dl_tensor *t = dl_picture_decode(in, want, &p) == DL_OK ? tensor_of(&p, device) : NULL;
    free(p.pixel);
    return t;
}

dl_tensor *dl_picture_read(const char *path, dl_picture_mode mode, int upright, long max_pixels, int device) {
    dl_picture_want want = {.mode = mode, .upright = upright, .max_pixels = max_pixels};
    dl_input in;
    if ((unsigned)mode > DL_PICTURE_RGBA || max_pixels < 0)
        return dl_fail(DL_ERR_VALUE, "mode=%d max_pixels=%ld: there is no such way to read a picture", (int)mode,
                       max_pixels),
               NULL;
    if (dl_input_open(&in, path) != DL_OK) return NULL;
    dl_tensor *t = read_tensor(&in, &want, device);
    dl_input_close(&in);
    return t;
}

dl_tensor_file *dl_picture_from(const dl_input *in, int device) {
    uint8_t first = 0;
    if (in->size) (void)dl_input_read(in, 0, &first, 1);
    dl_tensor_file *f = dl_tensor_file_new(1, dl_format_name(first == 0xff ? DL_FORMAT_JPEG : DL_FORMAT_PNG));
    if (f && dl_tensor_file_add(f, "", read_tensor(in, &(dl_picture_want){0}, device)) == DL_OK) return f;
    dl_tensor_file_free(f);
    return NULL;
}

/* ---------------------------------------------------------------- writing */

static dl_status check_pixels(const char *path, const dl_tensor *t) {
    dl_dtype type = dl_dtype_of(t);
    int n = dl_ndim(t);
    const long *shape = dl_shape(t);
    if ((n != 2 && n != 3) || (n == 3 && (shape[0] < 1 || shape[0] > 4)) || !dl_numel(t))
        return dl_fail_hint(DL_ERR_SHAPE, "of a batch, x[0] is one picture",
                            "'%s': a picture has shape [channels, height, width] with 1 to 4 channels, or "
                            "[height, width], not %s",
                            path, dl_shape_text(n, shape));
    if (type != DL_U8 && !dl_dtype_is_float(type))
        return dl_fail_hint(DL_ERR_DTYPE, "x.to(u8)",
                            "'%s': the numbers of a picture are u8, 0 to 255, or floating, 0 to 1; these are %s", path,
                            dl_dtype_name(type));
    return DL_OK;
}

/* Planes of bytes, or of floating numbers from 0 to 1, to pixels. */
static dl_status take_pixels(dl_tensor *t, dl_picture *p) {
    bool bytes = dl_dtype_of(t) == DL_U8;
    long n = dl_numel(t), plane = p->height * p->width;
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *as = bytes ? dl_ref(t) : dl_to_dtype(t, DL_F32);
    if (!as || !(p->pixel = dl_memory_alloc(n, 1))) return dl_failed();
    float *from = dl_memory_alloc(n, (long)sizeof *from);
    dl_status st = from ? dl_read(as, from) : dl_failed();
    for (long c = 0; st == DL_OK && c < p->channels; c++)
        for (long i = 0; i < plane; i++) {
            float v = bytes ? 0 : from[c * plane + i] * 255.0f + 0.5f;
            ((uint8_t *)p->pixel)[i * p->channels + c] = bytes      ? ((const uint8_t *)from)[c * plane + i]
                                                         : v >= 255 ? 255
                                                         : v > 0    ? (uint8_t)v
                                                                    : 0;
        }
    free(from);
    return st;
}

dl_status dl_picture_save(const char *path, dl_format f, dl_tensor *t, int quality) {
    DL_TRY(check_pixels(path, t));
    if (quality < 1 || quality > 100) return dl_fail(DL_ERR_VALUE, "'%s': quality=%d; it is 1 to 100", path, quality);
    const long *shape = dl_shape(t) + dl_ndim(t) - 2;
    dl_picture p = {
        .channels = dl_ndim(t) == 3 ? dl_shape(t)[0] : 1, .height = shape[0], .width = shape[1], .depth = 8};
    dl_status st = take_pixels(t, &p);
    if (st == DL_OK) st = f == DL_FORMAT_JPEG ? dl_jpeg_encode(path, &p, quality) : dl_png_encode(path, &p);
    free(p.pixel);
    return st;
}

dl_status dl_picture_write(const char *path, dl_tensor *t, int quality) {
    dl_format f;
    if (!t) return dl_fail_null("the picture");
    DL_TRY(dl_format_to_write(path, DL_HOLDS_TENSOR, &f));
    if (f == DL_FORMAT_PNG || f == DL_FORMAT_JPEG) return dl_picture_save(path, f, t, quality ? quality : 75);
    return dl_fail(DL_ERR_UNSUPPORTED, "'%s': pictures are written as .png, .jpg or .jpeg", path);
}
