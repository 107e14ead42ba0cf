/* Struct, union and enum specifiers. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/cparse/cparser.h"
#include "lang/session.h"

static dlsh_ctype *enter_tag(dlsh_cparser *p, dlsh_ckind kind, const dlsh_ctok *tag) {
    char name[256];
    const char *word = kind == DLSH_C_STRUCT ? "struct" : kind == DLSH_C_UNION ? "union" : "enum";
    size_t n = strlen(word);
    if (tag->len + n + 2 > sizeof name)
        return dlsh_cp_fail(p, tag, NULL, "the name is too long: %zu characters", tag->len);
    memcpy(name, word, n);
    name[n] = ' ';
    memcpy(name + n + 1, tag->text, tag->len);
    dlsh_ctype *t = dlsh_c_tagged(p->c, kind, tag->text, tag->len);
    if (!t || !dlsh_c_enter(p->c, DLSH_C_TAG, name, n + 1 + tag->len, t)) p->failed = DL_ERR_MEMORY;
    return p->failed ? NULL : t;
}

static void remember(dlsh_cparser *p, dlsh_ctype *t) {
    if (!t) p->failed = DL_ERR_MEMORY;
}

typedef struct fields {
    dlsh_cfield *items;
    int n, cap;
    dl_names index; /* of their names; those without one are called "" there */
} fields;

static const char *field_name(const void *fs, int i) {
    const char *name = ((const fields *)fs)->items[i].name;
    return name ? name : "";
}

static int add_field(dlsh_cparser *p, fields *fs, dlsh_cfield f, const dlsh_ctok *at) {
    if (f.name && dl_names_find(&fs->index, f.name, (long)strlen(f.name), field_name, fs) >= 0)
        return dlsh_cp_fail(p, at, NULL, "two fields are called '%s'", f.name) != NULL;
    dlsh_cfield *items = dlsh_grow(fs->items, fs->n, &fs->cap, sizeof *items);
    if (!items) return p->failed = DL_ERR_MEMORY, 0;
    fs->items = items;
    items[fs->n] = f;
    if (f.name && dl_names_add(&fs->index, fs->n, field_name, fs)) p->failed = DL_ERR_MEMORY;
    fs->n++;
    return !p->failed;
}

static int is_sized(const dlsh_ctype *t) {
    t = t->plain;
    return t->size || t->kind == DLSH_C_ARRAY || t->kind == DLSH_C_OPAQUE || (dlsh_c_is_struct(t) && t->complete);
}

/* Parses one declarator of a field; `,` or `;` follows. */
static int one_field(dlsh_cparser *p, const dlsh_cspecs *specs, fields *fs, int *attributes) {
    dlsh_cdeclarator d = {.name = p->tok, .type = specs->type};
    dlsh_cfield f = {.type = specs->type};
    long bits;
    d.name.kind = DLSH_CT_END;
    if (!dlsh_cp_is(p, ':') && !dlsh_cp_declarator(p, specs->type, 0, &d)) return 0;
    free(d.params);
    f.type = d.type;
    if (d.name.kind == DLSH_CT_IDENT && !(f.name = dlsh_c_copy(p->c, d.name.text, d.name.len)))
        p->failed = DL_ERR_MEMORY;
    if (dlsh_cp_accept(p, ':')) {
        if (!dlsh_cp_constant(p, &bits)) return 0;
        if (bits < 0 || bits > 64)
            return dlsh_cp_fail(p, &d.name, NULL, "a bit-field has 0 to 64 bits, not %ld", bits) != NULL;
        f.bits = bits ? (int)bits : -1;
        if (!dlsh_c_is_integer(f.type))
            return dlsh_cp_fail(p, &d.name, NULL, "a bit-field must be of an integer type, not %s",
                                dlsh_c_name(f.type)) != NULL;
        if (bits > (f.type->plain->kind == DLSH_C_BOOL ? 1 : 8 * (long)dlsh_c_size(f.type)))
            return dlsh_cp_fail(p, &d.name, NULL, "%ld bits are more than %s has", bits, dlsh_c_name(f.type)) != NULL;
        if (!f.name) return add_field(p, fs, f, &d.name); /* padding */
    }
    dlsh_cp_attributes(p, attributes);
    if (p->failed) return 0;
    if (!f.name) return dlsh_cp_expected(p, "the name of a field", NULL) != NULL;
    if (f.type->kind == DLSH_C_FUNCTION && !(p->flags & DLSH_C_LENIENT))
        return dlsh_cp_fail(p, &d.name, "a pointer to one can: int (*f)(int)", "field '%s' cannot be a function",
                            f.name) != NULL;
    if (!is_sized(f.type) && !(p->flags & DLSH_C_LENIENT))
        return dlsh_cp_fail(p, &d.name, "declare the struct before, or use a pointer to it",
                            "field '%s' has the incomplete type %s", f.name, dlsh_c_name(f.type)) != NULL;
    return add_field(p, fs, f, &d.name);
}

