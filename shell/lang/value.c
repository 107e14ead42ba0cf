/* Values: making, releasing, lists, records. */
#include "lang/value.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/eval/collect.h"
#include "lang/parse/fn.h"
#include "lang/session.h"

enum { COUNTED_BYTES = 4096 }; /* from this size on memory of strings and lists is told to the collector */

dl_status dlsh_give(dlsh_value v, dlsh_value *out) {
    *out = v;
    return dlsh_failed(v) ? dl_failed() : DL_OK;
}

dl_status dlsh_give_filled(dl_status st, dlsh_value v, dlsh_value *out) {
    if (!st) return dlsh_give(v, out);
    dlsh_drop(v);
    return st;
}

dl_status dlsh_hand_over(dlsh_value *v, dlsh_value *out) {
    *out = *v;
    *v = dlsh_void();
    return dlsh_failed(*out) ? dl_failed() : DL_OK;
}

static dlsh_value tracked(dlsh_value v) {
    if (dlsh_tracked(v)) dlsh_track(v);
    return v;
}

dlsh_value dlsh_string_n(const char *s, size_t n) {
    dlsh_str *str = dl_memory_alloc((long)(sizeof *str + n + 1), 1);
    if (!str) return dlsh_void();
    if (n >= COUNTED_BYTES) dlsh_collect_count_bytes(n);
    str->refs = 1;
    str->room = 0;
    str->at = 0;
    str->len = n;
    if (n) memcpy(str->s, s, n);
    str->s[n] = 0;
    return (dlsh_value){DLSH_STR, {.str = str}};
}

dl_status dlsh_string_extend(dlsh_value *s, const dlsh_str *more) {
    dlsh_str *old = s->as.str, *str = old;
    size_t n = old->len, len = n + more->len, bytes = sizeof *old + len + 1, all = 64;
    int own = old->refs == 1 && old != more, room = 6;
    if (!own || !old->room || bytes > (size_t)1 << old->room) {
        for (; all < bytes; all *= 2) room++;
        str = dl_memory_resize(own ? old : NULL, own ? (long)(sizeof *old + n + 1) : 0, (long)all, 1);
        if (!str) return DL_ERR_MEMORY;
        if (all >= COUNTED_BYTES) dlsh_collect_count_bytes(all);
        if (!own) {
            memcpy(str, old, sizeof *old + n);
            str->refs = 1;
        }
        str->room = (unsigned char)room;
    }
    memcpy(str->s + n, more->s, more->len);
    str->s[len] = 0;
    str->len = len;
    if (!own) dlsh_drop(*s);
    s->as.str = str;
    return DL_OK;
}

dlsh_value dlsh_string(const char *s) { return dlsh_string_n(s, strlen(s)); }

dlsh_value dlsh_stringf(const char *fmt, ...) {
    dlsh_buf b = {0};
    DLSH_FORMATTED(fmt, dlsh_buf_vprintf(&b, fmt, ap));
    return dlsh_buf_string(&b);
}

dlsh_value dlsh_tensor(dl_tensor *t) { return t ? (dlsh_value){DLSH_TENSOR, {.tensor = t}} : dlsh_void(); }

dlsh_value dlsh_new_range(long from, long to, long step) {
    dlsh_range *r = dl_memory_alloc(1, sizeof *r);
    if (!r) return dlsh_void();
    *r = (dlsh_range){1, from, to, step};
    return (dlsh_value){DLSH_RANGE, {.range = r}};
}

dlsh_value dlsh_new_method(dlsh_value self, dlsh_value fn) {
    dlsh_method *m = dl_memory_alloc(1, sizeof *m);
    if (!m) return dlsh_void();
    *m = (dlsh_method){.refs = 1, .self = dlsh_ref(self), .fn = dlsh_ref(fn)};
    return tracked((dlsh_value){DLSH_METHOD, {.method = m}});
}

dlsh_value dlsh_new_handle(const dlsh_class *cls, void *self) {
    dlsh_handle *h = self ? dl_memory_alloc(1, sizeof *h) : NULL;
    if (!h) {
        if (self && cls->destroy) cls->destroy(self);
        return dlsh_void();
    }
    *h = (dlsh_handle){.refs = 1, .cls = cls, .self = self};
    return tracked((dlsh_value){DLSH_HANDLE, {.handle = h}});
}

dlsh_value dlsh_new_cell(dlsh_value v) {
    dlsh_cell *c = dl_memory_alloc(1, sizeof *c);
    if (!c) {
        dlsh_drop(v);
        return dlsh_void();
    }
    *c = (dlsh_cell){.refs = 1, .place = -1, .v = v};
    dlsh_value cell = {DLSH_CELL, {.cell = c}};
    dlsh_hold(cell, v);
    return cell;
}

