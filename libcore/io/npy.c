/* NumPy's .npy files: a magic word, a version, a dictionary written in Python's syntax, then the elements.
 * Format: numpy.lib.format, versions 1.0 to 3.0. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "io/atomic.h"
#include "io/format.h"
#include "io/npy.h"
#include "io/input.h"

/* What is written. */
static const struct {
    const char *descr;
    dl_dtype dtype;
} dtypes[] = {
    {"|b1", DL_BOOL}, {"|u1", DL_U8},  {"<i4", DL_I32}, {"<i8", DL_I64},
    {"<f2", DL_F16},  {"<f4", DL_F32}, {"<f8", DL_F64},
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

/* Letters of NumPy's kinds of elements that are read. */
static const char kinds[] = "buif";
static const dl_element_kind kind_of[] = {DL_E_BOOL, DL_E_UINT, DL_E_INT, DL_E_FLOAT};

typedef dl_npy_header header;

/* What follows "'key':" in the dictionary, blanks skipped; NULL when the key is missing. `text` ends in NUL. */
static const char *value_of(const char *text, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *p = strstr(text, quoted);
    if (!p) return NULL;
    p += strlen(quoted);
    while (isspace((unsigned char)*p)) p++;
    if (*p++ != ':') return NULL;
    while (isspace((unsigned char)*p)) p++;
    return p;
}

static dl_status read_descr(const char *name, const char *text, header *h) {
    const char *p = value_of(text, "descr");
    if (!p || *p != '\'') return dl_fail(DL_ERR_FORMAT, "%s: the header names no simple dtype", name);
    int n = (int)strcspn(p + 1, "'");
    const char *kind = n == 3 && strchr("<>=|", p[1]) ? strchr(kinds, p[2]) : NULL;
    if (kind && isdigit((unsigned char)p[3])) {
        h->element = (dl_element){kind_of[kind - kinds], p[3] - '0', p[1] == '>'};
        if (dl_element_dtype(h->element) >= 0) return DL_OK;
    }
    return dl_fail_hint(DL_ERR_DTYPE, "in Python: numpy.save(file, a.astype('float32'))",
                        "%s: dtype '%.*s' is not supported", name, n < 20 ? n : 20, p + 1);
}

static dl_status read_shape(const char *name, const char *text, header *h) {
    const char *p = value_of(text, "shape");
    if (!p || *p++ != '(') return dl_fail(DL_ERR_FORMAT, "%s: the header has no shape", name);
    for (;;) {
        while (isspace((unsigned char)*p) || *p == ',') p++;
        if (*p == ')') return DL_OK;
        char *end;
        long v = strtol(p, &end, 10);
        if (end == p || v < 0) return dl_fail(DL_ERR_FORMAT, "%s: the shape in the header is not one", name);
        if (h->ndim == DL_MAX_DIM)
            return dl_fail(DL_ERR_FORMAT, "%s: arrays of more than %d dimensions are not supported", name, DL_MAX_DIM);
        h->shape[h->ndim++] = v;
        p = end;
    }
}

/* Bytes before the header's text, and of the text; from the first 12 bytes of a file. */
static dl_status read_lengths(const char *name, const unsigned char *p, uint64_t size, size_t *head, size_t *len) {
    if (size < 10 || memcmp(p, "\x93NUMPY", 6)) {
        DL_TRY(dl_format_not_other(name, DL_FORMAT_NPY, p, size < 12 ? (size_t)size : 12));
        return dl_fail(DL_ERR_FORMAT, "%s: not a .npy file", name);
    }
    *head = p[6] == 1 ? 10 : 12;
    *len = p[8] | (size_t)p[9] << 8;
    if (p[6] < 1 || p[6] > 3) return dl_fail(DL_ERR_FORMAT, "%s: version %d of .npy is not supported", name, p[6]);
    if (size < *head) return dl_fail(DL_ERR_FORMAT, "%s: the file is cut off", name);
    if (p[6] > 1) *len |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (*len > size - *head || *len > 1u << 20) return dl_fail(DL_ERR_FORMAT, "%s: the file is cut off", name);
    return DL_OK;
}

static dl_status read_text(const char *name, const char *text, header *h) {
    const char *order = value_of(text, "fortran_order");
    h->fortran = order && *order == 'T';
    DL_TRY(read_descr(name, text, h));
    DL_TRY(read_shape(name, text, h));
    int64_t numel = 0;
    DL_TRY(dl_shape_check(h->ndim, h->shape, &numel));
    if (__builtin_mul_overflow((size_t)numel, (size_t)h->element.size, &h->bytes))
        return dl_fail(DL_ERR_FORMAT, "%s: the header claims more elements than a file can hold", name);
    return DL_OK;
}

dl_status dl_npy_read_header(const char *name, uint64_t size, dl_npy_reader *read, void *ctx, dl_npy_header *h) {
    unsigned char first[12] = {0};
    size_t head = 0, len = 0;
    *h = (header){0};
    DL_TRY(read(ctx, 0, first, size < sizeof first ? (size_t)size : sizeof first));
    DL_TRY(read_lengths(name, first, size, &head, &len));
    char *text = malloc(len + 1);
    if (!text) return dl_fail(DL_ERR_MEMORY, "no memory for the header of '%s'", name);
    dl_status st = read(ctx, head, text, len);
    text[len] = 0;
    if (st == DL_OK) st = read_text(name, text, h);
    free(text);
    h->at = head + len;
    if (st != DL_OK || size - h->at == h->bytes) return st;
    char shape[160];
    return dl_fail(DL_ERR_FORMAT, "%s: %s of elements of %d bytes takes %zu bytes, the file has %llu", name,
                   dl_shape_text(h->ndim, h->shape, shape, sizeof shape), h->element.size, h->bytes,
                   (unsigned long long)(size - h->at));
}

void dl_npy_stored_shape(const dl_npy_header *h, long *shape) {
    for (int i = 0; i < h->ndim; i++) shape[i] = h->shape[h->fortran ? h->ndim - 1 - i : i];
}

dl_tensor *dl_npy_turn(const dl_npy_header *h, dl_tensor *raw) {
    long dims[DL_MAX_DIM];
    if (!raw || !h->fortran || h->ndim < 2) return raw;
    for (int i = 0; i < h->ndim; i++) dims[i] = h->ndim - 1 - i;
    dl_tensor *turned = dl_permute(raw, dims, h->ndim), *t = turned ? dl_contiguous(turned) : NULL;
    dl_unref(turned);
    dl_unref(raw);
    return t;
}

static dl_status read_source(void *ctx, uint64_t at, void *to, size_t n) { return dl_input_read(ctx, at, to, n); }

static dl_tensor *from_source(dl_input *s, int device) {
    header h;
    long shape[DL_MAX_DIM];
    if (dl_npy_read_header(s->name, s->size, read_source, s, &h) != DL_OK) return NULL;
    dl_npy_stored_shape(&h, shape);
    dl_input_cursor elements = {s, h.at};
    return dl_npy_turn(&h, dl_element_tensor(h.element, h.ndim, shape, device, dl_input_next, &elements));
}

dl_tensor *dl_npy_parse(const char *name, const void *bytes, size_t n, int device) {
    dl_input s = dl_input_memory(name, bytes, n);
    return from_source(&s, device);
}

dl_tensor *dl_npy_read(const char *path, int device) {
    dl_input s;
    if (dl_input_open(&s, path) != DL_OK) return NULL;
    dl_tensor *t = from_source(&s, device);
    dl_input_close(&s);
    return t;
}

/* ---------------------------------------------------------------- writing */

static int header_text(const dl_tensor *t, const char *descr, char *out, size_t size) {
    int n = snprintf(out, size, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < dl_ndim(t); i++)
        n += snprintf(out + n, size - (size_t)n, "%ld%s", dl_shape(t)[i],
                      dl_ndim(t) == 1      ? ","
                      : i + 1 < dl_ndim(t) ? ", "
                                           : "");
    n += snprintf(out + n, size - (size_t)n, "), }");
    while ((10 + n + 1) % 64) out[n++] = ' '; /* elements begin at a multiple of 64 */
    out[n++] = '\n';
    return n;
}

dl_status dl_npy_make_header(const dl_tensor *t, char *out, size_t *n) {
    const char *descr = NULL;
    for (int i = 0; i < NDTYPES; i++)
        if (dtypes[i].dtype == dl_dtype_of(t)) descr = dtypes[i].descr;
    if (!descr)
        return dl_fail_hint(DL_ERR_DTYPE, "convert it to f32 first", ".npy has no dtype %s",
                            dl_dtype_name(dl_dtype_of(t)));
    int len = header_text(t, descr, out + 10, DL_NPY_HEAD - 10);
    memcpy(out, "\x93NUMPY\1\0", 8);
    out[8] = (char)len, out[9] = (char)(len >> 8);
    *n = 10 + (size_t)len;
    return DL_OK;
}

dl_status dl_npy_write(const char *path, dl_tensor *t) {
    char head[DL_NPY_HEAD];
    size_t len;
    if (!t) return dl_fail_null("the tensor to write");
    DL_TRY(dl_npy_make_header(t, head, &len));
    size_t bytes = (size_t)dl_numel(t) * (size_t)dl_dtype_size(dl_dtype_of(t));
    void *copy = dl_memory_alloc((long)bytes, 1);
    if (!copy) return DL_ERR_MEMORY;
    dl_atomic a = {.fd = -1};
    dl_status st = dl_read(t, copy);
    if (st == DL_OK) st = dl_atomic_open(&a, path);
    if (st == DL_OK) st = dl_atomic_write(&a, head, len);
    if (st == DL_OK) st = dl_atomic_write(&a, copy, bytes);
    if (st == DL_OK)
        st = dl_atomic_commit(&a);
    else
        dl_atomic_discard(&a);
    free(copy);
    return st;
}
