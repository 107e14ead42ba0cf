/* Why an element of a gradient has its value: the rule with the numbers put in, from what was recorded. Each term is
 * the gradient of a result times a derivative; the derivatives come from the op run again in f64 and differentiated
 * twice. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "debug/again.h"
#include "debug/debug.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/view.h"
#include "lang/eval/interp.h"
#include "view/sink.h"

enum { SHOWN = 8, MOST_PARTS = 64 };

/* A part of a gradient: what the rule of recorded call `call` gave operand `operand`. */
typedef struct part {
    long call;
    int operand;
} part;

/* The gradient of what: of a result of the node `seq`, or of the leaf that lies at `data`. */
typedef struct target {
    unsigned long seq;
    const void *data;
    long element;
    char name[80];
} target;

/* What `why 1`, `why 2` lead to. */
static struct {
    int n;
    target to[SHOWN];
} followed;

/* ---------------------------------------------------------------- tensors */

dl_tensor *dlsh_debug_plain(dl_tensor *t) {
    DLSH_SCOPED_GRAD_MODE(0);
    dl_tensor *f = dl_to_dtype(t, DL_F64), *h = f ? dl_to_device(f, 0) : NULL, *c = h ? dl_contiguous(h) : NULL;
    dl_unref(f);
    dl_unref(h);
    return c;
}

static double element_of(dl_tensor *t, long i) {
    DLSH_OWNED dl_tensor *p = t ? dlsh_debug_plain(t) : NULL;
    return p && i < dl_numel(p) ? ((const double *)dl_data(p))[i] : 0;
}

