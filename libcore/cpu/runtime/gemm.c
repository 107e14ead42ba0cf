/* Matrix products over strided memory: loops of the library for small ones, else OpenBLAS. */
#include "cpu/runtime/gemm.h"
#include "cpu/runtime/blas.h"
#include "cpu/runtime/iter.h"
#include "cpu/runtime/team.h"

#include <string.h>

enum {
    TINY = 24 * 24 * 24,
    CHUNK = 1 << 30,
    UNIT = 64,
    VECTOR_BLOCK = 1 << 26,
    ROWS = 384,
    COLS = 3840,
    LARGE = 1 << 28,
    FEW = 8,
    LONG_BYTES = 256 /* of four vectors */
};

static char *at(dl_dtype t, dl_mat m, long i, long j) { return (char *)m.p + (i * m.rs + j * m.cs) * dl_dtype_size(t); }

/* How BLAS reads a matrix of rows x cols: CblasNoTrans, CblasTrans, or -1 when it cannot. A stride along a single row
 * or column does not matter. */
static int layout(dl_mat a, long rows, long cols, int *ld) {
    long lead;
    int how = -1;
    if (a.cs == 1 || cols == 1) {
        lead = rows == 1 ? cols : a.rs;
        if (lead >= cols && lead <= CHUNK) how = CblasNoTrans;
    }
    if (how < 0 && (a.rs == 1 || rows == 1)) {
        lead = cols == 1 ? rows : a.cs;
        if (lead >= rows && lead <= CHUNK) how = CblasTrans;
    }
    if (how >= 0) *ld = lead > 0 ? (int)lead : 1;
    return how;
}

static void zero(dl_dtype t, long m, long n, dl_mat c) {
    size_t es = (size_t)dl_dtype_size(t);
    for (long i = 0; i < m; i++) dl_cpu_clear(at(t, c, i, 0), (size_t)n * es);
}

static void product(const dl_blas *l, dl_dtype t, int ta, int tb, int m, int n, int k, const void *a, int lda,
                    const void *b, int ldb, bool add, void *c, int ldc) {
    if (t == DL_F32)
        l->sgemm(CblasRowMajor, (CBLAS_TRANSPOSE)ta, (CBLAS_TRANSPOSE)tb, m, n, k, 1, a, lda, b, ldb, add, c, ldc);
    else
        l->dgemm(CblasRowMajor, (CBLAS_TRANSPOSE)ta, (CBLAS_TRANSPOSE)tb, m, n, k, 1, a, lda, b, ldb, add, c, ldc);
}

/* One dense matrix times one vector: gemm's packing would cost as much as the product. */
static void vector_product(const dl_blas *l, dl_dtype t, int ta, int rows, int cols, const void *a, int lda,
                           const void *x, int incx, bool add, void *y, int incy) {
    if (t == DL_F32)
        l->sgemv(CblasRowMajor, (CBLAS_TRANSPOSE)ta, rows, cols, 1, a, lda, x, incx, add, y, incy);
    else
        l->dgemv(CblasRowMajor, (CBLAS_TRANSPOSE)ta, rows, cols, 1, a, lda, x, incx, add, y, incy);
}

/* Do rows of a and columns of b lie densely, long ones, and few of one of them? BLAS would pack the other operand,
 * which takes as long as the product. */
static bool are_dots(dl_dtype t, long m, long n, long k, dl_mat a, dl_mat b) {
    return (m <= FEW || n <= FEW) && a.cs == 1 && b.rs == 1 && k * dl_dtype_size(t) >= LONG_BYTES;
}

static void dots(dl_dtype t, long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add) {
    if (m > n) { /* the longer operand is read once */
        const dl_mat left = a;
        const long rows = m;
        a = dl_mat_transposed(b), b = dl_mat_transposed(left), c = dl_mat_transposed(c), m = n, n = rows;
    }
    if (t == DL_F32)
        DL_SIMD_PICK(dl_dots_f32)(m, n, k, a, b, c, add);
    else
        DL_SIMD_PICK(dl_dots_f64)(m, n, k, a, b, c, add);
}

/* Sizes fit BLAS's 32-bit integers, c.cs is 1. */
static void multiply(const dl_blas *lib, dl_dtype t, long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add) {
    int lda = 1, ldb = 1, ta = layout(a, m, k, &lda), tb = layout(b, k, n, &ldb);
    if (m == 1 && n == 1 && are_dots(t, m, n, k, a, b)) { /* gemv's dots wait for their sums */
        dots(t, m, n, k, a, b, c, add);
    } else if (n == 1 && b.rs > 0 && b.rs <= CHUNK && c.rs <= CHUNK) {
        bool tr = ta == CblasTrans;
        vector_product(lib, t, ta, (int)(tr ? k : m), (int)(tr ? m : k), a.p, lda, b.p, (int)b.rs, add, c.p,
                       m == 1 ? 1 : (int)c.rs);
    } else if (m == 1 && a.cs > 0 && a.cs <= CHUNK) {
        bool tr = tb == CblasTrans;
        vector_product(lib, t, tr ? CblasNoTrans : CblasTrans, (int)(tr ? n : k), (int)(tr ? k : n), b.p, ldb, a.p,
                       (int)a.cs, add, c.p, 1);
    } else if (are_dots(t, m, n, k, a, b)) {
        dots(t, m, n, k, a, b, c, add);
    } else {
        product(lib, t, ta, tb, (int)m, (int)n, (int)k, a.p, lda, b.p, ldb, add, c.p, m == 1 ? (int)n : (int)c.rs);
    }
}

