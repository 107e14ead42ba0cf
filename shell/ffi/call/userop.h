/* Ops from C functions: which parameter of the function is what of the op, and the calls in both directions.
 *
 * Parameters are known by their names. Of the forward function: an input of the op is itself; any other pointer to
 * something not const is a result. Of the backward function: an input or a result is itself, gNAME (or grad_NAME) is
 * the gradient of NAME, to be read for a result and to be written for an input. Of both: a number of the op is itself,
 * n the number of elements of the first input, NAME_n, NAME_ndim, NAME_shape the number of elements and the sizes of a
 * tensor, stream the CUDA stream to launch on. A parameter of type dl_tensor * gets the tensor instead of its memory.
 */
#pragma once

#include "ffi/ffi.h"

enum { DLSH_OP_MAX_IN = 8, DLSH_OP_MAX_OUT = 8, DLSH_OP_MAX_ATTR = 8 };

typedef struct dlsh_op_plan {
    const char *name, *doc;
    int nin, nattr, visible; /* visible 0: all results */
    const char *in[DLSH_OP_MAX_IN], *attr[DLSH_OP_MAX_ATTR], *attr_default[DLSH_OP_MAX_ATTR];
    dlsh_value forward, backward, cuda_forward, cuda_backward; /* C functions, or VOID */
    dlsh_value shape;  /* a function of inputs and numbers; VOID: the first's sizes */
    dlsh_value sample; /* a list of sizes for each input, for gradcheck; VOID */
} dlsh_op_plan;

/* Defines the op, or redefines it. Values are referenced, text is copied. DL_ERR_TYPE, DL_ERR_NAME. */
dl_status dlsh_userop_define(dlsh_session *s, const dlsh_op_plan *plan);

void dlsh_userops_end(const dlsh_session *s);

/* One that was made. */
typedef struct dlsh_userop dlsh_userop;
dlsh_userop *dlsh_userop_find(const char *name);
int dlsh_userop_inputs(const dlsh_userop *u);
/* Does this input get a gradient? *dtype: its dtype, in an op that computes in `real`. */
int dlsh_userop_input(const dlsh_userop *u, int i, dl_dtype real, dl_dtype *dtype);
/* The sample sizes of an input; a default when none were given. */
dl_status dlsh_userop_sample(const dlsh_userop *u, int i, int *ndim, long *shape);
/* DL_OK when it computes in f64; DL_ERR_DTYPE says how to write it so. */
dl_status dlsh_userop_double(const dlsh_userop *u);
/* Does it have a function for GPUs? *real: f64 when that and its gradient can be computed so, else f32. */
int dlsh_userop_cuda_real(const dlsh_userop *u, dl_dtype *real);
int dlsh_userop_has_backward(const dlsh_userop *u);
/* While it is on, results and gradients are filled with this byte before functions compute them. */
enum { DLSH_OP_POISON = 0xEB };
void dlsh_userop_poison(int on);
