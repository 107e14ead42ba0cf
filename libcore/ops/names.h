/* Attributes, inputs and outputs of a call (dl_call) or of a gradient rule's node (dl_back) by the names of its row, or
 * of its family, in ops.def: ATTR_F(c, LAYER_NORM_EPS), IN_(LAYER_NORM_WEIGHT). tools/gen_ops.c makes the names, those
 * of SECTION(x) in ops/names/x.h, and the ops' numbers beside them: dl_id_NAME is DL_OP_NAME as a constant of the
 * linker, so that who names an op in C is not compiled again when a row before it is added. */
#pragma once

#include "core/op.h"

/* An attribute, and its value where it is one number or a text. */
#define ATTR(c, name) (&(c)->attr[DL_A_##name])
#define ATTR_I(c, name) ((c)->attr[DL_A_##name].u.i)
#define ATTR_F(c, name) ((c)->attr[DL_A_##name].u.f)
#define ATTR_S(c, name) ((c)->attr[DL_A_##name].u.s)
/* An attribute of kind INTS as two arguments: the numbers, NULL when it is absent, and how many they are. */
#define ATTR_V(c, name) (ATTR(c, name)->given ? ATTR(c, name)->u.v : NULL), ATTR(c, name)->n

/* An input of a call; NULL when it is absent. */
#define INPUT(c, name) dl_input(c, DL_IN_##name)
static inline dl_tensor *dl_input(const dl_call *c, int i) { return i < c->nin ? c->in[i] : NULL; }
#define OUTPUT(c, name) ((c)->out[DL_OUT_##name])

/* In gradient rules: a saved input or output, what is known of an input, whether its gradient is wanted, and handing
 * that over. */
#define IN_(name) dl_saved_in(b, DL_IN_##name)
#define OUT_(name) dl_saved_out(b, DL_OUT_##name)
#define META(name) dl_in_meta(b, DL_IN_##name)
#define NEED(name) DL_NEED(DL_IN_##name)
#define GIVE(name, expr) DL_GIVE(DL_IN_##name, expr)
