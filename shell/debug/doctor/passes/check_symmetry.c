/* Initial weights: units, columns and parts that begin alike and stay so, and factors that both begin with 0. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/trace.h"

/* Are all units of a weight the same, but for rounding, which steps carry on? Units run along dimension `unit`, 0 or
 * the last. */
static int units_alike(const dl_tensor *w, int unit) {
    long units = dl_shape(w)[unit], n = dl_numel(w), each = units ? n / units : 0;
    DLSH_FREED double *v = malloc((size_t)(n + 1) * sizeof *v);
    int alike = units > 1 && v && !dl_read_f64(w, v);
    double largest = 0;
    for (long i = 0; alike && i < n; i++) largest = fmax(largest, fabs(v[i]));
    for (long i = 0; alike && i < each; i++)
        for (long u = 1; alike && u < units; u++) {
            double a = unit ? v[i * units] : v[i], b = unit ? v[i * units + u] : v[u * each + i];
            alike = fabs(a - b) <= 1e-6 * (fabs(a) + fabs(b)) + 1e-5 * largest;
        }
    return alike;
}

/* Does a later weight follow, a vector too? The last layer may begin with zeros. */
int dlsh_is_hidden(dlsh_pass p, const dl_journal_node *n) {
    for (int k = 0; n && k < 40; k++) {
        n = dlsh_pass_user(p, n);
        if (n && dlsh_op_is(n, "matmul|linear|conv2d|conv2d_norm") && n->in[1].there && n->in[1].leaf) return 1;
    }
    return 0;
}

static int is_computed(const dl_journal_value *v) { return v->there && !v->constant && !v->leaf; }

/* Does its result, element by element, meet what goes past it, so that this tells its units apart? */
static int is_met(dlsh_pass p, const dl_journal_node *n) {
    static const char alone[] = "mul|dropout|reshape|clamp|exp|softplus|sigmoid|tanh|add|div|neg|sqrt";
    for (int i = 0; i < 8; i++) {
        n = dlsh_pass_user(p, n);
        if (dlsh_op_is(n, "add|mul") && is_computed(&n->in[0]) && is_computed(&n->in[1])) return 1;
        if (!n || !dlsh_op_is(n, alone)) return 0;
    }
    return 0;
}

/* The operand of a pass that is a leaf as it is, whose units were compared; NULL: it has none. */
static const dl_journal_value *leaf_in(dlsh_pass p, const void *leaf) {
    DLSH_EACH_OP_UP (m, p)
        DLSH_EACH_OPERAND (v, m)
            if (v->there && v->leaf == leaf && v->units) return v;
    return NULL;
}

/* Did units that began with zeros get gradients that differ? Then nothing is alike after the first step. */
static int are_told_apart(dlsh_pass p, const dl_journal_value *v) {
    if (v->turned) v = leaf_in(p, v->leaf);
    return v && v->mean == 0 && v->units && v->gradient > 0 && v->twins < 2;
}

/* seed 7, in a function or a loop: it begins the same random numbers each time. */
static dl_source seed_in_loop(void) {
    DLSH_EACH_NODE (t) {
        int again = 0;
        for (int i = 0; i < t.depth; i++) again |= dlsh_is_loop(t.within[i]) || t.within[i]->kind == DLSH_N_FN;
        const char *by = t.n->kind == DLSH_N_COMMAND && t.n->num.cmd ? t.n->num.cmd->name : NULL;
        if (again && ((by && !strcmp(by, "seed") && t.n->nkids) || dlsh_is_call_of(t.n, "seed|manual_seed")))
            return (dl_source){t.file, t.n->span.line};
    }
    return (dl_source){NULL, 0};
}

/* Units, or parts, that were made one by one and began with the same random numbers. Was it found? */
static int is_seeded_again(dlsh_examination *e, const char *what) {
    const dl_source at = seed_in_loop();
    if (!at.line) return 0;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (!strcmp(r->file, at.file) && !dlsh_is_before_loop(at.file, at.line, r->line)) return 0;
    dlsh_found(e, at.file, at.line, "seed once, before all of them",
               "%s are the same: the random numbers are seeded anew for each of them\n"
               "with the same seed each begins with the same numbers, and gets the same gradient",
               what);
    return 1;
}

/* Where param(w) has its numbers from, by the name w; else its own line. */
static int line_of_numbers(dl_source at) {
    const dlsh_node *s = dlsh_statement_at(at.file, at.line);
    DLSH_EACH_BELOW (t, s)
        if (dlsh_is_call_of(t.n, "param") && t.n->nkids > 1 && t.n->kids[1]->kind == DLSH_N_NAME) {
            const dlsh_node *made = dlsh_made(at.file, t.n->kids[1]);
            return made ? made->span.line : at.line;
        }
    return at.line;
}

