/* Some eigenvalues of large symmetric matrices by products with them alone: Knyazev's locally optimal block
 * preconditioned conjugate gradients (2001). */
#include "ops/matrices.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/linalg.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/sparse.h"
#include "dlcore/unary.h"
#include "dlcore/view.h"
#include "ops/rules/linalg.h"

#include <math.h>
#include <string.h>

enum {
    MOST_STEPS = 1000, /* PyTorch's */
    SMALL = 64         /* rows of matrices of which all eigenvalues are found sooner than some */
};

/* A V = B V diag(L); B and the preconditioner may be NULL. A is dense, or has compressed rows. */
typedef struct pencil {
    dl_tensor *a, *crow, *col, *b, *precondition;
    long k, block, steps;
    double tol;
    bool largest;
} pencil;

static dl_tensor *times_a(dl_pool *p, const pencil *m, dl_tensor *x) {
    if (!x) return NULL;
    return K(m->crow ? dl_spmm(m->a, m->crow, m->col, x, NULL, NULL, NULL) : dl_matmul(m->a, x));
}

static dl_tensor *times_b(dl_pool *p, const pencil *m, dl_tensor *x) { return m->b && x ? K(dl_matmul(m->b, x)) : x; }

static dl_tensor *inner(dl_pool *p, dl_tensor *x, dl_tensor *y) {
    return x && y ? dl_mat_mul(p, dl_mat_turned(p, x), y) : NULL;
}

static dl_status length_of(dl_pool *p, dl_tensor *x, double *out) {
    dl_tensor *n = x ? K(dl_vector_norm(x, 2, NULL, 0, 0)) : NULL;
    return n ? dl_item_f(n, out) : dl_failed();
}

static dl_status no_basis(void) {
    return dl_fail_hint(DL_ERR_VALUE, "give X columns that are linearly independent, or leave it out",
                        "the vectors that lobpcg begins with are no basis");
}

/* Columns of S as combinations T that are orthonormal by B, of which nearly dependent ones are left out. */
static dl_tensor *orthonormal(dl_pool *p, const pencil *m, dl_tensor *s) {
    const double low = m->a->dtype == DL_F64 ? 1e-14 : 1e-6, tiny = m->a->dtype == DL_F64 ? 1e-300 : 1e-36;
    dl_tensor *gram = inner(p, s, times_b(p, m, s)), *square = gram ? K(dl_diagonal(gram, 0, -2, -1)) : NULL;
    dl_tensor *scale = square ? K(dl_rsqrt(K(dl_clamp(square, &tiny, NULL)))) : NULL, *v = NULL;
    dl_tensor *even = scale ? dl_mat_scale_rows(p, dl_mat_scale_columns(p, gram, scale), scale) : NULL;
    dl_tensor *e = even ? K(dl_eigh(even, "L", &v)) : NULL, *large = e ? K(dl_gt(e, N(low * (double)e->numel))) : NULL;
    K(v);
    long n = 0;
    dl_tensor *count = large ? K(dl_sum(large, NULL, 0, 0)) : NULL;
    if (!count || dl_item_i(count, &n)) return NULL;
    if (!n) return no_basis(), NULL;
    dl_tensor *root = K(dl_rsqrt(K(dl_narrow(e, 0, e->numel - n, n))));
    return dl_mat_scale_rows(p, dl_mat_scale_columns(p, dl_mat_columns(p, v, v->shape[1] - n, -1), root), scale);
}

/* The best combinations of the columns of S, [columns, block], and their numbers, the wanted end first. */
static dl_tensor *best_of(dl_pool *p, const pencil *m, dl_tensor *s, dl_tensor **values) {
    dl_tensor *t = orthonormal(p, m, s), *base = t ? dl_mat_mul(p, s, t) : NULL, *v = NULL;
    dl_tensor *small = inner(p, base, times_a(p, m, base));
    *values = small ? K(dl_eigh(small, "L", &v)) : NULL;
    K(v);
    if (!*values) return NULL;
    const long n = (*values)->numel, some = n < m->block ? n : m->block, from = m->largest ? n - some : 0, last = -1;
    dl_tensor *e = K(dl_narrow(*values, 0, from, some)), *c = K(dl_narrow(v, 1, from, some));
    if (m->largest) e = K(dl_flip(e, (long[]){0}, 1)), c = K(dl_flip(c, &last, 1));
    *values = e;
    return c ? dl_mat_mul(p, t, c) : NULL;
}