/* ---------------------------------------------------------------- releasing
 * Recursion is bounded: objects nested too deeply are freed by the outermost call. */

static void free_list(dlsh_list *l) {
    for (int i = 0; i < l->n; i++) dlsh_drop(l->items[i]);
    free(l->items);
    free(l);
}

static void free_record(dlsh_record *r) {
    dlsh_record_clear(r);
    free(r);
}

static void free_one(dlsh_value v) {
    switch (v.type) {
    case DLSH_LIST: free_list(v.as.list); break;
    case DLSH_RECORD: free_record(v.as.record); break;
    case DLSH_FN: dlsh_fn_free(v.as.fn); break;
    case DLSH_METHOD:
        dlsh_drop(v.as.method->self);
        dlsh_drop(v.as.method->fn);
        free(v.as.method);
        break;
    case DLSH_CELL:
        dlsh_drop(v.as.cell->v);
        free(v.as.cell);
        break;
    case DLSH_HANDLE:
        if (v.as.handle->cls->destroy) v.as.handle->cls->destroy(v.as.handle->self);
        free(v.as.handle);
        break;
    default: free(v.as.str); break; /* strings and ranges own nothing */
    }
}

void dlsh_free_object(dlsh_value v) {
    enum { DEEP = 100 };
    static _Thread_local int depth;
    static _Thread_local dlsh_value *waiting;
    static _Thread_local int n, cap;
    if (v.type == DLSH_STR) { /* most often, and it holds nothing */
        free(v.as.str);
        return;
    }
    if (dlsh_tracked(v) && dlsh_track_place(v) >= 0) dlsh_untrack(v);
    if (depth >= DEEP) { /* too deep for the stack: let the outermost call do it */
        if (n == cap) {
            int more = cap ? 2 * cap : 64;
            dlsh_value *grown = realloc(waiting, (size_t)more * sizeof *grown);
            if (!grown) return; /* out of memory while freeing: the rest leaks */
            waiting = grown;
            cap = more;
        }
        waiting[n++] = v;
        return;
    }
    depth++;
    free_one(v);
    if (--depth == 0) {
        while (n) {
            depth++;
            free_one(waiting[--n]);
            depth--;
        }
        free(waiting);
        waiting = NULL;
        cap = 0;
    }
}

/* ---------------------------------------------------------------- lists */

enum { MOST_ITEMS = INT_MAX / 2 };

static dl_status too_many_items(void) {
    return dlsh_fail(DL_ERR_MEMORY, NULL, "a list holds at most %d items", MOST_ITEMS);
}

dlsh_value dlsh_new_list(long reserve) {
    if (reserve > MOST_ITEMS) return too_many_items(), dlsh_void();
    dlsh_list *l = dl_memory_alloc(1, sizeof *l);
    if (!l) return dlsh_void();
    *l = (dlsh_list){.refs = 1, .place = -1};
    if (reserve > 0) {
        l->items = dl_memory_alloc(reserve, sizeof *l->items);
        if (!l->items) {
            free(l);
            return dlsh_void();
        }
        l->cap = (int)reserve;
    }
    return (dlsh_value){DLSH_LIST, {.list = l}};
}

static dl_status list_grow(dlsh_list *l) {
    if (l->n < l->cap) return DL_OK;
    if (l->n > MOST_ITEMS) return too_many_items();
    int cap = l->cap ? 2 * l->cap : 8;
    dlsh_value *items = dl_memory_resize(l->items, l->cap, cap, sizeof *items);
    if (!items) return DL_ERR_MEMORY;
    l->items = items;
    l->cap = cap;
    if ((size_t)cap * sizeof *items >= COUNTED_BYTES) dlsh_collect_count_bytes((size_t)cap * sizeof *items);
    return DL_OK;
}

dl_status dlsh_list_push(dlsh_list *list, dlsh_value v) {
    dl_status st = list_grow(list);
    if (st) {
        dlsh_drop(v);
        return st;
    }
    list->items[list->n++] = v;
    dlsh_hold((dlsh_value){DLSH_LIST, {.list = list}}, v);
    return DL_OK;
}

dl_status dlsh_append(dlsh_value list, dlsh_value v) {
    if (!dlsh_failed(list) && !dlsh_failed(v)) return dlsh_list_push(list.as.list, v);
    dlsh_drop(v);
    return dl_failed();
}

dlsh_value dlsh_new_ints(const long *v, int n) {
    dlsh_value list = dlsh_new_list(n);
    for (int i = 0; !dlsh_failed(list) && i < n; i++) list.as.list->items[list.as.list->n++] = dlsh_int(v[i]);
    return list;
}

