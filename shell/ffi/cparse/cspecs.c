/* Declaration specifiers, attributes, and the helpers of the parser of C declarations. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ffi/cparse/cparser.h"

/* ---------------------------------------------------------------- tokens */

void dlsh_cp_advance(dlsh_cparser *p) {
    p->last_end = (size_t)p->tok.offset + p->tok.len;
    do p->tok = dlsh_clex_next(&p->lx);
    while (p->tok.kind == DLSH_CT_DIRECTIVE);
}

dlsh_ctok dlsh_cp_peek(const dlsh_cparser *p) {
    dlsh_clexer lx = p->lx;
    dlsh_ctok t;
    do t = dlsh_clex_next(&lx);
    while (t.kind == DLSH_CT_DIRECTIVE);
    return t;
}

int dlsh_cp_accept(dlsh_cparser *p, int op) {
    if (p->failed || !dlsh_cp_is(p, op)) return 0;
    dlsh_cp_advance(p);
    return 1;
}

void *dlsh_cp_fail(dlsh_cparser *p, const dlsh_ctok *at, const char *hint, const char *fmt, ...) {
    if (p->failed) return NULL;
    p->failed = DL_ERR_SYNTAX;
    DLSH_FORMATTED(fmt, vsnprintf(p->err->message, sizeof p->err->message, fmt, ap));
    snprintf(p->err->hint, sizeof p->err->hint, "%s", hint ? hint : "");
    p->err->line = at->line;
    p->err->col = at->col;
    p->err->offset = at->offset;
    p->err->width = at->len ? (int)at->len : 1;
    return NULL;
}

void *dlsh_cp_expected(dlsh_cparser *p, const char *what, const char *hint) {
    const dlsh_ctok *t = &p->tok;
    if (t->kind == DLSH_CT_END) return dlsh_cp_fail(p, t, hint, "expected %s, found the end of the C text", what);
    if (t->kind == DLSH_CT_BAD && t->len && (*t->text == '/' || *t->text == '"' || *t->text == '\''))
        return dlsh_cp_fail(p, t, hint, *t->text == '/' ? "this comment does not end" : "this string does not end");
    return dlsh_cp_fail(p, t, hint, "expected %s, found '%.*s'", what, t->len < 40 ? (int)t->len : 40, t->text);
}

int dlsh_cp_enter(dlsh_cparser *p) {
    if (p->failed) return 0;
    if (++p->depth <= DLSH_C_MAX_DEPTH) return 1;
    dlsh_cp_fail(p, &p->tok, "give the inner parts names with typedef, or as structs of their own",
                 "this is nested too deeply (more than %d levels)", DLSH_C_MAX_DEPTH);
    return 0;
}

const dlsh_ctype *dlsh_cp_made(dlsh_cparser *p, const dlsh_ctok *at, const dlsh_ctype *t) {
    dl_error e;
    if (t || p->failed) return t;
    if (dl_failed() == DL_ERR_MEMORY || !dl_error_take(&e)) {
        p->failed = DL_ERR_MEMORY;
        return NULL;
    }
    return dlsh_cp_fail(p, at, e.hint, "%s", e.message);
}

int dlsh_cp_skip_group(dlsh_cparser *p) {
    int depth = 0;
    do {
        if (dlsh_cp_is(p, '(') || dlsh_cp_is(p, '[') || dlsh_cp_is(p, '{')) depth++;
        if (dlsh_cp_is(p, ')') || dlsh_cp_is(p, ']') || dlsh_cp_is(p, '}')) depth--;
        if (p->tok.kind == DLSH_CT_END) {
            dlsh_cp_expected(p, "a closing bracket", NULL);
            return 0;
        }
        dlsh_cp_advance(p);
    } while (depth);
    return 1;
}

