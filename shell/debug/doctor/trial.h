/* Two passes of the probe's net, over a batch and over another one, call by call. */
#pragma once

#include "debug/doctor/doctor.h"

typedef struct dlsh_trial {
    dl_tensor **result; /* of the calls; owned */
    dl_recorded *calls; /* without their tensors */
    long (*from)[3];    /* of the first operands: the call that made it, or one of those below */
    long n;
} dlsh_trial;

enum { DLSH_TRIAL_OPERANDS = 3, DLSH_TRIAL_OTHER = -1, DLSH_TRIAL_INPUT = -2 };

typedef void dlsh_judge(dlsh_examination *e, const dlsh_trial *a, const dlsh_trial *b, dl_tensor *x, dl_tensor *y,
                        dl_tensor *z);
/* Makes the other batch of a batch; NULL: there is none. */
typedef dl_tensor *dlsh_disturb(const dlsh_examination *e, dl_tensor *x);
/* Runs the net on both in evaluation mode, and calls judge with the results y and z where they are finite. */
dl_status dlsh_compare_passes(dlsh_examination *e, dlsh_disturb *disturb, dlsh_judge *judge);
/* Runs the probe's net on x, recorded; the caller frees t, also after an error. */
dl_status dlsh_trial_run(dlsh_examination *e, dl_tensor *x, dlsh_trial *t, dl_tensor **out);
void dlsh_trial_free(dlsh_trial *t);
/* Does the probe's net in evaluation mode, or its function, choose by chance? *at: where. */
int dlsh_find_chosen_by_chance(dlsh_examination *e, dl_source *at);
/* The share of elements that are the same in both; 1 where there is nothing to compare. */
double dlsh_share_alike(const dl_tensor *a, const dl_tensor *b);
/* The line of the layer of a call, or else of the statement that ran it. */
const char *dlsh_call_file(const dl_recorded *c);
int dlsh_call_line(const dl_recorded *c);
