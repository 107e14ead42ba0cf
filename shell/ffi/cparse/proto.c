/* Declarators and whole declarations of C. */
#include "ffi/cparse/proto.h"

#include <stdlib.h>
#include <string.h>

#include "ffi/cparse/cparser.h"
#include "lang/session.h"

enum { MAX_PARAMS = 64 };

void dlsh_cdecls_free(dlsh_cdecls *d) {
    free(d->items);
    free(d->macros);
    *d = (dlsh_cdecls){0};
}

static void *no_memory(dlsh_cparser *p) {
    if (!p->failed) p->failed = dlsh_no_memory("C declarations");
    return NULL;
}

/* ---------------------------------------------------------------- parameters */

typedef struct param_list {
    dlsh_cparam *items;
    int n, varargs;
} param_list;

/* The type of a parameter: an array is a pointer, and d->len has the length of the outermost array, or of the whole
 * when inner lengths are not constant. */
static const dlsh_ctype *adjust(dlsh_cparser *p, const dlsh_cdeclarator *d) {
    const dlsh_ctype *t = d->type;
    if (t->kind == DLSH_C_ARRAY)
        t = dlsh_c_pointer(p->c, t->base);
    else if (t->kind == DLSH_C_FUNCTION)
        t = dlsh_c_pointer(p->c, t);
    return dlsh_cp_made(p, &d->name, t);
}

/* Checks that out, inout, keep and owned fit the parameter. */
static int check_param_words(dlsh_cparser *p, const dlsh_cparam *item, unsigned words, const dlsh_ctok *at) {
    const dlsh_ctype *t = item->type;
    if (words & (DLSH_C_OUT | DLSH_C_INOUT) && t->kind != DLSH_C_POINTER)
        return dlsh_cp_fail(p, at, "out double *result", "an out parameter must be a pointer, not %s",
                            dlsh_c_name(t)) != NULL;
    if (words & DLSH_C_KEEP && !(t->kind == DLSH_C_POINTER && t->base->kind == DLSH_C_FUNCTION))
        return dlsh_cp_fail(p, at, "keep void (*f)(int)", "keep is for pointers to functions, not for %s",
                            dlsh_c_name(t)) != NULL;
    if (words & DLSH_C_OWNED)
        return dlsh_cp_fail(p, at, "owned char *f(void);", "owned is for the result of a function") != NULL;
    return 1;
}

static int one_param(dlsh_cparser *p, param_list *l) {
    dlsh_cspecs specs = {0};
    dlsh_cdeclarator d = {0};
    dlsh_ctok at = p->tok;
    if (!dlsh_cp_specifiers(p, &specs) || !dlsh_cp_declarator(p, specs.type, 1, &d)) {
        free(d.params);
        return 0;
    }
    free(d.params);
    dlsh_cp_attributes(p, NULL);
    if (d.type->kind == DLSH_C_VOID && l->n == 0 && d.name.kind == DLSH_CT_END && dlsh_cp_is(p, ')')) return 1;
    if (d.type->kind == DLSH_C_VOID)
        return dlsh_cp_fail(p, &at, "void * is a pointer to anything", "a parameter cannot be void") != NULL;
    if (l->n == MAX_PARAMS) return dlsh_cp_fail(p, &at, NULL, "more than %d parameters", MAX_PARAMS) != NULL;
    dlsh_cparam *item = &l->items[l->n++];
    *item = (dlsh_cparam){
        .type = adjust(p, &d), .flags = specs.words | (d.is_array ? DLSH_C_ARRAY_PARAM : 0), .len = d.len};
    if (d.name.kind == DLSH_CT_IDENT) item->name = dlsh_c_copy(p->c, d.name.text, d.name.len);
    if (!item->type || (d.name.kind == DLSH_CT_IDENT && !item->name)) return no_memory(p) != NULL;
    for (int i = 0; item->name && i < l->n - 1 && !(p->flags & DLSH_C_LENIENT); i++)
        if (l->items[i].name && !strcmp(l->items[i].name, item->name))
            return dlsh_cp_fail(p, &d.name, NULL, "two parameters are called '%s'", item->name) != NULL;
    return check_param_words(p, item, specs.words, &at);
}

