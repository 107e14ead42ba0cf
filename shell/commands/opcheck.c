/* Checks of ops that users made in C: input mutation, strides, emptiness, NaN, and f32 against f64; all of it again on
 * a GPU when the op has functions for one, and there results and gradients are those of the CPU. */
#include "commands/opcheck.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/session.h"
#include "view/sink.h"
#include "dlcore/copy.h"
#include "dlcore/view.h"

enum { MAX = 8 };

/* One run: results and gradients. */
typedef struct run {
    dl_tensor *out[MAX], *grad[MAX];
    int nout;
} run;

static void free_tensors(dl_tensor *(*t)[MAX]) {
    for (int i = 0; i < MAX; i++) dl_unref((*t)[i]);
}
static void free_run(run *r) {
    free_tensors(&r->out);
    free_tensors(&r->grad);
}
/* Both are released at the end of their block. */
#define TENSORS(name) dl_tensor *name[MAX] __attribute__((cleanup(free_tensors))) = {0}
#define RUN(name) run name __attribute__((cleanup(free_run))) = {0}

/* The first result's gradient is 0.7 everywhere; inputs that are leaves with gradients get theirs. */
static dl_status run_op(const dlsh_userop *u, const char *name, dl_tensor **in, int n, run *r) {
    DLSH_TRY(dl_op_call(name, in, n, NULL, r->out, &r->nout));
    dl_tensor *y = r->out[0];
    if (!dlsh_userop_has_backward(u) || !dl_requires_grad(y)) return DL_OK;
    DLSH_OWNED dl_tensor *seed = dl_tensor_full(dl_ndim(y), dl_shape(y), dl_dtype_of(y), dl_device_of(y), 0.7);
    return seed ? dl_gradients(y, seed, in, n, 0, 0, r->grad) : dl_failed();
}

/* ---------------------------------------------------------------- inputs */

static dl_status leaf(const dlsh_userop *u, int i, dl_tensor *t) {
    dl_dtype dtype;
    if (!t) return dl_failed();
    return dlsh_userop_input(u, i, DL_F64, &dtype) ? dl_set_requires_grad(t, 1) : DL_OK;
}

/* Pseudorandom numbers of magnitude 0.1 to 1.9 and either sign, the same every time. */
static dl_tensor *drawn(int i, int ndim, const long *shape, dl_dtype dtype) {
    dl_tensor *t = dl_tensor_empty(ndim, shape, dtype, 0);
    unsigned s = 12345u + 7919u * (unsigned)i;
    for (long k = 0; t && k < dl_numel(t); k++) {
        s = s * 1664525u + 1013904223u;
        double v = 0.1 + 1.8 * (s >> 8) / (1 << 24), x = k % 2 ? -v : v;
        char *at = (char *)dl_data(t) + k * dl_dtype_size(dtype);
        if (dtype == DL_F64)
            *(double *)at = x;
        else if (dtype == DL_F32)
            *(float *)at = (float)x;
        else if (dtype == DL_I64)
            *(long *)at = (long)v;
        else if (dtype == DL_I32)
            *(int *)at = (int)v;
        else
            *at = v > 1;
    }
    return t;
}

dl_status dlsh_opcheck_inputs(const dlsh_userop *u, dl_tensor **in) {
    int n = dlsh_userop_inputs(u);
    for (int i = 0; i < n; i++) {
        int ndim;
        long shape[8];
        dl_dtype dtype;
        dlsh_userop_input(u, i, DL_F64, &dtype);
        dl_status st = dlsh_userop_sample(u, i, &ndim, shape);
        in[i] = st ? NULL : drawn(i, ndim, shape, dtype);
        if (in[i]) continue;
        while (i) dl_unref(in[--i]);
        return dl_failed();
    }
    return DL_OK;
}

/* Copies of the inputs on a device, as leaves, floating ones in the dtype `real`. The caller releases them, also after
 * a failure. */
