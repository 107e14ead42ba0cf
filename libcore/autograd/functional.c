/* Derivatives of functions: products of the Jacobian matrix with vectors from both sides, the matrix itself, and the
 * matrix of second derivatives. */
#include "autograd/tape.h"
#include "core/scope.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/view.h"

#include <stdlib.h>

static _Thread_local int depth; /* of functions that are being called */

int dl_differentiating(void) { return depth > 0; }

static void unref_all(dl_tensor **t, int n) {
    for (int i = 0; i < n; i++) {
        if (t[i]) dl_unref(t[i]);
        t[i] = NULL;
    }
}

/* A call of the function: its inputs made anew, so that only what it computes of them counts, and its results. */
typedef struct run {
    dl_tensor_fn *fn;
    void *arg;
    int n, nout, create;
    dl_tensor **in; /* [n], owned */
    dl_tensor *out[DL_MAX_RESULTS];
} run;

static void run_free(run *r) {
    unref_all(r->in, r->in ? r->n : 0);
    unref_all(r->out, r->nout);
    free(r->in);
}
#define SCOPED_RUN DL_SCOPE(run_free) run

static dl_status check_floating(const dl_tensor *t, const char *what) {
    if (!t) return dl_fail_null(what);
    if (dl_dtype_is_float(t->dtype)) return DL_OK;
    return dl_fail_hint(DL_ERR_DTYPE, "convert it with .to(f32)", "%s is %s; derivatives need floating tensors", what,
                        dl_type_of(t));
}

/* A tensor to differentiate by: with `create` a view, whose gradient goes on to x, else a leaf of the same memory. */
static dl_tensor *fresh_input(dl_tensor *x, int create) {
    if (create && dl_requires_grad(x)) return dl_reshape(x, x->shape, x->ndim);
    dl_tensor *leaf = dl_detach(x);
    if (leaf && dl_set_requires_grad(leaf, 1) == DL_OK) return leaf;
    if (leaf) dl_unref(leaf);
    return NULL;
}

static dl_status begin(run *r, dl_tensor **in) {
    r->in = calloc((size_t)r->n + 1, sizeof(dl_tensor *));
    if (!r->in) return dl_fail(DL_ERR_MEMORY, "no memory for %d inputs", r->n);
    if (!r->n) return dl_fail(DL_ERR_VALUE, "a function without tensors has no derivative");
    r->create |= depth > 0;
    DL_SCOPED_GRAD_MODE(1);
    for (int i = 0; i < r->n; i++) {
        DL_TRY(check_floating(in[i], "an input"));
        if (!(r->in[i] = fresh_input(in[i], r->create))) return dl_failed();
    }
    depth++;
    int n = r->fn(r->in, r->n, r->out, DL_MAX_RESULTS, r->arg);
    depth--;
    if (n < 0) return dl_failed();
    r->nout = n;
    for (int i = 0; i < n; i++) DL_TRY(check_floating(r->out[i], "a result"));
    return DL_OK;
}

static dl_tensor *zeros_like(const dl_tensor *t) { return dl_zeros(t->shape, t->ndim, t->dtype, t->st->device); }

/* Gradients g[n] of sum(t * v) over m tensors; 0 for what nothing depends on. */
static dl_status gradients(dl_tensor **t, dl_tensor **v, int m, dl_tensor **in, int n, int retain, int create,
                           dl_tensor **g) {
    dl_tensor *root[DL_MAX_RESULTS], *seed[DL_MAX_RESULTS];
    int k = 0;
    for (int i = 0; i < m; i++)
        if (t[i] && dl_requires_grad(t[i])) root[k] = t[i], seed[k++] = v ? v[i] : NULL;
    for (int i = 0; i < n; i++) g[i] = NULL;
    if (k) DL_TRY(dl_gradients_of(root, v ? seed : NULL, k, in, n, retain, create, g));
    for (int i = 0; i < n; i++)
        if (!g[i] && !(g[i] = zeros_like(in[i]))) return unref_all(g, i), dl_failed();
    return DL_OK;
}

