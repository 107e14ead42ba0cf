/* Writes a prototype with the types it needs as C text, for a helper process, which has none of the session's names.
 * Only layouts matter there, so pointers within structs become void *. */
#include <stdlib.h>
#include <string.h>

#include "ffi/cparse/clex.h"
#include "ffi/isolate/transfer.h"

enum { MAX_TYPES = 500 };

typedef struct emit {
    dlsh_cspace *c;
    dlsh_buf *out;
    const dlsh_ctype *done[MAX_TYPES];
    int n;
} emit;

static int index_of(const emit *e, const dlsh_ctype *t) {
    for (int i = 0; i < e->n; i++)
        if (e->done[i] == t) return i;
    return -1;
}

/* The name of a struct in the text: its tag, its typedef, or a number. */
static void put_struct_name(const emit *e, const dlsh_ctype *t, dlsh_buf *b) {
    const char *word = t->kind == DLSH_C_UNION ? "union" : "struct";
    if (t->tag)
        dlsh_buf_printf(b, "%s %s", word, t->tag);
    else if (t->alias)
        dlsh_buf_puts(b, t->alias);
    else
        dlsh_buf_printf(b, "%s dlsh_%d", word, index_of(e, t));
}

static void put_field(const emit *e, const dlsh_cfield *f, int i) {
    const dlsh_ctype *t = f->type->plain;
    DLSH_SCOPED_BUF dims = {0};
    for (; t->kind == DLSH_C_ARRAY; t = t->base->plain) dlsh_buf_printf(&dims, "[%ld]", t->n < 0 ? 0 : t->n);
    dlsh_buf_puts(e->out, "    ");
    if (t->kind == DLSH_C_POINTER)
        dlsh_buf_puts(e->out, "void *");
    else if (dlsh_c_is_complex(t) || !dlsh_c_is_struct(t))
        dlsh_c_print(e->out, t->kind == DLSH_C_ENUM ? t->base : t, NULL);
    else
        put_struct_name(e, t, e->out);
    if (f->name)
        dlsh_buf_printf(e->out, " %s%s;\n", f->name, dlsh_buf_text(&dims));
    else
        dlsh_buf_printf(e->out, " dlsh_f%d%s;\n", i, dlsh_buf_text(&dims));
}

static int has_bits(const dlsh_ctype *t) {
    for (long i = 0; i < t->n; i++)
        if (t->fields[i].bits) return 1;
    return 0;
}

/* An array of the same size and alignment, for structs with a layout of their own. */
static void put_bulk(const emit *e, const dlsh_ctype *t) {
    const char *unit = t->align == 8 ? "long" : t->align == 4 ? "int" : t->align == 2 ? "short" : "char";
    size_t size = t->align == 8 || t->align == 4 || t->align == 2 ? t->align : 1;
    dlsh_buf_printf(e->out, "    %s dlsh_bulk[%zu];\n", unit, t->size / size);
}

static void put_type(emit *e, const dlsh_ctype *t);

static void put_struct(emit *e, const dlsh_ctype *t) {
    const char *word = t->kind == DLSH_C_UNION ? "union" : "struct";
    int named = t->tag != NULL, number;
    if (dlsh_c_is_complex(t) || index_of(e, t) >= 0 || e->n == MAX_TYPES) return;
    if (t->tag && t->alias && !t->complete && !strcmp(t->tag, t->alias)) return; /* predeclared: FILE */
    number = e->n;
    e->done[e->n++] = t;
    int bulk = t->custom_layout || has_bits(t);
    for (long i = 0; t->complete && !bulk && i < t->n; i++) {
        const dlsh_ctype *f = t->fields[i].type->plain;
        while (f->kind == DLSH_C_ARRAY) f = f->base->plain;
        if (dlsh_c_is_struct(f)) put_type(e, f);
    }
    if (!named && t->alias) dlsh_buf_puts(e->out, "typedef ");
    if (named)
        dlsh_buf_printf(e->out, "%s %s", word, t->tag);
    else if (t->alias && t->complete)
        dlsh_buf_puts(e->out, word);
    else
        dlsh_buf_printf(e->out, "%s dlsh_%d", word, number);
    if (t->complete) {
        dlsh_buf_puts(e->out, " {\n");
        if (bulk) put_bulk(e, t);
        for (long i = 0; !bulk && i < t->n; i++) put_field(e, &t->fields[i], (int)i);
        dlsh_buf_puts(e->out, "}");
    }
    dlsh_buf_printf(e->out, !named && t->alias ? " %s;\n" : "%.0s;\n", t->alias ? t->alias : "");
    if (named && t->alias) dlsh_buf_printf(e->out, "typedef %s %s %s;\n", word, t->tag, t->alias);
}

static void put_type(emit *e, const dlsh_ctype *t) {
    t = t->plain;
    if (dlsh_c_is_struct(t)) {
        put_struct(e, t);
    } else if (t->kind == DLSH_C_POINTER || t->kind == DLSH_C_ARRAY) {
        put_type(e, t->base);
    } else if (t->kind == DLSH_C_FUNCTION) {
        put_type(e, t->base);
        for (long i = 0; i < t->n; i++) put_type(e, t->params[i]);
    } else if (t->kind == DLSH_C_ENUM && !t->tag && t->alias && index_of(e, t) < 0 && e->n < MAX_TYPES) {
        e->done[e->n++] = t;
        dlsh_buf_printf(e->out, "typedef %s %s;\n", dlsh_c_name(t->base), t->alias);
    }
}

/* Declares a constant or typedef that the prototype's text mentions. */
static void put_name(emit *e, const dlsh_cname *n) {
    if (n->kind == DLSH_C_CONSTANT && dlsh_c_is_integer(n->type)) {
        dlsh_buf_printf(e->out, "enum { %s = %ld };\n", n->name, n->i);
    } else if (n->kind == DLSH_C_TYPEDEF) {
        const dlsh_ctype *t = n->type->plain;
        put_type(e, t);
        if (t->alias && !strcmp(t->alias, n->name)) return;
        dlsh_buf_puts(e->out, "typedef ");
        dlsh_c_print(e->out, n->type, n->name);
        dlsh_buf_puts(e->out, ";\n");
    }
}

void dlsh_c_declare(dlsh_cspace *c, const dlsh_cproto *p, dlsh_buf *out) {
    emit e = {.c = c, .out = out};
    dlsh_clexer lx;
    dlsh_clex_begin(&lx, p->text, strlen(p->text));
    for (dlsh_ctok t; (t = dlsh_clex_next(&lx)).kind != DLSH_CT_END;) {
        const dlsh_cname *n = t.kind == DLSH_CT_IDENT ? dlsh_c_find(c, t.text, t.len) : NULL;
        if (n) put_name(&e, n);
    }
    put_type(&e, p->type);
    dlsh_buf_printf(out, "%s;\n", p->text);
}