static dl_status copies(const dlsh_userop *u, dl_tensor **in, int n, dl_dtype real, int device, dl_tensor **out) {
    DLSH_SCOPED_GRAD_MODE(0);
    int made = 0;
    for (; made < n; made++) {
        dl_dtype dtype;
        dlsh_userop_input(u, made, real, &dtype);
        DLSH_OWNED dl_tensor *cast = dl_to_dtype(in[made], dtype), *there = cast ? dl_to_device(cast, device) : NULL;
        out[made] = there ? dl_clone(there) : NULL;
        DLSH_TRY(leaf(u, made, out[made]));
    }
    return DL_OK;
}

/* The same values with another stride: every second element of something larger. */
static dl_tensor *strided(dl_tensor *t) {
    long shape[9];
    int ndim = dl_ndim(t);
    if (ndim > 7) return dl_ref(t);
    memcpy(shape, dl_shape(t), (size_t)ndim * sizeof *shape);
    shape[ndim] = 2;
    DLSH_OWNED dl_tensor *wide = dl_tensor_full(ndim + 1, shape, dl_dtype_of(t), dl_device_of(t), 5),
                         *v = wide ? dl_select(wide, ndim, 1) : NULL;
    dl_tensor *x = v ? dl_detach(v) : NULL;
    if (x && dl_assign(x, t)) {
        dl_unref(x);
        x = NULL;
    }
    return x;
}

/* ---------------------------------------------------------------- comparing */

/* Largest difference, relative where values are large; NaN equals NaN. */
static dl_status difference(const dl_tensor *a, const dl_tensor *b, double *worst) {
    if (!a != !b || (a && dl_numel(a) != dl_numel(b))) return *worst = INFINITY, DL_OK;
    if (!a) return DL_OK;
    long n = dl_numel(a);
    double *x = dl_memory_alloc(n, 2 * sizeof *x), *y = x ? x + n : NULL;
    if (!x) return dl_failed();
    dl_status st = dl_read_f64(a, x);
    if (!st) st = dl_read_f64(b, y);
    for (long i = 0; i < n && !st; i++) {
        double d = isnan(x[i]) && isnan(y[i]) ? 0 : fabs(x[i] - y[i]) / fmax(1, fabs(y[i]));
        if (!(d <= *worst)) *worst = isnan(d) ? INFINITY : d;
    }
    free(x);
    return st;
}

static dl_status runs_differ(const run *a, const run *b, int n, double *worst) {
    for (int i = 0; i < a->nout; i++) DLSH_TRY(difference(a->out[i], b->out[i], worst));
    for (int i = 0; i < n; i++) DLSH_TRY(difference(a->grad[i], b->grad[i], worst));
    return DL_OK;
}

/* ---------------------------------------------------------------- checks: each sets *why when it fails */

typedef struct subject {
    const dlsh_userop *u;
    const char *name;
    dl_tensor **in;
    int n;
    dl_dtype real;
    int device;
} subject;

/* Largest difference of results and gradients at x from those at y. */
static dl_status compare(const subject *s, dl_tensor **x, dl_tensor **y, double *worst) {
    RUN(a);
    RUN(b);
    DLSH_TRY(run_op(s->u, s->name, x, s->n, &a));
    DLSH_TRY(run_op(s->u, s->name, y, s->n, &b));
    return runs_differ(&a, &b, s->n, worst);
}

static dl_status check_inputs_kept(const subject *s, char *why, size_t size) {
    TENSORS(in);
    TENSORS(before);
    RUN(r);
    DLSH_TRY(copies(s->u, s->in, s->n, s->real, s->device, in));
    DLSH_TRY(copies(s->u, s->in, s->n, s->real, 0, before));
    DLSH_TRY(run_op(s->u, s->name, in, s->n, &r));
    for (int i = 0; i < s->n; i++) {
        double d = 0;
        DLSH_TRY(difference(in[i], before[i], &d));
        if (d > 0) snprintf(why, size, "input %d was changed", i);
    }
    return DL_OK;
}

/* Whether an element still has the poison of its allocation. */
static int unwritten(const dl_tensor *t) {
    long size = t ? dl_dtype_size(dl_dtype_of(t)) : 0, n = t ? dl_numel(t) : 0;
    const unsigned char *at = t && dl_is_contiguous(t) ? dl_data(t) : NULL;
    for (long i = 0; at && i < n; i++, at += size) {
        long k = 0;
        while (k < size && at[k] == DLSH_OP_POISON) k++;
        if (k == size && size > 1) return 1;
    }
    return 0;
}

