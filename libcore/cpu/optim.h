/* Loops of the optimizers' steps: optim_simd.c defines them, optim.c runs them. */
#ifndef DL_CPU_OPTIM_H
#define DL_CPU_OPTIM_H

#include "core/op.h"
#include "cpu/simd.h"

/* Constants of one step. sgd: momentum, dampening; adam: the rest, with step = lr / (1 - b1**t), root = sqrt(1 -
 * b2**t). */
typedef struct dl_optim {
    double lr, decay, momentum, dampening, beta1, beta2, eps, step, root;
    bool nesterov, first, decoupled, maximize;
} dl_optim;

/* n elements of parameter, gradient and up to three state tensors; absent states are NULL. */
typedef void (*dl_optim_loop)(long n, const dl_optim *o, void *const t[5]);

DL_SIMD_DECL(extern const dl_optim_loop, dl_sgd_loop, [2]); /* f32, f64 */
DL_SIMD_DECL(extern const dl_optim_loop, dl_adam_loop, [2]);

#endif
