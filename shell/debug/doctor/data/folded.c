/* Identifiers that a remainder brings to fewer numbers, shop % 16, so that different things share a row of a table of
 * vectors, where each one tells more of the targets than what it shares its number with. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

enum { EXPRESSIONS = 24, MOST_ROWS = 1 << 17, MOST_THINGS = 1 << 12, FEWEST_ROWS = 60, MOST_CLASSES = 32 };

/* Expressions that nets or data sets are given, and those that are targets. */
typedef struct given {
    const char *file;
    const dlsh_node *input[EXPRESSIONS], *target[EXPRESSIONS];
    int inputs, targets;
} given;

static void add(const dlsh_node **list, int *n, const dlsh_node *what) {
    if (what && *n < EXPRESSIONS) list[(*n)++] = what;
}

static void add_data_set(given *g, const dlsh_node *call) {
    const dlsh_node *first = dlsh_argument_of(call, 0, "x");
    if (first && !dlsh_is_record(first)) {
        add(g->input, &g->inputs, first), add(g->target, &g->targets, dlsh_argument_of(call, 1, "y"));
        return;
    }
    for (int i = 0; first && i < first->nkids; i++) {
        const dlsh_node *f = first->kids[i];
        const int target = f->kind == DLSH_N_KWARG && dlsh_is_word("y|test_y", f->text);
        if (f->kind == DLSH_N_KWARG) add(target ? g->target : g->input, target ? &g->targets : &g->inputs, f->kids[0]);
    }
}

static void find_given(const dlsh_examination *e, const char *file, given *g) {
    *g = (given){.file = file};
    DLSH_EACH_BELOW (t, dlsh_text_root(file)) {
        if (t.n->kind != DLSH_N_CALL) continue;
        if (dlsh_is_call_of(t.n, "dataset")) add_data_set(g, t.n);
        if (dlsh_call_of_net(e, file, t.n) == t.n)
            for (int i = 1; i < t.n->nkids; i++) add(g->input, &g->inputs, t.n->kids[i]);
        if (t.n->kids[0]->text && dlsh_speaks_of(t.n->kids[0]->text, "loss|entropy"))
            add(g->target, &g->targets, dlsh_argument_of(t.n, 1, "target"));
    }
}

/* ---------------------------------------------------------------- what is folded */

typedef struct search {
    const dlsh_examination *e;
    const dlsh_node *fold; /* the remainder */
    const dlsh_node *of;   /* the name of what it is taken of */
    long rows;             /* of what is searched for; 0: any */
    const dl_tensor *found;
} search;

static dlsh_property has_rows(void *ctx, const dlsh_step *at) {
    search *s = ctx;
    const dlsh_value *v = at->n->kind == DLSH_N_NAME ? dlsh_value_of(s->e, at->file, at->n) : NULL;
    const dl_tensor *t = v && v->type == DLSH_TENSOR && !dl_requires_grad(v->as.tensor) ? v->as.tensor : NULL;
    const long n = t ? dl_numel(t) : 0;
    if (n < FEWEST_ROWS || n > MOST_ROWS || n != dl_shape(t)[0] || (s->rows && n != s->rows)) return DLSH_MAY_HAVE;
    if (!s->rows && dl_dtype_is_float(dl_dtype_of(t))) return DLSH_MAY_HAVE;
    return s->found = t, DLSH_HAS_FIRST;
}

static int is_remainder(const dlsh_node *n) {
    return (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MOD) || dlsh_is_call_of(n, "remainder");
}

/* Is it that remainder, also of other rows? */
static int is_same(const search *s, const char *file, const dlsh_node *n) {
    return is_remainder(n) && dlsh_same_text(file, n->kids[n->nkids - 1], s->fold->kids[s->fold->nkids - 1]);
}

