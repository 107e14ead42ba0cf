/* Graphs: no boxes overlap, edges go down, chains are straight; the picture is XML; the tree as text. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lang/session.h"
#include "view/rich/graph.h"

static void node(dlsh_graph *g, int kind, const char *label, const char *note, int nin, const int *in) {
    dlsh_graph_node *x = &g->nodes[g->n++];
    *x = (dlsh_graph_node){.kind = kind, .nin = nin, .in = malloc(sizeof(int) * (size_t)(2 * nin + 1))};
    snprintf(x->label, sizeof x->label, "%s", label);
    snprintf(x->note, sizeof x->note, "%s", note);
    for (int i = 0; i < nin; i++) x->in[i] = in[i];
}

/* f = (a * b) + relu(a * b), w at the end of the list as leaves are. */
static dlsh_graph diamond(void) {
    dlsh_graph g = {.nodes = calloc(8, sizeof(dlsh_graph_node))};
    node(&g, DLSH_GRAPH_OP, "f = add", "f32", 2, (int[]){1, 2});
    node(&g, DLSH_GRAPH_OP, "relu", "f32[3]", 1, (int[]){2});
    node(&g, DLSH_GRAPH_OP, "mul", "f32[3]", 2, (int[]){3, 4});
    node(&g, DLSH_GRAPH_LEAF, "a", "f32[3]", 0, NULL);
    node(&g, DLSH_GRAPH_LEAF, "<b & \"c\">", "f32[3]", 0, NULL);
    return g;
}

static void as_text(void **state) {
    (void)state;
    dlsh_graph g = diamond();
    dlsh_buf b = {0};
    dlsh_look look = {.unicode = 1};
    assert_int_equal(dlsh_graph_text(&b, &g, &look), DL_OK);
    assert_string_equal(dlsh_buf_text(&b), "● f = add  f32\n"
                                           "├─ ● mul #1  f32[3]\n"
                                           "│  ├─ a  f32[3]\n"
                                           "│  ├─ <b & \"c\">  f32[3]\n"
                                           "● relu  f32[3]\n"
                                           "● mul #1  (above)\n");
    b.n = 0;
    look.unicode = 0;
    assert_int_equal(dlsh_graph_text(&b, &g, &look), DL_OK);
    assert_non_null(strstr(dlsh_buf_text(&b), "|-- * mul #1  f32[3]\n|   |-- a  f32[3]\n"));
    dlsh_buf_free(&b);
    dlsh_graph_free(&g);
}

/* Boxes of one rank keep apart, links go one rank down, everything lies inside the picture. */
static void check(const dlsh_graph *g) {
    dlsh_layout l;
    assert_int_equal(dlsh_graph_layout(g, &l), DL_OK);
    assert_true(l.n >= g->n);
    for (int i = 0; i < l.n; i++) {
        const dlsh_graph_box *p = &l.boxes[i];
        assert_true(p->x - p->w / 2 >= 0 && p->x + p->w / 2 <= l.width);
        assert_true(p->y - p->h / 2 >= 0 && p->y + p->h / 2 <= l.height);
        for (int j = 0; j < i; j++)
            if (l.rank[i] == l.rank[j]) assert_true(fabs(p->x - l.boxes[j].x) > (p->w + l.boxes[j].w) / 2);
    }
    for (int i = 0; i < l.nlinks; i++) assert_int_equal(l.rank[l.links[i][1]] - l.rank[l.links[i][0]], 1);
    assert_int_equal(l.rank[0], l.nranks - 1);
    dlsh_layout_free(&l);
}

static void laid_out(void **state) {
    (void)state;
    dlsh_graph g = diamond();
    check(&g);
    dlsh_graph_free(&g);
}

static void a_chain_is_straight(void **state) {
    (void)state;
    enum { N = 50 };
    dlsh_graph g = {.nodes = calloc(N + 1, sizeof(dlsh_graph_node))};
    for (int i = 0; i < N; i++) node(&g, DLSH_GRAPH_OP, i % 2 ? "exp" : "negative_log", "f32", 1, (int[]){i + 1});
    node(&g, DLSH_GRAPH_LEAF, "x", "f32", 0, NULL);
    check(&g);
    dlsh_layout l;
    assert_int_equal(dlsh_graph_layout(&g, &l), DL_OK);
    for (int i = 1; i < l.n; i++) assert_true(fabs(l.boxes[i].x - l.boxes[0].x) < 0.01);
    dlsh_layout_free(&l);
    dlsh_graph_free(&g);
}

static void random_graphs(void **state) {
    (void)state;
    unsigned seed = 1;
    for (int round = 0; round < 50; round++) {
        int n = 2 + rand_r(&seed) % 60;
        dlsh_graph g = {.nodes = calloc((size_t)n, sizeof(dlsh_graph_node))};
        for (int i = 0; i < n; i++)
            node(&g, i && rand_r(&seed) % 4 == 0 ? DLSH_GRAPH_LEAF : DLSH_GRAPH_OP, "op", "f32[2,2]", n, (int[64]){0});
        for (int i = 0; i < n; i++) g.nodes[i].nin = 0;
        /* everything is used by some op before it, and now and then by another one */
        for (int i = 1; i < n; i++)
            for (int k = 0; k < 2; k++) {
                int by = rand_r(&seed) % i;
                while (g.nodes[by].kind != DLSH_GRAPH_OP) by--;
                if (!k || rand_r(&seed) % 3 == 0) g.nodes[by].in[g.nodes[by].nin++] = i;
            }
        check(&g);
        dlsh_buf b = {0};
        assert_int_equal(dlsh_graph_text(&b, &g, &(dlsh_look){.unicode = 1}), DL_OK);
        assert_int_equal(dlsh_graph_svg(&b, &g), DL_OK);
        dlsh_buf_free(&b);
        dlsh_graph_free(&g);
    }
}

static void picture_is_xml(void **state) {
    (void)state;
    dlsh_graph g = diamond();
    dlsh_buf b = {0};
    assert_int_equal(dlsh_graph_svg(&b, &g), DL_OK);
    assert_non_null(strstr(dlsh_buf_text(&b), "&lt;b &amp; &quot;c&quot;&gt;"));
    FILE *python = popen("/usr/bin/python3 -c 'import sys, xml.etree.ElementTree as E; t = E.parse(sys.stdin); "
                         "sys.exit(0 if len(t.findall(\".//{*}rect\")) == 5 else 1)'",
                         "w");
    assert_non_null(python);
    assert_int_equal(fwrite(b.s, 1, b.n, python), b.n);
    assert_int_equal(pclose(python), 0);
    dlsh_buf_free(&b);
    dlsh_graph_free(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_text), cmocka_unit_test(laid_out),
                                       cmocka_unit_test(a_chain_is_straight), cmocka_unit_test(random_graphs),
                                       cmocka_unit_test(picture_is_xml)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
