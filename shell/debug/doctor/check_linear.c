/* Layers that add nothing: products behind products, without a function that bends between them. */
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/trace.h"

/* Ops that leave a product behind a product one product: sums with constants or parameters, factors, norms' averages.
 */
static const dl_journal_node *product_before(dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *from = dlsh_pass_source(p, n, 0);
    for (int i = 0; from && i < 4; i++) {
        if (dlsh_node_weight(from, NULL)) return from;
        const int second = from->nin > 1 && from->in[1].there;
        const int plain = dlsh_op_is(from, "add|sub") && second && (from->in[1].leaf || from->in[1].constant);
        if (!plain && !dlsh_op_is(from, "dropout")) return NULL;
        from = dlsh_pass_source(p, from, 0);
    }
    return NULL;
}

static long inputs_of(const dl_journal_value *w, int unit) {
    long n = 1;
    for (int d = 0; d < w->ndim; d++) n *= d == unit ? 1 : w->shape[d];
    return n;
}

/* A function that bends stands somewhere between the parameters and the loss's own ops. */
static int bends(dlsh_pass p) {
    static const char straight[] =
        "linear|matmul|conv2d|conv2d_norm|add|sub|mul|div|neg|mean|sum|dropout|reshape|view|restride|transfer|to|clone|"
        "expand|permute|transpose|squeeze|unsqueeze|flatten|as_strided|select|narrow|slice|contiguous|index_select|"
        "batch_norm|cat|embedding";
    for (long k = 0; k < p.n; k++) {
        if (dlsh_op_is(&p.at[k], straight)) continue;
        /* behind the last product it is the loss; weights that rest are constants */
        for (long i = 0; i < k; i++)
            if (dlsh_node_weight(&p.at[i], NULL) ||
                (dlsh_op_is(&p.at[i], "linear|matmul|conv2d") && p.at[i].in[1].constant && p.at[i].in[1].ndim > 1))
                return 1;
    }
    return 0;
}

/* How many operands are its result: of several the layer's result counts by itself, too. */
static int uses_of(dlsh_pass p, const dl_journal_node *n) {
    int uses = 0;
    DLSH_EACH_OP (m, p)
        DLSH_EACH_OPERAND (v, m) uses += v->there && v->from == n->seq;
    return uses;
}

/* The net statement around a line; NULL: none. */
static const dlsh_node *net_around(const dlsh_node *n, int line) {
    const dlsh_node *found = NULL;
    if (!n) return NULL;
    for (int i = 0; i < n->nkids && !found; i++) found = net_around(n->kids[i], line);
    if (found || n->kind != DLSH_N_NET) return found;
    const dlsh_node *layers = n->kids[n->nkids - 1], *last = layers->nkids ? layers->kids[layers->nkids - 1] : layers;
    return line >= n->span.line && line <= last->span.line ? n : NULL;
}

/* The result of one net that goes into another one is a result by itself. */
static int are_of_two_nets(const dl_journal_node *a, const dl_journal_node *b) {
    const dlsh_node *root = *a->layer_file ? dlsh_text_root(a->layer_file) : NULL;
    if (!root || strcmp(a->layer_file, b->layer_file) != 0) return 0;
    const dlsh_node *x = net_around(root, a->layer_line), *y = net_around(root, b->layer_line);
    return x && y && x != y;
}

/* Is a product the last of a layer that is not linear, as the projection of an attention is? */
static int ends_attention(dlsh_pass p, const dl_journal_node *n) {
    for (long k = 0; *n->layer && k < p.n; k++)
        if (dlsh_op_is(&p.at[k], "softmax|attention") && !strcmp(p.at[k].layer, n->layer)) return 1;
    return 0;
}

/* Where the activation belongs: behind the first product where forward calls it, else before the layer of the second.
 */
static dl_source place_between(const dl_journal_node *by, const dl_journal_node *n) {
    enum { DEEPEST = 32 };
    const dlsh_node *around[DEEPEST], *root = dlsh_text_root(by->file), *at = dlsh_statement_at(by->file, by->line);
    const int depth = root && at && *by->layer_file && by->line != by->layer_line
                          ? dlsh_nodes_around(root, at->span.start, around, DEEPEST)
                          : 0;
    int own = 0;
    for (int i = 0; i < depth; i++) own |= around[i]->kind == DLSH_N_NET;
    return own ? (dl_source){by->file, by->line} : (dl_source){dlsh_node_file(n), dlsh_node_line(n)};
}

/* Is a product of factors added to what is computed of the same input on another way, as the change of a weight of low
 * rank is? */
static int is_change_beside(dlsh_pass p, const dl_journal_node *by, const dl_journal_node *n) {
    const dl_journal_node *sum = dlsh_pass_user(p, n);
    for (int i = 0; i < 4 && dlsh_op_is(sum, "mul|dropout|div"); i++) n = sum, sum = dlsh_pass_user(p, n);
    if (!dlsh_op_is(sum, "add|add_scaled")) return 0;
    const int other = sum->in[0].from == n->seq;
    const dl_journal_node *from = dlsh_pass_source(p, sum, other), *x = dlsh_pass_source(p, by, 0);
    return x ? from && dlsh_is_made_of(p, from, x) : sum->in[other].there && sum->in[other].ndim > 1;
}

static void look_at_product(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n, int all_straight) {
    int unit, unit_before;
    const dl_journal_value *w = dlsh_node_weight(n, &unit);
    const dl_journal_node *by = w && dlsh_op_is(n, "linear|matmul") ? product_before(p, n) : NULL;
    const dl_journal_value *v = by && dlsh_op_is(by, "linear|matmul") ? dlsh_node_weight(by, &unit_before) : NULL;
    if (!v || w->leaf == v->leaf || uses_of(p, by) > 1 || are_of_two_nets(by, n) || ends_attention(p, by) ||
        is_change_beside(p, by, n))
        return;
    if (!all_straight && e->nfindings > e->nnotes) return; /* no hint beside a cause */
    const long in = inputs_of(v, unit_before), middle = v->shape[unit_before], out = w->shape[unit];
    if (middle < (in < out ? in : out)) return; /* a narrow middle is meant */
    const dl_source at = place_between(by, n);
    dlsh_finding *f = dlsh_find_at(e, at.file, at.line, "relu, gelu or tanh between the layers");
    char what[300];
    if (all_straight)
        dlsh_cause(f, "no activation between the layers: the whole net is one linear map");
    else
        dlsh_cause(f, "no activation between two layers: together they are one linear layer");
    dlsh_evidence(f,
                  "the result of %s goes into the next product as it is; %ld to %ld to %ld is no more than %ld to %ld",
                  dlsh_node_text(by, what, sizeof what), in, middle, out, in, out);
    if (!all_straight) dlsh_only_note(e, f);
}

dl_status dlsh_check_linear(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        dlsh_pass p = dlsh_pass_of(r, 1);
        const int straight = !bends(p);
        for (long k = p.n - 1; k >= 0; k--) look_at_product(e, p, &p.at[k], straight);
    }
    return DL_OK;
}