static int may_be_zero(const dl_journal_value *v) {
    return v->there && !v->constant && (!v->n || (v->low == 0 && v->high == 0));
}

/* The leaf of zeros by which an operand of a node is 0, through views, products and what leaves 0 as it is; *by: the
 * node that takes it. NULL: it is not 0, or by something else. */
static const dl_journal_value *zero_leaf(dlsh_pass p, const dl_journal_node *n, const dl_journal_value *v,
                                         const dl_journal_node **by, int depth) {
    static const char keeping[] =
        "reshape|view|restride|transfer|to|clone|expand|permute|transpose|squeeze|unsqueeze|select|narrow|slice|"
        "index_select|gather|bag_sum|sum|mean|relu|tanh|gelu_erf|gelu_tanh|silu|leaky_relu|elu|neg|dropout";
    const dl_journal_value *found = NULL;
    if (!may_be_zero(v) || depth > 8) return NULL;
    if (v->leaf) return v->n ? *by = n, v : NULL;
    n = dlsh_pass_node(p, v->from);
    const int product = dlsh_op_is(n, "mul|matmul|linear|conv2d|conv_volume");
    if (product && n->nin > 2 && !may_be_zero(&n->in[2])) return NULL; /* a bias */
    if (product || dlsh_op_is(n, keeping)) found = zero_leaf(p, n, &n->in[0], by, depth + 1);
    return product && !found ? zero_leaf(p, n, &n->in[1], by, depth + 1) : found;
}

int dlsh_has_two_zeros(dlsh_pass p, const dl_journal_node *n, const dl_journal_node *by[2],
                       const dl_journal_value *leaf[2]) {
    if (!dlsh_op_is(n, "mul|matmul|linear|conv2d|conv_volume")) return 0;
    for (int k = 0; k < 2; k++) {
        leaf[k] = n->in[k].gradient > 0 ? NULL : zero_leaf(p, n, &n->in[k], &by[k], 0);
        if (!leaf[k]) return 0;
    }
    return leaf[0]->leaf != leaf[1]->leaf;
}

static void look_at_zeros(dlsh_examination *e, dlsh_pass first, dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *by[2];
    const dl_journal_value *v[2];
    dl_source at[2];
    char name[2][120];
    if (!dlsh_has_two_zeros(p, n, by, v)) return;
    for (int k = 0; k < 2; k++) {
        if (!dlsh_live_leaf(e, v[k]->leaf, name[k], sizeof name[k])) return;
        const dl_source layer = {by[k]->layer_file, by[k]->layer_line}, set = dlsh_set_at(e, first, v[k]);
        at[k] = set.file
                    ? set
                    : dlsh_constant_in_net(name[k], *by[k]->layer_file ? layer : dlsh_leaf_source(e, v[k], v[k]->made));
    }
    const int upper = at[1].line < at[0].line;
    if (at[upper].file)
        dlsh_found(e, at[upper].file, at[upper].line,
                   "0 for the other one alone; this one begins with random numbers, such as randn(n, m) * 0.1",
                   "%s and %s both begin with 0: what is multiplied with 0 gets no gradient, and neither ever changes\n"
                   "line %d makes %s, line %d multiplies them: the gradient of each is a product with the other one, "
                   "which is 0",
                   name[upper], name[!upper], at[!upper].line, name[!upper], n->line);
}

