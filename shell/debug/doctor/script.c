/* The texts that the session ran, as far as they are kept: the running one, and the last ones before. */
#include <string.h>

#include "debug/debug.h"
#include "debug/doctor/doctor.h"
#include "debug/doctor/text/joined.h"
#include "debug/doctor/texts.h"
#include "debug/lint.h"

enum { TEXTS = 256 };
static dlsh_unit *kept[TEXTS];
static int nkept;

void dlsh_texts_keep(DLSH_UNUSED dlsh_session *s, dlsh_unit *u) {
    if (nkept == TEXTS) {
        dlsh_unit_drop(kept[0]);
        memmove(kept, kept + 1, --nkept * sizeof *kept);
    }
    kept[nkept++] = dlsh_unit_ref(u);
}

static void parsed(dlsh_session *s, dlsh_unit *u) {
    dlsh_texts_keep(s, u);
    dlsh_lint(s, u);
}

void dlsh_debug_services(dlsh_services *to) { to->parsed = parsed; }

const dlsh_unit *dlsh_kept_text(int i) { return i >= 0 && i < nkept ? kept[nkept - 1 - i] : NULL; }

const dlsh_unit *dlsh_text_at(int i) {
    const dlsh_unit *joined = dlsh_joined_text();
    if (!joined) return dlsh_kept_text(i);
    for (int k = nkept - 1; i > 0 && k >= 0; k--)
        if (!dlsh_is_piece(kept[k]) && !--i) return kept[k];
    return i ? NULL : joined;
}

const dlsh_unit *dlsh_text_of(const char *file) {
    const dlsh_unit *u;
    for (int i = 0; (u = dlsh_text_at(i)); i++)
        if (!strcmp(u->name, file)) return u;
    return NULL;
}

const dlsh_node *dlsh_text_root(const char *file) {
    const dlsh_unit *u = dlsh_text_of(file);
    return u ? u->root : NULL;
}

const char *dlsh_script_line(DLSH_UNUSED const dlsh_examination *e, const char *file, int line, int *n) {
    const dlsh_unit *u = dlsh_text_of(file);
    const char *p = u ? u->text : NULL, *end = u ? u->text + u->len : NULL;
    for (int k = 1; p && k < line; k++) {
        p = memchr(p, '\n', (size_t)(end - p));
        if (p) p++;
    }
    if (!p || p > end) return NULL;
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    *n = (int)((stop ? stop : end) - p);
    return p;
}

/* Comments do not count. */
int dlsh_script_has(const dlsh_examination *e, const char *file, int line, const char *text) {
    int n;
    const char *p = dlsh_script_line(e, file, line, &n);
    size_t len = strlen(text);
    for (int i = 0; p && i + (int)len <= n && p[i] != '#'; i++)
        if (!strncmp(p + i, text, len)) return 1;
    return 0;
}

int dlsh_script_line_with(const dlsh_examination *e, const char *file, const char *word) {
    int n;
    for (int line = 1; dlsh_script_line(e, file, line, &n); line++)
        if (dlsh_script_has(e, file, line, word)) return line;
    return 0;
}
