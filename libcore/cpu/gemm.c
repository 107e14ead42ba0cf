/* Matrix products over strided memory: own loops when small, else OpenBLAS. */
#include "cpu/gemm.h"
#include "cpu/blas.h"
#include "cpu/iter.h"
#include "cpu/simd.h"

#include <omp.h>
#include <string.h>

DL_SIMD_DECL(bool, dl_tiny_gemm_f32, (long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add));
DL_SIMD_DECL(bool, dl_tiny_gemm_f64, (long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add));

enum { TINY = 24 * 24 * 24, CHUNK = 1 << 30, UNIT = 192, VECTOR_BLOCK = 1 << 26 };

static char *at(dl_dtype t, dl_mat m, long i, long j) { return (char *)m.p + (i * m.rs + j * m.cs) * dl_dtype_size(t); }

static dl_mat transposed(dl_mat m) { return (dl_mat){m.p, m.cs, m.rs}; }

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

/* Sizes fit BLAS's 32-bit integers, c.cs is 1. */
static void multiply(const dl_blas *lib, dl_dtype t, long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add) {
    int lda = 1, ldb = 1, ta = layout(a, m, k, &lda), tb = layout(b, k, n, &ldb);
    if (n == 1 && b.rs > 0 && b.rs <= CHUNK && c.rs <= CHUNK) {
        bool tr = ta == CblasTrans;
        vector_product(lib, t, ta, (int)(tr ? k : m), (int)(tr ? m : k), a.p, lda, b.p, (int)b.rs, add, c.p,
                       m == 1 ? 1 : (int)c.rs);
    } else if (m == 1 && a.cs > 0 && a.cs <= CHUNK) {
        bool tr = tb == CblasTrans;
        vector_product(lib, t, tr ? CblasNoTrans : CblasTrans, (int)(tr ? n : k), (int)(tr ? k : n), b.p, ldb, a.p,
                       (int)a.cs, add, c.p, 1);
    } else {
        product(lib, t, ta, tb, (int)m, (int)n, (int)k, a.p, lda, b.p, ldb, add, c.p, m == 1 ? (int)n : (int)c.rs);
    }
}

static long least(long a, long b) { return a < b ? a : b; }

/* Rows and columns of the result that one call makes: what takes some 50 ms, so that a request to stop is seen in time;
 * as square as can be, since each call packs its operands anew. Each element is summed up as in one call for all. */
static void block_of(dl_dtype t, long m, long n, long k, long *rows, long *cols) {
    int level = dl_simd_level(), threads = omp_in_parallel() ? 1 : omp_get_max_threads();
    double thread = level >= 4 ? 3e9 : level >= 3 ? 2e9 : 5e8, most = thread * threads / (t == DL_F64 ? 2 : 1);
    *rows = least(m, CHUNK), *cols = least(n, CHUNK);
    if (n == 1 || m == 1) { /* bound by memory */
        long *side = n == 1 ? rows : cols;
        *side = least(*side, (VECTOR_BLOCK / k + 64) / 64 * 64);
        return;
    }
    while ((double)*rows * (double)*cols * (double)least(k, CHUNK) > most && (*rows > UNIT || *cols > UNIT)) {
        long *side = *rows >= *cols ? rows : cols;
        *side = (*side / 2 + UNIT - 1) / UNIT * UNIT;
    }
}

static void multiply_chunks(const dl_blas *lib, dl_dtype t, long m, long n, long k, dl_mat a, dl_mat b, dl_mat c,
                            bool add) {
    long rows, cols;
    dl_stop stop = dl_stop_begin();
    block_of(t, m, n, k, &rows, &cols);
    for (long i = 0; i < m; i += rows)
        for (long j = 0; j < n; j += cols)
            for (long l = 0; l < k && !dl_stop_asked(&stop); l += CHUNK) {
                dl_mat as = {at(t, a, i, l), a.rs, a.cs}, bs = {at(t, b, l, j), b.rs, b.cs},
                       cs = {at(t, c, i, j), c.rs, c.cs};
                multiply(lib, t, least(m - i, rows), least(n - j, cols), least(k - l, CHUNK), as, bs, cs, add || l);
            }
    dl_stop_end(&stop);
}

/* A dense copy of a matrix that BLAS cannot read; *copy is to be freed with dl_host_free(*copy, *bytes). */
static dl_status readable(dl_dtype t, long rows, long cols, dl_mat *a, void **copy, size_t *bytes) {
    int ld;
    *copy = NULL;
    if (layout(*a, rows, cols, &ld) >= 0) return DL_OK;
    *bytes = (size_t)(rows * cols * dl_dtype_size(t));
    *copy = dl_host_alloc(*bytes);
    if (!*copy) return dl_error_last()->code;
    dl_cpu_copy_strided(2, (long[]){rows, cols}, *copy, t, (long[]){cols, 1}, a->p, t, (long[]){a->rs, a->cs});
    *a = (dl_mat){*copy, cols, 1};
    return DL_OK;
}

static bool tiny(dl_dtype t, long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add) {
    if (m > TINY || n > TINY || k > TINY || m * n > TINY || m * n * k > TINY) return false;
    return t == DL_F32 ? DL_SIMD_PICK(dl_tiny_gemm_f32)(m, n, k, a, b, c, add)
                       : DL_SIMD_PICK(dl_tiny_gemm_f64)(m, n, k, a, b, c, add);
}

dl_status dl_cpu_gemm(dl_dtype t, long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add) {
    if (!m || !n) return DL_OK;
    if (c.cs != 1 && n != 1) { /* c.T = b.T @ a.T */
        dl_mat old = a;
        long rows = m;
        a = transposed(b), b = transposed(old), c = transposed(c);
        m = n, n = rows;
    }
    if (!k) {
        if (!add) zero(t, m, n, c);
        return DL_OK;
    }
    if (tiny(t, m, n, k, a, b, c, add)) return DL_OK;
    const dl_blas *lib = dl_blas_get();
    if (!lib) return dl_error_last()->code;
    void *copy_a = NULL, *copy_b = NULL;
    size_t bytes_a = 0, bytes_b = 0;
    dl_status s = readable(t, m, k, &a, &copy_a, &bytes_a);
    if (s == DL_OK) s = readable(t, k, n, &b, &copy_b, &bytes_b);
    if (s == DL_OK && (s = dl_blas_begin()) == DL_OK) {
        multiply_chunks(lib, t, m, n, k, a, b, c, add);
        dl_blas_end();
    }
    if (copy_a) dl_host_free(copy_a, bytes_a);
    if (copy_b) dl_host_free(copy_b, bytes_b);
    return s;
}
