/* Text: str, repr, format, and functions on strings, which are their methods too. */
#define _GNU_SOURCE /* memmem */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/eval/interp.h"

#define STR_PARAM                                                                                                      \
    { .name = "s", .want = "string", .flags = DLSH_BYTES, .doc = "the string" }

static dl_status give(dlsh_buf *b, dl_status st, dlsh_value *out) {
    if (!st) return dlsh_give(dlsh_buf_string(b), out);
    dlsh_buf_free(b);
    return st;
}

static const dlsh_param any_param[] = {{"x", .doc = "any value"}, {0}};

static dl_status str_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_buf b = {0};
    return give(&b, dlsh_text(&b, *dlsh_arg(a, "x")), result);
}
static int str_quick(const dlsh_value *v, int n, dlsh_value *result) {
    char text[24], *p = text + sizeof text;
    if (n != 1 || v[0].type != DLSH_INT) return 0;
    unsigned long rest = v[0].as.i < 0 ? -(unsigned long)v[0].as.i : (unsigned long)v[0].as.i;
    do *--p = (char)('0' + rest % 10);
    while (rest /= 10);
    if (v[0].as.i < 0) *--p = '-';
    *result = dlsh_string_n(p, (size_t)(text + sizeof text - p));
    if (dlsh_failed(*result)) dl_error_clear();
    return !dlsh_failed(*result);
}
static dl_status repr_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_buf b = {0};
    return give(&b, dlsh_repr(&b, *dlsh_arg(a, "x")), result);
}
static dl_status json_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_buf b = {0};
    if (dlsh_arg(a, "x")->type == DLSH_STR && !dlsh_arg_data(a)) return dlsh_json_parse(a, result);
    return give(&b, dlsh_json(&b, *dlsh_arg(a, "x")), result);
}

/* ---------------------------------------------------------------- format */

enum { WIDEST = 1000000 };

/* A conversion: %[flags][width][.precision]letter; length letters are skipped. Returns bytes used, 0 when malformed. */
static size_t conversion(const char *p, char *spec, size_t room, char *letter) {
    size_t n = 1, k = 1;
    spec[0] = '%';
    while (p[n] && strchr("-+ #0", p[n]) && k < room - 4) spec[k++] = p[n++];
    while (isdigit((unsigned char)p[n]) && k < room - 4) spec[k++] = p[n++];
    if (p[n] == '.') {
        spec[k++] = p[n++];
        while (isdigit((unsigned char)p[n]) && k < room - 4) spec[k++] = p[n++];
    }
    spec[k] = 0;
    while (p[n] && strchr("hlLqjzt", p[n])) n++;
    *letter = p[n];
    return p[n] && strchr("diouxXcfFeEgGaAs", p[n]) ? n + 1 : 0;
}

/* Width or precision of a specification, whichever is larger. */
static long widest(const char *spec) {
    const char *dot = strchr(spec, '.');
    long width = strtol(spec + strcspn(spec, "123456789"), NULL, 10), precision = dot ? strtol(dot + 1, NULL, 10) : 0;
    return width > precision ? width : precision;
}

