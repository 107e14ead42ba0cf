/* Values as text: the growing buffer, numbers, strings, lists and records; JSON. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/command.h"
#include "lang/parse/lexer.h"
#include "lang/session.h"
#include "view/tensor.h"

/* ---------------------------------------------------------------- the buffer */

enum { LARGE = 1 << 16 }; /* bytes above which dl_memory_alloc checks that memory stays free */

/* Static buffers for short texts when malloc fails, so that an error can be reported even then. */
enum { SPARES = 8, SPARE = 1 << 13 };
static char spare[SPARES][SPARE];
static int spare_used[SPARES]; /* atomic */

static int spare_of(const char *s) {
    uintptr_t at = (uintptr_t)s - (uintptr_t)spare;
    return at < sizeof spare ? (int)(at / SPARE) : -1;
}

static void give_back(char *s) {
    int i = spare_of(s);
    if (i < 0)
        free(s);
    else
        __atomic_store_n(&spare_used[i], 0, __ATOMIC_RELEASE);
}

/* A spare with the text of b. NULL: it is too long, or all are in use. */
static char *take_spare(const dlsh_buf *b, size_t *cap) {
    for (int i = 0; *cap <= SPARE && i < SPARES; i++)
        if (!__atomic_exchange_n(&spare_used[i], 1, __ATOMIC_ACQUIRE)) {
            if (b->n) memcpy(spare[i], b->s, b->n + 1);
            free(b->s);
            *cap = SPARE;
            return spare[i];
        }
    return NULL;
}

/* b's memory enlarged to *cap, or more. */
static char *enlarge(const dlsh_buf *b, size_t *cap) {
    int in_spare = spare_of(b->s) >= 0;
    char *s = *cap >= LARGE ? dl_memory_resize(in_spare ? NULL : b->s, in_spare ? 0 : (long)b->cap, (long)*cap, 1)
                            : realloc(in_spare ? NULL : b->s, *cap);
    if (!s) return in_spare ? NULL : take_spare(b, cap);
    if (in_spare) {
        memcpy(s, b->s, b->n + 1);
        give_back(b->s);
    }
    return s;
}

static int reserve(dlsh_buf *b, size_t more) {
    if (b->failed) return 0;
    if (b->n + more + 1 <= b->cap) return 1;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < b->n + more + 1) cap *= 2;
    char *s = enlarge(b, &cap);
    if (!s) {
        b->failed = 1;
        if (cap < LARGE) dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for %zu bytes of text", cap);
        return 0;
    }
    b->s = s;
    b->cap = cap;
    return 1;
}

void dlsh_buf_add(dlsh_buf *b, const char *s, size_t n) {
    if (!n || !reserve(b, n)) return;
    memcpy(b->s + b->n, s, n);
    b->n += n;
    b->s[b->n] = 0;
}

void dlsh_buf_puts(dlsh_buf *b, const char *s) { dlsh_buf_add(b, s, strlen(s)); }

void dlsh_buf_vprintf(dlsh_buf *b, const char *fmt, va_list ap) {
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n > 0 && reserve(b, (size_t)n)) {
        vsnprintf(b->s + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
}

void dlsh_buf_printf(dlsh_buf *b, const char *fmt, ...) { DLSH_FORMATTED(fmt, dlsh_buf_vprintf(b, fmt, ap)); }

const char *dlsh_buf_text(dlsh_buf *b) { return b->n ? b->s : ""; }

dl_status dlsh_buf_write(dlsh_buf *b, const char *path) {
    return b->failed ? DL_ERR_MEMORY : dl_file_write(path, dlsh_buf_text(b), b->n);
}

void dlsh_buf_free(dlsh_buf *b) {
    give_back(b->s);
    *b = (dlsh_buf){0};
}

dlsh_value dlsh_buf_string(dlsh_buf *b) {
    dlsh_value v = b->failed ? dlsh_void() : dlsh_string_n(b->n ? b->s : "", b->n);
    dlsh_buf_free(b);
    return v;
}

/* ---------------------------------------------------------------- scalars */

static void put_float(dlsh_buf *b, double f, int json) {
    static const char *const not_finite[][3] = {{"nan", "inf", "-inf"}, {"\"NaN\"", "\"Infinity\"", "\"-Infinity\""}};
    char s[40];
    if (!isfinite(f)) {
        dlsh_buf_puts(b, not_finite[json][isnan(f) ? 0 : f > 0 ? 1 : 2]);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, f);
        if (strtod(s, NULL) == f) break;
    }
    /* for people plain notation up to 1e16 */
    if (!json && strchr(s, 'e') && fabs(f) >= 1 && fabs(f) < 1e16) snprintf(s, sizeof s, "%.1f", f);
    dlsh_buf_puts(b, s);
    if (!strpbrk(s, ".e")) dlsh_buf_puts(b, ".0");
}

