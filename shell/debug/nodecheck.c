/* `gradcheck`: each node of a recorded computation by itself. Its op is run again in f64, and its gradient rule
 * compared with central differences of the same op, at up to SAMPLED elements of each operand. For second derivatives
 * the function that is compared is the rule itself, of the operands and of the gradient that comes in. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "commands/families.h"
#include "debug/again.h"
#include "debug/finding.h"
#include "debug/walk.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/reduce.h"
#include "view/sink.h"

enum { MOST = 32, SAMPLED = 24 };

/* A node under test: operands of its own, in f64, where they were and in host memory, and there the weights by which
 * its results are summed up. Behind the last operand, at nin, is the gradient that comes in, for the second order. */
typedef struct trial {
    dlsh_session *s;
    const dl_recorded *c;
    dlsh_custom_call custom; /* nargs 0: an op */
    int order;
    dl_tensor *in[MOST + 1], *host[MOST + 1];
    int needs[MOST]; /* operands that the rule gave a gradient */
} trial;

/* The operands that are differentiated by, as leaves. */
typedef struct leaves {
    dl_tensor *t[MOST + 1];
    int at[MOST + 1], n, operands; /* operands: without the gradient that comes in, which is the last */
} leaves;

/* An element, and what the rule and the differences say. */
typedef struct mismatch {
    int operand, kink;
    long element;
    double rule, difference, error, allowed;
} mismatch;

static const double steps[] = {1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7};

static dl_tensor *copy_of(dl_tensor *t) {
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_OWNED dl_tensor *f = dl_dtype_is_float(dl_dtype_of(t)) ? dl_to_dtype(t, DL_F64) : dl_ref(t),
                         *x = f ? dl_clone(f) : NULL;
    return x ? dl_contiguous(x) : NULL;
}

static dl_tensor *run_op(const trial *t) {
    dl_tensor *made[8] = {NULL};
    int n = 0;
    if (t->c->redo ? dl_op_call(t->c->op, (dl_tensor **)t->in, t->c->nin, t->c->attrs, made, &n)
                   : dlsh_again(t->c, t->in, made, &n))
        dl_error_clear(), n = 0;
    for (int i = 1; i < n; i++) dl_unref(made[i]);
    return n ? made[0] : NULL;
}

/* A function of the language with a gradient of its own. */
static dl_tensor *run_custom(const trial *t) {
    dlsh_value values[MOST], v = dlsh_void();
    for (int i = 0; i < t->custom.nargs; i++)
        values[i] = t->in[i] ? (dlsh_value){DLSH_TENSOR, {.tensor = t->in[i]}} : t->custom.args[i];
    if (dlsh_custom_again(t->c->call, &(dlsh_callargs){t->custom.nargs, values, NULL}, &v)) dl_error_clear();
    const dlsh_value first = v.type == DLSH_LIST && v.as.list->n ? v.as.list->items[0] : v;
    dl_tensor *y = first.type == DLSH_TENSOR ? dl_ref(first.as.tensor) : NULL;
    dlsh_drop(v);
    return y;
}

/* Result 0 of the node, in f64; NULL: it cannot be run so. */
static dl_tensor *run(const trial *t) {
    dl_tensor *y = t->custom.nargs ? run_custom(t) : run_op(t);
    if (!y || dl_dtype_of(y) == DL_F64) return y;
    return dl_unref(y), NULL;
}

/* In host memory, contiguous; NULL without a tensor. */
static dl_tensor *host_copy(dl_tensor *t) {
    dl_tensor *here = t ? dl_to_device(t, 0) : NULL, *c = here ? dl_contiguous(here) : NULL;
    dl_unref(here);
    return c;
}

/* Weights without symmetry, so that errors do not cancel; result k of several has its own. */
static dl_tensor *weights_for(const dl_tensor *y, int k) {
    dl_tensor *w = dl_zeros(dl_shape(y), dl_ndim(y), DL_F64, 0);
    double *v = w ? dl_data(w) : NULL;
    for (long i = 0; v && i < dl_numel(w); i++) v[i] = 0.5 + 0.5 * fabs(sin(1.7 * (double)i + 0.3 + 0.9 * k));
    return w;
}

/* Weights in the memory of the results. */
static dl_tensor *weights_at(const dl_tensor *y, int k) {
    dl_tensor *w = weights_for(y, k), *there = w ? dl_to_device(w, dl_device_of(y)) : NULL;
    dl_unref(w);
    return there;
}