/* The effects of the attributes in a text: enum dlsh_cattributes. */
static int changes(const char *s, size_t n) {
    static const struct {
        const char *word;
        int what;
    } words[] = {{"packed", DLSH_ATTR_PACKED},
                 {"aligned", DLSH_ATTR_LAYOUT},
                 {"mode", DLSH_ATTR_TYPE},
                 {"vector_size", DLSH_ATTR_TYPE},
                 {"ext_vector_type", DLSH_ATTR_TYPE}};
    int what = 0;
    for (size_t i = 0; i < DLSH_COUNT(words); i++)
        for (size_t k = 0, len = strlen(words[i].word); k + len <= n; k++)
            if (!memcmp(s + k, words[i].word, len)) what |= words[i].what;
    return what;
}

/* Reads format(printf, 2, 3): the second parameter is the format of the variable arguments. */
static void read_format_attribute(dlsh_cparser *p, const char *text, size_t n) {
    char copy[200];
    int at, first;
    snprintf(copy, sizeof copy, "%.*s", n < sizeof copy ? (int)n : (int)sizeof copy - 1, text);
    const char *s = strstr(copy, "format"), *kind = s ? strpbrk(s, "(") : NULL;
    if (!kind || !strncmp(s, "format_arg", 10) || sscanf(kind, "( %*[^,] , %d , %d", &at, &first) != 2 || first <= at)
        return;
    p->format = at;
    p->format_scanf = strstr(kind, "scanf") != NULL;
    if (!p->format_scanf && !strstr(kind, "printf")) p->format = 0; /* strftime and others */
}

void dlsh_cp_attributes(dlsh_cparser *p, int *attributes) {
    static const char *const words[] = {"__attribute__", "__attribute", "__asm__",      "__asm",  "asm",
                                        "__declspec",    "_Alignas",    "__volatile__", "_Pragma"};
    for (int more = 1; more && !p->failed;) {
        more = 0;
        for (size_t i = 0; i < DLSH_COUNT(words) && !more; i++)
            if (dlsh_clex_is(&p->tok, words[i])) {
                more = 1;
                dlsh_cp_advance(p);
                size_t from = (size_t)p->tok.offset;
                const char *text = p->tok.text;
                if (dlsh_cp_is(p, '(') && !dlsh_cp_skip_group(p)) return;
                size_t n = p->last_end > from ? p->last_end - from : 0;
                read_format_attribute(p, text, n);
                if (attributes) *attributes |= i == 6 ? DLSH_ATTR_LAYOUT : changes(text, n);
            }
    }
}

/* ---------------------------------------------------------------- words */

enum { SKIP = 1, CONST, TYPEDEF, STATIC, EXTERN, ATTRIBUTE };
static const struct {
    const char *word;
    int what;
} specifier_words[] = {
    {"const", CONST},           {"__const", CONST},
    {"typedef", TYPEDEF},       {"static", STATIC},
    {"extern", EXTERN},         {"inline", SKIP},
    {"__inline", SKIP},         {"__inline__", SKIP},
    {"volatile", SKIP},         {"__volatile__", SKIP},
    {"__volatile", SKIP},       {"restrict", SKIP},
    {"__restrict", SKIP},       {"__restrict__", SKIP},
    {"register", SKIP},         {"auto", SKIP},
    {"_Noreturn", SKIP},        {"__extension__", SKIP},
    {"_Thread_local", SKIP},    {"__thread", SKIP},
    {"_Atomic", SKIP},          {"__attribute__", ATTRIBUTE},
    {"__attribute", ATTRIBUTE}, {"_Alignas", ATTRIBUTE},
    {"__declspec", ATTRIBUTE},
};

static int specifier_word(const dlsh_ctok *t) {
    for (size_t i = 0; t->kind == DLSH_CT_IDENT && i < DLSH_COUNT(specifier_words); i++)
        if (dlsh_clex_is(t, specifier_words[i].word)) return specifier_words[i].what;
    return 0;
}

