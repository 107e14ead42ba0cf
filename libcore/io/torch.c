/* PyTorch's files: a pickle of what was saved, in which tensors are views of numbered storages beside it. They lie in
 * a ZIP archive, NAME/data.pkl and NAME/data/0, 1, ... (torch/serialization.py); before 1.6 one after the other. */
#include "io/torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "io/format.h"
#include "io/pickle/pickle_value.h"

/* ---------------------------------------------------------------- tensors */

static const struct {
    const char *storage, *dtype;
    dl_element element;
} types[] = {
    {"FloatStorage", "float32", {DL_E_FLOAT, 4, false}},
    {"DoubleStorage", "float64", {DL_E_FLOAT, 8, false}},
    {"HalfStorage", "float16", {DL_E_FLOAT, 2, false}},
    {"BFloat16Storage", "bfloat16", {DL_E_BFLOAT, 2, false}},
    {"LongStorage", "int64", {DL_E_INT, 8, false}},
    {"IntStorage", "int32", {DL_E_INT, 4, false}},
    {"ShortStorage", "int16", {DL_E_INT, 2, false}},
    {"CharStorage", "int8", {DL_E_INT, 1, false}},
    {"ByteStorage", "uint8", {DL_E_UINT, 1, false}},
    {"BoolStorage", "bool", {DL_E_BOOL, 1, false}},
    {"ComplexFloatStorage", "complex64", {DL_E_COMPLEX, 8, false}},
    {"ComplexDoubleStorage", "complex128", {DL_E_COMPLEX, 16, false}},
    {"", "uint16", {DL_E_UINT, 2, false}},
    {"", "uint32", {DL_E_UINT, 4, false}},
    {"", "uint64", {DL_E_UINT, 8, false}},
    {"", "float8_e4m3fn", {DL_E_E4M3, 1, false}},
    {"", "float8_e5m2", {DL_E_E5M2, 1, false}},
};
enum { NTYPES = sizeof types / sizeof *types };

static dl_status no_dtype(const dl_pickle_reader *r, const dl_pickle_node *x) {
    char what[160];
    dl_pickle_global_text(x, what, sizeof what);
    return dl_fail_hint(DL_ERR_DTYPE, "in Python, convert it before torch.save, such as by view_as_real",
                        "%s: byte %llu of the pickle: tensors of %s have no counterpart", r->name,
                        (unsigned long long)x->at, what);
}

/* What a reference says: ("storage", type, key, device, number of elements). */
typedef struct storage_ref {
    char key[64];
    dl_element element;
    long numel;
} storage_ref;

/* dtype: of a storage without type, or NULL. */
static dl_status read_ref(const dl_pickle_reader *r, const dl_pickle_node *x, const dl_pickle_node *dtype,
                          storage_ref *ref) {
    const dl_pickle_node *t = x->kind == DL_PICKLE_REF ? x->args : NULL;
    if (!t || t->kind != DL_PICKLE_TUPLE || t->n < 5 || !dl_pickle_is_text(t->item[0], "storage") ||
        t->item[2]->kind != DL_PICKLE_TEXT || t->item[4]->kind != DL_PICKLE_INT || t->item[4]->i < 0)
        return dl_pickle_bad(r, x, "a tensor does not say where its elements are");
    if (t->item[2]->n >= sizeof ref->key) return dl_pickle_bad(r, x, "the name of a storage is too long");
    snprintf(ref->key, sizeof ref->key, "%.*s", (int)t->item[2]->n, t->item[2]->text);
    ref->numel = (long)t->item[4]->i;
    const dl_pickle_node *type = dtype ? dtype : t->item[1];
    for (int i = 0; i < NTYPES; i++) {
        if (!dl_pickle_is_global(type, "torch", dtype ? types[i].dtype : types[i].storage)) continue;
        ref->element = types[i].element;
        if (dtype) ref->numel /= ref->element.size; /* an untyped storage counts bytes */
        return DL_OK;
    }
    return no_dtype(r, type);
}

/* Does a view of these sizes and strides stay within numel elements? */
static bool fits(int ndim, const long *shape, const long *stride, long offset, long numel) {
    long last = offset;
    for (int i = 0; i < ndim; i++) {
        long span;
        if (!shape[i]) return offset <= numel;
        if (__builtin_mul_overflow(shape[i] - 1, stride[i], &span) || __builtin_add_overflow(last, span, &last))
            return false;
    }
    return last < numel;
}

/* (storage, offset, sizes, strides, needs a gradient, hooks[, dtype]). The tensor is a view, as it was: tensors that
 * shared memory share it again. */
