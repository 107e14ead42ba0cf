/* x.name: fields and methods; functions that take x first are methods of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/eval/args.h"

/* ---------------------------------------------------------------- methods */

/* A command is a method of x when its first parameter names x's type. */
static const dlsh_command *row_method(const dlsh_session *s, dlsh_value x, const char *name) {
    const dlsh_command *row = dlsh_find_command(s, name, strlen(name));
    if (!row || !(row->flags & DLSH_FUNCTION) || !row->params || !row->params[0].name) return NULL;
    return row->params[0].want && dlsh_wants(row->params[0].want, x) && dlsh_counted(x) ? row : NULL;
}

static const dlsh_command *find_in(const dlsh_command *table, const char *name) {
    for (const dlsh_command *c = table; c && c->name; c++)
        if (!strcmp(c->name, name)) return c;
    return NULL;
}

static const dlsh_field *field_named(const dlsh_handle *h, const char *name) {
    for (const dlsh_field *f = h->cls->fields; f && f->name; f++)
        if (!strcmp(f->name, name)) return f;
    return NULL;
}

/* The field that a name means where the object has no part of its own of this name. */
static const dlsh_field *plain_field(const dlsh_handle *h, const char *name) {
    const dlsh_field *f = field_named(h, name);
    return f && h->cls->hides && h->cls->hides(h->self, name) ? NULL : f;
}

int dlsh_find_method(dlsh_session *s, dlsh_value x, const char *name, dlsh_value *f) {
    const dlsh_command *row = NULL;
    if (x.type == DLSH_RECORD && dlsh_record_get(x.as.record, name)) return 0;
    if (x.type == DLSH_HANDLE) row = find_in(x.as.handle->cls->methods, name);
    if (x.type == DLSH_HANDLE && !row && field_named(x.as.handle, name)) return 0;
    if (x.type == DLSH_TENSOR) row = find_in(dlsh_tensor_casts, name);
    if (!row) row = row_method(s, x, name);
    *f = row                     ? (dlsh_value){DLSH_BUILTIN, {.builtin = row}}
         : x.type == DLSH_TENSOR ? dlsh_op_method(name)
                                 : dlsh_void();
    return !dlsh_failed(*f);
}

/* ---------------------------------------------------------------- reading */

enum { LISTED = 60 }; /* of more names, such as the methods of tensors, the first ones tell nothing */

/* "it has a, b and c"; of too many the first ones, "it has a, b, ..."; empty of very many. */
static void list_names(const char **words, int n, char *hint, size_t size) {
    static const char more[] = ", ...";
    size_t len = 0;
    if (n > LISTED) return;
    for (int i = 0; i < n; i++) {
        const char *before = !i ? "it has " : i < n - 1 ? ", " : " and ";
        if (len + strlen(before) + strlen(words[i]) + sizeof more > size) {
            snprintf(hint + len, size - len, "%s", i ? more : "");
            return;
        }
        len += (size_t)snprintf(hint + len, size - len, "%s%s", before, words[i]);
    }
}

static dl_status no_field(dlsh_session *s, dlsh_value x, const char *name) {
    dlsh_value names;
    char hint[240] = "";
    const dlsh_class *c = x.type == DLSH_HANDLE ? x.as.handle->cls : NULL;
    const char *foreign = dlsh_foreign_method(name);
    if (c && c->elsewhere) c->elsewhere(x.as.handle->self, name, hint, sizeof hint);
    if (!*hint && foreign) snprintf(hint, sizeof hint, "%s", foreign);
    if (!*hint && dlsh_field_names(s, x, &names) == DL_OK) {
        DLSH_FREED const char **words = malloc((size_t)(names.as.list->n + 1) * sizeof *words);
        int n = 0;
        for (int i = 0; words && i < names.as.list->n; i++)
            if (names.as.list->items[i].type == DLSH_STR) words[n++] = names.as.list->items[i].as.str->s;
        const char *nearest = words ? dlsh_nearest(name, words, n) : NULL;
        if (nearest)
            snprintf(hint, sizeof hint, "did you mean .%s?", nearest);
        else if (words)
            list_names(words, n, hint, sizeof hint);
        dlsh_drop(names);
    }
    return dlsh_fail(DL_ERR_NAME, hint, "%s has no field or method '%s'", dlsh_a(x), name);
}

/* DL_ERR_NAME, unrecorded, when there is none. */
static dl_status handle_field(dlsh_value x, const char *name, dlsh_value *out) {
    const dlsh_handle *h = x.as.handle;
    const dlsh_field *f = plain_field(h, name);
    if (f) return f->get(h->self, out);
    return h->cls->get ? h->cls->get(h->self, name, out) : DL_ERR_NAME;
}

