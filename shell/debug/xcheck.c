/* `xcheck`: recorded calls run again, each from the operands that it had, in f64 or on another device, and a second
 * time in f64 from the results in f64 of the calls before it, which shows where digits are lost. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/again.h"
#include "debug/debug.h"
#include "debug/finding.h"
#include "dlcore/copy.h"
#include "lang/session.h"
#include "view/sink.h"

enum { MOST = 32, RESULTS = 8, SIGNS = 4 };

/* What a result may be off: so many ulp of the element, of the largest element, and so many times what rounding the
 * operands changes. */
static const double of_element = 16, of_largest = 4, of_rounding = 8, lost = 1e-3;

/* The results of a call run again. */
typedef struct results {
    dl_tensor *t[RESULTS];
    int n;
} results;

/* The worst element of a call. */
typedef struct verdict {
    long call, element; /* call -1: none */
    int result;
    double here, there, ulp, allowed; /* both values; error, and what was allowed, in ulp */
} verdict;

typedef struct xcheck {
    const dlsh_args *a;
    int device; /* -1: f64 on the CPU */
    const char *with;
    long first, count;
    dl_tensor **made, **shadow; /* [count] result 0 as recorded, borrowed; in f64 from what came before, owned */
    long calls, beyond, skipped, changed;
    char unchecked[48];
    verdict bad, worst; /* the first beyond its bound; the largest part of its bound */
    long lossy;         /* the first call that lost digits; -1 */
    double loss;        /* relative to the largest element */
} xcheck;

static void free_results(results *r) {
    for (int i = 0; i < r->n; i++) dl_unref(r->t[i]);
    *r = (results){0};
}

static int is_real(const dl_tensor *t) { return t && dl_dtype_is_float(dl_dtype_of(t)); }

/* The operand on the device, in the host's memory as f64 where the device is -1. NULL: a recorded failure. */
static dl_tensor *operand_for(dl_tensor *t, int device) {
    dl_tensor *x = NULL;
    DLSH_OWNED dl_tensor *there = dl_to_device(t, device < 0 ? 0 : device);
    if (there) x = device < 0 && is_real(t) ? dl_to_dtype(there, DL_F64) : dl_ref(there);
    return x;
}

/* Each element moved by an ulp, up or down; `sign` chooses among patterns. */
static dl_tensor *rounded(dl_tensor *t, double eps, unsigned sign) {
    dl_tensor *x = dl_clone(t), *c = x ? dl_contiguous(x) : NULL;
    dl_unref(x);
    double *v = c ? dl_data(c) : NULL;
    for (long i = 0; v && i < dl_numel(c); i++) {
        unsigned h = ((unsigned)i * 2654435761u + sign * 40503u) ^ (unsigned)((unsigned long)i >> 3) * 2246822519u;
        v[i] *= (h >> 16) & 1 ? 1 + eps : 1 - eps;
    }
    return c;
}

/* Runs the call from these operands; sign 0: as they are, else rounded. Results that are the op's own affair, as the
 * places of a pool, do not come back. False: it cannot be run so. */
static int call_with(const dl_recorded *c, dl_tensor *const *from, int device, double eps, unsigned sign, results *r) {
    dl_tensor *in[MOST] = {NULL};
    int ready = c->nin <= MOST;
    for (int i = 0; i < c->nin && ready; i++) {
        DLSH_OWNED dl_tensor *x = from[i] ? operand_for(from[i], device) : NULL;
        in[i] = x && sign && dl_dtype_of(x) == DL_F64 && is_real(from[i]) ? rounded(x, eps, sign) : dl_ref(x);
        ready = !from[i] || in[i];
    }
    int ran =
        ready && !(c->redo ? dl_op_call(c->op, in, c->nin, c->attrs, r->t, &r->n) : dlsh_again(c, in, r->t, &r->n));
    for (int i = 0; i < c->nin && i < MOST; i++) dl_unref(in[i]);
    if (!ran) dl_error_clear(), r->n = 0;
    return ran && r->n > 0 && r->n <= c->nout;
}

