/* Matrices in memory, and the operands of matmul as batches of them, for the kernels of every backend. */
#pragma once

#include "core/op.h"

/* Element (i, j) is number i * rs + j * cs from p on. */
typedef struct dl_mat {
    void *p;
    long rs, cs;
} dl_mat;

static inline dl_mat dl_mat_transposed(dl_mat m) {
    dl_mat t = {m.p, m.cs, m.rs};
    return t;
}

/* Products of a, m x k, and b, k x n, over the dimensions of a batch; strides in elements, 0 where an operand is
 * repeated. The results are contiguous, one after another from `out` on. */
typedef struct dl_products {
    dl_mat a, b;
    void *out;
    long m, n, k;
    int ndim;
    long shape[DL_MAX_DIM], stride[2][DL_MAX_DIM];
} dl_products;

/* The matrix of the last dimensions of an operand; returns how many dimensions of a batch are before them. */
static inline int dl_mat_of(const dl_tensor *t, bool left, dl_mat *m) {
    int d = t->ndim;
    m->p = dl_ptr(t), m->rs = m->cs = 0;
    if (d == 1) {
        *(left ? &m->cs : &m->rs) = t->stride[0];
        return 0;
    }
    m->rs = t->stride[d - 2], m->cs = t->stride[d - 1];
    return d - 2;
}

static inline void dl_products_of(const dl_tensor *a, const dl_tensor *b, const dl_tensor *o, dl_products *p) {
    const dl_tensor *in[2] = {a, b};
    int nb[2] = {dl_mat_of(a, true, &p->a), dl_mat_of(b, false, &p->b)};
    p->out = dl_ptr(o);
    p->k = a->shape[a->ndim - 1];
    p->m = a->ndim > 1 ? a->shape[a->ndim - 2] : 1;
    p->n = b->ndim > 1 ? b->shape[b->ndim - 1] : 1;
    p->ndim = nb[0] > nb[1] ? nb[0] : nb[1];
    for (int i = 0; i < p->ndim; i++) {
        p->shape[i] = o->shape[i];
        for (int w = 0; w < 2; w++) {
            int d = i - (p->ndim - nb[w]);
            p->stride[w][i] = d >= 0 && in[w]->shape[d] > 1 ? in[w]->stride[d] : 0;
        }
    }
}

/* Makes dimensions of the batch rows of the left operand where they lie like further rows and the right operand is
 * repeated over them; `takes` says whether a product can read such a matrix, NULL: any. */
static inline void dl_products_fold(dl_products *p, bool (*takes)(const dl_mat *m, long rows, long cols)) {
    for (; p->ndim > 0; p->ndim--) {
        int i = p->ndim - 1;
        if (p->stride[1][i] || (p->shape[i] > 1 && p->m > 1 && p->stride[0][i] != p->m * p->a.rs)) return;
        dl_mat a = p->a;
        if (p->m == 1) a.rs = p->stride[0][i];
        if (takes && !takes(&a, p->m * p->shape[i], p->k)) return;
        p->a = a;
        p->m *= p->shape[i];
    }
}
