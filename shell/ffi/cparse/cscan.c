/* Splits C source into its top-level declarations. This is not a parser: it matches brackets and knows a few words. */
#include "ffi/cparse/cscan.h"

#include <stdlib.h>
#include <string.h>

#include "lang/session.h"

typedef struct scan {
    dlsh_clexer lx;
    dlsh_ctok tok;
    const char *text;
    dlsh_citem it; /* being read */
    dlsh_buf head;
    int failed;
} scan;

static void advance(scan *s) { s->tok = dlsh_clex_next(&s->lx); }

static void add_name(scan *s, const dlsh_ctok *t) {
    enum { MAX = sizeof s->it.names / sizeof *s->it.names };
    if (t->kind != DLSH_CT_IDENT || s->it.nnames == MAX) return;
    char *name = strndup(t->text, t->len);
    if (!name) s->failed = 1;
    if (name) s->it.names[s->it.nnames++] = name;
}

static void add_head(scan *s, int from, int to) {
    if (to > from) dlsh_buf_add(&s->head, s->text + from, (size_t)(to - from));
}

/* Past a bracket and what it holds. */
static void skip_group(scan *s) {
    int depth = 0;
    do {
        if (dlsh_clex_is_op(&s->tok, '(') || dlsh_clex_is_op(&s->tok, '[') || dlsh_clex_is_op(&s->tok, '{')) depth++;
        if (dlsh_clex_is_op(&s->tok, ')') || dlsh_clex_is_op(&s->tok, ']') || dlsh_clex_is_op(&s->tok, '}')) depth--;
        advance(s);
    } while (depth && s->tok.kind != DLSH_CT_END);
}

/* Adds the constants in the braces of an enum. */
static void enum_names(scan *s) {
    int first = 1;
    for (advance(s); s->tok.kind != DLSH_CT_END && !dlsh_clex_is_op(&s->tok, '}');) {
        if (first) add_name(s, &s->tok);
        first = dlsh_clex_is_op(&s->tok, ',');
        if (dlsh_clex_is_op(&s->tok, '(') || dlsh_clex_is_op(&s->tok, '{'))
            skip_group(s);
        else
            advance(s);
    }
    advance(s);
}

typedef struct reading {
    int is_typedef, is_static, is_extern, is_inline, device, global; /* words seen */
    dlsh_ctok last, name; /* identifiers: the last one; that of the declarator being read */
    int begin, copied;    /* offsets: of the item, and up to where the head has it */
    int is_function;      /* the declarator has a parameter list right after its name */
    int pointer_name;     /* the name stood in brackets: (*name) */
} reading;

static const char *const calls[] = {"__attribute__", "__attribute", "__declspec", "__launch_bounds__", "__asm__", "asm",
                                    "_Alignas",      "alignas",     "typeof",     "__typeof__",        "_Atomic", NULL};
static const char *const records[] = {"struct", "union", "enum", NULL};

static void read_storage_word(scan *s, reading *r) {
    static const struct {
        const char *word;
        size_t at;
    } words[] = {{"typedef", offsetof(reading, is_typedef)}, {"static", offsetof(reading, is_static)},
                 {"extern", offsetof(reading, is_extern)},   {"inline", offsetof(reading, is_inline)},
                 {"__device__", offsetof(reading, device)},  {"__global__", offsetof(reading, global)}};
    for (size_t i = 0; i < DLSH_COUNT(words); i++)
        if (dlsh_clex_is(&s->tok, words[i].word)) *(int *)((char *)r + words[i].at) = 1;
}

/* Reads struct TAG { ... }, a definition when braces follow. */
static void read_record(scan *s, reading *r) {
    int is_enum = dlsh_clex_is(&s->tok, "enum");
    dlsh_ctok tag = {0};
    for (advance(s); s->tok.kind == DLSH_CT_IDENT; advance(s))
        if (dlsh_clex_among(&s->tok, calls)) {
            advance(s);
            skip_group(s);
        } else
            tag = s->tok;
    if (!dlsh_clex_is_op(&s->tok, '{')) {
        r->last = tag; /* struct P x: the tag is read here, x is to come */
        return;
    }
    s->it.is_type = 1;
    add_name(s, &tag);
    if (is_enum)
        enum_names(s);
    else
        skip_group(s);
    r->last = (dlsh_ctok){0};
}

