/* `img`: pictures as blocks of text, and as PNG where the sink shows pictures. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "commands/data/data.h"
#include "commands/data/fields.h"
#include "commands/image.h"
#include "lang/session.h"
#include "view/rich/html.h"
#include "view/rich/png.h"
#include "view/text.h"
#include "view/sink.h"
#include "dlcore/view.h"

enum { GAP = 2, MAX_PICTURES = 256, MAX_SIDE = 2048, UNLIMITED_WIDTH = 120, SIDE = 84, SHEET = 900, WIDEST_GRID = 64 };
enum { MAX_PIXELS = MAX_SIDE * MAX_SIDE }; /* of all pictures */

/* Pictures side by side: pixels [count][channels][height][width], channels 1 or 3, scaled to 0..1 over all of them. NaN
 * and Inf are NaN, which is drawn in red. */
typedef struct sheet {
    long count, channels, height, width;
    long have; /* pictures of the tensor; more than count: the others are left out */
    int odd;   /* there are NaN or Inf */
    double *pixels;
    const char **captions; /* [count], borrowed; NULL: none */
    dlsh_buf *texts;       /* [count]: owners of the captions given with captions= */
    long columns;          /* pictures in a row */
    long page;             /* screen pixels that are side by side at most */
    long grid;             /* the same where the shape sets it: the input channels of filters; else 0 */
} sheet;

static dl_status no_memory(void) { return dlsh_no_memory("the picture"); }

/* ---------------------------------------------------------------- pixels */

/* Shapes [h, w], [c, h, w] and [n, c, h, w]. One channel is grey, three are a colour; of any other number, as filters
 * and activations have it, each is a grey picture of its own, one row for each n. */
static dl_status set_shape(sheet *p, const dl_tensor *t) {
    const long *s = dl_shape(t);
    int n = dl_ndim(t);
    if (n < 2 || n > 4 || !dl_numel(t))
        return dlsh_fail(DL_ERR_SHAPE, "slice or reshape it to one of these",
                         "a picture is [height, width], [channels, height, width] or [n, channels, height, width]; "
                         "this tensor has %d dimensions and %ld elements",
                         n, dl_numel(t));
    p->count = n == 4 ? s[0] : 1;
    p->channels = n >= 3 ? s[n - 3] : 1;
    p->height = s[n - 2], p->width = s[n - 1];
    if (p->channels != 1 && p->channels != 3) {
        if (n == 4) p->grid = p->channels < MAX_PICTURES ? p->channels : MAX_PICTURES;
        p->count *= p->channels;
        p->channels = 1;
    }
    if (p->height > MAX_SIDE || p->width > MAX_SIDE)
        return dlsh_fail(DL_ERR_SHAPE, n == 2 ? "show a part of it: t[:64, :64]" : "show a part of it: t[0][:64, :64]",
                         "a picture of %ld by %ld is too large to show; at most %d by %d", p->height, p->width,
                         MAX_SIDE, MAX_SIDE);
    long most = MAX_PIXELS / (p->height * p->width); /* one at least */
    if (most > MAX_PICTURES) most = MAX_PICTURES;
    p->have = p->count;
    if (p->grid > most) p->grid = most;
    if (p->count > most) p->count = p->grid ? most / p->grid * p->grid : most;
    return DL_OK;
}

/* Spreads the finite pixels over 0..1; the others become NaN. Returns whether there are others. */
static int stretch(double *v, long n) {
    double lo = INFINITY, hi = -INFINITY;
    int odd = 0;
    for (long i = 0; i < n; i++)
        if (isfinite(v[i])) lo = fmin(lo, v[i]), hi = fmax(hi, v[i]);
    double range = hi / 2 - lo / 2; /* of halves, since hi - lo may overflow */
    for (long i = 0; i < n; i++) {
        if (isfinite(v[i]))
            v[i] = hi > lo ? fmin(fmax((v[i] / 2 - lo / 2) / range, 0), 1) : 0;
        else
            v[i] = NAN, odd = 1;
    }
    return odd;
}

static dl_status read_pixels(sheet *p, const dl_tensor *t) {
    DLSH_TRY(set_shape(p, t));
    if (!(p->pixels = dl_memory_alloc(dl_numel(t), sizeof *p->pixels))) return DL_ERR_MEMORY;
    DLSH_TRY(dl_read_f64(t, p->pixels));
    p->odd = stretch(p->pixels, p->count * p->channels * p->height * p->width);
    return DL_OK;
}