/* Each type word adds to its own octal digit, so that the sum tells which words occurred and how often. */
enum {
    N_VOID = 1,
    N_CHAR = 8,
    N_SHORT = 64,
    N_INT = 512,
    N_LONG = 4096,
    N_FLOAT = 32768,
    N_DOUBLE = 1 << 18,
    N_SIGNED = 1 << 21,
    N_UNSIGNED = 1 << 24,
    N_BOOL = 1 << 27
};
static const struct {
    const char *word;
    int adds;
} type_words[] = {
    {"void", N_VOID},         {"char", N_CHAR},       {"short", N_SHORT},       {"int", N_INT},
    {"long", N_LONG},         {"float", N_FLOAT},     {"double", N_DOUBLE},     {"signed", N_SIGNED},
    {"__signed__", N_SIGNED}, {"__signed", N_SIGNED}, {"unsigned", N_UNSIGNED}, {"_Bool", N_BOOL},
    {"_Float32", N_FLOAT},    {"_Float64", N_DOUBLE}, {"_Float32x", N_DOUBLE},  {"_Float64x", N_LONG + N_DOUBLE}};

static int type_word(const dlsh_ctok *t) {
    for (size_t i = 0; t->kind == DLSH_CT_IDENT && i < DLSH_COUNT(type_words); i++)
        if (dlsh_clex_is(t, type_words[i].word)) return type_words[i].adds;
    return 0;
}

static int kind_of(int words) {
    static const struct {
        int words, kind;
    } kinds[] = {{N_VOID, DLSH_C_VOID},
                 {N_BOOL, DLSH_C_BOOL},
                 {N_CHAR, DLSH_C_CHAR},
                 {N_SIGNED + N_CHAR, DLSH_C_SCHAR},
                 {N_UNSIGNED + N_CHAR, DLSH_C_UCHAR},
                 {N_SHORT, DLSH_C_SHORT},
                 {N_UNSIGNED + N_SHORT, DLSH_C_USHORT},
                 {N_INT, DLSH_C_INT},
                 {N_UNSIGNED, DLSH_C_UINT},
                 {N_UNSIGNED + N_INT, DLSH_C_UINT},
                 {N_LONG, DLSH_C_LONG},
                 {N_UNSIGNED + N_LONG, DLSH_C_ULONG},
                 {N_LONG + N_LONG, DLSH_C_LLONG},
                 {N_UNSIGNED + N_LONG + N_LONG, DLSH_C_ULLONG},
                 {N_FLOAT, DLSH_C_FLOAT},
                 {N_DOUBLE, DLSH_C_DOUBLE},
                 {N_LONG + N_DOUBLE, DLSH_C_LDOUBLE},
                 {N_SIGNED, DLSH_C_INT}};
    int plain = words;
    if (plain & (7 * N_SIGNED) && plain != N_SIGNED && !(plain & (7 * N_CHAR))) plain &= ~(7 * N_SIGNED);
    if (plain & (7 * N_INT) && plain & (7 * (N_SHORT | N_LONG))) plain &= ~(7 * N_INT);
    for (size_t i = 0; i < DLSH_COUNT(kinds); i++)
        if (kinds[i].words == plain) return kinds[i].kind;
    return -1;
}

/* ---------------------------------------------------------------- typedef names */

/* Types of the standard headers that need no declaration. */
static const struct {
    const char *name;
    dlsh_ckind kind;
} predeclared[] = {{"size_t", DLSH_C_ULONG},
                   {"ssize_t", DLSH_C_LONG},
                   {"ptrdiff_t", DLSH_C_LONG},
                   {"intptr_t", DLSH_C_LONG},
                   {"uintptr_t", DLSH_C_ULONG},
                   {"int8_t", DLSH_C_SCHAR},
                   {"uint8_t", DLSH_C_UCHAR},
                   {"int16_t", DLSH_C_SHORT},
                   {"uint16_t", DLSH_C_USHORT},
                   {"int32_t", DLSH_C_INT},
                   {"uint32_t", DLSH_C_UINT},
                   {"int64_t", DLSH_C_LONG},
                   {"uint64_t", DLSH_C_ULONG},
                   {"wchar_t", DLSH_C_INT},
                   {"time_t", DLSH_C_LONG},
                   {"off_t", DLSH_C_LONG},
                   {"bool", DLSH_C_BOOL},
                   {"va_list", DLSH_C_OPAQUE},
                   {"__builtin_va_list", DLSH_C_OPAQUE},
                   {"__int128", DLSH_C_OPAQUE},
                   {"_Float128", DLSH_C_OPAQUE},
                   {"__float128", DLSH_C_OPAQUE},
                   {"FILE", DLSH_C_STRUCT},
                   {"dl_tensor", DLSH_C_STRUCT}};

