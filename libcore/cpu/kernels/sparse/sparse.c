/* Kernels of sparse matrices: products, sums of rows of a table, and the pattern of the transpose. */
#include "cpu/kernels/indices.h"
#include "cpu/kernels/pointwise/pointwise.h"
#include "cpu/kernels/sparse/sparse.h"
#include "cpu/runtime/iter.h"
#include "core/scope.h"
#include "dlcore/create.h"
#include "ops/sparse.h"
#include "ops/rules/index.h"
#include "ops/rules/sparse.h"

#include <string.h>

/* The pattern of a matrix as contiguous i64 numbers, owned. */
typedef struct pattern {
    dl_tensor *crow, *col;
    long rows, nnz;
    const long *from, *at;
} pattern;

/* A list of indices as contiguous i64 numbers; a new reference. */
static dl_tensor *whole(dl_tensor *index) {
    if (index->dtype == DL_I64) return dl_cpu_contiguous(index);
    dl_tensor *own = dl_tensor_empty(index->ndim, index->shape, DL_I64, 0);
    if (own) dl_cpu_copy(own, index);
    return own;
}

static void pattern_end(const pattern *p) { dl_unref(p->crow), dl_unref(p->col); }
#define PATTERN pattern p DL_SCOPE(pattern_end)

static dl_status pattern_begin(pattern *p, dl_tensor *crow, dl_tensor *col) {
    if (!(p->crow = whole(crow)) || !(p->col = whole(col))) return dl_failed();
    p->rows = p->crow->numel - 1, p->nnz = p->col->numel;
    p->from = dl_ptr(p->crow), p->at = dl_ptr(p->col);
    const long wrong = dl_crow_wrong(p->from, p->rows, p->nnz);
    return wrong < 0 ? DL_OK : dl_fail_crow(p->from, p->rows, p->nnz, wrong);
}

static dl_status fail_columns(const pattern *p, long cols) {
    long e = 0;
    while (e < p->nnz - 1 && p->at[e] >= 0 && p->at[e] < cols) e++;
    return dl_fail_column(e, p->at[e], cols);
}

/* ---- products: the rows in parts with about as many entries each */

typedef struct job {
    dl_csr_job rows;
    const pattern *p;
    dl_csr_loop *loop;
    long parts;
    bool bad; /* atomic */
} job;

/* The first row of part i: that before which lie i / parts of all rows and entries. */
static long first_row(const job *j, long i) {
    const pattern *p = j->p;
    const long want = (long)((double)(p->nnz + p->rows) * (double)i / (double)j->parts);
    long lo = 0, hi = p->rows;
    while (i < j->parts && lo < hi) {
        long mid = lo + (hi - lo) / 2;
        if (p->from[mid] + mid < want)
            lo = mid + 1;
        else
            hi = mid;
    }
    return i < j->parts ? lo : p->rows;
}

static void run_part(void *arg, long i) {
    job *j = arg;
    if (!j->loop(&j->rows, first_row(j, i), first_row(j, i + 1))) __atomic_store_n(&j->bad, true, __ATOMIC_RELAXED);
}

static dl_status run_rows(job *j) {
    const double macs = (double)j->p->nnz * (double)j->rows.n + (double)j->p->rows;
    const int threads = dl_cpu_threads_product(macs);
    const long least = 4L * threads, by_work = (long)(macs / (1 << 20));
    j->parts = threads == 1 && !by_work ? 1 : by_work > least ? by_work : least;
    dl_cpu_for(j->parts, threads, run_part, j);
    return j->bad ? fail_columns(j->p, j->rows.cols) : DL_OK;
}

/* t, or a copy, with elements of a row side by side; a new reference. */
static dl_tensor *with_rows(dl_tensor *t) {
    return t->stride[1] == 1 && t->stride[0] >= t->shape[1] ? dl_ref(t) : dl_cpu_contiguous(t);
}

