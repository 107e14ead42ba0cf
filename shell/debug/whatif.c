/* `whatif`: the graph of the last backward pass is run again from what was recorded, once as it was and once with one
 * value or one op changed, and both losses and gradients are compared. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/debug.h"
#include "commands/context.h"
#include "debug/again.h"
#include "debug/finding.h"
#include "debug/walk.h"
#include "dlcore/copy.h"
#include "dlcore/view.h"
#include "lang/eval/interp.h"
#include "view/sink.h"

enum { MOST = 32, RESULTS = 8 };

/* A node of the pass, as recorded. */
typedef struct place {
    dl_recorded rule, forward;
} place;

/* A leaf of a run of the graph. */
typedef struct leaf {
    dl_tensor *was, *t, *grad; /* as recorded, borrowed; its stand-in and the gradient of that, owned */
    int needs;
    char name[80];
} leaf;

/* One run of the graph. */
typedef struct rerun {
    dl_tensor *(*out)[RESULTS]; /* [n] owned */
    leaf *leaves;
    int nleaves, cap;
    double loss;
} rerun;

typedef struct whatif {
    const dlsh_args *a;
    dlsh_session *s;
    place *nodes; /* the oldest first */
    int n;
    const dlsh_node *target, *value; /* of the assignment */
    dlsh_op op;
    int node;              /* whose result is changed; -1 */
    dl_tensor *leaf;       /* that is changed, owned; NULL */
    const char *is, *with; /* the op that is replaced; by which; NULL */
    int which;             /* of them in the order of the forward pass; -1: all */
    char attrs[200];
    int met, used; /* ops of that name so far; how often the change was made */
} whatif;

/* ---------------------------------------------------------------- the pass */

static int place_of(const whatif *w, unsigned long seq) {
    for (int from = 0, to = w->n; seq && from < to;) {
        int i = from + (to - from) / 2;
        if (w->nodes[i].rule.seq == seq) return i;
        if (w->nodes[i].rule.seq < seq)
            from = i + 1;
        else
            to = i;
    }
    return -1;
}

/* The gradient rules of the last pass: from the end of the recording back as long as the numbers of nodes rise. */
static dl_status find_pass(whatif *w) {
    long count = dl_recording_count();
    unsigned long newest = 0;
    dl_recorded c;
    w->nodes = calloc((size_t)count + 1, sizeof *w->nodes);
    if (!w->nodes) return dlsh_no_memory("nodes");
    for (long i = count - 1; i >= 0; i--) {
        DLSH_TRY(dl_recording_at(i, &c));
        if (!c.gradient) continue;
        if (c.seq <= newest) break;
        newest = c.seq;
        w->nodes[w->n++].rule = c;
    }
    for (long i = 0; i < count; i++) {
        DLSH_TRY(dl_recording_at(i, &c));
        int at = c.gradient ? -1 : place_of(w, c.seq);
        if (at >= 0) w->nodes[at].forward = c;
    }
    if (w->n) return DL_OK;
    return dlsh_arg_fail(w->a, NULL, DL_ERR_STATE, "set record full, then run forward and backward again",
                         "no backward pass was recorded");
}