static double pixel(const sheet *p, long k, long c, long i, long j) {
    return p->pixels[((k * p->channels + c) * p->height + i) * p->width + j];
}

/* A pixel as red, green and blue. */
static void colour(const sheet *p, long k, long i, long j, uint8_t rgb[3]) {
    static const uint8_t odd[3] = {0xe0, 0x52, 0x4a};
    for (int c = 0; c < 3; c++) {
        double v = pixel(p, k, p->channels == 3 ? c : 0, i, j);
        if (isnan(v)) {
            memcpy(rgb, odd, sizeof odd);
            return;
        }
        rgb[c] = (uint8_t)(255 * v + 0.5);
    }
}

static double grey(const sheet *p, long k, long i, long j) {
    if (p->channels == 1) return pixel(p, k, 0, i, j);
    return 0.299 * pixel(p, k, 0, i, j) + 0.587 * pixel(p, k, 1, i, j) + 0.114 * pixel(p, k, 2, i, j);
}

/* ---------------------------------------------------------------- text */

/* Whether a pixel is drawn; middle greys by ordered dithering. */
static int lit(const sheet *p, long k, long i, long j) {
    static const int pattern[4][4] = {{0, 8, 2, 10}, {12, 4, 14, 6}, {3, 11, 1, 9}, {15, 7, 13, 5}};
    if (i >= p->height) return 0;
    double v = (grey(p, k, i, j) - 0.3) / 0.35;
    return v > (pattern[i & 3][j & 3] + 0.5) / 16;
}

/* Two pixels, one above the other. */
static void put_cell(const sheet *p, long k, long i, long j, const dlsh_look *look, dlsh_buf *b) {
    static const char *const block[2][4] = {{" ", "'", ".", ":"}, {" ", "\u2580", "\u2584", "\u2588"}};
    if (!look->colour || !look->unicode) {
        dlsh_buf_puts(b, block[look->unicode != 0][lit(p, k, i, j) + 2 * lit(p, k, i + 1, j)]);
        return;
    }
    uint8_t v[2][3];
    for (int half = 0; half < 2; half++) colour(p, k, i + half < p->height ? i + half : i, j, v[half]);
    dlsh_buf_printf(b, "\033[38;2;%d;%d;%d;48;2;%d;%d;%dm\u2580", v[0][0], v[0][1], v[0][2], v[1][0], v[1][1], v[1][2]);
}

static void put_captions(const sheet *p, long from, long to, dlsh_buf *b) {
    for (long k = from; k < to; k++) {
        DLSH_SCOPED_BUF name = {0};
        dlsh_buf_puts_visible(&name, p->captions[k]);
        int last = k + 1 == to, room = (int)p->width + (last ? 0 : GAP - 1);
        size_t n = dlsh_text_cut(dlsh_buf_text(&name), name.n, room);
        dlsh_buf_add(b, name.s, n);
        if (!last) dlsh_buf_printf(b, "%*s", room + 1 - dlsh_text_width(dlsh_buf_text(&name), n), "");
    }
    dlsh_buf_puts(b, "\n");
}

static void put_row(const sheet *p, long from, long to, const dlsh_look *look, dlsh_buf *b) {
    if (p->captions) put_captions(p, from, to, b);
    for (long i = 0; i < p->height; i += 2) {
        for (long k = from; k < to; k++) {
            for (long j = 0; j < p->width; j++) put_cell(p, k, i, j, look, b);
            if (look->colour && look->unicode) dlsh_buf_puts(b, "\033[0m");
            if (k + 1 < to) dlsh_buf_printf(b, "%*s", GAP, "");
        }
        while (b->n && b->s[b->n - 1] == ' ') b->n--; /* no blanks at the ends of lines */
        dlsh_buf_puts(b, "\n");
    }
}

static void draw_text(const sheet *p, const dlsh_look *look, dlsh_buf *b) {
    for (long k = 0; k < p->count; k += p->columns)
        put_row(p, k, k + p->columns < p->count ? k + p->columns : p->count, look, b);
}

