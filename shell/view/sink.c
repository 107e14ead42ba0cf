/* What all sinks share: printf into one, tables growing by rows, bundles, asking for its looks. */
#include "view/sink.h"

#include <stdlib.h>
#include <string.h>

#include "lang/session.h"

dl_status dlsh_table_row(dlsh_table *t, const dlsh_value *cells) {
    if (t->nrows == t->cap) {
        int cap = t->cap ? 2 * t->cap : 16;
        dlsh_value *grown = dl_memory_resize(t->cells, t->cap, cap, (long)sizeof *grown * t->ncols);
        if (!grown) {
            for (int i = 0; i < t->ncols; i++) dlsh_drop(cells[i]);
            return DL_ERR_MEMORY;
        }
        t->cells = grown;
        t->cap = cap;
    }
    memcpy(t->cells + (size_t)t->nrows * (size_t)t->ncols, cells, sizeof *cells * (size_t)t->ncols);
    t->nrows++;
    return DL_OK;
}

dl_status dlsh_table_entries(dlsh_table *t, const dlsh_entry *rows, int n) {
    dl_status st = DL_OK;
    for (int i = 0; i < n; i++) {
        if (!st && rows[i].key)
            st = DLSH_TABLE_ROW(t, dlsh_string(rows[i].key), rows[i].value);
        else
            dlsh_drop(rows[i].value);
    }
    return st;
}

void dlsh_table_clear(dlsh_table *t) {
    for (long i = 0; i < (long)t->nrows * t->ncols; i++) dlsh_drop(t->cells[i]);
    free(t->cells);
    t->cells = NULL;
    t->nrows = t->cap = 0;
}

void dlsh_put(dlsh_sink *s, const char *fmt, ...) {
    DLSH_SCOPED_BUF b = {0};
    DLSH_FORMATTED(fmt, dlsh_buf_vprintf_visible(&b, fmt, ap));
    s->ops->text(s, dlsh_buf_text(&b), b.n);
}

dl_status dlsh_table_show(dlsh_sink *s, dlsh_table *t, dl_status st, const char *empty) {
    if (!st && empty && !t->nrows && dlsh_sink_look(s).mode == DLSH_MODE_TABLE)
        dlsh_put(s, "%s", empty);
    else if (!st)
        st = s->ops->table(s, t);
    dlsh_table_clear(t);
    return st;
}

/* ---------------------------------------------------------------- operations a sink may lack */

dl_status dlsh_display(dlsh_sink *s, const dlsh_bundle *b) {
    if (b->text.failed) return dlsh_no_memory("what is to be shown");
    for (int i = 0; i < DLSH_FORMS; i++)
        if (b->form[i].failed) return dlsh_no_memory("a picture or document");
    if (s->ops->display) return s->ops->display(s, b);
    if (!b->update && b->text.n) s->ops->text(s, b->text.s, b->text.n);
    return DL_OK;
}

long dlsh_display_id(void) {
    static long last;
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

void dlsh_complain(dlsh_sink *s, const char *bytes, size_t n) {
    if (s->ops->complain)
        s->ops->complain(s, bytes, n);
    else
        s->ops->text(s, bytes, n);
}

void dlsh_clear(dlsh_sink *s, int wait) {
    if (s->ops->clear) s->ops->clear(s, wait);
}

void dlsh_page(dlsh_sink *s, const char *text, size_t n) {
    if (s->ops->page)
        s->ops->page(s, text, n);
    else
        s->ops->text(s, text, n);
}

dl_status dlsh_input(dlsh_sink *s, const char *prompt, int secret, dlsh_buf *out) {
    if (s->ops->input) return s->ops->input(s, prompt, secret, out);
    return dlsh_fail(DL_ERR_UNSUPPORTED, "args in a script takes values from the command line",
                     "nobody can be asked here");
}

dlsh_look dlsh_sink_look(dlsh_sink *s) {
    dlsh_look look = {.mode = DLSH_MODE_TABLE, .unicode = 1};
    if (s->ops->look) s->ops->look(s, &look);
    return look;
}

int dlsh_sink_pictures(dlsh_sink *s) { return dlsh_sink_look(s).rich || (s->ops->pictures && s->ops->pictures(s)); }