static int field_declaration(dlsh_cparser *p, fields *fs, int *attributes) {
    dlsh_cspecs specs = {0};
    dlsh_ctok at = p->tok;
    if (!dlsh_cp_specifiers(p, &specs)) return 0;
    *attributes |= specs.attributes;
    if (dlsh_cp_accept(p, ';')) {
        if (!dlsh_c_is_struct(specs.type)) return 1; /* declares nothing */
        return specs.type->plain->tag ? 1 : add_field(p, fs, (dlsh_cfield){.type = specs.type}, &at);
    }
    do {
        if (!one_field(p, &specs, fs, attributes)) return 0;
    } while (dlsh_cp_accept(p, ','));
    return dlsh_cp_accept(p, ';') || dlsh_cp_expected(p, "';' after a field", NULL);
}

static int same_fields(const dlsh_ctype *t, const fields *fs) {
    if (t->n != fs->n) return 0;
    for (int i = 0; i < fs->n; i++) {
        const dlsh_cfield *a = &t->fields[i], *b = &fs->items[i];
        if (!a->name != !b->name || (a->name && strcmp(a->name, b->name)) || a->bits != b->bits) return 0;
        if (!dlsh_c_same(a->type, b->type, 0) && (a->name || a->type->plain->n != b->type->plain->n)) return 0;
    }
    return 1;
}

static const dlsh_ctype *define(dlsh_cparser *p, dlsh_ckind kind, dlsh_ctype *t, const dlsh_ctok *tag,
                                int *attributes) {
    fields fs = {0};
    const dlsh_ctype *result = NULL;
    int own_attributes = *attributes;
    dlsh_ctok at = p->tok;
    if (!dlsh_cp_enter(p)) return NULL;
    dlsh_cp_advance(p); /* { */
    if (t && t->complete && p->flags & DLSH_C_REPLACE) t = NULL;
    if (!t) t = tag->kind == DLSH_CT_IDENT ? enter_tag(p, kind, tag) : dlsh_c_tagged(p->c, kind, NULL, 0);
    remember(p, t);
    while (!p->failed && !dlsh_cp_is(p, '}'))
        if (!field_declaration(p, &fs, &own_attributes)) goto out;
    if (p->failed) goto out;
    dlsh_cp_advance(p);
    dlsh_cp_attributes(p, &own_attributes);
    if (p->failed) goto out;
    if (t->complete) {
        if (!same_fields(t, &fs) && !(p->flags & DLSH_C_LENIENT)) {
            dlsh_cp_fail(p, tag, "give it another name; a definition once made stays",
                         "%s was defined with other fields", dlsh_c_name(t));
            goto out;
        }
    } else if (dlsh_c_complete(p->c, t, fs.items, fs.n, own_attributes)) {
        dlsh_cp_made(p, &at, NULL);
        goto out;
    }
    dlsh_cp_leave(p);
    result = t;
out:
    dl_names_free(&fs.index);
    free(fs.items);
    return result;
}

const dlsh_ctype *dlsh_cp_struct(dlsh_cparser *p) {
    dlsh_ckind kind = dlsh_clex_is(&p->tok, "union") ? DLSH_C_UNION : DLSH_C_STRUCT;
    dlsh_ctok tag = {.kind = DLSH_CT_END};
    int own_attributes = 0;
    dlsh_ctype *t = NULL;
    dlsh_cp_advance(p);
    dlsh_cp_attributes(p, &own_attributes);
    if (p->tok.kind == DLSH_CT_IDENT) {
        tag = p->tok;
        dlsh_cp_advance(p);
        t = (dlsh_ctype *)dlsh_c_find_tag(p->c, kind, tag.text, tag.len); /* made by this parser */
    }
    if (dlsh_cp_is(p, '{')) return define(p, kind, t, &tag, &own_attributes);
    if (tag.kind == DLSH_CT_END) return dlsh_cp_expected(p, "the name of a struct or its fields in { }", NULL);
    return t ? t : enter_tag(p, kind, &tag);
}

