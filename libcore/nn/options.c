/* Arguments checked against rows of options; looking rows up by name; text of values. */
#include "nn/options.h"
#include "core/op.h"

#include <ctype.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is `name` one of the blank-separated words? */
static bool among(const char *words, const char *name) {
    size_t n = strlen(name);
    for (const char *p = words; *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (strcspn(p, " ") == n && !strncmp(p, name, n)) return true;
    return false;
}

static int options_count(const dl_kind_row *row) {
    int n = 0;
    while (row->options[n].name) n++;
    return n;
}

int dl_option_find(const dl_kind_row *row, const char *name) {
    for (int i = 0; row->options[i].name; i++)
        if (!strcmp(row->options[i].name, name) || among(row->options[i].alias, name)) return i;
    return -1;
}

int dl_kind_has_flag(const dl_kind_row *kind, const char *option) {
    int i = kind && option ? dl_option_find(kind, option) : -1;
    return i >= 0 && kind->options[i].kind == DL_ARG_BOOL;
}

const dl_optval *dl_option(const dl_kind_row *row, const dl_optval *val, const char *name) {
    for (int i = 0; row->options[i].name; i++)
        if (!strcmp(row->options[i].name, name)) return val + i;
    assert(!"an option of this name");
    return NULL;
}

/* ---------------------------------------------------------------- one value */

static const char *const kind_words[] = {"a whole number",
                                         "a number",
                                         "true or false",
                                         "a word",
                                         "a list of integers",
                                         "a list of numbers",
                                         "a list of integers, valid or same"};

static bool is_ints(dl_arg_kind k) { return k == DL_ARG_INTS || k == DL_ARG_PADS; }

static void set_int(dl_optval *v, dl_arg_kind kind, long i) {
    *v = (dl_optval){.given = true, .set = true, .n = 1};
    if (kind == DL_ARG_FLOAT || kind == DL_ARG_FLOATS)
        v->u.fv[0] = (double)i;
    else
        v->u.v[0] = i;
}

/* Converts the argument to the kind of the row; false when it does not fit. */
static bool convert(const dl_option_row *o, const dl_arg *a, dl_optval *v) {
    bool want_float = o->kind == DL_ARG_FLOAT || o->kind == DL_ARG_FLOATS;
    if (a->kind == DL_ARG_STR && !strcmp(a->s, "none") && strstr(o->dflt, "|none")) {
        *v = (dl_optval){.set = true};
        return true;
    }
    if (a->kind == DL_ARG_STR && o->kind == DL_ARG_STR) {
        if (strlen(a->s) >= sizeof v->u.s) return false;
        *v = (dl_optval){.given = true, .set = true, .n = 1};
        strcpy(v->u.s, a->s);
        return true;
    }
    if (a->kind == DL_ARG_STR && o->kind == DL_ARG_PADS) {
        *v = (dl_optval){.given = true, .set = true, .n = 1};
        return dl_padding_word(a->s, &v->u.v[0]);
    }
    if (o->kind == DL_ARG_STR) return false;
    if (o->kind == DL_ARG_BOOL && a->kind != DL_ARG_BOOL) return false;
    if (a->kind == DL_ARG_INT || (a->kind == DL_ARG_BOOL && o->kind == DL_ARG_BOOL)) {
        set_int(v, o->kind, a->i);
        return true;
    }
    if (a->kind == DL_ARG_FLOAT && want_float) {
        *v = (dl_optval){.given = true, .set = true, .n = 1};
        v->u.f = a->f;
        return true;
    }
    bool list = is_ints(o->kind) || o->kind == DL_ARG_FLOATS;
    if (!list || a->n > DL_OPT_LIST || (a->kind != DL_ARG_INTS && (a->kind != DL_ARG_FLOATS || !want_float)))
        return false;
    *v = (dl_optval){.given = true, .set = true, .n = a->n};
    for (int i = 0; i < a->n; i++) {
        if (!want_float)
            v->u.v[i] = a->v[i];
        else
            v->u.fv[i] = a->kind == DL_ARG_INTS ? (double)a->v[i] : a->fv[i];
    }
    return true;
}

/* Defaults are written in the tables as "3", "0.1", "true", "none", "[0.9, 0.999]". */
static void set_default(const dl_option_row *o, dl_optval *v) {
    *v = (dl_optval){0};
    if (!strcmp(o->dflt, "none") || !*o->dflt) return;
    v->given = true, v->n = 1;
    switch (o->kind) {
    case DL_ARG_INT: v->u.i = strtol(o->dflt, NULL, 10); break;
    case DL_ARG_FLOAT: v->u.f = strtod(o->dflt, NULL); break;
    case DL_ARG_BOOL: v->u.i = !strcmp(o->dflt, "true"); break;
    case DL_ARG_STR: snprintf(v->u.s, sizeof v->u.s, "%s", o->dflt); break;
    case DL_ARG_INTS:
    case DL_ARG_PADS:
    case DL_ARG_FLOATS: {
        const char *p = o->dflt;
        for (v->n = 0; *p && v->n < DL_OPT_LIST; v->n++) {
            char *end;
            p += strspn(p, "[, ");
            double f = strtod(p, &end);
            if (end == p) break;
            if (is_ints(o->kind))
                v->u.v[v->n] = (long)f;
            else
                v->u.fv[v->n] = f;
            p = end + strspn(end, "] ");
        }
        break;
    }
    }
}

/* Is it a word that reads back without quotes? */
static bool is_bare(const char *s) {
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("_/.", *s)) return false;
    return true;
}

