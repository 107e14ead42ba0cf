/* Graphs of what was computed from what: as an SVG picture, laid out in layers, as DOT, and as a tree of text. */
#pragma once

#include "view/sink.h"

enum dlsh_graph_kind { DLSH_GRAPH_OP, DLSH_GRAPH_LEAF, DLSH_GRAPH_MORE };
typedef struct dlsh_graph_node {
    int kind;
    char label[192]; /* "conv2d", "head.weight" */
    char note[96];   /* second line of the box: "f32[64,10]" */
    char where[96];  /* "demo.dlsh:3"; text only */
    int here;        /* where the debugger stands: 1 in the forward pass, 2 in the backward pass */
    int nin;
    int *in; /* [nin] indices of what it is made from, each higher than its own, unless a leaf's */
} dlsh_graph_node;

/* Node 0 is the result; a node comes before those it is made from. */
typedef struct dlsh_graph {
    int n;
    dlsh_graph_node *nodes;
} dlsh_graph;

void dlsh_graph_free(dlsh_graph *g);

/* Where the boxes stand, and the corners of edges. Zero-initialise; dlsh_layout_free. */
typedef struct dlsh_graph_box {
    double x, y, w, h; /* centre and size; w 0: a bend of an edge */
    int node;          /* -1: a bend */
    int leaf;
} dlsh_graph_box;
typedef struct dlsh_layout {
    int n, nranks; /* the first boxes are those of the nodes, in their order */
    dlsh_graph_box *boxes;
    int *rank;               /* of each place; 0 is the top */
    int nlinks, (*links)[2]; /* between neighbouring ranks: from the upper to the lower place */
    double width, height;
} dlsh_layout;
/* Layers from what is given (top) to the result, few crossings, straight long edges. DL_ERR_MEMORY. */
dl_status dlsh_graph_layout(const dlsh_graph *g, dlsh_layout *out);
void dlsh_layout_free(dlsh_layout *l);

/* Height of each node above the leaves below it: 0 for a leaf. depth[g->n]. */
void dlsh_graph_depth(const dlsh_graph *g, int *depth);

/* "debugger, forward"; "" where it does not stand. */
const char *dlsh_graph_here(const dlsh_graph_node *x);

dl_status dlsh_graph_svg(dlsh_buf *b, const dlsh_graph *g);
/* In the language of Graphviz. */
dl_status dlsh_graph_dot(dlsh_buf *b, const dlsh_graph *g);
/* One op a line, from the result down: each is made from what stands below it. Leaves and further operands branch off;
 * what is used twice is written once and has a number. */
dl_status dlsh_graph_text(dlsh_buf *b, const dlsh_graph *g, const dlsh_look *look);
