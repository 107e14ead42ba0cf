/* The thread-local error record. */
#include "core/error.h"

#include <stdio.h>
#include <string.h>

static _Thread_local dl_error last;
static _Thread_local dl_source source = {"", 0};
static _Thread_local char line_buf[1024];

static const char *const status_names[] = {
    "ok",
#define ERR(id, name, doc) name,
#include "core/errors.def"
#undef ERR
};

enum { NSTATUS = sizeof status_names / sizeof *status_names };

const char *dl_status_name(dl_status code) { return (unsigned)code < NSTATUS ? status_names[code] : "unknown error"; }

void dl_source_set(const char *file, int line) { source = (dl_source){file ? file : "", line}; }

dl_source dl_source_get(void) { return source; }
dl_source *dl_source_here(void) { return &source; }

static dl_status record(dl_status code, const char *hint, const char *fmt, va_list ap) {
    /* in a record of its own, since an argument may point into `last` */
    dl_error e = {.code = code, .line = source.line};
    vsnprintf(e.message, sizeof e.message, fmt, ap);
    snprintf(e.hint, sizeof e.hint, "%s", hint ? hint : "");
    snprintf(e.file, sizeof e.file, "%s", source.file);
    last = e;
    return code;
}

dl_status dl_fail(dl_status code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    record(code, NULL, fmt, ap);
    va_end(ap);
    return code;
}

dl_status dl_fail_hint(dl_status code, const char *hint, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    record(code, hint, fmt, ap);
    va_end(ap);
    return code;
}

dl_status dl_fail_unknown(const char *word, const char *const *names, int n, const char *otherwise, const char *fmt,
                          ...) {
    const char *near = dl_nearest(word, names, n);
    char hint[sizeof last.hint] = "";
    if (near)
        snprintf(hint, sizeof hint, "did you mean '%s'?", near);
    else if (otherwise)
        snprintf(hint, sizeof hint, "%s", otherwise);
    else
        for (int i = 0, used = 0; i < n && used < (int)sizeof hint; i++)
            used += snprintf(hint + used, sizeof hint - (size_t)used, "%s%s", i ? ", " : "it is one of ", names[i]);
    va_list ap;
    va_start(ap, fmt);
    record(DL_ERR_NAME, hint, fmt, ap);
    va_end(ap);
    return DL_ERR_NAME;
}

void dl_error_context(const char *op, const char *operands) {
    if (!last.code) return;
    if (op && !last.op[0])
        snprintf(last.op, sizeof last.op, "%s", op);
    else if (op && strcmp(last.op, op) != 0)
        snprintf(last.called, sizeof last.called, "%s", op);
    if (operands && !last.operands[0]) snprintf(last.operands, sizeof last.operands, "%s", operands);
}

void dl_error_hint(const char *fmt, ...) {
    if (!last.code || last.hint[0]) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(last.hint, sizeof last.hint, fmt, ap);
    va_end(ap);
}

dl_status dl_failed(void) {
    return last.code ? last.code : dl_fail(DL_ERR_INTERNAL, "a call failed without saying why");
}

void dl_first_error_keep(dl_first_error *f) {
    dl_failed();
    if (!__atomic_exchange_n(&f->taken, 1, __ATOMIC_RELAXED)) dl_error_take(&f->err);
}

dl_status dl_first_error_raise(const dl_first_error *f) {
    if (!f->taken) return DL_OK;
    last = f->err;
    if (!last.file[0]) { /* a worker thread knows no statement */
        snprintf(last.file, sizeof last.file, "%s", source.file);
        last.line = source.line;
    }
    return last.code;
}

dl_status dl_fail_null(const char *what) {
    if (last.code) return last.code;
    return dl_fail(DL_ERR_VALUE, "%s is missing (NULL)", what);
}

const char *dl_error_line(const dl_error *e) {
    if (!e) return "";
    snprintf(line_buf, sizeof line_buf, "%s%s%s%s%s%s%s%s", e->called, e->called[0] ? ", in " : "", e->op,
             e->op[0] ? ": " : "", e->message, e->operands[0] ? " (" : "", e->operands, e->operands[0] ? ")" : "");
    return line_buf;
}

const char *dl_errmsg(void) { return last.code ? dl_error_line(&last) : ""; }

const dl_error *dl_error_last(void) { return last.code ? &last : NULL; }

dl_status dl_error_take(dl_error *out) {
    dl_status code = last.code;
    *out = last;
    last = (dl_error){0};
    return code;
}

dl_status dl_error_put(const dl_error *err) {
    if (!err) return dl_fail_null("the record");
    last = *err;
    return last.code;
}

dl_status dl_error_of_file(const char *path) {
    char text[2 * sizeof last.message + 4];
    if (!last.code || last.code == DL_ERR_INTERRUPT || strstr(last.message, path)) return dl_failed();
    snprintf(text, sizeof text, "%.*s: %s", (int)sizeof last.message / 2, path, last.message);
    text[sizeof last.message - 1] = 0;
    strcpy(last.message, text);
    return last.code;
}

void dl_error_clear(void) {
    if (last.code) last = (dl_error){0};
}

/* Edit distance with adjacent transpositions (optimal string alignment). */
int dl_word_distance(const char *a, const char *b) {
    enum { MAX = 63 };
    int n = (int)strlen(a), m = (int)strlen(b), row[3][MAX + 1];
    if (n > MAX || m > MAX) return MAX;
    for (int j = 0; j <= m; j++) row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *cur = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
        cur[0] = i;
        for (int j = 1; j <= m; j++) {
            int sub = up[j - 1] + (a[i - 1] != b[j - 1]), best = up[j] + 1;
            if (cur[j - 1] + 1 < best) best = cur[j - 1] + 1;
            if (sub < best) best = sub;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            cur[j] = best;
        }
    }
    return row[n % 3][m];
}

const char *dl_nearest(const char *word, const char *const *names, int n) {
    int limit = (int)strlen(word) / 3, best = limit < 1 ? 2 : limit + 1;
    const char *found = NULL;
    for (int i = 0; i < n; i++) {
        int d = dl_word_distance(word, names[i]);
        if (d < best) best = d, found = names[i];
    }
    return found;
}