static dl_status leaves_begin(const trial *t, leaves *l) {
    *l = (leaves){0};
    for (int i = 0; i < t->c->nin; i++)
        if (t->in[i] && dl_dtype_of(t->in[i]) == DL_F64 && t->needs[i]) l->t[l->n] = t->in[i], l->at[l->n++] = i;
    l->operands = l->n;
    if (t->order == 2) l->t[l->n] = t->in[t->c->nin], l->at[l->n++] = t->c->nin;
    for (int i = 0; i < l->n; i++) DLSH_TRY(dl_set_requires_grad(l->t[i], 1));
    return DL_OK;
}

static void leaves_end(const leaves *l) {
    for (int i = 0; i < l->n; i++) dl_set_requires_grad(l->t[i], 0);
}

/* Gradients of the weighted sum of the results by the operands among the leaves, from the rule; NULL: none. */
static dl_status rule_gradients(const trial *t, const leaves *l, int create, dl_tensor **g) {
    DLSH_SCOPED_GRAD_MODE(1);
    DLSH_OWNED dl_tensor *y = run(t);
    dl_status st = !y ? dlsh_no_memory("a node") : DL_OK;
    for (int i = 0; i < l->operands; i++) g[i] = NULL;
    if (!st && l->operands && dl_requires_grad(y))
        st = dl_gradients(y, t->in[t->c->nin], (dl_tensor **)l->t, l->operands, create, create, g);
    return st;
}

static void unref_all(dl_tensor **t, int n) {
    for (int i = 0; i < n; i++) dl_unref(t[i]);
}

/* The weighted sum of a result; NAN without one. */
static double weighed(dl_tensor *y, int k) {
    DLSH_OWNED dl_tensor *c = host_copy(y), *w = c ? weights_for(c, k) : NULL;
    const double *v = w ? dl_data(c) : NULL, *by = w ? dl_data(w) : NULL;
    double sum = v ? 0 : NAN;
    for (long j = 0; v && j < dl_numel(c); j++) sum += v[j] * by[j];
    return sum;
}

/* The weighted sum of the rule's gradients. */
static double rule_value(trial *t) {
    leaves l;
    dl_tensor *g[MOST + 1] = {NULL};
    double sum = 0;
    dl_status st = leaves_begin(t, &l);
    if (!st) st = rule_gradients(t, &l, 0, g);
    leaves_end(&l);
    for (int i = 0; i < l.operands; i++)
        if (g[i]) sum += weighed(g[i], i);
    unref_all(g, l.operands);
    if (st) dl_error_clear();
    return st ? NAN : sum;
}

static double forward_value(trial *t) {
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_OWNED dl_tensor *y = run(t);
    return weighed(y, 0);
}

/* The weighted sum of the results with operand k's element moved. */
static double value_at(trial *t, int k, long i, double by) {
    double *x = (double *)dl_data(t->host[k]) + i, kept = *x, sum = NAN;
    dl_tensor *was = t->in[k];
    *x = kept + by;
    t->in[k] = dl_to_device(t->host[k], dl_device_of(was));
    if (t->in[k]) sum = t->order == 2 ? rule_value(t) : forward_value(t);
    dl_unref(t->in[k]);
    t->in[k] = was;
    *x = kept; /* not before: a view shares the memory */
    return sum;
}

/* A kink: slopes from the left and the right differ however small the step, and the rule's value is between them. */
static int is_kink(trial *t, int k, long i, double rule, double allowed) {
    double h = 1e-7, here = value_at(t, k, i, 0);
    double left = (here - value_at(t, k, i, -h)) / h, right = (value_at(t, k, i, h) - here) / h, room = 1e-4 + allowed;
    return fabs(left - right) > 10 * room && rule >= fmin(left, right) - room && rule <= fmax(left, right) + room;
}

/* Differences at an element against the rule. Where the function bends sharply, as log near 0, a smaller step tells. */
static mismatch measure(trial *t, int k, long i, double x, double rule) {
    mismatch f = {.operand = k, .element = i, .rule = rule};
    for (double step = 1e-5; step > 5e-8; step /= 10) {
        double h = step * fmax(1, fabs(x)), up = value_at(t, k, i, h), down = value_at(t, k, i, -h);
        mismatch now = f;
        now.difference = (up - down) / (2 * h);
        now.error = fabs(rule - now.difference);
        now.allowed = 1e-5 * fmax(fabs(rule), fabs(now.difference)) + 1e-7 * (1 + fabs(up));
        if (now.error <= now.allowed) return now;
        if (step > 5e-6) f = now;
    }
    return f;
}

