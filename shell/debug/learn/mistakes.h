/* Names what is wrong with a learner's answer: the mistake under which the answer would be the truth. */
#pragma once

#include "lang/session.h"

typedef struct dlsh_guess {
    dlsh_session *session;
    const char *name;          /* what is predicted, as written: "w.grad" */
    int gradient;              /* it is the gradient of a tensor */
    dl_tensor *leaf;           /* of that one; NULL: not known */
    dl_tensor *truth, *answer; /* f64, contiguous, in the host's memory; the answer may be NULL */
} dlsh_guess;

/* Appends "[3, 4]". */
void dlsh_guess_put_shape(dlsh_buf *b, const dl_tensor *t);

/* Appends what is wrong with the shape; nothing when it is right. */
void dlsh_mistake_in_shape(const dlsh_guess *g, const long *shape, int ndim, dlsh_buf *out);

/* Appends what is wrong with the values, or with their shape; nothing when they are right. Numbers count as equal
 * within 1 % and a thousandth of the largest one. */
dl_status dlsh_mistake_in_values(const dlsh_guess *g, dlsh_buf *out);

/* ---------------------------------------------------------------- what the recording tells */

/* Is it one number that is 0 but for the rounding of a sum? */
int dlsh_guess_rounded(const dl_tensor *truth);
int dlsh_guess_equal(const dl_tensor *truth, const dl_tensor *answer, double factor);
/* Appends which recorded tensor the answer is instead: one contribution, the gradient that came in, the value. */
dl_status dlsh_mistake_of_place(const dlsh_guess *g, dlsh_buf *out);
/* Appends which op's mask the answer lacks, if it is right where the truth is not 0. */
dl_status dlsh_mistake_of_mask(const dlsh_guess *g, dlsh_buf *out);
/* Appends where the gradient comes from: the ops that its tensor goes into, and what is known of their gradients. */
void dlsh_hint_of_places(const dlsh_guess *g, dlsh_buf *out);
/* How many contributions the gradient is the sum of, as far as recorded. */
int dlsh_guess_contributions(const dlsh_guess *g);