/* The code point in UTF-8; 0: there is none of that number. */
static int to_utf8(long c, char out[4]) {
    int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (c < 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    for (int i = n - 1; i; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(n > 1 ? 0xf00 >> n | c : c);
    return n;
}

static dl_status no_code(long c) { return dlsh_fail(DL_ERR_VALUE, NULL, "%ld is not a code point of Unicode", c); }

/* %c, with a width: the character of a number. */
static dl_status put_character(dlsh_buf *b, const char *spec, long code) {
    char text[4];
    int n = to_utf8(code, text), left = strchr(spec, '-') != NULL;
    long pad = widest(spec) - 1;
    if (!n) return no_code(code);
    if (left) dlsh_buf_add(b, text, (size_t)n);
    for (long i = 0; i < pad; i++) dlsh_buf_puts(b, " ");
    if (!left) dlsh_buf_add(b, text, (size_t)n);
    return DL_OK;
}

static dl_status format_value(dlsh_buf *b, const char *spec, char letter, dlsh_value v) {
    char full[48];
    dlsh_value x = v;
    if (v.type == DLSH_TENSOR && letter != 's') DLSH_TRY(dlsh_tensor_item(v.as.tensor, &x));
    if (x.type == DLSH_BOOL && letter != 's') x = dlsh_int(x.as.i);
    if (letter == 's') {
        DLSH_SCOPED_BUF text = {0};
        dl_status st = dlsh_text(&text, v);
        snprintf(full, sizeof full, "%ss", spec);
        if (!st) dlsh_buf_printf(b, full, dlsh_buf_text(&text));
        return st;
    }
    if (!dlsh_is_number(x))
        return dlsh_fail(DL_ERR_TYPE, "%s takes any value", "%%%c wants a number, got %s", letter, dlsh_a(x));
    if (strchr("fFeEgGaA", letter)) {
        snprintf(full, sizeof full, "%s%c", spec, letter);
        dlsh_buf_printf(b, full, dlsh_plain_nan(dlsh_number(x)));
        return DL_OK;
    }
    if (x.type == DLSH_FLOAT) {
        if (x.as.f != (double)(long)x.as.f)
            return dlsh_fail(DL_ERR_TYPE, "use %g or int(x)", "%%%c wants a whole number, got %g", letter, x.as.f);
        x = dlsh_int((long)x.as.f);
    }
    if (letter == 'c') return put_character(b, spec, x.as.i);
    snprintf(full, sizeof full, "%sl%c", spec, letter);
    dlsh_buf_printf(b, full, x.as.i);
    return DL_OK;
}

/* The number of values is wrong: were places of Python's kind meant, {} or {name}? */
static const char *braces_hint(const char *format) {
    for (const char *p = strchr(format, '{'); p; p = strchr(p + 1, '{'))
        if (p[1 + strcspn(p + 1, "{}% \n")] == '}')
            return "values stand at %s, %d or %g, not at {}: format(\"%.3f of %d\", x, n)";
    return NULL;
}

static dl_status format_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_buf b = {0};
    const char *format = dlsh_arg_str(a, "format"), *p = format;
    int used = 0, n = dlsh_arg_count(a, "values");
    dl_status st = DL_OK;
    while (*p && !st) {
        char spec[32], letter;
        const char *next = strchr(p, '%');
        if (!next) next = p + strlen(p);
        dlsh_buf_add(&b, p, (size_t)(next - p));
        p = next;
        if (!*p) break;
        if (p[1] == '%') {
            dlsh_buf_puts(&b, "%");
            p += 2;
            continue;
        }
        size_t len = conversion(p, spec, sizeof spec, &letter);
        if (!len)
            st = dlsh_arg_fail(a, "format", DL_ERR_VALUE, "a percent sign itself is written %%",
                               "'%.8s' is not a conversion", p);
        else if (widest(spec) > WIDEST)
            st = dlsh_arg_fail(a, "format", DL_ERR_VALUE, NULL, "'%.20s': widths and precisions end at %d", spec,
                               WIDEST);
        else if (used >= n)
            st = dlsh_arg_fail(a, "format", DL_ERR_VALUE, braces_hint(format),
                               "the format wants more than the %d values given", n);
        else
            st = format_value(&b, spec, letter, *dlsh_arg_at(a, "values", used++));
        p += len;
    }
    if (!st && used < n)
        st = dlsh_arg_fail(a, "format", DL_ERR_VALUE, braces_hint(format), "the format uses %d of the %d values given",
                           used, n);
    return give(&b, st, result);
}

/* ---------------------------------------------------------------- functions of strings */

static const dlsh_param only_str[] = {STR_PARAM, {0}};
static const dlsh_param with_part[] = {
    STR_PARAM, {"part", .want = "string", .flags = DLSH_BYTES, .doc = "what to look for"}, {0}};

static dl_status case_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_str *s = dlsh_arg(a, "s")->as.str;
    *result = dlsh_string_n(s->s, s->len);
    if (dlsh_failed(*result)) return DL_ERR_MEMORY;
    for (size_t i = 0; i < s->len && !dlsh_interrupted_at((long)i); i++) {
        unsigned char c = (unsigned char)s->s[i];
        result->as.str->s[i] = (char)(dlsh_arg_data(a) ? toupper(c) : tolower(c));
    }
    return DL_OK;
}

