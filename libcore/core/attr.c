/* Attributes of ops: defaults, and values from text. */
#include "core/form.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int dl_attr_index(const dl_op *op, const char *name) {
    for (int i = 0; i < op->nattr; i++)
        if (!strcmp(op->attrs[i].name, name)) return i;
    return -1;
}

static bool whole(const char *text, long *out) {
    char *end;
    errno = 0;
    *out = strtol(text, &end, 10);
    return end != text && !*end && !errno;
}

static bool number(const char *text, dl_aval *out) {
    char *end;
    if (whole(text, &out->u.i)) return out->is_int = true;
    out->u.f = strtod(text, &end);
    return end != text && !*end;
}

/* "[1, -2, 3]" or a single number. */
static bool list(const char *text, dl_aval *out) {
    const char *p = text;
    bool open = *p == '[';
    p += open;
    for (out->n = 0; *p && *p != ']';) {
        char *end;
        if (out->n == DL_MAX_DIM) return false;
        out->u.v[out->n++] = strtol(p, &end, 10);
        if (end == p) return false;
        p = end + strspn(end, " ");
        if (*p == ',')
            p += 1 + strspn(p + 1, " ");
        else if (*p && *p != ']')
            return false;
    }
    return out->is_int = open ? *p == ']' && !p[1] : out->n == 1;
}

static const struct {
    const char *word;
    long number;
} padding_words[] = {{"valid", 0}, {"same", DL_PADDING_SAME}};
enum { PADDING_WORDS = sizeof padding_words / sizeof *padding_words };

bool dl_padding_word(const char *text, long *out) {
    for (int i = 0; i < PADDING_WORDS; i++)
        if (!strcmp(text, padding_words[i].word)) return *out = padding_words[i].number, true;
    return false;
}

/* "valid" or "same", else as a list. */
static bool padding(const char *text, dl_aval *out) {
    if (!dl_padding_word(text, &out->u.v[0])) return list(text, out);
    out->n = 1;
    return out->is_int = true;
}

static bool boolean(const char *text, dl_aval *out) {
    out->u.i = !strcmp(text, "true");
    out->is_int = true;
    return out->u.i || !strcmp(text, "false");
}

static bool parse(dl_attr_kind kind, const char *text, dl_aval *out) {
    dl_dtype t;
    int device;
    switch (kind) {
    case DL_A_INT: return out->is_int = whole(text, &out->u.i);
    case DL_A_NUM: return number(text, out);
    case DL_A_FLOAT:
        if (!number(text, out)) return false;
        if (out->is_int) out->u.f = (double)out->u.i, out->is_int = false;
        return true;
    case DL_A_BOOL: return boolean(text, out);
    case DL_A_INTS: return list(text, out);
    case DL_A_PADS: return padding(text, out);
    case DL_A_DTYPE:
        if (dl_dtype_parse(text, &t) != DL_OK) return false;
        out->u.i = t;
        return true;
    case DL_A_DEVICE:
        if (dl_device_parse(text, &device) != DL_OK) return false;
        out->u.i = device;
        return true;
    case DL_A_STR: return snprintf(out->u.s, sizeof out->u.s, "%s", text) < (int)sizeof out->u.s;
    }
    return false;
}

/* "an integer": for messages. */
static const char *kind_name(dl_attr_kind kind) {
    static const char *const names[] = {
        "an integer",           "a number", "a number",
        "true or false",        "a dtype",  "a device",
        "an integer or a list", "a word",   "\"valid\", \"same\", an integer or a list"};
    return names[kind];
}

dl_status dl_attr_read(const char *op, const dl_attr *row, const char *value, dl_aval *out) {
    *out = (dl_aval){.given = true};
    if (!strcmp(value, "none") && !strcmp(row->dflt, "none")) return out->given = false, DL_OK;
    if (parse(row->kind, value, out)) return DL_OK;
    if (row->kind == DL_A_DTYPE || row->kind == DL_A_DEVICE) return dl_failed();
    return dl_fail(DL_ERR_VALUE, "%s: '%s' is not a value of %s, which is %s", op, value, row->name,
                   kind_name(row->kind));
}

dl_status dl_attr_parse(const dl_op *op, int a, const char *value, dl_aval *out) {
    return dl_attr_read(op->name, &op->attrs[a], value, out);
}

static void list_text(const dl_aval *v, char *out, size_t size) {
    size_t n = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < v->n && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%ld", i ? ", " : "", v->u.v[i]);
    if (n < size) snprintf(out + n, size - n, "]");
}

void dl_attr_text(const dl_op *op, int a, const dl_aval *v, char *out, size_t size) {
    dl_attr_kind kind = op->attrs[a].kind;
    if (!v->given)
        snprintf(out, size, "none");
    else if (kind == DL_A_PADS && v->n == 1 && v->u.v[0] == DL_PADDING_SAME)
        snprintf(out, size, "same");
    else if (dl_attr_is_list(kind))
        list_text(v, out, size);
    else if (kind == DL_A_FLOAT || (kind == DL_A_NUM && !v->is_int))
        snprintf(out, size, "%.9g", v->u.f);
    else if (kind == DL_A_BOOL)
        snprintf(out, size, "%s", v->u.i ? "true" : "false");
    else if (kind == DL_A_DTYPE)
        snprintf(out, size, "%s", dl_dtype_name((dl_dtype)v->u.i));
    else if (kind == DL_A_DEVICE)
        snprintf(out, size, "%s", dl_device_name((int)v->u.i));
    else if (kind == DL_A_STR)
        snprintf(out, size, "%s", v->u.s);
    else
        snprintf(out, size, "%ld", v->u.i);
}

dl_status dl_attr_parse_defaults(const dl_op *op, dl_aval *attr) {
    for (int i = 0; i < op->nattr; i++) {
        attr[i] = (dl_aval){0};
        if (*op->attrs[i].dflt) DL_TRY(dl_attr_parse(op, i, op->attrs[i].dflt, &attr[i]));
    }
    return DL_OK;
}

/* Sums of two or three of them, as shape rules make, do not overflow. */
static dl_status check_sizes(const dl_attr *a, const dl_aval *v) {
    for (int i = 0; i < v->n && i < DL_MAX_DIM; i++)
        if (v->u.v[i] > DL_MAX_COUNT || v->u.v[i] < -DL_MAX_COUNT)
            return dl_fail(DL_ERR_VALUE, "%s: %ld is too large; sizes end at 2^53", a->name, v->u.v[i]);
    return DL_OK;
}

dl_status dl_attr_check(const dl_op *op, const dl_aval *attr) {
    for (int i = 0; i < op->nattr; i++) {
        const dl_attr *a = &op->attrs[i];
        if (!attr[i].given && !*a->dflt) return dl_fail(DL_ERR_VALUE, "%s needs %s: %s", op->name, a->name, a->doc);
        if (attr[i].given && dl_attr_is_list(a->kind)) DL_TRY(check_sizes(a, &attr[i]));
    }
    return DL_OK;
}

void dl_attr_defaults(const dl_op *op, dl_aval *attr) {
    if (op->nattr) memcpy(attr, op->defaults, (size_t)op->nattr * sizeof *attr);
}
