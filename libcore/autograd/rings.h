/* Tensors and nodes that only hold each other. */
#ifndef DL_AUTOGRAD_RINGS_H
#define DL_AUTOGRAD_RINGS_H

#include "core/tensor.h"

/* To be called when t has a new gradient: notes t when that can lead back to it, and looks for rings when many were
 * noted or memory has grown. */
void dl_knot_note(dl_tensor *t);
/* A noted tensor is no more. */
void dl_knot_forget(dl_tensor *t);
/* Frees the rings of tensors noted by this thread. Returns how many tensors were in them. */
long dl_rings_collect(void);

#endif