static long least(long a, long b) { return a < b ? a : b; }

/* How a product is cut into calls. A request to stop is checked between two of them, so one takes 0.1 s at most. Rows
 * of the result are cut at multiples of what the kernels of BLAS take at once, and columns as seldom as possible, so
 * that the bits are those of a single call; each call packs its operands, which few rows would not pay for. */
typedef struct cut {
    long rows, cols, nrows, ncols;
    int threads; /* that run blocks, each with calls of BLAS of its own: threads of BLAS would spin while they wait */
} cut;

static long pieces(long n, long piece) { return (n + piece - 1) / piece; }

/* A product with a vector is bound by reading the matrix. */
static int threads_of(dl_dtype t, long m, long n, long k) {
    double work = (double)m * (double)n * (double)k * (t == DL_F64 ? 2 : 1);
    return dl_cpu_threads_product(m == 1 || n == 1 ? work * DL_ITER_MACS : work);
}

/* Makes blocks for all threads: cuts a, the longer side, then b. */
static void share(long *a, long na, long *b, long nb, long threads) {
    *a = least(*a, pieces(na, threads * UNIT) * UNIT);
    *b = least(*b, pieces(nb, pieces(threads, pieces(na, *a)) * UNIT) * UNIT);
}

static cut cut_of(dl_dtype t, long m, long n, long k) {
    int level = dl_simd_level(), threads = threads_of(t, m, n, k);
    double most = (level >= 3 ? 6e9 : 1e9) / (t == DL_F64 ? 2 : 1), depth = (double)least(k, CHUNK);
    cut c = {.rows = least(m, CHUNK), .cols = least(n, CHUNK), .threads = 1};
    long few = t == DL_F64 ? ROWS / 4 : ROWS / 2;
    if (n == 1) { /* bound by memory */
        c.rows = least(c.rows, VECTOR_BLOCK / least(k, VECTOR_BLOCK / UNIT) / UNIT * UNIT);
    } else if (m == 1) {
        c.cols = least(c.cols, VECTOR_BLOCK / least(k, VECTOR_BLOCK / UNIT) / UNIT * UNIT);
    } else if ((double)m * (double)n * depth >= LARGE) {
        if (threads > 1 && m >= threads * few) c.threads = threads;
        for (c.rows = least(m, ROWS); c.rows > few && (c.rows * (c.cols * depth) > most || m < 2 * c.threads * c.rows);)
            c.rows /= 2;
        if (c.threads == 1 && (double)m * (double)n * depth <= most) c.rows = least(m, CHUNK);
        while (c.rows * (c.cols * depth) > most && c.cols > COLS) c.cols = pieces(c.cols / 2, COLS) * COLS;
    }
    if (c.threads < threads && m >= n) share(&c.rows, m, &c.cols, n, threads);
    if (c.threads < threads && m < n) share(&c.cols, n, &c.rows, m, threads);
    c.nrows = pieces(m, c.rows), c.ncols = pieces(n, c.cols);
    c.threads = c.nrows * c.ncols > 1 ? threads : 1;
    return c;
}

typedef struct job {
    const dl_blas *lib;
    dl_dtype t;
    long m, n, k;
    dl_mat a, b, c;
    bool add;
    cut cut;
} job;

static void run_block(void *arg, long index) {
    const job *p = (const job *)arg;
    long i = index / p->cut.ncols * p->cut.rows, j = index % p->cut.ncols * p->cut.cols;
    for (long l = 0; l < p->k; l += CHUNK)
        multiply(p->lib, p->t, least(p->m - i, p->cut.rows), least(p->n - j, p->cut.cols), least(p->k - l, CHUNK),
                 (dl_mat){at(p->t, p->a, i, l), p->a.rs, p->a.cs}, (dl_mat){at(p->t, p->b, l, j), p->b.rs, p->b.cs},
                 (dl_mat){at(p->t, p->c, i, j), p->c.rs, p->c.cs}, p->add || l);
}

static void run_by_threads(job *p, long blocks) {
    dl_stop stop = dl_stop_begin();
#pragma omp parallel for num_threads(p->cut.threads) schedule(dynamic)
    for (long i = 0; i < blocks; i++)
        if (!dl_stop_asked(&stop)) run_block(p, i);
    dl_stop_end(&stop);
}