void dl_optval_text(const dl_option_row *o, const dl_optval *v, char *out, size_t size) {
    if (!v->given) {
        snprintf(out, size, "none");
        return;
    }
    bool list = (is_ints(o->kind) || o->kind == DL_ARG_FLOATS) && v->n != 1;
    size_t at = 0;
    out[0] = 0;
    if (list) at += (size_t)snprintf(out, size, "[");
    for (int i = 0; i < (list ? v->n : 1) && at < size; i++) {
        const char *sep = i ? ", " : "";
        if (o->kind == DL_ARG_STR)
            at += (size_t)snprintf(out + at, size - at, is_bare(v->u.s) ? "%s" : "\"%s\"", v->u.s);
        else if (o->kind == DL_ARG_BOOL)
            at += (size_t)snprintf(out + at, size - at, "%s", v->u.i ? "true" : "false");
        else if (o->kind == DL_ARG_PADS && v->u.v[i] == DL_PADDING_SAME)
            at += (size_t)snprintf(out + at, size - at, "same");
        else if (o->kind == DL_ARG_INT || is_ints(o->kind))
            at += (size_t)snprintf(out + at, size - at, "%s%ld", sep, v->u.v[i]);
        else {
            char digits[40]; /* the shortest that reads back */
            for (int p = 6; p <= 17; p++) {
                snprintf(digits, sizeof digits, "%.*g", p, v->u.fv[i]);
                if (strtod(digits, NULL) == v->u.fv[i]) break;
            }
            at += (size_t)snprintf(out + at, size - at, "%s%s", sep, digits);
        }
    }
    if (list && at < size) snprintf(out + at, size - at, "]");
}

/* ---------------------------------------------------------------- all arguments of a row */

/* Adds the blank-separated words of `text` to names, kept in `room`. Returns the new count. */
static int add_words(const char *text, const char **names, int n, int max, char *room, size_t size, size_t *used) {
    for (const char *p = text; *p && n < max; p += strcspn(p, " "), p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");
        if (*used + len + 1 > size) break;
        memcpy(room + *used, p, len);
        room[*used + len] = 0;
        names[n++] = room + *used;
        *used += len + 1;
    }
    return n;
}

static dl_status unknown_option(const char *what, const dl_kind_row *row, const char *name) {
    enum { MAX = 4 * DL_OPT_MAX };
    const char *names[MAX];
    char room[512];
    size_t used = 0;
    int n = 0;
    for (int i = 0; row->options[i].name && n < MAX; i++) {
        names[n++] = row->options[i].name;
        n = add_words(row->options[i].alias, names, n, MAX, room, sizeof room, &used);
    }
    char takes[128]; /* without aliases */
    size_t at = (size_t)snprintf(takes, sizeof takes, n ? "it takes " : "it takes no options");
    for (int i = 0; row->options[i].name && at < sizeof takes - 32; i++)
        at += (size_t)snprintf(takes + at, sizeof takes - at, "%s%s", i ? ", " : "", row->options[i].name);
    return dl_fail_unknown(name, names, n, takes, "%s %s has no option '%s'", what, row->name, name);
}

