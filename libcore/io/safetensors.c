/* Safetensors: 8 bytes with the length of a JSON header, the header, then the tensors' bytes without gaps.
 * Format: https://huggingface.co/docs/safetensors. What is not exactly so is refused with the reason. */
#include "io/safetensors.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "io/atomic.h"

enum { MAX_HEADER = 100000000 }; /* the limit of the reference reader */

static const struct {
    const char *name;
    dl_dtype dtype;
} dtypes[] = {
    {"BOOL", DL_BOOL}, {"U8", DL_U8},     {"I32", DL_I32}, {"I64", DL_I64},
    {"F16", DL_F16},   {"BF16", DL_BF16}, {"F32", DL_F32}, {"F64", DL_F64},
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

static const char *dtype_word(dl_dtype t) {
    for (int i = 0; i < NDTYPES; i++)
        if (dtypes[i].dtype == t) return dtypes[i].name;
    return "?";
}

/* ---------------------------------------------------------------- reading */

typedef struct entry {
    char *name;
    dl_dtype dtype;
    int ndim;
    long shape[DL_MAX_DIM];
    size_t begin, end;
    dl_tensor *tensor;
} entry;

struct dl_tensor_file {
    long n, nmeta;
    entry *e;    /* in the order of their bytes */
    char **meta; /* key, value, key, value, ... */
};

void dl_tensor_file_free(dl_tensor_file *f) {
    if (!f) return;
    for (long i = 0; i < f->n; i++) {
        free(f->e[i].name);
        dl_unref(f->e[i].tensor);
    }
    for (long i = 0; i < 2 * f->nmeta; i++) free(f->meta[i]);
    free(f->e);
    free(f->meta);
    free(f);
}

long dl_tensor_file_count(const dl_tensor_file *f) { return f->n; }
const char *dl_tensor_file_name(const dl_tensor_file *f, long i) { return i >= 0 && i < f->n ? f->e[i].name : NULL; }
dl_tensor *dl_tensor_file_at(const dl_tensor_file *f, long i) { return i >= 0 && i < f->n ? f->e[i].tensor : NULL; }

dl_tensor *dl_tensor_file_find(const dl_tensor_file *f, const char *name) {
    for (long i = 0; i < f->n; i++)
        if (!strcmp(f->e[i].name, name)) return f->e[i].tensor;
    return NULL;
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
        if (!strcmp(dtypes[i].name, word)) return e->dtype = dtypes[i].dtype, DL_OK;
    return dl_fail_hint(DL_ERR_DTYPE, "convert it to F32 or I64 before saving",
                        "%s: tensor '%s' has dtype %.20s, which is not supported", file, e->name, word);
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
            return dl_fail(DL_ERR_FORMAT, "%s: tensor '%s' has a size that is no number of elements", file, e->name);
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
    size_t want = (size_t)numel * (size_t)dl_dtype_size(e->dtype);
    if (e->end - e->begin != want) {
        char shape[160];
        return dl_fail(DL_ERR_FORMAT, "%s: tensor '%s', %s%s, takes %zu bytes, but %zu are set aside for it", file,
                       name, dl_dtype_name(e->dtype), dl_shape_text(e->ndim, e->shape, shape, sizeof shape), want,
                       e->end - e->begin);
    }
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

static dl_status read_tensors(dl_tensor_file *f, const char *data, int device) {
    for (long i = 0; i < f->n; i++) {
        entry *e = &f->e[i];
        e->tensor = dl_tensor_from(e->ndim, e->shape, e->dtype, device, data + e->begin);
        if (!e->tensor) return dl_error_last() ? dl_error_last()->code : DL_ERR_MEMORY;
        DL_TRY(dl_tensor_set_name(e->tensor, e->name));
    }
    return DL_OK;
}

dl_tensor_file *dl_safetensors_parse(const char *name, const void *data, size_t n, int device) {
    const unsigned char *p = data;
    uint64_t len = 0;
    json_error_t je;
    json_t *head = NULL;
    dl_tensor_file *f = NULL;
    if (n < 8) {
        dl_fail(DL_ERR_FORMAT, "%s: %zu bytes are too few for a safetensors file", name, n);
        goto fail;
    }
    for (int i = 7; i >= 0; i--) len = len << 8 | p[i];
    if (len > MAX_HEADER || len > n - 8) {
        dl_fail_hint(DL_ERR_FORMAT, "the file is cut off, or not a safetensors file",
                     "%s: the header should have %llu bytes, the file has %zu in all", name, (unsigned long long)len,
                     n);
        goto fail;
    }
    if (!(f = calloc(1, sizeof *f))) {
        dl_fail(DL_ERR_MEMORY, "no memory for the header of '%s'", name);
        goto fail;
    }
    head = json_loadb((const char *)p + 8, len, JSON_REJECT_DUPLICATES, &je);
    if (!head) {
        dl_fail(DL_ERR_FORMAT, "%s: the header is not valid JSON: %.100s (byte %d)", name, je.text, je.position);
        goto fail;
    }
    if (read_header(f, name, head, n - 8 - len) != DL_OK) goto fail;
    if (read_tensors(f, (const char *)p + 8 + len, device) != DL_OK) goto fail;
    json_decref(head);
    return f;
fail:
    json_decref(head);
    dl_tensor_file_free(f);
    return NULL;
}

dl_tensor_file *dl_safetensors_read(const char *path, int device) {
    dl_mapped m;
    if (dl_map_file(&m, path) != DL_OK) return NULL;
    dl_tensor_file *f = dl_safetensors_parse(path, m.data, m.n, device);
    dl_unmap_file(&m);
    return f;
}

/* ---------------------------------------------------------------- writing */

/* Larger element types first: every tensor is then aligned. The order given is kept within a type. */
static void order_tensors(long n, dl_tensor *const *t, long *order) {
    long k = 0;
    for (long size = 8; size >= 1; size /= 2)
        for (long i = 0; i < n; i++)
            if (dl_dtype_size(dl_dtype_of(t[i])) == size) order[k++] = i;
}

static json_t *describe(dl_tensor *t, size_t begin, size_t end) {
    json_t *shape = json_array();
    for (int i = 0; i < dl_ndim(t); i++) json_array_append_new(shape, json_integer(dl_shape(t)[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_word(dl_dtype_of(t)), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
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
    size_t bytes = (size_t)dl_numel(t) * (size_t)dl_dtype_size(dl_dtype_of(t));
    if (dl_is_contiguous(t) && dl_device_of(t) == 0) return dl_atomic_write(a, dl_data(t), bytes);
    void *copy = malloc(bytes ? bytes : 1);
    if (!copy) return dl_fail(DL_ERR_MEMORY, "no memory for a copy of %zu bytes", bytes);
    dl_status st = dl_read(t, copy);
    if (st == DL_OK) st = dl_atomic_write(a, copy, bytes);
    free(copy);
    return st;
}

dl_status dl_safetensors_write(const char *path, long n, const char *const *names, dl_tensor *const *tensors,
                               const char *const *meta) {
    long *order = malloc((size_t)(n + 1) * sizeof *order);
    if (!order) return dl_fail(DL_ERR_MEMORY, "no memory for %ld tensors", n);
    order_tensors(n, tensors, order);
    size_t len = 0;
    char *head = make_header(n, names, tensors, order, meta, &len);
    dl_atomic a = {.fd = -1};
    dl_status st = head ? dl_atomic_open(&a, path) : dl_error_last()->code;
    if (st == DL_OK) {
        unsigned char size[8];
        for (int i = 0; i < 8; i++) size[i] = (unsigned char)(len >> 8 * i);
        st = dl_atomic_write(&a, size, sizeof size);
    }
    if (st == DL_OK) st = dl_atomic_write(&a, head, len);
    for (long k = 0; k < n && st == DL_OK; k++) st = write_tensor(&a, tensors[order[k]]);
    if (st == DL_OK)
        st = dl_atomic_commit(&a);
    else
        dl_atomic_discard(&a);
    free(head);
    free(order);
    return st;
}
