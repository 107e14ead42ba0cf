/* Trees of values read from files, and the tensors in them by name. */
#include "io/stored.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"

/* ---------------------------------------------------------------- making */

void dl_stored_clear(dl_stored *v) {
    for (long i = 0; i < v->n; i++) {
        dl_stored_clear((dl_stored *)&v->items[i]);
        if (v->keys) free((char *)v->keys[i]);
    }
    free((void *)v->items);
    free((void *)v->keys);
    free((char *)v->text);
    dl_unref(v->tensor);
    *v = (dl_stored){0};
}

/* Bytes of the UTF-8 character at p, of which left remain; 0: it is none. */
static int character(const unsigned char *p, size_t left) {
    static const struct {
        unsigned char mask, lead;
        unsigned least;
    } forms[] = {{0x80, 0, 1}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t n = 0; n < 4 && n < left; n++) {
        if ((p[0] & forms[n].mask) != forms[n].lead) continue;
        unsigned c = p[0] & ~forms[n].mask & 0xff;
        for (size_t i = 1; i <= n; i++) {
            if ((p[i] & 0xc0) != 0x80) return 0;
            c = c << 6 | (p[i] & 0x3f);
        }
        return c >= forms[n].least && c <= 0x10ffff && !(c >= 0xd800 && c < 0xe000) ? (int)n + 1 : 0;
    }
    return 0;
}

static char *text_of(const char *name, const char *text, size_t n) {
    for (size_t i = 0, k; i < n; i += k)
        if (!(k = (size_t)character((const unsigned char *)text + i, n - i)))
            return dl_fail(DL_ERR_FORMAT, "%s: a string of %zu bytes is not text in UTF-8", name, n), NULL;
    char *copy = malloc(n + 1); /* text need not end in a NUL */
    if (!copy) return dl_fail(DL_ERR_MEMORY, "no memory for the strings of '%s'", name), NULL;
    memcpy(copy, n ? text : "", n);
    copy[n] = 0;
    return copy;
}

dl_status dl_stored_set_text(dl_stored *v, const char *name, const char *text, size_t n) {
    v->kind = DL_STORED_TEXT;
    v->text = text_of(name, text, n);
    return v->text ? DL_OK : dl_failed();
}

dl_status dl_stored_set_items(dl_stored *v, dl_stored_kind kind, long n) {
    v->kind = kind;
    v->items = calloc((size_t)n + 1, sizeof *v->items);
    if (kind == DL_STORED_RECORD) v->keys = calloc((size_t)n + 1, sizeof *v->keys);
    if (!v->items || (kind == DL_STORED_RECORD && !v->keys))
        return dl_fail(DL_ERR_MEMORY, "no memory for a list of %ld values", n);
    v->n = n;
    return DL_OK;
}

dl_status dl_stored_set_key(dl_stored *v, long i, const char *name, const char *text, size_t n) {
    char *key = text_of(name, text, n);
    ((const char **)v->keys)[i] = key;
    return key ? DL_OK : dl_failed();
}

/* ---------------------------------------------------------------- tensors by name */

static long count_tensors(const dl_stored *v) {
    long n = v->kind == DL_STORED_TENSOR;
    for (long i = 0; i < v->n; i++) n += count_tensors(&v->items[i]);
    return n;
}

static dl_status add_tensors(dl_tensor_file *f, const dl_stored *v, const char *path) {
    if (v->kind == DL_STORED_TENSOR) return dl_tensor_file_add(f, path, dl_ref(v->tensor));
    for (long i = 0; i < v->n; i++) {
        char number[32];
        snprintf(number, sizeof number, "%ld", i);
        const char *key = v->keys ? v->keys[i] : number;
        size_t size = strlen(path) + strlen(key) + 2;
        char *name = malloc(size);
        if (!name) return dl_fail(DL_ERR_MEMORY, "no memory for the names of tensors");
        snprintf(name, size, "%s%s%s", path, *path ? "." : "", key);
        dl_status st = add_tensors(f, &v->items[i], name);
        free(name);
        DL_TRY(st);
    }
    return DL_OK;
}

dl_tensor_file *dl_stored_file(dl_stored *v, const char *format) {
    dl_tensor_file *f = dl_tensor_file_new(count_tensors(v), format);
    if (!f) return dl_stored_clear(v), NULL;
    dl_tensor_file_keep(f, v);
    if (add_tensors(f, dl_tensor_file_value(f), "") == DL_OK) return f;
    dl_tensor_file_free(f);
    return NULL;
}

static int has_tensors(const dl_stored *v) {
    for (long i = 0; i < v->n && v->kind == DL_STORED_RECORD; i++)
        if (v->items[i].kind == DL_STORED_TENSOR) return 1;
    return 0;
}

dl_status dl_stored_weights(const dl_tensor_file *f, const char *path, char *prefix, size_t size) {
    static const char *const usual[] = {"state_dict", "model_state_dict", "model_state", "model",
                                        "net",        "module",           "weights"};
    enum { NUSUAL = sizeof usual / sizeof *usual };
    const dl_stored *v = dl_tensor_file_value(f);
    *prefix = 0;
    if (!v || has_tensors(v)) return DL_OK;
    long at = -1, found = 0;
    size_t best = NUSUAL;
    for (long i = 0; i < v->n && v->keys; i++) {
        if (!has_tensors(&v->items[i])) continue;
        if (!found++) at = i;
        for (size_t k = 0; k < best; k++)
            if (!strcmp(v->keys[i], usual[k])) best = k, at = i;
    }
    if (!found)
        return dl_fail_hint(DL_ERR_NAME, "torch.save(m.state_dict(), FILE) writes them", "%s holds no weights of a net",
                            path);
    if (found > 1 && best == NUSUAL)
        return dl_fail_hint(DL_ERR_NAME, "r = load(FILE) reads it as a record; save the part that is meant by itself",
                            "%s holds %ld records of tensors, and none is named state_dict or model", path, found);
    if ((size_t)snprintf(prefix, size, "%s.", v->keys[at]) >= size)
        return dl_fail(DL_ERR_NAME, "%s: the name '%.40s...' is too long", path, v->keys[at]);
    return DL_OK;
}