/* o = the matrix of that pattern with the values v, times a dense one. */
static dl_status times_dense(const pattern *p, const dl_tensor *v, dl_tensor *dense, dl_tensor *o) {
    DL_OWNED dl_tensor *x = with_rows(dense);
    if (!x) return dl_failed();
    job j = {.p = p, .loop = DL_SIMD_PICK(dl_csr)[o->dtype == DL_F64].spmm};
    j.rows = (dl_csr_job){.crow = p->from,
                          .col = p->at,
                          .cols = x->shape[0],
                          .n = o->shape[1],
                          .right_step = x->stride[0],
                          .values = dl_ptr(v),
                          .right = dl_ptr(x),
                          .out = dl_ptr(o)};
    return run_rows(&j);
}

static dl_status plain_spmm(dl_call *c) {
    dl_tensor *o = c->out[0];
    PATTERN = {0};
    DL_TRY(pattern_begin(&p, INPUT(c, SPMM_CROW), INPUT(c, SPMM_COL)));
    if (!o->shape[1]) return DL_OK;
    DL_OWNED dl_tensor *v = dl_cpu_contiguous(c->in[0]);
    return v ? times_dense(&p, v, INPUT(c, SPMM_DENSE), o) : dl_failed();
}
DL_CPU_KERNEL(spmm, plain_spmm, false, DL_FLOATS)

/* Bags of L rows of a table: a matrix with L entries of 1, or 1 / L, in each of its rows. */
static dl_status plain_bag_sum(dl_call *c) {
    dl_tensor *o = c->out[0], *index = c->in[1];
    const long bags = index->shape[0], each = index->shape[1], nnz = index->numel;
    const double end = (double)((bags + 1) * each);
    if (!o->numel) return DL_OK;
    if (!nnz) return dl_cpu_clear(dl_ptr(o), (size_t)o->numel * dl_esize(o)), DL_OK;
    DL_OWNED dl_tensor *at = dl_cpu_indices(index, 0, c->in[0]->shape[0]);
    DL_OWNED dl_tensor *crow = at ? dl_arange(0, &end, (double)each, DL_I64, 0) : NULL;
    DL_OWNED dl_tensor *v =
        crow ? dl_full(&nnz, 1, ATTR_I(c, BAG_SUM_MEAN) ? 1.0 / (double)each : 1, (int)o->dtype, 0) : NULL;
    if (!v) return dl_failed();
    const pattern p = {.rows = bags, .nnz = nnz, .from = dl_ptr(crow), .at = dl_ptr(at)};
    return times_dense(&p, v, c->in[0], o);
}

/* Bags of rows of 16 bits: each row is converted when it is added, and the others of the table are not read. */
typedef struct bag_job {
    const dl_tensor *table, *o;
    const long *at;
    long bags, each, n; /* n: elements of a row */
    double by;
} bag_job;

enum { BAG_PIECE = 256 }; /* elements of a row that are summed at once */

static void sum_bag(void *arg, long bag) {
    const bag_job *j = arg;
    const dl_dtype t = j->table->dtype;
    const long *at = j->at + bag * j->each;
    const char *rows = dl_ptr(j->table);
    char *o = (char *)dl_ptr(j->o) + bag * j->n * 2;
    _Alignas(64) float sum[BAG_PIECE], row[BAG_PIECE];
    for (long c = 0, n; c < j->n; c += n) {
        n = j->n - c < BAG_PIECE ? j->n - c : BAG_PIECE;
        dl_cpu_half_to_f32(n, rows + (*at * j->table->stride[0] + c) * 2, t, sum);
        for (long k = 1; k < j->each; k++) {
            dl_cpu_half_to_f32(n, rows + (at[k] * j->table->stride[0] + c) * 2, t, row);
            DL_LOOP_OF(add, DL_F32)
            (n, (char *[]){(char *)sum, (char *)sum, (char *)row}, (long[]){4, 4, 4}, NULL);
        }
        for (long i = 0; j->by != 1 && i < n; i++) sum[i] = (float)(sum[i] * j->by);
        dl_cpu_f32_to_half(n, sum, o + c * 2, t);
    }
}