static int bind_length(dlsh_cparser *p, const param_list *l, dlsh_clen *e) {
    if (!e) return 1;
    if (e->op != 'p') return bind_length(p, l, e->left) && bind_length(p, l, e->right);
    dlsh_ctok at = {.text = e->name, .len = strlen(e->name), .line = e->line, .col = e->col, .offset = e->offset};
    for (int i = 0; i < l->n; i++) {
        const dlsh_ctype *t = l->items[i].type->plain;
        if (!l->items[i].name || strcmp(l->items[i].name, e->name)) continue;
        if (t->kind == DLSH_C_POINTER) t = t->base->plain;
        if (!dlsh_c_is_integer(t))
            return dlsh_cp_fail(p, &at, NULL, "the length '%s' is not an integer", e->name) != NULL;
        e->param = i;
        return 1;
    }
    return dlsh_cp_fail(p, &at, "an array length is a number or another parameter of the function",
                        "no parameter is called '%s'", e->name) != NULL;
}

/* Parses the parameters after the `(`, including the `)`. */
static int params(dlsh_cparser *p, param_list *l) {
    l->items = calloc(MAX_PARAMS, sizeof *l->items);
    if (!l->items) return no_memory(p) != NULL;
    if (dlsh_cp_accept(p, ')')) return 1;
    do {
        if (dlsh_cp_is(p, DLSH_CP_ELLIPSIS)) {
            dlsh_cp_advance(p);
            l->varargs = 1;
            if (dlsh_cp_is(p, ',')) return dlsh_cp_fail(p, &p->tok, NULL, "... ends the parameters") != NULL;
            break;
        }
        if (!one_param(p, l)) return 0;
    } while (dlsh_cp_accept(p, ','));
    for (int i = 0; i < l->n; i++) {
        if (bind_length(p, l, (dlsh_clen *)l->items[i].len)) continue;
        if (!(p->flags & DLSH_C_LENIENT)) return 0;
        p->failed = DL_OK; /* a global of the block */
        l->items[i].len = NULL;
    }
    return dlsh_cp_accept(p, ')') || dlsh_cp_expected(p, "',' or ')' after a parameter", NULL);
}

/* ---------------------------------------------------------------- declarators */

static const dlsh_ctype *suffixes(dlsh_cparser *p, const dlsh_ctype *base, int in_params, int by_name,
                                  dlsh_cdeclarator *d);

static const dlsh_ctype *function_suffix(dlsh_cparser *p, const dlsh_ctype *base, int by_name, dlsh_cdeclarator *d) {
    param_list l = {0};
    const dlsh_ctype *types[MAX_PARAMS], *t = NULL;
    dlsh_ctok at = p->tok;
    dlsh_cp_advance(p);
    int empty = dlsh_cp_is(p, ')');
    if (base->kind == DLSH_C_ARRAY || base->kind == DLSH_C_FUNCTION)
        dlsh_cp_fail(p, &at, "return a pointer to it", "a function cannot return %s",
                     base->kind == DLSH_C_ARRAY ? "an array" : "a function");
    else if (params(p, &l)) {
        for (int i = 0; i < l.n; i++) types[i] = l.items[i].type;
        t = dlsh_cp_made(p, &at, dlsh_c_function(p->c, base, types, l.n, l.varargs));
    }
    if (by_name && t) {
        free(d->params);
        d->params = l.items;
        d->nparams = l.n;
        d->is_function = 1;
        d->empty = empty;
    } else {
        free(l.items);
    }
    return t;
}

static dlsh_clen *product(dlsh_cparser *p, dlsh_clen *a, const dlsh_clen *b) {
    if (!a || !b) return a;
    dlsh_clen *r = dlsh_c_alloc(p->c, sizeof *r);
    if (!r) return no_memory(p);
    *r = (dlsh_clen){.op = '*', .param = -1, .left = a, .right = (dlsh_clen *)b};
    return r;
}

/* The length of an array parameter, up to the `]`. In headers and blocks it may be any expression of C; one that is not
 * understood is ignored. */
