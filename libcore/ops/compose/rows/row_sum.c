/* Sums of a row's results: in one pass where the device has that, and on the tape as the two rows that they are. */
#include "ops/compose/rows/row_sum.h"
#include "autograd/journal.h"
#include "autograd/nonfinite.h"
#include "autograd/recording.h"
#include "autograd/tape.h"
#include "autograd/vmap.h"
#include "core/device/device.h"
#include "core/op_times.h"
#include "core/scope.h"
#include "core/widening.h"
#include "ops/pointwise.h"
#include "dlcore/copy.h"
#include "dlcore/reduce.h"
#include "ops/names/loss.h"
#include "ops/names/reduce.h"

#include <string.h>

enum { OPERANDS = 2 };

/* Is nobody looking at rows on their way, so that one may be left out? */
static bool unwatched(int device) {
    return !dl_recorder && !dl_vmap_watching && !dl_journal_looking && !dl_nonfinite_suspects(device == 0);
}

static bool sums_rows(int device) {
    const dl_kernel *k = dl_kernel_of(dl_op_row(dl_id_sum), device);
    return k && k->flags & DL_K_SUMS_ROWS;
}

static bool in_one_pass(const dl_op *op, dl_tensor *const *in, const dl_aval *attr) {
    dl_tensor *operands[OPERANDS] = {in[0], in[1]};
    if (!sums_rows(in[0]->st->device)) return false;
    if (in[0]->weak || in[1]->weak || in[0]->dtype != in[1]->dtype || !unwatched(in[0]->st->device)) return false;
    return dl_dtype_is_float(in[0]->dtype) && dl_device_supports(op, operands, OPERANDS, attr);
}

/* The dimensions from the one `last` places before the end on; 0: all. */
static const long *last_dims(long last, long *dims) {
    for (long i = 0; i < last; i++) dims[i] = i - last;
    return last ? dims : NULL;
}

/* In one pass, without history. */
static dl_tensor *summed(const dl_call *row, const dl_meta *results, long last, double divisor, bool wide) {
    const dl_dtype t = wide && DL_BIT(row->dtype) & DL_HALVES ? DL_F32 : row->dtype;
    const dl_kernel *k = dl_kernel_of(dl_op_row(dl_id_sum), row->device);
    DL_OWNED dl_tensor *by = dl_scalar_f(divisor), *host = by ? dl_to(by, DL_F64) : NULL;
    DL_OWNED dl_tensor *total = dl_tensor_empty(last ? (int)(results->ndim - last) : 0, results->shape, t, row->device);
    if (!host || !total) return NULL;
    dl_tensor *in[OPERANDS + 1] = {row->in[0], row->in[1], [DL_SUM_BY] = host}, *out = total;
    dl_call c = *row;
    c.in = in, c.out = &out, c.nin = OPERANDS + 1, c.nout = 1;
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

static dl_tensor *one_pass(dl_call *row, long last, bool mean, bool wide) {
    dl_meta results = {0};
    double n = 1;
    if (row->op->infer(row, &results) != DL_OK) return NULL;
    for (int i = last ? (int)(results.ndim - last) : 0; i < results.ndim; i++) n *= (double)results.shape[i];
    DL_OWNED dl_tensor *total = summed(row, &results, last, mean ? n : 1, wide);
    if (!total || note(row, &results, last, mean, total) != DL_OK) return NULL;
    return dl_ref(total);
}

static bool wants_gradient(dl_tensor *const *in) {
    return dl_recording() && (dl_requires_grad(in[0]) || dl_requires_grad(in[1]));
}

bool dl_row_sums_quietly(const dl_op *op, dl_tensor *const *in) {
    return in[0] && in[1] && in_one_pass(op, in, NULL) && !wants_gradient(in);
}

dl_tensor *dl_row_total(const dl_op *op, dl_tensor *const *in, const double *number, long last, dl_reduction how,
                        bool wide) {
    const dl_formula *f = dl_formula_at(dl_formula_of(op));
    dl_aval attr[DL_MAX_ATTR];
    long dims[DL_MAX_DIM];
    if (!in[0] || !in[1]) return NULL;
    dl_attr_defaults(op, attr);
    for (int k = 0; f->number[k]; k++) attr[dl_attr_index(op, f->number[k])].u.f = number[k];
    if (how == DL_REDUCE_NONE) {
        struct dl_widening *widens = dl_widening_swap(NULL); /* the row rounds once, too */
        dl_tensor *each = dl_invoke1(op, in, OPERANDS, attr);
        return dl_widening_swap(widens), each;
    }
    if (in_one_pass(op, in, attr) && !(wide && wants_gradient(in))) {
        dl_tensor *operands[OPERANDS] = {in[0], in[1]};
        dl_call row = {.op = op, .in = operands, .nin = OPERANDS, .attr = attr, .device = in[0]->st->device};
        row.dtype = (dl_dtype)in[0]->dtype;
        return one_pass(&row, last, how == DL_REDUCE_MEAN, wide);
    }
    DL_OWNED dl_tensor *each = dl_invoke1(op, in, OPERANDS, attr);
    if (!each) return NULL;
    return how == DL_REDUCE_SUM ? dl_sum(each, last_dims(last, dims), (int)last, 0)
                                : dl_mean(each, last_dims(last, dims), (int)last, 0);
}

dl_status dl_finish_row(dl_call *c, const dl_op *op, const double *number) {
    dl_reduction how = DL_REDUCE_MEAN;
    DL_TRY(dl_reduction_of(ATTR(c, LOSS_REDUCTION), &how));
    c->out[0] = dl_row_total(op, c->in, number, 0, how, false);
    return c->out[0] ? DL_OK : dl_failed();
}