static dl_status make_view(dl_pickle_reader *r, const dl_pickle_node *x, const dl_pickle_node *dtype, dl_stored *out) {
    const dl_pickle_node *ref, *offset;
    storage_ref s;
    long shape[DL_MAX_DIM], stride[DL_MAX_DIM];
    int ndim = 0, nstride = 0;
    int64_t numel = 0;
    DL_TRY(dl_pickle_arg(r, x, 0, DL_PICKLE_REF, &ref));
    DL_TRY(dl_pickle_arg(r, x, 1, DL_PICKLE_INT, &offset));
    if (x->args->n < 4) return dl_pickle_bad(r, x, "a tensor has no sizes and strides");
    DL_TRY(dl_pickle_sizes(r, x->args->item[2], &ndim, shape));
    DL_TRY(dl_pickle_sizes(r, x->args->item[3], &nstride, stride));
    DL_TRY(read_ref(r, ref, dtype, &s));
    DL_TRY(dl_shape_check(ndim, shape, &numel));
    if (nstride != ndim || offset->i < 0 || !fits(ndim, shape, stride, (long)offset->i, s.numel))
        return dl_pickle_bad(r, x, "a tensor does not lie within its storage");
    DL_OWNED dl_tensor *base = r->storage ? r->storage(r, s.key, s.element, s.numel) : NULL;
    if (!base)
        return r->storage ? dl_failed() : dl_pickle_bad(r, x, "a tensor of PyTorch has its elements in another file");
    out->kind = DL_STORED_TENSOR;
    out->tensor = dl_view_new(base->st, dl_dtype_of(base), ndim, shape, stride, base->offset + (long)offset->i);
    return out->tensor ? DL_OK : dl_failed();
}

static dl_status make_tensor(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    return make_view(r, x, NULL, out);
}

static dl_status make_tensor_v3(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    const dl_pickle_node *dtype;
    DL_TRY(dl_pickle_arg(r, x, 6, DL_PICKLE_GLOBAL, &dtype));
    return make_view(r, x, dtype, out);
}

/* Parameter(tensor, ...), device(text) and Size(sizes) are their first argument here. */
static dl_status make_first(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    if (!x->args->n) return dl_pickle_bad(r, x, "a call has no argument");
    return dl_pickle_value(r, x->args->item[0], out);
}

const dl_pickle_row dl_pickle_torch_rows[] = {
    {"torch._utils", "_rebuild_tensor", make_tensor},
    {"torch._utils", "_rebuild_tensor_v2", make_tensor},
    {"torch._utils", "_rebuild_tensor_v3", make_tensor_v3},
    {"torch._utils", "_rebuild_parameter", make_first},
    {"torch._utils", "_rebuild_parameter_with_state", make_first},
    {"torch.nn.parameter", "Parameter", make_first},
    {"torch", "Size", make_first},
    {"torch", "device", make_first},
    {0},
};

/* ---------------------------------------------------------------- storages */

/* Storages that were read, each once. */
typedef struct storages {
    const dl_input *in;
    const dl_zip *z; /* NULL: before 1.6 */
    size_t prefix;   /* bytes of "NAME/" */
    bool big;
    struct storage {
        storage_ref ref;
        uint64_t at; /* before 1.6 */
        dl_tensor *t;
    } * list;
    long n, cap;
} storages;

static struct storage *find_storage(storages *s, const char *key) {
    for (long i = 0; i < s->n; i++)
        if (!strcmp(s->list[i].ref.key, key)) return &s->list[i];
    return NULL;
}

static void free_storages(storages *s) {
    for (long i = 0; i < s->n; i++) dl_unref(s->list[i].t);
    free(s->list);
}

static bool same_element(dl_element a, dl_element b) { return a.kind == b.kind && a.size == b.size; }

static dl_status next_bytes(void *ctx, void *to, size_t n) { return dl_zip_next(ctx, to, n); }

static dl_tensor *read_member(const dl_pickle_reader *r, const storages *s, const storage_ref *ref) {
    const dl_zip_member *m = NULL;
    for (long i = 0; i < s->z->n && !m; i++) {
        const char *name = s->z->members[i].name;
        if (strlen(name) > s->prefix + 5 && !memcmp(name + s->prefix, "data/", 5) &&
            !strcmp(name + s->prefix + 5, ref->key))
            m = &s->z->members[i];
    }
    if (!m || m->size != (uint64_t)ref->numel * (uint64_t)ref->element.size) {
        dl_fail_hint(DL_ERR_FORMAT, "the file is damaged, or was not written by PyTorch",
                     m ? "%s: the elements of storage '%s' take another number of bytes than the archive has"
                       : "%s: the archive has no storage '%s'",
                     r->name, ref->key);
        return NULL;
    }
    dl_zip_stream *bytes = dl_zip_begin(s->z, m);
    if (!bytes) return NULL;
    dl_tensor *t = dl_element_tensor(ref->element, 1, &ref->numel, r->device, next_bytes, bytes);
    if (!t) return dl_zip_drop(bytes), NULL;
    if (dl_zip_end(bytes) == DL_OK) return t;
    dl_unref(t);
    return NULL;
}