/* A sheet whose pixels are means over squares of `by` pixels of p; captions are shared. */
static dl_status shrink(const sheet *p, long by, sheet *out) {
    *out = *p;
    out->width = (p->width + by - 1) / by;
    out->height = (p->height + by - 1) / by;
    out->pixels = dl_memory_alloc(p->count * p->channels * out->height * out->width, sizeof *out->pixels);
    if (!out->pixels) return DL_ERR_MEMORY;
    double *at = out->pixels;
    for (long k = 0; k < p->count; k++)
        for (long c = 0; c < p->channels; c++)
            for (long i = 0; i < p->height; i += by)
                for (long j = 0; j < p->width; j += by) {
                    double sum = 0;
                    long n = 0;
                    for (long y = i; y < i + by && y < p->height; y++)
                        for (long x = j; x < j + by && x < p->width; x++, n++) sum += pixel(p, k, c, y, x);
                    *at++ = sum / (double)n;
                }
    return DL_OK;
}

/* Pictures wider than the window are made smaller. */
static dl_status draw_fitting(sheet *p, const dlsh_look *look, dlsh_buf *b) {
    long width = look->width > 0 ? look->width : UNLIMITED_WIDTH;
    sheet small = *p;
    if (p->width > width) DLSH_TRY(shrink(p, (p->width + width - 1) / width, &small));
    small.columns = (width + GAP) / (small.width + GAP);
    if (p->grid && small.columns > p->grid) small.columns = p->grid;
    if (small.columns < 1) small.columns = 1;
    draw_text(&small, look, b);
    if (small.pixels != p->pixels) free(small.pixels);
    return DL_OK;
}

/* ---------------------------------------------------------------- PNG and HTML */

/* Screen pixels to a pixel: small pictures are enlarged, up to the width of a page. */
static long scale_of(const sheet *p, long columns) {
    long scale = SIDE / p->width;
    if (scale > 16) scale = 16;
    while (scale > 1 && columns * (p->width * scale + GAP) > p->page) scale--;
    return scale < 1 ? 1 : scale;
}

/* Draws a picture with 1 or 3 channels and alpha; `stride` bytes a row. */
static void draw_picture(const sheet *p, long k, long channels, long scale, uint8_t *to, size_t stride) {
    for (long y = 0; y < p->height * scale; y++) {
        uint8_t *at = to + (size_t)y * stride, rgb[3];
        for (long x = 0; x < p->width * scale; x++) {
            colour(p, k, y / scale, x / scale, rgb);
            memcpy(at, rgb, (size_t)channels);
            at[channels] = 255;
            at += channels + 1;
        }
    }
}

/* Pictures from, from + 1, ... in rows; what is between them is transparent. */
static dl_status draw_png(const sheet *p, long from, long count, long columns, long scale, dlsh_buf *out) {
    long rows = (count - 1) / columns + 1, colours = p->odd ? 3 : p->channels, channels = colours + 1,
         gap = GAP + scale / 4;
    if (columns > count) columns = count;
    long w = columns * (p->width * scale + gap) - gap, h = rows * (p->height * scale + gap) - gap;
    size_t stride = (size_t)(w * channels);
    DLSH_FREED uint8_t *pixels = calloc(stride, (size_t)h);
    if (!pixels) return no_memory();
    for (long k = 0; k < count; k++) {
        long y = k / columns * (p->height * scale + gap), x = k % columns * (p->width * scale + gap);
        draw_picture(p, from + k, colours, scale, pixels + (size_t)y * stride + (size_t)(x * channels), stride);
    }
    return dlsh_png(out, pixels, w, h, (int)channels);
}

/* Each picture with its class below it. */
static dl_status draw_captioned(const sheet *p, long scale, dlsh_buf *b) {
    dlsh_buf_puts(b, "<div style=\"display:flex;flex-wrap:wrap;gap:6px\">");
    dl_status st = DL_OK;
    for (long k = 0; st == DL_OK && k < p->count; k++) {
        DLSH_SCOPED_BUF png = {0};
        st = draw_png(p, k, 1, 1, 1, &png); /* the browser enlarges it */
        dlsh_buf_puts(b, "<figure style=\"margin:0;text-align:center;font-size:12px\">"
                         "<img style=\"margin:0;image-rendering:pixelated\" ");
        dlsh_buf_printf(b, "width=\"%ld\" height=\"%ld\" ", p->width * scale, p->height * scale);
        dlsh_buf_puts(b, "src=\"data:image/png;base64,");
        dlsh_base64(b, dlsh_buf_text(&png), png.n);
        dlsh_buf_puts(b, "\" alt=\"");
        dlsh_html_puts(b, p->captions[k]);
        dlsh_buf_puts(b, "\"/><figcaption>");
        dlsh_html_puts(b, p->captions[k]);
        dlsh_buf_puts(b, "</figcaption></figure>");
    }
    dlsh_buf_puts(b, "</div>");
    return st;
}

