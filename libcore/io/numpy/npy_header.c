/* The header of a .npy file: lengths, and a dictionary in Python's syntax of which only what NumPy writes is read.
 *   dict:  '{' [KEY ':' value {',' KEY ':' value} [',']] '}' blanks
 *   KEY:   descr, fortran_order and shape, each once, in any order, in quotes of either kind
 *   value: a string; True or False; '()', '(3,)' or '(3, 4)', where one more comma may follow the last size */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "io/format.h"
#include "io/numpy/npy.h"

enum { MOST_TEXT = 1 << 20 };

typedef struct scan {
    const char *name, *text, *p, *end;
    size_t head; /* bytes of the file before the text */
    dl_npy_header *h;
} scan;

static size_t word_length(const scan *s, const char *p) {
    size_t n = 0;
    while (p + n < s->end && (isalnum((unsigned char)p[n]) || p[n] == '_')) n++;
    return n;
}

static dl_status expected_at(const scan *s, const char *at, const char *what) {
    char found[32] = "its end";
    size_t n = word_length(s, at);
    if (n || (at < s->end && isprint((unsigned char)*at)))
        snprintf(found, sizeof found, "'%.*s'", n < 20 ? n ? (int)n : 1 : 20, at);
    else if (at < s->end)
        snprintf(found, sizeof found, "the byte 0x%02x", (unsigned char)*at);
    return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged, or was not written by NumPy",
                        "%s: the header is wrong at byte %zu: expected %s, found %s", s->name,
                        s->head + (size_t)(at - s->text), what, found);
}

/* The next character after blanks; 0 at the end. */
static char peek(scan *s) {
    while (s->p < s->end && *s->p && strchr(" \t\r\n", *s->p)) s->p++;
    return s->p < s->end ? *s->p : 0;
}

static int skip(scan *s, char c) {
    if (peek(s) != c) return 0;
    s->p++;
    return 1;
}

static dl_status take(scan *s, char c, const char *what) { return skip(s, c) ? DL_OK : expected_at(s, s->p, what); }

/* Of either quotes; escapes are in none that NumPy writes. */
static dl_status read_string(scan *s, const char *what, const char **text, size_t *n) {
    char quote = peek(s);
    if (quote != '\'' && quote != '"') return expected_at(s, s->p, what);
    *text = ++s->p;
    while (s->p < s->end && isprint((unsigned char)*s->p) && *s->p != quote && *s->p != '\\') s->p++;
    *n = (size_t)(s->p - *text);
    if (s->p == s->end || *s->p != quote) return expected_at(s, s->p, "the end of a string");
    s->p++;
    return DL_OK;
}

static dl_status read_descr(scan *s) {
    static const char kinds[] = "buifc"; /* letters of NumPy's kinds of elements */
    static const dl_element_kind kind_of[] = {DL_E_BOOL, DL_E_UINT, DL_E_INT, DL_E_FLOAT, DL_E_COMPLEX};
    const char *d;
    size_t n;
    if (peek(s) == '[') return dl_fail(DL_ERR_FORMAT, "%s: the header names no simple dtype", s->name);
    DL_TRY(read_string(s, "a dtype in quotes", &d, &n));
    const char *kind = (n == 3 || n == 4) && strchr("<>=|", d[0]) ? strchr(kinds, d[1]) : NULL;
    bool digits = kind && isdigit((unsigned char)d[2]) && (n == 3 || isdigit((unsigned char)d[3]));
    if (digits) {
        int size = n == 3 ? d[2] - '0' : 10 * (d[2] - '0') + d[3] - '0';
        s->h->element = (dl_element){kind_of[kind - kinds], size, d[0] == '>'};
        if (dl_element_dtype(s->h->element) >= 0) return DL_OK;
    }
    return dl_fail_hint(DL_ERR_DTYPE, "in Python: numpy.save(file, a.astype('float32'))",
                        "%s: dtype '%.*s' is not supported", s->name, (int)(n < 20 ? n : 20), d);
}

static dl_status read_order(scan *s) {
    peek(s);
    size_t n = word_length(s, s->p);
    s->h->fortran = n == 4 && !memcmp(s->p, "True", n);
    if (!s->h->fortran && (n != 5 || memcmp(s->p, "False", n) != 0)) return expected_at(s, s->p, "True or False");
    s->p += n;
    return DL_OK;
}

static dl_status read_size(scan *s) {
    const char *begin = (peek(s), s->p);
    long v = 0;
    while (s->p < s->end && isdigit((unsigned char)*s->p)) {
        if (v > (LONG_MAX - (*s->p - '0')) / 10)
            return dl_fail(DL_ERR_FORMAT, "%s: the size at byte %zu of the header is too large", s->name,
                           s->head + (size_t)(begin - s->text));
        v = 10 * v + (*s->p++ - '0');
    }
    if (word_length(s, begin) != (size_t)(s->p - begin) || s->p == begin || (*begin == '0' && s->p > begin + 1))
        return expected_at(s, begin, "a size in decimal digits");
    if (s->h->ndim == DL_MAX_DIM)
        return dl_fail(DL_ERR_FORMAT, "%s: arrays of more than %d dimensions are not supported", s->name, DL_MAX_DIM);
    s->h->shape[s->h->ndim++] = v;
    return DL_OK;
}

