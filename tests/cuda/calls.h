/* Calls of rows on either device: inputs laid out in memory in several ways, results and gradients brought to the
 * CPU. */
#ifndef TESTS_CUDA_CALLS_H
#define TESTS_CUDA_CALLS_H

#include "cuda/gpu.h"

enum { MAX_INPUTS = 16, MAX_RESULTS = DL_MAX_OUT + MAX_INPUTS };

/* One sample call and, after it ran, its results and gradients on the CPU. */
typedef struct call {
    const dl_op *op;
    char key[96];
    dl_tensor *in[MAX_INPUTS], *result[MAX_RESULTS];
    int nin;
    dl_aval attr[DL_MAX_ATTR];
} call;

/* The same values with gaps in memory and the dimensions the other way round. */
static inline dl_tensor *stretched(dl_tensor *x) {
    int n = dl_ndim(x);
    long shape[DL_MAX_DIM], order[DL_MAX_DIM];
    for (int i = 0; i < n; i++) shape[i] = dl_shape(x)[n - 1 - i] * 2, order[i] = n - 1 - i;
    dl_tensor *v = must(dl_tensor_zeros(n, shape, dl_dtype_of(x), dl_device_of(x)));
    for (int i = 0; i < n; i++) {
        dl_tensor *next = must(dl_slice(v, i, NULL, NULL, 2));
        dl_unref(v);
        v = next;
    }
    dl_tensor *p = must(dl_permute(v, order, n));
    ok(dl_assign(p, x));
    dl_tensor *d = must(dl_detach(p));
    dl_unref(v), dl_unref(p);
    return d;
}

/* Reads "f[2,3] s:1.5 dim=1": make(arg, i, token) gives input i. */
static inline void parse_call(call *c, const char *text, dl_tensor *(*make)(void *, int, const char *), void *arg) {
    char copy[512], *save = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    dl_attr_defaults(c->op, c->attr);
    for (char *tok = strtok_r(copy, " ", &save); tok; tok = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(tok, '=');
        int i = c->nin;
        if (eq) {
            *eq = 0;
            int a = dl_attr_index(c->op, tok);
            ok(dl_attr_parse(c->op, a, eq + 1, &c->attr[a]));
            continue;
        }
        c->nin++;
        if (*tok == '-') continue;
        if (!strncmp(tok, "s:", 2)) {
            c->in[i] = strpbrk(tok, ".e") ? dl_scalar_f(atof(tok + 2)) : dl_scalar_i(atol(tok + 2));
            continue;
        }
        c->in[i] = must(make(arg, i, tok));
        bool leaf = dl_dtype_is_float(dl_dtype_of(c->in[i])) && !(c->op->nondiff_in >> i & 1);
        if (leaf && !(c->op->flags & DL_F_NODIFF)) ok(dl_set_requires_grad(c->in[i], 1));
    }
}

/* total + sum of t times fixed weights, which are exact in every dtype. */
static inline dl_tensor *weighted(dl_tensor *t, dl_tensor *total) {
    dl_tensor *w = must(dl_tensor_empty(dl_ndim(t), dl_shape(t), DL_F64, 0));
    for (long i = 0; i < dl_numel(w); i++) ((double *)dl_data(w))[i] = 0.5 + (double)(i * 11 % 32) / 32;
    dl_tensor *there = must(dl_to_device(w, dl_device_of(t))), *cast = must(dl_to_dtype(t, DL_F64));
    dl_tensor *p = must(dl_mul(cast, there)), *s = must(dl_sum(p, NULL, 0, 0));
    dl_tensor *sum = total ? must(dl_add(total, s)) : dl_ref(s);
    dl_unref(w), dl_unref(there), dl_unref(cast), dl_unref(p), dl_unref(s), dl_unref(total);
    return sum;
}

static inline dl_tensor *host(dl_tensor *t) { return t ? must(dl_to_device(t, 0)) : NULL; }

/* False: the call failed. */
static inline bool run(call *c) {
    dl_tensor *out[DL_MAX_OUT] = {0}, *total = NULL;
    dl_seed(5);
    if (dl_invoke(c->op, c->in, c->nin, c->attr, out) != DL_OK) return false;
    for (int i = 0; i < c->op->out; i++) {
        if (i < c->op->visible && out[i]) {
            dl_tensor *d = must(dl_detach(out[i]));
            c->result[i] = host(d);
            dl_unref(d);
            if (dl_dtype_is_float(dl_dtype_of(out[i])) && dl_requires_grad(out[i])) total = weighted(out[i], total);
        }
        dl_unref(out[i]);
    }
    bool good = !total || dl_backward(total, NULL, 0, 0) == DL_OK;
    dl_unref(total);
    for (int i = 0; good && i < c->nin; i++) {
        bool changed = c->op->mutates >> i & 1;
        dl_tensor *t = !c->in[i] ? NULL : changed ? c->in[i] : dl_grad(c->in[i]);
        c->result[DL_MAX_OUT + i] = host(t);
    }
    return good;
}

static inline void unload(call *c) {
    for (int i = 0; i < c->nin; i++) dl_unref(c->in[i]);
    for (int i = 0; i < MAX_RESULTS; i++) dl_unref(c->result[i]);
}

#endif
