/* The order of the rows of samples and of their labels, as the text makes both: parts one behind the other, or in turn;
 * a random order for each. */
#include <math.h>
#include <string.h>

#include "debug/doctor/data/pools.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

/* Rows are numbered by two places, the outer one first. cat([a, b]) has 2 outer ones, stack([a, b], 1).reshape(...) 2
 * inner ones, y.repeat(3) 3 outer and y.repeat_interleave(3) 3 inner ones. */
typedef struct order {
    const dlsh_examination *e;
    const dlsh_node *by; /* what gives the rows their order; NULL: not known */
    long outer, inner;   /* 0: not known */
} order;

static const dlsh_node *with_method(const dlsh_node *n, const char *names) {
    return dlsh_is_call_of(n, names) && n->kids[0]->kind == DLSH_N_FIELD ? n->kids[0]->kids[0] : NULL;
}

static long count(const order *o, const dlsh_step *at, const dlsh_node *n) {
    const double k = dlsh_number_of(o->e, at->file, n);
    return k >= 2 && k == floor(k) && k < 1e9 ? (long)k : 0;
}

/* The items of a list that is written out; 0: it is none. */
static long items_of(const dlsh_node *n) { return n && n->kind == DLSH_N_LIST && n->nkids > 1 ? n->nkids : 0; }

/* The dimension that an argument of a call names; 0 without one. */
static double dimension(const order *o, const dlsh_step *at, int place) {
    const dlsh_node *n = dlsh_argument_of(at->n, place, "dim");
    return n ? dlsh_number_of(o->e, at->file, n) : 0;
}

static int take(order *o, const dlsh_step *at, long outer, long inner) {
    o->by = outer || inner ? at->n : NULL, o->outer = outer, o->inner = inner;
    return o->by != NULL;
}

/* stack([a, b], 1), whose first two dimensions become rows. */
static int takes_stacked(order *o, const dlsh_step *at) {
    const dlsh_node *of = with_method(at->n, "reshape|flatten|view");
    if (!dlsh_is_call_of(of, "stack") || of->nkids < 2) return 0;
    const dlsh_step s = {.file = at->file, .n = of};
    const double dim = dimension(o, &s, 1);
    const long k = items_of(of->kids[1]);
    return k && (dim == 0 || dim == 1) && take(o, at, dim == 0 ? k : 0, dim == 1 ? k : 0);
}

static dlsh_property has_order(void *ctx, const dlsh_step *at) {
    order *o = ctx;
    const dlsh_node *n = at->n;
    if (n->kind != DLSH_N_CALL) return DLSH_MAY_HAVE;
    if (dlsh_call_of_net(o->e, at->file, n)) return DLSH_HAS_NOT;
    if (takes_stacked(o, at)) return DLSH_HAS_FIRST;
    if (n->nkids > 1 && n->kids[0]->kind == DLSH_N_NAME && dlsh_is_call_of(n, "cat|concat") && dimension(o, at, 1) == 0)
        return take(o, at, items_of(n->kids[1]), 0) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
    const int named = n->kids[0]->kind == DLSH_N_NAME, first = named ? 2 : 1;
    if (n->nkids <= first || n->kids[first]->kind == DLSH_N_KWARG) return DLSH_MAY_HAVE;
    const long k = count(o, at, n->kids[first]);
    const dlsh_value *v = dlsh_value_of(o->e, at->file, named ? n->kids[1] : n->kids[0]->kids[0]);
    const long rows = v && v->type == DLSH_TENSOR && dl_ndim(v->as.tensor) ? dl_shape(v->as.tensor)[0] : 0;
    if (!k) return DLSH_MAY_HAVE;
    if (dlsh_is_call_of(n, "repeat|tile")) return take(o, at, k, rows) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
    if (dlsh_is_call_of(n, "repeat_interleave") && dimension(o, at, first) == 0)
        return take(o, at, rows, k) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
    return DLSH_MAY_HAVE;
}

/* Has one of them that number of parts in turn, the other one behind each other? */
static int differ(const order *a, const order *b) {
    return a->inner && a->inner == b->outer && a->outer != a->inner && a->outer != b->outer && b->inner != a->inner;
}

void dlsh_find_row_order(dlsh_examination *e, const dlsh_samples *s) {
    const dlsh_node *x = dlsh_part_of_data(e, s, DLSH_ROLE_INPUT), *y = dlsh_part_of_data(e, s, DLSH_ROLE_TARGET);
    order of_x = {.e = e}, of_y = {.e = e};
    if (!x || !y || x == y || !s->file || !s->target_file) return;
    dlsh_origin(s->file, x, has_order, &of_x), dlsh_origin(s->target_file, y, has_order, &of_y);
    if (!of_x.by || !of_y.by || !(differ(&of_x, &of_y) || differ(&of_y, &of_x))) return;
    const int turn = differ(&of_x, &of_y);
    dlsh_found(e, s->target_file, of_y.by->span.line,
               turn ? "make both in one order: inputs with cat([...], 0), too, or labels with repeat_interleave"
                    : "make both in one order: copies behind each other need y.repeat(k), copies in turn "
                      "y.repeat_interleave(k)",
               "labels do not belong to their inputs: their rows are in another order\n"
               "the rows of inputs are %s (line %d), those of labels %s (line %d)",
               turn ? "those of each part in turn" : "parts, one behind the other", of_x.by->span.line,
               turn ? "parts, one behind the other" : "those of each part in turn", of_y.by->span.line);
}

