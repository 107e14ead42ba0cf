/* Gradients against central differences. L(x) = sum over results of result * w with fixed pseudo-random w, 1 for a
 * single number; dL/dx is compared for every element, so that no error can hide behind another. */
#include "autograd/tape.h"
#include "core/device/device.h"
#include "core/random/rng.h"
#include "core/scope.h"
#include "dlcore/arithmetic.h"
#include "dlcore/complex.h"
#include "dlcore/copy.h"
#include "dlcore/reduce.h"

#include <math.h>
#include <stdlib.h>

typedef struct check {
    dl_tensor_fn *fn;
    void *arg;
    int n;
    dl_rng_at rng; /* replayed for every evaluation */
} check;

static void replay(const check *k) { dl_rng_go(&k->rng); }

/* Weights that depend on the position alone, in [0.5, 1.5). */
static dl_tensor *weights(const dl_tensor *like, int index) {
    dl_tensor *w = dl_tensor_empty(like->ndim, like->shape, DL_F64, 0);
    if (!w) return NULL;
    double *p = dl_ptr(w);
    for (int64_t i = 0; i < w->numel; i++)
        p[i] = 0.5 + dl_philox_block(0x9E3779B97F4A7C15u, 0, (uint64_t)index, (uint64_t)i).v[0] * 0x1p-32;
    if (w->numel == 1 && !index) *p = 1;
    return w;
}

/* Adds sum(t * w) to *total, which is replaced; of complex numbers both parts count. */
static dl_status add_weighted(dl_tensor *t, int index, dl_tensor **total) {
    bool complex = dl_dtype_is_complex(t->dtype);
    DL_OWNED dl_tensor *parts = complex ? dl_view_as_real(t) : dl_ref(t);
    DL_OWNED dl_tensor *w = parts ? weights(parts, index) : NULL, *wd = w ? dl_to_device(w, t->st->device) : NULL;
    DL_OWNED dl_tensor *p = wd ? dl_mul(parts, wd) : NULL, *s = p ? dl_sum(p, NULL, 0, 0) : NULL;
    dl_tensor *sum = s && *total ? dl_add(*total, s) : dl_ref(s);
    if (!sum) return dl_failed();
    dl_unref(*total);
    *total = sum;
    return DL_OK;
}

/* L as a 0-d tensor; NULL without an error when no result is floating or complex. */
static dl_status evaluate(const check *k, dl_tensor **in, dl_tensor **loss) {
    dl_tensor *out[DL_MAX_OUT] = {0};
    *loss = NULL;
    replay(k);
    int n = k->fn(in, k->n, out, DL_MAX_OUT, k->arg);
    if (n < 0) return dl_fail_null("the result of the function");
    dl_status s = DL_OK;
    for (int i = 0; i < n; i++) {
        if (s == DL_OK && dl_dtype_is_smooth(out[i]->dtype)) s = add_weighted(out[i], i, loss);
        dl_unref(out[i]);
    }
    return s;
}

static dl_status value_at(const check *k, dl_tensor **in, double *out) {
    dl_tensor *loss;
    DL_SCOPED_GRAD_MODE(0);
    dl_status s = evaluate(k, in, &loss);
    if (s == DL_OK) s = loss ? dl_item_f(loss, out) : (*out = 0, DL_OK);
    dl_unref(loss);
    return s;
}

/* L where element e of in[i] is x. */
static dl_status value_with(const check *k, dl_tensor **in, int i, int64_t e, double x, double *out) {
    DL_TRY(dl_device_copy((double *)dl_ptr(in[i]) + e, in[i]->st->device, &x, 0, sizeof x));
    return out ? value_at(k, in, out) : DL_OK;
}

/* dL/d(element), one of the parts where numbers are complex, by (L(x + h) - L(x - h)) / 2h; in[i] holds a contiguous
 * copy that may be changed. */
