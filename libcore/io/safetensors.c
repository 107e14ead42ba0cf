/* Safetensors: 8 bytes with the length of a JSON header, the header, then the tensors' bytes without gaps.
 * Format: https://huggingface.co/docs/safetensors. What is not exactly so is refused with the reason. */
#include "io/safetensors.h"
#include "core/scope.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "io/atomic.h"
#include "io/element.h"
#include "io/format.h"
#include "io/input.h"
#include "io/stored.h"

enum { MAX_HEADER = 100000000 }; /* the limit of the reference reader */

/* Of those that are read as one dtype the one that is written stands first. */
static const struct {
    const char *name;
    dl_element element;
} dtypes[] = {
    {"BOOL", {DL_E_BOOL, 1, false}},   {"U8", {DL_E_UINT, 1, false}},      {"I32", {DL_E_INT, 4, false}},
    {"I64", {DL_E_INT, 8, false}},     {"F16", {DL_E_FLOAT, 2, false}},    {"BF16", {DL_E_BFLOAT, 2, false}},
    {"F32", {DL_E_FLOAT, 4, false}},   {"F64", {DL_E_FLOAT, 8, false}},    {"I8", {DL_E_INT, 1, false}},
    {"I16", {DL_E_INT, 2, false}},     {"U16", {DL_E_UINT, 2, false}},     {"U32", {DL_E_UINT, 4, false}},
    {"U64", {DL_E_UINT, 8, false}},    {"F8_E4M3", {DL_E_E4M3, 1, false}}, {"F8_E5M2", {DL_E_E5M2, 1, false}},
    {"C64", {DL_E_COMPLEX, 8, false}},
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

static const char *dtype_word(dl_dtype t) {
    for (int i = 0; i < NDTYPES; i++)
        if (dl_element_dtype(dtypes[i].element) == (int)t) return dtypes[i].name;
    return NULL;
}

/* ---------------------------------------------------------------- reading */

typedef struct entry {
    char *name;
    const dl_element *element; /* NULL: of a dtype without a counterpart */
    char why[80];              /* not read, and why; "" */
    int ndim;
    long shape[DL_MAX_DIM];
    size_t begin, end;
    dl_tensor *tensor;
} entry;

struct dl_tensor_file {
    const char *format;
    long n, nmeta;
    long skipped;
    entry *e;    /* in the order of their bytes; those that were not read after the n others */
    char **meta; /* key, value, key, value, ... */
    bool is_value;
    dl_stored value; /* of a file that holds more than named tensors */
};

void dl_tensor_file_free(dl_tensor_file *f) {
    if (!f) return;
    for (long i = 0; i < f->n + f->skipped; i++) {
        free(f->e[i].name);
        dl_unref(f->e[i].tensor);
    }
    for (long i = 0; i < 2 * f->nmeta; i++) free(f->meta[i]);
    dl_stored_clear(&f->value);
    free(f->e);
    free(f->meta);
    free(f);
}

dl_tensor_file *dl_tensor_file_new(long most, const char *format) {
    dl_tensor_file *f = calloc(1, sizeof *f);
    if (f) f->format = format, f->e = calloc((size_t)most + 1, sizeof *f->e);
    if (f && f->e) return f;
    free(f);
    return dl_fail(DL_ERR_MEMORY, "no memory for a list of %ld tensors", most), NULL;
}

dl_status dl_tensor_file_add(dl_tensor_file *f, const char *name, dl_tensor *t) {
    if (!t) return dl_failed();
    entry *e = &f->e[f->n];
    memmove(e + 1, e, (size_t)f->skipped * sizeof *e);
    *e = (entry){.tensor = t, .name = strdup(name)};
    f->n++;
    if (!e->name) return dl_fail(DL_ERR_MEMORY, "no memory for the name of a tensor");
    return dl_tensor_set_name(t, name);
}

dl_status dl_tensor_file_leave_out(dl_tensor_file *f, const char *name) {
    dl_error err;
    if (!dl_error_take(&err)) return DL_ERR_MEMORY;
    if (err.code != DL_ERR_DTYPE) return dl_error_put(&err);
    entry *e = &f->e[f->n + f->skipped];
    *e = (entry){.name = strdup(name)};
    if (!e->name) return dl_fail(DL_ERR_MEMORY, "no memory for the name of a tensor");
    f->skipped++;
    snprintf(e->why, sizeof e->why, "%.*s", (int)sizeof e->why - 1, err.message);
    return DL_OK;
}

dl_tensor_file *dl_tensor_file_of(long n, const char *const *names, dl_tensor *const *tensors) {
    dl_tensor_file *f = dl_tensor_file_new(n, "memory");
    for (long i = 0; f && i < n; i++) {
        entry *e = &f->e[f->n++];
        e->tensor = dl_ref(tensors[i]);
        if ((e->name = strdup(names[i]))) continue;
        dl_tensor_file_free(f);
        f = NULL;
        dl_fail(DL_ERR_MEMORY, "no memory for the name of a tensor");
    }
    return f;
}

void dl_tensor_file_keep(dl_tensor_file *f, dl_stored *v) {
    f->is_value = true, f->value = *v;
    *v = (dl_stored){0};
}

const dl_stored *dl_tensor_file_value(const dl_tensor_file *f) { return f->is_value ? &f->value : NULL; }
const char *dl_tensor_file_format(const dl_tensor_file *f) { return f->format; }
long dl_tensor_file_count(const dl_tensor_file *f) { return f->n; }
const char *dl_tensor_file_name(const dl_tensor_file *f, long i) { return i >= 0 && i < f->n ? f->e[i].name : NULL; }
dl_tensor *dl_tensor_file_at(const dl_tensor_file *f, long i) { return i >= 0 && i < f->n ? f->e[i].tensor : NULL; }

dl_tensor *dl_tensor_file_find(const dl_tensor_file *f, const char *name) {
    for (long i = 0; i < f->n; i++)
        if (!strcmp(f->e[i].name, name)) return f->e[i].tensor;
    return NULL;
}

const char *dl_tensor_file_skipped(const dl_tensor_file *f, long i, const char **why) {
    if (i < 0 || i >= f->skipped) return NULL;
    const entry *e = &f->e[f->n + i];
    if (why) *why = e->why;
    return e->name;
}

const char *dl_tensor_file_meta(const dl_tensor_file *f, const char *key) {
    for (long i = 0; i < f->nmeta; i++)
        if (!strcmp(f->meta[2 * i], key)) return f->meta[2 * i + 1];
    return NULL;
}

static dl_status read_dtype(const char *file, entry *e, const json_t *v) {
    const char *word = json_string_value(v);
    if (!word) return dl_fail(DL_ERR_FORMAT, "%s: tensor '%s' has no dtype", file, e->name);
    for (int i = 0; i < NDTYPES; i++)
        if (!strcmp(dtypes[i].name, word)) return e->element = &dtypes[i].element, DL_OK;
    snprintf(e->why, sizeof e->why, "dtype %.20s has no counterpart here", word);
    return DL_OK;
}

static dl_status read_shape(const char *file, entry *e, const json_t *v, int64_t *numel) {
    if (!json_is_array(v)) return dl_fail(DL_ERR_FORMAT, "%s: tensor '%s' has no shape", file, e->name);
    size_t n = json_array_size(v);
    if (n > DL_MAX_DIM)
        return dl_fail(DL_ERR_FORMAT, "%s: tensor '%s' has %zu dimensions; at most %d are supported", file, e->name, n,
                       DL_MAX_DIM);
    e->ndim = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *d = json_array_get(v, i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return dl_fail(DL_ERR_FORMAT, "%s: tensor '%s' has a size that is not a number of elements", file, e->name);
        e->shape[i] = (long)json_integer_value(d);
    }
    return dl_shape_check(e->ndim, e->shape, numel);
}

static dl_status read_entry(const char *file, entry *e, const char *name, const json_t *v, size_t room) {
    e->name = strdup(name);
    if (!e->name) return dl_fail(DL_ERR_MEMORY, "no memory for the header of '%s'", file);
    if (!json_is_object(v)) return dl_fail(DL_ERR_FORMAT, "%s: tensor '%s' is not described by an object", file, name);
    DL_TRY(read_dtype(file, e, json_object_get(v, "dtype")));
    int64_t numel = 0;
    DL_TRY(read_shape(file, e, json_object_get(v, "shape"), &numel));
    const json_t *off = json_object_get(v, "data_offsets");
    const json_t *b = json_array_get(off, 0), *end = json_array_get(off, 1);
    if (json_array_size(off) != 2 || !json_is_integer(b) || !json_is_integer(end))
        return dl_fail(DL_ERR_FORMAT, "%s: tensor '%s' has no data_offsets [begin, end]", file, name);
    long long from = json_integer_value(b), to = json_integer_value(end);
    if (from < 0 || to < from || (size_t)to > room)
        return dl_fail(DL_ERR_FORMAT, "%s: the bytes [%lld, %lld) of tensor '%s' are not within the %zu of the file",
                       file, from, to, name, room);
    e->begin = (size_t)from, e->end = (size_t)to;
    size_t want = e->element ? (size_t)numel * (size_t)e->element->size : e->end - e->begin;
    if (e->end - e->begin != want)
        return dl_fail(DL_ERR_FORMAT, "%s: tensor '%s', %s%s, takes %zu bytes, but %zu are set aside for it", file,
                       name, json_string_value(json_object_get(v, "dtype")), dl_shape_text(e->ndim, e->shape), want,
                       e->end - e->begin);
    return DL_OK;
}

static dl_status read_meta(dl_tensor_file *f, const char *file, json_t *meta) {
    if (!meta) return DL_OK;
    if (!json_is_object(meta)) return dl_fail(DL_ERR_FORMAT, "%s: __metadata__ is not an object", file);
    f->meta = calloc(2 * json_object_size(meta) + 1, sizeof *f->meta);
    if (!f->meta) return dl_fail(DL_ERR_MEMORY, "no memory for the header of '%s'", file);
    const char *key;
    json_t *v;
    json_object_foreach(meta, key, v) {
        if (!json_is_string(v)) return dl_fail(DL_ERR_FORMAT, "%s: metadata '%s' is not a string", file, key);
        char **pair = f->meta + 2 * f->nmeta++;
        pair[0] = strdup(key), pair[1] = strdup(json_string_value(v));
        if (!pair[0] || !pair[1]) return dl_fail(DL_ERR_MEMORY, "no memory for the header of '%s'", file);
    }
    return DL_OK;
}

static int by_place(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Tensors must follow each other without overlap or gap, up to the end of the file. */
static dl_status check_places(dl_tensor_file *f, const char *file, size_t room) {
    if (f->n) qsort(f->e, (size_t)f->n, sizeof *f->e, by_place);
    size_t at = 0;
    for (long i = 0; i < f->n; i++) {
        if (f->e[i].begin != at)
            return dl_fail(DL_ERR_FORMAT, "%s: tensor '%s' begins at byte %zu, %s the end of the one before at %zu",
                           file, f->e[i].name, f->e[i].begin, f->e[i].begin < at ? "before" : "after", at);
        at = f->e[i].end;
    }
    if (at != room) return dl_fail(DL_ERR_FORMAT, "%s: the tensors take %zu bytes, the file has %zu", file, at, room);
    return DL_OK;
}

static dl_status read_header(dl_tensor_file *f, const char *file, json_t *head, size_t room) {
    if (!json_is_object(head)) return dl_fail(DL_ERR_FORMAT, "%s: the header is not an object", file);
    DL_TRY(read_meta(f, file, json_object_get(head, "__metadata__")));
    f->e = calloc(json_object_size(head) + 1, sizeof *f->e);
    if (!f->e) return dl_fail(DL_ERR_MEMORY, "no memory for the header of '%s'", file);
    const char *key;
    json_t *v;
    json_object_foreach(head, key, v) {
        if (strcmp(key, "__metadata__")) DL_TRY(read_entry(file, &f->e[f->n++], key, v, room));
    }
    return check_places(f, file, room);
}

/* Numbers that no dtype here can hold are no reason to do without the other tensors. */
static dl_status read_tensor(entry *e, const dl_input *in, uint64_t data, int device) {
    if (!e->element) return DL_OK;
    dl_input_cursor bytes = {in, data + e->begin};
    e->tensor = dl_element_tensor(*e->element, e->ndim, e->shape, device, dl_input_next, &bytes);
    if (e->tensor) return dl_tensor_set_name(e->tensor, e->name);
    dl_error err;
    if (!dl_error_take(&err)) return DL_ERR_MEMORY;
    if (err.code != DL_ERR_DTYPE) return dl_error_put(&err);
    snprintf(e->why, sizeof e->why, "%.79s", err.message);
    return DL_OK;
}

static dl_status read_tensors(dl_tensor_file *f, const dl_input *in, uint64_t data, int device) {
    long all = f->n, n = 0;
    for (long i = 0; i < all; i++) DL_TRY(read_tensor(&f->e[i], in, data, device));
    entry *sorted = calloc((size_t)all + 1, sizeof *sorted);
    if (!sorted) return dl_fail(DL_ERR_MEMORY, "no memory for %ld tensors", all);
    for (int read = 1; read >= 0; read--)
        for (long i = 0; i < all; i++)
            if (!f->e[i].tensor == !read) sorted[n++] = f->e[i];
    free(f->e);
    f->e = sorted;
    for (f->n = 0; f->n < all && f->e[f->n].tensor;) f->n++;
    f->skipped = all - f->n;
    return DL_OK;
}

/* The header as JSON; *data is where the tensors' bytes begin. NULL on failure. */
static json_t *load_header(const dl_input *s, uint64_t *data) {
    unsigned char first[DL_FORMAT_FIRST] = {0};
    uint64_t len = 0;
    size_t n = s->size < sizeof first ? (size_t)s->size : sizeof first;
    if (dl_input_read(s, 0, first, n) != DL_OK) return NULL;
    for (int i = 7; i >= 0; i--) len = len << 8 | first[i];
    if (n < 8) return dl_fail(DL_ERR_FORMAT, "%s: %zu bytes are too few for a safetensors file", s->name, n), NULL;
    if (len > MAX_HEADER || len > s->size - 8) {
        if (dl_format_not_other(s->name, DL_FORMAT_SAFETENSORS, first, n) != DL_OK) return NULL;
        dl_fail_hint(DL_ERR_FORMAT, "the file is cut off, or not a safetensors file",
                     "%s: the header should have %llu bytes, the file has %llu in all", s->name,
                     (unsigned long long)len, (unsigned long long)s->size);
        return NULL;
    }
    char *text = dl_memory_alloc((long)len + 1, 1);
    if (!text) return NULL;
    json_error_t je;
    json_t *head = NULL;
    if (dl_input_read(s, 8, text, len) == DL_OK && !(head = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je)))
        dl_fail(DL_ERR_FORMAT, "%s: the header is not valid JSON: %.100s (byte %d)", s->name, je.text, je.position);
    free(text);
    *data = 8 + len;
    return head;
}

static dl_tensor_file *from_source(const dl_input *s, int device) {
    uint64_t data = 0;
    json_t *head = load_header(s, &data);
    if (!head) return NULL;
    dl_tensor_file *f = calloc(1, sizeof *f);
    dl_status st = f ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for the header of '%s'", s->name);
    if (st == DL_OK) f->format = dl_format_name(DL_FORMAT_SAFETENSORS);
    if (st == DL_OK) st = read_header(f, s->name, head, (size_t)(s->size - data));
    if (st == DL_OK) st = read_tensors(f, s, data, device);
    json_decref(head);
    if (st == DL_OK) return f;
    dl_tensor_file_free(f);
    return NULL;
}

dl_tensor_file *dl_safetensors_parse(const char *name, const void *data, size_t n, int device) {
    dl_input s = dl_input_memory(name, data, n);
    return from_source(&s, device);
}

dl_tensor_file *dl_safetensors_read(const char *path, int device) {
    dl_input s;
    if (dl_input_open(&s, path) != DL_OK) return NULL;
    dl_tensor_file *f = from_source(&s, device);
    dl_input_close(&s);
    return f;
}

/* ---------------------------------------------------------------- writing */

/* Larger element types first: every tensor is then aligned. The order given is kept within a type. */
static void order_tensors(long n, dl_tensor *const *t, long *order) {
    long k = 0;
    for (long size = 16; size >= 1; size /= 2)
        for (long i = 0; i < n; i++)
            if (dl_dtype_size(dl_dtype_of(t[i])) == size) order[k++] = i;
}

static json_t *describe(dl_tensor *t, size_t begin, size_t end) {
    json_t *shape = json_array();
    for (int i = 0; i < dl_ndim(t); i++) json_array_append_new(shape, json_integer(dl_shape(t)[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_word(dl_dtype_of(t)), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

static dl_status check_name(const char *name, long i) {
    json_t *text = json_string(name);
    json_decref(text);
    if (!text) return dl_fail(DL_ERR_NAME, "the name of tensor %ld to be saved is not valid UTF-8", i);
    if (strcmp(name, "__metadata__")) return DL_OK;
    return dl_fail_hint(DL_ERR_NAME, "give it another name",
                        "safetensors files use the name '__metadata__' themselves; no tensor can have it");
}

/* The header as text, padded so that the tensors' bytes begin at a multiple of 8. */
static char *make_header(long n, const char *const *names, dl_tensor *const *t, const long *order,
                         const char *const *meta, size_t *len) {
    json_t *head = json_object(), *m = meta && meta[0] ? json_object() : NULL;
    char *text = NULL, *padded = NULL;
    int failed = !head;
    for (long i = 0; m && meta[i]; i += 2) failed |= json_object_set_new(m, meta[i], json_string(meta[i + 1]));
    if (m) failed |= json_object_set_new(head, "__metadata__", m);
    size_t at = 0;
    for (long k = 0; k < n && !failed; k++) {
        long i = order[k];
        size_t bytes = (size_t)dl_numel(t[i]) * (size_t)dl_dtype_size(dl_dtype_of(t[i]));
        if (!dtype_word(dl_dtype_of(t[i]))) {
            dl_fail_hint(DL_ERR_DTYPE, "convert it with .to(c64), or save its view_as_real",
                         "tensor '%s' is %s, which safetensors files do not have", names[i],
                         dl_dtype_name(dl_dtype_of(t[i])));
            goto out;
        }
        if (check_name(names[i], i) != DL_OK) goto out;
        if (json_object_get(head, names[i])) {
            dl_fail(DL_ERR_NAME, "two tensors to be saved have the name '%s'", names[i]);
            goto out;
        }
        failed = json_object_set_new(head, names[i], describe(t[i], at, at + bytes));
        at += bytes;
    }
    text = failed ? NULL : json_dumps(head, JSON_COMPACT);
    if (!text) {
        dl_fail(DL_ERR_FORMAT, "the header cannot be written: names and metadata must be UTF-8");
        goto out;
    }
    *len = (strlen(text) + 7) & ~(size_t)7;
    padded = malloc(*len);
    if (!padded) {
        dl_fail(DL_ERR_MEMORY, "no memory for a header of %zu bytes", *len);
        goto out;
    }
    memset(padded, ' ', *len);
    memcpy(padded, text, strlen(text));
out:
    free(text);
    json_decref(head);
    return padded;
}

static dl_status write_tensor(dl_atomic *a, dl_tensor *t) {
    size_t bytes = (size_t)dl_numel(t) * dl_esize(t);
    if (dl_is_contiguous(t) && dl_device_of(t) == 0) return dl_atomic_write(a, dl_data(t), bytes);
    DL_FREED void *copy = dl_element_copy(t, &bytes);
    if (!copy) return dl_failed();
    return dl_atomic_write(a, copy, bytes);
}

dl_status dl_safetensors_write(const char *path, long n, const char *const *names, dl_tensor *const *tensors,
                               const char *const *meta) {
    long *order = malloc((size_t)(n + 1) * sizeof *order);
    if (!order) return dl_fail(DL_ERR_MEMORY, "no memory for %ld tensors", n);
    order_tensors(n, tensors, order);
    size_t len = 0;
    char *head = make_header(n, names, tensors, order, meta, &len);
    dl_atomic a = {.fd = -1};
    dl_status st = head ? dl_atomic_open(&a, path) : dl_failed();
    if (st == DL_OK) {
        unsigned char size[8];
        for (int i = 0; i < 8; i++) size[i] = (unsigned char)(len >> 8 * i);
        st = dl_atomic_write(&a, size, sizeof size);
    }
    if (st == DL_OK) st = dl_atomic_write(&a, head, len);
    for (long k = 0; k < n && st == DL_OK; k++) st = write_tensor(&a, tensors[order[k]]);
    st = dl_atomic_finish(&a, st);
    free(head);
    free(order);
    return st;
}
