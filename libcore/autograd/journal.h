/* The journal of a thread: what its loops of training did, a row for each place, with figures of some backward passes.
 */
#pragma once

#include "core/op.h"

/* The nodes of a pass that is looked at. */
typedef struct dl_journal_pass {
    dl_journal_node *nodes;
    long n, cap;
} dl_journal_pass;

/* Where this thread's pass is looked at; NULL: it is not. */
extern __thread dl_journal_pass *dl_journal_looking;

/* Some of the elements of t in host memory, as a new tensor [n] of at most `most` elements or so; t itself where it is
 * in host memory. NULL: they cannot be read now. */
dl_tensor *dl_journal_sample(const dl_tensor *t, long most);
/* The first rows of a contiguous t in host memory. NULL: they cannot be read now. */
dl_tensor *dl_journal_rows(const dl_tensor *t, long rows);

/* Figures of some elements of t, and its hash; n stays 0 where they cannot be read. */
void dl_journal_figures(const dl_tensor *t, dl_journal_value *v);
/* Hashes of up to `most` rows of t, spread over all; how many. */
long dl_journal_row_hashes(const dl_tensor *t, unsigned long *out, long most);

/* A backward pass from a tensor. The caller hands what begin returns to end. */
long dl_journal_backward_begin(const dl_tensor *root);
void dl_journal_backward_end(long row);
/* The pass that began last goes through a node of an earlier one, made at `taken`, which `joint` takes in. */
void dl_journal_reached(const dl_source *joint, const dl_source *taken, uint32_t earlier);
/* Was memory of that serial made after the last step? */
bool dl_journal_is_fresh(uint64_t serial);
/* The number of a backward pass that begins, from 1 on. */
uint32_t dl_journal_pass_number(void);
/* [n, 1] and [n] were broadcast to [n, n]. */
void dl_journal_spread(const dl_op *op, const dl_tensor *a, const dl_tensor *b);
/* x is given a shape, whatever it has now. */
void dl_journal_reshaped(const dl_tensor *x, int ndim, const long *shape);
void dl_journal_shape(dl_journal_kind kind, const void *what, const dl_tensor *x, int ndim, const long *shape);
/* A gradient rule has run. */
void dl_journal_node_add(const dl_back *b);

/* A step that uses gradients of n parameters; begin takes some of their elements, end compares them. */
enum { DL_JOURNAL_PARAMS = 64, DL_JOURNAL_ELEMENTS = 64 };
typedef struct dl_journal_step {
    long row;
    int n;
    const dl_tensor *p[DL_JOURNAL_PARAMS];
    float before[DL_JOURNAL_PARAMS][DL_JOURNAL_ELEMENTS];
} dl_journal_step;
/* True: dl_journal_step_end is to be called. */
bool dl_journal_step_begin(dl_journal_step *s, const void *optimizer, double rate, dl_tensor *const *p, long n);
void dl_journal_step_end(dl_journal_step *s);
/* A leaf is changed in place by the caller, who used its gradient; as of a step. Of several leaves that are changed at
 * one place the first one is looked at. */
bool dl_journal_change_begin(dl_journal_step *s, dl_tensor *leaf);
/* The caller was given gradients of these as values, by a pass from one number; the leaf gets none itself. */
void dl_journal_given(dl_tensor *const *inputs, int n);
/* Gradients that were given and that no change of a leaf has used yet. */
extern __thread int dl_journal_gifts;
/* Is one of them the leaf's? It is used by that. */
bool dl_journal_takes_gift(const dl_tensor *leaf);

void dl_journal_zero(const void *optimizer);
/* True: dl_journal_modes is to be called, with how many of the layers are in the other mode than the net, and whether
 * its parameters are frozen. */
bool dl_journal_forward(const void *net, bool training, const dl_tensor *x);
void dl_journal_modes(long other, long layers, bool frozen);
void dl_journal_mode(const void *net, bool training);
/* Of gradients of several parameters, of which `first` is one. */
void dl_journal_clip(const dl_tensor *first, double limit, double norm);
void dl_journal_rate(const void *optimizer, double rate);

/* A step has used a gradient. */
static inline void dl_journal_used(dl_tensor *gradient) {
    gradient->used = gradient->st->version + 1;
    gradient->again = false;
}

/* A gradient was changed in place, and not set anew, as by clipping: whether a step has used it stays known. */
static inline bool dl_journal_changed(dl_tensor *gradient, uint32_t version) {
    if (!gradient->used || gradient->used != version + 1) return false;
    gradient->used = gradient->st->version + 1;
    return true;
}

/* Was a gradient that a step has used just added to? */
static inline void dl_journal_added(dl_tensor *gradient, uint32_t version) {
    if (dl_journal_changed(gradient, version)) gradient->again = true;
}
