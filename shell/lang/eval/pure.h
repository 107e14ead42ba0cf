/* Pure functions: calls of them do nothing but issue ops, and which ops depends on shapes of the arguments and on
 * values that can be watched. Steps that call them may be captured (dl_key_fn). */
#pragma once

#include "lang/session.h"

/* What is known about a function. */
typedef struct dlsh_purity dlsh_purity;
/* About fn, borrowed, which must outlive it. NULL: no memory (recorded). */
dlsh_purity *dlsh_purity_new(dlsh_session *s, dlsh_value fn);
void dlsh_purity_free(dlsh_purity *p);
/* The function itself may read .grad of its arguments' parts, and of globals that `of` accepts: they are made in the
 * same step. */
void dlsh_purity_allow_grads(dlsh_purity *p, int (*of)(void *ctx, dlsh_value v), void *ctx);
/* A number that changes when the function, or something it uses, has changed. DL_ERR_UNSUPPORTED: it is not pure; the
 * message says why and where. */
dl_status dlsh_purity_key(dlsh_purity *p, unsigned long *out);
/* Tells of the references it holds. */
void dlsh_purity_values(const dlsh_purity *p, const dlsh_visitor *to);