static dl_status check_written(const subject *s, char *why, size_t size) {
    TENSORS(in);
    RUN(r);
    DLSH_TRY(copies(s->u, s->in, s->n, s->real, s->device, in));
    dlsh_userop_poison(1);
    dl_status st = run_op(s->u, s->name, in, s->n, &r);
    dlsh_userop_poison(0);
    for (int i = 0; i < s->n && !st; i++)
        if (unwritten(r.grad[i])) snprintf(why, size, "the gradient of input %d is not written everywhere", i);
    for (int k = 0; k < r.nout && !st; k++)
        if (unwritten(r.out[k])) snprintf(why, size, "result %d is not written everywhere", k);
    return st;
}

static dl_status check_strided(const subject *s, char *why, size_t size) {
    TENSORS(plain);
    TENSORS(in);
    double worst = 0;
    DLSH_TRY(copies(s->u, s->in, s->n, s->real, s->device, plain));
    {
        DLSH_SCOPED_GRAD_MODE(0);
        for (int i = 0; i < s->n; i++) DLSH_TRY(leaf(s->u, i, in[i] = strided(plain[i])));
    }
    DLSH_TRY(compare(s, in, plain, &worst));
    if (worst > 0) snprintf(why, size, "results differ by %.2g from those of contiguous inputs", worst);
    return DL_OK;
}

/* No samples in the first dimension of the first input, and of those that share it. */
static dl_status check_empty(const subject *s, char *why, size_t size) {
    TENSORS(in);
    RUN(r);
    dl_status st = DL_OK;
    const long *first = dl_shape(s->in[0]);
    if (!dl_ndim(s->in[0])) return DL_OK;
    for (int i = 0; i < s->n && !st; i++) {
        long shape[8];
        int ndim = dl_ndim(s->in[i]);
        memcpy(shape, dl_shape(s->in[i]), (size_t)ndim * sizeof *shape);
        if (ndim == dl_ndim(s->in[0]) && shape[0] == first[0]) shape[0] = 0;
        dl_dtype dtype;
        dlsh_userop_input(s->u, i, s->real, &dtype);
        DLSH_OWNED dl_tensor *host = drawn(i, ndim, shape, dtype);
        in[i] = host ? dl_to_device(host, s->device) : NULL;
        st = leaf(s->u, i, in[i]);
    }
    if (!st) st = run_op(s->u, s->name, in, s->n, &r);
    for (int i = 1; i < s->n && !st; i++) { /* nothing contributes to the gradients of the others */
        double *g = r.grad[i] && dl_numel(r.grad[i]) ? dl_memory_alloc(dl_numel(r.grad[i]), sizeof *g) : NULL;
        if (g && !(st = dl_read_f64(r.grad[i], g)))
            for (long k = 0; k < dl_numel(r.grad[i]); k++)
                if (g[k] != 0) snprintf(why, size, "the gradient of input %d is not 0 when there are no samples", i);
        free(g);
    }
    return st;
}

static int has_nan(const dl_tensor *t) {
    long n = dl_numel(t), found = 0;
    DLSH_FREED double *v = dl_memory_alloc(n, sizeof *v);
    if (v && !dl_read_f64(t, v))
        for (long i = 0; i < n; i++) found |= isnan(v[i]);
    return found != 0;
}

/* The inputs, a NaN in the first element of the i-th. */
static dl_status with_nan(const subject *s, int i, dl_tensor **in) {
    TENSORS(host);
    DLSH_TRY(copies(s->u, s->in, s->n, s->real, 0, host));
    if (s->real == DL_F64)
        *(double *)dl_data(host[i]) = NAN;
    else
        *(float *)dl_data(host[i]) = NAN;
    dl_touch(host[i]);
    return copies(s->u, host, s->n, s->real, s->device, in);
}

