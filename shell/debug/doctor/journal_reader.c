/* Reading the journal: rows, and the nodes of the passes that were looked at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/text/joined.h"

/* Of several trainings at one place, as of a function that is called with one net and another, the last one's curve. */
static void keep_last_training(dl_journal_row *r) {
    const int before = r->since > 1 && r->every ? (int)((r->since - 2) / r->every) + 1 : 0;
    if (!before || before >= r->ncurve) return;
    r->ncurve -= before;
    memmove(r->curve, r->curve + before, (size_t)r->ncurve * sizeof *r->curve);
}

double dlsh_first_loss(const dl_journal_row *pass) { return pass->ncurve ? pass->curve[0] : pass->first; }

dl_status dlsh_read_journal(dlsh_examination *e) {
    long n = dl_journal_count();
    dl_journal_row *more = realloc(e->rows, (size_t)(e->nrows + n + 1) * sizeof *more);
    if (!more) return dlsh_no_memory("the journal");
    e->rows = more;
    const long from = e->nrows;
    for (long i = 0; i < n; i++) {
        dl_journal_row *r = &e->rows[e->nrows];
        DLSH_TRY(dl_journal_at(i, r));
        if (dlsh_is_outdated(r->file)) continue;
        keep_last_training(r);
        DLSH_TRY(dlsh_join_row(r));
        if (!dlsh_join_rows(e->rows + from, e->nrows - from, r)) e->nrows++;
    }
    return DL_OK;
}

const dl_journal_row *dlsh_row_next(const dlsh_examination *e, dl_journal_kind kind, long *i) {
    while (*i < e->nrows)
        if (e->rows[(*i)++].kind == kind) return &e->rows[*i - 1];
    return NULL;
}

dlsh_pass dlsh_pass_of(const dl_journal_row *r, int last) { return (dlsh_pass){r->nodes[last], r->nnodes[last]}; }

const dl_journal_node *dlsh_node_next(const dlsh_examination *e, const char *names, dlsh_node_walk *w) {
    for (;;) {
        while (w->nodes < w->pass.n) {
            const dl_journal_node *n = &w->pass.at[w->nodes++];
            if (!names || dlsh_op_is(n, names)) return n;
        }
        w->row = dlsh_row_next(e, DL_DID_BACKWARD, &w->rows);
        if (!w->row) return NULL;
        w->pass = dlsh_pass_of(w->row, 1), w->nodes = 0;
    }
}

const dl_journal_node *dlsh_pass_node(dlsh_pass p, unsigned long seq) {
    long from = 0, to = p.n;
    while (seq && from < to) {
        long i = from + (to - from) / 2;
        if (p.at[i].seq == seq) return &p.at[i];
        if (p.at[i].seq > seq)
            from = i + 1;
        else
            to = i;
    }
    return NULL;
}

int dlsh_op_is(const dl_journal_node *n, const char *names) { return n && dlsh_has_word(names, n->op, strlen(n->op)); }

static const char views[] =
    "reshape|view|restride|transfer|to|clone|expand|permute|transpose|squeeze|unsqueeze|flatten|"
    "as_strided|select|narrow|slice|contiguous|index_select";

const dl_journal_node *dlsh_pass_source(dlsh_pass p, const dl_journal_node *n, int k) {
    n = k < 8 && n->in[k].there ? dlsh_pass_node(p, n->in[k].from) : NULL;
    while (n && dlsh_op_is(n, views)) n = dlsh_pass_node(p, n->in[0].from);
    return n;
}

int dlsh_pass_has(dlsh_pass p, const void *leaf) {
    for (long k = 0; k < p.n; k++)
        for (int i = 0; i < p.at[k].nin && i < 8; i++)
            if (p.at[k].in[i].leaf == leaf) return 1;
    return 0;
}

const dl_journal_node *dlsh_pass_user(dlsh_pass p, const dl_journal_node *n) {
    for (long i = p.n - 1; i >= 0; i--)
        for (int k = 0; k < p.at[i].nin && k < 8; k++)
            if (p.at[i].in[k].there && p.at[i].in[k].from == n->seq) return &p.at[i];
    return NULL;
}

const dl_journal_value *dlsh_node_weight(const dl_journal_node *n, int *unit) {
    *unit = dlsh_op_is(n, "matmul") ? 1 : 0;
    if (!dlsh_op_is(n, "matmul|linear|conv2d|conv2d_norm")) return NULL;
    const dl_journal_value *w = &n->in[1];
    return w->there && w->leaf && w->ndim > 1 ? w : NULL;
}

const char *dlsh_node_file(const dl_journal_node *n) { return *n->layer_file ? n->layer_file : n->file; }
int dlsh_node_line(const dl_journal_node *n) { return *n->layer_file ? n->layer_line : n->line; }

const char *dlsh_node_text(const dl_journal_node *n, char *buf, size_t size) {
    snprintf(buf, size, "%s (%s%s%s%s:%d)", n->op, *n->layer ? "layer " : "", n->layer, *n->layer ? ", " : "",
             dlsh_node_file(n), dlsh_node_line(n));
    return buf;
}
