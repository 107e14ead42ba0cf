/* Layered layout of a graph: ranks by the longest path, bends where an edge passes ranks, order within ranks by
 * barycentres, positions as near to the neighbours' as the boxes allow. */
#include "view/rich/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lang/session.h"
#include "view/text.h"

enum { SWEEPS = 12 };
static const double GAP_X = 18, GAP_Y = 30, HEIGHT = 36, BEND = 6, MARGIN = 6;

/* What is needed beside the result while laying out; the arrays have an entry for each place. */
typedef struct work {
    dlsh_layout *l;
    int *order, *start; /* boxes rank by rank; rank r is order[start[r]] to order[start[r + 1]] */
    int *pos;           /* position of each place within its rank */
    int *size;
    double *want, *sum, *weight, *count, *mean, *value;
} work;

void dlsh_graph_depth(const dlsh_graph *g, int *depth) {
    for (int i = g->n - 1; i >= 0; i--) {
        depth[i] = g->nodes[i].kind != DLSH_GRAPH_OP ? 0 : 1;
        for (int k = 0; k < g->nodes[i].nin; k++) {
            int in = g->nodes[i].in[k];
            if (in > i && depth[in] + 1 > depth[i]) depth[i] = depth[in] + 1;
        }
    }
}

/* Ops stand by their depth; a leaf just above the highest that uses it. */
static void set_ranks(const dlsh_graph *g, dlsh_layout *l) {
    dlsh_graph_depth(g, l->rank);
    for (int i = 0; i < g->n; i++)
        if (g->nodes[i].kind != DLSH_GRAPH_OP) l->rank[i] = l->rank[0];
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < g->nodes[i].nin; k++) {
            int in = g->nodes[i].in[k];
            if (g->nodes[in].kind != DLSH_GRAPH_OP && l->rank[i] - 1 < l->rank[in]) l->rank[in] = l->rank[i] - 1;
        }
    for (int i = 0; i < g->n; i++)
        if (l->rank[i] + 1 > l->nranks) l->nranks = l->rank[i] + 1;
}

static dl_status no_memory(void) { return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory to lay out the graph"); }

/* Boxes for nodes; then each edge as links from rank to rank, with bends between. */
static dl_status make_boxes(const dlsh_graph *g, dlsh_layout *l) {
    long bends = 0, nlinks = 0;
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < g->nodes[i].nin; k++) {
            int span = l->rank[i] - l->rank[g->nodes[i].in[k]];
            bends += span - 1;
            nlinks += span;
        }
    long n = g->n + bends;
    l->boxes = calloc((size_t)n, sizeof *l->boxes);
    l->links = calloc((size_t)nlinks + 1, sizeof *l->links);
    int *rank = realloc(l->rank, (size_t)n * sizeof *rank);
    if (rank) l->rank = rank;
    if (!l->boxes || !l->links || !rank) return no_memory();
    for (l->n = 0; l->n < g->n; l->n++) {
        const dlsh_graph_node *x = &g->nodes[l->n];
        double label = 7.3 * dlsh_text_width(x->label, strlen(x->label)),
               note = 6.1 * dlsh_text_width(x->note, strlen(x->note));
        l->boxes[l->n] = (dlsh_graph_box){
            .w = fmax(fmax(label, note) + 18, 44), .h = HEIGHT, .node = l->n, .leaf = x->kind != DLSH_GRAPH_OP};
    }
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < g->nodes[i].nin; k++) {
            int at = g->nodes[i].in[k];
            for (int r = l->rank[at] + 1; r <= l->rank[i]; r++) {
                int next = r == l->rank[i] ? i : l->n++;
                if (next != i) {
                    l->rank[next] = r;
                    l->boxes[next] = (dlsh_graph_box){.node = -1};
                }
                l->links[l->nlinks][0] = at;
                l->links[l->nlinks++][1] = next;
                at = next;
            }
        }
    return DL_OK;
}

/* ---------------------------------------------------------------- order */

static void number(work *w) {
    for (int r = 0; r < w->l->nranks; r++)
        for (int k = w->start[r]; k < w->start[r + 1]; k++) w->pos[w->order[k]] = k - w->start[r];
}

/* The weight of a link. That of a leaf is small, so that chains of ops stay straight: with more, a net of a hundred
 * layers would lean by the width of a hundred boxes. */
static double pull(const work *w, int a, int b) { return w->l->boxes[a].leaf || w->l->boxes[b].leaf ? 0.001 : 1; }

/* Mean of `value` over the neighbours above (side 0) or below (side 1); own value where there are none. */
static void barycentres(work *w, int side, const double *value) {
    memset(w->sum, 0, (size_t)w->l->n * sizeof *w->sum);
    memset(w->count, 0, (size_t)w->l->n * sizeof *w->count);
    for (int i = 0; i < w->l->nlinks; i++) {
        int from = w->l->links[i][side], to = w->l->links[i][!side];
        w->sum[to] += pull(w, from, to) * value[from];
        w->count[to] += pull(w, from, to);
    }
    for (int i = 0; i < w->l->n; i++) w->want[i] = w->count[i] ? w->sum[i] / w->count[i] : value[i];
}

/* Insertion sort by `want`, which leaves equal ones as they are. */
static void sort_rank(work *w, int r) {
    for (int k = w->start[r] + 1; k < w->start[r + 1]; k++) {
        int x = w->order[k], j = k;
        for (; j > w->start[r] && w->want[w->order[j - 1]] > w->want[x]; j--) w->order[j] = w->order[j - 1];
        w->order[j] = x;
    }
}

