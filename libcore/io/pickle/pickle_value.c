/* Values from the trees of pickles: Python's own types; NumPy's and PyTorch's have tables of their own. */
#include "io/pickle/pickle_value.h"
#include "core/scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "io/format.h"

/* A pickle may reach one value by many ways: the values made of it are counted, and what they take. */
enum { MOST_VALUES = 1 << 22, MOST_DEPTH = 64, MOST_PICKLE = 1 << 30, MORE_BYTES = 1 << 26 };

/* n bytes more of texts and arrays. */
static dl_status count_bytes(dl_pickle_reader *r, const dl_pickle_node *x, size_t n) {
    uint64_t most = 4 * (uint64_t)r->size + MORE_BYTES;
    if ((r->bytes += n) <= most) return DL_OK;
    return dl_fail(DL_ERR_UNSUPPORTED, "%s: the pickle of %zu bytes stands for more than %llu bytes at byte %llu",
                   r->name, r->size, (unsigned long long)most, (unsigned long long)x->at);
}

dl_status dl_pickle_bad(const dl_pickle_reader *r, const dl_pickle_node *x, const char *what) {
    return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged, or was not written by Python",
                        "%s: byte %llu of the pickle: %s", r->name, (unsigned long long)x->at, what);
}

dl_status dl_pickle_arg(const dl_pickle_reader *r, const dl_pickle_node *x, uint32_t i, dl_pickle_kind kind,
                        const dl_pickle_node **out) {
    char call[160], what[256];
    if (i < x->args->n && x->args->item[i]->kind == kind) {
        *out = x->args->item[i];
        return DL_OK;
    }
    dl_pickle_global_text(x->fn, call, sizeof call);
    snprintf(what, sizeof what, "argument %u of %s is missing or of another kind", i, call);
    return dl_pickle_bad(r, x, what);
}

dl_status dl_pickle_sizes(const dl_pickle_reader *r, const dl_pickle_node *x, int *n, long *sizes) {
    if (x->kind == DL_PICKLE_CALL && dl_pickle_is_global(x->fn, "torch", "Size") && x->args->n == 1)
        x = x->args->item[0];
    if (x->kind != DL_PICKLE_TUPLE && x->kind != DL_PICKLE_LIST) return dl_pickle_bad(r, x, "a shape is not a tuple");
    if (x->n > DL_MAX_DIM) return dl_pickle_bad(r, x, "tensors of more than 8 dimensions are not read");
    for (uint32_t i = 0; i < x->n; i++) {
        const dl_pickle_node *s = x->item[i];
        if (s->kind != DL_PICKLE_INT || s->i < 0) return dl_pickle_bad(r, s, "a size is not a number of elements");
        sizes[i] = (long)s->i;
    }
    *n = (int)x->n;
    return DL_OK;
}

/* Text whose characters stand for bytes, in Latin-1. */
static dl_status latin1(const dl_pickle_reader *r, const dl_pickle_node *x, uint8_t *out, size_t *n) {
    const uint8_t *p = (const uint8_t *)x->text;
    *n = 0;
    for (size_t i = 0; i < x->n; i++) {
        if (p[i] < 0x80)
            out[(*n)++] = p[i];
        else if ((p[i] & 0xfc) == 0xc0 && i + 1 < x->n && (p[i + 1] & 0xc0) == 0x80)
            out[(*n)++] = (uint8_t)(p[i] << 6 | (p[i + 1] & 0x3f)), i++;
        else
            return dl_pickle_bad(r, x, "text that stands for bytes has other characters");
    }
    return DL_OK;
}

dl_status dl_pickle_bytes(dl_pickle_reader *r, const dl_pickle_node *x, uint8_t **bytes, size_t *n) {
    const dl_pickle_node *text = x;
    bool encoded = x->kind == DL_PICKLE_CALL && dl_pickle_is_global(x->fn, "_codecs", "encode");
    if (encoded) DL_TRY(dl_pickle_arg(r, x, 0, DL_PICKLE_TEXT, &text));
    bool empty = x->kind == DL_PICKLE_CALL && dl_pickle_is_global(x->fn, "__builtin__", "bytes") && !x->args->n;
    if (!encoded && !empty && x->kind != DL_PICKLE_BYTES) return dl_pickle_bad(r, x, "bytes are wanted here");
    size_t most = empty ? 0 : text->n;
    DL_TRY(count_bytes(r, x, most));
    if (!(*bytes = malloc(most + 1))) return dl_fail(DL_ERR_MEMORY, "no memory for the bytes in '%s'", r->name);
    *n = most;
    if (!encoded) return memcpy(*bytes, most ? text->text : "", most), DL_OK;
    dl_status st = latin1(r, text, *bytes, n);
    if (st == DL_OK) return st;
    free(*bytes);
    *bytes = NULL;
    return st;
}

/* ---------------------------------------------------------------- containers */

