/* The line of a long action: a bar with rate and remaining time at a terminal, one line at its end elsewhere. */
#ifndef DLSH_VIEW_PROGRESS_H
#define DLSH_VIEW_PROGRESS_H

#include "view/sink.h"

/* State between calls of one sink; zero-initialise. */
typedef struct dlsh_meter {
    char label[64];
    double started, drawn; /* seconds of a steady clock */
    long first;            /* `at` when it started */
    int open;              /* a line stands that can be redrawn */
} dlsh_meter;

/* Appends what is to be written now, maybe nothing: ten times a second at most. Where the look is live it begins and
 * ends with what redraws a line, where it is rich the line stands alone. */
void dlsh_meter_draw(dlsh_meter *m, const dlsh_progress *p, const dlsh_look *look, dlsh_buf *out);
/* The line of an action that was stopped as it stands when no more will come, with its newline. */
void dlsh_meter_line(dlsh_meter *m, const dlsh_progress *p, const dlsh_look *look, dlsh_buf *out);

#endif
