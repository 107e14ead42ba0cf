/* `gradcheck`: each node of a recorded computation by itself. Its op is run again in f64, and its gradient rule
 * compared with central differences of the same op, at up to SAMPLED elements of each operand. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "debug/finding.h"
#include "debug/walk.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "view/sink.h"

enum { MOST = 32, SAMPLED = 24 };

/* A node under test: operands of its own, in f64, where they were and in host memory, and there the weights by which
 * its results are summed up. */
typedef struct trial {
    dlsh_session *s;
    const dl_recorded *c;
    dl_tensor *in[MOST], *host[MOST], *weights;
    int needs[MOST]; /* operands that the rule gave a gradient */
} trial;

/* An element, and what the rule and the differences say. */
typedef struct mismatch {
    int operand, kink;
    long element;
    double rule, difference, error, allowed;
} mismatch;

static const double steps[] = {1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7};

static dl_tensor *copy_of(dl_tensor *t) {
    DLSH_SCOPED_GRAD_MODE(0);
    dl_tensor *f = dl_dtype_is_float(dl_dtype_of(t)) ? dl_to_dtype(t, DL_F64) : dl_ref(t), *x = f ? dl_clone(f) : NULL;
    dl_tensor *c = x ? dl_contiguous(x) : NULL;
    dl_unref(f);
    dl_unref(x);
    return c;
}

/* Result 0 of the op, in f64; NULL: it cannot be run so. */
static dl_tensor *run(const trial *t) {
    dl_tensor *made[8] = {NULL};
    int n = 0;
    if (dl_op_call(t->c->op, (dl_tensor **)t->in, t->c->nin, t->c->attrs, made, &n)) dl_error_clear(), n = 0;
    for (int i = 1; i < n; i++) dl_unref(made[i]);
    if (n && dl_dtype_of(made[0]) == DL_F64) return made[0];
    if (n) dl_unref(made[0]);
    return NULL;
}

/* In host memory, contiguous; NULL without a tensor. */
static dl_tensor *host_copy(dl_tensor *t) {
    dl_tensor *here = t ? dl_to_device(t, 0) : NULL, *c = here ? dl_contiguous(here) : NULL;
    dl_unref(here);
    return c;
}

/* The op with operand k as it is in host memory. */
static dl_tensor *run_with(trial *t, int k) {
    dl_tensor *was = t->in[k];
    t->in[k] = dl_to_device(t->host[k], dl_device_of(was));
    dl_tensor *y = t->in[k] ? run(t) : NULL;
    dl_unref(t->in[k]);
    t->in[k] = was;
    return y;
}

/* The weighted sum of the results with operand k's element moved. */
static double value_at(trial *t, int k, long i, double by) {
    DLSH_SCOPED_GRAD_MODE(0);
    double *x = (double *)dl_data(t->host[k]) + i, kept = *x, sum = 0;
    *x = kept + by;
    dl_tensor *y = run_with(t, k), *c = host_copy(y);
    const double *v = c ? dl_data(c) : NULL, *w = dl_data(t->weights);
    for (long j = 0; v && j < dl_numel(c); j++) sum += v[j] * w[j];
    if (!v) sum = NAN;
    *x = kept; /* not before: a view shares the memory */
    dl_unref(y);
    dl_unref(c);
    return sum;
}

/* Weights without symmetry, so that errors do not cancel. */
static dl_tensor *weights_for(const dl_tensor *y) {
    dl_tensor *w = dl_zeros(dl_shape(y), dl_ndim(y), DL_F64, 0);
    double *v = w ? dl_data(w) : NULL;
    for (long i = 0; v && i < dl_numel(w); i++) v[i] = 0.5 + 0.5 * fabs(sin(1.7 * (double)i + 0.3));
    return w;
}

/* A kink: slopes from the left and the right differ however small the step, and the rule's value is between them. */
static int is_kink(trial *t, int k, long i, double rule, double allowed) {
    double h = 1e-7, here = value_at(t, k, i, 0);
    double left = (here - value_at(t, k, i, -h)) / h, right = (value_at(t, k, i, h) - here) / h, room = 1e-4 + allowed;
    return fabs(left - right) > 10 * room && rule >= fmin(left, right) - room && rule <= fmax(left, right) + room;
}

