/* Structs and unions as values: fields to read and set, printed in braces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/inside.h"

dlsh_value dlsh_c_struct_view(dlsh_session *s, const dlsh_ctype *t, void *data, dlsh_value owner) {
    dlsh_cstruct *v = dl_memory_alloc(1, sizeof *v);
    if (!v) {
        dlsh_drop(owner);
        return dlsh_void();
    }
    *v = (dlsh_cstruct){.s = s, .type = t, .data = data, .owner = owner};
    return dlsh_new_handle(&dlsh_cstruct_class, v);
}

dlsh_value dlsh_c_struct_value(dlsh_session *s, const dlsh_ctype *t, const void *copy) {
    size_t n = dlsh_c_size(t);
    char *data = dl_memory_alloc((long)n, 1);
    if (!data) return dlsh_void();
    if (copy)
        memcpy(data, copy, n);
    else
        memset(data, 0, n);
    dlsh_value owner = dlsh_c_owner(data, (long)n, free, NULL);
    return dlsh_failed(owner) ? owner : dlsh_c_struct_view(s, t->plain, data, owner);
}

static void struct_free(void *self) {
    dlsh_cstruct *v = self;
    dlsh_drop(v->owner);
    free(v);
}

int dlsh_c_struct_bytes(const dlsh_cstruct *v, void *to) {
    size_t n = dlsh_c_size(v->type);
    if (dlsh_failed(v->owner)) return dlsh_c_read_memory(v->data, to, n);
    memcpy(to, v->data, n);
    return 1;
}

static void field_list(dlsh_buf *b, const dlsh_ctype *t) {
    t = t->plain;
    for (long i = 0; dlsh_c_is_struct(t) && i < t->n && b->n < 100; i++)
        if (t->fields[i].name)
            dlsh_buf_printf(b, b->n ? ", %s" : "%s", t->fields[i].name);
        else if (!t->fields[i].bits)
            field_list(b, t->fields[i].type);
}

dl_status dlsh_c_no_field(const dlsh_ctype *t, const char *name) {
    char hint[160];
    DLSH_SCOPED_BUF b = {0};
    field_list(&b, t);
    snprintf(hint, sizeof hint, b.n < 100 ? "its fields: %s" : "its fields: %s, ...", dlsh_buf_text(&b));
    return dlsh_fail(DL_ERR_NAME, hint, "%s has no field '%s'", dlsh_c_name(t), name);
}

static dl_status struct_get(void *self, const char *name, dlsh_value *out) {
    dlsh_cstruct *v = self;
    size_t offset;
    if (!dlsh_c_field(v->type, name, &offset)) return dlsh_c_no_field(v->type, name);
    return dlsh_c_get_field(v->s, v->type, v->data, v->owner, name, out);
}

static dl_status struct_set(void *self, const char *name, dlsh_value x) {
    dlsh_cstruct *v = self;
    size_t offset;
    if (!dlsh_c_field(v->type, name, &offset)) return dlsh_c_no_field(v->type, name);
    return dlsh_c_set_field(v->s, v->type, v->data, v->owner, name, x);
}

static dl_status add_names(dlsh_list *l, const dlsh_ctype *t) {
    t = t->plain;
    for (long i = 0; dlsh_c_is_struct(t) && i < t->n; i++) {
        if (t->fields[i].bits && !t->fields[i].name) continue;
        if (!t->fields[i].name) {
            DLSH_TRY(add_names(l, t->fields[i].type));
            continue;
        }
        dlsh_value v = dlsh_string(t->fields[i].name);
        if (dlsh_failed(v)) return DL_ERR_MEMORY;
        DLSH_TRY(dlsh_list_push(l, v));
    }
    return DL_OK;
}

dl_status dlsh_c_field_names(const dlsh_ctype *t, dlsh_value *out) {
    dlsh_value list = dlsh_new_list(8);
    return dlsh_failed(list) ? DL_ERR_MEMORY : dlsh_give_filled(add_names(list.as.list, t), list, out);
}

static dl_status struct_names(void *self, dlsh_value *out) {
    return dlsh_c_field_names(((dlsh_cstruct *)self)->type, out);
}

static int struct_equal(const void *a, const void *b) {
    const dlsh_cstruct *x = a, *y = b;
    size_t n = dlsh_c_size(x->type);
    if (x->data == y->data) return 1;
    DLSH_FREED char *copies = x->type->plain == y->type->plain ? malloc(2 * n + 1) : NULL;
    return copies && dlsh_c_struct_bytes(x, copies) && dlsh_c_struct_bytes(y, copies + n) &&
           !memcmp(copies, copies + n, n);
}

void dlsh_c_address_text(dlsh_buf *b, const dlsh_ctype *t, const char *p) {
    enum { MOST = 40 };
    char s[MOST];
    size_t n = p && t->base->kind == DLSH_C_CHAR && t->base->is_const ? dlsh_c_strlen(p, MOST) : MOST;
    if (n < MOST && dlsh_c_read_memory(p, s, n + 1))
        dlsh_buf_quote(b, s, n);
    else
        dlsh_buf_printf(b, p ? "%p" : "NULL", (const void *)p);
}

static void field_text(dlsh_buf *b, dlsh_session *s, const dlsh_ctype *t, const char *at, int depth);

static void struct_text(dlsh_buf *b, dlsh_session *s, const dlsh_ctype *t, const char *at, int depth) {
    int some = 0;
    t = t->plain;
    dlsh_buf_puts(b, "{");
    for (long i = 0; i < t->n; i++) {
        const dlsh_cfield *f = &t->fields[i];
        dlsh_value v = dlsh_void();
        if (f->bits && !f->name) continue;
        if (some++) dlsh_buf_puts(b, ", ");
        if (f->name) dlsh_buf_printf(b, "%s: ", f->name);
        if (f->bits && !dlsh_c_get_field(s, t, (char *)at, dlsh_none(), f->name, &v))
            dlsh_repr(b, v);
        else
            field_text(b, s, f->type, at + f->offset, depth);
    }
    dlsh_buf_puts(b, "}");
}

static void field_text(dlsh_buf *b, dlsh_session *s, const dlsh_ctype *t, const char *at, int depth) {
    dlsh_value v = dlsh_void();
    if (depth > 4) {
        dlsh_buf_puts(b, "...");
    } else if (dlsh_c_is_struct(t)) {
        struct_text(b, s, t, at, depth + 1);
    } else if (t->kind == DLSH_C_ARRAY && t->base->plain->kind == DLSH_C_CHAR) {
        dlsh_buf_quote(b, at, strnlen(at, t->n > 0 ? (size_t)t->n : 0));
    } else if (t->kind == DLSH_C_ARRAY) {
        dlsh_buf_puts(b, "[");
        for (long i = 0; i < t->n && i < 8; i++) {
            if (i) dlsh_buf_puts(b, ", ");
            field_text(b, s, t->base, at + i * (long)dlsh_c_size(t->base), depth + 1);
        }
        dlsh_buf_puts(b, t->n > 8 ? ", ...]" : "]");
    } else if (t->kind == DLSH_C_POINTER) {
        char *p;
        memcpy(&p, at, sizeof p);
        dlsh_c_address_text(b, t, p);
    } else if (dlsh_c_size(t) && t->kind != DLSH_C_OPAQUE && !dlsh_c_load(s, t, at, &v)) {
        dlsh_repr(b, v);
        dlsh_drop(v);
    } else {
        dl_error_clear();
        dlsh_buf_puts(b, "?");
    }
}

dl_status dlsh_c_struct_text(dlsh_buf *b, const dlsh_ctype *t, const char *at) {
    if (t->plain->laid_out)
        struct_text(b, NULL, t, at, 0);
    else
        dlsh_buf_puts(b, "{...}");
    return DL_OK;
}

static dl_status value_text(void *self, dlsh_buf *b) {
    const dlsh_cstruct *v = self;
    DLSH_FREED char *copy = malloc(dlsh_c_size(v->type) + 1);
    dlsh_buf_printf(b, "%s ", dlsh_c_name(v->type));
    if (copy && dlsh_c_struct_bytes(v, copy))
        dlsh_c_struct_text(b, v->type, copy);
    else
        dlsh_buf_puts(b, "{not readable}");
    return b->failed ? DL_ERR_MEMORY : DL_OK;
}

static void struct_values(void *self, const dlsh_visitor *to) { to->value(((dlsh_cstruct *)self)->owner, to->ctx); }

const dlsh_class dlsh_cstruct_class = {.name = "struct",
                                       .doc = "A struct or union of C.",
                                       .destroy = struct_free,
                                       .text = value_text,
                                       .get = struct_get,
                                       .set = struct_set,
                                       .names = struct_names,
                                       .equal = struct_equal,
                                       .values = struct_values};
