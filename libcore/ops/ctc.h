/* Paths through the states of sequences of labels, for the kernels of every device: blank, label, blank, label, ...,
 * blank; a step stays, moves on by one state, or by two from a label to a different one. Plain C and C++17. */
#pragma once

#include "core/op.h"
#include "core/random/rng.h"
#include "core/tensor.h"

#include <math.h>

/* n sequences of at most s labels, so of l = 2 s + 1 states, in t steps. */
typedef struct dl_ctc_sizes {
    long t, n, classes, s, l, blank;
} dl_ctc_sizes;

/* Of log-probabilities [T,N,C] and labels [N,S]. */
static inline dl_ctc_sizes dl_ctc_sizes_of(const dl_tensor *x, const dl_tensor *labels, long blank) {
    const dl_ctc_sizes k = {x->shape[0], x->shape[1], x->shape[2], labels->shape[1], 2 * labels->shape[1] + 1, blank};
    return k;
}

/* Numbers of steps and of labels as memory has room for; ctc_loss refuses others. */
DL_HD long dl_ctc_within(long n, long most) { return n < 0 ? 0 : n > most ? most : n; }

/* The class of a state of a sequence; of a label that is no class, which kernels report, the blank. */
DL_HD long dl_ctc_class(const dl_ctc_sizes *k, const long *labels, long state) {
    const long label = state % 2 ? labels[state / 2] : k->blank;
    return label >= 0 && label < k->classes ? label : k->blank;
}

/* May a state be reached from that two before? */
DL_HD int dl_ctc_skips(const dl_ctc_sizes *k, const long *labels, long state) {
    return state % 2 && state > 1 && labels[state / 2] != labels[state / 2 - 1] && labels[state / 2] != k->blank;
}

/* ln(e ** a + e ** b + e ** c) */
DL_HD double dl_ctc_join(double a, double b, double c) {
    const double top = fmax(a, fmax(b, c));
    if (!(top > -INFINITY)) return a + b + c;
    return top + log(exp(a - top) + exp(b - top) + exp(c - top));
}

/* All ways up to a step that end in a state, but for the step's own share, from those of the step before. */
DL_HD double dl_ctc_forward(const dl_ctc_sizes *k, const long *labels, const double *before, long state) {
    return dl_ctc_join(before[state], state > 0 ? before[state - 1] : -INFINITY,
                       dl_ctc_skips(k, labels, state) ? before[state - 2] : -INFINITY);
}

/* All ways on from a state, of `states`, from those of the next step, with its share. */
DL_HD double dl_ctc_onward(const dl_ctc_sizes *k, const long *labels, const double *next, long states, long state) {
    return dl_ctc_join(next[state], state + 1 < states ? next[state + 1] : -INFINITY,
                       state + 2 < states && dl_ctc_skips(k, labels, state + 2) ? next[state + 2] : -INFINITY);
}

/* -ln(probability), from the ways at the last step. */
DL_HD double dl_ctc_lost(const double *last, long states) {
    return -dl_ctc_join(last[states - 1], states > 1 ? last[states - 2] : -INFINITY, -INFINITY);
}