/* Can each node be run again? */
static dl_status check_pass(const whatif *w) {
    char where[300];
    for (int i = 0; i < w->n; i++) {
        const dl_recorded *f = &w->nodes[i].forward, *r = &w->nodes[i].rule;
        dlsh_debug_place(r, where, sizeof where);
        if (!f->op)
            return dlsh_arg_fail(w->a, NULL, DL_ERR_STATE, "set record full before the forward pass, too",
                                 "%s was not recorded, only its gradient", where);
        if ((!f->redo && !dlsh_again_is_known(f)) || f->nin > MOST)
            return dlsh_arg_fail(w->a, NULL, DL_ERR_STATE, "compute the graph without it",
                                 "%s cannot be run again: it is random or writes to its operands", where);
        if (f->changed)
            return dlsh_arg_fail(w->a, NULL, DL_ERR_STATE, "run whatif after backward and before the optimizer's step",
                                 "an operand or the result of %s was written to since", where);
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- the change */

/* Variables that hold results or leaves of the graph, set to those of a run while an expression is evaluated. */
typedef struct bound {
    char *name;     /* of a global */
    dlsh_value *at; /* of a variable of the function that runs */
    dlsh_value old;
} bound;

static dl_tensor *stand_in(const whatif *w, const rerun *r, dl_tensor *t) {
    int at = place_of(w, dl_tape_number(t));
    if (at >= 0) return r->out[at][0];
    for (int i = 0; i < r->nleaves; i++)
        if (dlsh_debug_alike(r->leaves[i].was, t)) return r->leaves[i].t;
    return NULL;
}

static int locals_of(const whatif *w) {
    int n = 0;
    for (const char *name; dlsh_running_slot(w->s, 0, n, &name); n++) {}
    return n;
}

static int bind_locals(const whatif *w, const rerun *r, bound *b) {
    int n = 0;
    const char *name;
    dlsh_value *at;
    for (int k = 0; (at = dlsh_running_slot(w->s, 0, k, &name)); k++) {
        dl_tensor *t = at->type == DLSH_TENSOR ? stand_in(w, r, at->as.tensor) : NULL;
        if (!t) continue;
        b[n++] = (bound){.at = at, .old = *at};
        *at = dlsh_tensor(dl_ref(t));
    }
    return n;
}

static int bind(const whatif *w, const rerun *r, bound *b, int most) {
    int n = bind_locals(w, r, b), count = dlsh_global_count(w->s);
    for (int i = 0; i < count && n < most; i++) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(w->s, i, &v);
        dl_tensor *t = v && v->type == DLSH_TENSOR ? stand_in(w, r, v->as.tensor) : NULL;
        char *own = t ? strdup(name) : NULL;
        if (!own) continue;
        b[n++] = (bound){.name = own, .old = dlsh_ref(*v)};
        if (dlsh_set(w->s, own, dlsh_tensor(dl_ref(t)))) dl_error_clear();
    }
    return n;
}

static dl_status unbind(const whatif *w, bound *b, int n, dl_status st) {
    for (int i = 0; i < n; i++) {
        if (b[i].at) {
            dlsh_drop(*b[i].at);
            *b[i].at = b[i].old;
            continue;
        }
        dl_error before;
        dl_status had = st ? dl_error_take(&before) : DL_OK;
        if (dlsh_set(w->s, b[i].name, b[i].old)) dl_error_clear();
        if (had) dl_error_put(&before);
        free(b[i].name);
    }
    return st;
}

static dl_status value_of(const whatif *w, const rerun *r, dlsh_value *v) {
    int count = dlsh_global_count(w->s) + locals_of(w);
    DLSH_FREED bound *b = calloc((size_t)count + 1, sizeof *b);
    if (!b) return dlsh_no_memory("variables");
    int n = bind(w, r, b, count);
    return unbind(w, b, n, dlsh_eval(w->s, w->value, v));
}

/* The assignment, done to a copy of `t`, which it replaces. Takes t. */
static dl_tensor *apply(const whatif *w, const rerun *r, dl_tensor *t) {
    DLSH_DROPPED dlsh_value v = dlsh_void(), both = dlsh_void();
    dl_tensor *x = dl_clone(t);
    DLSH_OWNED dl_tensor *plain = NULL;
    dl_status st = x ? value_of(w, r, &v) : dl_failed();
    if (!st && w->target->kind == DLSH_N_INDEX)
        st = w->op ? dlsh_tensor_update_index(w->s, x, w->target, w->op, v) : dlsh_tensor_assign(w->s, x, w->target, v);
    else if (!st) {
        if (w->op) st = dlsh_tensor_binary(w->op, (dlsh_value){DLSH_TENSOR, {.tensor = t}}, v, &both);
        if (!st && !(plain = dlsh_operand(w->op ? both : v))) st = dl_failed();
        if (!st) st = dl_assign(x, plain);
    }
    dl_unref(t);
    if (st) dl_unref(x), x = NULL;
    return x;
}

/* ---------------------------------------------------------------- a run */

/* A variable's name, else that of the layer and the operand: linear0.weight. */
static void name_leaf(const whatif *w, const dl_recorded *c, int k, char *buf, size_t size) {
    const char *own = dlsh_nodewalk_name(w->s, c, k);
    dl_op_info op;
    const char *input = "";
    int known = dl_op_describe_name(c->op, &op);
    for (int i = 0; known && i < op.nargs; i++)
        if (op.args[i].input == k) input = op.args[i].name;
    if (*own)
        snprintf(buf, size, "%s", own);
    else
        snprintf(buf, size, "%s%s%s", *c->layer ? c->layer : c->op, *input ? "." : "", input);
}

static dl_tensor *leaf_of(whatif *w, rerun *r, const dl_recorded *c, int k, int needs, int change) {
    for (int i = 0; i < r->nleaves; i++)
        if (dlsh_debug_alike(r->leaves[i].was, c->in[k])) {
            if (needs && !r->leaves[i].needs) r->leaves[i].needs = !dl_set_requires_grad(r->leaves[i].t, 1);
            return r->leaves[i].t;
        }
    leaf *more = dlsh_grow(r->leaves, r->nleaves, &r->cap, sizeof *more);
    if (!more) return NULL;
    r->leaves = more;
    leaf l = {.was = c->in[k], .t = dl_detach(c->in[k]), .needs = needs};
    name_leaf(w, c, k, l.name, sizeof l.name);
    if (change && l.t && w->leaf && dlsh_debug_alike(w->leaf, c->in[k])) {
        DLSH_SCOPED_GRAD_MODE(0);
        w->used++;
        l.t = apply(w, r, l.t);
    }
    if (l.t && needs && dl_set_requires_grad(l.t, 1)) dl_unref(l.t), l.t = NULL;
    if (l.t) r->leaves[r->nleaves++] = l;
    return l.t;
}

/* An operand: a result of the run, a leaf, or what is outside the graph, as recorded. Borrowed. */
static dl_tensor *operand_of(whatif *w, rerun *r, int at, int k, int change) {
    const dl_recorded *f = &w->nodes[at].forward;
    unsigned long from = w->nodes[at].rule.from[k];
    int i = place_of(w, from);
    for (int o = 0; i >= 0 && o < w->nodes[i].forward.nout && o < RESULTS; o++)
        if (w->nodes[i].forward.out[o] && dlsh_debug_alike(w->nodes[i].forward.out[o], f->in[k])) return r->out[i][o];
    return from ? f->in[k] : leaf_of(w, r, f, k, w->nodes[at].rule.out[k] != NULL, change);
}

static dl_status run_node(whatif *w, rerun *r, int at, int change) {
    const dl_recorded *f = &w->nodes[at].forward;
    dl_tensor *in[MOST] = {NULL};
    int n = 0, named = change && w->with && !strcmp(f->op, w->is);
    int other = named && (w->which < 0 || w->which == w->met);
    w->met += named;
    for (int k = 0; k < f->nin; k++)
        if (f->in[k] && !(in[k] = operand_of(w, r, at, k, change))) return dl_failed();
    w->used += other;
    if (!other && !f->redo)
        DLSH_TRY(dlsh_again(f, in, r->out[at], &n));
    else
        DLSH_TRY(dl_op_call(other ? w->with : f->op, in, f->nin, other ? w->attrs : f->attrs, r->out[at], &n));
    if (!change || at != w->node) return DL_OK;
    w->used++;
    r->out[at][0] = apply(w, r, r->out[at][0]);
    return r->out[at][0] ? DL_OK : dl_failed();
}

static dl_status gradients_of(const whatif *w, rerun *r) {
    dl_tensor *root = r->out[w->n - 1][0], *grad = w->nodes[w->n - 1].rule.grad;
    dl_tensor **by = calloc(2 * (size_t)r->nleaves + 1, sizeof *by), **got = by ? by + r->nleaves : NULL;
    int n = 0;
    if (!by) return dlsh_no_memory("gradients");
    for (int i = 0; i < r->nleaves; i++)
        if (r->leaves[i].needs) by[n++] = r->leaves[i].t;
    dl_tensor *seed = grad ? dl_reshape(grad, dl_shape(root), dl_ndim(root)) : NULL; /* another op, another shape */
    dl_status st = grad && !seed ? dl_failed() : DL_OK;
    if (!st && n && dl_requires_grad(root)) st = dl_gradients(root, seed, by, n, 0, 0, got);
    dl_unref(seed);
    for (int i = 0, k = 0; i < r->nleaves && !st; i++)
        if (r->leaves[i].needs) r->leaves[i].grad = got[k++];
    free(by);
    return st;
}

static dl_status run_graph(whatif *w, rerun *r, int change) {
    DLSH_SCOPED_GRAD_MODE(1);
    r->out = calloc((size_t)w->n, sizeof *r->out);
    if (!r->out) return dlsh_no_memory("results");
    for (int i = 0; i < w->n; i++) {
        DLSH_TRY(run_node(w, r, i, change));
        DLSH_TRY(dlsh_check_interrupt());
    }
    dl_tensor *root = r->out[w->n - 1][0];
    if (dl_numel(root) != 1)
        return dlsh_arg_fail(w->a, NULL, DL_ERR_STATE, "backward of a loss, which is one number",
                             "the last backward pass began at %ld numbers", dl_numel(root));
    DLSH_TRY(dl_read_f64(root, &r->loss));
    return gradients_of(w, r);
}

static void free_run(const whatif *w, rerun *r) {
    for (int i = 0; r->out && i < w->n; i++)
        for (int o = 0; o < RESULTS; o++) dl_unref(r->out[i][o]);
    for (int i = 0; i < r->nleaves; i++) {
        dl_unref(r->leaves[i].t);
        dl_unref(r->leaves[i].grad);
    }
    free(r->out);
    free(r->leaves);
}

/* ---------------------------------------------------------------- what is changed */

static dl_status not_in_graph(const whatif *w) {
    DLSH_SCOPED_BUF ops = {0};
    for (int i = 0; i < w->n; i++) {
        int first = 1;
        for (int k = 0; k < i && first; k++) first = strcmp(w->nodes[k].rule.op, w->nodes[i].rule.op) != 0;
        if (first) dlsh_buf_printf(&ops, "%s%s", ops.n ? ", " : "", w->nodes[i].rule.op);
    }
    char hint[400];
    snprintf(hint, sizeof hint, "name a result or a leaf of it, or one of its ops: %s", dlsh_buf_text(&ops));
    const dlsh_span at = w->target->span;
    return dlsh_arg_fail(w->a, "change", DL_ERR_VALUE, hint, "%.*s is not part of the last backward pass",
                         at.end - at.start, w->s->unit->text + at.start);
}

/* relu = gelu, relu[1] = leaky_relu(negative_slope=0.1): an op of the graph that no variable is called like. */
static dl_status find_op(whatif *w, const dlsh_node *name) {
    const dlsh_node *v = w->value, *callee = v->kind == DLSH_N_CALL ? v->kids[0] : v;
    int there = 0;
    for (int i = 0; i < w->n; i++) there += !strcmp(w->nodes[i].rule.op, name->text);
    if (name != w->target && w->target->kids[1]->kind == DLSH_N_INT) w->which = (int)w->target->kids[1]->num.i;
    if (there <= w->which || (name != w->target && w->which < 0)) return not_in_graph(w);
    if (w->op || callee->kind != DLSH_N_NAME)
        return dlsh_arg_fail(w->a, "change", DL_ERR_SYNTAX, "whatif relu = gelu, whatif softmax = softmax(dim=0)",
                             "an op is replaced by an op, with its options in parentheses");
    dl_op_info info;
    if (!dl_op_describe_name(callee->text, &info))
        return dlsh_arg_fail(w->a, "change", DL_ERR_NAME, "help ops lists them", "there is no op called '%s'",
                             callee->text);
    size_t n = 0;
    for (int i = 1; v->kind == DLSH_N_CALL && i < v->nkids; i++) {
        const dlsh_node *k = v->kids[i];
        if (k->kind != DLSH_N_KWARG)
            return dlsh_arg_fail(w->a, "change", DL_ERR_SYNTAX, "operands stay those of the graph; write name=value",
                                 "an option of %s has no name", callee->text);
        const dlsh_span at = k->kids[0]->span;
        int len = snprintf(w->attrs + n, sizeof w->attrs - n, "%s%s=%.*s", n ? " " : "", k->text, at.end - at.start,
                           w->s->unit->text + at.start);
        n += (size_t)len;
        if (n >= sizeof w->attrs)
            return dlsh_arg_fail(w->a, "change", DL_ERR_VALUE, NULL, "the options take more than %zu bytes",
                                 sizeof w->attrs);
    }
    w->is = name->text;
    w->with = callee->text;
    return DL_OK;
}

/* Is it a variable of the function that runs, which is set? */
static int is_local(const whatif *w, const char *name) {
    const char *own;
    const dlsh_value *at;
    for (int k = 0; (at = dlsh_running_slot(w->s, 0, k, &own)); k++)
        if (at->type != DLSH_VOID && !strcmp(own, name)) return 1;
    return 0;
}

/* Whose value: of a node of the graph, or of a leaf. */
static dl_status find_value(whatif *w) {
    const dlsh_node *of = w->target->kind == DLSH_N_INDEX ? w->target->kids[0] : w->target;
    DLSH_DROPPED dlsh_value v = dlsh_void();
    DLSH_TRY(dlsh_eval(w->s, of, &v));
    if (v.type != DLSH_TENSOR) return not_in_graph(w);
    w->node = place_of(w, dl_tape_number(v.as.tensor));
    if (w->node < 0) w->leaf = dl_ref(v.as.tensor);
    return DL_OK;
}

static dl_status find_change(whatif *w) {
    const dlsh_node *n = dlsh_arg_node(w->a, "change");
    if (!n || n->kind != DLSH_N_ASSIGN || n->nkids != 2 || dlsh_holds_targets(n->kids[0]))
        return dlsh_arg_fail(w->a, "change", DL_ERR_SYNTAX, "whatif h[:, 4] = 0, whatif w *= 2, whatif relu = gelu",
                             "what is changed is written as one assignment");
    w->target = n->kids[0];
    w->value = n->kids[1];
    w->op = (dlsh_op)n->op;
    const dlsh_node *of = w->target->kind == DLSH_N_INDEX && w->target->nkids == 2 ? w->target->kids[0] : w->target;
    int variable = of->kind != DLSH_N_NAME || dlsh_get(w->s, of->text) || is_local(w, of->text);
    return variable ? find_value(w) : find_op(w, of);
}

/* ---------------------------------------------------------------- what is shown */

/* Norms of a gradient in both runs, and the element that changed most. */
static dl_status add_row(dlsh_table *t, const leaf *a, const leaf *b) {
    long n = dl_numel(a->was), at = 0;
    double *x = calloc(2 * (size_t)n + 1, sizeof *x), *y = x ? x + n : NULL, was = 0, is = 0, most = -1;
    char index[200] = "";
    if (!x) return dlsh_no_memory("gradients");
    dl_status st = a->grad ? dl_read_f64(a->grad, x) : DL_OK;
    if (!st && b->grad) st = dl_read_f64(b->grad, y);
    for (long i = 0; i < n; i++) {
        was += x[i] * x[i], is += y[i] * y[i];
        if (!(fabs(y[i] - x[i]) <= most)) most = fabs(y[i] - x[i]), at = i;
    }
    if (most > 0) dlsh_debug_index(a->was, at, index, sizeof index);
    if (!st)
        st = DLSH_TABLE_ROW(t, dlsh_string(a->name), dlsh_float(sqrt(was)), dlsh_float(sqrt(is)),
                            dlsh_float(n ? y[at] - x[at] : 0), dlsh_string(index));
    free(x);
    return st;
}

/* The active run keeps what was asked and the losses. */
static void keep(const whatif *w, const rerun *a, const rerun *b) {
    dlsh_finding f = {.by = "whatif", .check = "the graph of the last backward pass with a change"};
    dlsh_cause(&f, "%s", dlsh_arg_text(w->a, "change"));
    dlsh_evidence(&f, "loss %.9g, then %.9g", dlsh_plain_nan(a->loss), dlsh_plain_nan(b->loss));
    dlsh_finding_keep(w->s, &f);
}

static double norm_of(const dl_tensor *t) {
    double sum = 0, *x = t ? malloc(((size_t)dl_numel(t) + 1) * sizeof *x) : NULL;
    if (x && !dl_read_f64(t, x))
        for (long i = 0; i < dl_numel(t); i++) sum += x[i] * x[i];
    free(x);
    return sqrt(sum);
}

static dl_status push(dl_run *run, const char *group, const char *name, double v) {
    char key[120];
    snprintf(key, sizeof key, "%s%s", group, name);
    dl_series *s = dl_series_of(run, key);
    return s ? dl_series_push(s, 0, v) : dl_failed();
}

static dl_status fill_run(dl_run *run, const rerun *a, const rerun *b) {
    DLSH_TRY(push(run, "loss", "", b->loss));
    DLSH_TRY(push(run, "loss", "/before", a->loss));
    for (int i = 0; i < a->nleaves && i < b->nleaves; i++) {
        if (!a->leaves[i].needs) continue;
        DLSH_TRY(push(run, "grad_norm/", b->leaves[i].name, norm_of(b->leaves[i].grad)));
        DLSH_TRY(push(run, "grad_norm_before/", a->leaves[i].name, norm_of(a->leaves[i].grad)));
    }
    return DL_OK;
}

/* The run of that name, a child of the active one: the change as a parameter, losses and norms of gradients. */
static dl_status keep_run(const whatif *w, const rerun *a, const rerun *b) {
    const char *name = dlsh_arg_str(w->a, "run"), *change[] = {"whatif", dlsh_arg_text(w->a, "change"), NULL};
    dl_store *store = name ? dlsh_store(w->s) : NULL;
    if (!name || !store) return name ? dl_failed() : DL_OK;
    dl_run *active = dl_run_active();
    dl_run_spec spec = {
        .name = name, .seed = dl_seed_get(), .params = change, .parent = active ? dl_run_id(active) : 0};
    spec.device = dl_device_name(dlsh_default_device());
    dl_run *run = dl_run_begin(store, &spec);
    if (!run) return dl_failed();
    dl_status st = fill_run(run, a, b);
    long id = dl_run_id(run);
    dl_error before;
    dl_status had = st ? dl_error_take(&before) : DL_OK;
    dl_status ended = dl_run_end(run, st ? DL_RUN_FAILED : DL_RUN_FINISHED, NULL);
    if (had) dl_error_put(&before);
    if (!st && !ended) dlsh_put(dlsh_arg_sink(w->a), "kept as run %ld, %s\n", id, name);
    return st ? st : ended;
}

static dl_status show(const whatif *w, const rerun *a, const rerun *b) {
    dlsh_sink *sink = dlsh_arg_sink(w->a);
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"gradient of", 'l', ""}, {"norm", 'r', "%.5g"}, {"then", 'r', "%.5g"},
                                     {"largest change", 'r', "%.5g"}, {"at", 'l', ""});
    keep(w, a, b);
    dlsh_put(sink, "loss %.6g, then %.6g", dlsh_plain_nan(a->loss), dlsh_plain_nan(b->loss));
    if (isfinite(b->loss - a->loss)) dlsh_put(sink, ": %+.3g", b->loss - a->loss);
    dlsh_put(sink, "\n");
    for (int i = 0; i < a->nleaves && i < b->nleaves; i++)
        if (a->leaves[i].needs) DLSH_TRY(add_row(&t, &a->leaves[i], &b->leaves[i]));
    DLSH_TRY(dlsh_table_show(sink, &t, DL_OK, ""));
    return keep_run(w, a, b);
}