static dl_status read_one(const char *what, const dl_kind_row *row, int index, const dl_arg *a, bool *seen,
                          dl_optval *val) {
    const dl_option_row *o = row->options + index;
    if (seen[index]) return dl_fail(DL_ERR_NAME, "%s %s: %s is given twice", what, row->name, o->name);
    seen[index] = true;
    if (convert(o, a, val + index)) return DL_OK;
    char doc[128];
    snprintf(doc, sizeof doc, "%s: %s", o->name, o->doc);
    return dl_fail_hint(DL_ERR_TYPE, doc, "%s %s: %s must be %s, not %s", what, row->name, o->name, kind_words[o->kind],
                        kind_words[a->kind]);
}

dl_status dl_options_change(const char *what, const dl_kind_row *row, const dl_arg *args, int nargs, dl_optval *val,
                            int *bad) {
    bool seen[DL_OPT_MAX] = {false};
    int next = 0, n = options_count(row);
    for (int i = 0; i < nargs; i++) {
        if (bad) *bad = i;
        int index = next;
        bool flag = !args[i].name && args[i].kind == DL_ARG_STR && dl_kind_has_flag(row, args[i].s);
        const dl_arg yes = {.name = args[i].s, .kind = DL_ARG_BOOL, .i = 1}, *a = flag ? &yes : &args[i];
        if (a->name) {
            index = dl_option_find(row, a->name);
            if (index < 0) return unknown_option(what, row, a->name);
        } else if (next++ >= row->positional)
            return dl_fail_hint(DL_ERR_VALUE, row->example,
                                row->positional ? "%s %s takes at most %d argument%s without a name"
                                                : "%s %s takes no arguments without a name",
                                what, row->name, row->positional, row->positional == 1 ? "" : "s");
        DL_TRY(read_one(what, row, index, a, seen, val));
    }
    if (bad) *bad = -1;
    for (int i = 0; i < n; i++)
        if (!val[i].given && !*row->options[i].dflt) {
            char hint[160];
            snprintf(hint, sizeof hint, "for example: %s", row->example);
            return dl_fail_hint(DL_ERR_VALUE, hint, "%s %s needs %s (%s)", what, row->name, row->options[i].name,
                                row->options[i].doc);
        }
    return DL_OK;
}

dl_status dl_options_read(const char *what, const dl_kind_row *row, const dl_arg *args, int nargs, dl_optval *val,
                          int *bad) {
    int n = options_count(row);
    assert(n <= DL_OPT_MAX);
    for (int i = 0; i < n; i++) set_default(row->options + i, val + i);
    return dl_options_change(what, row, args, nargs, val, bad);
}

/* ---------------------------------------------------------------- tables of kinds */

static const dl_kind_row *row_at(const dl_kind_row *rows, int i, size_t stride) {
    return (const dl_kind_row *)((const char *)rows + (size_t)i * stride);
}

int dl_kind_find(const dl_kind_row *rows, int n, size_t stride, const char *name) {
    for (int i = 0; i < n; i++) {
        const dl_kind_row *r = row_at(rows, i, stride);
        if (!strcmp(r->name, name) || among(r->alias, name)) return i;
    }
    return -1;
}

dl_status dl_kind_unknown(const char *what, const dl_kind_row *rows, int n, size_t stride, const char *name) {
    enum { MAX = 512 };
    const char *names[MAX];
    char room[8192];
    size_t used = 0;
    int k = 0;
    for (int i = 0; i < n && k < MAX; i++) {
        const dl_kind_row *r = row_at(rows, i, stride);
        names[k++] = r->name;
        k = add_words(r->alias, names, k, MAX, room, sizeof room, &used);
    }
    /* a few are listed; many have a page of the manual */
    return dl_fail_unknown(name, names, k, k > 16 ? "" : NULL, "there is no %s called '%s'", what, name);
}

/* ---------------------------------------------------------------- text */

void dl_text_add(dl_text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (t->n + (size_t)n + 1 > t->cap && !t->failed) {
        size_t cap = (t->n + (size_t)n + 1) * 2;
        char *s = realloc(t->s, cap);
        if (s)
            t->s = s, t->cap = cap;
        else
            t->failed = true;
    }
    if (!t->failed) {
        vsnprintf(t->s + t->n, t->cap - t->n, fmt, again);
        t->n += (size_t)n;
    }
    va_end(again);
}

char *dl_text_take(dl_text *t) {
    if (!t->s && !t->failed) t->s = strdup("");
    if (t->s && !t->failed) return t->s;
    free(t->s);
    dl_fail(DL_ERR_MEMORY, "no memory for a text");
    return NULL;
}
