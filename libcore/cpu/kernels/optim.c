/* Kernels of the optimizers' ops, NAME_step: every tensor of the lists in one call. */
#include "cpu/kernels/optim.h"
#include "cpu/runtime/iter.h"
#include "ops/rules/optim.h"

#include <math.h>
#include <string.h>

enum { PIECE = 1 << 14, LISTS = 2 + DL_OPTIM_STATES };

/* t: parameter, gradient and states; those that are not there are NULL. */
static void run_pieces(dl_optim_loop loop, const dl_optim *o, dl_tensor *const *t) {
    long n = t[0]->numel, es = (long)dl_esize(t[0]);
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(n))
    for (long i = 0; i < n; i += PIECE) {
        void *p[LISTS] = {0};
        for (int k = 0; k < LISTS; k++)
            if (t[k]) p[k] = (char *)dl_ptr(t[k]) + i * es;
        loop(n - i < PIECE ? n - i : PIECE, o, p);
    }
}

/* Tensors with other strides than the parameter are copied, and unless they are the gradient, copied back. */
static dl_status update(dl_optim_loop loop, const dl_optim *o, dl_tensor *const *t) {
    dl_tensor *own[LISTS] = {0}, *like = NULL;
    dl_status s = DL_OK;
    if (!t[0]->numel) return DL_OK;
    like = dl_is_dense(t[0]) ? dl_ref(t[0]) : dl_tensor_empty(t[0]->ndim, t[0]->shape, (dl_dtype)t[0]->dtype, 0);
    for (int k = 0; like && k < LISTS; k++)
        if (t[k] && !(own[k] = dl_cpu_strided_like(t[k], like))) s = dl_failed();
    if (!like) s = dl_failed();
    if (s == DL_OK) {
        run_pieces(loop, o, own);
        for (int k = 0; k < LISTS; k++)
            if (k != 1 && own[k] != t[k]) dl_cpu_copy(t[k], own[k]);
    }
    for (int k = 0; k < LISTS; k++) dl_unref(own[k]);
    dl_unref(like);
    return s;
}

/* All parameters; the lists follow the rate and the step. */
static dl_status update_all(const dl_call *c, unsigned states, const dl_optim_loop *loops, const dl_optim *o) {
    enum { HEAD = 2 };
    int n = (c->nin - HEAD) / (2 + __builtin_popcount(states));
    for (int i = 0; i < n; i++) {
        dl_tensor *t[LISTS] = {c->in[HEAD + i], c->in[HEAD + n + i]}, **next = &c->in[HEAD + 2 * n + i];
        for (int k = 0; k < DL_OPTIM_STATES; k++)
            if (states >> k & 1) t[2 + k] = *next, next += n;
        if (t[0]->dtype != DL_F32 && t[0]->dtype != DL_F64)
            return dl_fail(DL_ERR_DTYPE, "parameters are f32 or f64, not %s", dl_dtype_name((dl_dtype)t[0]->dtype));
        DL_TRY(update(loops[t[0]->dtype == DL_F64], o, t));
    }
    return DL_OK;
}

static double number(const dl_tensor *t) { return dl_load_f64(dl_ptr(t), (dl_dtype)t->dtype); }

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
    return update_all(c, call.states, DL_SIMD_PICK(dl_optim_loops)[kind], &o);
}

/* The learning rate, which is the first input, has any number dtype. */
#define OPTIMIZER(name, ...)                                                                                           \
    static dl_status run_##name(dl_call *c) { return run_step(c, DL_OPTIMIZER_##name, scalars_##name); }               \
    const dl_kernel dl_cpu_##name##_step = {.run = run_##name, .dtypes = DL_NUMBERS};
#include "optim/optimizers.def"