static dl_status check_vectors(dl_tensor **v, int nv, dl_tensor **of, int n, const char *what) {
    if (nv != n) return dl_fail(DL_ERR_VALUE, "%d vectors for %d %ss", nv, n, what);
    for (int i = 0; i < n; i++) {
        if (!v[i]) return dl_fail_null("a vector");
        if (!dl_shape_eq(v[i], of[i]))
            return dl_fail(DL_ERR_SHAPE, "a vector of shape %s for %s %d of shape %s", dl_shape_of(v[i]), what, i,
                           dl_shape_of(of[i]));
    }
    return DL_OK;
}

/* Of inputs whose gradients are results of a function. */
static dl_status check_count(int n) {
    return n <= DL_MAX_RESULTS ? DL_OK : dl_fail(DL_ERR_VALUE, "%d inputs; it takes %d", n, DL_MAX_RESULTS);
}

/* Results as values; without `create` they have no history. */
static dl_status give_results(run *r, dl_tensor **out, int *nout) {
    for (int i = 0; i < r->nout; i++) {
        out[i] = r->create ? dl_ref(r->out[i]) : dl_detach(r->out[i]);
        if (!out[i]) return unref_all(out, i), dl_failed();
    }
    *nout = r->nout;
    return DL_OK;
}

dl_status dl_vjp(dl_tensor_fn *fn, void *arg, dl_tensor **in, int n, dl_tensor **v, int nv, int create, dl_tensor **out,
                 int *nout, dl_tensor **g) {
    SCOPED_RUN r = {.fn = fn, .arg = arg, .n = n, .create = create};
    DL_TRY(begin(&r, in));
    if (v) DL_TRY(check_vectors(v, nv, r.out, r.nout, "result"));
    if (!v && (r.nout != 1 || r.out[0]->numel != 1))
        return dl_fail_hint(DL_ERR_VALUE, "give a vector for each result",
                            "only a function with one result of one element needs no vector");
    DL_TRY(gradients(r.out, v, r.nout, r.in, n, 0, r.create, g));
    dl_status s = give_results(&r, out, nout);
    if (s != DL_OK) unref_all(g, n);
    return s;
}

/* The gradient by the inputs is linear in the vector u that it starts from: its gradient by u is the product. */
static dl_status push_forward(run *r, dl_tensor **v, dl_tensor **u, dl_tensor **t) {
    DL_SCOPED_GRAD_MODE(1);
    for (int i = 0; i < r->nout; i++)
        if (!(u[i] = zeros_like(r->out[i])) || dl_set_requires_grad(u[i], 1) != DL_OK) return dl_failed();
    dl_tensor *g[DL_MAX_RESULTS] = {0};
    dl_status s = gradients(r->out, u, r->nout, r->in, r->n, 1, 1, g);
    if (s == DL_OK) s = gradients(g, v, r->n, u, r->nout, 1, r->create, t);
    unref_all(g, r->n);
    return s;
}

dl_status dl_jvp(dl_tensor_fn *fn, void *arg, dl_tensor **in, int n, dl_tensor **v, int create, dl_tensor **out,
                 int *nout, dl_tensor **t) {
    SCOPED_RUN r = {.fn = fn, .arg = arg, .n = n, .create = create};
    dl_tensor *u[DL_MAX_RESULTS] = {0};
    DL_TRY(check_count(n));
    DL_TRY(check_vectors(v, n, in, n, "input"));
    DL_TRY(begin(&r, in));
    dl_status s = push_forward(&r, v, u, t);
    unref_all(u, r.nout);
    DL_TRY(s);
    s = give_results(&r, out, nout);
    if (s != DL_OK) unref_all(t, r.nout);
    return s;
}

/* ---- the matrices */

/* Rows [m, shape of the input], one for each element of a result. Takes the rows, m of them, `step` apart. */
static dl_tensor *join_rows(dl_tensor **rows, long m, int step, const dl_tensor *result, const dl_tensor *input) {
    long shape[2 * DL_MAX_DIM], k = 0;
    int ndim = 0;
    if (result->ndim + input->ndim > DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "a Jacobian matrix with more than %d dimensions", DL_MAX_DIM), NULL;
    for (int i = 0; i < result->ndim; i++) shape[ndim++] = result->shape[i];
    for (int i = 0; i < input->ndim; i++) shape[ndim++] = input->shape[i];
    if (!m) return dl_zeros(shape, ndim, input->dtype, input->st->device);
    dl_tensor **part = calloc((size_t)m, sizeof(dl_tensor *)), *whole = NULL;
    if (!part) return dl_fail(DL_ERR_MEMORY, "no memory for %ld rows", m), NULL;
    for (long i = 0; i < m; i++) part[i] = dl_reshape(rows[i * step], (long[]){1, input->numel}, 2);
    for (k = m; k > 1 && part[0];) { /* an op takes DL_MAX_IN inputs */
        long made = 0;
        for (long i = 0; i < k; i += DL_MAX_IN) {
            int many = (int)(k - i < DL_MAX_IN ? k - i : DL_MAX_IN);
            dl_tensor *joined = dl_cat(part + i, many, 0);
            unref_all(part + i, many);
            part[made++] = joined;
        }
        k = made;
    }
    if (part[0]) whole = dl_reshape(part[0], shape, ndim);
    unref_all(part, (int)k);
    free(part);
    return whole;
}