static dlsh_clen *param_length(dlsh_cparser *p) {
    dlsh_cerror ignored, *err = p->err;
    dlsh_cparser start = *p;
    if (!(p->flags & DLSH_C_LENIENT)) return dlsh_cp_length(p);
    p->err = &ignored;
    dlsh_clen *len = dlsh_cp_length(p);
    p->err = err;
    if (p->failed == DL_ERR_MEMORY || (!p->failed && dlsh_cp_is(p, ']'))) return len;
    *p = start;
    for (int depth = 0; p->tok.kind != DLSH_CT_END && (depth || !dlsh_cp_is(p, ']')); dlsh_cp_advance(p))
        depth += dlsh_cp_is(p, '[') - dlsh_cp_is(p, ']');
    return NULL;
}

/* An array suffix, with the suffixes that follow. In parameter lists lengths may name parameters; then all dimensions
 * are one flat array. */
static const dlsh_ctype *array_suffix(dlsh_cparser *p, const dlsh_ctype *base, int in_params, dlsh_cdeclarator *d) {
    dlsh_clen *len = NULL;
    long n = -1;
    dlsh_ctok at = p->tok;
    dlsh_cp_advance(p);
    static const char *const qualifiers[] = {"static", "const", "restrict", "__restrict", NULL};
    while (in_params && dlsh_clex_among(&p->tok, qualifiers)) dlsh_cp_advance(p);
    if (!dlsh_cp_is(p, ']')) {
        if (in_params)
            len = param_length(p);
        else if (!dlsh_cp_constant(p, &n))
            return NULL;
        if (p->failed) return NULL;
        if (len && !len->op) n = len->value;
        if (n < -1 || (n == -1 && len && !len->op))
            return dlsh_cp_fail(p, &at, NULL, "an array cannot have %ld elements", n);
    }
    if (!dlsh_cp_accept(p, ']')) return dlsh_cp_expected(p, "']'", NULL);
    const dlsh_ctype *element = suffixes(p, base, in_params, 0, d);
    if (!element || p->failed) return NULL;
    if (element->kind == DLSH_C_FUNCTION || element->kind == DLSH_C_VOID)
        return dlsh_cp_fail(p, &at, NULL, "there are no arrays of %s", dlsh_c_name(element));
    if (in_params && element->kind == DLSH_C_ARRAY && element->n < 0) element = element->base; /* flat */
    if (in_params && len && element->kind == DLSH_C_ARRAY && element->n >= 0 && d->len) d->len = NULL;
    if (in_params) {
        d->is_array = 1;
        d->len = d->len && element->kind != DLSH_C_ARRAY ? product(p, len, d->len) : len;
    }
    return dlsh_cp_made(p, &at, dlsh_c_array(p->c, element, n));
}

static const dlsh_ctype *suffixes(dlsh_cparser *p, const dlsh_ctype *base, int in_params, int by_name,
                                  dlsh_cdeclarator *d) {
    if (!dlsh_cp_enter(p)) return NULL;
    const dlsh_ctype *t = base;
    if (dlsh_cp_is(p, '('))
        t = function_suffix(p, base, by_name, d);
    else if (dlsh_cp_is(p, '['))
        t = array_suffix(p, base, in_params, d);
    dlsh_cp_leave(p);
    return t;
}

static const dlsh_ctype *pointers(dlsh_cparser *p, const dlsh_ctype *t) {
    static const char *const constant[] = {"const", "__const", NULL};
    static const char *const others[] = {"restrict", "__restrict", "__restrict__", "volatile", "_Nullable",
                                         "_Nonnull", NULL};
    for (dlsh_ctok at = p->tok; t && dlsh_cp_accept(p, '*'); at = p->tok) {
        t = dlsh_cp_made(p, &at, dlsh_c_pointer(p->c, t));
        for (int is_const; (is_const = dlsh_clex_among(&p->tok, constant)) || dlsh_clex_among(&p->tok, others);
             dlsh_cp_advance(p))
            if (is_const) t = dlsh_cp_made(p, &at, dlsh_c_const(p->c, t));
        dlsh_cp_attributes(p, NULL);
    }
    return t;
}

/* Does this `(` group a declarator, rather than begin a parameter list? */
static int groups(const dlsh_cparser *p) {
    dlsh_ctok next = dlsh_cp_peek(p);
    if (next.kind == DLSH_CT_PUNCT) return next.op == '*' || next.op == '(' || next.op == '[' || next.op == '^';
    return next.kind == DLSH_CT_IDENT && (!dlsh_cp_at_type(p, &next) || dlsh_clex_is(&next, "__attribute__"));
}