static void look_at_weight(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    int unit;
    char name[120];
    const dl_journal_value *v = dlsh_node_weight(n, &unit);
    dl_tensor *w = v && dlsh_is_hidden(p, n) ? dlsh_live_leaf(e, v->leaf, name, sizeof name) : NULL;
    int constant = v && v->n > 1 && v->std <= 1e-6 * fabs(v->mean) && v->shape[unit] > 1;
    if (w && dl_ndim(w) != v->ndim) return;
    const int apart = !constant || is_met(p, n) || are_told_apart(p, v);
    if (w ? !units_alike(w, v->turned && dl_ndim(w) == 2 ? 1 - unit : unit) && apart
          : !constant || !dlsh_is_hidden(p, n))
        return;
    dl_source maker = {dlsh_node_file(n), dlsh_node_line(n)}, writer = maker;
    if (w) dlsh_tensor_places(w, &maker, &writer);
    if (w && maker.file) maker.line = line_of_numbers(maker);
    if (!w) snprintf(name, sizeof name, "%s", *v->name ? v->name : n->op);
    if (!w && !*n->layer_file) maker = dlsh_constant_parameter(maker);
    if (*n->layer_file) maker = (dl_source){n->layer_file, n->layer_line};
    if (w && !constant && is_seeded_again(e, dlsh_kept(e, "all units of %s", name))) return;
    maker = dlsh_constant_in_net(name, maker);
    const char *file = maker.file;
    int line = maker.line;
    const dl_source set = dlsh_set_at(e, p, v);
    if (set.file) file = set.file, line = set.line;
    dlsh_finding *f = dlsh_find_at(e, file, line, "initialise weights with random numbers");
    dlsh_cause(f, "all units of %s are the same: they began alike, so that they get the same gradient", name);
    if (w && set.file)
        dlsh_evidence(f, "its %ld units %s the same weights, which this line set", v->shape[unit],
                      constant ? "began with" : "have");
    else if (w)
        dlsh_evidence(f, "its %ld units %s the same weights, which line %d made", v->shape[unit],
                      constant ? "began with" : "have", maker.line);
    else
        dlsh_evidence(f, "its %ld units began with the same weights, all of them %.3g", v->shape[unit], v->mean);
}

/* ---------------------------------------------------------------- parts that are copies of each other */

static int are_equal(const dl_tensor *a, const dl_tensor *b) {
    const long n = dl_numel(a);
    DLSH_FREED double *x = malloc((size_t)(n + 1) * sizeof *x), *y = malloc((size_t)(n + 1) * sizeof *y);
    double largest = 0, apart = 0;
    if (dl_numel(b) != n || !x || !y || dl_read_f64(a, x) || dl_read_f64(b, y)) return dl_error_clear(), 0;
    for (long i = 0; i < n; i++) largest = fmax(largest, fabs(x[i])), apart = fmax(apart, fabs(x[i] - y[i]));
    return apart <= 1e-5 * largest;
}

/* Two weights that began with the same numbers and got the same gradient. */
static int are_twins(const dl_journal_value *a, const dl_journal_value *b) {
    if (a->leaf == b->leaf || a->ndim != b->ndim || memcmp(a->shape, b->shape, sizeof a->shape) != 0) return 0;
    if ((!(a->std > 0) && !(a->n == 1 && a->mean != 0)) || a->hash != b->hash || !(a->gradient > 0)) return 0;
    return fabs(a->gradient - b->gradient) <= 1e-5 * a->gradient;
}

/* The first copy that the texts make of something. */
static dl_source copy_at(dl_source otherwise) {
    DLSH_EACH_NODE (t)
        if (dlsh_is_method(t.n, "copy") || dlsh_is_method(t.n, "clone") ||
            (t.n->kind == DLSH_N_CALL && dlsh_names(t.n->kids[0], "deepcopy")))
            return (dl_source){t.file, t.n->span.line};
    return otherwise;
}

static void look_at_twins(dlsh_examination *e, dlsh_pass p) {
    for (long k = p.n - 1; k >= 0 && !e->bad; k--)
        for (long i = k - 1; i >= 0; i--) {
            char name[120], other[120];
            const dl_journal_value *v = dlsh_node_weight(&p.at[k], NULL), *w = dlsh_node_weight(&p.at[i], NULL);
            if (!v || !w || !are_twins(v, w)) continue;
            dl_tensor *a = dlsh_live_leaf(e, v->leaf, name, sizeof name);
            dl_tensor *b = dlsh_live_leaf(e, w->leaf, other, sizeof other);
            if (!a || !b || !are_equal(a, b) || !dlsh_is_being_trained(e, a) || !dlsh_is_being_trained(e, b)) continue;
            const dl_source made = dlsh_weight_source(e, &p.at[k]);
            const dl_source c = copy_at((dl_source){NULL, 0}), at = c.line ? c : made;
            if (!c.line && is_seeded_again(e, dlsh_kept(e, "%s and %s", name, other))) return;
            if (!dlsh_found(e, at.file, at.line, "make each anew, with random numbers of its own",
                            "%s and %s began alike and get the same gradient: these parts stay copies of each other\n"
                            "they had the same numbers and gradients of %.3g in the first pass, and are equal still",
                            name, other, v->gradient))
                return;
            dlsh_mark_effects(e, "gradients get through"); /* as that of a gate between equal answers */
            return;
        }
}

/* ---------------------------------------------------------------- some units that are alike */