static void compare(trial *t, int k, const double *g, dlsh_nodecheck *sum, mismatch *worst) {
    long n = dl_numel(t->in[k]), stride = n > SAMPLED ? n / SAMPLED : 1;
    const double *x = dl_data(t->host[k]);
    for (long i = 0; i < n; i += stride) {
        mismatch f = measure(t, k, i, x[i], g ? g[i] : 0);
        sum->checked++;
        if (!(f.error <= f.allowed) && is_kink(t, k, i, f.rule, f.allowed)) {
            sum->kinks++;
            continue;
        }
        if (!(f.error / f.allowed <= worst->error / worst->allowed)) *worst = f;
    }
}

/* Central differences with smaller and smaller steps: where they agree with each other, they are right. */
static dlsh_value sweep(trial *t, const mismatch *f) {
    char text[200];
    size_t n = 0;
    for (size_t i = 0; i < DLSH_COUNT(steps) && n < sizeof text; i++) {
        double d = (value_at(t, f->operand, f->element, steps[i]) - value_at(t, f->operand, f->element, -steps[i])) /
                   (2 * steps[i]);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.6g", i ? ", " : "", dlsh_plain_nan(d));
    }
    return dlsh_string(text);
}

/* "operand 0[1, 2]", of second derivatives "second, incoming gradient[3]". */
static const char *element_text(const trial *t, const mismatch *f, char *buf, size_t size) {
    char index[200], operand[32];
    snprintf(operand, sizeof operand, f->operand < t->c->nin ? "operand %d" : "incoming gradient", f->operand);
    dlsh_debug_index(t->in[f->operand], f->element, index, sizeof index);
    snprintf(buf, size, "%s%s%s", t->order == 2 ? "second, " : "", operand, index);
    return buf;
}

static dlsh_finding finding_of(const trial *t, const char *check) {
    const dl_recorded *c = t->c;
    int layer = *c->layer != 0;
    return (dlsh_finding){.by = "gradcheck",
                          .check = check,
                          .op = c->op,
                          .layer = c->layer,
                          .pass = "backward",
                          .file = layer ? c->layer_file : c->file,
                          .line = layer ? c->layer_line : c->line};
}

static void keep(const trial *t, const mismatch *f) {
    int second = t->order == 2;
    char element[300];
    dlsh_finding found = finding_of(t, second ? "the second derivative of a node" : "the gradient rule of a node");
    dlsh_cause(&found,
               second ? "the derivative of the gradient rule of %s is wrong" : "the gradient rule of %s is wrong",
               t->c->op);
    dlsh_evidence(&found, "%s: rule %.6g, differences %.6g", element_text(t, f, element, sizeof element),
                  dlsh_plain_nan(f->rule), dlsh_plain_nan(f->difference));
    dlsh_finding_keep(t->s, &found);
}

static dl_status add_row(dlsh_table *table, trial *t, const mismatch *f) {
    char where[300], element[300];
    dlsh_debug_place(t->c, where, sizeof where);
    element_text(t, f, element, sizeof element);
    return DLSH_TABLE_ROW(table, dlsh_string(where), dlsh_string(element), dlsh_float(f->rule),
                          dlsh_float(f->difference), sweep(t, f));
}

/* The sum of the weighted gradients g of the operands, with its history. */
static dl_status weighed_sum(dl_tensor **g, int n, dl_tensor **total) {
    *total = NULL;
    for (int i = 0; i < n; i++) {
        if (!g[i] || !dl_requires_grad(g[i])) continue;
        DLSH_OWNED dl_tensor *w = weights_at(g[i], i), *p = w ? dl_mul(g[i], w) : NULL,
                             *s = p ? dl_sum(p, NULL, 0, 0) : NULL;
        dl_tensor *both = s && *total ? dl_add(*total, s) : dl_ref(s);
        dl_unref(*total);
        if (!(*total = both)) return dl_failed();
    }
    return DL_OK;
}

