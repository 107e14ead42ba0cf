/* Samples that are mirrored along a dimension: do they look like those of another class then? */
#pragma once

#include "debug/doctor/doctor.h"

typedef struct dlsh_turn {
    const double *x, *y; /* [n, size], [n] classes; borrowed */
    long n, size;
    int classes;
    const long *place; /* [size] which element of a sample stands at a place when it is turned */
} dlsh_turn;

/* The share of the samples that lie with their class, and nearer to another one when they are turned; 0 where classes
 * cannot be told apart so. *from, *to: classes of one of them. */
double dlsh_share_turned(const dlsh_turn *t, int *from, int *to);
/* Does a text draw random numbers? */
int dlsh_draws(const dlsh_node *n);
/* Functions of the script that change samples on their way into a net (augmented.c). */
void dlsh_find_changed(dlsh_examination *e);
/* Mirrors that a training takes by hand, tried on the tables of variables. */
void dlsh_find_turned(dlsh_examination *e);