/* 1 at element e, else 0. */
static dl_tensor *unit_vector(const dl_tensor *like, long e) {
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *at = dl_full((long[]){0}, 0, (double)e, DL_I64, like->st->device);
    DL_OWNED dl_tensor *marks = at ? dl_one_hot(at, like->numel) : NULL;
    DL_OWNED dl_tensor *row = marks ? dl_to(marks, like->dtype) : NULL;
    return row ? dl_reshape(row, like->shape, like->ndim) : NULL;
}

/* For each element of a result n gradients. */
static dl_status find_rows(run *r, dl_tensor *result, dl_tensor **rows) {
    for (long e = 0; e < result->numel; e++) {
        DL_OWNED dl_tensor *seed = unit_vector(result, e);
        if (!seed) return dl_failed();
        DL_TRY(dl_interrupt_check());
        DL_TRY(gradients(&result, &seed, 1, r->in, r->n, 1, r->create, rows + e * r->n));
    }
    return DL_OK;
}

static dl_status rows_of_result(run *r, dl_tensor *result, dl_tensor **j) {
    long m = result->numel;
    dl_tensor **rows = calloc((size_t)(m * r->n) + 1, sizeof(dl_tensor *));
    if (!rows) return dl_fail(DL_ERR_MEMORY, "no memory for %ld rows", m);
    dl_status s = find_rows(r, result, rows);
    DL_SCOPED_GRAD_MODE(r->create);
    for (int i = 0; s == DL_OK && i < r->n; i++)
        if (!(j[i] = join_rows(rows + i, m, r->n, result, r->in[i]))) s = dl_failed();
    for (long i = 0; i < m * r->n; i++)
        if (rows[i]) dl_unref(rows[i]);
    free(rows);
    return s;
}

dl_status dl_jacobian(dl_tensor_fn *fn, void *arg, dl_tensor **in, int n, int create, int *nout, dl_tensor **j) {
    SCOPED_RUN r = {.fn = fn, .arg = arg, .n = n, .create = create};
    DL_TRY(begin(&r, in));
    dl_status s = DL_OK;
    for (int i = 0; i < r.nout * n; i++) j[i] = NULL;
    for (int i = 0; s == DL_OK && i < r.nout; i++) s = rows_of_result(&r, r.out[i], j + (long)i * n);
    if (s != DL_OK) unref_all(j, r.nout * n);
    *nout = r.nout;
    return s;
}

/* The gradient as a function. */
typedef struct gradient {
    dl_tensor_fn *fn;
    void *arg;
} gradient;

static int gradient_of(dl_tensor **in, int n, dl_tensor **out, int max_out, void *arg) {
    gradient *of = arg;
    dl_tensor *result[DL_MAX_RESULTS];
    int made = of->fn(in, n, result, max_out, of->arg);
    if (made < 0) return -1;
    dl_status s = made == 1 && result[0]->numel == 1 ? check_floating(result[0], "the result")
                                                     : dl_fail(DL_ERR_SHAPE, "second derivatives are those of one "
                                                                             "result of one element");
    if (s == DL_OK) s = gradients(result, NULL, 1, in, n, 1, 1, out);
    unref_all(result, made);
    return s == DL_OK ? n : -1;
}

dl_status dl_hessian(dl_tensor_fn *fn, void *arg, dl_tensor **in, int n, int create, dl_tensor **h) {
    int nout;
    DL_TRY(check_count(n));
    return dl_jacobian(gradient_of, &(gradient){fn, arg}, in, n, create, &nout, h);
}