const dlsh_ctype *dlsh_cp_typedef(const dlsh_cparser *p, const dlsh_ctok *t) {
    if (t->kind != DLSH_CT_IDENT) return NULL;
    const dlsh_cname *n = dlsh_c_find(p->c, t->text, t->len);
    if (n) return n->kind == DLSH_C_TYPEDEF ? n->type : NULL;
    for (size_t i = 0; i < DLSH_COUNT(predeclared); i++)
        if (dlsh_clex_is(t, predeclared[i].name)) {
            if (predeclared[i].kind <= DLSH_C_LDOUBLE) return dlsh_c_basic(predeclared[i].kind);
            dlsh_ctype *made = dlsh_c_tagged(p->c, predeclared[i].kind, t->text, t->len);
            if (!made) return NULL;
            made->alias = made->tag;
            n = dlsh_c_enter(p->c, DLSH_C_TYPEDEF, t->text, t->len, made);
            return n ? n->type : NULL;
        }
    return NULL;
}

static int tag_word(const dlsh_ctok *t) {
    static const char *const words[] = {"struct", "union", "enum", NULL};
    return dlsh_clex_among(t, words);
}

static unsigned contract_word(const dlsh_ctok *t) {
    return dlsh_clex_is(t, "out")     ? DLSH_C_OUT
           : dlsh_clex_is(t, "inout") ? DLSH_C_INOUT
           : dlsh_clex_is(t, "owned") ? DLSH_C_OWNED
           : dlsh_clex_is(t, "keep")  ? DLSH_C_KEEP
                                      : 0;
}

/* `complex` is a macro of <complex.h>; here it is a type word unless something else has the name. */
static int complex_word(const dlsh_cparser *p, const dlsh_ctok *t) {
    if (dlsh_clex_is(t, "_Complex") || dlsh_clex_is(t, "__complex__")) return 1;
    if (!dlsh_clex_is(t, "complex")) return 0;
    const dlsh_cname *n = dlsh_c_find(p->c, t->text, t->len);
    return !n || n->kind == DLSH_C_MACRO;
}

/* A complex type, which is passed like a struct of two numbers; long double complex is opaque. */
static const dlsh_ctype *complex_type(dlsh_cparser *p, int kind) {
    if (kind == DLSH_C_FLOAT || kind == DLSH_C_DOUBLE) return dlsh_c_complex(p->c, (dlsh_ckind)kind);
    dlsh_ctype *t = dlsh_c_tagged(p->c, DLSH_C_OPAQUE, "complex", 7);
    if (t) t->alias = kind == DLSH_C_LDOUBLE ? "long double _Complex" : "_Complex";
    return t;
}

/* The type that vector_size or mode makes, which is known by name only. */
const dlsh_ctype *dlsh_cp_attribute_type(dlsh_cparser *p, const dlsh_ctok *name) {
    dlsh_ctype *t = name ? dlsh_c_tagged(p->c, DLSH_C_OPAQUE, name->text, name->len)
                         : dlsh_c_tagged(p->c, DLSH_C_OPAQUE, "attribute type", 14);
    if (!t) p->failed = DL_ERR_MEMORY;
    return t;
}

int dlsh_cp_at_type(const dlsh_cparser *p, const dlsh_ctok *t) {
    return t->kind == DLSH_CT_IDENT &&
           (type_word(t) || complex_word(p, t) || specifier_word(t) || tag_word(t) || dlsh_cp_typedef(p, t) != NULL);
}

/* ---------------------------------------------------------------- specifiers */

