/* A laid out graph as SVG; a graph as a tree of text. */
#include "view/rich/graph.h"

#include <stdlib.h>

#include "lang/session.h"
#include "view/rich/html.h"
#include "view/text.h"

/* ---------------------------------------------------------------- SVG */

/* Boxes carry their own background, so that their text is readable on any theme. */
static const struct {
    const char *fill, *stroke, *radius, *dash;
} looks[] = {[DLSH_GRAPH_OP] = {"#dce9f9", DLSH_BLUE, "5", ""},
             [DLSH_GRAPH_LEAF] = {"#fbe8cf", DLSH_ORANGE, "18", ""},
             [DLSH_GRAPH_MORE] = {"#e6e6e6", DLSH_GREY, "5", " stroke-dasharray=\"4 3\""}};

static void put_box(dlsh_buf *b, const dlsh_graph_node *x, const dlsh_graph_box *p, int result) {
    dlsh_buf_puts(b, "<g>");
    if (*x->where) {
        dlsh_buf_puts(b, "<title>");
        dlsh_html_puts(b, x->where);
        dlsh_buf_puts(b, "</title>");
    }
    dlsh_buf_printf(b,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%s\" fill=\"%s\" stroke=\"%s\" "
                    "stroke-width=\"%s\"%s/>",
                    p->x - p->w / 2, p->y - p->h / 2, p->w, p->h, looks[x->kind].radius,
                    result ? "#d5efd9" : looks[x->kind].fill,
                    x->here  ? DLSH_RED
                    : result ? DLSH_GREEN
                             : looks[x->kind].stroke,
                    x->here  ? "4"
                    : result ? "2"
                             : "1",
                    looks[x->kind].dash);
    dlsh_buf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" font-weight=\"bold\">", p->x, *x->note ? p->y - 3 : p->y + 4);
    dlsh_html_puts(b, x->label);
    dlsh_buf_printf(b, "</text><text x=\"%.1f\" y=\"%.1f\" font-size=\"10\">", p->x, p->y + 11);
    dlsh_html_puts(b, x->note);
    dlsh_buf_puts(b, "</text></g>");
}

/* Edges leave and enter boxes vertically; an arrow stands where one enters. */
static void put_link(dlsh_buf *b, const dlsh_graph_box *from, const dlsh_graph_box *to) {
    double arrow = to->node >= 0 ? 6 : 0, y0 = from->y + from->h / 2, y1 = to->y - to->h / 2 - arrow;
    dlsh_buf_printf(b, "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" fill=\"none\"/>", from->x, y0, from->x,
                    (y0 + y1) / 2, to->x, (y0 + y1) / 2, to->x, y1);
    if (arrow > 0)
        dlsh_buf_printf(b, "<path d=\"M%.1f %.1fl-3.5 -1l3.5 7l3.5 -7z\" fill=\"" DLSH_GREY "\" stroke=\"none\"/>",
                        to->x, y1);
}

static void describe(dlsh_buf *svg, const dlsh_graph *g) {
    int ops = 0;
    for (int i = 0; i < g->n; i++) ops += g->nodes[i].kind == DLSH_GRAPH_OP;
    DLSH_SCOPED_BUF text = {0};
    dlsh_buf_printf(&text, "graph of what %s was computed from: %d op%s", g->n ? g->nodes[0].label : "a tensor", ops,
                    ops == 1 ? "" : "s");
    const char *between = ", from ";
    for (int i = 0; i < g->n && text.n < 400; i++) {
        if (g->nodes[i].kind != DLSH_GRAPH_LEAF) continue;
        dlsh_buf_printf(&text, "%s%s", between, g->nodes[i].label);
        between = ", ";
    }
    dlsh_svg_describe(svg, dlsh_buf_text(&text));
}

dl_status dlsh_graph_svg(dlsh_buf *b, const dlsh_graph *g) {
    dlsh_layout l;
    dl_status status = dlsh_graph_layout(g, &l);
    if (!status) {
        dlsh_buf_printf(b,
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
                        "%.0f\" font-family=\"monospace\" font-size=\"12\">",
                        l.width, l.height, l.width, l.height);
        dlsh_buf_puts(b, "<g stroke=\"" DLSH_GREY "\" stroke-width=\"1.2\">");
        for (int i = 0; i < l.nlinks; i++) put_link(b, &l.boxes[l.links[i][0]], &l.boxes[l.links[i][1]]);
        dlsh_buf_puts(b, "</g><g text-anchor=\"middle\" fill=\"#1c1c1c\">");
        for (int i = 0; i < g->n; i++) put_box(b, &g->nodes[i], &l.boxes[i], i == 0);
        dlsh_buf_puts(b, "</g></svg>\n");
        describe(b, g);
    }
    dlsh_layout_free(&l);
    return status;
}

