/* The variables of a session, those of functions included, and what a name means at a place of a text. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/text/joined.h"
#include "debug/doctor/texts.h"
#include "debug/doctor/syntax.h"

static const void *object_of(dlsh_value v) {
    switch (v.type) {
    case DLSH_LIST:
    case DLSH_RECORD:
    case DLSH_TENSOR: return v.as.refs;
    case DLSH_HANDLE: return v.as.handle->self;
    default: return NULL;
    }
}

static int is_known(const dlsh_holders *all, dlsh_value v) {
    const void *is = object_of(v);
    for (int i = 0; is && i < all->n; i++)
        if (all->at[i].value.type == v.type && object_of(all->at[i].value) == is) return 1;
    return !is;
}

/* The last place of a function that begins on a line. */
static int end_of(const dlsh_node *n, int line) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_FN && t.n->span.line == line) return t.n->span.end;
    return -1;
}

static dlsh_holder holder_of(const dlsh_variable *v) {
    dlsh_holder h = {.name = v->name, .place = INT_MAX, .value = dlsh_ref(*v->value)};
    if (!v->fn) return h;
    const dl_source at = dlsh_join_source((dl_source){v->unit, v->fn->span.line});
    const dlsh_node *root = dlsh_text_root(at.file);
    const int end = root ? end_of(root, at.line) : -1;
    h.file = at.file, h.line = at.line, h.function = v->fn->text ? v->fn->text : "";
    if (end >= 0) h.place = end;
    return h;
}

/* An object that a list or record has as item i; VOID: the item is none. */
static dlsh_value object_in(dlsh_value v, int i) {
    const dlsh_value *item = NULL;
    if (v.type == DLSH_LIST && i < v.as.list->n) item = &v.as.list->items[i];
    if (v.type == DLSH_RECORD && i < v.as.record->n) item = &v.as.record->values[i];
    return item && item->type == DLSH_HANDLE ? *item : dlsh_void();
}

/* The objects that no variable holds by itself. */
static void add_items(dlsh_holders *out, int of) {
    enum { ITEMS = 32, NAME = 96 };
    for (int i = 0; i < ITEMS; i++) {
        const dlsh_holder h = out->at[of];
        const dlsh_value v = object_in(h.value, i);
        if (v.type == DLSH_VOID || is_known(out, v)) continue;
        dlsh_holder *more = realloc(out->at, ((size_t)out->n + 2) * sizeof *more);
        char *name = malloc(NAME);
        if (more) out->at = more;
        if (!more || !name) {
            free(name);
            return;
        }
        if (h.value.type == DLSH_RECORD)
            snprintf(name, NAME, "%.40s.%.40s", h.name, h.value.as.record->keys[i]);
        else
            snprintf(name, NAME, "%.40s[%d]", h.name, i);
        dlsh_holder *item = &out->at[out->n++];
        *item = h;
        item->value = dlsh_ref(v), item->name = item->made = name, item->again = 0;
    }
}

void dlsh_holders_find(dlsh_session *s, dlsh_holders *out) {
    dlsh_variable v;
    int n = 0;
    dlsh_variables_hold(1);
    while (dlsh_variable_at(s, n, &v)) n++;
    *out = (dlsh_holders){calloc((size_t)n + 1, sizeof *out->at), 0};
    if (!out->at) dlsh_variables_hold(0);
    for (int i = 0; out->at && i < n; i++) {
        if (!dlsh_variable_at(s, i, &v) || !v.value || v.value->type == DLSH_VOID) continue;
        dlsh_holder h = holder_of(&v);
        h.again = is_known(out, h.value);
        out->at[out->n++] = h;
    }
    for (int i = out->n - 1; i >= 0; i--)
        if (!out->at[i].again) add_items(out, i);
}

void dlsh_holders_free(dlsh_holders *all) {
    if (!all->at) return;
    for (int i = 0; i < all->n; i++) dlsh_drop(all->at[i].value), free(all->at[i].made);
    free(all->at);
    *all = (dlsh_holders){0};
    dlsh_variables_hold(0);
}

const dlsh_holder *dlsh_holder_next(const dlsh_holders *all, int *i) {
    while (*i < all->n)
        if (!all->at[(*i)++].again) return &all->at[*i - 1];
    return NULL;
}

/* ---------------------------------------------------------------- by name */

/* Variables of the function that begins on a line of a text; NULL: globals. */
static const dlsh_value *held_in(const dlsh_holders *all, const char *file, const dlsh_node *fn, const char *name) {
    for (int i = 0; i < all->n; i++) {
        const dlsh_holder *h = &all->at[i];
        if (!h->line != !fn || strcmp(h->name, name) != 0) continue;
        if (!fn ||
            (h->line == fn->span.line && !strcmp(h->function, fn->text ? fn->text : "") && !strcmp(h->file, file)))
            return &h->value;
    }
    return NULL;
}

const dlsh_value *dlsh_value_at(const dlsh_examination *e, const char *file, int place, const char *name) {
    const dlsh_node *around[DLSH_AROUND], *root = file ? dlsh_text_root(file) : NULL;
    for (int i = root ? dlsh_functions_around(root, place, around) - 1 : -1; i >= 0; i--)
        if (dlsh_is_own_name(around[i], name)) return held_in(&e->holders, file, around[i], name);
    return held_in(&e->holders, NULL, NULL, name);
}

const dlsh_value *dlsh_value_of(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    if (!n || n->kind == DLSH_N_NAME) return n ? dlsh_value_at(e, file, n->span.start, n->text) : NULL;
    const int part = n->kind == DLSH_N_FIELD || (n->kind == DLSH_N_INDEX && n->nkids == 2);
    const dlsh_value *of = part ? dlsh_value_of(e, file, n->kids[0]) : NULL;
    if (!of) return NULL;
    if (n->kind == DLSH_N_FIELD) return of->type == DLSH_RECORD ? dlsh_record_get(of->as.record, n->text) : NULL;
    const dlsh_node *at = n->kids[1];
    if (of->type == DLSH_RECORD && at->kind == DLSH_N_STR) return dlsh_record_get(of->as.record, at->text);
    return of->type == DLSH_LIST && at->kind == DLSH_N_INT && at->num.i >= 0 && at->num.i < of->as.list->n
               ? &of->as.list->items[at->num.i]
               : NULL;
}