static dl_status numeric(const check *k, dl_tensor **in, int i, int64_t e, double *out) {
    double x, up = 0, down = 0;
    DL_TRY(dl_device_copy(&x, 0, (double *)dl_ptr(in[i]) + e, in[i]->st->device, sizeof x));
    const double h = 1e-6 * fmax(1, fabs(x));
    dl_status s = value_with(k, in, i, e, x + h, &up);
    if (s == DL_OK) s = value_with(k, in, i, e, x - h, &down);
    if (s == DL_OK) s = value_with(k, in, i, e, x, NULL);
    *out = (up - down) / (2 * h);
    return s;
}

/* A kink: slopes from the left and the right differ, and the rule's is between them. */
static dl_status find_kink(const check *k, dl_tensor **in, int i, int64_t e, double rule, bool *kink) {
    double x, here = 0, up = 0, down = 0;
    DL_TRY(dl_device_copy(&x, 0, (double *)dl_ptr(in[i]) + e, in[i]->st->device, sizeof x));
    const double h = 1e-6 * fmax(1, fabs(x)), room = 1e-4 * fmax(1, fabs(rule));
    dl_status s = value_with(k, in, i, e, x + h, &up);
    if (s == DL_OK) s = value_with(k, in, i, e, x - h, &down);
    if (s == DL_OK) s = value_with(k, in, i, e, x, &here);
    const double left = (here - down) / h, right = (up - here) / h;
    *kink = fabs(left - right) > 10 * room && rule >= fmin(left, right) - room && rule <= fmax(left, right) + room;
    return s;
}

static double error_of(double analytic, double num) {
    if (!(analytic == analytic && num == num)) return INFINITY;
    return fabs(analytic - num) / fmax(1, fmax(fabs(analytic), fabs(num)));
}

static void compare(dl_gradcheck_report *r, int input, int64_t e, double analytic, double num) {
    const double err = error_of(analytic, num);
    r->checked++;
    if (err <= r->worst && r->checked > 1) return;
    r->worst = err;
    r->input = input;
    r->element = e;
    r->analytic = analytic;
    r->numeric = num;
}

/* Analytic gradients of L at the leaves x[]; g[i] NULL where it does not depend on x[i] or none is wanted. */
static dl_status analytic(const check *k, dl_tensor **x, int create, dl_tensor **g) {
    dl_tensor *loss, *want[DL_MAX_NAMED_IN * 4], *got[DL_MAX_NAMED_IN * 4];
    int at[DL_MAX_NAMED_IN * 4], m = 0;
    for (int i = 0; i < k->n; i++) {
        g[i] = NULL;
        if (x[i] && dl_requires_grad(x[i])) at[m] = i, want[m++] = x[i];
    }
    DL_SCOPED_GRAD_MODE(1);
    dl_status s = evaluate(k, x, &loss);
    if (s == DL_OK && loss && dl_requires_grad(loss)) {
        s = dl_gradients(loss, NULL, want, m, 0, create, got);
        for (int i = 0; s == DL_OK && i < m; i++) g[at[i]] = got[i];
    }
    dl_unref(loss);
    return s;
}

static void unref_all(dl_tensor **t, int n) {
    for (int i = 0; i < n; i++) dl_unref(t[i]);
}

/* Fresh contiguous leaves with the values of in[], so that the caller's tensors are never changed. */
static dl_status copy_leaves(dl_tensor **in, int n, dl_tensor **x) {
    DL_SCOPED_GRAD_MODE(0);
    dl_status s = DL_OK;
    for (int i = 0; i < n; i++) {
        x[i] = NULL;
        if (!in[i] || s != DL_OK) continue;
        bool grad = dl_requires_grad(in[i]);
        if (grad && in[i]->dtype != DL_F64 && in[i]->dtype != DL_C128) {
            s = dl_fail_hint(DL_ERR_DTYPE, "make the inputs with dtype=f64 or c128",
                             "differences need f64 or c128; input %d is %s", i, dl_type_of(in[i]));
            continue;
        }
        dl_tensor *c = dl_contiguous(in[i]);
        x[i] = c ? dl_clone(c) : NULL;
        dl_unref(c);
        if (x[i])
            x[i]->requires_grad = grad;
        else
            s = dl_failed();
    }
    return s;
}