/* Of the first k: is each residual small beside what A and B do to a vector? */
static dl_status settled(dl_pool *p, const pencil *m, dl_tensor *r, dl_tensor *x, dl_tensor *e, const double size[2],
                         long *yes) {
    const long rows = 0;
    dl_tensor *left = K(dl_vector_norm(dl_mat_columns(p, r, 0, m->k), 2, &rows, 1, 0));
    dl_tensor *length = K(dl_vector_norm(dl_mat_columns(p, x, 0, m->k), 2, &rows, 1, 0));
    dl_tensor *by = K(dl_add(K(dl_mul(K(dl_abs(K(dl_narrow(e, 0, 0, m->k)))), N(size[1]))), N(size[0])));
    dl_tensor *limit = K(dl_mul(K(dl_mul(length, by)), N(m->tol)));
    dl_tensor *all = limit ? K(dl_all(K(dl_le(left, limit)), NULL, 0, 0)) : NULL;
    return all ? dl_item_i(all, yes) : dl_failed();
}

/* What the loop carries on: vectors, the direction that they last moved in, and the numbers. */
typedef struct state {
    dl_tensor *x, *p, *e;
} state;

static void state_free(state *s) { dl_unref(s->x), dl_unref(s->p), dl_unref(s->e); }

static dl_status take(state *s, dl_tensor *x, dl_tensor *moved, dl_tensor *e) {
    if (!x || !e) return dl_failed();
    state was = *s;
    *s = (state){dl_ref(x), dl_ref(moved), dl_ref(e)};
    state_free(&was);
    return DL_OK;
}

/* One step; *done where the residuals are small. */
static dl_status go_on(const pencil *m, state *s, const double size[2], long *done) {
    POOL;
    dl_tensor *bx = times_b(p, m, s->x), *values;
    dl_tensor *r = K(dl_sub(times_a(p, m, s->x), dl_mat_scale_columns(p, bx, s->e)));
    if (!r) return dl_failed();
    DL_TRY(settled(p, m, r, s->x, s->e, size, done));
    if (*done) return DL_OK;
    dl_tensor *w = m->precondition ? K(dl_matmul(m->precondition, r)) : r;
    w = w ? K(dl_sub(w, dl_mat_mul(p, s->x, inner(p, bx, w)))) : NULL; /* beside x */
    dl_tensor *parts[3] = {s->x, w, s->p};
    dl_tensor *all = w ? K(dl_cat(parts, s->p ? 3 : 2, 1)) : NULL, *c = all ? best_of(p, m, all, &values) : NULL;
    if (!c) return dl_failed();
    const long n = s->x->shape[1];
    dl_tensor *moved = dl_mat_mul(p, dl_mat_columns(p, all, n, -1), dl_mat_rows(p, c, n, -1));
    return take(s, dl_mat_mul(p, all, c), moved, values);
}

/* Numbers that look random: the same for each call. */
static dl_tensor *first_vectors(dl_pool *p, const pencil *m, long rows) {
    dl_tensor *i = K(dl_arange(0, &(double){(double)(rows * m->block)}, 1, DL_F64, m->a->st->device));
    dl_tensor *wild = i ? K(dl_mul(K(dl_sin(K(dl_mul(K(dl_add(i, N(1))), N(12.9898))))), N(43758.5453))) : NULL;
    dl_tensor *x = wild ? K(dl_sub(K(dl_sub(wild, K(dl_floor(wild)))), N(0.5))) : NULL;
    dl_tensor *flat = x ? K(dl_to_dtype(x, m->a->dtype)) : NULL;
    return flat ? K(dl_reshape(flat, (long[]){rows, m->block}, 2)) : NULL;
}

static dl_status begin(const pencil *m, dl_tensor *given, long rows, state *s, double size[2]) {
    POOL;
    dl_tensor *x = given ? given : first_vectors(p, m, rows), *values;
    double length = 0;
    size[1] = 1;
    if (!x) return dl_failed();
    DL_TRY(length_of(p, x, &length));
    DL_TRY(length_of(p, times_a(p, m, x), &size[0]));
    if (m->b) DL_TRY(length_of(p, times_b(p, m, x), &size[1]));
    if (!(length > 0)) return no_basis();
    size[0] /= length, size[1] = m->b ? size[1] / length : 1;
    dl_tensor *c = best_of(p, m, x, &values);
    if (!c) return dl_failed();
    if (c->shape[1] < m->k) return no_basis();
    return take(s, dl_mat_mul(p, x, c), NULL, values);
}