/* ---------------------------------------------------------------- random orders */

/* A draw of an order that the other way does not come through, in the same call of its function. */
typedef struct drawn {
    const dlsh_course *other;
    const dlsh_node *taken; /* the rows that are taken by it */
    const dlsh_node *call;  /* the outermost one that leads there; NULL: none */
} drawn;

static dlsh_property is_draw(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    return dlsh_is_call_of(at->n, "randperm") && !dlsh_argument_of(at->n, 99, "generator") ? DLSH_HAS_FIRST
                                                                                           : DLSH_MAY_HAVE;
}

static int is_drawn_there(const dlsh_course *c, const dlsh_node *draw, const dlsh_node *call) {
    for (int i = 0; i < c->n; i++)
        if (c->at[i].n == draw && (c->at[i].call == call || !call || !c->at[i].call)) return 1;
    return 0;
}

static dlsh_property takes_alone(void *ctx, const dlsh_step *at) {
    drawn *d = ctx;
    const dlsh_node *n = at->n, *rows = n->kind == DLSH_N_INDEX && n->nkids == 2 ? n->kids[1] : NULL;
    if (dlsh_is_call_of(n, "index_select")) rows = n->kids[n->nkids - 1];
    if (!rows || rows->kind == DLSH_N_SLICE) return DLSH_MAY_HAVE;
    const dlsh_node *draw = dlsh_origin_at(at, rows, is_draw, NULL);
    const int within = draw == rows || (at->call && rows->kind == DLSH_N_NAME); /* drawn in that call */
    if (!draw || is_drawn_there(d->other, draw, within ? at->call : NULL)) return DLSH_MAY_HAVE;
    return d->taken = n, d->call = dlsh_outer_call(at), DLSH_HAS_FIRST;
}

static int sets_seed(const char *file) {
    DLSH_EACH_BELOW (t, dlsh_text_root(file))
        if (t.n->kind == DLSH_N_FN)
            DLSH_EACH_BELOW (k, t.n)
                if (k.n->kind == DLSH_N_COMMAND && k.n->num.cmd && !strcmp(k.n->num.cmd->name, "seed")) return 1;
    return 0;
}

/* Does one tell of the other, as far as the values of their variables are known? */
static int tell(const dlsh_examination *e, const char *file, const dlsh_node *x, const dlsh_node *y) {
    const dlsh_value *v = dlsh_value_of(e, file, x), *w = dlsh_value_of(e, file, y);
    return v && w && v->type == DLSH_TENSOR && w->type == DLSH_TENSOR && dl_ndim(v->as.tensor) &&
           dlsh_labels_tell(v->as.tensor, w->as.tensor);
}

/* Where rows of both are taken, each in an order that is drawn for it alone. */
static int are_drawn_apart(const char *file, const dlsh_node *in, const dlsh_node *x, const dlsh_node *y, int *a,
                           int *b) {
    static dlsh_course way[2];
    dlsh_course_in(file, x, in, &way[0]), dlsh_course_in(file, y, in, &way[1]);
    drawn of_x = {.other = &way[1]}, of_y = {.other = &way[0]};
    if (!dlsh_origin_in(file, x, in, takes_alone, &of_x) || !dlsh_origin_in(file, y, in, takes_alone, &of_y)) return 0;
    const int helper = of_x.taken == of_y.taken && of_x.call && of_y.call; /* that runs for each */
    *a = helper ? of_x.call->span.line : of_x.taken->span.line;
    *b = helper ? of_y.call->span.line : of_y.taken->span.line;
    return 1;
}

int dlsh_line_of_two_draws(const char *file, const dlsh_node *x, const dlsh_node *y, int otherwise) {
    const dlsh_node *around[DLSH_AROUND], *root = dlsh_text_root(file);
    int a, b, depth = x && y ? dlsh_functions_around(root, x->span.start, around) : 0;
    if (!x || !y) return otherwise;
    while (depth && !around[depth - 1]->text) depth--; /* of a comprehension */
    DLSH_EACH_BELOW (t, depth ? root : NULL)
        if (t.n->kind == DLSH_N_CALL && dlsh_names(t.n->kids[0], around[depth - 1]->text) &&
            are_drawn_apart(file, t.n, x, y, &a, &b))
            return a > b ? a : b;
    return are_drawn_apart(file, NULL, x, y, &a, &b) ? (a > b ? a : b) : otherwise;
}

/* x[randperm(n)] beside y[randperm(n)]: each has an order of its own. */
static void look_at_draws(dlsh_examination *e, const char *file, const dlsh_node *x, const dlsh_node *y) {
    int a, b;
    if (!are_drawn_apart(file, NULL, x, y, &a, &b) || sets_seed(file) || tell(e, file, x, y)) return;
    dlsh_found(e, file, a > b ? a : b, "one order for both: p = randperm(n); x = x[p]; y = y[p]",
               "labels do not belong to their inputs: both are put in a random order of their own\n"
               "line %d draws the order of inputs, line %d another one for labels",
               a, b);
}

void dlsh_find_two_draws(dlsh_examination *e) {
    DLSH_EACH_NODE (t)
        for (int i = 1; dlsh_is_call_of(t.n, "dataset") && i + 1 < t.n->nkids && i < 4; i += 2)
            if (t.n->kids[i]->kind != DLSH_N_STR && t.n->kids[i + 1]->kind != DLSH_N_KWARG)
                look_at_draws(e, t.file, t.n->kids[i], t.n->kids[i + 1]);
}