/* Derivatives of the weighted sum of the rule's gradients, by the operands and the gradient that comes in. */
static dl_status second_gradients(const trial *t, const leaves *l, dl_tensor **out) {
    DLSH_SCOPED_GRAD_MODE(1);
    dl_tensor *g[MOST + 1] = {NULL};
    DLSH_OWNED dl_tensor *total = NULL;
    dl_status st = rule_gradients(t, l, 1, g);
    if (!st) st = weighed_sum(g, l->operands, &total);
    if (!st && total) st = dl_gradients(total, NULL, (dl_tensor **)l->t, l->n, 0, 0, out);
    unref_all(g, l->operands);
    return st;
}

/* The derivatives by the leaves, in the order of the trial. */
static dl_status gradients(const trial *t, leaves *l, dl_tensor **g) {
    dl_status st = leaves_begin(t, l);
    if (!st) st = t->order == 2 ? second_gradients(t, l, g) : rule_gradients(t, l, 0, g);
    leaves_end(l);
    return st;
}

/* A rule that cannot be differentiated, as that of an op made in C, is no wrong one; it is said. */
static void note_without(const trial *t, dlsh_nodecheck *sum) {
    if (!sum->without++) dlsh_debug_place(t->c, sum->first_without, sizeof sum->first_without);
    dlsh_finding found = finding_of(t, "the second derivative of a node");
    dlsh_cause(&found, "the gradient of %s cannot be differentiated", t->c->op);
    dlsh_evidence(&found, "%s", dl_errmsg());
    dlsh_finding_keep(t->s, &found);
    dl_error_clear();
}

/* *wrong: the rule differs somewhere. */
static dl_status test_order(trial *t, int order, dlsh_nodecheck *sum, dlsh_table *table, int *wrong) {
    leaves l;
    dl_tensor *g[MOST + 1] = {NULL};
    t->order = order;
    *wrong = 0;
    dl_status st = gradients(t, &l, g);
    if (st && st != DL_ERR_INTERRUPT && order == 2) return note_without(t, sum), DL_OK;
    DLSH_TRY(st);
    mismatch worst = {.operand = -1, .error = -1, .allowed = 1};
    for (int i = 0; i < l.n; i++) {
        DLSH_OWNED dl_tensor *c = host_copy(g[i]);
        compare(t, l.at[i], c ? dl_data(c) : NULL, sum, &worst);
    }
    unref_all(g, l.n);
    if (worst.operand < 0 || worst.error <= worst.allowed) return DL_OK;
    *wrong = 1;
    keep(t, &worst);
    return add_row(table, t, &worst);
}

static dl_status test_node(trial *t, int second, dlsh_nodecheck *sum, dlsh_table *table) {
    int wrong;
    DLSH_TRY(test_order(t, 1, sum, table, &wrong));
    if (second && !wrong) DLSH_TRY(test_order(t, 2, sum, table, &wrong));
    sum->nodes++;
    sum->failed += wrong;
    return DL_OK;
}

/* ---------------------------------------------------------------- all nodes */

/* An operand and its copy in host memory. */
static int take(trial *t, int i, dl_tensor *x) {
    if (dl_dtype_is_complex(dl_dtype_of(x)) || !(t->in[i] = copy_of(x))) return 0;
    return (t->host[i] = host_copy(t->in[i])) != NULL;
}

static int take_operands(const dlsh_nodewalk *w, trial *t) {
    const dl_recorded *c = t->c;
    if (!(c->redo || dlsh_again_is_known(c)) || c->nin > MOST) return 0;
    for (int i = 0; i < c->nin; i++) {
        dl_tensor *x = dlsh_nodewalk_operand(w, c, i);
        if (x && !take(t, i, x)) return 0;
        t->needs[i] = c->out[i] != NULL;
        if (!x && (c->from[i] || t->needs[i])) return 0;
    }
    return 1;
}

/* Of a function: what its parts take from outside are the arguments that need a gradient, in their order. */
static int take_arguments(const dlsh_nodewalk *w, trial *t, int place) {
    dl_recorded c;
    int backward, k = 0;
    for (; k < t->custom.n && dlsh_nodewalk_node(w, place, &c, &backward) && c.call == t->c->call; place++) {
        if (strcmp(c.op, "expand") != 0) continue;
        dl_tensor *x = dlsh_nodewalk_operand(w, &c, 0);
        const int i = t->custom.differentiated[k++];
        if (!x || !take(t, i, x)) return 0;
        t->needs[i] = 1;
    }
    for (int i = 0; i < t->custom.nargs; i++)
        if (t->custom.args[i].type == DLSH_TENSOR && !take(t, i, t->custom.args[i].as.tensor)) return 0;
    return k == t->custom.n;
}