static void compare(trial *t, int k, const double *g, dlsh_nodecheck *sum, mismatch *worst) {
    long n = dl_numel(t->in[k]), stride = n > SAMPLED ? n / SAMPLED : 1;
    const double *x = dl_data(t->host[k]);
    for (long i = 0; i < n; i += stride) {
        double h = 1e-5 * fmax(1, fabs(x[i])), up = value_at(t, k, i, h), down = value_at(t, k, i, -h);
        mismatch f = {.operand = k, .element = i, .rule = g ? g[i] : 0, .difference = (up - down) / (2 * h)};
        f.error = fabs(f.rule - f.difference);
        f.allowed = 1e-5 * fmax(fabs(f.rule), fabs(f.difference)) + 1e-7 * (1 + fabs(up));
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
    for (size_t i = 0; i < sizeof steps / sizeof *steps && n < sizeof text; i++) {
        double d = (value_at(t, f->operand, f->element, steps[i]) - value_at(t, f->operand, f->element, -steps[i])) /
                   (2 * steps[i]);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.6g", i ? ", " : "", dlsh_plain_nan(d));
    }
    return dlsh_string(text);
}

static void keep(const trial *t, const mismatch *f) {
    const dl_recorded *c = t->c;
    int layer = *c->layer != 0;
    char index[200];
    dlsh_finding found = {.by = "gradcheck",
                          .check = "the gradient rule of a node",
                          .op = c->op,
                          .layer = c->layer,
                          .pass = "backward",
                          .file = layer ? c->layer_file : c->file,
                          .line = layer ? c->layer_line : c->line};
    dlsh_debug_index(t->in[f->operand], f->element, index, sizeof index);
    dlsh_cause(&found, "the gradient rule of %s is wrong", c->op);
    dlsh_evidence(&found, "operand %d%s: rule %.6g, differences %.6g", f->operand, index, dlsh_plain_nan(f->rule),
                  dlsh_plain_nan(f->difference));
    dlsh_finding_keep(t->s, &found);
}

static dl_status add_row(dlsh_table *table, trial *t, const mismatch *f) {
    char where[300], index[200];
    dlsh_debug_place(t->c, where, sizeof where);
    dlsh_debug_index(t->in[f->operand], f->element, index, sizeof index);
    return dlsh_table_row(table, (dlsh_value[]){dlsh_string(where), dlsh_stringf("operand %d%s", f->operand, index),
                                                dlsh_float(f->rule), dlsh_float(f->difference), sweep(t, f)});
}

/* Gradients of the weighted sum of the results by the operands, from the rule. NULL: none. */
static dl_status rule_gradients(trial *t, dl_tensor **leaf, int *at, int n, dl_tensor **g) {
    DLSH_SCOPED_GRAD_MODE(1);
    dl_tensor *y = NULL, *by[MOST], *got[MOST] = {NULL};
    dl_status st = DL_OK;
    for (int i = 0; i < n && !st; i++) st = dl_set_requires_grad(leaf[i], 1);
    if (!st && !(y = run(t))) st = dlsh_no_memory("a node");
    for (int i = 0; i < n; i++) by[i] = leaf[i];
    dl_tensor *seed = !st ? dl_to_device(t->weights, dl_device_of(y)) : NULL;
    if (!st && !seed) st = dl_failed();
    if (!st && dl_requires_grad(y)) st = dl_gradients(y, seed, by, n, 0, 0, got);
    dl_unref(seed);
    for (int i = 0; i < n; i++) g[at[i]] = got[i];
    for (int i = 0; i < n; i++) dl_set_requires_grad(leaf[i], 0);
    dl_unref(y);
    return st;
}

static dl_status test_node(trial *t, dlsh_nodecheck *sum, dlsh_table *table) {
    dl_tensor *leaf[MOST], *g[MOST] = {NULL};
    int at[MOST], n = 0;
    for (int i = 0; i < t->c->nin; i++)
        if (t->in[i] && dl_dtype_of(t->in[i]) == DL_F64 && t->needs[i]) leaf[n] = t->in[i], at[n++] = i;
    DLSH_TRY(rule_gradients(t, leaf, at, n, g));
    mismatch worst = {.operand = -1, .error = -1, .allowed = 1};
    for (int i = 0; i < n; i++) {
        dl_tensor *c = host_copy(g[at[i]]);
        compare(t, at[i], c ? dl_data(c) : NULL, sum, &worst);
        dl_unref(c);
        dl_unref(g[at[i]]);
    }
    sum->nodes++;
    if (worst.operand < 0 || worst.error <= worst.allowed) return DL_OK;
    sum->failed++;
    keep(t, &worst);
    return add_row(table, t, &worst);
}

/* ---------------------------------------------------------------- all nodes */

/* Copies of the operands; 0: the node cannot be run again. */
static int prepare(const dlsh_nodewalk *w, trial *t) {
    const dl_recorded *c = t->c;
    if (!c->redo || c->nin > MOST) return 0;
    for (int i = 0; i < c->nin; i++) {
        dl_tensor *x = dlsh_nodewalk_operand(w, c, i);
        if (x && (dl_dtype_is_complex(dl_dtype_of(x)) || !(t->in[i] = copy_of(x)))) return 0;
        if (x && !(t->host[i] = host_copy(t->in[i]))) return 0;
        t->needs[i] = c->out[i] != NULL;
        if (!x && (c->from[i] || t->needs[i])) return 0;
    }
    dl_tensor *y = run(t);
    t->weights = y ? weights_for(y) : NULL;
    dl_unref(y);
    return t->weights != NULL;
}

static dl_status check_all(dlsh_session *s, const dlsh_nodewalk *w, dlsh_nodecheck *sum, dlsh_table *table) {
    dl_status st = DL_OK;
    for (int i = 0; !st && i < w->n; i++) {
        dl_recorded c;
        int backward;
        if (!dlsh_nodewalk_node(w, i, &c, &backward)) break;
        trial t = {.s = s, .c = &c};
        if (prepare(w, &t))
            st = test_node(&t, sum, table);
        else if (sum->skipped++ < 1)
            snprintf(sum->unchecked, sizeof sum->unchecked, "%s", c.op);
        for (int k = 0; k < c.nin && k < MOST; k++) DLSH_UNREF(t.in[k], t.host[k]);
        dl_unref(t.weights);
        if (!st) st = dlsh_check_interrupt();
    }
    return st;
}

dl_status dlsh_nodecheck_run(dlsh_session *s, dlsh_sink *sink, dl_tensor *loss, dlsh_nodecheck *sum) {
    dlsh_nodewalk w;
    *sum = (dlsh_nodecheck){0};
    dlsh_table t = DLSH_TABLE({"node", 'l', ""}, {"element", 'l', ""}, {"rule", 'r', "%.6g"},
                              {"differences", 'r', "%.6g"}, {"with steps of 1e-2 to 1e-7", 'l', ""});
    DLSH_TRY(dlsh_nodewalk_begin(&w, loss, NULL));
    dl_nan_policy policy = dl_nan_policy_get();
    dl_nan_policy_set(DL_NAN_OFF);
    int recording = dl_recording_set(0);
    dl_status st = check_all(s, &w, sum, &t);
    dl_recording_set(recording);
    dl_nan_policy_set(policy);
    dlsh_nodewalk_go(&w, 0);
    dlsh_nodewalk_end(&w);
    return dlsh_table_show(sink, &t, st, "");
}

void dlsh_nodecheck_say(dlsh_sink *sink, const dlsh_nodecheck *sum) {
    char kinks[64] = "", skipped[120] = "";
    if (sum->kinks) snprintf(kinks, sizeof kinks, ", %ld at a kink, where any slope between is right", sum->kinks);
    if (sum->skipped)
        snprintf(skipped, sizeof skipped, "; %ld not: random, writing to operands, or without f64 (%s)", sum->skipped,
                 sum->unchecked);
    dlsh_put(sink, "nodes by themselves: %ld of %ld wrong, %ld elements%s%s\n", sum->failed, sum->nodes, sum->checked,
             kinks, skipped);
}
