/* Sums of a row's results: in one pass where the device has that, and on the tape as the two rows that they are. */
#include "ops/compose/rows/row_sum.h"
#include "autograd/journal.h"
#include "autograd/nonfinite.h"
#include "autograd/recording.h"
#include "autograd/tape.h"
#include "autograd/vmap.h"
#include "core/device/device.h"
#include "core/mode.h"
#include "core/op_times.h"
#include "core/scope.h"
#include "core/widening.h"
#include "ops/compose/compose.h"
#include "ops/pointwise.h"
#include "dlcore/arithmetic.h"
#include "dlcore/reduce.h"
#include "ops/names/arithmetic.h"
#include "ops/names/loss.h"
#include "ops/names/reduce.h"

#include <math.h>
#include <string.h>

/* Is nobody looking at rows on their way, so that one may be left out? */
static bool unwatched(int device) {
    return !dl_recorder && !dl_vmap_watching && !dl_journal_looking && !dl_nonfinite_suspects(device == 0);
}

static bool sums_rows(int device) {
    const dl_kernel *k = dl_kernel_of(dl_op_row(dl_id_sum), device);
    return k && k->flags & DL_K_SUMS_ROWS;
}

static int operands_of(const dl_op *op) { return dl_formula_at(dl_formula_of(op))->operands; }

static bool in_one_pass(const dl_op *op, dl_tensor *const *in, const dl_aval *attr) {
    dl_tensor *operands[DL_SUMMED_OPERANDS];
    const int n = operands_of(op);
    for (int i = 0; i < n; i++)
        if ((operands[i] = in[i])->weak || in[i]->dtype != in[0]->dtype) return false;
    if (!sums_rows(in[0]->st->device) || !unwatched(in[0]->st->device)) return false;
    return dl_dtype_is_float(in[0]->dtype) && dl_device_supports(op, operands, n, attr);
}

/* The dimensions from the one `last` places before the end on; 0: all. */
static const long *last_dims(long last, long *dims) {
    for (long i = 0; i < last; i++) dims[i] = i - last;
    return last ? dims : NULL;
}

static dl_tensor *in_memory(const double *number, long n) {
    dl_tensor *t = dl_tensor_empty(1, &n, DL_F64, 0);
    if (t) memcpy(dl_ptr(t), number, sizeof *number * (size_t)n);
    return t;
}

/* In one pass, without history. */
static dl_tensor *summed(const dl_call *row, const dl_meta *results, long last, double divisor, double power,
                         bool wide) {
    const dl_dtype t = wide && DL_BIT(row->dtype) & DL_HALVES ? DL_F32 : row->dtype;
    const dl_kernel *k = dl_kernel_of(dl_op_row(dl_id_sum), row->device);
    DL_OWNED dl_tensor *host = in_memory((double[]){divisor, power}, 2);
    DL_OWNED dl_tensor *total = dl_tensor_empty(last ? (int)(results->ndim - last) : 0, results->shape, t, row->device);
    if (!host || !total) return NULL;
    dl_tensor *in[DL_SUMMED_OPERANDS + 1], *out = total;
    dl_call c = *row;
    memcpy(in, row->in, sizeof *in * (size_t)row->nin);
    in[c.nin++] = host;
    c.in = in, c.out = &out, c.nout = 1;
    const dl_status s = dl_timer ? dl_times_run(k, &c) : k->run(&c);
    return s == DL_OK ? dl_ref(total) : NULL;
}

/* Puts the row and its sum or mean on the tape. Their rules need no more of the results than their shape, so that one
 * number is repeated for them. */
static dl_status note(dl_call *row, const dl_meta *results, long last, bool mean, dl_tensor *total) {
    const long none[DL_MAX_DIM] = {0};
    long shape[DL_MAX_DIM];
    dl_aval how[DL_MAX_ATTR];
    memcpy(shape, results->shape, sizeof shape);
    DL_OWNED dl_tensor *one = dl_tensor_empty(0, none, row->dtype, row->device);
    DL_OWNED dl_tensor *each = one ? dl_view_new(one->st, row->dtype, results->ndim, shape, none, one->offset) : NULL;
    if (!each) return dl_failed();
    dl_tensor *made = each;
    row->out = &made, row->nout = 1;
    DL_TRY(dl_record(row));
    const dl_op *sum = dl_op_row(mean ? dl_id_mean : dl_id_sum);
    dl_attr_defaults(sum, how);
    if (last) how[DL_A_REDUCE_DIM] = (dl_aval){.given = true, .n = (int8_t)last};
    last_dims(last, how[DL_A_REDUCE_DIM].u.v);
    dl_call end = {.op = sum, .in = &made, .out = &total, .nin = 1, .nout = 1, .attr = how};
    end.dtype = row->dtype, end.device = row->device;
    return dl_record(&end);
}

/* The result of such a call, its sums raised to a power: 1, or where nothing goes on the tape another one. */
static dl_tensor *one_pass(dl_call *row, long last, bool mean, double power, bool wide) {
    dl_meta results = {0};
    double n = 1;
    if (row->op->infer(row, &results) != DL_OK) return NULL;
    for (int i = last ? (int)(results.ndim - last) : 0; i < results.ndim; i++) n *= (double)results.shape[i];
    DL_OWNED dl_tensor *total = summed(row, &results, last, mean ? n : 1, power, wide);
    if (!total || (power == 1 && note(row, &results, last, mean, total) != DL_OK)) return NULL;
    return dl_ref(total);
}

