/* Folders of pictures as a dataset. What stands in memory are the names of files and their classes: a picture is read,
 * decoded and made the common size when a batch wants it, by the thread that makes the batch. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "data/datasets.h"
#include "data/pictures/folder.h"
#include "data/pictures/resample.h"
#include "io/pictures/picture.h"

enum { MOST_SIDE = 16384 };

typedef struct album {
    dl_picture_list split[2];
    dl_picture_want want;
    bool crop;  /* the shorter side becomes the size, and the middle is cut out; else both sides become the size */
    bool sized; /* pictures become height x width; else they are to have these sizes already */
    long channels, height, width;
} album;

static void close_album(void *ctx) {
    album *a = ctx;
    dl_picture_list_free(&a->split[0]);
    dl_picture_list_free(&a->split[1]);
    free(a);
}

/* ---------------------------------------------------------------- one picture */

/* Planes of f32. */
static float *planes_of(const dl_picture *p) {
    long plane = p->height * p->width;
    float *x = dl_memory_alloc(plane * p->channels, (long)sizeof *x);
    for (long c = 0; x && c < p->channels; c++)
        for (long i = 0; i < plane; i++) x[c * plane + i] = ((const uint8_t *)p->pixel)[i * p->channels + c];
    return x;
}

/* The size to which the whole picture is brought, at least that of the samples. */
static void inner_size(const album *a, const dl_picture *p, long *height, long *width) {
    *height = a->height, *width = a->width;
    if (!a->crop) return;
    if (a->height * p->width < a->width * p->height)
        *height = p->height * a->width / p->width;
    else
        *width = p->width * a->height / p->height;
    if (*height < a->height) *height = a->height;
    if (*width < a->width) *width = a->width;
}

/* Planes of bytes from the middle of planes of h x w numbers. */
static void cut_middle(const album *a, const float *x, long h, long w, uint8_t *out) {
    long top = (long)rint((double)(h - a->height) / 2), left = (long)rint((double)(w - a->width) / 2);
    for (long c = 0; c < a->channels; c++)
        for (long i = 0; i < a->height; i++)
            for (long j = 0; j < a->width; j++) {
                float v = rintf(x[(c * h + top + i) * w + left + j]);
                *out++ = v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
            }
}

static dl_status bring_to_size(const album *a, const dl_picture *p, uint8_t *out) {
    long h, w;
    inner_size(a, p, &h, &w);
    float *from = planes_of(p), *to = from ? dl_memory_alloc(h * w * p->channels, (long)sizeof *to) : NULL;
    dl_planes planes = {from, p->channels, p->height, p->width, p->width, p->height * p->width};
    dl_status st = to ? dl_resample(&planes, h, w, DL_BILINEAR, true, to) : dl_failed();
    if (st == DL_OK) cut_middle(a, to, h, w, out);
    free(from);
    free(to);
    return st;
}

static dl_status check_size(const album *a, const char *path, const dl_picture *p) {
    if (p->height == a->height && p->width == a->width) return DL_OK;
    return dl_fail_hint(DL_ERR_SHAPE, "size=224, or size=[160, 224], brings all pictures to one size",
                        "'%s' has %ld x %ld pixels, the first picture %ld x %ld", path, p->width, p->height, a->width,
                        a->height);
}

static void copy_planes(const dl_picture *p, uint8_t *out) {
    long plane = p->height * p->width;
    for (long c = 0; c < p->channels; c++)
        for (long i = 0; i < plane; i++) *out++ = ((const uint8_t *)p->pixel)[i * p->channels + c];
}

static dl_status read_picture(const album *a, const char *path, uint8_t *out) {
    dl_picture p = {0};
    dl_input in;
    DL_TRY(dl_input_open(&in, path));
    dl_status st = dl_picture_decode(&in, &a->want, &p);
    dl_input_close(&in);
    bool same = p.height == a->height && p.width == a->width;
    if (st == DL_OK && !a->sized) st = check_size(a, path, &p);
    if (st == DL_OK && same)
        copy_planes(&p, out);
    else if (st == DL_OK)
        st = bring_to_size(a, &p, out);
    free(p.pixel);
    return st;
}