/* Without random numbers: twice the same. */
static int is_repeatable(trial *t, dl_tensor *y) {
    DLSH_OWNED dl_tensor *again = run(t);
    const double a = weighed(y, 0), b = weighed(again, 0);
    return a == b || (isnan(a) && isnan(b));
}

/* Copies of the operands, and the gradient that comes in; 0: the node cannot be run again. */
static int prepare(const dlsh_nodewalk *w, trial *t, int place) {
    const int n = t->c->nin;
    if (!(t->custom.nargs ? take_arguments(w, t, place) : take_operands(w, t))) return 0;
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_OWNED dl_tensor *y = run(t);
    if (!y || (t->custom.nargs && !is_repeatable(t, y))) return 0;
    t->in[n] = weights_at(y, 0);
    t->host[n] = host_copy(t->in[n]);
    return t->host[n] != NULL;
}

/* The node at a place, or the function whose first part it is. 0: another part of it. */
static int subject_at(const dlsh_nodewalk *w, int place, dl_recorded *c, dlsh_custom_call *custom) {
    dl_recorded before;
    int backward;
    *custom = (dlsh_custom_call){0};
    if (!c->composite || !dlsh_custom_call_of(c->call, custom)) return 1;
    if (dlsh_nodewalk_node(w, place - 1, &before, &backward) && before.call == c->call) return 0;
    c->op = c->composite;
    c->nin = custom->nargs;
    c->composite = NULL;
    return 1;
}

static dl_status check_all(dlsh_session *s, const dlsh_nodewalk *w, int second, dlsh_nodecheck *sum,
                           dlsh_table *table) {
    dl_status st = DL_OK;
    for (int i = 0; !st && i < w->n; i++) {
        dl_recorded c;
        int backward;
        if (!dlsh_nodewalk_node(w, i, &c, &backward)) break;
        trial t = {.s = s, .c = &c};
        if (!subject_at(w, i, &c, &t.custom)) continue;
        if (prepare(w, &t, i))
            st = test_node(&t, second, sum, table);
        else if (sum->skipped++ < 1)
            snprintf(sum->unchecked, sizeof sum->unchecked, "%s", c.op);
        for (int k = 0; k <= c.nin && k <= MOST; k++) DLSH_UNREF(t.in[k], t.host[k]);
        if (!st) st = dlsh_check_interrupt();
    }
    return st;
}

dl_status dlsh_nodecheck_run(dlsh_session *s, dlsh_sink *sink, dl_tensor *loss, int second, dlsh_nodecheck *sum) {
    dlsh_nodewalk w;
    *sum = (dlsh_nodecheck){.second = second};
    dlsh_table t = DLSH_TABLE({"node", 'l', ""}, {"element", 'l', ""}, {"rule", 'r', "%.6g"},
                              {"differences", 'r', "%.6g"}, {"with steps of 1e-2 to 1e-7", 'l', ""});
    DLSH_TRY(dlsh_nodewalk_begin(&w, loss, NULL));
    dl_nan_policy policy = dl_nan_policy_get();
    dl_nan_policy_set(DL_NAN_OFF);
    int recording = dl_recording_set(0);
    dl_status st = check_all(s, &w, second, sum, &t);
    dl_recording_set(recording);
    dl_nan_policy_set(policy);
    dlsh_nodewalk_go(&w, 0);
    dlsh_nodewalk_end(&w);
    return dlsh_table_show(sink, &t, st, "");
}

void dlsh_nodecheck_say(dlsh_sink *sink, const dlsh_nodecheck *sum) {
    char kinks[64] = "", skipped[160] = "";
    if (sum->kinks) snprintf(kinks, sizeof kinks, ", %ld at a kink, where any slope between is right", sum->kinks);
    if (sum->skipped)
        snprintf(skipped, sizeof skipped,
                 "; %ld not: random, writing to operands, without f64 or with operands not kept (%s)", sum->skipped,
                 sum->unchecked);
    dlsh_put(sink, "nodes by themselves%s: %ld of %ld wrong, %ld elements%s%s\n",
             sum->second ? ", second derivatives too" : "", sum->failed, sum->nodes, sum->checked, kinks, skipped);
    if (sum->without)
        dlsh_put(sink, "%ld without second derivatives, the first %s\n", sum->without, sum->first_without);
}
