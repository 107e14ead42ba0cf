/* Layers that only a part of the loss without data trains, as the mean of an autoencoder that its decoder is not given:
 * what they give has no influence on what is compared with data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

/* Of the nodes of a pass. */
typedef struct reach {
    dlsh_pass p;
    char *raw; /* data are in its result without weights between, and for each sample still */
    char *met; /* its result goes where data are met */
} reach;

static void reach_free(reach *r) {
    free(r->raw);
    free(r->met);
}

static int weighs(const dl_journal_node *n) {
    return dlsh_op_is(n, "linear|matmul|bmm|conv1d|conv2d|conv3d|conv2d_norm|recurrent|embedding");
}

/* Data, masks and noise alike: numbers that are no parameter, more than a factor. */
static int is_data(const dl_journal_value *v) { return v->there && v->constant && !v->leaf && v->ndim; }

static long place_of(dlsh_pass p, const dl_journal_value *v) {
    const dl_journal_node *n = v->there ? dlsh_pass_node(p, v->from) : NULL;
    return n ? n - p.at : -1;
}

static int is_reduced(const dl_journal_node *n) {
    return !n->out.ndim || dlsh_op_is(n, "sum|mean|square_sum|root_square_sum|amax|amin|logsumexp|norm|var");
}

/* Of an operand: has it data in it? */
static int has_raw(const reach *r, const dl_journal_value *v) {
    const long at = place_of(r->p, v);
    return is_data(v) || (at >= 0 && r->raw[at]);
}

static int find_reach(reach *r) {
    r->raw = calloc((size_t)r->p.n + 1, 1), r->met = calloc((size_t)r->p.n + 1, 1);
    if (!r->raw || !r->met) return 0;
    for (long i = r->p.n - 1; i >= 0; i--) { /* from the input on */
        const dl_journal_node *n = &r->p.at[i];
        for (int k = 0; k < n->nin && k < 8 && !weighs(n) && !is_reduced(n); k++) r->raw[i] |= has_raw(r, &n->in[k]);
    }
    for (long i = 0; i < r->p.n; i++) { /* from the loss back */
        const dl_journal_node *n = &r->p.at[i];
        for (int k = 0; k < n->nin && k < 8; k++) {
            const long from = place_of(r->p, &n->in[k]);
            int meets = r->met[i];
            for (int j = 0; j < n->nin && j < 8; j++) meets |= j != k && has_raw(r, &n->in[j]);
            if (from >= 0) r->met[from] |= (char)meets;
        }
    }
    return 1;
}

/* ---------------------------------------------------------------- the place */

typedef struct maker {
    const dlsh_node *statement; /* h, z = layer(x), other(x) */
    const char *name;           /* that the layer's result gets; NULL: not found */
    const char *layer;
    int line;
} maker;

static int see_maker(void *ctx, const char *file, const dlsh_node *n) {
    maker *m = ctx;
    (void)file;
    if (n->kind != DLSH_N_ASSIGN || n->op) return 0;
    const dlsh_node *value = n->kids[n->nkids - 1];
    const int several = value->kind == DLSH_N_TUPLE && value->nkids == n->nkids - 1;
    for (int i = 0; i + 1 < n->nkids; i++) {
        const dlsh_node *v = several ? value->kids[i] : value;
        const int of_layer = *m->layer ? dlsh_mentions(v, m->layer) > 0 : n->span.line == m->line;
        if (!of_layer || n->kids[i]->kind != DLSH_N_NAME || (!several && n->nkids > 2)) continue;
        m->statement = n, m->name = n->kids[i]->text;
        return 1;
    }
    return 0;
}

/* Does an expression compute with a name, more than to ask for its form? */
static int computes_with(const dlsh_node *n, const char *name) {
    if (!n) return 0;
    if (dlsh_names(n, name)) return 1;
    const char *by = n->kind == DLSH_N_CALL ? n->kids[0]->text : n->kind == DLSH_N_FIELD ? n->text : NULL;
    if (by && (strstr(by, "_like") || dlsh_is_word("shape|ndim|dtype|device|size|numel|len", by))) return 0;
    for (int i = 0; i < n->nkids; i++)
        if (computes_with(n->kids[i], name)) return 1;
    return 0;
}

/* Does it compute with one of the names that a statement gives a value, other than `but`? */
static int uses_any(const dlsh_node *n, const dlsh_node *made, const char *but) {
    for (int i = 0; i + 1 < made->nkids; i++)
        if (made->kids[i]->kind == DLSH_N_NAME && strcmp(made->kids[i]->text, but) != 0 &&
            computes_with(n, made->kids[i]->text))
            return 1;
    return 0;
}

/* The name that a layer's call is given. */
static const char *argument_in(const dlsh_node *n, const char *layer) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_CALL && t.n->nkids > 1 && dlsh_names(t.n->kids[0], layer) &&
            t.n->kids[1]->kind == DLSH_N_NAME)
            return t.n->kids[1]->text;
    return NULL;
}

