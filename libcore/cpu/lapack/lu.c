/* LU by halves of the columns, so that most is products of matrices. OpenBLAS's getrf is held up by its trsm and
 * its panels: on one thread it takes 91 us for 128 by 128 numbers of f64 and 3.2 ms for 512 by 512; all of lu_factor,
 * with its copies, takes 77 us and 2.8 ms by this. */
#include "core/dtype.h"
#include "core/tensor.h"
#include "cpu/lapack/lu.h"
#include "cpu/runtime/iter.h"
#include "cpu/runtime/team.h"

typedef struct halves {
    const dl_lapack *l;
    const dl_lu_loops *f; /* of a panel, and of as many rows as it has columns */
    dl_dtype t;
    int lda;
    double one, minus; /* as numbers of the dtype */
    dl_stop *stop;
} halves;

static char *at(const halves *s, void *a, int row, int column) {
    return (char *)a + ((long)column * s->lda + row) * dl_dtype_size(s->t);
}

/* Half of n, in whole panels. */
static int half_of(int n) { return (n / 2 + DL_LU_COLUMNS - 1) / DL_LU_COLUMNS * DL_LU_COLUMNS; }

/* c -= a b, a of m by k, on this thread alone. */
static void take_product(const halves *s, int m, int n, int k, const void *a, const void *b, void *c) {
    const int had = dl_cpu_team_limit(1);
    s->l->gemm("N", "N", &m, &n, &k, &s->minus, a, &s->lda, b, &s->lda, &s->one, c, &s->lda, 1, 1);
    dl_cpu_team_limit(had);
}

/* L X = B of n rows, c columns. */
static void solve(const halves *s, int n, int c, void *l, void *b) {
    const int half = half_of(n), rest = n - half;
    if (n <= DL_LU_COLUMNS) {
        s->f->solve(n, c, l, s->lda, b, s->lda);
        return;
    }
    solve(s, half, c, l, b);
    take_product(s, rest, c, half, at(s, l, half, 0), b, at(s, b, half, 0));
    solve(s, rest, c, at(s, l, half, half), at(s, b, half, 0));
}

/* Rows of c columns change places as pivots from..to say. */
static void exchange(const halves *s, int c, void *a, int from, int to, const int *pivots) {
    const int first = from + 1, step = 1;
    s->l->laswp(&c, a, &s->lda, &first, &to, pivots, &step);
}

/* What the first `half` columns of a, which are factors by now, do to the `rest` columns right of them. */
typedef struct update {
    const halves *s;
    char *a;
    int half, below, rest, each; /* columns of a task */
    const int *pivots;
} update;

static void update_columns(void *arg, long task) {
    const update *u = arg;
    const halves *s = u->s;
    const int first = (int)task * u->each, n = u->rest - first < u->each ? u->rest - first : u->each;
    void *right = at(s, u->a, 0, u->half + first);
    exchange(s, n, right, 0, u->half, u->pivots);
    solve(s, u->half, n, u->a, right);
    if (u->below) take_product(s, u->below, n, u->half, at(s, u->a, u->half, 0), right, at(s, right, u->half, 0));
}

/* Multiplications of f64 from which a second thread saves more time than it takes to wake. */
static const double FOR_THREADS = 1 << 21;

/* A thread has columns of its own for all three steps, so that none waits before the end. */
static void update_rest(update *u, int m) {
    const double work = (double)m * u->rest * u->half * (u->s->t == DL_F64 ? 1 : 0.5);
    const int threads = work < FOR_THREADS ? 1 : dl_cpu_threads_product(work);
    u->each = (u->rest + threads - 1) / threads;
    u->each = (u->each + DL_LU_COLUMNS - 1) / DL_LU_COLUMNS * DL_LU_COLUMNS;
    dl_cpu_for((u->rest + u->each - 1) / u->each, threads, update_columns, u);
}

static int factor(const halves *s, int m, int n, void *a, int *pivots) {
    const int k = m < n ? m : n, half = k <= DL_LU_COLUMNS ? k : half_of(k), rest = n - half, below = m - half;
    void *right = at(s, a, 0, half);
    int info = 0;
    if (k <= DL_LU_COLUMNS)
        info = s->f->panel(m, half, a, s->lda, pivots);
    else
        info = factor(s, m, half, a, pivots);
    if (!rest || dl_stop_asked(s->stop)) return info;
    update_rest(&(update){.s = s, .a = a, .half = half, .below = below, .rest = rest, .pivots = pivots}, m);
    if (!below) return info;
    const int later = factor(s, below, rest, at(s, right, half, 0), pivots + half);
    for (int i = half; i < k; i++) pivots[i] += half;
    exchange(s, half, a, half, k, pivots);
    return info ? info : later ? later + half : 0;
}

int dl_lapack_lu(const dl_lapack *l, dl_dtype t, int m, int n, void *a, int *pivots, dl_stop *stop) {
    halves s = {.l = l, .f = &DL_SIMD_PICK(dl_lu)[t == DL_F64], .t = t, .lda = m, .stop = stop};
    dl_store_f64(&s.one, t, 1), dl_store_f64(&s.minus, t, -1);
    return m && n ? factor(&s, m, n, a, pivots) : 0;
}