/* Are the units scores of classes? Those that no sample has get the same gradient. */
static int are_classes(dlsh_pass p, const dl_journal_node *n) {
    for (int i = 0; i < 4 && (n = dlsh_pass_user(p, n)); i++) {
        if (dlsh_op_is(n, "cross_entropy|nll_picked|nll_loss")) return 1;
        if (!dlsh_op_is(n, "add|reshape|view|log_softmax|transpose|permute|gather|index")) return 0;
    }
    return 0;
}

/* Vectors of a table, as of users, that all began with one number: each of their elements then is the same. */
static void look_at_columns(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    char name[120];
    const dl_journal_value *weight = dlsh_node_weight(n, NULL);
    DLSH_EACH_OPERAND (v, n) {
        if (v == weight || !v->there || !v->leaf || v->ndim != 2 || v->n < 2 || v->shape[1] < 2) continue;
        dl_tensor *w = v->std <= 1e-6 * fabs(v->mean) ? dlsh_live_leaf(e, v->leaf, name, sizeof name) : NULL;
        if (!w || dl_ndim(w) != 2 || units_alike(w, 0) || !units_alike(w, 1) || !dlsh_is_being_trained(e, w)) continue;
        const dl_source set = dlsh_set_at(e, p, v), at = set.file ? set : v->made;
        dlsh_found(e, at.file, at.line, "begin with random numbers, such as randn(n, m) * 0.1",
                   "all columns of %s are the same: they began alike, so that they get the same gradient\n"
                   "its %ld columns began with %.3g; line %d uses them, and they are equal still: together they do "
                   "what one could",
                   name, v->shape[1], v->mean, n->line);
    }
}

/* Rows of a parameter that began with the same numbers and get the same gradient, first and last, as the components of
 * a mixture whose head begins with zeros. */
static void look_at_twin_units(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, const dl_journal_node *n) {
    char name[120];
    for (int j = 0; j < n->nin && j < 8 && !e->bad; j++) {
        const dl_journal_value *v = &n->in[j];
        if (!v->there || !v->leaf || v->twins < 2 || are_classes(p, n)) continue;
        if (v->ndim == 1 && v->twins < v->units) continue; /* biases of some units are not all that these have */
        const dl_journal_value *then = r->count > 1 ? leaf_in(dlsh_pass_of(r, 1), v->leaf) : NULL;
        dl_tensor *w = then && then->twins > 1 ? dlsh_live_leaf(e, v->leaf, name, sizeof name) : NULL;
        if (!w || !dlsh_is_being_trained(e, w)) continue;
        const dl_source of = *n->layer_file ? (dl_source){n->layer_file, n->layer_line} : v->made;
        const dl_source made = dlsh_constant_in_net(name, of);
        const dl_source set = dlsh_set_at(e, p, v), at = set.file ? set : made;
        if (!dlsh_found(e, at.file, at.line,
                        "begin with random numbers that differ, in what tells the units apart at least, "
                        "as the means of components",
                        "%ld of %ld units of %s are the same: they began alike and get the same gradient\n"
                        "in the first pass (line %d) each of them has the numbers and the gradient of another one, in "
                        "the last one looked at %ld still; together they do what fewer could",
                        v->twins, v->units, name, r->line, then->twins))
            return;
        dlsh_mark_effects(e, "gradients get through");
    }
}

dl_status dlsh_check_symmetry(dlsh_examination *e) {
    long nodes = 0, weights = 0;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        dlsh_pass p = dlsh_pass_of(r, 0), last = dlsh_pass_of(r, 1);
        DLSH_EACH_OP_UP (n, last) look_at_zeros(e, p, last, n);
        if (dlsh_was_found(e, e->check, "both begin with 0")) continue;
        for (long k = p.n - 1; k >= 0; k--) look_at_weight(e, p, &p.at[k]), look_at_columns(e, p, &p.at[k]);
        look_at_twins(e, p);
        for (long k = p.n - 1; k >= 0 && !e->bad; k--) look_at_twin_units(e, r, p, &p.at[k]);
        for (long k = 0; k < p.n; k++) weights += dlsh_node_weight(&p.at[k], NULL) != NULL;
        nodes += p.n;
    }
    if (weights)
        dlsh_passed(e,
                    weights == 1
                        ? "the %ld weight looked at has no units that are all alike"
                        : "of %ld weights looked at none has units that are all alike, and none is the copy of "
                          "another one",
                    weights);
    else if (nodes)
        dlsh_unchecked(e, "no op with a weight of several units was seen");
    return DL_OK;
}