static dl_status strip_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_str *s = dlsh_arg(a, "s")->as.str;
    size_t from = 0, to = s->len;
    while (from < to && isspace((unsigned char)s->s[from])) from++;
    while (to > from && isspace((unsigned char)s->s[to - 1])) to--;
    return dlsh_give(dlsh_string_n(s->s + from, to - from), result);
}

static dl_status starts_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_str *s = dlsh_arg(a, "s")->as.str, *p = dlsh_arg(a, "part")->as.str;
    size_t at = dlsh_arg_data(a) ? s->len - p->len : 0;
    *result = dlsh_bool(p->len <= s->len && !memcmp(s->s + at, p->s, p->len));
    return DL_OK;
}

static dl_status find_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_str *s = dlsh_arg(a, "s")->as.str, *p = dlsh_arg(a, "part")->as.str;
    const char *at = memmem(s->s, s->len, p->s, p->len);
    *result = at ? dlsh_int(at - s->s) : dlsh_none();
    return DL_OK;
}

static dl_status split_words(const dlsh_str *s, dlsh_value list) {
    for (size_t i = 0; i < s->len;) {
        size_t from = i;
        while (i < s->len && !isspace((unsigned char)s->s[i])) i++;
        if (dlsh_interrupted_at(list.as.list->n)) return DL_OK;
        if (i > from) DLSH_TRY(dlsh_append(list, dlsh_string_n(s->s + from, i - from)));
        while (i < s->len && isspace((unsigned char)s->s[i])) i++;
    }
    return DL_OK;
}

static dl_status split_by(const dlsh_str *s, const dlsh_str *by, dlsh_value list) {
    const char *p = s->s, *end = s->s + s->len, *at;
    while ((at = memmem(p, (size_t)(end - p), by->s, by->len))) {
        if (dlsh_interrupted_at(list.as.list->n)) return DL_OK;
        DLSH_TRY(dlsh_append(list, dlsh_string_n(p, (size_t)(at - p))));
        p = at + by->len;
    }
    return dlsh_append(list, dlsh_string_n(p, (size_t)(end - p)));
}

dl_status dlsh_split_text(const dlsh_str *s, const dlsh_str *by, dlsh_value *out) {
    if (by && !by->len) return dlsh_fail(DL_ERR_VALUE, NULL, "a string cannot be cut at an empty string");
    dlsh_value list = dlsh_new_list(8);
    if (dlsh_failed(list)) return DL_ERR_MEMORY;
    return dlsh_give_filled(by ? split_by(s, by, list) : split_words(s, list), list, out);
}

static dl_status words_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *by = dlsh_arg(a, "by");
    return dlsh_split_text(dlsh_arg(a, "s")->as.str, by ? by->as.str : NULL, result);
}

/* The code point of a character. */
static dl_status ord_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_str *s = dlsh_arg(a, "s")->as.str;
    size_t n = s->len ? dlsh_utf8(s->s, s->len) : 0;
    if (!s->len || (s->len != 1 && n != s->len))
        return dlsh_arg_fail(a, "s", DL_ERR_VALUE, NULL, "ord takes one character, got a string of %zu bytes", s->len);
    *result = dlsh_int(n > 1 ? (long)dlsh_utf8_code(s->s, n) : (unsigned char)s->s[0]);
    return DL_OK;
}

static int ord_quick(const dlsh_value *v, int n, dlsh_value *result) {
    if (n != 1 || v[0].type != DLSH_STR || v[0].as.str->len != 1) return 0;
    *result = dlsh_int((unsigned char)v[0].as.str->s[0]);
    return 1;
}

static dl_status chr_run(const dlsh_args *a, dlsh_value *result) {
    long c = dlsh_arg_int(a, "code");
    char s[4];
    int n = to_utf8(c, s);
    return n ? dlsh_give(dlsh_string_n(s, (size_t)n), result) : no_code(c);
}

static dl_status join_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_buf b = {0};
    dl_status st = DL_OK;
    const dlsh_str *between = dlsh_arg(a, "s")->as.str;
    const dlsh_list *l = dlsh_arg(a, "items")->as.list;
    for (int i = 0; i < l->n && !st && !dlsh_interrupted_at(i); i++) {
        if (i) dlsh_buf_add(&b, between->s, between->len);
        st = dlsh_text(&b, l->items[i]);
    }
    return give(&b, st, result);
}