dl_status dlsh_get_field(dlsh_session *s, dlsh_value x, const char *name, dlsh_value *out) {
    dlsh_value f;
    *out = dlsh_void();
    const dlsh_value *v = x.type == DLSH_RECORD ? dlsh_record_get(x.as.record, name)
                          : x.type == DLSH_LIST ? dlsh_list_named(x.as.list, name)
                                                : NULL;
    if (v) {
        *out = dlsh_ref(*v);
        return DL_OK;
    }
    if (x.type == DLSH_TENSOR || x.type == DLSH_HANDLE) {
        dl_error_clear();
        dl_status st = x.type == DLSH_TENSOR ? dlsh_tensor_field(x.as.tensor, name, out) : handle_field(x, name, out);
        if (st != DL_ERR_NAME || dl_error_last()) return st;
    }
    if (dlsh_find_method(s, x, name, &f)) {
        *out = dlsh_new_method(x, f);
        dlsh_drop(f);
        return dlsh_failed(*out) ? DL_ERR_MEMORY : DL_OK;
    }
    return no_field(s, x, name);
}

/* ---------------------------------------------------------------- writing */

dl_status dlsh_set_field(dlsh_session *s, dlsh_value x, const char *name, dlsh_value v) {
    if (v.type == DLSH_VOID) v = dlsh_none();
    if (x.type == DLSH_RECORD) return dlsh_record_set(x.as.record, name, dlsh_ref(v));
    if (x.type == DLSH_TENSOR) return dlsh_tensor_set_field(x.as.tensor, name, v);
    if (x.type != DLSH_HANDLE) return dlsh_fail(DL_ERR_TYPE, NULL, "%s has no fields to set", dlsh_a(x));
    const dlsh_handle *h = x.as.handle;
    const dlsh_field *f = plain_field(h, name);
    if (f && f->set) return f->set(h->self, v);
    if (f) return dlsh_fail(DL_ERR_TYPE, NULL, "field '%s' of a %s cannot be set", name, h->cls->name);
    if (h->cls->set) {
        dl_error_clear();
        dl_status st = h->cls->set(h->self, name, v);
        if (st != DL_ERR_NAME || dl_error_last()) return st;
    }
    return no_field(s, x, name);
}

/* ---------------------------------------------------------------- names for completion */

static dl_status push(dlsh_value list, const char *name) { return dlsh_append(list, dlsh_string(name)); }

/* A field or method may have the name of a function. */
static int is_among(dlsh_value list, const char *name) {
    for (int i = 0; i < list.as.list->n; i++)
        if (!strcmp(list.as.list->items[i].as.str->s, name)) return 1;
    return 0;
}

static dl_status push_handle(dlsh_value list, const dlsh_handle *h) {
    DLSH_DROPPED dlsh_value more = dlsh_void();
    for (const dlsh_field *f = h->cls->fields; f && f->name; f++) DLSH_TRY(push(list, f->name));
    for (const dlsh_command *c = h->cls->methods; c && c->name; c++) DLSH_TRY(push(list, c->name));
    if (!h->cls->names) return DL_OK;
    DLSH_TRY(h->cls->names(h->self, &more));
    for (int i = 0; i < more.as.list->n; i++) DLSH_TRY(dlsh_append(list, dlsh_ref(more.as.list->items[i])));
    return DL_OK;
}

dl_status dlsh_field_names(dlsh_session *s, dlsh_value x, dlsh_value *out) {
    dlsh_value v = dlsh_new_list(16);
    dl_status st = DL_OK;
    if (x.type == DLSH_RECORD)
        for (int i = 0; i < x.as.record->n && !st; i++) st = push(v, x.as.record->keys[i]);
    for (int i = 0; x.type == DLSH_LIST && i < x.as.list->nnames && !st; i++) st = push(v, x.as.list->names[i]);
    if (x.type == DLSH_HANDLE) st = push_handle(v, x.as.handle);
    if (x.type == DLSH_TENSOR) st = dlsh_tensor_names(v);
    for (const dlsh_command *c = dlsh_tensor_casts; x.type == DLSH_TENSOR && c->name && !st; c++) st = push(v, c->name);
    for (int i = 0; i < s->nrows && !st; i++)
        if (row_method(s, x, s->rows[i]->name) && !is_among(v, s->rows[i]->name)) st = push(v, s->rows[i]->name);
    return dlsh_give_filled(st, v, out);
}