/* Was it made of the same as the layer's result? */
static int is_beside(const dlsh_node *s, const maker *m, const char *of) {
    return s == m->statement ||
           (of && s->kind == DLSH_N_ASSIGN && !s->op && dlsh_mentions(s->kids[s->nkids - 1], of) > 0);
}

/* The statement behind the layer's that goes on with what was made beside its result, and leaves that out. */
static int line_of_leaving(const dlsh_node *root, const maker *m) {
    const dlsh_node *around[64], *block = NULL;
    const int depth = dlsh_nodes_around(root, m->statement->span.start, around, 64);
    const char *of = argument_in(m->statement, m->layer);
    for (int i = 0; i < depth; i++)
        if (around[i]->kind == DLSH_N_BLOCK) block = around[i];
    for (int i = 0; block && i < block->nkids; i++) {
        const dlsh_node *s = block->kids[i];
        if (!s || s->span.start <= m->statement->span.start || s->kind == DLSH_N_RETURN || is_beside(s, m, of))
            continue;
        if (computes_with(s, m->name)) return 0;
        for (int k = 0; k < block->nkids; k++) {
            const dlsh_node *made = block->kids[k];
            if (made && made->span.start < s->span.start && is_beside(made, m, of) && uses_any(s, made, m->name))
                return s->span.line;
        }
    }
    return 0;
}

static void tell(dlsh_examination *e, const dl_journal_node *n) {
    char layer[64];
    snprintf(layer, sizeof layer, "%.*s", (int)strcspn(n->layer, "."), n->layer);
    maker m = {.layer = layer, .line = n->line};
    const dlsh_node *root = dlsh_text_root(dlsh_node_file(n));
    if (root) dlsh_each_node(see_maker, &m);
    const int leaves = root && m.name ? line_of_leaving(root, &m) : 0;
    const int drawn = leaves ? 0 : dlsh_line_of_sample(dlsh_node_file(n));
    dlsh_found(e, dlsh_node_file(n),
               leaves  ? leaves
               : drawn ? drawn
                       : dlsh_node_line(n),
               drawn ? DLSH_DRAW_WITH_HISTORY : "let what it gives go on to what is compared with the data",
               "what %s gives has no influence on what is compared with data%s%s%s\n"
               "its weights (line %d) get gradients only from a part of the loss that has no data in it, as one that "
               "keeps numbers small",
               *layer ? layer : n->op, leaves ? ": " : "", leaves ? m.name : "", leaves ? " is left out here" : "",
               dlsh_node_line(n));
}

/* ---------------------------------------------------------------- the check */

/* The weight of a node that is given results of other layers, or data, and gets a gradient; NULL: it has none. */
static const void *weight_of(const dl_journal_node *n) {
    const dl_journal_value *w = dlsh_node_weight(n, NULL);
    return w && !n->in[0].leaf && n->out.ndim > 1 && w->gradient > 0 ? w->leaf : NULL;
}

/* Do data meet what the weight makes at any of its uses? */
static int is_met(const reach *r, const void *weight) {
    for (long i = 0; i < r->p.n; i++)
        if (r->met[i] && weight_of(&r->p.at[i]) == weight) return 1;
    return 0;
}

/* ... in any training, as of a critic whose own loss has the data that an actor's has not? */
static int is_met_anywhere(const dlsh_examination *e, const void *weight) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        DLSH_SCOPED(reach_free) reach other = {.p = dlsh_pass_of(r, 1)};
        if (other.p.n && find_reach(&other) && is_met(&other, weight)) return 1;
    }
    return 0;
}

/* Was it run by a statement that asks for a gradient, as of a differential equation? */
static int is_of_gradient(const dlsh_examination *e, const dl_journal_node *n) {
    return dlsh_script_has(e, n->file, n->line, "grad(");
}

static void look_at_pass(dlsh_examination *e, dlsh_pass p) {
    DLSH_SCOPED(reach_free) reach r = {.p = p};
    const dl_journal_node *alone = NULL;
    int met = 0;
    for (long i = 0; i < p.n; i++)
        if (is_of_gradient(e, &p.at[i])) return; /* what it gives is met by its slope, too */
    if (p.n < 1 || !find_reach(&r)) return;
    for (long i = 0; i < p.n; i++) {
        const void *weight = weight_of(&p.at[i]);
        if (!weight) continue;
        met += r.met[i];
        if (!r.met[i] && !is_met(&r, weight)) alone = &p.at[i];
    }
    if (alone && met && !is_met_anywhere(e, weight_of(alone))) tell(e, alone);
}

dl_status dlsh_check_reach(dlsh_examination *e) {
    if (dlsh_was_found(e, "targets of the loss", "gradients")) return DL_OK; /* both sides are the net's: no data */
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (r->count >= 8) look_at_pass(e, dlsh_pass_of(r, 1));
    return DL_OK;
}
