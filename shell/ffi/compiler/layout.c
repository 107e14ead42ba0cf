/* Layouts of structs from the compiler: it compiles a table of their sizes and offsets, whose assembly is read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/compiler/query.h"

enum { MAX_STRUCTS = 2000, MAX_DEPTH = 6 };

typedef struct query {
    dlsh_buf undefs;                /* fields may have names that are macros, too: si_pid is one of both */
    dlsh_buf source;                /* the table */
    dlsh_ctype *types[MAX_STRUCTS]; /* in the order asked */
    int n;
} query;

static int asked(const query *q, const dlsh_ctype *t) {
    for (int i = 0; i < q->n; i++)
        if (q->types[i] == t) return 1;
    return 0;
}

/* The first named field in an anonymous member, which has the member's offset. */
static const char *first_name(const dlsh_ctype *t) {
    for (long i = 0; dlsh_c_is_struct(t) && i < t->plain->n; i++) {
        const dlsh_cfield *f = &t->plain->fields[i];
        const char *name = f->name && !f->bits ? f->name : f->name ? NULL : first_name(f->type);
        if (name) return name;
    }
    return NULL;
}

/* Adds a type to the query. `text` names it in C; members without a type name are named through it. */
static void ask_type(query *q, dlsh_ctype *t, const char *text, int depth) {
    t = (dlsh_ctype *)t->plain;
    if (!dlsh_c_is_struct(t) || dlsh_c_is_complex(t) || !t->complete || depth > MAX_DEPTH || q->n == MAX_STRUCTS ||
        asked(q, t))
        return;
    q->types[q->n++] = t;
    dlsh_buf_printf(&q->source, "sizeof(%s), _Alignof(%s),\n", text, text);
    for (long i = 0; i < t->n; i++) {
        const dlsh_cfield *f = &t->fields[i];
        const char *name = f->name ? f->name : dlsh_c_is_struct(f->type) ? first_name(f->type) : NULL;
        if (name) dlsh_buf_printf(&q->undefs, "#undef %s\n", name);
        if (f->bits || !name)
            dlsh_buf_puts(&q->source, "-1,\n");
        else
            dlsh_buf_printf(&q->source, "__builtin_offsetof(%s, %s),\n", text, name);
    }
    for (long i = 0; i < t->n; i++) {
        const dlsh_ctype *part = t->fields[i].type;
        DLSH_SCOPED_BUF path = {0};
        if (!t->fields[i].name) continue;
        dlsh_buf_printf(&path, "__typeof__(((%s *)0)->%s", text, t->fields[i].name);
        for (; part->kind == DLSH_C_ARRAY; part = part->base) dlsh_buf_puts(&path, "[0]");
        dlsh_buf_puts(&path, ")");
        if (dlsh_c_is_struct(part) && !part->plain->tag && !part->plain->alias)
            ask_type(q, (dlsh_ctype *)part->plain, dlsh_buf_text(&path), depth + 1);
    }
}

/* Sets the layout of a struct from the numbers of the table; returns the rest of the table, NULL at its end. Bit-fields
 * have no offset there: the computed ones are right when the size is as computed. */
static const long *read_layout(dlsh_ctype *t, const long *v, const long *end) {
    int differs = 0, bits = 0;
    if (end - v < 2 + t->n) return NULL;
    size_t size = (size_t)*v++, align = (size_t)*v++;
    dlsh_cfield *f = (dlsh_cfield *)t->fields; /* of the space */
    for (long i = 0; i < t->n; i++, v++) {
        bits |= f[i].bits != 0;
        if (*v < 0) continue;
        differs |= f[i].offset != (size_t)*v;
        f[i].offset = (size_t)*v;
    }
    differs |= t->size != size || t->align != align;
    t->custom_layout |= differs; /* a pragma: libffi would find the natural layout */
    t->size = size;
    t->align = align;
    t->laid_out = !(bits && differs);
    return v;
}

static dl_status ask(query *q, const char *context, const char *flags) {
    static const char *const args[] = {"-S", "-O0", "-g0", "-w", "-o", "-", NULL};
    DLSH_SCOPED_BUF text = {0}, said = {0}, data = {0};
    int good;
    dlsh_buf_printf(&text, "%s\n%s%s", context, dlsh_buf_text(&q->undefs), dlsh_buf_text(&q->source));
    int failed = q->source.failed || q->undefs.failed || text.failed;
    dl_status st =
        failed ? dlsh_no_memory("layouts") : dlsh_c_query(dlsh_buf_text(&text), args, flags, 0, &said, &good);
    const char *s = st || !good ? NULL : strstr(dlsh_buf_text(&said), "dlsh_query:\n");
    if (s && dlsh_c_read_data(s + strlen("dlsh_query:\n"), &data)) {
        const long *v = (const long *)(void *)data.s, *end = v + data.n / sizeof *v;
        for (int i = 0; i < q->n && v; i++) v = read_layout(q->types[i], v, end);
    }
    return st;
}

int dlsh_c_has_layout_words(const char *text) {
    return strstr(text, "__attribute") || strstr(text, "_Alignas") || strstr(text, "alignas") || strstr(text, "ragma");
}

dl_status dlsh_c_query_layouts(dlsh_cspace *c, int savepoint, const char *context, const char *flags) {
    DLSH_FREED query *q = calloc(1, sizeof *q);
    const dlsh_cname *n;
    if (!q) return dlsh_no_memory("layouts");
    dlsh_buf_puts(&q->source, "long dlsh_query[] = {\n");
    for (int next = savepoint; (n = dlsh_c_next(c, &next));)
        if (n->kind == DLSH_C_TAG || (n->kind == DLSH_C_TYPEDEF && dlsh_c_is_struct(n->type) && !n->type->plain->tag))
            ask_type(q, (dlsh_ctype *)n->type->plain, n->name, 0);
    dlsh_buf_puts(&q->source, "0};\n");
    dl_status st = q->n ? ask(q, context, flags) : DL_OK;
    dlsh_buf_free(&q->source);
    dlsh_buf_free(&q->undefs);
    return st;
}
