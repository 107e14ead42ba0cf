/* Products of 16-bit matrices that are faster than by way of f32 matrices: large ones of bf16 by oneDNN, where the
 * processor multiplies such numbers, and those with a few vectors, whose sums read the matrix as it is. */
#include "autograd/nonfinite.h"
#include "cpu/runtime/dnnl.h"
#include "cpu/runtime/gemm.h"
#include "cpu/runtime/half.h"
#include "cpu/runtime/iter.h"
#include "cpu/runtime/team.h"

#include <omp.h>

/* BF16_FROM: multiplications; NARROW: rows and columns; FEW, UNIT: rows of a call; SHORT: elements of a row;
 * VECTOR_FROM, PIECE, TASK: elements; BAND, ROWS: columns and rows that are added up; BANDS: tasks. */
enum {
    BF16_FROM = 1 << 24,
    NARROW = 16,
    FEW = 8,
    UNIT = 64,
    SHORT = 64,
    VECTOR_FROM = 1 << 12,
    PIECE = 1 << 12,
    BAND = 64,
    ROWS = 128,
    BANDS = 8,
    TASK = 1 << 15
};

static long least(long a, long b) { return a < b ? a : b; }
static char *row_at(dl_mat m, long i) { return (char *)m.p + i * m.rs * 2; }

/* ---- bf16 */

static dl_status by_onednn(dl_dnnl_matrices p, bool *done) {
    const double macs = (double)p.m * (double)p.n * (double)p.k, most = 1e10 * dl_cpu_team();
    if (macs < BF16_FROM || p.m < NARROW || p.n < NARROW || dl_simd_level() < 4) return DL_OK;
    const long rows = macs <= most ? p.m : (long)(most / ((double)p.n * (double)p.k)) / UNIT * UNIT;
    const int had = dl_cpu_team_limit(dl_cpu_threads_product(macs));
    dl_stop stop = dl_stop_begin();
    dl_status s = DL_OK;
    for (long i = 0, some; i < p.m && s == DL_OK && (!i || *done) && !dl_stop_asked(&stop); i += some) {
        dl_dnnl_matrices part = p;
        part.m = some = least(p.m - i, rows > UNIT ? rows : UNIT), part.a.p = row_at(p.a, i), part.y.p = row_at(p.y, i);
        s = dl_dnnl_product(&part, done);
        for (long r = 0; *done && r < some; r++) dl_cpu_look_bf16(row_at(part.y, r), p.n);
    }
    if (dl_stop_end(&stop)) *done = true;
    dl_cpu_team_limit(had);
    return s;
}

/* ---- a matrix of dense rows times a few vectors */

typedef struct lines {
    dl_dtype t;
    long m, k, rows; /* rows of a task */
    dl_mat a;
    long vectors, apart; /* elements from one vector to the next */
    const unsigned short *x;
    const char *bias; /* a number a row; NULL: none */
    char *y;
    long step, next; /* of y, in bytes: from row to row, from vector to vector */
    double *part;    /* sums of pieces of a single row */
} lines;

/* The sum over elements from .. from + n - 1 of a row and a vector. */
static float piece_of(const lines *j, long row, long vector, long from, long n) {
    const unsigned short *a = (const unsigned short *)row_at(j->a, row) + from, *x = j->x + vector * j->apart + from;
    return j->t == DL_F16 ? DL_SIMD_PICK(dl_f16_dot)(n, a, x) : DL_SIMD_PICK(dl_bf16_dot)(n, a, x);
}

static void run_rows(void *arg, long task) {
    const lines *j = arg;
    for (long i = task * j->rows; i < j->m && i < (task + 1) * j->rows; i++) {
        const double more = j->bias ? dl_load_f64(j->bias + i * 2, j->t) : 0;
        for (long v = 0; v < j->vectors; v++) {
            double sum = more;
            for (long from = 0; from < j->k; from += PIECE) sum += piece_of(j, i, v, from, least(j->k - from, PIECE));
            dl_store_f64(j->y + i * j->step + v * j->next, j->t, sum);
        }
    }
    dl_fp_hand_over();
}

static void run_piece(void *arg, long i) {
    const lines *j = arg;
    j->part[i] = piece_of(j, 0, 0, i * PIECE, least(j->k - i * PIECE, PIECE));
    dl_fp_hand_over();
}

/* Of one long row threads take pieces, of several rows. */
static void run_lines(lines *j) {
    const int threads = dl_cpu_threads(j->m * j->k * j->vectors);
    const long pieces = (j->k + PIECE - 1) / PIECE;
    if (j->m > 1 || j->vectors > 1 || j->bias) {
        j->rows = 1 + TASK / (j->k * j->vectors);
        dl_cpu_for((j->m + j->rows - 1) / j->rows, threads, run_rows, j);
        return;
    }
    double sum = 0;
    dl_cpu_for(pieces, threads, run_piece, j);
    for (long i = 0; i < pieces; i++) sum += j->part[i];
    dl_store_f64(j->y, j->t, sum);
}