/* Parses a name alone in parentheses, as headers write it to prevent the expansion of macros. 0: it is none. */
static int bare_group(dlsh_cparser *p, dlsh_cdeclarator *d) {
    dlsh_cparser look = *p;
    int pairs = 0;
    if (!dlsh_cp_is(p, '(') || !groups(p)) return 0;
    for (; dlsh_cp_accept(&look, '('); pairs++) dlsh_cp_attributes(&look, NULL);
    dlsh_ctok name = look.tok;
    if (look.failed || name.kind != DLSH_CT_IDENT || dlsh_cp_at_type(&look, &name)) return 0;
    dlsh_cp_advance(&look);
    for (; pairs; pairs--)
        if (!dlsh_cp_accept(&look, ')')) return 0;
    *p = look;
    d->name = name;
    return 1;
}

/* Skips to the token after the `)` that ends a group. The depth limit applies, since each group is read once more. */
static int skip_inside(dlsh_cparser *p) {
    int outside = p->depth;
    while (p->depth >= outside) {
        if (p->tok.kind == DLSH_CT_END) return dlsh_cp_expected(p, "')'", NULL) != NULL;
        if (dlsh_cp_is(p, '(') && !dlsh_cp_enter(p)) return 0;
        if (dlsh_cp_is(p, ')')) dlsh_cp_leave(p);
        dlsh_cp_advance(p);
    }
    p->depth = outside;
    return 1;
}

static int declarator(dlsh_cparser *p, const dlsh_ctype *base, int in_params, dlsh_cdeclarator *d) {
    if (!dlsh_cp_enter(p)) return 0;
    dlsh_cp_attributes(p, NULL);
    const dlsh_ctype *t = pointers(p, base);
    if (!t || p->failed) return 0;
    int named = bare_group(p, d);
    if (!named && dlsh_cp_is(p, '(') && groups(p)) {
        /* the suffixes after the group bind first: read them, then come back for the inside */
        dlsh_cp_advance(p);
        dlsh_cparser inner = *p;
        if (!skip_inside(p)) return 0;
        if (!(t = suffixes(p, t, in_params, 0, d))) return 0;
        d->is_array = 0; /* of what the pointer points to */
        d->len = NULL;
        inner.depth = p->depth;
        if (!declarator(&inner, t, in_params, d)) {
            p->failed = inner.failed;
            return 0;
        }
        if (!dlsh_cp_is(&inner, ')')) {
            dlsh_cp_expected(&inner, "')'", NULL);
            p->failed = inner.failed;
            return 0;
        }
        dlsh_cp_leave(p);
        return 1;
    }
    if (!named && p->tok.kind == DLSH_CT_IDENT) {
        named = 1;
        d->name = p->tok;
        dlsh_cp_advance(p);
    }
    d->type = suffixes(p, t, in_params, named, d);
    dlsh_cp_leave(p);
    return d->type && !p->failed;
}

int dlsh_cp_declarator(dlsh_cparser *p, const dlsh_ctype *base, int in_params, dlsh_cdeclarator *d) {
    d->name = (dlsh_ctok){.kind = DLSH_CT_END, .line = p->tok.line, .col = p->tok.col, .offset = p->tok.offset};
    return declarator(p, base, in_params, d);
}

const dlsh_ctype *dlsh_cp_type_name(dlsh_cparser *p) {
    dlsh_cspecs specs = {0};
    dlsh_cdeclarator d = {0};
    if (!dlsh_cp_specifiers(p, &specs)) return NULL;
    int good = dlsh_cp_declarator(p, specs.type, 0, &d);
    free(d.params);
    if (!good) return NULL;
    if (d.name.kind == DLSH_CT_IDENT)
        return dlsh_cp_fail(p, &d.name, NULL, "a type is wanted here, without the name '%.*s'", (int)d.name.len,
                            d.name.text);
    return d.type;
}

/* ---------------------------------------------------------------- what a declaration enters */

/* The text in one line, from the first token to the last. */
static const char *one_line(dlsh_cparser *p, size_t from, size_t to) {
    DLSH_SCOPED_BUF b = {0};
    const char *s = p->lx.begin + from, *end = p->lx.begin + to;
    for (; s < end; s++)
        if (*s != ' ' && *s != '\t' && *s != '\n' && *s != '\r')
            dlsh_buf_add(&b, s, 1);
        else if (b.n && b.s[b.n - 1] != ' ' && b.s[b.n - 1] != '(')
            dlsh_buf_puts(&b, " ");
    const char *copy = dlsh_c_copy(p->c, dlsh_buf_text(&b), b.n);
    return copy;
}