static dl_status check_nan(const subject *s, char *why, size_t size) {
    dl_dtype dtype;
    for (int i = 0; i < s->n; i++) {
        TENSORS(in);
        RUN(r);
        if (!dlsh_userop_input(s->u, i, DL_F64, &dtype) || !dl_numel(s->in[i])) continue;
        DLSH_TRY(with_nan(s, i, in));
        DLSH_TRY(run_op(s->u, s->name, in, s->n, &r));
        if (!has_nan(r.out[0])) snprintf(why, size, "a NaN in input %d does not reach the result", i);
    }
    return DL_OK;
}

/* The op at inputs of this dtype on the subject's device, and at the same values of another dtype or elsewhere. */
static dl_status check_same(const subject *s, dl_dtype dtype, dl_dtype reference, int device, double allowed,
                            const char *complaint, char *why, size_t size) {
    TENSORS(in);
    TENSORS(same);
    double worst = 0;
    DLSH_TRY(copies(s->u, s->in, s->n, dtype, s->device, in));
    DLSH_TRY(copies(s->u, in, s->n, reference, device, same));
    DLSH_TRY(compare(s, in, same, &worst));
    if (!(worst < allowed)) snprintf(why, size, "%s by %.2g", complaint, worst);
    return DL_OK;
}

static dl_status check_f32(const subject *s, char *why, size_t size) {
    return check_same(s, DL_F32, DL_F64, s->device, 1e-4, "f32 is off from f64", why, size);
}

static dl_status check_devices(const subject *s, char *why, size_t size) {
    return check_same(s, s->real, s->real, 0, s->real == DL_F64 ? 1e-9 : 1e-4, "results or gradients are off", why,
                      size);
}

enum { ON_CPU = 1, ON_GPU = 2 };
static const struct {
    const char *key, *what;
    dl_status (*run)(const subject *s, char *why, size_t size);
    int where, needs_double;
} checks[] = {{"inputs_kept", "inputs are left alone", check_inputs_kept, ON_CPU | ON_GPU, 0},
              {"written", "all elements are written", check_written, ON_CPU, 0},
              {"strided", "non-contiguous inputs", check_strided, ON_CPU | ON_GPU, 0},
              {"empty", "empty inputs", check_empty, ON_CPU | ON_GPU, 0},
              {"nan", "NaN passes through", check_nan, ON_CPU | ON_GPU, 0},
              {"f32", "f32 agrees with f64", check_f32, ON_CPU | ON_GPU, 1},
              {"cpu", "agrees with the CPU", check_devices, ON_GPU, 0}};

/* All checks of one place; keys on a GPU begin with cuda_. */
static dl_status run_checks(const subject *s, struct dlsh_sink *sink, dlsh_record *record, int *ok) {
    int where = s->device ? ON_GPU : ON_CPU;
    for (size_t i = 0; i < DLSH_COUNT(checks); i++) {
        char why[160] = "", key[40];
        if (!(checks[i].where & where) || (checks[i].needs_double && s->real != DL_F64)) continue;
        DLSH_TRY(checks[i].run(s, why, sizeof why));
        if (*why) *ok = 0;
        snprintf(key, sizeof key, "%s%s", s->device ? "cuda_" : "", checks[i].key);
        dlsh_put(sink, "  %s%s: %s%s\n", s->device ? "on the GPU, " : "", checks[i].what, *why ? "FAILED: " : "ok",
                 why);
        DLSH_TRY(dlsh_record_set(record, key, dlsh_bool(!*why)));
    }
    return DL_OK;
}

dl_status dlsh_opcheck(const dlsh_userop *u, const char *name, dl_tensor **in, int n, struct dlsh_sink *sink,
                       dlsh_record *record, int *ok) {
    subject s = {u, name, in, n, DL_F64, 0};
    DLSH_TRY(run_checks(&s, sink, record, ok));
    if (!dlsh_userop_cuda_real(u, &s.real)) return DL_OK;
    s.device = 1;
    if (dl_device_count() > 1) return run_checks(&s, sink, record, ok);
    dlsh_put(sink, "  on the GPU: not checked, %s\n", dl_device_missing());
    return DL_OK;
}
