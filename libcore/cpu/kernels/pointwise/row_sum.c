/* Sums of a row's results, in one pass over its operands: results of a piece are computed in the cache and added up
 * there. A task is a piece, so that the sums do not depend on the number of threads. */
#include "cpu/kernels/pointwise/row_sum.h"
#include "cpu/kernels/pointwise/pointwise.h"
#include "cpu/kernels/reduce.h"
#include "autograd/tape.h"
#include "ops/compose/rows/row_sum.h"
#include "ops/names/arithmetic.h"
#include "ops/names/loss.h"

#include <math.h>

enum { PIECE = 2048 };

typedef struct job {
    const dl_reducer *r;
    dl_loop loop;
    dl_dtype half; /* the 16-bit type that is converted; DL_F32: none */
    int operands;
    const char *in[DL_SUMMED_OPERANDS];
    long step[DL_SUMMED_OPERANDS]; /* bytes from an element to the next; 0: a single number */
    long size;                     /* bytes of an element that is computed */
    long rows, terms;              /* results, and what each is the sum of */
    long together, pieces;         /* rows of a task, or pieces of a row */
    dl_pointwise_arg arg;
    double divisor, power, *part; /* part: sums of pieces */
    dl_tensor *out;
} job;

static void finish(const job *j, long row, double sum) {
    dl_store_f64((char *)dl_ptr(j->out) + row * (long)dl_esize(j->out), j->out->dtype,
                 j->power == 1 ? sum / j->divisor : pow(sum / j->divisor, j->power));
}

/* Results of n elements from `from` on. */
static void compute(const job *j, long from, long n, void *out) {
    _Alignas(64) float wide[DL_SUMMED_OPERANDS][PIECE];
    char *p[1 + DL_SUMMED_OPERANDS] = {out};
    long step[1 + DL_SUMMED_OPERANDS] = {j->size};
    dl_pointwise_arg arg = j->arg;
    for (int k = 0; k < j->operands; k++) {
        p[1 + k] = (char *)j->in[k] + from * j->step[k], step[1 + k] = j->step[k];
        if (j->half == DL_F32) continue;
        dl_cpu_half_to_f32(j->step[k] ? n : 1, p[1 + k], j->half, wide[k]);
        p[1 + k] = (char *)wide[k], step[1 + k] = j->step[k] ? (long)sizeof **wide : 0;
    }
    j->loop(n, p, step, &arg);
}

static void add_up(void *arg, long i) {
    const job *j = arg;
    _Alignas(64) double out[PIECE];
    const long row = i / j->pieces * j->together, at = i % j->pieces * PIECE;
    const long rows = j->rows - row < j->together ? j->rows - row : j->together;
    const long n = j->pieces == 1 ? j->terms : j->terms - at < PIECE ? j->terms - at : PIECE;
    compute(j, row * j->terms + at, rows * n, out);
    for (long k = 0; k < rows; k++) {
        double sum = 0;
        if (n) j->r->row(n, (char *)out + k * n * j->size, j->size, NULL, &sum);
        if (j->part)
            j->part[i] = sum;
        else
            finish(j, row + k, sum);
    }
}

static dl_status run(job *j) {
    j->together = j->terms && j->terms <= PIECE ? PIECE / j->terms : 1;
    j->pieces = j->terms ? (j->terms + PIECE - 1) / PIECE : 1;
    const long tasks = (j->rows + j->together - 1) / j->together * j->pieces;
    const size_t bytes = j->pieces > 1 ? (size_t)tasks * sizeof(double) : 0;
    if (bytes && !(j->part = dl_host_alloc(bytes))) return dl_failed();
    dl_cpu_for(tasks, dl_cpu_threads(j->rows * j->terms), add_up, j);
    for (long row = 0; bytes && row < j->rows; row++) {
        double sum = 0;
        for (long k = 0; k < j->pieces; k++) sum += j->part[row * j->pieces + k];
        finish(j, row, sum);
    }
    if (bytes) dl_host_free(j->part, bytes);
    return DL_OK;
}

dl_status dl_cpu_row_sum(dl_call *c) {
    dl_call row = *c;
    dl_meta results = {0};
    const int i = dl_formula_of(c->op);
    row.nin--;
    DL_TRY(c->op->infer(&row, &results));
    const double *number = dl_ptr(c->in[row.nin]);
    const bool half = DL_BIT(c->dtype) & DL_HALVES;
    const dl_dtype t = half ? DL_F32 : c->dtype;
    job j = {.r = &DL_SIMD_PICK(dl_reducer_table)[DL_R_SUM][t], .loop = DL_SIMD_PICK(dl_pointwise)[t]->run[i]};
    j.half = half ? c->dtype : DL_F32, j.size = dl_dtype_size(t), j.operands = row.nin;
    j.divisor = number[0], j.power = number[1], j.out = c->out[0], j.rows = j.out->numel, j.terms = 1;
    for (int d = j.out->ndim; d < results.ndim; d++) j.terms *= results.shape[d];
    dl_formula_numbers(i, c->op, c->attr, j.arg.number);
    for (int k = 0; k < row.nin; k++) {
        j.in[k] = dl_ptr(c->in[k]);
        j.step[k] = c->in[k]->numel == 1 ? 0 : (long)dl_esize(c->in[k]);
    }
    return run(&j);
}

/* Rows for whose sums there is no other way in one pass. */
static bool is_summed(const dl_op *op) {
#define IS(name) || op == dl_op_row(dl_id_##name)
    return op != dl_op_row(dl_id_magnitude_power) && (false DL_SUMMED_ROWS(IS));
}

bool dl_cpu_sums_row(const dl_call *c) {
    const dl_tensor *full = c->in[0];
    if (!is_summed(c->op)) return false;
    for (int k = 1; k < c->nin; k++)
        if (c->in[k]->numel > full->numel) full = c->in[k];
    for (int k = 0; k < c->nin; k++) {
        const dl_tensor *t = c->in[k];
        const bool single = t->numel == 1 && t->ndim <= full->ndim;
        if (!(single || dl_shape_eq(t, full)) || !dl_is_contiguous(t)) return false;
        if (dl_recording() && dl_requires_grad(t)) return false; /* other rows have faster gradients */
    }
    return true;
}
