/* Reading the journal: rows, and the nodes of the passes that were looked at. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/syntax.h"
#include "debug/doctor/text/joined.h"
#include "debug/doctor/texts.h"
#include "debug/doctor/trace.h"

/* Of several trainings at one place, as of a function that is called with one net and another, the last one's curve. */
static void keep_last_training(dl_journal_row *r) {
    const int before = r->since > 1 && r->every ? (int)((r->since - 2) / r->every) + 1 : 0;
    if (!before || before >= r->ncurve) return;
    r->ncurve -= before;
    memmove(r->curve, r->curve + before, (size_t)r->ncurve * sizeof *r->curve);
}

double dlsh_first_loss(const dl_journal_row *pass) { return pass->ncurve ? pass->curve[0] : pass->first; }

static dlsh_property is_computed(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    static const char keeping[] = "zip|list|clone|detach|to|cpu|enumerate|append|deepcopy|values|items|load";
    if (dlsh_is_call_of(at->n, "parameters|named_parameters|state_dict|state")) return DLSH_HAS_NOT;
    const int other = at->n->kind == DLSH_N_CALL && !dlsh_is_call_of(at->n, keeping);
    const int gradient = at->n->kind == DLSH_N_FIELD && !strcmp(at->n->text, "grad");
    return other || gradient || at->n->kind == DLSH_N_BINARY ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* p.copy_(kept): are numbers put back that were kept? That is no step. */
static int puts_back(const dl_journal_row *r) {
    const dlsh_node *s = r->kind == DL_DID_STEP && !r->what ? dlsh_statement_at(r->file, r->line) : NULL;
    DLSH_EACH_BELOW (t, s)
        if (dlsh_is_method(t.n, "copy_") && t.n->nkids == 2 && t.n->span.line == r->line)
            return !dlsh_origin(r->file, t.n->kids[1], is_computed, NULL);
    return 0;
}

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
        if (!puts_back(r) && !dlsh_join_rows(e->rows + from, e->nrows - from, r)) e->nrows++;
    }
    return DL_OK;
}

const dl_journal_row *dlsh_row_next(const dlsh_examination *e, dl_journal_kind kind, long *i) {
    while (*i < e->nrows)
        if (e->rows[(*i)++].kind == kind) return &e->rows[*i - 1];
    return NULL;
}