const char *dlsh_debug_index(const dl_tensor *t, long element, char *buf, size_t size) {
    long index[8];
    if (!dl_ndim(t)) return *buf = 0, buf;
    size_t n = (size_t)snprintf(buf, size, "[");
    for (int i = dl_ndim(t) - 1; i >= 0; i--) {
        index[i] = element % dl_shape(t)[i];
        element /= dl_shape(t)[i];
    }
    for (int i = 0; i < dl_ndim(t) && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%ld", i ? ", " : "", index[i]);
    if (n < size) snprintf(buf + n, size - n, "]");
    return buf;
}

/* ---------------------------------------------------------------- derivatives */

/* Operands for running a call again: floating ones in f64, the k-th a leaf. */
static dl_status copies(const dl_recorded *c, int k, dl_tensor **in) {
    DLSH_SCOPED_GRAD_MODE(0);
    for (int i = 0; i < c->nin; i++) {
        if (!c->in[i]) continue;
        DLSH_OWNED dl_tensor *f =
            dl_dtype_is_float(dl_dtype_of(c->in[i])) ? dl_to_dtype(c->in[i], DL_F64) : dl_ref(c->in[i]);
        in[i] = f ? dl_clone(f) : NULL;
        if (!in[i]) return dl_failed();
    }
    return dl_set_requires_grad(in[k], 1);
}

/* d y[i] / d x[element] for all i, in the shape of y: the gradient of x by the cotangent, at that element. */
static dl_status derive(dl_tensor *y, dl_tensor *x, long element, dl_tensor **out) {
    DLSH_SCOPED_GRAD_MODE(1);
    long all[1] = {-1};
    DLSH_OWNED dl_tensor *v = dl_ones(dl_shape(y), dl_ndim(y), DL_F64, dl_device_of(y)), *gx = NULL, *flat = NULL,
                         *e = NULL;
    DLSH_TRY(v ? dl_set_requires_grad(v, 1) : dl_failed());
    DLSH_TRY(dl_gradients(y, v, &x, 1, 1, 1, &gx));
    if (gx && dl_requires_grad(gx)) {
        flat = dl_reshape(gx, all, 1);
        e = flat ? dl_select(flat, 0, element) : NULL;
        DLSH_TRY(e ? dl_gradients(e, NULL, &v, 1, 0, 0, out) : dl_failed());
    }
    return DL_OK;
}

/* The gradient of an operand where that of the result is 1 everywhere. */
static dl_status derive_all(dl_tensor *y, dl_tensor *x, dl_tensor **out) {
    DLSH_SCOPED_GRAD_MODE(1);
    DLSH_OWNED dl_tensor *v = dl_ones(dl_shape(y), dl_ndim(y), DL_F64, dl_device_of(y));
    return v ? dl_gradients(y, v, &x, 1, 0, 0, out) : dl_failed();
}

/* The derivatives of result 0 of a call by an element of an operand, or (-1) summed over the result by all of it; *out
 * stays NULL where the call cannot be run again. */
static dl_status column(const dl_recorded *c, int k, long element, dl_tensor **out) {
    dl_tensor *in[32] = {NULL}, *made[8] = {NULL};
    const int again = !c->redo && dlsh_again_is_known(c);
    int n = 0, whole = (c->redo || again) && c->nin <= 32;
    *out = NULL;
    for (int i = 0; i < c->nin; i++) whole = whole && (c->in[i] || again);
    if (!whole || !c->in[k]) return DL_OK;
    int recording = dl_recording_set(0);
    dl_nan_policy policy = dl_nan_policy_get();
    dl_nan_policy_set(DL_NAN_OFF);
    dl_status st = copies(c, k, in);
    if (!st) {
        DLSH_SCOPED_GRAD_MODE(1);
        st = again ? dlsh_again(c, in, made, &n) : dl_op_call(c->op, in, c->nin, c->attrs, made, &n);
    }
    if (!st) st = element < 0 ? derive_all(made[0], in[k], out) : derive(made[0], in[k], element, out);
    for (int i = 0; i < c->nin; i++) dl_unref(in[i]);
    for (int i = 0; i < n; i++) dl_unref(made[i]);
    dl_nan_policy_set(policy);
    dl_recording_set(recording);
    if (!st) return DL_OK;
    dl_error_clear(); /* an op without second derivatives: the gradient is shown without terms */
    return DL_OK;
}

dl_status dlsh_debug_local(const dl_recorded *c, int k, dl_tensor **out) { return column(c, k, -1, out); }

/* ---------------------------------------------------------------- parts */

static int is_target(const dl_recorded *c, int k, const target *to) {
    if (!c->gradient || !c->out[k]) return 0;
    return to->seq ? c->from[k] == to->seq : !c->from[k] && c->in[k] && dl_data(c->in[k]) == to->data;
}

/* What flowed into the target, the newest first. Of a leaf whose gradient is `sum` no more than makes it up: earlier
 * parts were zeroed. */
static int find_parts(const target *to, const double *sum, part *parts) {
    int n = 0;
    double so_far = 0, size = 0;
    for (long i = dl_recording_count() - 1; i >= 0 && n < MOST_PARTS; i--) {
        dl_recorded c;
        if (dl_recording_at(i, &c) || !c.gradient) continue;
        for (int k = 0; k < c.nin && n < MOST_PARTS; k++) {
            if (!is_target(&c, k, to)) continue;
            double v = element_of(c.out[k], to->element);
            parts[n++] = (part){i, k};
            so_far += v;
            size += fabs(v);
        }
        if (sum && n && fabs(so_far - *sum) <= 1e-5 * (size + fabs(*sum)) && (size > 0 || *sum == 0)) break;
    }
    return n;
}

static dl_status add_row(dlsh_table *t, int number, double value, dlsh_value how, const char *where) {
    return dlsh_table_row(
        t, (dlsh_value[]){number ? dlsh_int(number) : dlsh_none(), dlsh_float(value), how, dlsh_string(where)});
}

static void follow(const target *to) {
    if (followed.n < SHOWN) followed.to[followed.n++] = *to;
}

const char *dlsh_debug_place(const dl_recorded *c, char *buf, size_t size) {
    const int layer = *c->layer && *c->layer_file;
    if (*c->layer)
        snprintf(buf, size, "%s of layer %s, %s:%d", c->op, c->layer, layer ? c->layer_file : c->file,
                 layer ? c->layer_line : c->line);
    else
        snprintf(buf, size, "%s, %s:%d", c->op, c->file, c->line);
    return buf;
}

/* Places of the largest terms, the largest first. */
static int largest(const double *g, const double *d, long n, long *at) {
    int found = 0;
    for (; found < SHOWN; found++) {
        long best = -1;
        for (long i = 0; i < n; i++) {
            int taken = g[i] * d[i] == 0;
            for (int k = 0; k < found && !taken; k++) taken = at[k] == i;
            if (!taken && (best < 0 || !(fabs(g[i] * d[i]) <= fabs(g[best] * d[best])))) best = i;
        }
        if (best < 0) break;
        at[found] = best;
    }
    return found;
}

/* Every term is 0: the derivatives are, or else the gradient that came in. */
static dlsh_value no_term(const dl_recorded *c, int k, const double *derivative, long n) {
    int used = 0;
    for (long i = 0; i < n; i++) used |= derivative[i] != 0;
    if (used)
        return dlsh_string("every term is 0: the gradient of the result is; why zero of this part: where it stops");
    if (dlsh_debug_picks(c->op) && !k)
        return dlsh_stringf("%s did not look it up: only what it picks has a gradient",
                            c->composite ? c->composite : c->op);
    return dlsh_stringf("every derivative of %s by it is 0", c->op);
}

/* The terms of one rule at one element. */
static dl_status add_terms(dlsh_table *t, const dl_recorded *c, int k, long element) {
    DLSH_OWNED dl_tensor *col = NULL;
    char where[300], index[200];
    dlsh_debug_place(c, where, sizeof where);
    DLSH_TRY(column(c, k, element, &col));
    if (!col || !c->grad)
        return add_row(
            t, 0, element_of(c->out[k], element),
            dlsh_stringf("gradient of operand %d; %s cannot be run again, so its terms are not known", k, c->op),
            where);
    DLSH_OWNED dl_tensor *g = dlsh_debug_plain(c->grad), *d = dlsh_debug_plain(col);
    long at[SHOWN], count = 0;
    dl_status st = g && d ? DL_OK : dl_failed();
    const double *gv = g ? dl_data(g) : NULL, *dv = d ? dl_data(d) : NULL;
    int n = st ? 0 : largest(gv, dv, dl_numel(g), at);
    double shown = 0, all = 0;
    for (long i = 0; !st && i < dl_numel(g); i++) all += gv[i] * dv[i], count += gv[i] * dv[i] != 0;
    for (int i = 0; !st && i < n; i++) {
        target next = {.seq = c->seq, .element = at[i]};
        dlsh_debug_index(g, at[i], index, sizeof index);
        snprintf(next.name, sizeof next.name, "gradient of %s%.50s", c->op, index);
        shown += gv[at[i]] * dv[at[i]];
        st = add_row(t, followed.n + 1, gv[at[i]] * dv[at[i]],
                     dlsh_stringf("%.6g, the gradient of its result%s, times %.6g", dlsh_plain_nan(gv[at[i]]), index,
                                  dlsh_plain_nan(dv[at[i]])),
                     where);
        follow(&next);
    }
    if (!st && count > n) st = add_row(t, 0, all - shown, dlsh_stringf("%ld smaller terms", count - n), where);
    if (!st && !count) st = add_row(t, 0, 0, no_term(c, k, dv, dl_numel(g)), where);
    return st;
}

/* Several rules contributed: one row each, with the terms of none. */
static dl_status add_parts(dlsh_table *t, const part *parts, int n, long element) {
    for (int i = n - 1; i >= 0; i--) {
        dl_recorded c;
        char where[300];
        DLSH_TRY(dl_recording_at(parts[i].call, &c));
        DLSH_TRY(add_terms(t, &c, parts[i].operand, element));
        if (n - i >= SHOWN && i)
            return add_row(t, 0, NAN, dlsh_stringf("%d more contributions", i),
                           dlsh_debug_place(&c, where, sizeof where));
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- where an element's gradient stops */

/* The largest of the derivatives, its place in *at; -1: all are 0. */
static dl_status steepest(dl_tensor *derivatives, long *at) {
    DLSH_OWNED dl_tensor *p = dlsh_debug_plain(derivatives);
    if (!p) return dl_failed();
    const double *v = dl_data(p);
    *at = -1;
    for (long i = 0; i < dl_numel(p); i++)
        if (v[i] != 0 && (*at < 0 || fabs(v[i]) > fabs(v[*at]))) *at = i;
    return DL_OK;
}

/* The newest rule that gave the target a gradient; its operand, or -1. A gradient of 0 may be absent. */
static int newest_rule(const target *to, dl_recorded *c) {
    for (long i = dl_recording_count() - 1; i >= 0; i--) {
        if (dl_recording_at(i, c) || !c->gradient) continue;
        for (int k = 0; k < c->nin; k++)
            if (to->seq ? c->from[k] == to->seq : !c->from[k] && c->in[k] && dl_data(c->in[k]) == to->data) return k;
    }
    return -1;
}

dl_status dlsh_debug_zero_end(const dl_tensor *leaf, long element, dl_recorded *c, int *direct) {
    target to = {.data = dl_data(leaf), .element = element};
    *direct = 1;
    for (int k; (k = newest_rule(&to, c)) >= 0; *direct = 0) {
        DLSH_OWNED dl_tensor *by = NULL;
        long at = -1;
        DLSH_TRY(column(c, k, to.element, &by));
        if (by) DLSH_TRY(steepest(by, &at));
        if (at < 0) return DL_OK;
        to = (target){.seq = c->seq, .element = at};
    }
    *c = (dl_recorded){0};
    return DL_OK;
}

/* ---------------------------------------------------------------- the command */

static dl_status explain(const dlsh_args *a, const target *to, double value) {
    part parts[MOST_PARTS];
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"#", 'r', ""}, {"value", 'r', "%.6g"}, {"is", 'l', ""}, {"by", 'l', ""});
    target here = *to;
    int n = find_parts(to, to->seq ? NULL : &value, parts);
    if (!n && to->seq) {
        dlsh_put(dlsh_arg_sink(a), "%s = %.6g: backward started here\n", to->name, dlsh_plain_nan(value));
        return DL_OK;
    }
    if (!n)
        return dlsh_arg_fail(a, "what", DL_ERR_STATE, "set record full, then run the step again",
                             "the backward pass that made it was not recorded");
    followed.n = 0;
    DLSH_TRY(add_parts(&t, parts, n, here.element));
    dlsh_put(dlsh_arg_sink(a), "%s = %.6g%s\n", here.name, dlsh_plain_nan(value),
             n > 1 ? ", the sum of several contributions" : "");
    return dlsh_table_show(dlsh_arg_sink(a), &t, DL_OK, NULL);
}

/* The element that the index of an INDEX names, in logical order. */
static dl_status read_index(const dlsh_args *a, const dlsh_node *n, const dl_tensor *t, long *element) {
    *element = 0;
    if (n->nkids - 1 != dl_ndim(t))
        return dlsh_arg_fail(a, "what", DL_ERR_INDEX, NULL, "the gradient has %d dimension%s, the index %d", dl_ndim(t),
                             dl_ndim(t) == 1 ? "" : "s", n->nkids - 1);
    for (int i = 1; i < n->nkids; i++) {
        DLSH_DROPPED dlsh_value v = dlsh_void();
        DLSH_TRY(dlsh_eval(dlsh_arg_session(a), n->kids[i], &v));
        long size = dl_shape(t)[i - 1], at = v.type == DLSH_INT ? v.as.i : -size - 1;
        if (at < -size || at >= size)
            return dlsh_arg_fail(a, "what", DL_ERR_INDEX, "why w.grad[3, 2]",
                                 "the index of dimension %d is a whole number from %ld to %ld", i - 1, -size, size - 1);
        *element = *element * size + (at < 0 ? at + size : at);
    }
    return DL_OK;
}

/* The largest element. */
static dl_status find_largest(dl_tensor *t, long *element) {
    DLSH_OWNED dl_tensor *p = dlsh_debug_plain(t);
    if (!p) return dl_failed();
    const double *v = dl_data(p);
    *element = 0;
    for (long i = 1; i < dl_numel(p); i++)
        if (!(fabs(v[i]) <= fabs(v[*element]))) *element = i;
    return DL_OK;
}

dl_status dlsh_why_gradient(const dlsh_args *a, const dlsh_node *n) {
    const dlsh_node *field = n->kind == DLSH_N_INDEX ? n->kids[0] : n;
    DLSH_DROPPED dlsh_value v = dlsh_void();
    target to = {0};
    DLSH_TRY(dlsh_eval(dlsh_arg_session(a), field->kids[0], &v));
    dl_tensor *x = v.type == DLSH_TENSOR ? v.as.tensor : NULL, *g = x ? dl_grad(x) : NULL;
    if (!g)
        return dlsh_arg_fail(a, "what", x ? DL_ERR_STATE : DL_ERR_TYPE, x ? "why none NAME" : "why w.grad[3, 2]",
                             x ? "the tensor has no gradient" : "a gradient is that of a tensor");
    DLSH_TRY(n->kind == DLSH_N_INDEX ? read_index(a, n, g, &to.element) : find_largest(g, &to.element));
    char index[200], text[60];
    snprintf(text, sizeof text, "%s", dlsh_arg_text(a, "what"));
    *(strchr(text, '[') ? strchr(text, '[') : text + strlen(text)) = 0;
    snprintf(to.name, sizeof to.name, "%.40s%.39s", text, dlsh_debug_index(g, to.element, index, sizeof index));
    to.data = dl_data(x);
    return explain(a, &to, element_of(g, to.element));
}

dl_status dlsh_why_term(const dlsh_args *a, long number) {
    if (number < 1 || number > followed.n)
        return dlsh_arg_fail(a, "what", DL_ERR_INDEX, "why w.grad[3, 2]", "the last answer has no term %ld", number);
    target to = followed.to[number - 1];
    double value = 0;
    for (long i = dl_recording_count() - 1; i >= 0; i--) {
        dl_recorded c;
        if (dl_recording_at(i, &c) || !c.gradient || c.seq != to.seq) continue;
        value = element_of(c.grad, to.element);
        break;
    }
    return explain(a, &to, value);
}