/* ---------------------------------------------------------------- text */

/* A tree being written. */
typedef struct tree {
    const dlsh_graph *g;
    const dlsh_look *look;
    dlsh_buf *out;
    int *depth, *uses, *number; /* number: of those used more than once; 0: not written yet */
    int numbered;
    dlsh_buf indent;
} tree;

static const char *stroke(const tree *t, int which) {
    static const char *const strokes[][2] = {{"* ", "● "}, {"|-- ", "├─ "}, {"|   ", "│  "}};
    return strokes[which][t->look->unicode != 0];
}

/* Label, what it is, where it was made; returns 0 when it was written before. */
static int put_line(tree *t, int i, const char *hang, const char *mark) {
    const dlsh_graph_node *x = &t->g->nodes[i];
    size_t from = t->out->n;
    int again = t->number[i] > 0, bold = t->look->colour && x->kind == DLSH_GRAPH_OP;
    dlsh_buf_add(t->out, dlsh_buf_text(&t->indent), t->indent.n);
    dlsh_buf_printf(t->out, "%s%s", hang, mark);
    dlsh_buf_puts(t->out, bold ? "\033[1m" : "");
    dlsh_buf_puts_visible(t->out, x->label);
    dlsh_buf_puts(t->out, bold ? "\033[0m" : "");
    if (t->uses[i] > 1 && x->kind == DLSH_GRAPH_OP) {
        if (!again) t->number[i] = ++t->numbered;
        dlsh_buf_printf(t->out, " #%d", t->number[i]);
    }
    if (again) {
        dlsh_buf_puts(t->out, "  (above)\n");
        return 0;
    }
    if (*x->note) dlsh_buf_puts(t->out, "  "), dlsh_buf_puts_visible(t->out, x->note);
    if (*x->where) {
        int width = dlsh_text_width(t->out->s + from, t->out->n - from) - (bold ? 8 : 0);
        dlsh_buf_printf(t->out, "%*s", width < 42 ? 44 - width : 2, "");
        dlsh_buf_puts_visible(t->out, x->where);
    }
    if (x->here) dlsh_buf_printf(t->out, "  <- %s", dlsh_graph_here(x));
    dlsh_buf_puts(t->out, "\n");
    return 1;
}

/* The operand that the chain continues with: the deepest op. -1: none. */
static int main_operand(const tree *t, const dlsh_graph_node *x) {
    int best = -1;
    for (int k = 0; k < x->nin; k++)
        if (t->g->nodes[x->in[k]].kind == DLSH_GRAPH_OP && (best < 0 || t->depth[x->in[k]] > t->depth[x->in[best]]))
            best = k;
    return best;
}

/* Op after op from node i on; leaves and the other operands branch off. `hang` ties the first line to a branch. */
static void put_chain(tree *t, int i, const char *hang) {
    size_t had = t->indent.n;
    while (i >= 0) {
        const dlsh_graph_node *x = &t->g->nodes[i];
        int fresh = put_line(t, i, hang, x->kind == DLSH_GRAPH_OP ? stroke(t, 0) : "");
        if (*hang) dlsh_buf_puts(&t->indent, stroke(t, 2));
        hang = "";
        if (!fresh) break;
        int next = main_operand(t, x);
        for (int k = 0; k < x->nin; k++) {
            if (k == next) continue;
            if (t->g->nodes[x->in[k]].kind == DLSH_GRAPH_OP)
                put_chain(t, x->in[k], stroke(t, 1));
            else
                put_line(t, x->in[k], stroke(t, 1), "");
        }
        i = next < 0 ? -1 : x->in[next];
    }
    t->indent.n = had;
}

dl_status dlsh_graph_text(dlsh_buf *b, const dlsh_graph *g, const dlsh_look *look) {
    size_t n = (size_t)g->n + 1;
    DLSH_FREED int *all = calloc(3 * n, sizeof *all);
    if (!all) return dlsh_no_memory("the text of a graph");
    tree t = {.g = g, .look = look, .out = b, .depth = all, .uses = all + n, .number = all + 2 * n};
    dlsh_graph_depth(g, t.depth);
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < g->nodes[i].nin; k++) t.uses[g->nodes[i].in[k]]++;
    put_chain(&t, 0, "");
    dlsh_buf_free(&t.indent);
    return DL_OK;
}
