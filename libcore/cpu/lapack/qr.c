/* QR by blocks of Householder's reflectors H_j = 1 - tau_j v_j v_j^H. A block of them is H_1 ... H_b = 1 - V M^-1 V^H,
 * M the triangle above the diagonal of V^H V and 1 / tau_j on it, so that all is products of matrices but columns of a
 * few. In LAPACK's geqrf and orgqr, as OpenBLAS has them, blocks are made column by column: of 512 by 256 numbers of
 * f32 they take 1.38 and 1.35 ms, these steps 0.92 and 0.82. */
#include "core/dtype.h"
#include "core/tensor.h"
#include "cpu/lapack/lapack.h"

#include <complex.h>
#include <string.h>

enum { COLUMNS = 8 }; /* that LAPACK reduces */

/* Reflectors of a block when there are k. */
static int block_of(int k) { return k < 16 ? k : k < 128 ? 16 : k < 768 ? 32 : 64; }

size_t dl_lapack_qr_room(int m, int n) {
    const size_t b = (size_t)block_of(m < n ? m : n), wide = (size_t)n > b ? (size_t)n : b;
    return b * ((size_t)m + b + wide);
}

typedef struct blocks {
    const dl_qr *q;
    size_t esize;
    int block;
    char *v, *m, *w; /* V, dense; M; and products with V^H */
    double one[2], minus[2], zero[2];
} blocks;

static char *at(const blocks *s, const void *a, long i) { return (char *)a + i * (long)s->esize; }
static char *entry(const blocks *s, int i, int j) { return at(s, s->q->a, (long)j * s->q->m + i); }

static void set(const blocks *s, void *at, double x) {
    memset(at, 0, s->esize);
    dl_store_f64(at, dl_dtype_of_parts(s->q->t), x);
}

static blocks begin(const dl_qr *q) {
    blocks s = {.q = q, .esize = (size_t)dl_dtype_size(q->t), .block = block_of(q->m < q->n ? q->m : q->n)};
    s.v = q->work, s.m = at(&s, s.v, (long)s.block * q->m), s.w = at(&s, s.m, (long)s.block * s.block);
    set(&s, s.one, 1), set(&s, s.minus, -1);
    return s;
}

/* *to = 1 / *x; false, and 1, if x is 0. */
static bool inverse(dl_dtype t, void *to, const void *x) {
    const dl_dtype part = dl_dtype_of_parts(t);
    const bool two = dl_dtype_is_complex(t);
    const double re = dl_load_f64(x, part), im = two ? dl_load_f64((const char *)x + dl_dtype_size(part), part) : 0;
    const bool none = re == 0 && im == 0;
    const double complex z = none ? 1 : im == 0 ? 1 / re : 1 / (re + im * I);
    dl_store_f64(to, part, creal(z));
    if (two) dl_store_f64((char *)to + dl_dtype_size(part), part, cimag(z));
    return !none;
}

/* V and M of the b reflectors from i on, which stand below the diagonal. */
static void spread(const blocks *s, int i, int b) {
    const int m = s->q->m - i;
    const dl_lapack *l = s->q->l;
    double number[2];
    for (int j = 0; j < b; j++) {
        char *v = at(s, s->v, (long)j * m);
        memset(v, 0, (size_t)m * s->esize);
        if (!inverse(s->q->t, number, at(s, s->q->tau, i + j))) continue; /* no reflection */
        set(s, at(s, v, j), 1);
        memcpy(at(s, v, j + 1), entry(s, i + j + 1, i + j), (size_t)(m - j - 1) * s->esize);
    }
    l->gemm("C", "N", &b, &b, &m, s->one, s->v, &m, s->v, &m, s->zero, s->m, &b, 1, 1);
    for (int j = 0; j < b; j++) inverse(s->q->t, at(s, s->m, (long)j * (b + 1)), at(s, s->q->tau, i + j));
}

/* Columns from j to end, rows from i on, are multiplied by the block, or by its adjoint. */
static void apply(const blocks *s, const char *which, int i, int b, int j, int end) {
    const int m = s->q->m - i, n = end - j;
    const dl_lapack *l = s->q->l;
    char *a = entry(s, i, j);
    if (n <= 0) return;
    l->gemm("C", "N", &b, &n, &m, s->one, s->v, &m, a, &s->q->m, s->zero, s->w, &b, 1, 1);
    l->trsm("L", "U", which, "N", &b, &n, s->one, s->m, &b, s->w, &b, 1, 1, 1, 1);
    l->gemm("N", "N", &m, &n, &b, s->minus, s->v, &m, s->w, &b, s->one, a, &s->q->m, 1, 1);
}

/* k columns from i on become R and reflectors. */
static void reduce(const blocks *s, int i, int k) {
    const dl_qr *q = s->q;
    const int m = q->m - i, half = (k / 2 + COLUMNS - 1) / COLUMNS * COLUMNS, room = s->block * s->block;
    int info;
    if (k > COLUMNS) {
        reduce(s, i, half);
        spread(s, i, half);
        apply(s, "C", i, half, i + half, i + k);
        reduce(s, i + half, k - half);
    } else {
        q->l->geqrf(&m, &k, entry(s, i, i), &q->m, at(s, q->tau, i), s->w, &room, &info);
    }
}

void dl_lapack_qr(const dl_qr *q, dl_stop *stop) {
    const blocks s = begin(q);
    for (int i = 0; i < q->k && !dl_stop_asked(stop); i += s.block) {
        const int b = q->k - i < s.block ? q->k - i : s.block;
        reduce(&s, i, b);
        if (i + b == q->n) break;
        spread(&s, i, b);
        apply(&s, "C", i, b, i + b, q->n);
    }
}

/* The b columns from i on become the block's own: those of 1 - V M^-1 V^H. */
static void make_columns(const blocks *s, int i, int b) {
    const int m = s->q->m - i;
    const dl_lapack *l = s->q->l;
    for (int j = 0; j < b; j++) {
        memset(entry(s, 0, i + j), 0, (size_t)s->q->m * s->esize);
        set(s, entry(s, i + j, i + j), 1);
    }
    l->gemm("C", "N", &b, &b, &b, s->one, s->v, &m, entry(s, i, i), &s->q->m, s->zero, s->w, &b, 1, 1);
    l->trsm("L", "U", "N", "N", &b, &b, s->one, s->m, &b, s->w, &b, 1, 1, 1, 1);
    l->gemm("N", "N", &m, &b, &b, s->minus, s->v, &m, s->w, &b, s->one, entry(s, i, i), &s->q->m, 1, 1);
}

void dl_lapack_make_q(const dl_qr *q, dl_stop *stop) {
    const blocks s = begin(q);
    for (int j = q->k; j < q->n; j++) {
        memset(entry(&s, 0, j), 0, (size_t)q->m * s.esize);
        set(&s, entry(&s, j, j), 1);
    }
    for (int i = (q->k - 1) / s.block * s.block; i >= 0 && q->k && !dl_stop_asked(stop); i -= s.block) {
        const int b = q->k - i < s.block ? q->k - i : s.block;
        spread(&s, i, b);
        apply(&s, "N", i, b, i + b, q->n);
        make_columns(&s, i, b);
    }
}
