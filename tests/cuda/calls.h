/* Calls of ops on either device, their results and gradients brought to the CPU. */
#ifndef TESTS_CUDA_CALLS_H
#define TESTS_CUDA_CALLS_H

#include "cuda/gpu.h"
#include "dlcore/arithmetic.h"
#include "dlcore/elementary.h"
#include "dlcore/reduce.h"
#include "support/calls.h"

/* total + sum of t times fixed weights, which are exact in every dtype. */
static inline dl_tensor *weighted(dl_tensor *result, dl_tensor *total) {
    dl_tensor *t = parts_of(result);
    dl_tensor *w = must(dl_tensor_empty(dl_ndim(t), dl_shape(t), DL_F64, 0));
    for (long i = 0; i < dl_numel(w); i++) ((double *)dl_data(w))[i] = 0.5 + (double)(i * 11 % 32) / 32;
    dl_tensor *there = must(dl_to_device(w, dl_device_of(t))), *cast = must(dl_to_dtype(t, DL_F64));
    dl_tensor *p = must(dl_mul(cast, there)), *s = must(dl_sum(p, NULL, 0, 0));
    dl_tensor *sum = total ? must(dl_add(total, s)) : dl_ref(s);
    dl_unref(w), dl_unref(there), dl_unref(cast), dl_unref(p), dl_unref(s), dl_unref(total), dl_unref(t);
    return sum;
}

/* Of complex numbers the parts. */
static inline dl_tensor *host(dl_tensor *t) {
    dl_tensor *near = t ? must(dl_to_device(t, 0)) : NULL, *parts = near ? parts_of(near) : NULL;
    dl_unref(near);
    return parts;
}

/* Vectors of either sign are compared without it, and their gradients, which depend on it, not at all. */
static inline void drop_signs(call *c) {
    for (int i = 0; i < MAX_RESULTS; i++) {
        dl_tensor *was = c->result[i];
        if (!was || !(c->op->flags & DL_F_SIGNS)) continue;
        c->result[i] = i >= DL_MAX_OUT ? NULL : dl_dtype_is_float(dl_dtype_of(was)) ? must(dl_abs(was)) : dl_ref(was);
        dl_unref(was);
    }
}

/* Are these steps of cuDNN's recurrent kernels, whose tanh is an approximation in f32? */
static inline bool is_recurrent(const dl_op *op) {
    static const char *const rows[] = {"recurrent", "lstm",     "gru",           "rnn",
                                       "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(op->name, rows[i])) return true;
    return false;
}

enum { MOST_RESULTS = 1 << 24 }; /* elements; views of some ops have any number of them */

/* False: the call failed. */
static inline bool run(call *c) {
    dl_tensor *out[DL_MAX_OUT] = {0}, *total = NULL;
    dl_seed(5);
    if (dl_invoke(c->op, c->in, c->nin, c->attr, out) != DL_OK) return false;
    bool large = false;
    for (int i = 0; i < c->op->out; i++) large = large || (out[i] && dl_numel(out[i]) > MOST_RESULTS);
    for (int i = 0; large && i < c->op->out; i++) dl_unref(out[i]);
    if (large) return dl_fail(DL_ERR_UNSUPPORTED, "a result larger than the tests take"), false;
    for (int i = 0; i < c->op->out; i++) {
        if (i < c->op->visible && out[i]) {
            dl_tensor *d = must(dl_detach(out[i]));
            c->result[i] = host(d);
            dl_unref(d);
            if (dl_dtype_is_smooth(dl_dtype_of(out[i])) && dl_requires_grad(out[i])) total = weighted(out[i], total);
        }
        dl_unref(out[i]);
    }
    bool good = !total || dl_backward(total, NULL, 0, 0) == DL_OK;
    dl_unref(total);
    for (int i = 0; good && i < c->nin; i++) {
        bool changed = c->op->mutates >> i & 1;
        dl_tensor *t = !c->in[i] ? NULL : changed ? c->in[i] : dl_grad(c->in[i]);
        c->result[DL_MAX_OUT + i] = host(t);
    }
    drop_signs(c);
    return good;
}

static inline void unload(call *c) {
    for (int i = 0; i < c->nin; i++) dl_unref(c->in[i]);
    for (int i = 0; i < MAX_RESULTS; i++) dl_unref(c->result[i]);
}

#endif