static dl_status replace_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_str *s = dlsh_arg(a, "s")->as.str, *from = dlsh_arg(a, "from")->as.str, *by = dlsh_arg(a, "by")->as.str;
    if (!from->len) return dlsh_arg_fail(a, "from", DL_ERR_VALUE, NULL, "an empty string cannot be replaced");
    dlsh_buf b = {0};
    const char *p = s->s, *end = s->s + s->len, *at;
    for (long i = 0; !dlsh_interrupted_at(i) && (at = memmem(p, (size_t)(end - p), from->s, from->len)); i++) {
        dlsh_buf_add(&b, p, (size_t)(at - p));
        dlsh_buf_add(&b, by->s, by->len);
        p = at + from->len;
    }
    dlsh_buf_add(&b, p, (size_t)(end - p));
    return give(&b, DL_OK, result);
}

const dlsh_command dlsh_string_rows[] = {
    DLSH_PURE_ROW("str", str_run, "str(X)", "A value as text, as print writes it.", .params = any_param,
                  .quick = str_quick),
    DLSH_PURE_ROW("repr", repr_run, "repr(X)", "A value as text, strings in quotes.", .params = any_param),
    DLSH_PURE_ROW("json", json_run, "json(TEXT), json(X)", "The value of JSON text; JSON text of any other value.",
                  .params = any_param, .examples = "json(\"{\\\"lr\\\": 0.1}\").lr"),
    DLSH_PURE_ROW("to_json", json_run, "to_json(X)", "A value, also a string, as JSON text.", .params = any_param,
                  .data = "write"),
    DLSH_PURE_ROW("format", format_run, "format(FORMAT, VALUE...)", "Text with values inserted, by C's conversions.",
                  DLSH_PARAMS({"format", .want = "string", .doc = "text with C's conversions: %d %f %.3g %s %5d %%"},
                              {"values", .flags = DLSH_VARIADIC, .doc = "one a conversion"}),
                  .examples = "format(\"%.3f of %d\", 0.5, 10)"),
    DLSH_PURE_ROW("upper", case_run, "s.upper()", "The text in capital letters.", .params = only_str, .data = "up"),
    DLSH_PURE_ROW("lower", case_run, "s.lower()", "The text in small letters.", .params = only_str),
    DLSH_PURE_ROW("strip", strip_run, "s.strip()", "Without white space at both ends.", .params = only_str),
    DLSH_PURE_ROW("startswith", starts_run, "s.startswith(PART)", "Does it begin with PART?", .params = with_part),
    DLSH_PURE_ROW("endswith", starts_run, "s.endswith(PART)", "Does it end with PART?", .params = with_part,
                  .data = "end"),
    DLSH_PURE_ROW("find", find_run, "s.find(PART)", "Position of the first occurrence, or none.", .params = with_part),
    DLSH_PURE_ROW("words", words_run, "s.words([BY])", "The pieces between white space, or between BY, as a list.",
                  DLSH_PARAMS(STR_PARAM, {"by", .want = "string", .flags = DLSH_OPTIONAL | DLSH_BYTES,
                                          .doc = "the separator (white space)"}),
                  .examples = "\"a,b\".words(\",\")"),
    DLSH_PURE_ROW("join", join_run, "s.join(ITEMS)", "Items as text with the string between them.",
                  DLSH_PARAMS({"s", .want = "string", .flags = DLSH_BYTES, .doc = "written between"},
                              {"items", .want = "list", .doc = "strings"}),
                  .examples = "\", \".join([1, 2])"),
    DLSH_PURE_ROW("ord", ord_run, "ord(S)", "The code point of a character.", .params = only_str, .quick = ord_quick),
    DLSH_PURE_ROW("chr", chr_run, "chr(CODE)", "The character of a code point, in UTF-8.",
                  DLSH_PARAMS({"code", .want = "int", .doc = "its number in Unicode"}),
                  .examples = "chr(ord(\"a\") + 1)"),
    DLSH_PURE_ROW("replace", replace_run, "s.replace(FROM, BY)", "Every occurrence replaced.",
                  DLSH_PARAMS(STR_PARAM, {"from", .want = "string", .flags = DLSH_BYTES, .doc = "what to replace"},
                              {"by", .want = "string", .flags = DLSH_BYTES, .doc = "what to put there"})),
    {0}};