/* ---------------------------------------------------------------- bounds */

/* Elements in logical order as f64, to be freed. NULL: no memory. */
static double *elements(dl_tensor *t) {
    double *v = malloc(((size_t)dl_numel(t) + 1) * sizeof *v);
    if (v && dl_read_f64(t, v)) dl_error_clear(), free(v), v = NULL;
    return v;
}

/* The largest change of each element of a result when operands are rounded; zeros where the call has no f64. */
static double *change_of(const dl_recorded *c, int result, const double *exact, double eps) {
    long n = dl_numel(c->out[result]);
    double *most = calloc((size_t)n + 1, sizeof *most);
    for (unsigned s = 1; s <= SIGNS && most; s++) {
        DLSH_SCOPED(free_results) results r = {0};
        DLSH_FREED double *v = call_with(c, c->in, -1, eps, s, &r) ? elements(r.t[result]) : NULL;
        for (long i = 0; v && i < n; i++) {
            double d = fabs(v[i] - exact[i]);
            if (d > most[i]) most[i] = d;
        }
    }
    return most;
}

static double ulp_of(dl_dtype t) {
    return t == DL_F64 ? DBL_EPSILON : t == DL_F32 ? FLT_EPSILON : t == DL_F16 ? 0x1p-10 : 0x1p-7;
}

static double smallest_of(dl_dtype t) { return t == DL_F64 ? DBL_MIN : t == DL_F16 ? 0x1p-14 : FLT_MIN; }

static double largest(const double *v, long n) {
    double m = 0;
    for (long i = 0; i < n; i++)
        if (isfinite(v[i])) m = fmax(m, fabs(v[i]));
    return m;
}

/* Two values that are the same, or NaN both. */
static int same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* Is `v` beyond its bound where the other is not, or the greater error else? */
static int is_worse(const verdict *v, const verdict *than) {
    const int over = v->ulp > v->allowed, had = than->ulp > than->allowed;
    return over != had ? over : v->ulp > than->ulp;
}

/* The element of a result that is furthest beyond, or nearest to, what is allowed. */
static verdict judge(const dl_recorded *c, int k, const double *here, const double *there, const double *change) {
    dl_dtype type = dl_dtype_of(c->out[k]);
    verdict worst = {.call = -1, .result = k, .allowed = 1};
    long n = dl_numel(c->out[k]);
    double eps = ulp_of(type), base = is_real(c->out[k]) ? of_largest * eps * largest(there, n) : 0;
    for (long i = 0; i < n; i++) {
        double unit = eps * fmax(fabs(there[i]), smallest_of(type)), error = fabs(here[i] - there[i]);
        double allowed =
            is_real(c->out[k]) ? of_element * unit + base + of_rounding * change[i] + smallest_of(type) : 0;
        if (same(here[i], there[i])) error = 0;
        if (isnan(error) || !isfinite(there[i])) error = error == 0 ? 0 : INFINITY, unit = 1, allowed = 0;
        verdict v = {0, i, k, here[i], there[i], error / unit, allowed / unit};
        if (worst.call < 0 || is_worse(&v, &worst)) worst = v;
    }
    return worst;
}

/* ---------------------------------------------------------------- calls */

/* Operands in f64 from what came before, where it is known. */
static void shadows_of(const xcheck *x, long at, const dl_recorded *c, dl_tensor **in) {
    for (int k = 0; k < c->nin && k < MOST; k++) {
        long i = at - 1;
        while (c->in[k] && i >= 0 && !(x->made[i] && dlsh_debug_alike(x->made[i], c->in[k]))) i--;
        in[k] = c->in[k] && i >= 0 && x->shadow[i] ? x->shadow[i] : c->in[k];
    }
}