static dl_status half_bag_sum(dl_call *c) {
    dl_tensor *o = c->out[0], *index = c->in[1];
    const long bags = index->shape[0], each = index->shape[1];
    if (!o->numel || !index->numel) return plain_bag_sum(c);
    DL_OWNED dl_tensor *at = dl_cpu_indices(index, 0, c->in[0]->shape[0]);
    DL_OWNED dl_tensor *table = at ? with_rows(c->in[0]) : NULL;
    if (!table) return dl_failed();
    bag_job j = {table, o, dl_ptr(at), bags, each, o->shape[1], ATTR_I(c, BAG_SUM_MEAN) ? 1.0 / (double)each : 1};
    dl_cpu_for(bags, dl_cpu_threads(index->numel * j.n), sum_bag, &j);
    return DL_OK;
}

static dl_status run_bag_sum(dl_call *c) {
    return DL_BIT(c->in[0]->dtype) & DL_HALVES ? half_bag_sum(c) : plain_bag_sum(c);
}
const dl_kernel dl_cpu_bag_sum = {.run = run_bag_sum, .dtypes = DL_FLOATS};

static dl_status plain_sddmm(dl_call *c) {
    dl_tensor *o = c->out[0], *b = INPUT(c, SDDMM_MAT2);
    PATTERN = {0};
    DL_TRY(pattern_begin(&p, INPUT(c, SDDMM_CROW), INPUT(c, SDDMM_COL)));
    DL_OWNED dl_tensor *turned = dl_view_new(b->st, (dl_dtype)b->dtype, 2, (long[]){b->shape[1], b->shape[0]},
                                             (long[]){b->stride[1], b->stride[0]}, b->offset);
    DL_OWNED dl_tensor *right = turned ? with_rows(turned) : NULL;
    DL_OWNED dl_tensor *left = right ? with_rows(c->in[0]) : NULL;
    if (!left) return dl_failed();
    job j = {.p = &p, .loop = DL_SIMD_PICK(dl_csr)[o->dtype == DL_F64].sddmm};
    j.rows = (dl_csr_job){.crow = p.from,
                          .col = p.at,
                          .cols = right->shape[0],
                          .n = right->shape[1],
                          .left_step = left->stride[0],
                          .right_step = right->stride[0],
                          .left = dl_ptr(left),
                          .right = dl_ptr(right),
                          .out = dl_ptr(o)};
    return run_rows(&j);
}
DL_CPU_KERNEL(sddmm, plain_sddmm, false, DL_FLOATS)

/* ---- the transpose: entries counted by column, then dealt out in their order */

static dl_status run_transpose(dl_call *c) {
    const long cols = ATTR_I(c, CSR_TRANSPOSE_COLS);
    long *next = dl_ptr(c->out[0]), *row = dl_ptr(c->out[1]), *order = dl_ptr(c->out[2]);
    PATTERN = {0};
    DL_TRY(pattern_begin(&p, c->in[0], INPUT(c, CSR_TRANSPOSE_COL)));
    memset(next, 0, (size_t)(cols + 1) * sizeof *next);
    dl_stop stop = dl_stop_begin();
    bool bad = false;
    DL_CPU_EACH (e, p.nnz, &stop) {
        bool fits = p.at[e] >= 0 && p.at[e] < cols;
        bad |= !fits;
        if (fits) next[p.at[e] + 1]++;
    }
    for (long k = 0; k < cols; k++) next[k + 1] += next[k];
    /* next[k] goes up to the place behind column k, which is where column k + 1 begins */
    DL_CPU_EACH (r, bad ? 0 : p.rows, &stop)
        for (long e = p.from[r]; e < p.from[r + 1]; e++) {
            long at = next[p.at[e]]++;
            row[at] = r, order[at] = e;
        }
    for (long k = cols; k > 0; k--) next[k] = next[k - 1];
    next[0] = 0;
    dl_stop_end(&stop);
    return bad ? fail_columns(&p, cols) : DL_OK;
}
const dl_kernel dl_cpu_csr_transpose = {.run = run_transpose, .dtypes = DL_BIT(DL_I64) | DL_BIT(DL_I32)};
