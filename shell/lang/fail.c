/* Failures raised by the shell, in the library's own record; the nearest name to a wrong one. */
#include "lang/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dl_status dlsh_vfail(dl_status code, const char *hint, const char *fmt, va_list ap) {
    dl_error e = {.code = code};
    vsnprintf(e.message, sizeof e.message, fmt, ap);
    snprintf(e.hint, sizeof e.hint, "%s", hint ? hint : "");
    return dl_error_put(&e);
}

dl_status dlsh_fail(dl_status code, const char *hint, const char *fmt, ...) {
    DLSH_FORMATTED(fmt, dlsh_vfail(code, hint, fmt, ap));
    return code;
}

dl_status dlsh_no_memory(const char *what) { return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for %s", what); }

void *dlsh_grow(void *items, int n, int *cap, size_t size) {
    if (n < *cap) return items;
    int more = *cap ? 2 * *cap : 16;
    void *grown = realloc(items, (size_t)more * size);
    if (!grown) return dlsh_no_memory("a longer list"), NULL;
    *cap = more;
    return grown;
}

void dlsh_add_hint(const char *fmt, ...) {
    dl_error e;
    if (!dl_error_take(&e)) return;
    DLSH_FORMATTED(fmt, if (!e.hint[0]) vsnprintf(e.hint, sizeof e.hint, fmt, ap));
    dl_error_put(&e);
}

int dlsh_has_word(const char *words, const char *word, size_t len) {
    while (words) {
        if (!strncmp(words, word, len) && (words[len] == '|' || !words[len])) return 1;
        words = strchr(words, '|');
        if (words) words++;
    }
    return 0;
}

const char *dlsh_nearest(const char *word, const char *const *names, int n) {
    const char *same = dlsh_synonym(word, names, n);
    return same || strlen(word) < 3 ? same : dl_nearest(word, names, n); /* of short names any other is near */
}