static dl_tensor *archived(dl_pickle_reader *r, const char *key, dl_element e, long numel) {
    storages *s = r->ctx;
    struct storage *known = find_storage(s, key);
    if (known && same_element(known->ref.element, e) && known->ref.numel == numel) return dl_ref(known->t);
    if (known) {
        dl_fail(DL_ERR_UNSUPPORTED, "%s: storage '%s' is used as two dtypes or sizes", r->name, key);
        return NULL;
    }
    struct storage new = {.ref = {.element = e, .numel = numel}};
    snprintf(new.ref.key, sizeof new.ref.key, "%s", key);
    new.ref.element.big = s->big &&e.size > 1;
    if (DL_LIST_ROOM(s->list, s->n, s->cap) != DL_OK || !(new.t = read_member(r, s, &new.ref))) return NULL;
    s->list[s->n++] = new;
    return dl_ref(new.t);
}

/* ---------------------------------------------------------------- archives */

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), k = strlen(end);
    return n >= k && !strcmp(name + n - k, end);
}

const dl_zip_member *dl_torch_pickle_of(const dl_zip *z) {
    for (long i = 0; i < z->n; i++)
        if (ends_with(z->members[i].name, "/data.pkl")) return &z->members[i];
    return NULL;
}

static uint8_t *read_whole(const dl_zip *z, const dl_zip_member *m) {
    dl_zip_stream *s = m->size < SIZE_MAX / 2 ? dl_zip_begin(z, m) : NULL;
    uint8_t *p = s ? dl_memory_alloc((long)m->size + 1, 1) : NULL;
    if (!p || dl_zip_next(s, p, (size_t)m->size) != DL_OK) {
        dl_zip_drop(s);
        free(p);
        return NULL;
    }
    if (dl_zip_end(s) == DL_OK) return p;
    free(p);
    return NULL;
}

/* TorchScript archives have code beside their data; a member says the order of bytes since 2.1. */
static dl_status look_around(storages *s) {
    for (long i = 0; i < s->z->n; i++) {
        const char *name = s->z->members[i].name;
        if (strlen(name) <= s->prefix) continue;
        if (!strncmp(name + s->prefix, "code/", 5))
            return dl_fail_hint(DL_ERR_UNSUPPORTED,
                                "in Python: torch.save(torch.jit.load(FILE).state_dict(), NAME) writes the weights",
                                "'%s' is a program of TorchScript, which is not read", s->in->name);
        if (strcmp(name + s->prefix, "byteorder") || s->z->members[i].size > 16) continue;
        uint8_t *word = read_whole(s->z, &s->z->members[i]);
        if (!word) return dl_failed();
        s->big = *word == 'b';
        free(word);
    }
    return DL_OK;
}

static dl_tensor_file *from_archive(storages *s, int device) {
    const dl_zip_member *m = dl_torch_pickle_of(s->z);
    if (!m) {
        dl_fail_hint(DL_ERR_FORMAT, "torch.save writes it; archives of NumPy have names that end in .npz",
                     "%s: the archive has no data.pkl, which PyTorch's have", s->in->name);
        return NULL;
    }
    s->prefix = strlen(m->name) - strlen("data.pkl");
    if (look_around(s) != DL_OK) return NULL;
    DL_FREED uint8_t *p = read_whole(s->z, m);
    if (!p) return NULL;
    dl_pickle_reader r = {.name = s->in->name, .device = device, .storage = archived, .ctx = s};
    return dl_pickle_read(&r, p, (size_t)m->size, dl_format_name(DL_FORMAT_TORCH));
}

/* ---------------------------------------------------------------- before 1.6
 * Pickles one after the other: a magic number, a version, sizes of C types, what was saved, and the names of the
 * storages, which follow in this order: 8 bytes with the number of elements, then these. */

enum { PICKLES = 5, MOST_HEAD = 1 << 26 };

/* Notes the storages, whose places are known only after the pickle; the tensors made meanwhile are never read. */
static dl_tensor *noted(dl_pickle_reader *r, const char *key, dl_element e, long numel) {
    storages *s = r->ctx;
    struct storage *known = find_storage(s, key), new = {.ref = {.element = e, .numel = numel}};
    if (known && (!same_element(known->ref.element, e) || known->ref.numel != numel)) {
        dl_fail(DL_ERR_UNSUPPORTED, "%s: storage '%s' is used as two dtypes or sizes", r->name, key);
        return NULL;
    }
    snprintf(new.ref.key, sizeof new.ref.key, "%s", key);
    if (!known && DL_LIST_ROOM(s->list, s->n, s->cap) != DL_OK) return NULL;
    if (!known) s->list[s->n++] = new;
    return dl_tensor_empty(1, (long[]){1}, (dl_dtype)dl_element_dtype(e), 0);
}