static dl_status list_value(dl_pickle_reader *r, dl_pickle_node *const *items, long n, dl_stored *out) {
    DL_TRY(dl_stored_set_items(out, DL_STORED_LIST, n));
    for (long i = 0; i < n; i++) DL_TRY(dl_pickle_value(r, items[i], (dl_stored *)&out->items[i]));
    return DL_OK;
}

/* Text as it is, integers in decimal digits: what Python takes for keys of records. */
static dl_status set_key(dl_pickle_reader *r, dl_stored *out, long i, const dl_pickle_node *key) {
    char number[32];
    if (key->kind == DL_PICKLE_TEXT || key->kind == DL_PICKLE_BYTES) {
        DL_TRY(count_bytes(r, key, key->n));
        return dl_stored_set_key(out, i, r->name, key->text, key->n);
    }
    if (key->kind == DL_PICKLE_CALL) {
        uint8_t *bytes = NULL;
        size_t len = 0;
        DL_TRY(dl_pickle_bytes(r, key, &bytes, &len));
        dl_status st = dl_stored_set_key(out, i, r->name, (const char *)bytes, len);
        free(bytes);
        return st;
    }
    if (key->kind != DL_PICKLE_INT) return dl_pickle_bad(r, key, "a key is neither text nor an integer");
    int n = snprintf(number, sizeof number, "%lld", (long long)key->i);
    return dl_stored_set_key(out, i, r->name, number, (size_t)n);
}