static dl_status compare_all(const check *k, dl_tensor **x, dl_tensor **g, dl_gradcheck_report *r) {
    for (int i = 0; i < k->n; i++) {
        if (!x[i] || !x[i]->requires_grad) continue;
        const int64_t n = x[i]->numel * (x[i]->dtype == DL_C128 ? 2 : 1); /* real parts, and imaginary ones */
        double *a = calloc((size_t)n + 1, sizeof *a);
        if (!a) return dl_fail(DL_ERR_MEMORY, "no memory to compare %ld elements", x[i]->numel);
        dl_status s = g[i] ? dl_read(g[i], a) : DL_OK; /* in the dtype of x[i] */
        for (int64_t e = 0; s == DL_OK && e < n; e++) {
            double num = 0;
            bool kink = false;
            if (dl_interrupt_get())
                s = dl_fail(DL_ERR_INTERRUPT, "gradcheck was interrupted");
            else
                s = numeric(k, x, i, e, &num);
            if (s == DL_OK && isfinite(num) && error_of(a[e], num) > r->tolerance)
                s = find_kink(k, x, i, e, a[e], &kink);
            if (s == DL_OK) compare(r, i, e, a[e], kink ? a[e] : num);
        }
        free(a);
        DL_TRY(s);
    }
    return DL_OK;
}

static dl_status first_order(const check *k, dl_tensor **in, dl_gradcheck_report *r) {
    dl_tensor *x[DL_MAX_NAMED_IN * 4] = {0}, *g[DL_MAX_NAMED_IN * 4] = {0};
    dl_status s = copy_leaves(in, k->n, x);
    if (s == DL_OK) s = analytic(k, x, 0, g);
    if (s == DL_OK) s = compare_all(k, x, g, r);
    unref_all(x, k->n);
    unref_all(g, k->n);
    return s;
}

/* The gradient as a function of the inputs, for the second order. Inputs arrive as leaves or as plain copies. */
static int gradient_fn(dl_tensor **in, int n, dl_tensor **out, int max_out, void *arg) {
    const check *k = arg;
    dl_tensor *x[DL_MAX_NAMED_IN * 4], *g[DL_MAX_NAMED_IN * 4] = {0};
    bool record = dl_recording();
    for (int i = 0; i < n; i++) {
        /* while differences are taken the copies have no history to protect: make leaves of them */
        x[i] = in[i];
        if (!record && in[i] && (in[i]->dtype == DL_F64 || in[i]->dtype == DL_C128))
            x[i] = dl_detach(in[i]);
        else
            dl_ref(x[i]);
        if (!record && x[i] && in[i]->requires_grad) x[i]->requires_grad = true;
    }
    dl_status s = analytic(k, x, record, g);
    int m = 0;
    for (int i = 0; i < n; i++) {
        if (s == DL_OK && g[i] && m < max_out)
            out[m++] = g[i];
        else
            dl_unref(g[i]);
        dl_unref(x[i]);
    }
    return s == DL_OK ? m : -1;
}

dl_status dl_gradcheck(dl_tensor_fn *fn, void *arg, dl_tensor **in, int n, int second, double tolerance,
                       dl_gradcheck_report *report) {
    if (!fn || (n && !in)) return dl_fail_null(!fn ? "the function" : "the inputs");
    if (n > DL_MAX_NAMED_IN * 4)
        return dl_fail(DL_ERR_VALUE, "gradcheck takes at most %d inputs, not %d", DL_MAX_NAMED_IN * 4, n);
    check k = {.fn = fn, .arg = arg, .n = n, .rng = dl_rng_here()};
    *report = (dl_gradcheck_report){.tolerance = tolerance > 0 ? tolerance : second ? 1e-5 : 1e-6};
    dl_status s = first_order(&k, in, report);
    if (s == DL_OK && second) {
        check k2 = k;
        k2.fn = gradient_fn;
        k2.arg = &k;
        s = first_order(&k2, in, report);
    }
    replay(&k);
    report->ok = s == DL_OK && report->worst <= report->tolerance;
    return s;
}
