/* Nets, optimizers and schedules from text, in the syntax of the language's net blocks: chains with ->, one layer a
 * line or separated by ;, labels before a colon, braces for layers made of layers. */
#include "nn/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/module.h"

enum { MAX_DEPTH = 64 };

/* All pieces of a description live in blocks that are freed together. */
typedef struct block {
    struct block *next;
} block;

typedef struct parser {
    const char *text, *p;
    block *blocks;
    int depth;
} parser;

static void *take(parser *s, size_t n) {
    block *b = calloc(1, sizeof *b + n);
    if (!b) {
        dl_fail(DL_ERR_MEMORY, "no memory for the description of a net");
        return NULL;
    }
    b->next = s->blocks;
    s->blocks = b;
    return b + 1;
}

static void release(parser *s) {
    for (block *b = s->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
}

static dl_status unexpected(parser *s, const char *wanted) {
    int line = 1;
    for (const char *q = s->text; q < s->p; q++) line += *q == '\n';
    int n = (int)strcspn(s->p, " \t\n;");
    if (!*s->p) return dl_fail(DL_ERR_SYNTAX, "line %d: expected %s, got the end", line, wanted);
    return dl_fail(DL_ERR_SYNTAX, "line %d: expected %s, got '%.*s'", line, wanted, n > 0 && n < 40 ? n : 1, s->p);
}

static void skip(parser *s, const char *what) {
    for (;;) {
        s->p += strspn(s->p, what);
        if (*s->p != '#') return;
        s->p += strcspn(s->p, "\n");
    }
}
#define BLANKS " \t\r"
#define LINES " \t\r\n;"

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static char *word(parser *s) {
    size_t n = 0;
    while (is_word(s->p[n])) n++;
    if (!n || isdigit((unsigned char)*s->p)) return NULL;
    char *w = take(s, n + 1);
    if (w) memcpy(w, s->p, n), s->p += n;
    return w;
}

/* ---------------------------------------------------------------- values */

/* A number; whole ones are kept as such. */
static bool number(parser *s, dl_arg *a) {
    char *end, *stop;
    double f = strtod(s->p, &end);
    if (end == s->p || is_word(*end) || isalpha((unsigned char)*s->p)) return false;
    long i = strtol(s->p, &stop, 10);
    *a = (dl_arg){.kind = stop == end ? DL_ARG_INT : DL_ARG_FLOAT, .i = i, .f = f};
    s->p = end;
    return true;
}

static dl_status list(parser *s, dl_arg *a) {
    long *v = take(s, DL_OPT_LIST * sizeof *v);
    double *fv = take(s, DL_OPT_LIST * sizeof *fv);
    if (!v || !fv) return dl_failed();
    bool whole = true;
    int n = 0;
    dl_arg one;
    for (s->p++, skip(s, LINES); *s->p != ']'; skip(s, LINES ",")) {
        if (n == DL_OPT_LIST || !number(s, &one)) return unexpected(s, "a number or ']'");
        whole &= one.kind == DL_ARG_INT;
        v[n] = one.i;
        fv[n++] = one.kind == DL_ARG_INT ? (double)one.i : one.f;
    }
    s->p++;
    *a = (dl_arg){.kind = whole ? DL_ARG_INTS : DL_ARG_FLOATS, .n = n, .v = v, .fv = fv};
    return DL_OK;
}

static dl_status value(parser *s, dl_arg *a) {
    if (*s->p == '[') return list(s, a);
    if (number(s, a)) return DL_OK;
    char quote = *s->p == '"' || *s->p == '\'' ? *s->p : 0;
    size_t n = 0;
    if (quote) {
        const char *end = strchr(++s->p, quote);
        if (!end) return unexpected(s, "a closing quote");
        n = (size_t)(end - s->p);
    } else
        while (is_word(s->p[n]) || s->p[n] == '/' || s->p[n] == '.') n++;
    if (!n) return unexpected(s, "a value");
    char *w = take(s, n + 1);
    if (!w) return dl_failed();
    memcpy(w, s->p, n);
    s->p += n + (quote != 0);
    bool yes = !strcmp(w, "true"), no = !strcmp(w, "false");
    *a = yes || no ? (dl_arg){.kind = DL_ARG_BOOL, .i = yes} : (dl_arg){.kind = DL_ARG_STR, .s = w};
    return DL_OK;
}

/* Arguments up to the end of the layer: values and name=value. Commas and parentheses count as blanks where `loose`. */
static dl_status arguments(parser *s, bool loose, const dl_arg **args, int *nargs) {
    const char *blanks = loose ? BLANKS ",()" : BLANKS;
    dl_arg *a = take(s, DL_OPT_MAX * sizeof *a);
    if (!a) return dl_failed();
    int n = 0;
    for (skip(s, blanks); *s->p && !strchr("\n;{}", *s->p) && strncmp(s->p, "->", 2); skip(s, blanks)) {
        if (n == DL_OPT_MAX) return unexpected(s, "fewer arguments");
        const char *start = s->p;
        char *name = word(s);
        if (name && *s->p == '=')
            s->p++;
        else
            s->p = start, name = NULL;
        DL_TRY(value(s, &a[n]));
        a[n++].name = name;
    }
    *args = a, *nargs = n;
    return DL_OK;
}

/* ---------------------------------------------------------------- layers */

static dl_status layers(parser *s, bool braces, dl_layer_spec **out, int *nout);

static dl_status layer(parser *s, dl_layer_spec *l) {
    char *name = word(s);
    if (!name) return unexpected(s, "a layer");
    skip(s, BLANKS);
    if (*s->p == ':') {
        s->p++;
        skip(s, BLANKS);
        l->label = name;
        if (!(name = word(s))) return unexpected(s, "a layer after its name");
    }
    l->kind = name;
    DL_TRY(arguments(s, false, &l->args, &l->nargs));
    if (*s->p != '{') return DL_OK;
    dl_layer_spec *inner;
    DL_TRY(layers(s, true, &inner, &l->nbody));
    l->body = inner;
    if (strcmp(name, "residual")) return DL_OK;
    const char *start = s->p;
    skip(s, LINES);
    if (!strncmp(s->p, "shortcut", 8) && !is_word(s->p[8])) {
        s->p += 8;
        skip(s, BLANKS);
        if (*s->p != '{') return unexpected(s, "'{' after shortcut");
        DL_TRY(layers(s, true, &inner, &l->nshortcut));
        l->shortcut = inner;
        return DL_OK;
    }
    s->p = start;
    return DL_OK;
}

/* Appends a zeroed layer to a growing array. */
static dl_layer_spec *grow(parser *s, dl_layer_spec **array, int n, int *cap) {
    if (n == *cap) {
        int more = *cap ? 2 * *cap : 8;
        dl_layer_spec *a = take(s, (size_t)more * sizeof *a);
        if (!a) return NULL;
        if (n) memcpy(a, *array, (size_t)n * sizeof *a);
        *array = a, *cap = more;
    }
    return *array + n;
}

static dl_status layers(parser *s, bool braces, dl_layer_spec **out, int *nout) {
    dl_layer_spec *array = NULL;
    int n = 0, cap = 0;
    if (++s->depth > MAX_DEPTH) return dl_fail(DL_ERR_SYNTAX, "layers are nested more than %d deep", MAX_DEPTH);
    if (braces) s->p++;
    for (;;) {
        skip(s, LINES);
        if (!*s->p || *s->p == '}') break;
        for (bool more = true; more;) {
            if (!grow(s, &array, n, &cap)) return dl_failed();
            DL_TRY(layer(s, &array[n++]));
            skip(s, BLANKS);
            more = !strncmp(s->p, "->", 2);
            if (more) s->p += 2, skip(s, BLANKS "\n");
        }
        if (*s->p && !strchr("\n;}", *s->p)) return unexpected(s, "'->' or the end of the line");
    }
    if (braces != (*s->p == '}')) return unexpected(s, braces ? "'}'" : "a layer");
    s->p += braces;
    s->depth--;
    *out = array, *nout = n;
    return DL_OK;
}

dl_module *dl_net_parse(const char *text) {
    if (!text) return dl_fail_null("the description of a net"), NULL;
    parser s = {.text = text, .p = text};
    dl_layer_spec *l;
    int n;
    dl_module *m = NULL;
    if (layers(&s, false, &l, &n) == DL_OK) {
        if (n)
            m = dl_net_build(NULL, l, n, NULL, NULL);
        else
            dl_fail(DL_ERR_SYNTAX, "the description of the net has no layers");
    }
    release(&s);
    return m;
}

void *dl_parse_call(const char *text, dl_make_fn *make) {
    if (!text) return dl_fail_null("the description"), NULL;
    parser s = {.text = text, .p = text};
    const dl_arg *args;
    int nargs;
    void *made = NULL;
    skip(&s, LINES);
    char *kind = word(&s);
    if (!kind)
        unexpected(&s, "a name");
    else if (arguments(&s, true, &args, &nargs) == DL_OK) {
        skip(&s, LINES);
        if (*s.p)
            unexpected(&s, "the end");
        else
            made = make(kind, args, nargs);
    }
    release(&s);
    return made;
}
