/* The line of a long action: a bar with rate and remaining time at a terminal, one line at its end elsewhere. */
#pragma once

#include "view/sink.h"

/* State between calls of one sink; zero-initialise. */
typedef struct dlsh_meter {
    char label[64];
    double started, drawn; /* seconds of a steady clock */
    double job_started;    /* 0: no job is under way */
    long first, job_first; /* `at` and `job_at` when they started */
    int open;              /* columns of the line that stands and can be redrawn; 0: none */
} dlsh_meter;

/* Appends what is to be written now, maybe nothing: ten times a second at most. Where the look is live it begins and
 * ends with what redraws a line, where it is rich the line stands alone. */
void dlsh_meter_draw(dlsh_meter *m, const dlsh_progress *p, const dlsh_look *look, dlsh_buf *out);
/* The line of an action that was stopped as it stands when no more will come, with its newline. */
void dlsh_meter_line(dlsh_meter *m, const dlsh_progress *p, const dlsh_look *look, dlsh_buf *out);

/* The part of the job that is done, 0 to 1; the seconds left by what was done since `first` in `seconds`, below 0 while
 * that cannot be told. */
double dlsh_progress_part(const dlsh_progress *p);
double dlsh_progress_left(const dlsh_progress *p, long first, double seconds);
