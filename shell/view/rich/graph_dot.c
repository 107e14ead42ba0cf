/* A graph in the language of Graphviz. */
#include "view/rich/graph.h"
#include "view/rich/html.h"

const char *dlsh_graph_here(const dlsh_graph_node *x) {
    static const char *const passes[] = {"", "debugger, forward", "debugger, backward"};
    return passes[x->here];
}

/* Within quotation marks; other texts' control characters as escapes. */
static void put_text(dlsh_buf *b, const char *s) {
    DLSH_SCOPED_BUF visible = {0};
    dlsh_buf_puts_visible(&visible, s);
    for (const char *p = dlsh_buf_text(&visible); *p; p++)
        dlsh_buf_printf(b, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
}

static void put_node(dlsh_buf *b, const dlsh_graph_node *x, int i) {
    static const char *const shapes[] = {
        [DLSH_GRAPH_OP] = "box", [DLSH_GRAPH_LEAF] = "ellipse", [DLSH_GRAPH_MORE] = "note"};
    dlsh_buf_printf(b, "    n%d [shape=%s, label=\"", i, shapes[x->kind]);
    put_text(b, x->label);
    const char *const more[] = {x->note, x->where, dlsh_graph_here(x)};
    for (int k = 0; k < 3; k++) {
        if (*more[k]) dlsh_buf_puts(b, "\\n");
        put_text(b, more[k]);
    }
    dlsh_buf_printf(b, "\"%s];\n", x->here ? ", color=\"" DLSH_RED "\", penwidth=4" : "");
}

dl_status dlsh_graph_dot(dlsh_buf *b, const dlsh_graph *g) {
    dlsh_buf_puts(b, "digraph tape {\n    node [fontname=\"monospace\"];\n");
    for (int i = 0; i < g->n; i++) put_node(b, &g->nodes[i], i);
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < g->nodes[i].nin; k++) dlsh_buf_printf(b, "    n%d -> n%d;\n", g->nodes[i].in[k], i);
    dlsh_buf_puts(b, "}\n");
    return DL_OK;
}
