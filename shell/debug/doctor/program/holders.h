/* The variables of a session, those of functions that run or have ended included. */
#pragma once

#include "lang/session.h"

/* A variable, wherever it lives. */
typedef struct dlsh_holder {
    const char *name, *file; /* the text of its function; NULL: a global */
    const char *function;    /* its name, "" of a literal */
    int line;                /* where that begins; 0: a global */
    int place;               /* behind all statements that may set it, where its definition is looked up */
    dlsh_value value;        /* owned */
    int again;               /* nothing to be looked at, or held by one before */
    char *made;              /* the name of an item, opts.d or nets[0]; NULL: that of a variable */
} dlsh_holder;
typedef struct dlsh_holders {
    dlsh_holder *at;
    int n;
} dlsh_holders;

/* All of a session, globals first, behind the variables the objects in their lists and records, as optimizers;
 * functions that are called until they are freed change nothing of them. */
void dlsh_holders_find(dlsh_session *s, dlsh_holders *out);
void dlsh_holders_free(dlsh_holders *all);
/* The next one that holds a tensor, an object, a list or a record, each of them once; NULL: none is left. */
const dlsh_holder *dlsh_holder_next(const dlsh_holders *all, int *i);
/* ... behind another one; NULL: the first. */
static inline const dlsh_holder *dlsh_holder_behind(const dlsh_holders *all, const dlsh_holder *h) {
    int i = h ? (int)(h - all->at) + 1 : 0;
    return dlsh_holder_next(all, &i);
}
#define DLSH_EACH_HOLDER(h, all) DLSH_EACH_HOLDER_WHILE (1, h, all)
#define DLSH_EACH_HOLDER_WHILE(cond, h, all)                                                                           \
    for (const dlsh_holder *h = dlsh_holder_behind(all, NULL); h && (cond); h = dlsh_holder_behind(all, h))
