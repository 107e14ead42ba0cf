/* Gradients that a text asks of names that get none: what was detached, or goes into losses detached alone. */
#pragma once

#include "lang/parse/ast.h"

typedef struct dlsh_detached {
    const dlsh_node *use; /* x.grad */
    const char *name;
    int line;   /* of the detach() */
    int itself; /* the name stands for what was detached; else it is used through detach() alone */
} dlsh_detached;

/* Calls see for each such place of a text. */
void dlsh_each_detached(const dlsh_unit *unit, void (*see)(void *ctx, const dlsh_detached *d), void *ctx);
