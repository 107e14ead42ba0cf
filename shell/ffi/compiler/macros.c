/* The macros of a header. The compiler is run twice for all of them: first it tells which are expressions, of which
 * type, and constant; then it gives the values of the constants, in assembly. */
#define _GNU_SOURCE /* memmem */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/compiler/query.h"
#include "ffi/cparse/clex.h"
#include "ffi/compiler/compile.h"

/* ---------------------------------------------------------------- which may be expressions at all */

typedef struct macro_info {
    const dlsh_cmacro *macro;
    int unfit; /* it, or a macro it mentions, cannot stand in a question */
    int asked, is_constant;
    const dlsh_ctype *type;
} macro_info;

typedef struct macro_set {
    dlsh_cspace *c;
    const dlsh_cheader *from;
    const dlsh_cdecls *from_text;
    macro_info *items; /* sorted by name */
    int n;
} macro_set;

static int by_name(const void *a, const void *b) {
    return strcmp(((const macro_info *)a)->macro->name, ((const macro_info *)b)->macro->name);
}

static macro_info *find_macro(const macro_set *f, const char *name, size_t len) {
    for (int low = 0, high = f->n; low < high;) {
        int mid = (low + high) / 2, order = strncmp(f->items[mid].macro->name, name, len);
        if (!order) order = f->items[mid].macro->name[len] != 0;
        if (!order) return &f->items[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* Cannot the macro be put into the questions? Unbalanced brackets and statements would spoil those that follow. */
static int unfit(const macro_set *f, const char *body) {
    static const char *const statements[] = {
        "if",      "else",   "for",    "while",   "do",     "return", "switch",  "case",    "break",         "goto",
        "default", "extern", "static", "typedef", "inline", "asm",    "__asm__", "_Pragma", "__attribute__", NULL};
    dlsh_clexer lx;
    int depth = 0, n = 0;
    dlsh_clex_begin(&lx, body, strlen(body));
    for (dlsh_ctok t; (t = dlsh_clex_next(&lx)).kind != DLSH_CT_END; n++) {
        if (t.kind == DLSH_CT_BAD || t.kind == DLSH_CT_DIRECTIVE) return 1;
        if (t.kind == DLSH_CT_PUNCT) {
            if (strchr("{};#", t.op < 256 ? t.op : 1)) return 1;
            depth += (t.op == '(' || t.op == '[') - (t.op == ')' || t.op == ']');
            if (depth < 0) return 1;
        }
        if (t.kind != DLSH_CT_IDENT) continue;
        const macro_info *other = find_macro(f, t.text, t.len);
        if (dlsh_clex_among(&t, statements) || (other && other->unfit)) return 1;
    }
    return depth || !n;
}

static void sort_out(macro_set *f) {
    for (int more = 1, round = 0; more && round < 8; round++) {
        more = 0;
        for (int i = 0; i < f->n; i++)
            if (!f->items[i].unfit && unfit(f, f->items[i].macro->body)) more = f->items[i].unfit = 1;
    }
}

/* ---------------------------------------------------------------- types */

/* Line 10 i + 11 makes the compiler name the type of expression i in an error: no pointer to it has the type struct
 * dlsh_z. The next line is an error unless the expression is constant. Each probe is a function of its own, because an
 * undeclared name is reported once per function. */
static void add_probe(dlsh_buf *b, int i, const char *expression) {
    dlsh_buf_printf(b,
                    "#line %d \"dlsh\"\nvoid dlsh_f_%d(void) {\n"
                    "extern __typeof__((%s)) *dlsh_t_%d; extern struct dlsh_z dlsh_t_%d;\n"
                    "static __typeof__((%s)) s = %s; }\n",
                    10 * i + 10, i, expression, i, i, expression, expression);
}

static dl_status ask(const dlsh_cheader *h, const char *source, int errors, dlsh_buf *said, int *good) {
    static const char *const gcc[] = {
        "-fsyntax-only", "-w", "-fno-diagnostics-show-caret", "-ftrack-macro-expansion=0", "-fmax-errors=0", NULL};
    static const char *const clang[] = {"-fsyntax-only", "-w", "-fno-caret-diagnostics", "-ferror-limit=0", NULL};
    static const char *const assembly[] = {"-S", "-O0", "-g0", "-w", "-o", "-", NULL};
    return dlsh_c_query(source,
                        !errors                                  ? assembly
                        : dlsh_c_query_family() == DLSH_CC_CLANG ? clang
                                                                 : gcc,
                        h->flags, errors, said, good);
}

/* The text after `what` in a line; NULL: not found. */
static const char *behind(const char *line, const char *end, const char *what) {
    const char *s = memmem(line, (size_t)(end - line), what, strlen(what));
    return s ? s + strlen(what) : NULL;
}

/* Reads the type in "previous declaration of 'dlsh_t_3' with type 'int *'", or clang's "redeclaration of 'dlsh_t_3'
 * with a different type: 'struct dlsh_z' vs 'typeof ((X)) *' (aka 'int *')". 0: there is none. */
static int read_type(const char *line, const char *end, int *i, char *text, size_t size) {
    const char *s = behind(line, end, " of 'dlsh_t_"), *type;
    if (!s) return 0;
    *i = atoi(s);
    if (!(type = behind(s, end, "' with type '")) && !(type = behind(s, end, "(aka '")) &&
        !(type = behind(s, end, " vs '")))
        return 0;
    snprintf(text, size, "%.*s", (int)strcspn(type, "'\n"), type);
    return 1;
}

/* The type that the pointer in a message points to; NULL: the parser does not know it. */
static const dlsh_ctype *type_of(dlsh_cspace *c, const char *text) {
    dlsh_cerror ignored;
    const dlsh_ctype *t = dlsh_c_parse_type(c, text, strlen(text), &ignored);
    if (!t) dl_error_clear();
    return t && t->kind == DLSH_C_POINTER ? t->base : NULL;
}

/* An error in line `line`: the macro is not an expression, or not constant. */
static void record_mistake(macro_set *f, int line) {
    int i = line / 10 - 1;
    if (i < 0 || i >= f->n) return;
    f->items[i].is_constant = 0;
    if (line % 10 < 2) f->items[i].asked = 0;
}

/* Reads all messages. An error at another place, as in a macro's header, belongs to the function named before it. */
static void read_types(macro_set *f, const char *said) {
    char text[400];
    int i, within = -1;
    for (const char *s = said, *end; *s; s = end + (*end == '\n')) {
        const char *at;
        end = s + strcspn(s, "\n");
        if ((at = behind(s, end, ": In function 'dlsh_f_"))) {
            within = atoi(at);
        } else if (read_type(s, end, &i, text, sizeof text)) {
            if (i >= 0 && i < f->n) f->items[i].type = type_of(f->c, text);
        } else if ((at = behind(s, end, ": error: ")) && strncmp(at, "conflicting types for 'dlsh_t_", 30)) {
            record_mistake(f, !strncmp(s, "dlsh:", 5) ? atoi(s + 5) : 10 * within + 11);
        }
    }
    for (i = 0; i < f->n; i++)
        if (!f->items[i].asked) f->items[i].type = NULL;
}

static dl_status ask_types(macro_set *f) {
    DLSH_SCOPED_BUF source = {0}, said = {0};
    int good, n = 0;
    dlsh_buf_puts(&source, f->from->source);
    for (int i = 0; i < f->n; i++) {
        macro_info *x = &f->items[i];
        if (x->unfit || x->macro->params) continue;
        x->asked = x->is_constant = 1;
        n++;
        add_probe(&source, i, x->macro->name);
    }
    DLSH_TRY(source.failed ? DL_ERR_MEMORY : n ? ask(f->from, dlsh_buf_text(&source), 1, &said, &good) : DL_OK);
    read_types(f, dlsh_buf_text(&said));
    return DL_OK;
}

dl_status dlsh_c_query_type(dlsh_cspace *c, const dlsh_cheader *h, const char *expression, const dlsh_ctype **type) {
    dlsh_cmacro m = {.name = expression};
    macro_info one = {.macro = &m, .asked = 1};
    macro_set f = {.c = c, .from = h, .items = &one, .n = 1};
    DLSH_SCOPED_BUF source = {0}, said = {0};
    int good;
    dlsh_buf_puts(&source, h->source);
    dlsh_buf_printf(&source,
                    "#line 10 \"dlsh\"\nvoid dlsh_f_0(void) {\n"
                    "extern __typeof__((%s)) *dlsh_t_0; extern struct dlsh_z dlsh_t_0; }\n",
                    expression);
    dl_status st = source.failed ? DL_ERR_MEMORY : ask(h, dlsh_buf_text(&source), 1, &said, &good);
    if (!st) read_types(&f, dlsh_buf_text(&said));
    *type = one.type;
    return st;
}

/* ---------------------------------------------------------------- values */

static int has_value(const macro_info *x) {
    const dlsh_ctype *t = x->type;
    if (!t || !x->is_constant) return 0;
    if (t->kind == DLSH_C_ARRAY) return t->base->plain->kind == DLSH_C_CHAR;
    return dlsh_c_is_integer(t) || dlsh_c_is_float(t) || t->kind == DLSH_C_POINTER;
}

static void put_bytes(dlsh_buf *b, unsigned long v, int n) { dlsh_buf_add(b, (const char *)&v, (size_t)n); }

/* Adds the text of .string "a\303\"b". */
static void put_text(dlsh_buf *b, const char *s, const char *end, int zero) {
    dlsh_ctok t = {.kind = DLSH_CT_STRING, .text = s, .len = (size_t)(end - s)};
    DLSH_FREED char *text = malloc(t.len + 1);
    if (text && t.len > 1) dlsh_buf_add(b, text, dlsh_clex_string(&t, text));
    if (zero) dlsh_buf_add(b, "", 1);
}

int dlsh_c_read_data(const char *s, dlsh_buf *b) {
    static const struct {
        const char *name;
        int size; /* 0: bytes of zero, -1: text, -2: text and a NUL */
    } data[] = {{".quad", 8},  {".xword", 8}, {".8byte", 8},  {".long", 4},   {".word", 4},   {".4byte", 4},
                {".value", 2}, {".short", 2}, {".hword", 2},  {".2byte", 2},  {".byte", 1},   {".zero", 0},
                {".space", 0}, {".skip", 0},  {".ascii", -1}, {".asciz", -2}, {".string", -2}};
    for (; *s; s += *s == '\n') {
        const char *end = s + strcspn(s, "\n"), *word = s + strspn(s, " \t"), *value = word + strcspn(word, " \t\n");
        int kind = 0, count = DLSH_COUNT(data);
        while (kind < count && ((size_t)(value - word) != strlen(data[kind].name) ||
                                strncmp(word, data[kind].name, strlen(data[kind].name))))
            kind++;
        if (kind == count) break;
        value += strspn(value, " \t");
        if (data[kind].size < 0) {
            put_text(b, value, end, data[kind].size == -2);
        } else {
            char *stop;
            unsigned long v = strtoul(value, &stop, 0);
            if (stop == value) return 0;
            for (unsigned long k = 0; !data[kind].size && k < v && k < 65536; k++) put_bytes(b, 0, 1);
            if (data[kind].size) put_bytes(b, v, data[kind].size);
        }
        s = end;
    }
    return b->n > 0 && !b->failed;
}

static dlsh_cname *enter(macro_set *f, const macro_info *x, dlsh_cname_kind kind, const dlsh_ctype *type) {
    return dlsh_c_enter(f->c, kind, x->macro->name, strlen(x->macro->name), type);
}

/* 1: entered, 0: the bytes are not those of its type, -1: no memory. */
static int enter_value(macro_set *f, const macro_info *x, const dlsh_buf *b) {
    const dlsh_ctype *t = x->type->plain;
    char bytes[16] = {0};
    size_t size = dlsh_c_size(t);
    if (t->kind == DLSH_C_ARRAY) {
        dlsh_cname *n = memchr(b->s, 0, b->n) ? enter(f, x, DLSH_C_CONSTANT, x->type) : NULL;
        if (!n) return memchr(b->s, 0, b->n) ? -1 : 0;
        n->type = dlsh_c_pointer(f->c, dlsh_c_const(f->c, dlsh_c_basic(DLSH_C_CHAR)));
        n->s = dlsh_c_copy(f->c, b->s, strlen(b->s));
        return n->type && n->s ? 1 : -1;
    }
    if (b->n < (size > 10 ? 10 : size) || size > sizeof bytes) return 0;
    memcpy(bytes, b->s, b->n < sizeof bytes ? b->n : sizeof bytes);
    dlsh_cname *n = enter(f, x, DLSH_C_CONSTANT, t);
    if (!n) return -1;
    if (dlsh_c_is_float(t))
        n->f = dlsh_c_floating_at(t, bytes);
    else
        n->i = dlsh_c_integer_at(t, bytes);
    return 1;
}

static dl_status read_values(macro_set *f, const char *said) {
    for (int i = 0; i < f->n; i++) {
        macro_info *x = &f->items[i];
        char label[40];
        DLSH_SCOPED_BUF b = {0};
        if (!has_value(x)) continue;
        snprintf(label, sizeof label, "\ndlsh_v_%d:\n", i);
        const char *s = strstr(said, label);
        int r = s && dlsh_c_read_data(s + strlen(label), &b) ? enter_value(f, x, &b) : 0;
        if (r < 0) return dlsh_no_memory("constants");
        if (s) said = s + 1; /* they come in order */
        x->is_constant = r;
    }
    return DL_OK;
}

static dl_status ask_values(macro_set *f) {
    DLSH_SCOPED_BUF source = {0}, said = {0};
    int good = 0, n = 0;
    dlsh_buf_puts(&source, f->from->source);
    for (int i = 0; i < f->n; i++)
        if (has_value(&f->items[i]) && ++n)
            dlsh_buf_printf(&source, "const __typeof__((%s)) dlsh_v_%d = %s;\n", f->items[i].macro->name, i,
                            f->items[i].macro->name);
    dl_status st = source.failed ? DL_ERR_MEMORY : n ? ask(f->from, dlsh_buf_text(&source), 0, &said, &good) : DL_OK;
    if (!st && good)
        st = read_values(f, dlsh_buf_text(&said));
    else if (!st && n) /* no compiler of the known kinds: what the parser of declarations makes of them */
        st = dlsh_c_enter_macros(f->c, f->from_text);
    return st;
}

/* ---------------------------------------------------------------- all */

/* Enters the other macros, which the compiler evaluates when they are used. */
static dl_status enter_others(macro_set *f) {
    for (int i = 0; i < f->n; i++) {
        const macro_info *x = &f->items[i];
        const dlsh_cname *old = dlsh_c_find(f->c, x->macro->name, strlen(x->macro->name));
        if ((old && old->kind == DLSH_C_CONSTANT) || (x->is_constant && has_value(x))) continue;
        dlsh_cname *n = enter(f, x, DLSH_C_MACRO, x->type);
        if (!n) return dl_failed();
        n->params = x->macro->params;
        n->body = x->macro->body + strspn(x->macro->body, " \t");
        n->header = f->from;
    }
    return DL_OK;
}

/* Does a name that is not a constant or macro exist already? It stays what it is. */
static int is_taken(const dlsh_cspace *c, const char *name) {
    const dlsh_cname *old = dlsh_c_find(c, name, strlen(name));
    return old && old->kind != DLSH_C_CONSTANT && old->kind != DLSH_C_MACRO;
}

dl_status dlsh_c_query_macros(dlsh_cspace *c, const dlsh_cdecls *d, const dlsh_cheader *from) {
    if (dlsh_c_query_family() == DLSH_CC_TCC) return dlsh_c_enter_macros(c, d);
    macro_set f = {.c = c, .from = from, .from_text = d, .items = calloc((size_t)d->nmacros + 1, sizeof(macro_info))};
    if (!f.items) return dlsh_no_memory("constants");
    for (int i = 0; i < d->nmacros; i++)
        if (!is_taken(c, d->macros[i].name)) f.items[f.n++].macro = &d->macros[i];
    qsort(f.items, (size_t)f.n, sizeof *f.items, by_name);
    sort_out(&f);
    dl_status st = ask_types(&f);
    if (!st) st = ask_values(&f);
    if (!st) st = enter_others(&f);
    free(f.items);
    return st;
}