static dl_status read_sample(const dl_dataset *d, int split, long i, void *x, void *y) {
    const album *a = d->source.ctx;
    *(int64_t *)y = a->split[split].file[i].label;
    return x ? read_picture(a, a->split[split].file[i].path, x) : DL_OK;
}

/* ---------------------------------------------------------------- broken files */

static bool is_broken(dl_status st) {
    return st == DL_ERR_FORMAT || st == DL_ERR_IO || st == DL_ERR_VALUE || st == DL_ERR_SHAPE;
}

/* broken[i]: file i cannot be read. Every file is decoded once, by all threads. */
static dl_status find_broken(const album *a, const dl_picture_list *l, bool *broken) {
    dl_first_error first = {0};
    dl_stop stop = dl_stop_begin();
#pragma omp parallel for schedule(dynamic, 4)
    for (long i = 0; i < l->n; i++) {
        if (dl_stop_asked(&stop)) continue;
        uint8_t *out = dl_memory_alloc(a->channels * a->height, a->width);
        dl_status st = out ? read_picture(a, l->file[i].path, out) : dl_failed();
        free(out);
        broken[i] = is_broken(st);
        if (st != DL_OK && !broken[i]) dl_first_error_keep(&first);
        if (broken[i]) dl_error_clear();
    }
    if (dl_stop_end(&stop)) return dl_fail(DL_ERR_INTERRUPT, "interrupted");
    return dl_first_error_raise(&first);
}

/* Moves broken files to the dataset's list of those left out. */
static dl_status skip_broken(const album *a, dl_picture_list *l, dl_dataset *d) {
    bool *broken = dl_data_alloc(l->n, sizeof *broken);
    dl_status st = broken ? find_broken(a, l, broken) : dl_failed();
    long n = 0, out = 0;
    for (long i = 0; st == DL_OK && i < l->n; i++) out += broken[i];
    char **more = st == DL_OK ? realloc(d->skipped, (size_t)(d->nskipped + out + 1) * sizeof *more) : NULL;
    if (st == DL_OK && !more) st = dl_fail(DL_ERR_MEMORY, "no memory for the names of broken files");
    if (more) d->skipped = more;
    for (long i = 0; st == DL_OK && i < l->n; i++) {
        if (broken[i])
            d->skipped[d->nskipped++] = l->file[i].path;
        else
            l->file[n++] = l->file[i];
    }
    if (st == DL_OK) l->n = n;
    free(broken);
    return st;
}

/* ---------------------------------------------------------------- opening */

/* "224", "[160, 224]" or "160x224": height and width. */
static dl_status read_size(const char *text, album *a) {
    long side[3] = {0};
    int n = 0;
    if (!*text) return DL_OK;
    for (const char *p = text; *p && n < 3;) {
        if (isdigit((unsigned char)*p))
            side[n++] = strtol(p, (char **)&p, 10);
        else if (strchr("[], x", *p))
            p++;
        else
            n = 3;
    }
    if (n == 1) side[1] = side[0];
    for (int i = 0; i < 2; i++)
        if (n < 1 || n > 2 || side[i] < 1 || side[i] > MOST_SIDE)
            return dl_fail_hint(DL_ERR_VALUE, "size=224, or size=[160, 224]: height and width",
                                "dataset 'images': size=%s; it is one or two numbers from 1 to %d", text, MOST_SIDE);
    a->height = side[0], a->width = side[1], a->sized = true;
    return DL_OK;
}

/* Without a size, that of the first picture. */
static dl_status take_first_size(album *a) {
    dl_input in;
    if (a->sized) return DL_OK;
    DL_TRY(dl_input_open(&in, a->split[0].file[0].path));
    dl_status st = dl_picture_size(&in, &a->want, &a->height, &a->width);
    dl_input_close(&in);
    return st;
}