static dl_tensor *placed(dl_pickle_reader *r, const char *key, dl_element e, long numel) {
    storages *s = r->ctx;
    struct storage *of = find_storage(s, key);
    if (!of || !of->at) {
        dl_fail(DL_ERR_FORMAT, "%s: the file has no storage '%s'", r->name, key);
        return NULL;
    }
    dl_input_cursor bytes = {s->in, of->at};
    if (!of->t) of->t = dl_element_tensor(e, 1, &numel, r->device, dl_input_next, &bytes);
    return of->t ? dl_ref(of->t) : NULL;
}

/* The places of the storages, in the order in which the last pickle names them; they begin at `at`. */
static dl_status place_storages(const dl_pickle_reader *r, storages *s, const dl_pickle_node *keys, uint64_t at) {
    if (keys->kind != DL_PICKLE_LIST) return dl_pickle_bad(r, keys, "the names of storages are not a list");
    for (uint32_t i = 0; i < keys->n; i++) {
        uint8_t count[8];
        int64_t n = 0;
        struct storage *of = NULL;
        for (long k = 0; k < s->n && !of; k++)
            if (dl_pickle_is_text(keys->item[i], s->list[k].ref.key)) of = &s->list[k];
        if (!of || of->at) return dl_pickle_bad(r, keys->item[i], "a storage is named that no tensor uses, or twice");
        DL_TRY(dl_input_read(s->in, at, count, sizeof count));
        for (int b = 7; b >= 0; b--) n = (int64_t)((uint64_t)n << 8 | count[b]);
        uint64_t bytes = (uint64_t)of->ref.numel * (uint64_t)of->ref.element.size;
        of->at = at + 8;
        if (n != of->ref.numel || bytes > s->in->size - of->at)
            return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged or was not copied whole",
                                "%s: storage '%s' does not lie within the file", r->name, of->ref.key);
        at = of->at + bytes;
    }
    return DL_OK;
}

static dl_status value_of(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    r->values = 0, r->bytes = 0;
    dl_status st = dl_pickle_value(r, x, out);
    if (st != DL_OK) dl_stored_clear(out);
    return st;
}

static dl_tensor_file *from_pickles(storages *s, int device, const uint8_t *p, size_t n) {
    dl_pickle_reader r = {.name = s->in->name, .device = device, .size = n, .storage = noted, .ctx = s};
    dl_pickle *k[PICKLES] = {0};
    dl_stored v = {0};
    size_t at = 0, used = 0;
    dl_status st = DL_OK;
    for (int i = 0; i < PICKLES && st == DL_OK; i++, at += used)
        if (!(k[i] = dl_pickle_parse(s->in->name, p + at, n - at, &used))) st = dl_failed();
    if (st == DL_OK && (st = value_of(&r, dl_pickle_root(k[3]), &v)) == DL_OK) dl_stored_clear(&v);
    if (st == DL_OK) st = place_storages(&r, s, dl_pickle_root(k[4]), at);
    r.storage = placed;
    if (st == DL_OK) st = value_of(&r, dl_pickle_root(k[3]), &v);
    for (int i = 0; i < PICKLES; i++) dl_pickle_free(k[i]);
    return st == DL_OK ? dl_stored_file(&v, dl_format_name(DL_FORMAT_TORCH)) : NULL;
}

static dl_tensor_file *from_sequence(const dl_input *in, int device) {
    size_t n = in->size < MOST_HEAD ? (size_t)in->size : MOST_HEAD;
    uint8_t *p = dl_memory_alloc((long)n + 1, 1);
    storages s = {.in = in};
    dl_tensor_file *f = p && dl_input_read(in, 0, p, n) == DL_OK ? from_pickles(&s, device, p, n) : NULL;
    free_storages(&s);
    free(p);
    return f;
}

/* ---------------------------------------------------------------- both */

static dl_tensor_file *from_zip(const dl_input *in, int device) {
    dl_zip z;
    dl_tensor_file *f = NULL;
    if (dl_zip_open(&z, in) == DL_OK) {
        storages s = {.in = in, .z = &z};
        f = from_archive(&s, device);
        free_storages(&s);
    }
    dl_zip_close(&z);
    return f;
}

dl_tensor_file *dl_torch_from(const dl_input *in, int device) {
    uint8_t first[DL_FORMAT_FIRST];
    size_t n = in->size < sizeof first ? (size_t)in->size : sizeof first;
    if (dl_input_read(in, 0, first, n) != DL_OK) return NULL;
    return dl_format_of_bytes(first, n) == DL_FORMAT_TORCH ? from_sequence(in, device) : from_zip(in, device);
}
