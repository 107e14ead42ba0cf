/* Calls of rows of the op table as samples describe them: inputs drawn or given, laid out in memory in several ways. */
#ifndef TESTS_SUPPORT_CALLS_H
#define TESTS_SUPPORT_CALLS_H

#include "support/tensors.h"

#include <stdio.h>
#include "dlcore/view.h"

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
        bool leaf = dl_dtype_is_smooth(dl_dtype_of(c->in[i])) && !(c->op->nondiff_in >> i & 1);
        if (leaf && !(c->op->flags & DL_F_NODIFF)) ok(dl_set_requires_grad(c->in[i], 1));
    }
}

/* The complex numbers whose parts are in the last dimension of t, which it takes over. */
static inline dl_tensor *of_parts(dl_tensor *t) {
    dl_tensor *wide = must(dl_to_dtype(t, dl_dtype_of(t) == DL_F64 ? DL_F64 : DL_F32));
    dl_tensor *z = must(dl_invoke1(dl_op_find("view_as_complex"), &wide, 1, NULL));
    dl_tensor *own = must(dl_invoke1(dl_op_find("clone"), &z, 1, NULL));
    dl_unref(t), dl_unref(z), dl_unref(wide);
    return own;
}

/* The parts of complex numbers as a last dimension; real ones as they are. A new reference. */
static inline dl_tensor *parts_of(dl_tensor *t) {
    return dl_dtype_is_complex(dl_dtype_of(t)) ? must(dl_invoke1(dl_op_find("view_as_real"), &t, 1, NULL)) : dl_ref(t);
}

/* Floating numbers in a dtype, complex ones in that whose parts are as wide; others as they are. A new reference. */
static inline dl_tensor *in_dtype(dl_tensor *t, dl_dtype dtype) {
    const dl_dtype own = dl_dtype_of(t);
    if (dl_dtype_is_complex(own)) dtype = dl_dtype_to_complex(dtype);
    return must(dl_to_dtype(t, dl_dtype_is_smooth(own) ? dtype : own));
}

static uint64_t state_of_draws;
static inline uint32_t draw(uint32_t below) {
    state_of_draws = state_of_draws * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state_of_draws >> 33) % below);
}

static inline double value_of(char kind, long i, long n, long below, const long *order) {
    double u = (double)draw(1u << 24) / (1 << 24);
    switch (kind) {
    case 'f': return (u + (double)draw(1u << 24) / (1 << 24) + (double)draw(1u << 24) / (1 << 24) - 1.5) * 2;
    case 'p': return 0.5 + 1.5 * u;
    case 'u': return 0.9 * (2 * u - 1);
    case 'q': return 0.05 + 0.9 * u;
    case 'o': return u < 0.5 ? -1 : 1;
    case 'd': return ((double)order[i] - 0.5 * (double)n + 0.31) * (n > 120 ? 6.0 / (double)n : 0.05);
    case 'b': return draw(2);
    case 'l': return 1 + (double)draw((uint32_t)below);
    default: return (double)draw(below ? (uint32_t)below : 1);
    }
}

/* Matrices m = x x^T / n + 1 of rounded elements, w = x / 4 + 2 on the diagonal, and t, its lower triangle. */
static inline void make_matrices(char kind, double *x, long n, long side) {
    double *own = calloc((size_t)(side * side) + 1, sizeof *own);
    assert_non_null(own);
    for (double *a = x; side && a < x + n; a += side * side) {
        memcpy(own, a, (size_t)(side * side) * sizeof *a);
        for (long i = 0; i < side * side; i++) {
            long r = i / side, c = i % side;
            double sum = r == c ? kind == 'm' ? 1 : 2 : 0;
            for (long k = 0; k < side && kind == 'm'; k++) sum += own[r * side + k] * own[c * side + k] / (double)side;
            a[i] = kind == 't' && c > r ? 0 : (double)(float)(kind == 'm' ? sum : sum + own[i] / 4);
        }
    }
    free(own);
}

/* Whole numbers that go up from 0 to `end`. */
static inline void make_starts(double *x, long n, long end) {
    for (long i = 0; i < n; i++) x[i] = i == 0 ? 0 : i == n - 1 ? (double)end : (double)draw((uint32_t)end + 1);
    for (long i = 1; i < n; i++)
        for (long k = i; k > 0 && x[k] < x[k - 1]; k--) {
            double t = x[k];
            x[k] = x[k - 1], x[k - 1] = t;
        }
}

/* The input that a sample describes as "f[2,3]" (ops/ops.def), drawn, on the CPU; floating values rounded to dtype. */
static inline dl_tensor *sample_input(const char *token, dl_dtype dtype) {
    long shape[DL_MAX_DIM], below = 1, n = 1;
    int ndim = 0;
    bool whole = *token == 'n' || *token == 'l' || *token == 'r';
    if (whole) below = atol(token + 2);
    for (const char *p = strchr(token, '[') + 1; *p && *p != ']'; p += *p == ',')
        shape[ndim++] = strtol(p, (char **)&p, 10);
    for (int i = 0; i < ndim; i++) n *= shape[i];
    dl_dtype own = whole ? DL_I64 : *token == 'b' ? DL_BOOL : dtype;
    if (*token == 'c') shape[ndim++] = 2, n *= 2; /* pairs of parts */
    dl_tensor *t = must(dl_tensor_empty(ndim, shape, own, 0));
    long *order = calloc((size_t)n + 1, sizeof *order);
    assert_non_null(order);
    for (long i = 0; i < n; i++) {
        long j = draw((uint32_t)i + 1);
        order[i] = order[j], order[j] = i;
    }
    bool matrices = *token == 'm' || *token == 'w' || *token == 't';
    double *x = calloc((size_t)n + 1, sizeof *x);
    assert_non_null(x);
    for (long i = 0; i < n; i++) x[i] = value_of(matrices || *token == 'c' ? 'f' : *token, i, n, below, order);
    if (*token == 'r') make_starts(x, n, below);
    if (matrices) make_matrices(*token, x, n, shape[ndim - 1]);
    for (long i = 0; i < n; i++) dl_store_f64((char *)dl_data(t) + i * dl_dtype_size(own), own, x[i]);
    free(order), free(x);
    return *token == 'c' ? of_parts(t) : t;
}

#endif