void dlsh_buf_float(dlsh_buf *b, double f) { put_float(b, f, 0); }
void dlsh_json_float(dlsh_buf *b, double f) { put_float(b, f, 1); }

void dlsh_buf_quote(dlsh_buf *b, const char *s, size_t n) {
    static const char from[] = "\n\t\r\a\b\f\v\\\"", to[] = "ntrabfv\\\"";
    dlsh_buf_puts(b, "\"");
    for (size_t i = 0, len; i < n && !dlsh_interrupted_at((long)i + 1); i += len) {
        const char *e = s[i] ? strchr(from, s[i]) : NULL;
        if (e && (len = 1))
            dlsh_buf_printf(b, "\\%c", to[e - from]);
        else
            dlsh_control_char(s + i, n - i, &len), dlsh_buf_visible(b, s + i, len);
    }
    dlsh_buf_puts(b, "\"");
}

void dlsh_buf_key(dlsh_buf *b, const char *key) {
    if (dlsh_is_name(key))
        dlsh_buf_puts(b, key);
    else
        dlsh_buf_quote(b, key, strlen(key));
}

/* ---------------------------------------------------------------- values */

/* Lists that share parts may be far larger as text than in memory: MAX_TEXT. */
enum { MAX_DEPTH = 50, MAX_ITEMS = 1000, MAX_TEXT = 1 << 28, LONG_TEXT = 1 << 16 };

/* TEXT is REPR with strings bare; what is inside lists and records is always REPR. */
typedef enum form { TEXT, REPR, JSON } form;

static dl_status put(dlsh_buf *b, dlsh_value v, form f, int depth);

static void json_string(dlsh_buf *b, const char *s, size_t n) {
    static const char from[] = "\n\t\r\b\f\\\"", to[] = "ntrbf\\\"";
    dlsh_buf_puts(b, "\"");
    for (size_t i = 0; i < n;) {
        if (b->n > LONG_TEXT && dlsh_interrupted()) return;
        unsigned char c = (unsigned char)s[i];
        const char *e = c ? strchr(from, c) : NULL;
        size_t len;
        uint32_t steers = dlsh_control_char(s + i, n - i, &len);
        if (e)
            dlsh_buf_printf(b, "\\%c", to[e - from]);
        else if (steers == DLSH_NOT_UTF8)
            dlsh_buf_puts(b, "\\ufffd");
        else if (steers > 0x10000) /* two halves, as UTF-16 has them */
            dlsh_buf_printf(b, "\\u%04x\\u%04x", 0xd800 + ((steers - 1 - 0x10000) >> 10),
                            0xdc00 + ((steers - 1) & 0x3ff));
        else if (steers)
            dlsh_buf_printf(b, "\\u%04x", steers - 1);
        else
            dlsh_buf_add(b, s + i, len);
        i += len;
    }
    dlsh_buf_puts(b, "\"");
}

static void put_string(dlsh_buf *b, const char *s, size_t n, form f) {
    if (f == JSON)
        json_string(b, s, n);
    else if (f == REPR)
        dlsh_buf_quote(b, s, n);
    else
        dlsh_buf_add(b, s, n);
}