/* Runs it from shadows, and notes where the recorded result has lost digits. */
static void follow(xcheck *x, long at, const dl_recorded *c) {
    dl_tensor *in[MOST] = {NULL};
    DLSH_SCOPED(free_results) results r = {0};
    if (c->nin > MOST || !c->nout || !is_real(c->out[0])) return;
    shadows_of(x, at, c, in);
    if (call_with(c, in, -1, 0, 0, &r)) {
        x->shadow[at] = dl_ref(r.t[0]);
        double off = 0;
        DLSH_FREED double *a = elements(c->out[0]), *b = elements(r.t[0]);
        long n = dl_numel(c->out[0]);
        for (long i = 0; a && b && i < n && dl_numel(r.t[0]) == n; i++) off = fmax(off, fabs(a[i] - b[i]));
        double size = b ? largest(b, n) : 0;
        int few = ulp_of(dl_dtype_of(c->out[0])) > FLT_EPSILON; /* of the short types */
        if (x->lossy < 0 && !few && isfinite(off) && off > smallest_of(DL_F32) && off > lost * size)
            x->lossy = x->first + at, x->loss = size > 0 ? off / size : INFINITY;
    }
}

static void keep(const xcheck *x, const dl_recorded *c, const verdict *v) {
    dlsh_finding f = {.by = "xcheck",
                      .check = "a call run again",
                      .op = c->op,
                      .layer = c->layer,
                      .pass = c->rule ? "backward" : "forward",
                      .file = *c->layer ? c->layer_file : c->file,
                      .line = *c->layer ? c->layer_line : c->line};
    dlsh_cause(&f, "%s differs from %s", c->op, x->with);
    dlsh_evidence(&f, "result %d, element %ld: %.9g, %s %.9g, %.3g ulp, allowed %.3g", v->result, v->element,
                  dlsh_plain_nan(v->here), x->with, dlsh_plain_nan(v->there), v->ulp, v->allowed);
    dlsh_finding_keep(dlsh_arg_session(x->a), &f);
}

/* How much of what is allowed the error is. */
static double part(const verdict *v) { return v->ulp == 0 ? 0 : v->allowed > 0 ? v->ulp / v->allowed : INFINITY; }

static void take(xcheck *x, long call, const dl_recorded *c, verdict v) {
    v.call = call;
    if (x->worst.call < 0 || part(&v) > part(&x->worst)) x->worst = v;
    if (!(v.ulp > v.allowed)) return;
    x->beyond++;
    if (x->bad.call < 0) x->bad = v, keep(x, c, &v);
}

/* Is it of interest: can it be told whether it is right? */
static int comparable(const xcheck *x, const dl_recorded *c) {
    int real = 0;
    for (int i = 0; i < c->nout; i++) {
        if (!c->out[i] || dl_dtype_is_complex(dl_dtype_of(c->out[i]))) return 0;
        real += is_real(c->out[i]) && (x->device >= 0 || dl_dtype_of(c->out[i]) != DL_F64);
    }
    for (int i = 0; i < c->nin; i++)
        if (c->in[i] && dl_dtype_is_complex(dl_dtype_of(c->in[i]))) return 0;
    return (c->redo || dlsh_again_is_known(c)) && (real || x->device >= 0);
}

/* Compares a call's results. False: it cannot be run so, or memory is short. */
static int compare(xcheck *x, long call, const dl_recorded *c) {
    DLSH_SCOPED(free_results) results r = {0}, exact = {0};
    verdict worst = {.call = -1};
    int done = call_with(c, c->in, x->device, 0, 0, &r), has = done && call_with(c, c->in, -1, 0, 0, &exact);
    for (int k = 0; k < r.n && done; k++) {
        if (x->device < 0 && !is_real(c->out[k])) continue;
        double eps = ulp_of(dl_dtype_of(c->out[k])), *e = has ? elements(exact.t[k]) : NULL;
        DLSH_FREED double *here = elements(c->out[k]), *there = elements(r.t[k]);
        DLSH_FREED double *change =
            e && is_real(c->out[k]) ? change_of(c, k, e, eps) : calloc((size_t)dl_numel(c->out[k]) + 1, 8);
        done = here && there && change && dl_numel(c->out[k]) == dl_numel(r.t[k]);
        verdict v = {.call = -1};
        if (done) v = judge(c, k, here, there, change);
        if (v.call >= 0 && (worst.call < 0 || is_worse(&v, &worst))) worst = v;
        free(e);
    }
    if (done && worst.call >= 0) take(x, call, c, worst);
    return done;
}