/* Reads the parentheses of a declarator: parameters, or a name. */
static void read_bracket(scan *s, reading *r) {
    dlsh_clexer ahead = s->lx;
    dlsh_ctok t = dlsh_clex_next(&ahead);
    if (r->name.len || !dlsh_clex_is_op(&t, '*')) {
        if (!r->name.len) {
            r->name = r->last;
            r->is_function = 1;
        }
        skip_group(s);
        return;
    }
    static const char *const qualifiers[] = {"const", "volatile", "restrict", "__restrict", NULL};
    while (dlsh_clex_is_op(&t, '*') || dlsh_clex_among(&t, qualifiers)) t = dlsh_clex_next(&ahead);
    r->name = t;
    t = dlsh_clex_next(&ahead);
    if (dlsh_clex_is_op(&t, '(')) /* int (*f(int))(int): a function that gives a pointer to one */
        r->is_function = 1;
    else
        r->pointer_name = 1;
    skip_group(s);
}

/* Ends a declarator: adds its name, and puts the placeholder for the linker's name into the head. */
static void end_declarator(scan *s, reading *r) {
    if (!r->name.len) r->name = r->last;
    add_name(s, &r->name);
    add_head(s, r->copied, s->tok.offset);
    r->copied = s->tok.offset;
    if (!r->is_typedef && !r->is_function && !r->is_extern) dlsh_buf_puts(&s->head, DLSH_CI_PLACEHOLDER);
    r->name = (dlsh_ctok){0};
}

static void skip_initialiser(scan *s, reading *r) {
    while (s->tok.kind != DLSH_CT_END && !dlsh_clex_is_op(&s->tok, ',') && !dlsh_clex_is_op(&s->tok, ';'))
        if (dlsh_clex_is_op(&s->tok, '(') || dlsh_clex_is_op(&s->tok, '[') || dlsh_clex_is_op(&s->tok, '{'))
            skip_group(s);
        else
            advance(s);
    r->copied = s->tok.offset;
}

static void finish_item(scan *s, const reading *r, int body) {
    dlsh_citem *it = &s->it;
    int hidden = r->is_static || r->device || r->global;
    it->begin = r->begin;
    it->end = s->tok.offset;
    if (body)
        it->kind = hidden || r->is_inline || r->pointer_name ? DLSH_CI_OTHER : DLSH_CI_FUNCTION;
    else if (r->is_typedef || (it->is_type && !strstr(dlsh_buf_text(&s->head), DLSH_CI_PLACEHOLDER)))
        it->kind = DLSH_CI_TYPE;
    else if (r->is_extern || r->is_function)
        it->kind = hidden ? DLSH_CI_OTHER : DLSH_CI_PROTOTYPE;
    else
        it->kind = hidden || !it->nnames ? DLSH_CI_OTHER : DLSH_CI_VARIABLE;
    if (body) dlsh_buf_puts(&s->head, DLSH_CI_PLACEHOLDER);
    dlsh_buf_puts(&s->head, ";");
}

/* Is it an old-style definition, `int f(a) int a; { ... }`? Words other than attributes follow its parameters. */
static int at_old_style(const scan *s, const reading *r) {
    static const char *const others[] = {"__attribute__", "__attribute", "__asm__", "__asm", "asm", NULL};
    return r->is_function && s->tok.kind == DLSH_CT_IDENT && !dlsh_clex_among(&s->tok, others);
}

static void read_old_style(scan *s, reading *r) {
    end_declarator(s, r);
    while (s->tok.kind != DLSH_CT_END && !dlsh_clex_is_op(&s->tok, '{')) advance(s);
    finish_item(s, r, 1);
    s->it.kind = DLSH_CI_OTHER;
    s->it.old_style = 1;
    if (s->tok.kind != DLSH_CT_END) skip_group(s);
}