/* Values [k] and vectors [rows, k], new references. */
static dl_status iterate(const pencil *m, dl_tensor *given, long rows, dl_tensor **values, dl_tensor **vectors) {
    DL_SCOPED_GRAD_MODE(0);
    state s DL_SCOPE(state_free) = {0};
    double size[2];
    long done = 0;
    DL_TRY(begin(m, given, rows, &s, size));
    for (long i = 0; (m->steps < 0 || i < m->steps) && !done; i++) {
        DL_TRY(dl_interrupt_check());
        DL_TRY(go_on(m, &s, size, &done));
    }
    *values = dl_slice(s.e, 0, NULL, &m->k, 1);
    *vectors = *values ? dl_slice(s.x, 1, NULL, &m->k, 1) : NULL;
    return *vectors ? DL_OK : dl_failed();
}

/* ---- the rows */

/* What a call asks for, of matrices of n rows; X, or NULL, has the width of the block. */
static dl_status read_call(const dl_call *c, long n, const dl_tensor *x, dl_dtype dtype, pencil *m) {
    const dl_aval *k = ATTR(c, EIGENPAIRS_K), *block = ATTR(c, EIGENPAIRS_N), *steps = ATTR(c, EIGENPAIRS_NITER),
                  *tol = ATTR(c, EIGENPAIRS_TOL), *method = ATTR(c, EIGENPAIRS_METHOD);
    m->k = k->given ? k->u.i : x ? dl_mat_width(x) : 1;
    m->block = x ? dl_mat_width(x) : block->given ? block->u.i : m->k;
    m->steps = steps->given ? steps->u.i : MOST_STEPS;
    m->tol = tol->given ? tol->u.f : sqrt(dtype == DL_F64 ? 0x1p-52 : 0x1p-23);
    m->largest = ATTR_I(c, EIGENPAIRS_LARGEST);
    if (m->k < 1 || m->k > n)
        return dl_fail(DL_ERR_VALUE, "%ld eigenvalues of a matrix of %ld rows are asked for", m->k, n);
    if (m->block < m->k)
        return dl_fail_hint(DL_ERR_VALUE, "as many vectors, n= or columns of X, as eigenvalues, k=, or more",
                            "%ld vectors are iterated for %ld eigenvalues", m->block, m->k);
    if (method->given && strcmp(method->u.s, "ortho") && strcmp(method->u.s, "basic"))
        return dl_fail(DL_ERR_VALUE, "method is ortho or basic, not '%s'", method->u.s);
    return DL_OK;
}

static dl_status check_square(const dl_tensor *t, long n, const char *what) {
    if (!t || (t->ndim >= 2 && dl_mat_height(t) == n && dl_mat_width(t) == n)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "%s has shape %s, the matrices are %ld by %ld", what, dl_shape_of(t), n, n);
}

static bool has_history(const dl_tensor *t) { return t && dl_grad_mode_get() && dl_requires_grad(t); }

/* By all eigenvalues: of small matrices, and where gradients are wanted. */
static dl_status by_eigh(dl_call *c, dl_pool *p, const pencil *m) {
    dl_tensor *v = NULL, *l = m->b ? K(dl_cholesky(m->b, 0)) : NULL, *a = m->a;
    if (m->b && !l) return dl_failed();
    if (l) { /* L^-1 A L^-T of B = L L^T has the same eigenvalues */
        dl_tensor *half = dl_mat_triangle(p, l, a, false, false, false);
        a = dl_mat_turned(p, dl_mat_triangle(p, l, dl_mat_turned(p, half), false, false, false));
    }
    dl_tensor *values = a ? K(dl_eigh(a, "L", &v)) : NULL;
    if (!values) return dl_failed();
    K(v);
    if (l && !(v = dl_mat_triangle(p, l, v, false, true, false))) return dl_failed();
    const long n = dl_mat_width(m->a), from = m->largest ? n - m->k : 0, last = -1;
    dl_tensor *some = K(dl_narrow(values, -1, from, m->k)), *vectors = K(dl_narrow(v, -1, from, m->k));
    c->out[0] = m->largest ? dl_flip(some, &last, 1) : dl_clone(some);
    c->out[1] = m->largest ? dl_flip(vectors, &last, 1) : dl_clone(vectors);
    return c->out[0] && c->out[1] ? DL_OK : dl_failed();
}