static void run_blocks(job *p) {
    long blocks = p->cut.nrows * p->cut.ncols;
    if (p->cut.threads > 1) {
        run_by_threads(p, blocks);
    } else {
        int had = dl_cpu_team_limit(1);
        dl_cpu_for(blocks, 1, run_block, p);
        dl_cpu_team_limit(had);
    }
}

/* ---- long products of two vectors: sums of pieces, in f64, the same for every number of threads */

enum { DOT_PIECE = 1 << 13 };

typedef struct vector_pieces {
    const job *j;
    double *part; /* of type t, one a double */
} vector_pieces;

static void run_piece(void *arg, long i) {
    const vector_pieces *d = arg;
    const job *p = d->j;
    const long from = i * DOT_PIECE;
    multiply(p->lib, p->t, 1, 1, least(p->k - from, DOT_PIECE), (dl_mat){at(p->t, p->a, 0, from), p->a.rs, p->a.cs},
             (dl_mat){at(p->t, p->b, from, 0), p->b.rs, p->b.cs}, (dl_mat){(char *)(d->part + i), 1, 1}, false);
}

static dl_status run_vectors(job *p) {
    const long n = pieces(p->k, DOT_PIECE);
    const int threads = dl_cpu_threads(p->k), had = threads > 1 ? 0 : dl_cpu_team_limit(1);
    vector_pieces d = {p, dl_host_alloc((size_t)n * sizeof(double))};
    double sum = p->add ? dl_load_f64(p->c.p, p->t) : 0;
    if (d.part) dl_cpu_for(n, threads, run_piece, &d);
    if (had) dl_cpu_team_limit(had);
    if (!d.part) return dl_failed();
    for (long i = 0; i < n; i++) sum += dl_load_f64((const char *)(d.part + i), p->t);
    dl_store_f64(p->c.p, p->t, sum);
    dl_host_free(d.part, (size_t)n * sizeof(double));
    return DL_OK;
}

/* A dense copy of a matrix that BLAS cannot read; *copy is to be freed with dl_host_free(*copy, *bytes). */
static dl_status readable(dl_dtype t, long rows, long cols, dl_mat *a, void **copy, size_t *bytes) {
    int ld;
    *copy = NULL;
    if (layout(*a, rows, cols, &ld) >= 0) return DL_OK;
    *bytes = (size_t)(rows * cols * dl_dtype_size(t));
    *copy = dl_host_alloc(*bytes);
    if (!*copy) return dl_failed();
    dl_cpu_copy_strided(2, (long[]){rows, cols}, *copy, t, (long[]){cols, 1}, a->p, t, (long[]){a->rs, a->cs});
    *a = (dl_mat){*copy, cols, 1};
    return DL_OK;
}

static bool tiny(dl_dtype t, long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add) {
    if (m > TINY || n > TINY || k > TINY || m * n > TINY || m * n * k > TINY) return false;
    if (are_dots(t, m, n, k, a, b)) return dots(t, m, n, k, a, b, c, add), true;
    return t == DL_F32 ? DL_SIMD_PICK(dl_tiny_gemm_f32)(m, n, k, a, b, c, add)
                       : DL_SIMD_PICK(dl_tiny_gemm_f64)(m, n, k, a, b, c, add);
}

dl_status dl_cpu_gemm(dl_dtype t, long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add) {
    if (!m || !n) return DL_OK;
    if (c.cs != 1 && n != 1) { /* c.T = b.T @ a.T */
        dl_mat old = a;
        long rows = m;
        a = dl_mat_transposed(b), b = dl_mat_transposed(old), c = dl_mat_transposed(c);
        m = n, n = rows;
    }
    if (!k) {
        if (!add) zero(t, m, n, c);
        return DL_OK;
    }
    if (tiny(t, m, n, k, a, b, c, add)) return DL_OK;
    const dl_blas *lib = dl_blas_get();
    if (!lib) return dl_failed();
    void *copy_a = NULL, *copy_b = NULL;
    size_t bytes_a = 0, bytes_b = 0;
    dl_status s = readable(t, m, k, &a, &copy_a, &bytes_a);
    if (s == DL_OK) s = readable(t, k, n, &b, &copy_b, &bytes_b);
    if (s == DL_OK && (s = dl_blas_begin()) == DL_OK) { /* for a team: one call that shares its work, or one a thread */
        job j = {lib, t, m, n, k, a, b, c, add, cut_of(t, m, n, k)};
        if (m == 1 && n == 1 && k >= 2 * DOT_PIECE)
            s = run_vectors(&j);
        else
            run_blocks(&j);
        dl_blas_end();
    }
    if (copy_a) dl_host_free(copy_a, bytes_a);
    if (copy_b) dl_host_free(copy_b, bytes_b);
    return s;
}
