/* What all sinks share: printf into one, tables growing by rows, asking for its looks. */
#include "view/sink.h"

#include <stdlib.h>
#include <string.h>

#include "lang/session.h"

dl_status dlsh_table_row(dlsh_table *t, const dlsh_value *cells) {
    if (t->nrows == t->cap) {
        int cap = t->cap ? 2 * t->cap : 16;
        dlsh_value *grown = realloc(t->cells, sizeof *grown * (size_t)cap * (size_t)t->ncols);
        if (!grown) {
            for (int i = 0; i < t->ncols; i++) dlsh_drop(cells[i]);
            return dlsh_fail(DL_ERR_MEMORY, NULL, "out of memory for a table of %d rows", t->nrows + 1);
        }
        t->cells = grown;
        t->cap = cap;
    }
    memcpy(t->cells + (size_t)t->nrows * (size_t)t->ncols, cells, sizeof *cells * (size_t)t->ncols);
    t->nrows++;
    return DL_OK;
}

void dlsh_table_clear(dlsh_table *t) {
    for (long i = 0; i < (long)t->nrows * t->ncols; i++) dlsh_drop(t->cells[i]);
    free(t->cells);
    t->cells = NULL;
    t->nrows = t->cap = 0;
}

void dlsh_put(dlsh_sink *s, const char *fmt, ...) {
    dlsh_buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    dlsh_buf_vprintf(&b, fmt, ap);
    va_end(ap);
    s->ops->text(s, dlsh_buf_text(&b), b.n);
    dlsh_buf_free(&b);
}

dlsh_look dlsh_sink_look(dlsh_sink *s) {
    dlsh_look look = {.mode = DLSH_MODE_TABLE, .unicode = 1};
    if (s->ops->look) s->ops->look(s, &look);
    return look;
}