static const char *made_up_text(dlsh_cparser *p, const char *name, const dlsh_cdeclarator *d) {
    DLSH_SCOPED_BUF b = {0}, inner = {0};
    dlsh_buf_printf(&inner, "%s(", name);
    for (int i = 0; i < d->nparams; i++) {
        if (i) dlsh_buf_puts(&inner, ", ");
        dlsh_c_print(&inner, d->params[i].type, d->params[i].name);
    }
    dlsh_buf_puts(&inner, d->type->varargs ? ", ...)" : d->nparams ? ")" : "void)");
    dlsh_c_print(&b, d->type->base, dlsh_buf_text(&inner));
    const char *copy = dlsh_c_copy(p->c, dlsh_buf_text(&b), b.n);
    return copy;
}

/* Finds the format parameter of printf, scanf and similar functions by their names. */
static void find_format(dlsh_cproto *proto) {
    static const struct {
        const char *name;
        int at, scanf;
    } known[] = {{"printf", 0, 0},   {"fprintf", 1, 0},  {"dprintf", 1, 0}, {"sprintf", 1, 0},
                 {"snprintf", 2, 0}, {"asprintf", 1, 0}, {"scanf", 0, 1},   {"fscanf", 1, 1},
                 {"sscanf", 1, 1},   {"syslog", 1, 0},   {"gzprintf", 1, 0}};
    proto->format = -1;
    for (size_t i = 0; i < DLSH_COUNT(known); i++)
        if (proto->type->varargs && known[i].at < proto->nparams && !strcmp(proto->name, known[i].name)) {
            proto->format = known[i].at;
            proto->scanf = known[i].scanf;
        }
}

static dlsh_cproto *make_proto(dlsh_cparser *p, const char *name, const dlsh_cdeclarator *d, const dlsh_cspecs *specs,
                               const char *text) {
    dlsh_cproto *proto = dlsh_c_alloc(p->c, sizeof *proto);
    dlsh_cparam *items = dlsh_c_alloc(p->c, ((size_t)d->nparams + 1) * sizeof *items);
    if (!proto || !items || !text) return no_memory(p);
    if (d->nparams) memcpy(items, d->params, (size_t)d->nparams * sizeof *items);
    *proto = (dlsh_cproto){.name = name,
                           .text = text,
                           .type = d->type,
                           .flags = specs->words & DLSH_C_OWNED,
                           .release = specs->release,
                           .nparams = d->nparams,
                           .params = items};
    find_format(proto);
    if (p->format && proto->format < 0 && d->type->varargs && p->format <= d->nparams) {
        proto->format = p->format - 1;
        proto->scanf = p->format_scanf;
    }
    return proto;
}

static dlsh_cdecl *add_decl(dlsh_cparser *p) {
    dlsh_cdecls *o = p->out;
    dlsh_cdecl *items = dlsh_grow(o->items, o->n, &o->cap, sizeof *items);
    if (!items) return no_memory(p);
    o->items = items;
    items[o->n] = (dlsh_cdecl){0};
    return &o->items[o->n++];
}

static int enter_typedef(dlsh_cparser *p, const dlsh_cdeclarator *d) {
    const dlsh_ctype *old = dlsh_cp_typedef(p, &d->name);
    const dlsh_cname *taken = dlsh_c_find(p->c, d->name.text, d->name.len);
    if (old && !(p->flags & (DLSH_C_LENIENT | DLSH_C_REPLACE)) && !dlsh_c_same(old, d->type, 0) &&
        !(dlsh_c_is_struct(old) && !old->plain->complete))
        return dlsh_cp_fail(p, &d->name, NULL, "'%.*s' is the type %s already, not %s", (int)d->name.len, d->name.text,
                            dlsh_c_name(old), dlsh_c_name(d->type)) != NULL;
    if (taken && taken->kind != DLSH_C_TYPEDEF && taken->kind != DLSH_C_MACRO &&
        !(p->flags & (DLSH_C_LENIENT | DLSH_C_REPLACE)))
        return dlsh_cp_fail(p, &d->name, NULL, "'%.*s' was declared otherwise before", (int)d->name.len,
                            d->name.text) != NULL;
    if (old == d->type) return 1;
    dlsh_cname *n = dlsh_c_enter(p->c, DLSH_C_TYPEDEF, d->name.text, d->name.len, d->type);
    if (!n) return no_memory(p) != NULL;
    dlsh_ctype *t = (dlsh_ctype *)d->type->plain;
    if ((dlsh_c_is_struct(t) || t->kind == DLSH_C_ENUM || t->kind == DLSH_C_OPAQUE) && !d->type->is_const &&
        (!t->alias || (t->alias[0] == '_' && n->name[0] != '_'))) /* FILE, not __FILE */
        t->alias = n->name;
    return 1;
}

