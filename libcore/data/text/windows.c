/* Windows over a stream of tokens, for language models: x [block], and y [block] one token later. The tokens are those
 * of a text, in memory, or stand in a file, from which windows are read as batches need them: it may be larger than
 * memory. */
#include "data/text/texts.h"

#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "core/tensor.h"
#include "io/input.h"
#include "io/numpy/npy.h"

/* n tokens: in memory, or from byte `at` of a file on. */
typedef struct stream {
    int32_t *tokens;
    dl_input in;
    bool open;
    char *path;
    dl_element element;
    uint64_t at;
    long n;
} stream;

typedef struct windows {
    stream of[2];  /* the test split's may be part of the first */
    long from[2];  /* the split begins at this token */
    int stream[2]; /* of a split */
    long block, stride;
} windows;

static void close_windows(void *ctx) {
    windows *w = ctx;
    for (int s = 0; s < 2; s++) {
        if (w->of[s].open) dl_input_close(&w->of[s].in);
        free(w->of[s].tokens);
        free(w->of[s].path);
    }
    free(w);
}

/* ---------------------------------------------------------------- reading */

/* Little-endian integers of `size` bytes into 64 bits each, from the last one, which may share their memory. */
static void widen(void *at, long n, dl_element e) {
    const uint8_t *from = at;
    int64_t *to = at;
    for (long i = n - 1; i >= 0; i--) {
        uint64_t v = 0;
        memcpy(&v, from + i * e.size, (size_t)e.size);
        if (e.kind == DL_E_INT && e.size < 8) {
            uint64_t sign = (uint64_t)1 << (8 * e.size - 1);
            v = (v ^ sign) - sign;
        }
        to[i] = (int64_t)v;
    }
}

/* Tokens from..from+n as 64-bit integers. */
static dl_status read_tokens(const stream *s, long from, long n, int64_t *to) {
    if (s->tokens) {
        for (long i = 0; i < n; i++) to[i] = s->tokens[from + i];
        return DL_OK;
    }
    DL_TRY(dl_input_read(&s->in, s->at + (uint64_t)from * (uint64_t)s->element.size, to,
                         (size_t)n * (size_t)s->element.size));
    widen(to, n, s->element);
    return DL_OK;
}

static dl_status read_window(const dl_dataset *d, int split, long i, void *x, void *y) {
    const windows *w = d->source.ctx;
    const stream *s = &w->of[w->stream[split]];
    long from = w->from[split] + i * w->stride;
    if (x) DL_TRY(read_tokens(s, from, w->block, x));
    return read_tokens(s, from + 1, w->block, y);
}

/* ---------------------------------------------------------------- opening */

static bool ends_with(const char *path, const char *end) {
    size_t n = strlen(path), k = strlen(end);
    return n >= k && !strcmp(path + n - k, end);
}

static dl_status encode_stream(stream *s, const char *path, const dl_tokenizer *t) {
    DL_OWNED dl_tensor *ids = dl_tokenizer_encode_file(t, path, 0);
    if (!ids) return dl_failed();
    const int64_t *from = dl_data(ids);
    s->n = dl_numel(ids);
    if (!(s->tokens = dl_data_alloc(s->n, sizeof *s->tokens))) return dl_failed();
    for (long i = 0; i < s->n; i++) s->tokens[i] = (int32_t)from[i];
    return DL_OK;
}

static dl_status read_at(void *ctx, uint64_t at, void *to, size_t n) { return dl_input_read(ctx, at, to, n); }

static dl_status open_npy(stream *s) {
    dl_npy_header h;
    DL_TRY(dl_npy_read_header(s->path, s->in.size, read_at, &s->in, &h));
    bool whole = (h.element.kind == DL_E_INT || h.element.kind == DL_E_UINT) && !h.element.big;
    if (h.ndim != 1 || !whole)
        return dl_fail_hint(DL_ERR_FORMAT, "write it with np.save(path, tokens.astype(np.uint16))",
                            "'%s' is not a stream of tokens: integers [n] are wanted, and it has shape %s", s->path,
                            dl_shape_text(h.ndim, h.shape));
    s->element = h.element, s->at = h.at, s->n = h.shape[0];
    return DL_OK;
}

static dl_element element_of(const char *dtype) {
    return (dl_element){.kind = *dtype == 'u' ? DL_E_UINT : DL_E_INT, .size = (int)strtol(dtype + 1, NULL, 10) / 8};
}