/* Reads one declaration or definition, up to its `;` or the end of its body. */
static void read_declaration(scan *s) {
    reading r = {.begin = s->tok.offset, .copied = s->tok.offset};
    for (int named = 0;;) {
        const dlsh_ctok *t = &s->tok;
        if (t->kind == DLSH_CT_END || dlsh_clex_is_op(t, ';')) {
            if (named || r.last.len || r.name.len)
                end_declarator(s, &r);
            else
                add_head(s, r.copied, t->offset);
            finish_item(s, &r, 0);
            if (t->kind != DLSH_CT_END) advance(s);
            return;
        }
        if (dlsh_clex_is_op(t, '{') && (r.is_function || r.pointer_name)) {
            end_declarator(s, &r);
            finish_item(s, &r, 1);
            skip_group(s);
            return;
        }
        if (at_old_style(s, &r)) {
            read_old_style(s, &r);
            return;
        }
        read_storage_word(s, &r);
        if (dlsh_clex_among(t, calls)) {
            advance(s);
            skip_group(s);
        } else if (dlsh_clex_among(t, records) && !r.last.len) {
            read_record(s, &r);
        } else if (t->kind == DLSH_CT_IDENT) {
            r.last = *t;
            named = 1;
            advance(s);
        } else if (dlsh_clex_is_op(t, '(')) {
            read_bracket(s, &r);
        } else if (dlsh_clex_is_op(t, '=')) {
            end_declarator(s, &r);
            r.last = (dlsh_ctok){0};
            named = 0;
            skip_initialiser(s, &r);
        } else if (dlsh_clex_is_op(t, ',')) {
            if (r.last.len || r.name.len) end_declarator(s, &r);
            r.last = (dlsh_ctok){0};
            r.is_function = r.pointer_name = 0;
            advance(s);
        } else if (dlsh_clex_is_op(t, '[') || dlsh_clex_is_op(t, '{')) {
            skip_group(s);
        } else {
            advance(s);
        }
    }
}

static void read_directive(scan *s) {
    static const char *const kept[] = {"define", "undef", "include", "if",    "ifdef",
                                       "ifndef", "elif",  "else",    "endif", NULL};
    dlsh_clexer in;
    dlsh_clex_begin(&in, s->tok.text, s->tok.len);
    dlsh_ctok word = dlsh_clex_next(&in);
    s->it.begin = s->tok.offset;
    s->it.kind = dlsh_clex_among(&word, kept) ? DLSH_CI_DIRECTIVE : DLSH_CI_OTHER;
    if (dlsh_clex_is(&word, "define")) {
        word = dlsh_clex_next(&in);
        add_name(s, &word);
    }
    dlsh_buf_puts(&s->head, "#");
    dlsh_buf_add(&s->head, s->tok.text, s->tok.len);
    advance(s);
    s->it.end = s->tok.offset;
}

static void free_item(dlsh_citem *it) {
    for (int i = 0; i < it->nnames; i++) free(it->names[i]);
    free(it->head);
}

void dlsh_citems_free(dlsh_citems *c) {
    for (int i = 0; i < c->n; i++) free_item(&c->items[i]);
    free(c->items);
    *c = (dlsh_citems){0};
}

static int keep(scan *s, dlsh_citems *out) {
    dlsh_citem *items = dlsh_grow(out->items, out->n, &out->cap, sizeof *items);
    if (!items) return 0;
    out->items = items;
    s->it.head = strdup(dlsh_buf_text(&s->head));
    items[out->n++] = s->it;
    return s->it.head && !s->head.failed && !s->failed;
}

dl_status dlsh_c_scan(const char *text, size_t len, dlsh_citems *out) {
    scan s = {.text = text};
    int ok = 1;
    *out = (dlsh_citems){0};
    dlsh_clex_begin(&s.lx, text, len);
    for (advance(&s); ok && s.tok.kind != DLSH_CT_END;) {
        s.it = (dlsh_citem){0};
        s.head.n = 0;
        if (s.tok.kind == DLSH_CT_DIRECTIVE)
            read_directive(&s);
        else if (dlsh_clex_is_op(&s.tok, ';')) {
            advance(&s);
            continue;
        } else
            read_declaration(&s);
        ok = keep(&s, out);
    }
    dlsh_buf_free(&s.head);
    if (ok) return DL_OK;
    dlsh_citems_free(out);
    return dlsh_no_memory("C text");
}

int dlsh_citem_has(const dlsh_citem *it, const char *name, size_t len) {
    for (int i = 0; i < it->nnames; i++)
        if (strlen(it->names[i]) == len && !memcmp(it->names[i], name, len)) return 1;
    return 0;
}