/* Skips an initializer. */
static void skip_initializer(dlsh_cparser *p) {
    while (!p->failed && p->tok.kind != DLSH_CT_END && !dlsh_cp_is(p, ',') && !dlsh_cp_is(p, ';')) {
        if (dlsh_cp_is(p, '(') || dlsh_cp_is(p, '{') || dlsh_cp_is(p, '[')) {
            if (!dlsh_cp_skip_group(p)) return;
        } else
            dlsh_cp_advance(p);
    }
}

/* Checks that out, inout, keep and owned fit the declaration, and that a function has a parameter list. */
static int check_words(dlsh_cparser *p, const dlsh_cspecs *specs, const dlsh_cdeclarator *d) {
    int function = d->type->kind == DLSH_C_FUNCTION;
    if (specs->words & (DLSH_C_OUT | DLSH_C_INOUT | DLSH_C_KEEP))
        return dlsh_cp_fail(p, &d->name, "they stand before a parameter: void f(out int *n);",
                            "out, inout and keep are for parameters") != NULL;
    if (specs->words & DLSH_C_OWNED && !(function && d->type->base->kind == DLSH_C_POINTER))
        return dlsh_cp_fail(p, &d->name, "owned char *f(void);",
                            "owned is for functions that give a pointer, not for %s", dlsh_c_name(d->type)) != NULL;
    if (function && !d->nparams && !d->type->varargs && d->empty)
        return dlsh_cp_fail(p, &d->name, "(void) when it takes none", "empty parentheses do not say what '%.*s' takes",
                            (int)d->name.len, d->name.text) != NULL;
    return 1;
}

/* end: of the declarator, when it is the only one so far; else 0. */
static int enter_symbol(dlsh_cparser *p, const dlsh_cspecs *specs, const dlsh_cdeclarator *d, size_t from, size_t end) {
    const char *name = dlsh_c_copy(p->c, d->name.text, d->name.len);
    dlsh_cdecl *item = name ? add_decl(p) : no_memory(p);
    if (!item) return 0;
    *item = (dlsh_cdecl){.name = name,
                         .type = d->type,
                         .is_static = specs->is_static,
                         .is_extern = specs->is_extern,
                         .line = d->name.line,
                         .col = d->name.col,
                         .offset = d->name.offset};
    if (!(p->flags & DLSH_C_LENIENT) && !check_words(p, specs, d)) return 0;
    if (d->type->kind != DLSH_C_FUNCTION) return 1;
    const char *text = end && d->is_function && !(p->flags & (DLSH_C_LENIENT | DLSH_C_REPLACE))
                           ? one_line(p, from, end)
                           : made_up_text(p, name, d);
    if (!d->is_function)
        return dlsh_cp_fail(p, &d->name, "write its parameters", "the function '%s' is declared through a typedef",
                            name) != NULL;
    item->proto = make_proto(p, name, d, specs, text);
    return item->proto != NULL;
}