/* Number i of a batch; t itself where it is one matrix for all. */
static dl_tensor *matrix_at(dl_pool *p, dl_tensor *t, long i) {
    if (!t || t->ndim == 2) return t;
    dl_tensor *flat = K(
        dl_reshape(t, (long[]){t->numel / (dl_mat_height(t) * dl_mat_width(t)), dl_mat_height(t), dl_mat_width(t)}, 3));
    return flat ? K(dl_select(flat, 0, i)) : NULL;
}

/* One after another, as the number of steps depends on the matrix. */
static dl_status each_matrix(dl_call *c, const pencil *m, dl_tensor *x) {
    const dl_tensor *a = m->a;
    const long n = dl_mat_width(a), many = a->numel / (n * n);
    long shape[DL_MAX_DIM];
    DL_FREED dl_tensor **part = calloc((size_t)(2 * many), sizeof *part);
    dl_status st = part ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for %ld matrices", many);
    for (long i = 0; st == DL_OK && i < many; i++) {
        POOL;
        pencil one = *m;
        one.a = matrix_at(p, m->a, i), one.b = matrix_at(p, m->b, i);
        one.precondition = matrix_at(p, m->precondition, i);
        st = iterate(&one, matrix_at(p, x, i), n, &part[i], &part[many + i]);
    }
    memcpy(shape, a->shape, sizeof *shape * (size_t)a->ndim);
    shape[a->ndim - 1] = m->k;
    for (int i = 0; st == DL_OK && i < 2; i++) {
        DL_OWNED dl_tensor *all = dl_stack(part + i * many, (int)many, 0);
        if (i == 0) shape[a->ndim - 2] = m->k;
        c->out[i] = all ? dl_reshape(all, shape, i ? a->ndim : a->ndim - 1) : NULL;
        shape[a->ndim - 2] = n;
        if (!c->out[i]) st = dl_failed();
    }
    for (long i = 0; part && i < 2 * many; i++) dl_unref(part[i]);
    return st;
}

POOLED_RULE(lobpcg) {
    dl_tensor *a = c->in[0], *b = INPUT(c, LOBPCG_B), *x = INPUT(c, LOBPCG_X), *k = INPUT(c, LOBPCG_IK);
    if (a->ndim < 2 || dl_mat_height(a) != dl_mat_width(a))
        return dl_fail(DL_ERR_SHAPE, "square matrices are needed, not a tensor of shape %s", dl_shape_of(a));
    const long n = dl_mat_width(a);
    pencil m = {.a = a, .b = b, .precondition = k};
    DL_TRY(check_square(b, n, "B"));
    DL_TRY(check_square(k, n, "iK"));
    if (x && (x->ndim < 2 || dl_mat_height(x) != n))
        return dl_fail(DL_ERR_SHAPE, "X has shape %s, the matrices %ld rows", dl_shape_of(x), n);
    DL_TRY(read_call(c, n, x, a->dtype, &m));
    if (has_history(a) || has_history(b) || n < 3 * m.block || n <= SMALL || !a->numel || dl_dtype_is_complex(a->dtype))
        return by_eigh(c, p, &m);
    return each_matrix(c, &m, x);
}

POOLED_RULE(lobpcg_csr) {
    dl_tensor *a = INPUT(c, LOBPCG_CSR_VALUES), *x = INPUT(c, LOBPCG_CSR_X);
    const long n = INPUT(c, LOBPCG_CSR_CROW)->numel - 1;
    (void)p;
    pencil m = {
        a,     INPUT(c, LOBPCG_CSR_CROW), INPUT(c, LOBPCG_CSR_COL), INPUT(c, LOBPCG_CSR_B), INPUT(c, LOBPCG_CSR_IK),
        .k = 0};
    if (has_history(a) || has_history(m.b))
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "lobpcg(s.to_dense(), ...) has them",
                            "lobpcg has no gradients of sparse matrices");
    DL_TRY(check_square(m.b, n, "B"));
    DL_TRY(check_square(m.precondition, n, "iK"));
    if (x && (x->ndim != 2 || dl_mat_height(x) != n))
        return dl_fail(DL_ERR_SHAPE, "X has shape %s, the matrix %ld rows", dl_shape_of(x), n);
    DL_TRY(read_call(c, n, x, a->dtype, &m));
    if (n < 3 * m.block)
        return dl_fail_hint(DL_ERR_VALUE, "lobpcg(s.to_dense(), ...) takes any",
                            "%ld vectors are iterated of a matrix of %ld rows; a third of the rows at most", m.block,
                            n);
    return iterate(&m, x, n, &c->out[0], &c->out[1]);
}