/* The items of a list, or the fields of a record. */
static dl_status put_items(dlsh_buf *b, dlsh_value v, form f, int depth) {
    int record = v.type == DLSH_RECORD, n = record ? v.as.record->n : v.as.list->n;
    const dlsh_value *items = record ? v.as.record->values : v.as.list->items;
    int json = f == JSON;
    dlsh_buf_puts(b, record ? "{" : "[");
    for (int i = 0; i < n; i++) {
        if (i) dlsh_buf_puts(b, json ? "," : ", ");
        if (!record && !json && n > MAX_ITEMS && i == MAX_ITEMS / 2) {
            dlsh_buf_printf(b, "... %d more ..., ", n - MAX_ITEMS);
            i = n - MAX_ITEMS / 2;
        }
        const char *key = record ? v.as.record->keys[i] : NULL;
        if (key && json) json_string(b, key, strlen(key));
        if (key && !json) dlsh_buf_key(b, key);
        if (key) dlsh_buf_puts(b, json ? ":" : ": ");
        DLSH_TRY(put(b, items[i], json ? JSON : REPR, depth + 1));
    }
    dlsh_buf_puts(b, record ? "}" : "]");
    return DL_OK;
}

static dl_status put_tensor(dlsh_buf *b, const dl_tensor *t, form f, int depth) {
    if (f == JSON) return dlsh_tensor_json(b, t);
    return depth || !dl_ndim(t) ? dlsh_tensor_line(b, t) : dlsh_tensor_layout(b, t, 0, 0);
}

/* Ranges, functions, handles: their text; in JSON as a string. */
static dl_status put_object(dlsh_buf *b, dlsh_value v, form f) {
    DLSH_SCOPED_BUF line = {0};
    const char *name = dlsh_function_name(v);
    if (v.type == DLSH_RANGE)
        dlsh_buf_printf(&line, v.as.range->step == 1 ? "range(%ld, %ld)" : "range(%ld, %ld, %ld)", v.as.range->from,
                        v.as.range->to, v.as.range->step);
    else if (v.type != DLSH_HANDLE)
        dlsh_buf_printf(&line, name ? "<function %s>" : "<function>", name);
    else if (v.as.handle->cls->text)
        DLSH_TRY(v.as.handle->cls->text(v.as.handle->self, &line));
    else
        dlsh_buf_printf(&line, "<%s>", v.as.handle->cls->name);
    if (f == JSON) json_string(b, dlsh_buf_text(&line), line.n);
    if (f != JSON) dlsh_buf_add(b, dlsh_buf_text(&line), line.n);
    return line.failed ? dl_failed() : DL_OK;
}

static dl_status put(dlsh_buf *b, dlsh_value v, form f, int depth) {
    int json = f == JSON;
    if (b->n > LONG_TEXT) DLSH_TRY(dlsh_check_interrupt());
    if (depth > MAX_DEPTH || (depth && b->n > MAX_TEXT)) {
        if (json) return dlsh_fail(DL_ERR_VALUE, NULL, "this value is nested too deeply or too large for JSON");
        dlsh_buf_puts(b, "...");
        return DL_OK;
    }
    switch (v.type) {
    case DLSH_NONE:
    case DLSH_VOID: dlsh_buf_puts(b, json ? "null" : "none"); break;
    case DLSH_BOOL: dlsh_buf_puts(b, v.as.i ? "true" : "false"); break;
    case DLSH_INT: dlsh_buf_printf(b, "%ld", v.as.i); break;
    case DLSH_FLOAT: put_float(b, v.as.f, json); break;
    case DLSH_STR: put_string(b, v.as.str->s, v.as.str->len, f); break;
    case DLSH_LIST:
    case DLSH_RECORD: return put_items(b, v, f, depth);
    case DLSH_TENSOR: return put_tensor(b, v.as.tensor, f, depth);
    default: return put_object(b, v, f);
    }
    return b->failed ? DL_ERR_MEMORY : DL_OK;
}

dl_status dlsh_text(dlsh_buf *b, dlsh_value v) { return put(b, v, TEXT, 0); }
dl_status dlsh_repr(dlsh_buf *b, dlsh_value v) { return put(b, v, REPR, 0); }
dl_status dlsh_json(dlsh_buf *b, dlsh_value v) { return put(b, v, JSON, 0); }
