/* Kernels of the optimizers' ops, NAME_step: every tensor of the lists in one call. */
#include "cpu/kernels/optim.h"
#include "autograd/nonfinite.h"
#include "cpu/runtime/iter.h"
#include "ops/rules/optim.h"

#include <math.h>
#include <stdlib.h>

enum { PIECE = 1 << 14, LISTS = 2 + DL_OPTIM_STATES };

static long piece_of(dl_tensor *const *t, long at, void **p) {
    for (int k = 0; k < LISTS; k++) p[k] = t[k] ? (char *)dl_ptr(t[k]) + at * (long)dl_esize(t[0]) : NULL;
    return t[0]->numel - at < PIECE ? t[0]->numel - at : PIECE;
}

/* t: parameter, gradient and states; those that are not there are NULL. */
static void run_pieces(dl_optim_loop loop, const dl_optim *o, dl_tensor *const *t) {
    long n = t[0]->numel;
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(n))
    for (long i = 0; i < n; i += PIECE) {
        void *p[LISTS];
        long count = piece_of(t, i, p);
        loop(count, o, p);
        dl_fp_hand_over();
    }
}

/* The norms of what the optimizer measures; pieces are summed up in their order, whatever the number of threads. */
static dl_status measure(const dl_optim_loops *loops, dl_optim *o, dl_tensor *const *t) {
    long n = t[0]->numel;
    if (!loops->norms) return DL_OK;
    double(*sum)[DL_OPTIM_NORMS] = calloc((size_t)(n / PIECE + 1), sizeof *sum);
    if (!sum) return dl_fail(DL_ERR_MEMORY, "no memory for the norms of a step");
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(n))
    for (long i = 0; i < n; i += PIECE) {
        void *p[LISTS];
        long count = piece_of(t, i, p);
        loops->measure[t[0]->dtype == DL_F64](count, o, p, sum[i / PIECE]);
    }
    for (int k = 0; k < loops->norms; k++) {
        double all = 0;
        for (long i = 0; i < n; i += PIECE) all += sum[i / PIECE][k];
        o->norm[k] = sqrt(all);
    }
    free(sum);
    return DL_OK;
}

/* Tensors with other strides than the parameter, and those of 16 bits, are copied, and unless they are the gradient,
 * copied back. */
static dl_status update(const dl_optim_loops *loops, dl_optim *o, dl_tensor *const *t) {
    dl_tensor *own[LISTS] = {0}, *like = NULL;
    dl_status s = DL_OK;
    if (!t[0]->numel) return DL_OK;
    const int wide = dl_optim_state_dtype(t[0]);
    like = dl_is_dense(t[0]) && wide == t[0]->dtype ? dl_ref(t[0])
                                                    : dl_tensor_empty(t[0]->ndim, t[0]->shape, (dl_dtype)wide, 0);
    for (int k = 0; like && k < LISTS; k++)
        if (t[k] && !(own[k] = dl_cpu_strided_like(t[k], like))) s = dl_failed();
    if (!like) s = dl_failed();
    if (s == DL_OK) s = measure(loops, o, own);
    if (s == DL_OK) {
        run_pieces(loops->update[like->dtype == DL_F64], o, own);
        for (int k = 0; k < LISTS; k++)
            if (k != 1 && own[k] != t[k]) dl_cpu_copy(t[k], own[k]);
    }
    for (int k = 0; k < LISTS; k++) dl_unref(own[k]);
    dl_unref(like);
    return s;
}

/* All parameters; the lists follow the rate and the step. */
static dl_status update_all(const dl_call *c, unsigned states, const dl_optim_loops *loops, dl_optim *o) {
    enum { HEAD = 2 };
    int n = (c->nin - HEAD) / (2 + __builtin_popcount(states));
    for (int i = 0; i < n; i++) {
        dl_tensor *t[LISTS] = {c->in[HEAD + i], c->in[HEAD + n + i]}, **next = &c->in[HEAD + 2 * n + i];
        for (int k = 0; k < DL_OPTIM_STATES; k++)
            if (states >> k & 1) t[2 + k] = *next, next += n;
        DL_TRY(update(loops, o, t));
    }
    return DL_OK;
}

static double number(const dl_tensor *t) { return dl_load_f64(dl_ptr(t), t->dtype); }

#define DL_SCALARS_FN static
#include "optim/scalars.h"

/* A rate of two numbers is rate and halt: nothing changes when the halt is set. */
static dl_status run_step(dl_call *c, int kind, void (*scalars)(const double *, double, double, double *)) {
    const dl_tensor *rate = c->in[0];
    dl_optim_call call;
    if (rate->numel == 2 && ((const double *)dl_ptr(rate))[1] != 0) return DL_OK;
    double step = number(c->in[1]);
    if (!(step >= 1)) return dl_fail(DL_ERR_VALUE, "step counts from 1, not %g", step);
    dl_optim_read(c, &call);
    dl_optim o = {.wants = call.states >> call.own, .first = call.first};
    scalars(call.v, number(rate), step, o.scalar);
    return update_all(c, call.states, &DL_SIMD_PICK(dl_optim_row_loops)[kind], &o);
}

/* The learning rate, which is the first input, has any number dtype. */
#define OPTIMIZER(name, ...)                                                                                           \
    static dl_status run_##name(dl_call *c) { return run_step(c, DL_OPTIMIZER_##name, scalars_##name); }               \
    const dl_kernel dl_cpu_##name##_step = {.run = run_##name, .dtypes = DL_NUMBERS};
#include "optim/optimizers.def"