/* "3 pictures of 28 x 28 pixels: 7, 2, 1" */
static void describe(const sheet *p, dlsh_buf *alt) {
    dlsh_buf_printf(alt, "%ld picture%s of %ld x %ld pixels", p->count, p->count == 1 ? "" : "s", p->width, p->height);
    for (long k = 0; p->captions && k < p->count; k++) dlsh_buf_printf(alt, "%s%s", k ? ", " : ": ", p->captions[k]);
}

static dl_status draw_rich(const sheet *p, dlsh_bundle *b) {
    long grid = p->grid <= WIDEST_GRID ? p->grid : 0; /* hundreds in a row are too small to be seen */
    long columns = grid ? grid : p->count, scale = scale_of(p, columns < 10 ? columns : 10);
    if (!grid && columns > p->page / (p->width * scale + GAP)) columns = p->page / (p->width * scale + GAP);
    DLSH_TRY(draw_png(p, 0, p->count, columns > 0 ? columns : 1, scale, &b->form[DLSH_PNG]));
    describe(p, &b->alt);
    return p->captions ? draw_captioned(p, scale, &b->form[DLSH_HTML]) : DL_OK;
}

/* ---------------------------------------------------------------- the command */

/* Samples from, from + 1, ... of a split, with their classes as captions. */
static dl_status read_samples(const dlsh_args *a, const dlsh_split *s, sheet *p, long *classes) {
    long from = dlsh_arg_int(a, "first"), have = dl_dataset_len(s->data, s->which), n = dlsh_arg_int(a, "n"),
         index[MAX_PICTURES];
    dlsh_fields b = {{NULL}, {NULL}};
    if (dl_dataset_ndim(s->data) < 2)
        return dlsh_arg_fail(a, "what", DL_ERR_SHAPE, "print(d.train[0].x) shows the numbers of a sample",
                             "samples of '%s' are not pictures", dl_dataset_name(s->data));
    if (from < 0) from += have;
    if (from < 0 || from >= have)
        return dlsh_arg_fail(a, "first", DL_ERR_INDEX, NULL, "there is no sample %ld; the split has %ld",
                             dlsh_arg_int(a, "first"), have);
    if (n > have - from) n = have - from;
    for (long i = 0; i < n; i++) index[i] = from + i;
    DLSH_TRY(dl_dataset_gather(s->data, s->which, index, n, b.x, b.y));
    dl_status st = read_pixels(p, b.x[0]);
    if (st == DL_OK && dl_dataset_classes(s->data) && p->count == n) {
        p->captions = malloc(sizeof *p->captions * (size_t)n);
        st = p->captions ? dl_read(b.y[0], classes) : no_memory();
        for (long i = 0; st == DL_OK && i < n; i++) p->captions[i] = dl_dataset_class_name(s->data, classes[i]);
    }
    dlsh_fields_drop(&b);
    return st;
}

/* One of captions= as text: of a list any value, of a tensor of one dimension its number. */
static dl_status caption_text(const dlsh_value *v, long i, dlsh_buf *out) {
    if (v->type == DLSH_LIST) return dlsh_text(out, v->as.list->items[i]);
    DLSH_OWNED dl_tensor *one = dl_select(v->as.tensor, 0, i);
    int is_float = dl_dtype_is_float(dl_dtype_of(v->as.tensor));
    double f = 0;
    long k = 0;
    DLSH_TRY(!one ? dl_failed() : is_float ? dl_item_f(one, &f) : dl_item_i(one, &k));
    return dlsh_text(out, is_float ? dlsh_float(f) : dlsh_int(k));
}

/* The texts of captions=, one a picture. */
static dl_status read_captions(const dlsh_args *a, sheet *p) {
    const dlsh_value *v = dlsh_arg(a, "captions");
    int row = v->type == DLSH_TENSOR && dl_ndim(v->as.tensor) == 1;
    long n = v->type == DLSH_LIST ? v->as.list->n : row ? dl_numel(v->as.tensor) : -1;
    if (n < p->count)
        return dlsh_arg_fail(a, "captions", DL_ERR_VALUE, "a list, or a tensor of one dimension: captions=y",
                             "captions are texts or numbers, one for each of the %ld pictures", p->count);
    free(p->captions);
    p->captions = calloc((size_t)p->count, sizeof *p->captions);
    p->texts = calloc((size_t)p->count, sizeof *p->texts);
    if (!p->captions || !p->texts) return no_memory();
    for (long i = 0; i < p->count; i++) {
        DLSH_TRY(caption_text(v, i, &p->texts[i]));
        p->captions[i] = dlsh_buf_text(&p->texts[i]);
    }
    return DL_OK;
}