/* Does a way come to the remainder? */
static dlsh_property is_fold(void *ctx, const dlsh_step *at) {
    return at->n == ((search *)ctx)->fold ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* ... or past it to what it is taken of? */
static dlsh_property goes_past(void *ctx, const dlsh_step *at) {
    const search *s = ctx;
    if (is_same(s, at->file, at->n)) return DLSH_HAS_NOT;
    return dlsh_names(at->n, s->of->text) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

static int reaches(const given *g, search *s, dlsh_has_property *has) {
    for (int i = 0; i < g->inputs; i++)
        if (dlsh_origin(g->file, g->input[i], has, s)) return 1;
    return 0;
}

static int place_of_argument(const dlsh_node *net, const dlsh_node *name) {
    const dlsh_node *forward = dlsh_forward_of(net->kids[net->nkids - 1]);
    for (int k = 0; forward && k + 1 < forward->nkids; k++)
        if (forward->kids[k]->kind == DLSH_N_PARAM && dlsh_names(name, forward->kids[k]->text)) return k;
    return -1;
}

/* What a call of a net gives an argument of its forward, or the data set of a trainer by its name; NULL: none does. */
static const dlsh_node *given_to_net(const char *file, const dlsh_node *net, const dlsh_node *name) {
    const int place = place_of_argument(net, name);
    DLSH_EACH_BELOW_IF (t, dlsh_text_root(file), place >= 0) {
        if (t.n->kind == DLSH_N_CALL && net->text && dlsh_names(t.n->kids[0], net->text))
            return dlsh_argument_of(t.n, place, name->text);
        const dlsh_node *all = dlsh_is_call_of(t.n, "dataset") ? dlsh_argument_of(t.n, 0, "x") : NULL;
        const dlsh_node *value = name->kind == DLSH_N_NAME ? dlsh_value_of_key(all, name->text) : NULL;
        if (value) return value;
    }
    return NULL;
}

/* Does a net read what it takes the remainder of elsewhere, too? */
static int reads_past(const search *s, const char *file, const dlsh_node *net, const dlsh_node *name) {
    DLSH_EACH_BELOW_IF (t, net, !is_same(s, file, t.n))
        if (name->kind != DLSH_N_NAME || dlsh_names(t.n, name->text)) return 1;
    return 0;
}

/* ---------------------------------------------------------------- what numbers tell of targets */

/* The share of the spread of y that the means of groups explain, beyond what they do by chance. */
static double explained(const double *y, const long *group, long n, long groups) {
    DLSH_FREED double *sum = calloc((size_t)groups, sizeof *sum), *count = calloc((size_t)groups, sizeof *count);
    double all = 0, squares = 0, between = 0, used = 0;
    for (long i = 0; sum && count && i < n; i++)
        sum[group[i]] += y[i], count[group[i]]++, all += y[i], squares += y[i] * y[i];
    for (long g = 0; sum && count && g < groups; g++)
        if (count[g] > 0) between += sum[g] * sum[g] / count[g], used++;
    const double total = squares - all * all / (double)n, left = squares - between, m = (double)n;
    return total > 0 && m > used + 1 ? 1 - (left / (m - used)) / (total / (m - 1)) : 0;
}

/* ... of several classes, of each against the others. */
static double told(const double *y, int classes, const long *group, long n, long groups) {
    DLSH_FREED double *is = malloc((size_t)n * sizeof *is);
    double sum = 0, weight = 0;
    if (classes < 3) return explained(y, group, n, groups);
    for (int c = 0; is && c < classes; c++) {
        double share = 0;
        for (long i = 0; i < n; i++) is[i] = y[i] == c, share += is[i] / (double)n;
        sum += share * (1 - share) * explained(is, group, n, groups), weight += share * (1 - share);
    }
    return weight > 0 ? sum / weight : 0;
}

static int by_value(const void *a, const void *b) { return dlsh_by_size(a, b); }

/* Which of its different values each number is; how many; 0: more than MOST_THINGS. */
static long number_values(const double *v, long n, long *which) {
    DLSH_FREED double *value = malloc((size_t)n * sizeof *value);
    long k = 0;
    if (!value) return 0;
    memcpy(value, v, (size_t)n * sizeof *value);
    qsort(value, (size_t)n, sizeof *value, by_value);
    for (long i = 0; i < n; i++)
        if (!k || value[i] != value[k - 1]) value[k++] = value[i];
    if (k > MOST_THINGS) return 0;
    for (long i = 0; i < n; i++) which[i] = (double *)bsearch(&v[i], value, (size_t)k, sizeof *value, by_value) - value;
    return k;
}

/* Do neighbouring numbers have like means? Then they are a quantity, as days, rather than names. */
static int is_quantity(const double *y, const long *which, long n, long things) {
    DLSH_FREED double *sum = calloc((size_t)things, sizeof *sum), *count = calloc((size_t)things, sizeof *count);
    for (long i = 0; sum && count && i < n; i++) sum[which[i]] += y[i], count[which[i]]++;
    for (long g = 0; sum && count && g < things; g++) sum[g] /= count[g];
    return sum && things > 2 && dlsh_agree(sum, sum + 1, things - 1, 0) > 0.4;
}

static void compare(dlsh_examination *e, const given *g, const search *s, const dl_tensor *y, long k) {
    const long n = dl_numel(s->found);
    DLSH_FREED double *id = malloc((size_t)n * sizeof *id), *target = malloc((size_t)n * sizeof *target);
    DLSH_FREED long *which = malloc((size_t)n * sizeof *which), *fold = malloc((size_t)n * sizeof *fold);
    if (!id || !target || !which || !fold || dl_read_f64(s->found, id) || dl_read_f64(y, target)) return;
    const long things = number_values(id, n, which);
    if (things <= k || 3 * things > n) return;
    double most = 0;
    for (long i = 0; i < n; i++) fold[i] = (((long)id[i] % k) + k) % k, most = fmax(most, target[i]);
    const int classes = !dl_dtype_is_float(dl_dtype_of(y)) && most < MOST_CLASSES ? (int)most + 1 : 0;
    const double own = told(target, classes, which, n, things), shared = told(target, classes, fold, n, k);
    const double chance = 3 * sqrt(2.0 * (double)things) / (double)n;
    if (!(own > shared + 0.1 + chance)) return;
    dlsh_finding *f = dlsh_found(
        e, g->file, s->fold->span.line, "a number of its own for each: the values as they are, and a row for each",
        "different values of %s share a number, by %% %ld: what is learned of the one is taken for the others, too\n"
        "%ld values become %ld; by its own value each tells %.2g of the spread of the targets, by the shared number "
        "%.2g",
        s->of->text, k, things, k, own, shared);
    if (is_quantity(target, which, n, things)) dlsh_only_note(e, f);
}

/* Is it compared with a number, as to choose some rows, id % 5 == 0? */
static int is_compared(const dlsh_tree *t) {
    const dlsh_node *around = t->depth ? t->within[t->depth - 1] : NULL;
    return dlsh_is_comparison(around);
}

void dlsh_find_folded(dlsh_examination *e) {
    static given g;
    DLSH_EACH_NODE (t) {
        const double k =
            is_remainder(t.n) && !is_compared(&t) ? dlsh_number_of(e, t.file, t.n->kids[t.n->nkids - 1]) : 0;
        if (!(k > 1) || k != floor(k) || k > MOST_THINGS) continue;
        const dlsh_node *what = t.n->kids[0]->kind == DLSH_N_FIELD ? t.n->kids[0]->kids[0] : t.n->kids[t.n->nkids - 2];
        search s = {.e = e, .fold = t.n};
        find_given(e, t.file, &g);
        const dlsh_node *net = dlsh_net_around(dlsh_text_root(t.file), t.n->span.start);
        const dlsh_node *field = net ? given_to_net(t.file, net, what) : NULL;
        s.of = dlsh_origin(t.file, field ? field : what, has_rows, &s);
        if (!s.of ||
            (net ? reads_past(&s, t.file, net, what) : !reaches(&g, &s, is_fold) || reaches(&g, &s, goes_past)))
            continue;
        search y = {.e = e, .rows = dl_numel(s.found)};
        for (int i = 0; i < g.targets && !y.found; i++) dlsh_origin(t.file, g.target[i], has_rows, &y);
        if (y.found && y.found != s.found) compare(e, &g, &s, y.found, (long)k);
    }
    dl_error_clear();
}