static dl_status open_tokens(stream *s, const char *path, const char *dtype) {
    if (!(s->path = strdup(path))) return dl_fail(DL_ERR_MEMORY, "no memory for the name of '%s'", path);
    DL_TRY(dl_input_open(&s->in, s->path));
    s->open = true;
    if (ends_with(path, ".npy")) return open_npy(s);
    if (ends_with(path, ".txt") || ends_with(path, ".gz"))
        return dl_fail_hint(DL_ERR_VALUE, "tokenizer=tokenizer(\"bpe\", file=...)", "the text '%s' needs a tokenizer",
                            path);
    s->element = element_of(dtype);
    s->n = (long)(s->in.size / (uint64_t)s->element.size);
    if (s->in.size % (uint64_t)s->element.size)
        return dl_fail(DL_ERR_FORMAT, "'%s' has %lu bytes, which is not a number of tokens of %d bytes each", path,
                       (unsigned long)s->in.size, s->element.size);
    return DL_OK;
}

static dl_status open_stream(stream *s, const char *path, const dl_data_args *a, const dl_tokenizer *t) {
    return t ? encode_stream(s, path, t) : open_tokens(s, path, dl_data_str(a, "dtype"));
}

/* Windows in n tokens: each needs one more than it has, for the last target. */
static long count(const windows *w, long n) { return n > w->block ? (n - w->block - 1) / w->stride + 1 : 0; }

/* Of the files' sizes and of pieces at equal distances. */
enum { PIECES = 64, PIECE = 4096 };

static dl_status set_mark(dl_dataset *d, const windows *w) {
    int64_t facts[] = {w->block, w->stride, w->from[1], d->split[0].n, d->split[1].n, w->of[0].n, w->of[1].n};
    dl_piece pieces[4] = {{"text", 4}, {facts, sizeof facts}};
    int n = 2;
    int64_t *room = dl_data_alloc(2 * PIECES, PIECE);
    dl_status st = room ? DL_OK : dl_failed();
    for (int s = 0; s < 2 && st == DL_OK; s++) {
        const stream *from = &w->of[s];
        long each = PIECE / (long)sizeof *room, some = from->n < each ? from->n : each;
        int64_t *to = room + (long)s * PIECES * each;
        if (from->tokens) pieces[n++] = (dl_piece){from->tokens, (size_t)from->n * sizeof *from->tokens};
        for (long i = 0; from->open && st == DL_OK && i < PIECES; i++)
            st = read_tokens(from, (from->n - some) / (PIECES - 1) * i, some, to + i * each);
        if (from->open) pieces[n++] = (dl_piece){to, (size_t)PIECES * PIECE};
    }
    if (st == DL_OK) dl_data_set_fingerprint_of(d, pieces, n);
    free(room);
    return st;
}

static dl_status fill(const dl_data_args *a, dl_dataset *d, windows *w, const dl_tokenizer *t) {
    const char *path = dl_data_str(a, "path"), *test = dl_data_str(a, "test_path");
    double holdout = dl_data_float(a, "holdout");
    w->block = dl_data_int(a, "block"), w->stride = dl_data_int(a, "stride");
    if (!w->stride) w->stride = w->block;
    if (w->block < 1 || w->stride < 1)
        return dl_fail(DL_ERR_VALUE, "dataset 'text': block=%ld, stride=%ld; both count tokens, from 1", w->block,
                       w->stride);
    if (!(holdout >= 0 && holdout < 1))
        return dl_fail(DL_ERR_VALUE, "option holdout=%g; it is a fraction from 0 to less than 1", holdout);
    DL_TRY(open_stream(&w->of[0], path, a, t));
    if (*test) DL_TRY(open_stream(&w->of[1], test, a, t));
    long n = w->of[0].n, out = *test ? 0 : (long)((double)n * holdout);
    w->stream[1] = *test ? 1 : 0, w->from[1] = *test ? 0 : n - out;
    d->split[0].n = count(w, n - out), d->split[1].n = count(w, *test ? w->of[1].n : out);
    if (!d->split[0].n)
        return dl_fail_hint(DL_ERR_VALUE, "a smaller block, or holdout=0",
                            "'%s' has %ld tokens to train on, and a window takes %ld and one more", path, n - out,
                            w->block);
    d->dtype = d->target_dtype = DL_I64;
    dl_data_set_shape(d, 1, &w->block);
    dl_data_set_target(d, 1, &w->block);
    return set_mark(d, w);
}

dl_status dl_text_windows(const dl_data_args *a, dl_dataset *d, const dl_tokenizer *t) {
    windows *w = dl_data_alloc(1, sizeof *w);
    if (!w) return dl_failed();
    d->source = (dl_data_source){.read = read_window, .close = close_windows, .ctx = w};
    DL_TRY(fill(a, d, w, t));
    /* windows that overlap take far more memory one by one than the tokens do */
    d->source.slow = !t || w->stride < w->block;
    return DL_OK;
}