static dl_status find_files(const dl_data_args *o, album *a, dl_class_list *classes) {
    const char *dir = dl_data_str(o, "path"), *table = dl_data_str(o, "labels"), *test = dl_data_str(o, "test_path");
    if (*table && *test)
        return dl_fail_hint(DL_ERR_VALUE, "random_split, or dataset(train, test) of two of them",
                            "dataset 'images': labels and test_path do not go together");
    if (*table) return dl_pictures_of_table(dir, table, classes, &a->split[0]);
    DL_TRY(dl_pictures_of_folders(dir, classes, &a->split[0]));
    return *test ? dl_pictures_of_folders(test, classes, &a->split[1]) : DL_OK;
}

/* Of names below the folder, sizes of files, classes, and what is made of the pictures; not of their bytes. */
static dl_status set_mark(const dl_data_args *o, dl_dataset *d, const album *a) {
    long n = a->split[0].n + a->split[1].n, k = 0;
    dl_piece *pieces = dl_data_alloc(3 * n + 4, sizeof *pieces);
    if (!pieces) return dl_failed();
    long shape[4] = {a->channels, a->height, a->width, a->crop};
    pieces[k++] = (dl_piece){shape, sizeof shape};
    for (int s = 0; s < 2; s++) {
        size_t root = strlen(dl_data_str(o, s ? "test_path" : "path"));
        pieces[k++] = (dl_piece){&a->split[s].n, sizeof a->split[s].n};
        for (long i = 0; i < a->split[s].n; i++) {
            const dl_picture_file *f = &a->split[s].file[i];
            size_t whole = strlen(f->path), skip = root < whole ? root : 0;
            pieces[k++] = (dl_piece){f->path + skip, whole - skip + 1};
            pieces[k++] = (dl_piece){&f->label, sizeof f->label};
            pieces[k++] = (dl_piece){&f->size, sizeof f->size};
        }
    }
    dl_data_set_fingerprint_of(d, pieces, (int)k);
    free(pieces);
    return DL_OK;
}

static dl_status fill(const dl_data_args *o, dl_dataset *d, album *a, dl_class_list *classes) {
    const char *mode = dl_data_str(o, "mode");
    a->want.mode = !strcmp(mode, "gray") ? DL_PICTURE_GRAY : !strcmp(mode, "rgb") ? DL_PICTURE_RGB : DL_PICTURE_RGBA;
    a->want.bytes = true, a->want.upright = strchr("t1", *dl_data_str(o, "apply_exif_orientation")) != NULL;
    a->channels = a->want.mode == DL_PICTURE_GRAY ? 1 : a->want.mode == DL_PICTURE_RGB ? 3 : 4;
    a->crop = !strcmp(dl_data_str(o, "fit"), "crop");
    DL_TRY(read_size(dl_data_str(o, "size"), a));
    DL_TRY(find_files(o, a, classes));
    DL_TRY(take_first_size(a));
    for (int s = 0; s < 2 && !strcmp(dl_data_str(o, "broken"), "skip"); s++) DL_TRY(skip_broken(a, &a->split[s], d));
    if (!a->split[0].n) return dl_fail(DL_ERR_FORMAT, "no picture of '%s' can be read", dl_data_str(o, "path"));
    d->dtype = DL_U8;
    dl_data_set_shape(d, 3, (long[]){a->channels, a->height, a->width});
    DL_TRY(dl_data_set_classes(d, classes->n, (const char *const *)classes->name));
    d->split[0].n = a->split[0].n, d->split[1].n = a->split[1].n;
    return set_mark(o, d, a);
}

dl_status dl_open_images(const dl_data_args *o, dl_dataset *d) {
    dl_class_list classes = {0};
    album *a = dl_data_alloc(1, sizeof *a);
    if (!a) return dl_failed();
    d->source = (dl_data_source){.read = read_sample, .close = close_album, .ctx = a, .slow = true};
    dl_status st = fill(o, d, a, &classes);
    dl_class_list_free(&classes);
    DL_TRY(st);
    if (!d->split[1].n) DL_TRY(dl_data_hold_out(d, dl_data_float(o, "holdout"), (uint64_t)dl_data_int(o, "seed")));
    return dl_data_normalize(d, dl_data_str(o, "normalize"));
}
