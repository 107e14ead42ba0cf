/* Kernels of sgd_step and adam_step: every tensor of the lists in one call. */
#include "cpu/optim.h"
#include "cpu/iter.h"
#include "cpu/rows.h"
#include "ops/rules.h"

#include <math.h>
#include <string.h>

enum { PIECE = 1 << 14, MAX_LISTS = 5 };

/* Do the elements fill a stretch of memory without gaps or overlaps? */
static bool gapless(const dl_tensor *t) {
    long span = 1;
    for (int i = 0; i < t->ndim; i++) span += (t->shape[i] - 1) * t->stride[i];
    return span == t->numel && dl_strides_are_dense(t->ndim, t->shape, t->stride);
}

static void run_pieces(dl_optim_loop loop, const dl_optim *o, dl_tensor *const *t, int lists) {
    long n = t[0]->numel, es = (long)dl_esize(t[0]);
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(n))
    for (long i = 0; i < n; i += PIECE) {
        void *p[MAX_LISTS] = {0};
        for (int k = 0; k < lists; k++) p[k] = (char *)dl_ptr(t[k]) + i * es;
        loop(n - i < PIECE ? n - i : PIECE, o, p);
    }
}

/* One parameter with its gradient and states. What is laid out otherwise than the parameter is copied and, unless it is
 * the gradient, put back. */
static dl_status update(dl_optim_loop loop, const dl_optim *o, dl_tensor *const *t, int lists) {
    dl_tensor *own[MAX_LISTS] = {0}, *like = NULL;
    dl_status s = DL_OK;
    if (!t[0]->numel) return DL_OK;
    like = gapless(t[0]) ? dl_ref(t[0]) : dl_tensor_empty(t[0]->ndim, t[0]->shape, (dl_dtype)t[0]->dtype, 0);
    for (int k = 0; like && k < lists; k++)
        if (!(own[k] = dl_cpu_strided_like(t[k], like))) s = dl_failed();
    if (!like) s = dl_failed();
    if (s == DL_OK) {
        run_pieces(loop, o, own, lists);
        for (int k = 0; k < lists; k++)
            if (k != 1 && own[k] != t[k]) dl_cpu_copy(t[k], own[k]);
    }
    for (int k = 0; k < lists; k++) dl_unref(own[k]);
    dl_unref(like);
    return s;
}

/* All parameters; the lists follow `head` single inputs. */
static dl_status update_all(dl_call *c, int head, int lists, const dl_optim_loop *loops, const dl_optim *o) {
    int n = (c->nin - head) / lists;
    for (int i = 0; i < n; i++) {
        dl_tensor *t[MAX_LISTS] = {0};
        for (int k = 0; k < lists; k++) t[k] = c->in[head + k * n + i];
        if (t[0]->dtype != DL_F32 && t[0]->dtype != DL_F64)
            return dl_fail(DL_ERR_DTYPE, "parameters are f32 or f64, not %s", dl_dtype_name((dl_dtype)t[0]->dtype));
        DL_TRY(update(loops[t[0]->dtype == DL_F64], o, t, lists));
    }
    return DL_OK;
}

static double number(const dl_tensor *t) { return dl_load_f64(dl_ptr(t), (dl_dtype)t->dtype); }

/* The rate. False: a halt that came with it says that nothing is to change. */
static bool read_rates(const dl_tensor *t, dl_optim *o) {
    o->lr = number(t);
    return t->numel < 2 || ((const double *)dl_ptr(t))[1] == 0;
}

static dl_status sgd_run(dl_call *c) {
    dl_optim o = {.momentum = ATTR_F(c, SGD_STEP_MOMENTUM),
                  .dampening = ATTR_F(c, SGD_STEP_DAMPENING),
                  .decay = ATTR_F(c, SGD_STEP_WEIGHT_DECAY),
                  .nesterov = ATTR_I(c, SGD_STEP_NESTEROV),
                  .maximize = ATTR_I(c, SGD_STEP_MAXIMIZE),
                  .first = ATTR_I(c, SGD_STEP_FIRST)};
    if (!read_rates(c->in[0], &o)) return DL_OK;
    return update_all(c, 1, o.momentum != 0 ? 3 : 2, DL_SIMD_PICK(dl_sgd_loop), &o);
}

static dl_status adam_run(dl_call *c) {
    dl_optim o = {.beta1 = ATTR_F(c, ADAM_STEP_BETA1),
                  .beta2 = ATTR_F(c, ADAM_STEP_BETA2),
                  .eps = ATTR_F(c, ADAM_STEP_EPS),
                  .decay = ATTR_F(c, ADAM_STEP_WEIGHT_DECAY),
                  .decoupled = ATTR_I(c, ADAM_STEP_DECOUPLED),
                  .maximize = ATTR_I(c, ADAM_STEP_MAXIMIZE)};
    if (!read_rates(c->in[0], &o)) return DL_OK;
    double t = number(c->in[1]);
    if (!(t >= 1)) return dl_fail(DL_ERR_VALUE, "step counts from 1, not %g", t);
    o.step = o.lr / (1 - pow(o.beta1, t));
    o.root = sqrt(1 - pow(o.beta2, t));
    return update_all(c, 2, ATTR_I(c, ADAM_STEP_AMSGRAD) ? 5 : 4, DL_SIMD_PICK(dl_adam_loop), &o);
}

/* The learning rate, which is the first input, has any number dtype. */
const dl_kernel dl_cpu_sgd_step = {.run = sgd_run, .dtypes = DL_NUMBERS};
const dl_kernel dl_cpu_adam_step = {.run = adam_run, .dtypes = DL_NUMBERS};