static bool are_there(const dl_op *op, dl_tensor *const *in) {
    for (int i = 0; i < operands_of(op); i++)
        if (!in[i]) return false;
    return true;
}

bool dl_row_sums(const dl_op *op, dl_tensor *const *in) { return are_there(op, in) && in_one_pass(op, in, NULL); }

static bool wants_gradient(const dl_op *op, dl_tensor *const *in) {
    for (int i = 0; dl_recording() && i < operands_of(op); i++)
        if (dl_requires_grad(in[i])) return true;
    return false;
}

/* dl_row_total, whose sums are raised to a power. */
static dl_tensor *total_of(const dl_op *op, dl_tensor *const *in, const double *number, long last, dl_reduction how,
                           double power, bool wide) {
    const dl_formula *f = dl_formula_at(dl_formula_of(op));
    dl_aval attr[DL_MAX_ATTR];
    long dims[DL_MAX_DIM];
    if (!are_there(op, in)) return NULL;
    dl_attr_defaults(op, attr);
    for (int k = 0; f->number[k]; k++)
        attr[dl_attr_index(op, f->number[k])] = (dl_aval){.given = true, .u.f = number[k]};
    if (how == DL_REDUCE_NONE) {
        if (wide) return dl_invoke1(op, in, f->operands, attr);
        struct dl_widening *widens = dl_widening_swap(NULL); /* the row rounds once, too */
        dl_tensor *each = dl_invoke1(op, in, f->operands, attr);
        return dl_widening_swap(widens), each;
    }
    /* A composite that widens rounds an operand's gradient once, however often it uses it; a row does each time. */
    const bool rounds = wide && DL_BIT(in[0]->dtype) & DL_HALVES && wants_gradient(op, in);
    if (!rounds && in_one_pass(op, in, attr)) {
        dl_tensor *operands[DL_SUMMED_OPERANDS];
        memcpy(operands, in, sizeof *in * (size_t)f->operands);
        dl_call row = {.op = op, .in = operands, .nin = f->operands, .attr = attr, .device = in[0]->st->device};
        row.dtype = (dl_dtype)in[0]->dtype;
        wide = wide || dl_mixed_dtype(op, row.dtype) != row.dtype;
        return one_pass(&row, last, how == DL_REDUCE_MEAN, power, wide);
    }
    DL_OWNED dl_tensor *each = dl_invoke1(op, in, f->operands, attr);
    if (!each) return NULL;
    return how == DL_REDUCE_SUM ? dl_sum(each, last_dims(last, dims), (int)last, 0)
                                : dl_mean(each, last_dims(last, dims), (int)last, 0);
}

dl_tensor *dl_row_total(const dl_op *op, dl_tensor *const *in, const double *number, long last, dl_reduction how,
                        bool wide) {
    return total_of(op, in, number, last, how, 1, wide);
}

bool dl_sums_powers(int id, dl_tensor *const *in, double p) {
    return p > 0 && !isinf(p) && dl_row_sums(dl_op_row(id), in);
}

dl_tensor *dl_root_of_powers(int id, dl_tensor *const *in, double p, double shift, long last, bool wide) {
    const dl_op *op = dl_op_row(id);
    const double number[] = {p, shift};
    if (p != 1 && !wants_gradient(op, in)) return total_of(op, in, number, last, DL_REDUCE_SUM, 1 / p, wide);
    DL_OWNED dl_tensor *sum = dl_row_total(op, in, number, last, DL_REDUCE_SUM, wide || p != 1);
    return dl_norm_root(sum, p);
}

dl_tensor *dl_products_sum(dl_tensor *a, dl_tensor *b, long dim, bool wide) {
    dl_tensor *in[2] = {a, b};
    if (!a || !b) return NULL;
    const int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    if (ndim && (dim == -1 || dim == ndim - 1))
        return dl_row_total(dl_op_row(dl_id_mul), in, NULL, 1, DL_REDUCE_SUM, wide);
    DL_OWNED dl_tensor *each = dl_mul(a, b);
    return each ? dl_sum(each, &dim, 1, 0) : NULL;
}

dl_status dl_finish_row(dl_call *c, int id, dl_tensor *const *in, const double *number) {
    dl_reduction how = DL_REDUCE_MEAN;
    DL_TRY(dl_reduction_of(ATTR(c, LOSS_REDUCTION), &how));
    return dl_finish(c, dl_row_total(dl_op_row(id), in, number, 0, how, false));
}

dl_status dl_finish_weighted(dl_call *c, int id, dl_tensor *const *in, const double *number, dl_tensor *w) {
    const dl_op *times = dl_op_row(dl_id_mul);
    dl_reduction how = DL_REDUCE_MEAN;
    if (!w) return dl_finish_row(c, id, in, number);
    DL_TRY(dl_reduction_of(ATTR(c, LOSS_REDUCTION), &how));
    const bool sums = how != DL_REDUCE_NONE && dl_row_sums(times, (dl_tensor *[]){in[0], w});
    DL_OWNED dl_tensor *each = dl_row_total(dl_op_row(id), in, number, 0, DL_REDUCE_NONE, !sums);
    if (sums) return dl_finish(c, dl_row_total(times, (dl_tensor *[]){each, w}, NULL, 0, how, false));
    DL_OWNED dl_tensor *all = each ? dl_mul(each, w) : NULL;
    return all ? dl_finish_loss(c, all) : dl_failed();
}
