/* Sweeps: what the files of trials share. */
#pragma once

#include "track/store.h"

/* A sweep as its row holds it. */
typedef struct dl_sweep {
    int64_t id, points, max_steps, min_steps, seed;
    int direction, ndim, nseed;
    double eta;
    char method[16], stat[16], metric[256];
    dl_dimension dims[DL_SWEEP_DIMS];
    char seeds[4096]; /* "1 2 3" */
} dl_sweep;
dl_status dl_sweep_load(sqlite3 *db, int64_t id, dl_sweep *out);
/* Adds a trial for a point with each of the seeds. */
dl_status dl_sweep_add_point(sqlite3 *db, const dl_sweep *w, int64_t index, const double *point);
/* A point drawn at random, the same for the same index. */
void dl_sweep_draw(const dl_sweep *w, int64_t index, double *point);
/* Numbers of a text between blanks; how many. */
int dl_sweep_numbers(const char *text, double *out, int most);

/* A trial that tells what a point is worth; `worth`: the larger the better. */
typedef struct dl_tried {
    double worth, point[DL_SWEEP_DIMS];
} dl_tried;
/* A point after those that were tried, by tree-structured Parzen estimators (Bergstra et al. 2011): the good and the
 * others have a density each in every dimension, and of some points drawn from that of the good the one is taken that
 * has the largest ratio of the two. Few trials, or none: drawn at random. Sorts `tried`. */
void dl_tpe_suggest(const dl_dimension *dims, int ndim, dl_tried *tried, long n, uint64_t seed, double *point);
/* Random numbers from 0 to 1. */
double dl_sweep_uniform(uint64_t *state);

/* Halving: how many steps round `rung` has, 0 for the last, which has no limit. */
int64_t dl_rung_steps(const dl_sweep *w, int rung);
/* Sends one trial that waits in a round on to the next. *id 0: there is none. */
dl_status dl_rung_promote(sqlite3 *db, const dl_sweep *w, int64_t *id);

/* trial.c: the step after which this process is to pause; LONG_MAX: none. A push of a later one calls dl_trial_pause,
 * which interrupts the process. */
extern long dl_trial_limit;
dl_status dl_trial_pause(void);
/* For a run that begins: the sweep that this process works for, 0: none; the trial, if it is to be that of the trial.
 * Once. */
int64_t dl_trial_sweep(void);
int64_t dl_trial_join(void);