/* Parses a declarator with initializer or body; *body: a function's body ended the declaration. */
static int init_declarator(dlsh_cparser *p, const dlsh_cspecs *specs, size_t from, int first, int *body) {
    dlsh_cdeclarator d = {0};
    int good = dlsh_cp_declarator(p, specs->type, 0, &d);
    if (good && d.name.kind == DLSH_CT_END) {
        dlsh_cp_expected(p, "a name", NULL);
        good = 0;
    }
    size_t end = p->last_end;
    int attributes = 0;
    if (good) dlsh_cp_attributes(p, &attributes);
    if (attributes & DLSH_ATTR_TYPE) good = (d.type = dlsh_cp_attribute_type(p, &d.name)) != NULL;
    if (good && specs->is_typedef)
        good = enter_typedef(p, &d);
    else if (good)
        good = enter_symbol(p, specs, &d, from, first ? end : 0);
    if (good && dlsh_cp_accept(p, '=')) skip_initializer(p);
    if (good && !p->failed && !specs->is_typedef && d.type->kind == DLSH_C_FUNCTION && dlsh_cp_is(p, '{')) {
        p->out->items[p->out->n - 1].has_body = 1;
        *body = dlsh_cp_skip_group(p);
    }
    free(d.params);
    return good && !p->failed;
}

/* Fails for `typedef int;` and `struct { int x; };`; a tag or enum constants are enough. At the `;`. */
static int declares_nothing(dlsh_cparser *p, const dlsh_cspecs *specs) {
    const dlsh_ctype *t = specs->type->plain;
    dlsh_ctok at = p->tok;
    int named = t->tag || t->kind == DLSH_C_ENUM;
    dlsh_cp_accept(p, ';');
    if ((named && !specs->is_typedef) || p->flags & DLSH_C_LENIENT) return 0;
    dlsh_cp_fail(p, &at, NULL, "expected a name: this declares nothing");
    return 1;
}

static int declaration(dlsh_cparser *p) {
    p->format = 0;
    dlsh_cspecs specs = {0};
    size_t from = (size_t)p->tok.offset;
    int body = 0, first = 1;
    if (dlsh_cp_accept(p, ';')) return 1;
    if (dlsh_clex_is(&p->tok, "_Static_assert") || dlsh_clex_is(&p->tok, "asm") || dlsh_clex_is(&p->tok, "__asm__")) {
        while (p->tok.kind != DLSH_CT_END && !dlsh_cp_is(p, ';')) dlsh_cp_advance(p);
        return 1;
    }
    if (!dlsh_cp_specifiers(p, &specs)) return 0;
    dlsh_cp_attributes(p, NULL);
    if (dlsh_cp_is(p, ';') || p->tok.kind == DLSH_CT_END) return declares_nothing(p, &specs) ? 0 : 1;
    do {
        if (!init_declarator(p, &specs, from, first, &body)) return 0;
        first = 0;
    } while (!body && dlsh_cp_accept(p, ','));
    if (body || dlsh_cp_accept(p, ';') || p->tok.kind == DLSH_CT_END) return 1;
    return dlsh_cp_expected(p, "';' after the declaration", NULL) != NULL;
}

/* ---------------------------------------------------------------- whole texts */

/* Skips a declaration that could not be read, up to its `;` or the end of a function's body. */
static void recover(dlsh_cparser *p, dlsh_cparser *start) {
    dlsh_cerror ignored;
    *p = *start;
    p->err = &ignored;
    p->failed = DL_OK;
    for (int paren = 0; p->tok.kind != DLSH_CT_END && !p->failed;) {
        if (dlsh_cp_is(p, ';')) {
            dlsh_cp_advance(p);
            break;
        }
        int brace = dlsh_cp_is(p, '{');
        if (brace || dlsh_cp_is(p, '(') || dlsh_cp_is(p, '[')) {
            int was_paren = paren;
            paren = dlsh_cp_is(p, '(');
            if (!dlsh_cp_skip_group(p)) break;
            if (brace && was_paren && !dlsh_cp_is(p, ';') && !dlsh_cp_is(p, ',')) break;
        } else {
            dlsh_cp_advance(p);
        }
    }
    p->err = start->err;
    p->failed = DL_OK;
}

/* ---------------------------------------------------------------- macros */

static void drop_macro(dlsh_cdecls *o, const char *name, size_t n) {
    for (int i = o->nmacros; i-- > 0;)
        if (!strncmp(o->macros[i].name, name, n) && !o->macros[i].name[n]) {
            memmove(o->macros + i, o->macros + i + 1, (size_t)(--o->nmacros - i) * sizeof *o->macros);
            return;
        }
}

