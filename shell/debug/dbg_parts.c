/* Ops that are made of others, such as mse_loss: shown as one node until `step` leads into them. */
#include <stdio.h>
#include <string.h>

#include "debug/dbg.h"
#include "view/sink.h"

/* The number of the call of the composite op that a place is a part of; 0: of none. */
static unsigned long call_at(int place, dl_recorded *c) {
    int backward;
    return place >= 0 && dlsh_nodewalk_node(&dlsh_dbg.walk, place, c, &backward) ? c->call : 0;
}

int dlsh_dbg_parts(int place, int *first) {
    dl_recorded c;
    int n = dlsh_dbg.walk.n, from = place < n ? 0 : n, to = from + n, last = place;
    unsigned long call = call_at(place, &c);
    *first = place;
    while (call && *first > from && call_at(*first - 1, &c) == call) --*first;
    while (call && last + 1 < to && call_at(last + 1, &c) == call) last++;
    return last - *first + 1;
}

int dlsh_dbg_begins(int place) {
    int first;
    return dlsh_dbg_parts(place, &first) > 1 && first == place;
}

/* Did a part make the operand? */
static int is_inner(unsigned long from, int first, int parts) {
    dl_recorded c;
    int backward;
    for (int i = first; from && i < first + parts; i++)
        if (dlsh_nodewalk_node(&dlsh_dbg.walk, i, &c, &backward) && c.seq == from) return 1;
    return 0;
}

/* Operands that no part made, and in the backward pass the gradients for them; numbers are left out. */
static dl_status put_outer(dlsh_session *s, dlsh_table *t, const dl_recorded *c, int backward, int first, int parts) {
    const dlsh_nodewalk *w = &dlsh_dbg.walk;
    for (int k = 0; k < c->nin; k++) {
        const char *name = dlsh_nodewalk_name(s, c, k);
        int n;
        char key[120];
        const dlsh_walk_leaf *leaf = dlsh_nodewalk_leaf(w, c, k, &n);
        if (!*name && leaf) name = dl_tensor_name(leaf->t);
        dl_tensor *x = backward ? c->out[k] : dlsh_nodewalk_operand(w, c, k);
        if (!x || is_inner(c->from[k], first, parts) || (!c->from[k] && !leaf && !dl_ndim(x))) continue;
        snprintf(key, sizeof key, "%s %s%s%.60s", backward ? "to operand of" : "operand of", c->op, *name ? ", " : "",
                 name);
        DLSH_TRY(dlsh_dbg_put_tensor(t, key, x));
    }
    return DL_OK;
}

dl_status dlsh_dbg_show_composite(dlsh_session *s, dlsh_sink *sink) {
    const dlsh_nodewalk *w = &dlsh_dbg.walk;
    dl_recorded c;
    int backward, first;
    int parts = dlsh_dbg_parts(w->at, &first), n = w->n;
    DLSH_SCOPED_BUF names = {0};
    for (int i = first; i < first + parts && dlsh_nodewalk_node(w, i, &c, &backward); i++)
        dlsh_buf_printf(&names, "%s%s", i > first ? ", " : "", c.op);
    if (!dlsh_nodewalk_node(w, first, &c, &backward)) return DL_OK;
    char head[80];
    snprintf(head, sizeof head, "%s %d to %d of %d", backward ? "backward" : "forward", first % n + 1,
             first % n + parts, n);
    DLSH_SCOPED_TABLE t = DLSH_TABLE({head, 'l', ""}, {c.composite, 'l', ""});
    DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_string("line"), dlsh_dbg_line(s, c.file, c.line)));
    DLSH_TRY(dlsh_table_row(
        &t, (dlsh_value[]){dlsh_string("made of"), dlsh_stringf("%s; step leads into it", dlsh_buf_text(&names))}));
    if (backward) DLSH_TRY(dlsh_dbg_put_tensor(&t, "gradient in", c.grad));
    for (int i = first; i < first + parts && dlsh_nodewalk_node(w, i, &c, &backward); i++)
        DLSH_TRY(put_outer(s, &t, &c, backward, first, parts));
    if (!backward && dlsh_nodewalk_node(w, first + parts - 1, &c, &backward))
        DLSH_TRY(dlsh_dbg_put_tensor(&t, "result", dlsh_nodewalk_result(w, &c)));
    return dlsh_table_show(sink, &t, DL_OK, NULL);
}