/* Takes out, inout, owned or keep before a type; elsewhere they are ordinary names. */
static int take_contract(dlsh_cparser *p, dlsh_cspecs *out) {
    unsigned word = contract_word(&p->tok);
    if (!word || dlsh_cp_typedef(p, &p->tok)) return 0;
    dlsh_ctok next = dlsh_cp_peek(p);
    int with_release = word == DLSH_C_OWNED && next.kind == DLSH_CT_PUNCT && next.op == '(';
    if (next.kind != DLSH_CT_IDENT && !with_release) return 0;
    dlsh_cp_advance(p);
    out->words |= word;
    if (!with_release) return 1;
    dlsh_cp_advance(p);
    if (p->tok.kind != DLSH_CT_IDENT)
        return dlsh_cp_expected(p, "the function that releases the result", "owned(free) char *f(void)") != NULL;
    if (!(out->release = dlsh_c_copy(p->c, p->tok.text, p->tok.len))) p->failed = DL_ERR_MEMORY;
    dlsh_cp_advance(p);
    if (!dlsh_cp_accept(p, ')')) dlsh_cp_expected(p, "')'", NULL);
    return !p->failed;
}

static void take_word(dlsh_cparser *p, int what, dlsh_cspecs *out, int *is_const) {
    if (what == ATTRIBUTE) {
        dlsh_cp_attributes(p, &out->attributes);
        return;
    }
    *is_const |= what == CONST;
    out->is_typedef |= what == TYPEDEF;
    out->is_static |= what == STATIC;
    out->is_extern |= what == EXTERN;
    dlsh_cp_advance(p);
}

static void *unknown_type(dlsh_cparser *p, const dlsh_cspecs *out) {
    dlsh_ctok next = dlsh_cp_peek(p);
    if (p->tok.kind != DLSH_CT_IDENT || (out->words && next.kind != DLSH_CT_IDENT))
        return dlsh_cp_expected(p, "a C type", NULL);
    return dlsh_cp_fail(p, &p->tok, "declare it before: typedef ... NAME; or import the header that does",
                        "unknown C type '%.*s'", (int)p->tok.len, p->tok.text);
}

int dlsh_cp_specifiers(dlsh_cparser *p, dlsh_cspecs *out) {
    int words = 0, is_const = 0, what, adds, complex = 0;
    const dlsh_ctype *type = NULL, *named;
    dlsh_ctok first = p->tok;
    for (; !p->failed && p->tok.kind == DLSH_CT_IDENT;) {
        if ((what = specifier_word(&p->tok)))
            take_word(p, what, out, &is_const);
        else if ((adds = type_word(&p->tok)) && !type) {
            words += adds;
            dlsh_cp_advance(p);
        } else if (!type && complex_word(p, &p->tok)) {
            complex = 1;
            dlsh_cp_advance(p);
        } else if (!type && !words && tag_word(&p->tok))
            type = dlsh_clex_is(&p->tok, "enum") ? dlsh_cp_enum(p) : dlsh_cp_struct(p);
        else if (!type && !words && (named = dlsh_cp_typedef(p, &p->tok))) {
            type = named;
            dlsh_cp_advance(p);
        } else if (type || words || !take_contract(p, out))
            break;
    }
    if (p->failed) return 0;
    if (!type && !words && complex)
        return dlsh_cp_fail(p, &first, "double complex, or float complex", "complex needs a type beside it") != NULL;
    if (!type && !words) return unknown_type(p, out) != NULL;
    if (words) {
        int kind = kind_of(words);
        if (kind < 0) return dlsh_cp_fail(p, &first, NULL, "these words make no C type") != NULL;
        type = dlsh_c_basic((dlsh_ckind)kind);
        if (complex) type = complex_type(p, kind);
    }
    if (out->attributes & DLSH_ATTR_TYPE) type = dlsh_cp_attribute_type(p, NULL);
    out->type = dlsh_cp_made(p, &first, is_const ? dlsh_c_const(p->c, type) : type);
    return !p->failed;
}