static dl_status dict_value(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    if (x->n && !x->pairs) return dl_pickle_bad(r, x, "a dict holds values without keys");
    DL_TRY(dl_stored_set_items(out, DL_STORED_RECORD, x->n / 2));
    for (long i = 0; i < out->n; i++) {
        DL_TRY(set_key(r, out, i, x->item[2 * i]));
        DL_TRY(dl_pickle_value(r, x->item[2 * i + 1], (dl_stored *)&out->items[i]));
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- Python's own calls */

/* OrderedDict() is filled afterwards, or called with pairs. */
static dl_status make_dict(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    const dl_pickle_node *pairs;
    if (!x->args->n || x->args->item[0]->kind == DL_PICKLE_GLOBAL) return dict_value(r, x, out);
    if (x->args->item[0]->kind == DL_PICKLE_DICT) return dict_value(r, x->args->item[0], out);
    DL_TRY(dl_pickle_arg(r, x, 0, DL_PICKLE_LIST, &pairs));
    DL_TRY(dl_stored_set_items(out, DL_STORED_RECORD, pairs->n));
    for (long i = 0; i < out->n; i++) {
        const dl_pickle_node *p = pairs->item[i];
        if ((p->kind != DL_PICKLE_TUPLE && p->kind != DL_PICKLE_LIST) || p->n != 2)
            return dl_pickle_bad(r, p, "an item of a dict is not a pair");
        DL_TRY(set_key(r, out, i, p->item[0]));
        DL_TRY(dl_pickle_value(r, p->item[1], (dl_stored *)&out->items[i]));
    }
    return DL_OK;
}

static dl_status make_list(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    if (x->n || !x->args->n) return list_value(r, x->item, x->pairs ? 0 : x->n, out);
    const dl_pickle_node *of = x->args->item[0];
    if (of->kind != DL_PICKLE_LIST && of->kind != DL_PICKLE_TUPLE) return dl_pickle_bad(r, x, "a list is wanted here");
    return list_value(r, of->item, of->n, out);
}

static dl_status make_namespace(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    if (!x->state || x->state->kind != DL_PICKLE_DICT) return dict_value(r, x, out);
    return dict_value(r, x->state, out);
}

static dl_status make_text(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    DL_FREED uint8_t *bytes = NULL;
    size_t n = 0;
    DL_TRY(dl_pickle_bytes(r, x, &bytes, &n));
    return dl_stored_set_text(out, r->name, (const char *)bytes, n);
}

static const dl_pickle_row python_rows[] = {
    {"collections", "OrderedDict", make_dict},
    {"collections", "defaultdict", make_dict},
    {"argparse", "Namespace", make_namespace},
    {"types", "SimpleNamespace", make_namespace},
    {"_codecs", "encode", make_text},
    {"builtins", "set", make_list},
    {"builtins", "frozenset", make_list},
    {"builtins", "list", make_list},
    {"builtins", "dict", make_dict},
    {"__builtin__", "set", make_list},
    {"__builtin__", "frozenset", make_list},
    {"__builtin__", "list", make_list},
    {"__builtin__", "dict", make_dict},
    {"__builtin__", "bytes", make_text},
    {0},
};

/* ---------------------------------------------------------------- values */

static dl_status refuse(const dl_pickle_reader *r, const dl_pickle_node *x, const dl_pickle_node *name) {
    char what[160];
    dl_pickle_global_text(name, what, sizeof what);
    return dl_fail_hint(
        DL_ERR_UNSUPPORTED,
        "tensors, arrays, numbers, strings, lists and dicts are read, and nothing of a file is run; of a "
        "model, torch.save(m.state_dict(), FILE) writes the weights alone",
        "%s: byte %llu of the pickle asks for %s, which is not read", r->name, (unsigned long long)x->at, what);
}

static dl_status call_value(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    const dl_pickle_row *const tables[] = {python_rows, dl_pickle_numpy_rows, dl_pickle_torch_rows};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const dl_pickle_row *row = tables[t]; row->name; row++)
            if (dl_pickle_is_global(x->fn, row->module, row->name)) return row->make(r, x, out);
    return refuse(r, x, x->fn);
}

/* torch.float32 and its like, as the names that dtypes have here. */
static dl_status global_value(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    static const char *const names[][2] = {{"bool", "bool"},   {"uint8", "u8"},    {"int32", "i32"},
                                           {"int64", "i64"},   {"float16", "f16"}, {"bfloat16", "bf16"},
                                           {"float32", "f32"}, {"float64", "f64"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (dl_pickle_is_global(x, "torch", names[i][0]))
            return dl_stored_set_text(out, r->name, names[i][1], strlen(names[i][1]));
    return refuse(r, x, x);
}

static dl_status plain_value(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    switch (x->kind) {
    case DL_PICKLE_NONE: return DL_OK;
    case DL_PICKLE_BOOL:
    case DL_PICKLE_INT:
        out->kind = x->kind == DL_PICKLE_INT ? DL_STORED_INT : DL_STORED_BOOL;
        out->i = (long)x->i;
        return DL_OK;
    case DL_PICKLE_FLOAT:
        out->kind = DL_STORED_FLOAT;
        out->f = x->f;
        return DL_OK;
    case DL_PICKLE_TEXT:
    case DL_PICKLE_BYTES: DL_TRY(count_bytes(r, x, x->n)); return dl_stored_set_text(out, r->name, x->text, x->n);
    case DL_PICKLE_LIST:
    case DL_PICKLE_TUPLE: return list_value(r, x->item, x->n, out);
    case DL_PICKLE_DICT: return dict_value(r, x, out);
    case DL_PICKLE_GLOBAL: return global_value(r, x, out);
    case DL_PICKLE_CALL: return call_value(r, x, out);
    case DL_PICKLE_WIDE:
        return dl_fail(DL_ERR_UNSUPPORTED, "%s: byte %llu of the pickle: the integer %g has more than 64 bits", r->name,
                       (unsigned long long)x->at, x->f);
    default: return dl_pickle_bad(r, x, "a reference stands where a value is wanted");
    }
}

dl_status dl_pickle_value(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    if (++r->values > MOST_VALUES)
        return dl_fail(DL_ERR_UNSUPPORTED, "%s: the pickle stands for more than %d values at byte %llu", r->name,
                       MOST_VALUES, (unsigned long long)x->at);
    if (r->depth == MOST_DEPTH)
        return dl_fail(DL_ERR_UNSUPPORTED, "%s: byte %llu of the pickle: values lie more than %d deep in each other",
                       r->name, (unsigned long long)x->at, MOST_DEPTH);
    r->depth++;
    dl_status st = plain_value(r, x, out);
    r->depth--;
    return st;
}

/* ---------------------------------------------------------------- files */

dl_tensor_file *dl_pickle_read(dl_pickle_reader *r, const void *p, size_t n, const char *format) {
    if (n > MOST_PICKLE) {
        dl_fail(DL_ERR_UNSUPPORTED, "%s: pickles of more than %d bytes are not read", r->name, MOST_PICKLE);
        return NULL;
    }
    dl_stored v = {0};
    r->size = n;
    dl_pickle *k = dl_pickle_parse(r->name, p, n, NULL);
    if (!k) return NULL;
    dl_status st = dl_pickle_value(r, dl_pickle_root(k), &v);
    dl_pickle_free(k);
    if (st == DL_OK) return dl_stored_file(&v, format);
    dl_stored_clear(&v);
    return NULL;
}

dl_tensor_file *dl_pickle_from(const dl_input *in, int device) {
    dl_pickle_reader r = {.name = in->name, .device = device};
    uint8_t *p = in->size <= MOST_PICKLE ? dl_memory_alloc((long)in->size + 1, 1) : NULL;
    if (in->size > MOST_PICKLE)
        dl_fail(DL_ERR_UNSUPPORTED, "%s: pickles of more than %d bytes are not read", in->name, MOST_PICKLE);
    dl_tensor_file *f = NULL;
    if (p && dl_input_read(in, 0, p, (size_t)in->size) == DL_OK)
        f = dl_pickle_read(&r, p, (size_t)in->size, dl_format_name(DL_FORMAT_PICKLE));
    free(p);
    return f;
}
