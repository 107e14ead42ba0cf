/* C's types: making, interning, layout, printing. */
#include "ffi/values/ctype.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/values/declarations.h"
#include "lang/session.h"

/* ---------------------------------------------------------------- the scalars */

#define KIND(id, name, type, ffi)                                                                                      \
    [DLSH_C_##id] = {.kind = DLSH_C_##id, .size = sizeof(type), .align = _Alignof(type), .plain = &basics[DLSH_C_##id]},
static const dlsh_ctype basics[DLSH_C_NKINDS] = {[DLSH_C_VOID] = {.kind = DLSH_C_VOID, .plain = &basics[DLSH_C_VOID]},
                                                 DLSH_CSCALARS(KIND)};
#undef KIND

static const char *const kind_names[] = {
    [DLSH_C_VOID] = "void",
#define KIND(id, name, type, ffi) [DLSH_C_##id] = name,
    DLSH_CSCALARS(KIND)
#undef KIND
        [DLSH_C_ENUM] = "enum",
    [DLSH_C_STRUCT] = "struct",
    [DLSH_C_UNION] = "union",
    [DLSH_C_OPAQUE] = "",
};

const dlsh_ctype *dlsh_c_basic(dlsh_ckind kind) { return &basics[kind]; }

int dlsh_c_is_unsigned(const dlsh_ctype *t) {
    if (t->kind == DLSH_C_ENUM) return dlsh_c_is_unsigned(t->plain->base);
    return t->kind == DLSH_C_BOOL || t->kind == DLSH_C_UCHAR || t->kind == DLSH_C_USHORT || t->kind == DLSH_C_UINT ||
           t->kind == DLSH_C_ULONG || t->kind == DLSH_C_ULLONG || (t->kind == DLSH_C_CHAR && (char)-1 > 0);
}

/* ---------------------------------------------------------------- interning */

static unsigned long mix(unsigned long h, unsigned long v) { return (h ^ v) * 0x9E3779B97F4A7C15ul; }

static unsigned long hash_type(const dlsh_ctype *t) {
    unsigned long h = mix(t->kind + 1ul, (unsigned long)t->is_const);
    h = mix(h, (unsigned long)(size_t)t->base);
    h = mix(h, (unsigned long)t->n + (unsigned long)t->varargs * 77);
    for (long i = 0; t->kind == DLSH_C_FUNCTION && i < t->n; i++) h = mix(h, (unsigned long)(size_t)t->params[i]);
    return h ^ h >> 29;
}

static int equal_types(const dlsh_ctype *a, const dlsh_ctype *b) {
    if (a->kind != b->kind || a->is_const != b->is_const || a->base != b->base || a->n != b->n ||
        a->varargs != b->varargs)
        return 0;
    for (long i = 0; a->kind == DLSH_C_FUNCTION && i < a->n; i++)
        if (a->params[i] != b->params[i]) return 0;
    return 1;
}

static int grow_types(dlsh_cspace *c) {
    int size = c->ntypeslots ? 2 * c->ntypeslots : 128;
    dlsh_ctype **slots = calloc((size_t)size, sizeof *slots);
    if (!slots) return dlsh_no_memory("C types") == DL_OK;
    for (int i = 0; i < c->ntypeslots; i++)
        if (c->types[i]) {
            unsigned long h = hash_type(c->types[i]);
            while (slots[h & (unsigned long)(size - 1)]) h++;
            slots[h & (unsigned long)(size - 1)] = c->types[i];
        }
    free(c->types);
    c->types = slots;
    c->ntypeslots = size;
    return 1;
}

static int is_depth_allowed(int depth) {
    if (depth <= DLSH_C_MAX_DEPTH) return 1;
    dlsh_fail(DL_ERR_VALUE, "put a struct between its parts", "this type is nested too deeply (more than %d levels)",
              DLSH_C_MAX_DEPTH);
    return 0;
}

/* The depth of the base type. A pointer to a struct counts as flat: structs are printed and compared by name. */
static int depth_of_base(const dlsh_ctype *t) {
    return !t->base || (t->kind == DLSH_C_POINTER && dlsh_c_is_struct(t->base)) ? 0 : t->base->plain->depth;
}

static int depth_of(const dlsh_ctype *t) {
    int depth = depth_of_base(t);
    for (long i = 0; t->kind == DLSH_C_FUNCTION && i < t->n; i++)
        if (t->params[i]->plain->depth > depth) depth = t->params[i]->plain->depth;
    return depth + 1;
}

/* The interned type that equals *want; params are copied when it is new. */
static const dlsh_ctype *intern(dlsh_cspace *c, const dlsh_ctype *want) {
    if (2 * (c->ntypes + 1) > c->ntypeslots && !grow_types(c)) return NULL;
    unsigned long h = hash_type(want);
    for (; c->types[h & (unsigned long)(c->ntypeslots - 1)]; h++) {
        dlsh_ctype *t = c->types[h & (unsigned long)(c->ntypeslots - 1)];
        if (equal_types(t, want)) return t;
    }
    int depth = depth_of(want);
    dlsh_ctype *t = is_depth_allowed(depth) ? dlsh_c_alloc(c, sizeof *t) : NULL;
    if (!t) return NULL;
    *t = *want;
    t->plain = t;
    t->depth = depth;
    if (want->kind == DLSH_C_FUNCTION && want->n) {
        const dlsh_ctype **params = dlsh_c_alloc(c, (size_t)want->n * sizeof *params);
        if (!params) return NULL;
        memcpy(params, want->params, (size_t)want->n * sizeof *params);
        t->params = params;
    }
    c->types[h & (unsigned long)(c->ntypeslots - 1)] = t;
    c->ntypes++;
    return t;
}

const dlsh_ctype *dlsh_c_pointer(dlsh_cspace *c, const dlsh_ctype *to) {
    if (!to) return NULL;
    dlsh_ctype t = {.kind = DLSH_C_POINTER, .size = sizeof(void *), .align = _Alignof(void *), .base = to};
    return intern(c, &t);
}

const dlsh_ctype *dlsh_c_array(dlsh_cspace *c, const dlsh_ctype *of, long n) {
    if (!of) return NULL;
    size_t size = dlsh_c_size(of);
    if (n > 0 && size > (size_t)-1 / 4 / (size_t)n) {
        dlsh_fail(DL_ERR_VALUE, NULL, "an array of %ld elements of %zu bytes is too large", n, size);
        return NULL;
    }
    dlsh_ctype t = {
        .kind = DLSH_C_ARRAY, .size = n < 0 ? 0 : (size_t)n * size, .align = of->plain->align, .base = of, .n = n};
    return intern(c, &t);
}

const dlsh_ctype *dlsh_c_function(dlsh_cspace *c, const dlsh_ctype *result, const dlsh_ctype *const *params, int n,
                                  int varargs) {
    if (!result) return NULL;
    dlsh_ctype t = {.kind = DLSH_C_FUNCTION, .base = result, .n = n, .params = params, .varargs = varargs};
    return intern(c, &t);
}

const dlsh_ctype *dlsh_c_const(dlsh_cspace *c, const dlsh_ctype *t) {
    if (!t || t->is_const || t->kind == DLSH_C_FUNCTION) return t;
    if (t->kind == DLSH_C_ARRAY) return dlsh_c_array(c, dlsh_c_const(c, t->base), t->n);
    if (t->kind <= DLSH_C_LDOUBLE) { /* shared ones keep their const forms in the space */
        if (!c->consts[t->kind].plain) {
            c->consts[t->kind] = *t;
            c->consts[t->kind].is_const = 1;
        }
        return &c->consts[t->kind];
    }
    if (t->constant) return t->constant;
    dlsh_ctype *k = dlsh_c_alloc(c, sizeof *k);
    if (!k) return NULL;
    *k = *t;
    k->is_const = 1;
    k->plain = t;
    ((dlsh_ctype *)t)->constant = k; /* every type but the scalars is the space's own */
    return k;
}

dlsh_ctype *dlsh_c_tagged(dlsh_cspace *c, dlsh_ckind kind, const char *tag, size_t len) {
    dlsh_ctype *t = dlsh_c_alloc(c, sizeof *t);
    if (!t) return NULL;
    t->kind = kind;
    t->plain = t;
    if (tag && !(t->tag = dlsh_c_copy(c, tag, len))) return NULL;
    if (kind == DLSH_C_ENUM) {
        t->base = dlsh_c_basic(DLSH_C_UINT);
        t->size = t->align = sizeof(int);
    }
    return t;
}

/* ---------------------------------------------------------------- layout */

/* The natural layout, as in the ABIs of x86-64 and arm64: each field at the next multiple of its alignment. */
static dl_status lay_out(dlsh_ctype *t, dlsh_cfield *f) {
    size_t at = 0, align = 1, largest = 0, bit = 0; /* bit: the first free one after a bit-field */
    for (long i = 0; i < t->n; i++) {
        size_t a = f[i].type->plain->align ? f[i].type->plain->align : 1, size = dlsh_c_size(f[i].type);
        if (f[i].bits) {
            size_t unit = 8 * size, from = t->kind == DLSH_C_UNION ? 0 : bit ? bit : 8 * at;
            size_t bits = f[i].bits < 0 ? 0 : (size_t)f[i].bits;
            if (!bits || from % unit + bits > unit) from = (from + unit - 1) / unit * unit;
            f[i].offset = from / unit * size;
            f[i].bit_at = (int)(from % unit);
            bit = from + bits;
            at = (bit + 7) / 8;
            if (at > largest) largest = at;
            if (a > align && f[i].name) align = a;
            continue;
        }
        bit = 0;
        at = (at + a - 1) / a * a;
        if (size > (size_t)-1 / 4 - at) return dlsh_fail(DL_ERR_VALUE, NULL, "the struct is too large");
        f[i].offset = t->kind == DLSH_C_UNION ? 0 : at;
        at += size;
        if (a > align) align = a;
        if (size > largest) largest = size;
    }
    if (t->kind == DLSH_C_UNION) at = largest;
    t->align = align;
    t->size = (at + align - 1) / align * align;
    return DL_OK;
}

dl_status dlsh_c_complete(dlsh_cspace *c, dlsh_ctype *t, const dlsh_cfield *fields, int n, int custom_layout) {
    dlsh_cfield *f = dlsh_c_alloc(c, ((size_t)n + 1) * sizeof *f);
    if (!f) return DL_ERR_MEMORY;
    if (n) memcpy(f, fields, (size_t)n * sizeof *f);
    t->fields = f;
    t->n = n;
    t->custom_layout = custom_layout;
    t->laid_out = !custom_layout;
    for (int i = 0; i < n; i++) {
        if (dlsh_c_is_struct(f[i].type) && !f[i].type->plain->laid_out) t->laid_out = 0;
        if (f[i].type->plain->depth >= t->depth) t->depth = f[i].type->plain->depth + 1;
    }
    if (!is_depth_allowed(t->depth) || lay_out(t, f)) return DL_ERR_VALUE;
    t->complete = 1;
    return DL_OK;
}

static const char *const complex_names[] = {"float _Complex", "double _Complex"};

const dlsh_ctype *dlsh_c_complex(dlsh_cspace *c, dlsh_ckind part) {
    int which = part == DLSH_C_DOUBLE;
    dlsh_cfield parts[] = {{.name = "re", .type = dlsh_c_basic(part)}, {.name = "im", .type = dlsh_c_basic(part)}};
    if (c->complex[which]) return c->complex[which];
    dlsh_ctype *t = dlsh_c_tagged(c, DLSH_C_STRUCT, NULL, 0);
    if (!t || dlsh_c_complete(c, t, parts, 2, 0)) return NULL;
    t->alias = complex_names[which];
    return c->complex[which] = t;
}

int dlsh_c_is_complex(const dlsh_ctype *t) {
    return dlsh_c_is_struct(t) && (t->plain->alias == complex_names[0] || t->plain->alias == complex_names[1]);
}

const dlsh_cfield *dlsh_c_field(const dlsh_ctype *t, const char *name, size_t *offset) {
    t = t->plain;
    for (long i = 0; dlsh_c_is_struct(t) && i < t->n; i++) {
        const dlsh_cfield *f = &t->fields[i], *inner;
        if (f->name && !strcmp(f->name, name)) {
            *offset = f->offset;
            return f;
        }
        if (!f->name && (inner = dlsh_c_field(f->type, name, offset))) {
            *offset += f->offset;
            return inner;
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- comparing */

/* Pairs of function types already found to be the same, so that types which refer to each other often are compared in
 * linear time. A pair that differs ends the comparison; pairs beyond the table are compared again. */
typedef struct same_pairs {
    const dlsh_ctype *pair[1024][2];
    int n, cleared;
} same_pairs;

/* The slot of a pair; NULL: the table is full. */
static const dlsh_ctype **pair_place(same_pairs *p, const dlsh_ctype *a, const dlsh_ctype *b) {
    enum { SIZE = sizeof p->pair / sizeof *p->pair, MOST = SIZE * 3 / 4 };
    if (!p->cleared) memset(p, 0, sizeof *p);
    p->cleared = 1;
    uint64_t h = ((uint64_t)(uintptr_t)a * 31 + (uint64_t)(uintptr_t)b) * 0x9e3779b97f4a7c15u >> 32;
    for (;; h++) {
        const dlsh_ctype **at = p->pair[h % SIZE];
        if (!at[0]) return p->n < MOST ? at : NULL;
        if (at[0] == a && at[1] == b) return at;
    }
}

static int same(const dlsh_ctype *a, const dlsh_ctype *b, int loose, same_pairs *known);

static int same_functions(const dlsh_ctype *a, const dlsh_ctype *b, int loose, same_pairs *known) {
    if (a->n != b->n || a->varargs != b->varargs) return 0;
    const dlsh_ctype **at = pair_place(known, a, b);
    if (at && at[0]) return 1;
    if (!same(a->base, b->base, loose, known)) return 0;
    for (long i = 0; i < a->n; i++)
        if (!same(a->params[i], b->params[i], loose, known)) return 0;
    if ((at = pair_place(known, a, b)) && !at[0]) at[0] = a, at[1] = b, known->n++;
    return 1;
}

static int same(const dlsh_ctype *a, const dlsh_ctype *b, int loose, same_pairs *known) {
    a = a->plain;
    b = b->plain;
    if (a == b) return 1;
    if (loose && a->kind >= DLSH_C_CHAR && a->kind <= DLSH_C_UCHAR && b->kind >= DLSH_C_CHAR && b->kind <= DLSH_C_UCHAR)
        return 1;
    if (loose && dlsh_c_is_integer(a) && dlsh_c_is_integer(b))
        return a->size == b->size &&
               (dlsh_c_is_unsigned(a) == dlsh_c_is_unsigned(b) || a->kind == DLSH_C_ENUM || b->kind == DLSH_C_ENUM);
    if (a->kind != b->kind) return 0;
    switch (a->kind) {
    case DLSH_C_POINTER:
        if (loose && (a->base->kind == DLSH_C_VOID || b->base->kind == DLSH_C_VOID))
            return a->base->kind != DLSH_C_FUNCTION && b->base->kind != DLSH_C_FUNCTION;
        return same(a->base, b->base, loose, known);
    case DLSH_C_ARRAY: return (a->n == b->n || a->n < 0 || b->n < 0) && same(a->base, b->base, loose, known);
    case DLSH_C_FUNCTION: return same_functions(a, b, loose, known);
    case DLSH_C_STRUCT:
    case DLSH_C_UNION:
    case DLSH_C_OPAQUE:
        if (!loose) return 0;
        if (a->tag || b->tag) return a->tag && b->tag && !strcmp(a->tag, b->tag);
        return a->alias && b->alias && !strcmp(a->alias, b->alias);
    default: return 0;
    }
}

int dlsh_c_same(const dlsh_ctype *a, const dlsh_ctype *b, int loose) {
    same_pairs known;
    known.cleared = 0;
    return same(a, b, loose, &known);
}

/* ---------------------------------------------------------------- printing */

static void print_type(int *parts, dlsh_buf *b, const dlsh_ctype *t, const char *inner);

static void print_params(int *parts, dlsh_buf *b, const dlsh_ctype *t) {
    for (long i = 0; i < t->n; i++) {
        if (i) dlsh_buf_puts(b, ", ");
        print_type(parts, b, t->params[i], "");
    }
    dlsh_buf_puts(b, t->varargs ? t->n ? ", ...)" : "...)" : t->n ? ")" : "void)");
}

/* Prints a declarator from the name outwards. *parts: how many more parts may be printed. */
static void print_type(int *parts, dlsh_buf *b, const dlsh_ctype *t, const char *inner) {
    DLSH_SCOPED_BUF d = {0};
    if ((*parts)-- <= 0) {
        dlsh_buf_puts(b, "...");
        return;
    }
    switch (t->kind) {
    case DLSH_C_POINTER: {
        int group = t->base->kind == DLSH_C_ARRAY || t->base->kind == DLSH_C_FUNCTION;
        dlsh_buf_printf(&d, "%s*%s%s%s", group ? "(" : "", t->is_const ? "const " : "", inner, group ? ")" : "");
        print_type(parts, b, t->base, dlsh_buf_text(&d));
        break;
    }
    case DLSH_C_ARRAY:
        dlsh_buf_puts(&d, inner);
        if (t->n < 0)
            dlsh_buf_puts(&d, "[]");
        else
            dlsh_buf_printf(&d, "[%ld]", t->n);
        print_type(parts, b, t->base, dlsh_buf_text(&d));
        break;
    case DLSH_C_FUNCTION:
        dlsh_buf_printf(&d, "%s(", inner);
        print_params(parts, &d, t);
        print_type(parts, b, t->base, dlsh_buf_text(&d));
        break;
    default:
        if (t->is_const) dlsh_buf_puts(b, "const ");
        if (t->plain->alias)
            dlsh_buf_puts(b, t->plain->alias);
        else if (t->kind == DLSH_C_OPAQUE || t->kind <= DLSH_C_LDOUBLE)
            dlsh_buf_puts(b, t->kind == DLSH_C_OPAQUE ? t->tag : kind_names[t->kind]);
        else
            dlsh_buf_printf(b, "%s %s", kind_names[t->kind], t->tag ? t->tag : "{...}");
        if (*inner) dlsh_buf_printf(b, "%s%s", *inner == '[' ? "" : " ", inner);
    }
}

void dlsh_c_print(dlsh_buf *b, const dlsh_ctype *t, const char *name) {
    int parts = 2000;
    print_type(&parts, b, t, name ? name : "");
}

const char *dlsh_c_name(const dlsh_ctype *t) {
    static _Thread_local char texts[8][160];
    static _Thread_local int next;
    char *s = texts[next++ % 8];
    DLSH_SCOPED_BUF b = {0};
    dlsh_c_print(&b, t, NULL);
    snprintf(s, sizeof texts[0], "%s", dlsh_buf_text(&b));
    return s;
}
