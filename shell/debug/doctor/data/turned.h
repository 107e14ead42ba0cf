/* Samples that are mirrored along a dimension: do they look like those of another class then? */
#pragma once

#include "debug/doctor/doctor.h"

/* Of samples x, labels y, that lie with their class *from the share that lies nearer to *to when they are turned along
 * dimensions, a bit each, or two of them are exchanged: that of the two classes which has most; 0 where it cannot be
 * told. */
double dlsh_try_turned(dl_tensor *x, dl_tensor *y, unsigned dims, int swapped, int *from, int *to);
/* Does a text draw random numbers? */
int dlsh_draws(const dlsh_node *n);
/* Does chance decide whether something is done, of the nodes around it? if rand(1) < 0.5 { ... } */
int dlsh_is_by_chance(const dlsh_node *const *within, int depth);
/* Functions of the script that change samples on their way into a net (augmented.c). */
void dlsh_find_changed(dlsh_examination *e);
/* Pictures that are turned while their targets, a number for each place, are not (unturned.c). */
void dlsh_find_unturned(dlsh_examination *e);
/* Mirrors that a training takes by hand, tried on the tables of variables. */
void dlsh_find_turned(dlsh_examination *e);
