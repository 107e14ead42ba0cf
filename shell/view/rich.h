/* How values, tables, plots and progress look in a notebook: the kernel's sink calls these and sends what they made.
 * Each fills b->text as a terminal would show it (CSV or JSON when the look says so), and the forms that fit. */
#ifndef DLSH_VIEW_RICH_H
#define DLSH_VIEW_RICH_H

#include "view/progress.h"

/* b is empty on entry. Failures leave a recorded error. */
dl_status dlsh_rich_value(dlsh_bundle *b, dlsh_value v, const dlsh_look *look);
dl_status dlsh_rich_table(dlsh_bundle *b, const dlsh_table *t, const dlsh_look *look);
dl_status dlsh_rich_plot(dlsh_bundle *b, const dlsh_plot *p, const dlsh_look *look);

/* A long action under way, one display updated in place. Zero-initialise; the state between calls is kept here. */
typedef struct dlsh_live {
    dlsh_meter meter;
} dlsh_live;
/* Fills b and returns 1 when it is time to draw: at the first call, a few times a second, and when done. */
int dlsh_rich_progress(dlsh_live *l, const dlsh_progress *p, const dlsh_look *look, dlsh_bundle *b);

#endif