static dl_status show_sheet(dlsh_sink *sink, sheet *p) {
    dlsh_look look = dlsh_sink_look(sink);
    dlsh_bundle b = {0};
    p->page = look.pixels && look.pixels < SHEET ? look.pixels : SHEET;
    dl_status st = draw_fitting(p, &look, &b.text);
    if (st == DL_OK && dlsh_sink_pictures(sink)) st = draw_rich(p, &b);
    if (st == DL_OK) st = dlsh_display(sink, &b);
    dlsh_bundle_free(&b);
    if (st == DL_OK && p->have > p->count) dlsh_put(sink, "the first %ld of %ld pictures\n", p->count, p->have);
    return st;
}

dl_status dlsh_show_pictures(dlsh_sink *sink, const dl_tensor *pictures, const char *const *captions) {
    sheet p = {0};
    const long n = dl_shape(pictures)[0], *s = dl_shape(pictures);
    DLSH_OWNED dl_tensor *grey =
        dl_ndim(pictures) == 3 ? dl_reshape((dl_tensor *)pictures, (long[]){n, 1, s[1], s[2]}, 4) : NULL;
    dl_status st = read_pixels(&p, grey ? grey : pictures);
    if (st == DL_OK && p.count == n) {
        p.captions = malloc(sizeof *p.captions * (size_t)n);
        st = p.captions ? DL_OK : no_memory();
        for (long i = 0; p.captions && i < n; i++) p.captions[i] = captions[i];
    }
    if (st == DL_OK) st = show_sheet(sink, &p);
    free(p.pixels);
    free(p.captions);
    return st;
}

static dl_status img_run(const dlsh_args *a) {
    dl_dataset *d = dlsh_arg_handle(a, "what", &dlsh_dataset_class);
    dlsh_split *s = dlsh_arg_handle(a, "what", &dlsh_split_class), train = {d, DL_TRAIN};
    long n = dlsh_arg_int(a, "n"), classes[MAX_PICTURES];
    sheet p = {0};
    if (n < 1 || n > MAX_PICTURES)
        return dlsh_arg_fail(a, "n", DL_ERR_VALUE, NULL, "n=%ld; it is 1 to %d", n, MAX_PICTURES);
    if (!d && !s && dlsh_given(a, "first"))
        return dlsh_arg_fail(a, "first", DL_ERR_VALUE, "index the tensor: img x[3]",
                             "only datasets take the number of a sample");
    dl_status st = d || s ? read_samples(a, s ? s : &train, &p, classes) : read_pixels(&p, dlsh_arg_tensor(a, "what"));
    if (st == DL_OK && dlsh_given(a, "captions")) st = read_captions(a, &p);
    if (st == DL_OK) st = show_sheet(dlsh_arg_sink(a), &p);
    free(p.pixels);
    free(p.captions);
    for (long i = 0; p.texts && i < p.count; i++) dlsh_buf_free(&p.texts[i]);
    free(p.texts);
    return st;
}

const dlsh_command image_commands[] = {
    DLSH_ROW("img", DLSH_REPORT, img_run, "img WHAT [FIRST] [n=1] [captions=LIST]",
             "Shows pictures: samples of a dataset with their classes, or a tensor; "
             "filters and activations with many channels as a grid. "
             "Grey values are spread over the range they "
             "have, NaN and Inf are red; two pixels take one character. "
             "In a terminal, pictures wider than the window are made smaller; terminals that show pictures "
             "themselves get them as such: set pictures.",
             DLSH_PARAMS({"what", .want = "dataset|split|tensor",
                          .doc = "samples of a dataset, or a tensor [h, w], [c, h, w], [n, c, h, w]"},
                         {"first", .want = "int", .flags = DLSH_OPTIONAL, .doc = "number of the first sample (0)"}),
             DLSH_OPTIONS({"n", DLSH_OPT_INT, "1", .doc = "samples shown"},
                          {"captions", DLSH_OPT_VALUE, NULL, .doc = "texts or numbers below the pictures",
                           .want = "list|tensor", .complete = "var"}),
             .examples = "img d\nimg d.test 12 n=4\nimg x[0]\nimg m.conv0.weight"),
    {0}};