const dlsh_value *dlsh_list_named(const dlsh_list *l, const char *name) {
    for (int i = 0; i < l->nnames && i < l->n; i++)
        if (!strcmp(l->names[i], name)) return &l->items[i];
    return NULL;
}

dlsh_value dlsh_list_of(const dlsh_value *items, int n) {
    dlsh_value list = dlsh_new_list(n);
    dl_status st = DL_OK;
    for (int i = 0; i < n; i++) {
        if (!st)
            st = dlsh_append(list, items[i]);
        else
            dlsh_drop(items[i]);
    }
    if (!st) return list;
    dlsh_drop(list);
    return dlsh_void();
}

dl_status dlsh_list_insert(dlsh_list *list, int at, dlsh_value v) {
    DLSH_TRY(dlsh_list_push(list, v));
    memmove(list->items + at + 1, list->items + at, (size_t)(list->n - 1 - at) * sizeof v);
    list->items[at] = v;
    return DL_OK;
}

void dlsh_list_remove(dlsh_list *list, int from, int to) {
    int n = to - from;
    if (n <= 0) return;
    dlsh_value one, *gone = n == 1 ? &one : malloc((size_t)n * sizeof *gone);
    if (gone) memcpy(gone, list->items + from, (size_t)n * sizeof *gone);
    memmove(list->items + from, list->items + to, (size_t)(list->n - to) * sizeof *gone);
    list->n -= n;
    /* after the list is consistent: destructors may read it */
    for (int i = 0; gone && i < n; i++) dlsh_drop(gone[i]);
    if (gone != &one) free(gone);
}

/* ---------------------------------------------------------------- records */

enum { LINEAR = 8 };

dlsh_value dlsh_new_record(void) {
    dlsh_record *r = dl_memory_alloc(1, sizeof *r);
    if (!r) return dlsh_void();
    *r = (dlsh_record){.refs = 1, .place = -1};
    return (dlsh_value){DLSH_RECORD, {.record = r}};
}

static const char *key_at(const void *r, int i) { return ((const dlsh_record *)r)->keys[i]; }

/* Brings the newest key, or with `anew` all of them, into the index; without memory lookups stay linear. */
static void update_index(dlsh_record *r, int anew) {
    if (anew) dl_names_free(&r->index);
    if (r->n < LINEAR || dl_names_add(&r->index, r->n - 1, key_at, r) == DL_OK) return;
    dl_names_free(&r->index);
    dl_error_clear();
}

/* The bit of a key in `heads`. */
static inline unsigned long head(const char *key) {
    unsigned first = (unsigned char)key[0];
    return 1ul << ((3 * first + (first ? (unsigned char)key[1] : 0)) & 63);
}

/* strcmp(a, b) == 0, without a call for short ones. */
static inline int same_key(const char *a, const char *b) {
    enum { SHORT = 8 };
    for (int i = 0; i < SHORT; i++) {
        if (a[i] != b[i]) return 0;
        if (!a[i]) return 1;
    }
    return !strcmp(a + SHORT, b + SHORT);
}

static int find_indexed(dlsh_record *r, const char *key) {
    if (r->recent < r->n && same_key(r->keys[r->recent], key)) return r->recent;
    int i = dl_names_find(&r->index, key, (long)strlen(key), key_at, r);
    if (i >= 0) r->recent = i;
    return i;
}

static int find(const dlsh_record *r, const char *key) {
    if (!(r->heads & head(key))) return -1;
    if (r->index.size) return find_indexed((dlsh_record *)r, key);
    for (int i = 0; i < r->n; i++)
        if (same_key(r->keys[i], key)) return i;
    return -1;
}

dlsh_value *dlsh_record_get(const dlsh_record *r, const char *key) {
    int i = find(r, key);
    return i < 0 ? NULL : &r->values[i];
}

dlsh_value *dlsh_record_get_text(const dlsh_record *r, const dlsh_str *key) {
    if (key->at < r->n && same_key(r->keys[key->at], key->s)) return &r->values[key->at];
    int i = find(r, key->s);
    if (i < 0) return NULL;
    if (i <= USHRT_MAX) ((dlsh_str *)key)->at = (unsigned short)i;
    return &r->values[i];
}