static dl_status read_shape(scan *s) {
    DL_TRY(take(s, '(', "a shape in parentheses"));
    while (!skip(s, ')')) {
        DL_TRY(read_size(s));
        if (skip(s, ',')) continue;
        /* (8) is a number to Python */
        return take(s, s->h->ndim > 1 ? ')' : ',', s->h->ndim > 1 ? "',' or ')'" : "',' behind the first size");
    }
    return DL_OK;
}

static const struct {
    const char *name;
    dl_status (*read)(scan *s);
} keys[] = {{"descr", read_descr}, {"fortran_order", read_order}, {"shape", read_shape}};
enum { NKEYS = sizeof keys / sizeof *keys };

static dl_status read_pair(scan *s, int *seen) {
    static const char what[] = "one of the keys 'descr', 'fortran_order', 'shape'";
    const char *key, *begin = (peek(s), s->p);
    size_t n;
    int k = 0;
    DL_TRY(read_string(s, what, &key, &n));
    while (k < NKEYS && (strlen(keys[k].name) != n || memcmp(keys[k].name, key, n) != 0)) k++;
    if (k == NKEYS) return expected_at(s, begin + 1, what);
    if (seen[k]++)
        return dl_fail(DL_ERR_FORMAT, "%s: the header has the key '%s' a second time at byte %zu", s->name,
                       keys[k].name, s->head + (size_t)(begin - s->text));
    DL_TRY(take(s, ':', "':' behind a key"));
    return keys[k].read(s);
}

static dl_status read_dict(scan *s) {
    int seen[NKEYS] = {0};
    DL_TRY(take(s, '{', "'{'"));
    while (peek(s) != '}') {
        DL_TRY(read_pair(s, seen));
        if (!skip(s, ',')) break;
    }
    DL_TRY(take(s, '}', "',' or '}'"));
    peek(s);
    if (s->p < s->end) return expected_at(s, s->p, "only blanks behind '}'");
    for (int k = 0; k < NKEYS; k++)
        if (!seen[k]) return dl_fail(DL_ERR_FORMAT, "%s: the header has no %s", s->name, keys[k].name);
    return DL_OK;
}

static dl_status read_text(scan *s) {
    dl_npy_header *h = s->h;
    int64_t numel = 0;
    DL_TRY(read_dict(s));
    DL_TRY(dl_shape_check(h->ndim, h->shape, &numel));
    if (__builtin_mul_overflow((size_t)numel, (size_t)h->element.size, &h->bytes))
        return dl_fail(DL_ERR_FORMAT, "%s: the header claims more elements than a file can hold", s->name);
    return DL_OK;
}

/* Bytes before the header's text, and of the text; from the first 12 bytes of a file. */
static dl_status read_lengths(const char *name, const unsigned char *p, uint64_t size, size_t *head, size_t *len) {
    if (size < 10 || memcmp(p, "\x93NUMPY", 6)) {
        DL_TRY(dl_format_not_other(name, DL_FORMAT_NPY, p, size < 12 ? (size_t)size : 12));
        return dl_fail(DL_ERR_FORMAT, "%s: not a .npy file", name);
    }
    *head = p[6] == 1 ? 10 : 12;
    *len = p[8] | (size_t)p[9] << 8;
    if (p[6] < 1 || p[6] > 3 || p[7])
        return dl_fail(DL_ERR_FORMAT, "%s: version %d.%d of .npy is not supported", name, p[6], p[7]);
    if (size < *head) return dl_fail(DL_ERR_FORMAT, "%s: the file is cut off", name);
    if (p[6] > 1) *len |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (*len > size - *head) return dl_fail(DL_ERR_FORMAT, "%s: the file is cut off", name);
    if (*len > MOST_TEXT)
        return dl_fail(DL_ERR_FORMAT, "%s: the header has %zu bytes, more than the %d that are read", name, *len,
                       MOST_TEXT);
    return DL_OK;
}

dl_status dl_npy_read_header(const char *name, uint64_t size, dl_npy_reader *read, void *ctx, dl_npy_header *h) {
    unsigned char first[12] = {0};
    size_t head = 0, len = 0;
    *h = (dl_npy_header){0};
    DL_TRY(read(ctx, 0, first, size < sizeof first ? (size_t)size : sizeof first));
    DL_TRY(read_lengths(name, first, size, &head, &len));
    char *text = malloc(len + 1);
    if (!text) return dl_fail(DL_ERR_MEMORY, "no memory for the header of '%s'", name);
    dl_status st = read(ctx, head, text, len);
    if (st == DL_OK) st = read_text(&(scan){name, text, text, text + len, head, h});
    free(text);
    h->at = head + len;
    if (st != DL_OK || size - h->at == h->bytes) return st;
    return dl_fail(DL_ERR_FORMAT, "%s: %s of elements of %d bytes takes %zu bytes, the file has %llu", name,
                   dl_shape_text(h->ndim, h->shape), h->element.size, h->bytes, (unsigned long long)(size - h->at));
}