static dl_status check_all(xcheck *x) {
    dl_recorded c;
    for (long i = 0; i < x->count; i++) {
        DLSH_TRY(dl_recording_at(x->first + i, &c));
        if (c.gradient) continue;
        x->made[i] = c.nout && !c.changed ? c.out[0] : NULL;
        if (!c.nin) continue;
        if (c.changed) {
            x->changed++;
            continue;
        }
        int done = comparable(x, &c) && compare(x, x->first + i, &c);
        if (done) x->calls++, follow(x, i, &c);
        if (!done && x->skipped++ < 1) snprintf(x->unchecked, sizeof x->unchecked, "%s", c.op);
        DLSH_TRY(dlsh_check_interrupt());
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- what is shown */

static const char *place_of(long call, char *buf, size_t size) {
    dl_recorded c;
    char place[300];
    if (dl_recording_at(call, &c)) return dl_error_clear(), "";
    snprintf(buf, size, "%s%s", dlsh_debug_place(&c, place, sizeof place), c.rule ? ", in the backward pass" : "");
    return buf;
}

static void say_bad(const xcheck *x) {
    dlsh_sink *sink = dlsh_arg_sink(x->a);
    const verdict *v = &x->bad;
    char place[360], index[200];
    dl_recorded c;
    if (dl_recording_at(v->call, &c)) return dl_error_clear();
    dlsh_debug_index(c.out[v->result], v->element, index, sizeof index);
    dlsh_put(sink, "the first that differs: %s\n  result%s: %.9g, with %s %.9g: %.3g ulp, allowed %.3g\n",
             place_of(v->call, place, sizeof place), index, dlsh_plain_nan(v->here), x->with, dlsh_plain_nan(v->there),
             v->ulp, v->allowed);
}

static void say(const xcheck *x) {
    dlsh_sink *sink = dlsh_arg_sink(x->a);
    char place[360];
    if (x->bad.call >= 0) say_bad(x);
    if (x->lossy >= 0 && (x->bad.call < 0 || x->lossy < x->bad.call))
        dlsh_put(
            sink,
            "digits are lost: %s\n  its result is off by %.2g of its largest element when all before it is in f64, "
            "too\n",
            place_of(x->lossy, place, sizeof place), x->loss);
    dlsh_put(sink, "%ld of %ld calls differ from %s beyond their bound", x->beyond, x->calls, x->with);
    if (!x->beyond && x->worst.call >= 0 && part(&x->worst) > 0.5)
        dlsh_put(sink, "; the nearest to it has %.2g of it: %s", part(&x->worst),
                 place_of(x->worst.call, place, sizeof place));
    dlsh_put(sink, "\n");
    if (x->changed)
        dlsh_put(sink, "%ld not compared: operands or results were written to later, as by an optimizer's step\n",
                 x->changed);
    if (x->skipped)
        dlsh_put(sink, "%ld not compared: random, writing to operands, not of real numbers or not for %s (%s)\n",
                 x->skipped, x->with, x->unchecked);
}

static dlsh_value record_of(const xcheck *x) {
    dl_recorded c = {.op = ""};
    if (x->bad.call >= 0 && dl_recording_at(x->bad.call, &c)) dl_error_clear();
    return DLSH_RECORD_OF({"ok", dlsh_bool(!x->beyond)}, {"calls", dlsh_int(x->calls)}, {"beyond", dlsh_int(x->beyond)},
                          {"op", x->beyond ? dlsh_string(c.op) : dlsh_none()},
                          {"line", x->beyond ? dlsh_int(c.line) : dlsh_none()},
                          {"ulp", dlsh_float(x->beyond ? x->bad.ulp : x->worst.ulp)},
                          {"allowed", dlsh_float(x->beyond ? x->bad.allowed : x->worst.allowed)});
}

/* ---------------------------------------------------------------- the command */

static dl_status compare_recorded(xcheck *x, dlsh_value *result) {
    x->count = dl_recording_count() - x->first;
    const dlsh_node *own = dlsh_arg_node(x->a, "statement");
    if (!x->count && own)
        return dlsh_arg_fail(x->a, "statement", DL_ERR_VALUE,
                             "a statement that computes: xcheck f64 backward loss(m(x), y)",
                             "the statement ran no op: there is nothing to compare");
    if (!x->count)
        return dlsh_arg_fail(x->a, NULL, DL_ERR_STATE, "xcheck f64 STATEMENT, or set record full before the step",
                             "no op was recorded");
    x->made = calloc((size_t)x->count, sizeof *x->made);
    x->shadow = calloc((size_t)x->count, sizeof *x->shadow);
    dl_nan_policy policy = dl_nan_policy_get();
    dl_nan_policy_set(DL_NAN_OFF);
    dl_status st = DL_OK;
    if (!x->made || !x->shadow) st = dlsh_no_memory("the calls");
    if (!st) {
        DLSH_SCOPED_GRAD_MODE(0);
        st = check_all(x);
    }
    dl_nan_policy_set(policy);
    if (!st && !x->calls)
        st = dlsh_arg_fail(x->a, NULL, DL_ERR_STATE,
                           x->changed ? "run xcheck before the optimizer's step"
                                      : "xcheck is for ops of floating numbers, below f64",
                           "none of the %ld recorded calls can be compared with %s", x->count, x->with);
    if (!st) say(x);
    if (!st) st = dlsh_give(record_of(x), result);
    for (long i = 0; x->shadow && i < x->count; i++) dl_unref(x->shadow[i]);
    free(x->made);
    free(x->shadow);
    return st;
}

static dl_status xcheck_run(const dlsh_args *a, dlsh_value *result) {
    xcheck x = {.a = a, .device = -1, .with = dlsh_arg_str(a, "with"), .bad = {.call = -1}, .worst = {.call = -1}};
    int own = dlsh_arg_node(a, "statement") != NULL, had = dl_recording_get();
    dlsh_value shown = dlsh_void();
    x.lossy = -1;
    if (strcmp(x.with, "f64")) DLSH_TRY(dl_device_parse(x.with, &x.device));
    dl_status st = DL_OK;
    if (own) {
        dl_recording_set(1);
        x.first = dl_recording_count();
        st = dlsh_arg_exec(a, "statement", &shown);
        dlsh_drop(shown);
    }
    dl_recording_set(0);
    if (!st) st = compare_recorded(&x, result);
    dl_recording_set(had);
    if (own && !had) dl_recording_clear();
    return st;
}

const dlsh_command xcheck_commands[] = {
    DLSH_ROW(
        "xcheck", DLSH_ACTION | DLSH_FUNCTION, xcheck_run, "xcheck f64|DEVICE [STATEMENT]",
        "Runs each op of a statement again, from the operands that it had, in f64 or on another device, and names the "
        "first whose result differs beyond its bound, with line, element, both values and the error in ulp, units in "
        "the last place of the result. The ops of a backward pass are among them. Without a statement: what was "
        "recorded under `set record full`. The bound is 16 ulp of the element, 4 of the largest element, and 8 times "
        "what rounding the operands changes. Ops are also run in f64 from results in f64: the first whose recorded "
        "result is off by a thousandth has lost digits, as a difference of nearly equal numbers does. What an "
        "optimizer has changed since is not compared. As a function, xcheck(\"f64\"), it compares what was recorded; "
        "the result is a record with ok, calls, beyond, op, line, ulp, allowed.",
        DLSH_PARAMS({"with", DLSH_ARG_WORD, .doc = "f64, or a device: cpu, cuda"},
                    {"statement", DLSH_ARG_STATEMENT, .flags = DLSH_OPTIONAL, .doc = "what to run and compare",
                     .complete = "statement"}),
        .examples = "w = param(randn(3, 3)); xcheck f64 backward sum(tanh(w @ w))\n"
                    "set record full; l = sum(exp(randn(10))); xcheck f64"),
    {0}};