typedef struct range {
    long low, high;
} range;

static int enumerator(dlsh_cparser *p, long *next, const dlsh_ctype *type, range *r) {
    if (p->tok.kind != DLSH_CT_IDENT) return dlsh_cp_expected(p, "the name of a constant", NULL) != NULL;
    dlsh_ctok name = p->tok;
    int attributes = 0;
    dlsh_cp_advance(p);
    dlsh_cp_attributes(p, &attributes);
    if (dlsh_cp_accept(p, '=') && !dlsh_cp_constant(p, next)) return 0;
    const dlsh_cname *old = dlsh_c_find(p->c, name.text, name.len);
    if (old && old->kind != DLSH_C_MACRO && !(p->flags & (DLSH_C_LENIENT | DLSH_C_REPLACE)) &&
        (old->kind != DLSH_C_CONSTANT || old->i != *next || old->s))
        return dlsh_cp_fail(p, &name, NULL, "'%.*s' was declared otherwise before", (int)name.len, name.text) != NULL;
    dlsh_cname *n = dlsh_c_enter(p->c, DLSH_C_CONSTANT, name.text, name.len, type);
    if (!n) return p->failed = DL_ERR_MEMORY, 0;
    n->i = *next;
    *next = (long)((unsigned long)*next + 1);
    if (n->i < r->low) r->low = n->i;
    if (n->i > r->high) r->high = n->i;
    return 1;
}

/* The integer type of an enum: the first of these that holds all constants; a small one only when it is packed. */
static void choose_base(dlsh_ctype *t, const range *r, int packed) {
    static const struct {
        dlsh_ckind kind;
        long low, high;
    } types[] = {{DLSH_C_UCHAR, 0, UCHAR_MAX},  {DLSH_C_SCHAR, SCHAR_MIN, SCHAR_MAX},
                 {DLSH_C_USHORT, 0, USHRT_MAX}, {DLSH_C_SHORT, SHRT_MIN, SHRT_MAX},
                 {DLSH_C_UINT, 0, UINT_MAX},    {DLSH_C_INT, INT_MIN, INT_MAX},
                 {DLSH_C_ULONG, 0, LONG_MAX},   {DLSH_C_LONG, LONG_MIN, LONG_MAX}};
    int i = packed ? 0 : 4;
    while (r->low < types[i].low || r->high > types[i].high) i++;
    t->base = dlsh_c_basic(types[i].kind);
    t->size = t->base->size;
    t->align = t->base->align;
}

const dlsh_ctype *dlsh_cp_enum(dlsh_cparser *p) {
    dlsh_ctok tag = {.kind = DLSH_CT_END};
    dlsh_ctype *t = NULL;
    long next = 0;
    int attributes = 0;
    range r = {0, 0};
    dlsh_cp_advance(p);
    dlsh_cp_attributes(p, &attributes);
    if (p->tok.kind == DLSH_CT_IDENT) {
        tag = p->tok;
        dlsh_cp_advance(p);
        t = (dlsh_ctype *)dlsh_c_find_tag(p->c, DLSH_C_ENUM, tag.text, tag.len);
    }
    if (tag.kind == DLSH_CT_END && !dlsh_cp_is(p, '{'))
        return dlsh_cp_expected(p, "the name of an enum or its constants in { }", NULL);
    if (!t) t = tag.kind == DLSH_CT_END ? dlsh_c_tagged(p->c, DLSH_C_ENUM, NULL, 0) : enter_tag(p, DLSH_C_ENUM, &tag);
    remember(p, t);
    if (p->failed || !dlsh_cp_accept(p, '{')) return t;
    while (!dlsh_cp_is(p, '}')) {
        if (!enumerator(p, &next, t, &r)) return NULL;
        if (!dlsh_cp_accept(p, ',') && !dlsh_cp_is(p, '}')) return dlsh_cp_expected(p, "',' or '}'", NULL);
    }
    dlsh_cp_advance(p);
    dlsh_cp_attributes(p, &attributes);
    choose_base(t, &r, attributes & DLSH_ATTR_PACKED);
    return t;
}
