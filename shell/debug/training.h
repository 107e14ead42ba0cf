/* Breakpoints of trainings: conditions that are computed with the steps of a trainer, on its device. */
#pragma once

#include "debug/dbg.h"

/* The trainer that the arguments name, or the only one among the variables; NULL: a recorded failure. */
dl_trainer *dlsh_training_of(const dlsh_args *a);
/* Adds a breakpoint or a watch of that text. */
dl_status dlsh_training_add(const dlsh_args *a, dl_trainer *t, const dlsh_point *p);
/* The i-th, from 0: *hits it has had, *decided where its condition is. NULL: there are fewer. */
const dlsh_point *dlsh_training_at(int i, long *hits, const char **decided);
/* Removes the one with that number, or all: how many. */
int dlsh_training_delete(int all, long number);
/* They are also those of a walk over a step of the trainer. */
void dlsh_training_lend(dl_trainer *t);
/* The next number of a breakpoint. */
int dlsh_training_number(void);