const dl_journal_row *dlsh_row_behind(const dlsh_examination *e, dl_journal_kind kind, const dl_journal_row *r) {
    long i = r ? r - e->rows + 1 : 0;
    return dlsh_row_next(e, kind, &i);
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

int dlsh_op_is(const dl_journal_node *n, const char *names) { return n && dlsh_is_word(names, n->op); }

static const char views[] =
    "reshape|view|restride|transfer|to|clone|expand|permute|transpose|squeeze|unsqueeze|flatten|"
    "as_strided|select|narrow|slice|contiguous|index_select";

const dl_journal_node *dlsh_pass_source(dlsh_pass p, const dl_journal_node *n, int k) {
    n = k < 8 && n->in[k].there ? dlsh_pass_node(p, n->in[k].from) : NULL;
    while (n && dlsh_op_is(n, views)) n = dlsh_pass_node(p, n->in[0].from);
    return n;
}

int dlsh_pass_has(dlsh_pass p, const void *leaf) {
    DLSH_EACH_OP (m, p)
        DLSH_EACH_OPERAND (v, m)
            if (v->leaf == leaf) return 1;
    return 0;
}

char *dlsh_sources_of(dlsh_pass p, const dl_journal_node *n, const dl_journal_node *skip) {
    char *met = calloc((size_t)p.n + 1, 1);
    if (met && n && n != skip) met[n - p.at] = 1;
    for (const dl_journal_node *m = n; met && m && m < p.at + p.n; m++)
        DLSH_EACH_OPERAND (v, m) {
            const dl_journal_node *by = met[m - p.at] && v->there ? dlsh_pass_node(p, v->from) : NULL;
            if (by && by != skip) met[by - p.at] = 1;
        }
    return met;
}

int dlsh_is_made_of(dlsh_pass p, const dl_journal_node *n, const dl_journal_node *from) {
    DLSH_FREED char *met = dlsh_sources_of(p, n, NULL);
    return met && met[from - p.at];
}

const dl_journal_node *dlsh_pass_user(dlsh_pass p, const dl_journal_node *n) {
    DLSH_EACH_OP_UP (m, p)
        DLSH_EACH_OPERAND (v, m)
            if (v->there && v->from == n->seq) return m;
    return NULL;
}

const dl_journal_value *dlsh_node_weight(const dl_journal_node *n, int *unit) {
    if (unit) *unit = dlsh_op_is(n, "matmul") ? 1 : 0;
    if (!dlsh_op_is(n, "matmul|linear|conv2d|conv2d_norm")) return NULL;
    const dl_journal_value *w = &n->in[1];
    return w->there && w->leaf && w->ndim > 1 ? w : NULL;
}

/* Does a line stand in a net of the text? */
static int holds_line(const char *file, const dlsh_node *net, int line) {
    int n;
    const dlsh_unit *u = dlsh_text_of(file);
    const char *p = dlsh_script_line(NULL, file, line, &n);
    return line == net->span.line || (p && p - u->text > net->span.start && p - u->text < net->span.end);
}

/* Does a line hold the word as a whole? */
static int has_word(const char *file, int line, const char *word) {
    int n;
    const int len = (int)strlen(word);
    const char *p = dlsh_script_line(NULL, file, line, &n);
    for (int i = 0; p && i + len <= n && p[i] != '#'; i++) {
        const int begins = !i || !(isalnum((unsigned char)p[i - 1]) || p[i - 1] == '_');
        const int ends = i + len == n || !(isalnum((unsigned char)p[i + len]) || p[i + len] == '_');
        if (begins && ends && !strncmp(p + i, word, (size_t)len)) return 1;
    }
    return 0;
}

dl_source dlsh_place_of_op(dl_source layer, dl_source at) {
    enum { DEEPEST = 32 };
    const dlsh_node *around[DEEPEST], *s = *layer.file ? dlsh_statement_at(at.file, at.line) : NULL;
    int depth = s ? dlsh_nodes_around(dlsh_text_root(at.file), s->span.start, around, DEEPEST) : 0;
    while (depth > 0 && around[depth - 1]->kind != DLSH_N_NET) depth--;
    const dlsh_node *net = depth ? around[depth - 1] : NULL;
    const int own = net && net->text && has_word(layer.file, layer.line, net->text) &&
                    !(!strcmp(layer.file, at.file) && holds_line(at.file, net, layer.line));
    return *layer.file && !own ? layer : at;
}

static dl_source place_of(const dl_journal_node *n) {
    return dlsh_place_of_op((dl_source){n->layer_file, n->layer_line}, (dl_source){n->file, n->line});
}
const char *dlsh_node_file(const dl_journal_node *n) { return place_of(n).file; }
int dlsh_node_line(const dl_journal_node *n) { return place_of(n).line; }

/* Operand of the first node of a pass that takes the leaf; NULL: none does. */
static const dl_journal_value *leaf_of(dlsh_pass p, const void *leaf) {
    for (long k = p.n - 1; leaf && k >= 0; k--)
        for (int j = 0; j < p.at[k].nin && j < 8; j++)
            if (p.at[k].in[j].there && p.at[k].in[j].leaf == leaf) return &p.at[k].in[j];
    return NULL;
}

static int is_place_of_step(const dlsh_examination *e, dl_source at) {
    DLSH_EACH_ROW (r, e, DL_DID_STEP)
        if (r->line == at.line && r->file && !strcmp(r->file, at.file)) return 1;
    return 0;
}

dl_source dlsh_set_at(const dlsh_examination *e, dlsh_pass first, const dl_journal_value *v) {
    const dl_journal_value *then = v && v->leaf ? leaf_of(first, v->leaf) : NULL;
    const dl_source at = then ? then->written : (dl_source){0}, made = then ? then->made : at;
    const int same = at.file && made.file && at.line == made.line && !strcmp(at.file, made.file);
    return !at.file || !at.line || same || is_place_of_step(e, at) ? (dl_source){0} : at;
}

dl_source dlsh_weight_set_at(const dlsh_examination *e, dlsh_pass first, const dl_journal_node *n) {
    return dlsh_set_at(e, first, dlsh_node_weight(n, NULL));
}

const char *dlsh_node_text(const dl_journal_node *n, char *buf, size_t size) {
    snprintf(buf, size, "%s (%s%s%s%s:%d)", n->op, *n->layer ? "layer " : "", n->layer, *n->layer ? ", " : "",
             dlsh_node_file(n), dlsh_node_line(n));
    return buf;
}

int dlsh_has_history_at(const dlsh_examination *e, const char *file, int line) {
    const dl_journal_node *n;
    for (dlsh_node_walk w = {0}; (n = dlsh_node_next(e, NULL, &w));)
        if (n->line == line && !strcmp(n->file, file)) return 1;
    return 0;
}