dl_status dlsh_record_set(dlsh_record *r, const char *key, dlsh_value v) {
    int i = find(r, key);
    if (i >= 0) {
        dlsh_value old = r->values[i];
        r->values[i] = v;
        dlsh_hold((dlsh_value){DLSH_RECORD, {.record = r}}, v);
        dlsh_drop(old);
        return DL_OK;
    }
    if (r->n == r->cap) {
        int cap = r->cap ? 2 * r->cap : 4;
        char **keys = dl_memory_resize(r->keys, r->cap, cap, sizeof *keys);
        if (keys) r->keys = keys;
        dlsh_value *values = dl_memory_resize(r->values, r->cap, cap, sizeof *values);
        if (values) r->values = values;
        if (!keys || !values) goto fail;
        r->cap = cap;
    }
    size_t len = strlen(key) + 1;
    char *copy = dl_memory_alloc((long)len, 1);
    if (!copy) goto fail;
    memcpy(copy, key, len);
    r->keys[r->n] = copy;
    r->heads |= head(copy);
    r->values[r->n++] = v;
    dlsh_hold((dlsh_value){DLSH_RECORD, {.record = r}}, v);
    update_index(r, 0);
    return DL_OK;
fail:
    dlsh_drop(v);
    return DL_ERR_MEMORY;
}

void dlsh_record_clear(dlsh_record *r) {
    dlsh_record was = *r;
    *r = (dlsh_record){.refs = was.refs, .place = was.place};
    for (int i = 0; i < was.n; i++) {
        dlsh_drop(was.values[i]); /* which may look at the record */
        free(was.keys[i]);
    }
    free(was.keys);
    free(was.values);
    dl_names_free(&was.index);
}

dl_status dlsh_record_fill(dlsh_value record, const dlsh_entry *fields, int n) {
    dl_status st = dlsh_failed(record) ? dl_failed() : DL_OK;
    for (int i = 0; i < n; i++) {
        if (!st && dlsh_failed(fields[i].value)) st = dl_failed();
        if (!st && fields[i].key)
            st = dlsh_record_set(record.as.record, fields[i].key, fields[i].value);
        else
            dlsh_drop(fields[i].value);
    }
    return st;
}

dlsh_value dlsh_record_of(const dlsh_entry *fields, int n) {
    dlsh_value out, r = dlsh_new_record();
    return dlsh_give_filled(dlsh_record_fill(r, fields, n), r, &out) ? dlsh_void() : out;
}

int dlsh_record_remove(dlsh_record *r, const char *key) {
    int i = find(r, key);
    if (i < 0) return 0;
    DLSH_DROPPED dlsh_value old = r->values[i];
    free(r->keys[i]);
    memmove(r->keys + i, r->keys + i + 1, (size_t)(r->n - i - 1) * sizeof *r->keys);
    memmove(r->values + i, r->values + i + 1, (size_t)(r->n - i - 1) * sizeof *r->values);
    r->n--;
    update_index(r, 1);
    return 1;
}

/* ---------------------------------------------------------------- reading */

static const char *const type_names[] = {
#define TYPE(id, name) name,
    DLSH_TYPES(TYPE)
#undef TYPE
};

const char *dlsh_type_name(dlsh_value v) { return v.type == DLSH_HANDLE ? v.as.handle->cls->name : type_names[v.type]; }

const char *dlsh_a(dlsh_value v) {
    static _Thread_local char texts[4][64];
    static _Thread_local int next;
    char *s = texts[next++ % 4];
    const char *name = dlsh_type_name(v);
    snprintf(s, sizeof texts[0], "%s%s", v.type <= DLSH_VOID ? "" : strchr("aeiou", *name) ? "an " : "a ", name);
    return s;
}

void *dlsh_unwrap(dlsh_value v, const dlsh_class *cls) {
    return v.type == DLSH_HANDLE && v.as.handle->cls == cls ? v.as.handle->self : NULL;
}

dl_status dlsh_truth(dlsh_value v, int *out) {
    double f;
    switch (v.type) {
    case DLSH_NONE:
    case DLSH_VOID: *out = 0; return DL_OK;
    case DLSH_BOOL:
    case DLSH_INT: *out = v.as.i != 0; return DL_OK;
    case DLSH_FLOAT: *out = v.as.f != 0; return DL_OK;
    case DLSH_STR: *out = v.as.str->len != 0; return DL_OK;
    case DLSH_LIST: *out = v.as.list->n != 0; return DL_OK;
    case DLSH_RECORD: *out = v.as.record->n != 0; return DL_OK;
    case DLSH_TENSOR:
        if (dl_numel(v.as.tensor) != 1)
            return dlsh_fail(DL_ERR_TYPE, "ask for one of x.any(), x.all()",
                             "a tensor of %ld elements is neither true nor false", dl_numel(v.as.tensor));
        DLSH_TRY(dl_item_f(v.as.tensor, &f));
        *out = f != 0;
        return DL_OK;
    case DLSH_HANDLE: *out = v.as.handle->cls->truth ? v.as.handle->cls->truth(v.as.handle->self) : 1; return DL_OK;
    default: *out = 1; return DL_OK;
    }
}