/* Vectors have k elements, `step` elements apart, which is 1 for several. */
static dl_status times_vectors(lines j, const void *x, long step, bool *done) {
    if (j.m * j.k < VECTOR_FROM || j.k < SHORT || j.a.cs != 1 || (j.vectors > 1 && step != 1)) return DL_OK;
    const long pieces = (j.k + PIECE - 1) / PIECE, one = 1;
    const size_t sums = (size_t)pieces * sizeof(double), bytes = sums + (size_t)(step == 1 ? 0 : j.k) * sizeof *j.x;
    char *room = dl_host_alloc(bytes);
    if (!room) return dl_failed();
    j.part = (double *)(void *)room, j.x = x;
    if (step != 1) {
        j.x = (unsigned short *)(void *)(room + sums);
        dl_cpu_copy_strided(1, &j.k, room + sums, j.t, &one, x, j.t, &step);
    }
    run_lines(&j);
    dl_host_free(room, bytes);
    return *done = true, DL_OK;
}

/* ---- a few vectors times a matrix of dense rows, which are added up */

typedef struct row_sums {
    dl_dtype t;
    long n, k;
    dl_mat b;
    long vectors;
    const float *x;   /* [vectors][k] */
    const char *bias; /* a number a column; NULL: none */
    char *y;
    long step, next; /* of y, in bytes: from column to column, from vector to vector */
} row_sums;

/* Some columns; sums of f32 run over a few rows. */
static void run_columns(void *arg, long task) {
    const row_sums *j = arg;
    const long from = task * BAND, n = least(j->n - from, BAND);
    double sum[FEW][BAND] = {0};
    float some[BAND];
    for (long r = 0; r < j->k; r += ROWS) {
        const long rows = least(j->k - r, ROWS);
        const unsigned short *b = (const unsigned short *)row_at(j->b, r) + from;
        for (long v = 0; v < j->vectors; v++) {
            const float *x = j->x + v * j->k + r;
            if (j->t == DL_F16)
                DL_SIMD_PICK(dl_f16_weighted)(rows, n, b, j->b.rs, x, some);
            else
                DL_SIMD_PICK(dl_bf16_weighted)(rows, n, b, j->b.rs, x, some);
            for (long c = 0; c < n; c++) sum[v][c] += (double)some[c];
        }
    }
    for (long v = 0; v < j->vectors; v++)
        for (long c = 0; c < n; c++) {
            const double more = j->bias ? dl_load_f64(j->bias + (from + c) * 2, j->t) : 0;
            dl_store_f64(j->y + (from + c) * j->step + v * j->next, j->t, sum[v][c] + more);
        }
    dl_fp_hand_over();
}

/* The vectors are rows of x. Few columns would leave threads without work. */
static dl_status vectors_times(row_sums j, dl_mat x, bool *done) {
    if (j.n < BAND * BANDS || j.n * j.k < VECTOR_FROM || j.b.cs != 1) return DL_OK;
    const long shape[2] = {j.vectors, j.k}, dense[2] = {j.k, 1}, steps[2] = {x.rs, x.cs};
    const size_t bytes = (size_t)(j.vectors * j.k) * sizeof *j.x;
    float *wide = dl_host_alloc(bytes);
    if (!wide) return dl_failed();
    dl_cpu_copy_strided(2, shape, wide, DL_F32, dense, x.p, j.t, steps);
    j.x = wide;
    dl_cpu_for((j.n + BAND - 1) / BAND, dl_cpu_threads(j.n * j.k * j.vectors), run_columns, &j);
    dl_host_free(wide, bytes);
    return *done = true, DL_OK;
}

dl_status dl_cpu_gemm_half(dl_dtype t, long m, long n, long k, dl_mat a, dl_mat b, const void *bias, dl_mat y,
                           bool *done) {
    *done = false;
    if (omp_in_parallel() || !m || !n || !k) return DL_OK;
    const dl_mat at = dl_mat_transposed(a), bt = dl_mat_transposed(b);
    const lines rows = {.t = t, .m = m, .k = k, .a = a, .vectors = 1, .y = y.p, .step = 2 * y.rs};
    const lines columns = {.t = t,
                           .m = n,
                           .k = k,
                           .a = bt,
                           .vectors = m,
                           .apart = a.rs,
                           .bias = bias,
                           .y = y.p,
                           .step = 2 * y.cs,
                           .next = 2 * y.rs};
    const row_sums down = {.t = t, .n = m, .k = k, .b = at, .vectors = 1, .y = y.p, .step = 2 * y.rs};
    const row_sums across = {
        .t = t, .n = n, .k = k, .b = b, .vectors = m, .bias = bias, .y = y.p, .step = 2 * y.cs, .next = 2 * y.rs};
    if (n == 1 && !bias) {
        DL_TRY(times_vectors(rows, b.p, b.rs, done));
        return *done ? DL_OK : vectors_times(down, bt, done);
    }
    if (m <= FEW) DL_TRY(times_vectors(columns, a.p, a.cs, done));
    if (m <= FEW && !*done) DL_TRY(vectors_times(across, a, done));
    return t == DL_BF16 && !*done ? by_onednn((dl_dnnl_matrices){m, n, k, a, b, y, bias}, done) : DL_OK;
}