/* ---------------------------------------------------------------- the command */

static dl_status compare(whatif *w) {
    rerun a = {0}, b = {0};
    dl_status st = run_graph(w, &a, 0);
    if (!st) st = run_graph(w, &b, 1);
    if (!st && !w->used) st = not_in_graph(w);
    if (!st) st = show(w, &a, &b);
    free_run(w, &a);
    free_run(w, &b);
    return st;
}

static dl_status whatif_run(const dlsh_args *a) {
    whatif w = {.a = a, .s = dlsh_arg_session(a), .node = -1, .which = -1};
    int recording = dl_recording_set(0);
    dl_nan_policy policy = dl_nan_policy_get();
    dl_nan_policy_set(DL_NAN_OFF);
    dl_status st = find_pass(&w);
    if (!st) st = find_change(&w);
    if (!st) st = check_pass(&w);
    if (!st) st = compare(&w);
    dl_nan_policy_set(policy);
    dl_recording_set(recording);
    dl_unref(w.leaf);
    free(w.nodes);
    return st;
}

const dlsh_command whatif_commands[] = {
    DLSH_ROW(
        "whatif", DLSH_REPORT, whatif_run,
        "whatif [run=NAME] TENSOR = VALUE | whatif TENSOR[I, ...] = VALUE | whatif OP = OP | whatif OP[I] = OP",
        "Changes one value or op of the graph of the last backward pass, runs the graph again and shows how loss "
        "and gradients differ. It needs `set record full` before the forward pass, and comes before the "
        "optimizer's step. A result, such as h, or a leaf, such as a parameter, gets the value, or op= as in "
        "h *= 2; in the value, variables stand for the results of the new run, so that h = gelu(z) has its "
        "gradients, too. whatif relu = gelu replaces an op wherever the graph has it, relu[1] the second of them, "
        "softmax = softmax(dim=0) its options. An active run keeps both losses as an event; run=NAME keeps them, with "
        "the norms of the gradients, as a run, a child of the active one. Nothing else changes: "
        "no variable, no .grad. What has no gradient, as a mask, stays as it was, also that of dropout; batch norm "
        "in training takes the figures of the batch anew and leaves its averages alone. Within a function the "
        "names are those of its variables.",
        DLSH_PARAMS({"change", DLSH_ARG_STATEMENT, .flags = DLSH_SUPPOSED, .doc = "an assignment"}),
        DLSH_OPTIONS({"run", DLSH_OPT_WORD, NULL, .doc = "keeps the result as a run of that name"}),
        .examples = "set record full; w = param(ones(3)); h = w * 2; backward sum(h ** 2); whatif h[0] = 0\n"
                    "whatif w *= 0.5\nwhatif mul = sub"),
    {0}};
