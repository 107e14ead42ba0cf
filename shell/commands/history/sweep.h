/* Sweeps: what the files of the command `sweep` share. */
#pragma once

#include "commands/history/history.h"

/* A space is a list of records {name, values}, or {name, low, high, log, whole}: what is stored with a sweep as JSON.
 */
/* The space of the options outside the row, and its dimensions for the library. */
dl_status dlsh_space_read(const dlsh_args *a, dlsh_value *space, dl_dimension dims[DL_SWEEP_DIMS], int *n);
/* The space of such a text. */
dl_status dlsh_space_parse(dlsh_session *s, const char *text, dlsh_value *space);
/* The value of parameter i at a coordinate of a point. */
dl_status dlsh_space_value(dlsh_value space, int i, double at, dlsh_value *out);
const char *dlsh_space_name(dlsh_value space, int i);
/* "lr=0.0001 to 0.1 (7 values)". */
void dlsh_space_text(dlsh_value space, int i, dlsh_buf *b);

/* What is read of a sweep to run its trials or to show it; free with dlsh_sweep_free. */
typedef struct dlsh_sweep {
    long id, trials, direction, points;
    char *name, *method, *text, *script_path, *script, *cwd, *metric, *stat;
} dlsh_sweep;
dl_status dlsh_sweep_find(const dlsh_args *a, dl_store *store, const char *ref, dlsh_sweep *out);
void dlsh_sweep_free(dlsh_sweep *w);
#define DLSH_SCOPED_SWEEP __attribute__((cleanup(dlsh_sweep_free), unused)) dlsh_sweep

/* Runs trials in `jobs` processes at a time until none is left. */
dl_status dlsh_sweep_work(const dlsh_args *a, dl_store *store, const dlsh_sweep *w, long jobs);
/* Runs the trial that the parent process has claimed. */
dl_status dlsh_sweep_trial(const dlsh_args *a, dl_store *store, long id);
dl_status dlsh_sweep_show(const dlsh_args *a, dl_store *store, const dlsh_sweep *w);
/* All sweeps. */
dl_status dlsh_sweep_list(const dlsh_args *a, dl_store *store);
