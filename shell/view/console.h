/* The sink of prompt and batch: text, CSV or lines of JSON on standard output, errors on standard error. */
#pragma once

#include "view/sink.h"

/* `set mode`, `set colour`, `set progress`, `set pictures`; AUTO: what the output is decides. */
enum { DLSH_AUTO, DLSH_ON, DLSH_OFF };
typedef struct dlsh_view_options {
    dlsh_mode mode;
    int colour;
    int progress;
    int pictures; /* a dlsh_graphics */
} dlsh_view_options;
extern dlsh_view_options dlsh_view;

/* The one console; it writes to stdout and stderr. */
dlsh_sink *dlsh_console(void);
/* Reads a line that is asked for, where lines can be edited; NULL: as the terminal or a pipe has it. */
extern dl_status (*dlsh_console_ask)(const char *question, dlsh_buf *out);
/* "dlsh: ..." and a newline on standard error, where there is no statement to place an error in. */
void dlsh_console_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Whether standard output is a terminal that can move its cursor. */
int dlsh_console_live(void);
/* Ends a progress line that is being redrawn, so that other text starts on a line of its own. */
void dlsh_console_end_line(void);
