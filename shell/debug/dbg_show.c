/* What the debugger shows: a node with its layer, line and tensors, and the nodes around it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "debug/dbg.h"
#include "lang/eval/interp.h"
#include "view/elements.h"
#include "view/sink.h"

/* One line of figures. */
static dlsh_value line_of(dl_tensor *t) {
    dlsh_stats s;
    char kind[160];
    if (!t) return dlsh_string("not kept: set record full");
    size_t n = (size_t)snprintf(kind, sizeof kind, "%s", dl_dtype_name(dl_dtype_of(t)));
    for (int d = 0; d < dl_ndim(t) && n < sizeof kind - 1; d++)
        n += (size_t)snprintf(kind + n, sizeof kind - n, "%s%ld", d ? "," : "[", dl_shape(t)[d]);
    if (dl_ndim(t) && n < sizeof kind - 1) snprintf(kind + n, sizeof kind - n, "]");
    if (dlsh_stats_of(t, &s)) {
        dl_error_clear();
        return dlsh_string(kind);
    }
    char bad[80] = "";
    if (s.nans || s.infs) snprintf(bad, sizeof bad, ", %ld nan, %ld infinite", s.nans, s.infs);
    if (!s.n) return dlsh_stringf("%s  empty", kind);
    if (s.n == 1 && !*bad) return dlsh_stringf("%s = %.6g", kind, s.min);
    if (fabs(s.mean) < 1e-6 * fmax(fabs(s.min), fabs(s.max))) s.mean = 0; /* what rounding left */
    return dlsh_stringf("%s  %.4g to %.4g, mean %.4g, std %.4g, %ld zero%s", kind, dlsh_plain_nan(s.min),
                        dlsh_plain_nan(s.max), dlsh_plain_nan(s.mean), dlsh_plain_nan(s.std), s.zeros, bad);
}

static dl_status put(dlsh_table *t, const char *key, dlsh_value v) { return DLSH_TABLE_ROW(t, dlsh_string(key), v); }

dl_status dlsh_dbg_put_tensor(dlsh_table *t, const char *key, dl_tensor *x) { return put(t, key, line_of(x)); }

static dl_status put_operands(dlsh_session *s, dlsh_table *t, const dl_recorded *c, int backward) {
    const dlsh_nodewalk *w = &dlsh_dbg.walk;
    for (int k = 0; k < c->nin; k++) {
        const char *name = dlsh_nodewalk_name(s, c, k);
        char key[120];
        int parts;
        const dlsh_walk_leaf *leaf = dlsh_nodewalk_leaf(w, c, k, &parts);
        if (!*name && leaf) name = dl_tensor_name(leaf->t);
        snprintf(key, sizeof key, "%s%d%s%.60s", backward ? "to operand " : "operand ", k, *name ? ", " : "", name);
        if (backward && !c->out[k]) continue;
        DLSH_TRY(put(t, key, line_of(backward ? c->out[k] : dlsh_nodewalk_operand(w, c, k))));
        if (backward && leaf)
            DLSH_TRY(put(t, "",
                         dlsh_stringf("contribution %d of %d of this pass%s", parts, leaf->parts,
                                      leaf->before ? ", added to a gradient that was there" : "")));
    }
    return DL_OK;
}

/* "FILE:LINE", and the text of the line where the file is a text that runs. */
dlsh_value dlsh_dbg_line(dlsh_session *s, const char *file, int line) {
    const dlsh_unit *u = dlsh_running_unit(s, file);
    DLSH_SCOPED_BUF text = {0};
    const char *p = u ? u->text : NULL;
    for (int i = 1; p && i < line; i++) p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL;
    while (p && *p == ' ') p++;
    if (p) dlsh_buf_add(&text, p, strcspn(p, "\n"));
    return dlsh_stringf("%s:%d  %s", file, line, dlsh_buf_text(&text));
}

dl_status dlsh_dbg_show(dlsh_session *s, dlsh_sink *sink) {
    const dlsh_nodewalk *w = &dlsh_dbg.walk;
    dl_recorded c;
    int backward;
    if (!dlsh_nodewalk_node(w, w->at, &c, &backward)) {
        dlsh_put(sink, "end: all %d nodes are done, gradients are complete\n", w->n);
        return DL_OK;
    }
    if (dlsh_dbg_closed(w->at)) return dlsh_dbg_show_composite(s, sink);
    char head[80];
    snprintf(head, sizeof head, "%s %d of %d", backward ? "backward" : "forward", w->at - (backward ? w->n : 0) + 1,
             w->n);
    DLSH_SCOPED_TABLE t = DLSH_TABLE({head, 'l', ""}, {c.op, 'l', ""});
    DLSH_TRY(put(&t, "line", dlsh_dbg_line(s, c.file, c.line)));
    if (*c.layer) {
        char layer[DLSH_DBG_PATH + 16];
        snprintf(layer, sizeof layer, "layer %s", c.layer);
        DLSH_TRY(put(&t, layer, dlsh_dbg_line(s, c.layer_file, c.layer_line)));
    }
    int first = 0, parts = dlsh_dbg_parts(w->at, &first);
    if (parts > 1) DLSH_TRY(put(&t, "part", dlsh_stringf("%d of %d of %s", w->at - first + 1, parts, c.composite)));
    if (backward) DLSH_TRY(put(&t, "gradient in", c.grad ? line_of(c.grad) : dlsh_string("0")));
    DLSH_TRY(put_operands(s, &t, &c, backward));
    if (!backward) DLSH_TRY(put(&t, "result", line_of(dlsh_nodewalk_result(w, &c))));
    return dlsh_table_show(sink, &t, DL_OK, NULL);
}

dl_status dlsh_dbg_list(dlsh_sink *sink, int near) {
    const dlsh_nodewalk *w = &dlsh_dbg.walk;
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"", 'l', ""}, {"node", 'r', ""}, {"break", 'l', ""}, {"pass", 'l', ""},
                                     {"op", 'l', ""}, {"layer", 'l', ""}, {"line", 'l', ""});
    for (int i = w->at - near; i <= w->at + near; i++) {
        dl_recorded c;
        int backward;
        DLSH_SCOPED_BUF marks = {0};
        if (!dlsh_nodewalk_node(w, i, &c, &backward)) continue;
        int part = dlsh_dbg_parts(i, &(int){0}) > 1;
        dlsh_dbg_marks(i, &marks);
        DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_string(i == w->at ? "->" : ""), dlsh_int(i + 1), dlsh_buf_string(&marks),
                                dlsh_stringf("%s %d", backward ? "backward" : "forward", i - (backward ? w->n : 0) + 1),
                                part ? dlsh_stringf("%s, of %s", c.op, c.composite) : dlsh_string(c.op),
                                *c.layer ? dlsh_string(c.layer) : dlsh_none(),
                                *c.layer ? dlsh_stringf("%s:%d", c.layer_file, c.layer_line)
                                         : dlsh_stringf("%s:%d", c.file, c.line)));
    }
    return dlsh_table_show(sink, &t, DL_OK, "end\n");
}