static void choose_order(work *w) {
    number(w);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        int down = sweep % 2 == 0;
        for (int step = 0; step < w->l->nranks; step++) {
            int r = down ? step : w->l->nranks - 1 - step;
            for (int i = 0; i < w->l->n; i++) w->value[i] = w->pos[i];
            barycentres(w, down ? 0 : 1, w->value);
            sort_rank(w, r);
            for (int k = w->start[r]; k < w->start[r + 1]; k++) w->pos[w->order[k]] = k - w->start[r];
        }
    }
}

/* ---------------------------------------------------------------- positions */

static double room(const dlsh_graph_box *p) { return p->node >= 0 ? p->w : BEND; }

/* Positions of a rank nearest to `want` in the mean square, neighbours not touching: distances are taken off, and
 * neighbours out of order share their weighted mean. */
static void place_rank(work *w, int r) {
    double *mean = w->mean, *weight = w->weight;
    int *size = w->size;
    dlsh_graph_box *p = w->l->boxes;
    int blocks = 0;
    double offset = 0;
    for (int k = w->start[r]; k < w->start[r + 1]; k++) {
        int i = w->order[k];
        if (k > w->start[r]) offset += (room(&p[w->order[k - 1]]) + room(&p[i])) / 2 + GAP_X;
        mean[blocks] = w->want[i] - offset;
        weight[blocks] = p[i].leaf ? 0.001 : 1;
        size[blocks++] = 1;
        while (blocks > 1 && mean[blocks - 2] > mean[blocks - 1]) {
            double total = weight[blocks - 2] + weight[blocks - 1];
            mean[blocks - 2] = (mean[blocks - 2] * weight[blocks - 2] + mean[blocks - 1] * weight[blocks - 1]) / total;
            weight[blocks - 2] = total;
            size[blocks - 2] += size[blocks - 1];
            blocks--;
        }
    }
    offset = 0;
    for (int b = 0, k = w->start[r]; b < blocks; b++)
        for (int j = 0; j < size[b]; j++, k++) {
            if (k > w->start[r]) offset += (room(&p[w->order[k - 1]]) + room(&p[w->order[k]])) / 2 + GAP_X;
            p[w->order[k]].x = mean[b] + offset;
        }
}

static void choose_positions(work *w) {
    for (int sweep = 0; sweep <= SWEEPS; sweep++) {
        int down = sweep % 2 == 0;
        for (int step = 0; step < w->l->nranks; step++) {
            for (int i = 0; i < w->l->n; i++) w->value[i] = w->l->boxes[i].x;
            barycentres(w, down ? 0 : 1, w->value);
            place_rank(w, down ? step : w->l->nranks - 1 - step);
        }
    }
}

static void fit(dlsh_layout *l) {
    double left = INFINITY, right = -INFINITY;
    for (int i = 0; i < l->n; i++) {
        left = fmin(left, l->boxes[i].x - l->boxes[i].w / 2);
        right = fmax(right, l->boxes[i].x + l->boxes[i].w / 2);
    }
    for (int i = 0; i < l->n; i++) {
        l->boxes[i].x += MARGIN - left;
        l->boxes[i].y = MARGIN + HEIGHT / 2 + l->rank[i] * (HEIGHT + GAP_Y);
    }
    l->width = right - left + 2 * MARGIN;
    l->height = l->nranks * (HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN;
}

/* ---------------------------------------------------------------- all */

/* Counting sort of the boxes by rank. */
static void sort_boxes(work *w) {
    dlsh_layout *l = w->l;
    for (int i = 0; i < l->n; i++) w->start[l->rank[i] + 1]++;
    for (int r = 0; r < l->nranks; r++) w->start[r + 1] += w->start[r];
    for (int i = 0; i < l->n; i++) w->order[w->start[l->rank[i]] + w->size[l->rank[i]]++] = i;
}

dl_status dlsh_graph_layout(const dlsh_graph *g, dlsh_layout *l) {
    *l = (dlsh_layout){.rank = calloc((size_t)g->n + 1, sizeof *l->rank)};
    if (!l->rank) return no_memory();
    set_ranks(g, l);
    dl_status status = make_boxes(g, l);
    if (status) return status;
    size_t n = (size_t)(l->n > l->nranks ? l->n : l->nranks) + 2;
    DLSH_FREED double *d = calloc(6 * n, sizeof *d);
    DLSH_FREED int *k = calloc(4 * n, sizeof *k);
    work w = {.l = l, .order = k, .start = k + n, .pos = k + 2 * n, .size = k + 3 * n};
    w.want = d, w.sum = d + n, w.weight = d + 2 * n, w.count = d + 3 * n, w.mean = d + 4 * n, w.value = d + 5 * n;
    if (d && k) {
        sort_boxes(&w);
        choose_order(&w);
        choose_positions(&w);
        fit(l);
    } else
        status = no_memory();
    return status;
}

void dlsh_layout_free(dlsh_layout *l) {
    free(l->boxes);
    free(l->links);
    free(l->rank);
    *l = (dlsh_layout){0};
}

void dlsh_graph_free(dlsh_graph *g) {
    for (int i = 0; i < g->n; i++) free(g->nodes[i].in);
    free(g->nodes);
    *g = (dlsh_graph){0};
}