static int add_macro(dlsh_cparser *p, dlsh_cmacro m) {
    dlsh_cdecls *o = p->out;
    dlsh_cmacro *grown = dlsh_grow(o->macros, o->nmacros, &o->capmacros, sizeof *grown);
    if (grown) o->macros = grown;
    if (!grown || !m.name || !m.body) return no_memory(p) != NULL;
    grown[o->nmacros++] = m;
    return 1;
}

/* Adds the macro of a directive. Reserved names (__X) are left out. */
static int collect_macro(dlsh_cparser *p, const dlsh_ctok *t) {
    const char *s = t->text, *end = t->text + t->len;
    while (s < end && (*s == ' ' || *s == '\t')) s++;
    int undef = end - s > 6 && !strncmp(s, "undef ", 6);
    if (!undef && (end - s < 8 || strncmp(s, "define ", 7))) return 1;
    const char *name = s += undef ? 6 : 7;
    while (s < end && *s != ' ' && *s != '(' && *s != '\t' && *s != '\r') s++;
    size_t n = (size_t)(s - name);
    if (name[0] == '_' && name[1] == '_') return 1;
    if (undef) {
        drop_macro(p->out, name, n);
        return 1;
    }
    const char *params = NULL;
    if (s < end && *s == '(') {
        const char *close = memchr(s, ')', (size_t)(end - s));
        if (!close) return 1;
        if (!(params = dlsh_c_copy(p->c, s + 1, (size_t)(close - s - 1)))) return no_memory(p) != NULL;
        s = close + 1;
    }
    if (s == end && !params) return 1;
    return add_macro(p, (dlsh_cmacro){dlsh_c_copy(p->c, name, n), params, dlsh_c_copy(p->c, s, (size_t)(end - s))});
}

/* Is it a line marker `# 1 "<built-in>"`, after which the compiler's own macros follow? -1: it is not a line marker. */
static int is_builtin(const dlsh_ctok *t) {
    const char *s = t->text, *end = s + t->len;
    while (s < end && *s == ' ') s++;
    if (s == end || *s < '0' || *s > '9') return -1;
    while (s < end && *s != '"') s++;
    return end - s > 10 && !strncmp(s, "\"<built-in>", 11);
}

static void collect_macros(dlsh_cparser *p, const char *text, size_t len) {
    dlsh_clexer lx;
    int builtin = 0;
    dlsh_clex_begin(&lx, text, len);
    for (dlsh_ctok t; (t = dlsh_clex_next(&lx)).kind != DLSH_CT_END;) {
        if (t.kind != DLSH_CT_DIRECTIVE) continue;
        int marker = is_builtin(&t);
        if (marker >= 0) builtin = marker;
        if (!builtin && marker < 0 && !collect_macro(p, &t)) return;
    }
}

dl_status dlsh_c_parse(dlsh_cspace *c, const char *text, size_t len, unsigned flags, dlsh_cdecls *out,
                       dlsh_cerror *err) {
    *err = (dlsh_cerror){.line = 1, .col = 1, .width = 1};
    dlsh_cparser p = {.c = c, .flags = flags, .out = out, .err = err};
    int savepoint = dlsh_c_savepoint(c), n = out->n;
    dlsh_clex_begin(&p.lx, text, len);
    dlsh_cp_advance(&p);
    while (p.tok.kind != DLSH_CT_END && !p.failed) {
        dlsh_cparser start = p;
        int had = out->n;
        p.depth = 0;
        if (declaration(&p) || p.failed != DL_ERR_SYNTAX || !(flags & DLSH_C_LENIENT)) continue;
        out->n = had;
        recover(&p, &start);
    }
    if (flags & DLSH_C_MACROS && !p.failed) collect_macros(&p, text, len);
    if (p.failed) {
        dlsh_c_rollback(c, savepoint);
        out->n = n;
    }
    return p.failed;
}

const dlsh_ctype *dlsh_c_parse_type(dlsh_cspace *c, const char *text, size_t len, dlsh_cerror *err) {
    *err = (dlsh_cerror){.line = 1, .col = 1, .width = 1};
    dlsh_cparser p = {.c = c, .err = err};
    dlsh_clex_begin(&p.lx, text, len);
    dlsh_cp_advance(&p);
    const dlsh_ctype *t = dlsh_cp_type_name(&p);
    if (t && p.tok.kind != DLSH_CT_END) t = dlsh_cp_expected(&p, "the end of the type", NULL);
    return t;
}
