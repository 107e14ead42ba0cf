/* Singular values of large matrices in the steps of LAPACK's gesdd, between which Ctrl-C is looked for: panels of the
 * reduction to two diagonals, the singular values of these (one step), and stripes of the products that make U and V of
 * theirs. gesdd itself returns only when all is done. */
#include "core/tensor.h"
#include "cpu/lapack/lapack.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    LEAST = 512, /* smaller matrices take milliseconds */
    PANEL = 32,  /* columns and rows that are reduced together, and what is left for the end: as in gebrd */
    UNBLOCKED = 128,
    STRIPE = 64,         /* columns of U and rows of V that are made together, at least */
    REFLECTORS = 64 * 65 /* room of ormbr apart from that of each column */
};
static const double STRIPE_WORK = 4e9; /* multiplications in a stripe, when it is wider */

/* Higher or wider matrices are faster by way of QR, which gesdd takes. */
bool dl_lapack_svd_has_steps(int m, int n) {
    const long least = m < n ? m : n, most = m < n ? n : m;
    return least >= LEAST && 6 * most < 11 * least;
}

typedef struct parts {
    const dl_svd *q;
    size_t esize;
    int k; /* the smaller side */
    char *e, *tauq, *taup, *work;
    int room; /* elements of work */
    dl_stop *stop;
} parts;

static char *at(const parts *p, const void *a, long i) { return (char *)a + (size_t)i * p->esize; }

/* x as a number of the dtype, in `room`. */
static const void *number(dl_dtype t, double x, double *room) {
    dl_store_f64(room, t, x);
    return room;
}

/* A becomes Q B P^T, B with two diagonals: s and e. */
static void reduce(parts *p) {
    const dl_svd *q = p->q;
    const dl_lapack *l = q->l;
    const int m = q->m, n = q->n, nb = PANEL;
    double ones[2];
    const void *one = number(q->t, 1, &ones[0]), *minus = number(q->t, -1, &ones[1]);
    char *x = p->work, *y = at(p, p->work, (long)m * nb);
    int i = 0, info;
    for (; i + UNBLOCKED < p->k && !dl_stop_asked(p->stop); i += nb) {
        char *a = at(p, q->a, (long)i * m + i), *row = at(p, a, (long)nb * m), *rest = at(p, row, nb);
        const int rows = m - i, cols = n - i, below = rows - nb, right = cols - nb;
        l->labrd(&rows, &cols, &nb, a, &m, at(p, q->s, i), at(p, p->e, i), at(p, p->tauq, i), at(p, p->taup, i), x, &m,
                 y, &n);
        l->gemm("N", "T", &below, &right, &nb, minus, at(p, a, nb), &m, at(p, y, nb), &n, one, rest, &m, 1, 1);
        l->gemm("N", "N", &below, &right, &nb, minus, at(p, x, nb), &m, row, &m, one, rest, &m, 1, 1);
    }
    const int rows = m - i, cols = n - i;
    if (!dl_stop_asked(p->stop))
        l->gebrd(&rows, &cols, at(p, q->a, (long)i * m + i), &m, at(p, q->s, i), at(p, p->e, i), at(p, p->tauq, i),
                 at(p, p->taup, i), p->work, &p->room, &info);
}

/* A matrix whose first k rows and columns are filled later: 0, and 1 on the rest of the diagonal. */
static void surround(const parts *p, void *a, int rows, int cols) {
    if (rows == p->k && cols == p->k) return;
    memset(a, 0, (size_t)rows * (size_t)cols * p->esize);
    for (int i = p->k; i < rows && i < cols; i++) dl_store_f64(at(p, a, (long)i * rows + i), p->q->t, 1);
}

/* U = Q U and V^T = V^T P^T, stripe by stripe. */
static void multiply(parts *p, int ucols, int vrows) {
    const dl_svd *q = p->q;
    const double width = STRIPE_WORK / ((double)q->m * q->n);
    const int stripe = width > STRIPE ? (int)fmin(width, 4096) : STRIPE;
    int info;
    for (int i = 0; i < ucols && !dl_stop_asked(p->stop); i += stripe) {
        const int w = ucols - i < stripe ? ucols - i : stripe;
        q->l->ormbr("Q", "L", "N", &q->m, &w, &q->n, q->a, &q->m, p->tauq, at(p, q->u, (long)i * q->m), &q->m, p->work,
                    &p->room, &info, 1, 1, 1);
    }
    for (int i = 0; i < vrows && !dl_stop_asked(p->stop); i += stripe) {
        const int w = vrows - i < stripe ? vrows - i : stripe;
        q->l->ormbr("P", "R", "T", &w, &q->n, &q->m, q->a, &q->m, p->taup, at(p, q->vt, i), &vrows, p->work, &p->room,
                    &info, 1, 1, 1);
    }
}

/* Multiplies n numbers by 2^by. */
static void shift(const parts *p, void *a, long n, int by) {
    for (long i = 0; by && i < n; i++) dl_store_f64(at(p, a, i), p->q->t, ldexp(dl_load_f64(at(p, a, i), p->q->t), by));
}

/* The power of 2 that brings the matrix to where its squares neither vanish nor overflow; mostly 0. */
static int needed_shift(const parts *p) {
    const dl_svd *q = p->q;
    const double small = q->t == DL_F64 ? 0x1p-459 : 0x1p-40; /* sqrt(least) / eps */
    double most = 0;
    for (long i = 0, n = (long)q->m * q->n; i < n; i++) most = fmax(most, fabs(dl_load_f64(at(p, q->a, i), q->t)));
    return most > 0 && (most < small || most > 1 / small) ? -ilogb(most) : 0;
}

static void run(parts *p, int *info) {
    const dl_svd *q = p->q;
    const int ucols = q->full ? q->m : p->k, vrows = q->full ? q->n : p->k, by = needed_shift(p);
    shift(p, q->a, (long)q->m * q->n, by);
    reduce(p);
    if (dl_stop_asked(p->stop)) return;
    surround(p, q->u, q->m, ucols);
    surround(p, q->vt, vrows, q->n);
    q->l->bdsdc(q->m >= q->n ? "U" : "L", "I", &p->k, q->s, p->e, q->u, &q->m, q->vt, &vrows, NULL, NULL, p->work,
                q->iwork, info, 1, 1);
    if (*info == 0) multiply(p, ucols, vrows);
    shift(p, q->s, p->k, -by);
}

dl_status dl_lapack_svd(const dl_svd *q, dl_stop *stop, int *info) {
    const long k = q->m < q->n ? q->m : q->n, sides = (long)q->m + q->n;
    long room = 3 * k * k + 4 * k; /* of bdsdc */
    if (room < PANEL * sides) room = PANEL * sides;
    if (room < 64 * 4096 + REFLECTORS) room = 64 * 4096 + REFLECTORS; /* of the widest stripe */
    const size_t esize = (size_t)dl_dtype_size(q->t), bytes = (size_t)(3 * k + room) * esize;
    char *all = dl_host_alloc(bytes);
    if (!all) return dl_failed();
    parts p = {.q = q, .esize = esize, .k = (int)k, .e = all, .stop = stop};
    p.tauq = at(&p, all, k), p.taup = at(&p, all, 2 * k), p.work = at(&p, all, 3 * k);
    p.room = room > INT_MAX ? INT_MAX : (int)room;
    *info = 0;
    run(&p, info);
    dl_host_free(all, bytes);
    return DL_OK;
}
