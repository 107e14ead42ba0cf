/* The one output sink: everything the shell shows goes through it, as text or MIME. The front door makes it; the
 * language and the commands only call it. A sink may ignore what it cannot show, except text, values and errors. */
#ifndef DLSH_VIEW_SINK_H
#define DLSH_VIEW_SINK_H

#include <stddef.h>

#include "lang/value.h"

/* A column of a table. */
typedef struct dlsh_column {
    const char *name; /* heading, and the key in JSON mode */
    char align;       /* 'l' or 'r' */
    char format[8];   /* how floats are shown to people: "%.4g"; "" for the default. CSV and JSON keep all digits */
} dlsh_column;

/* Rows of values, row-major. Owned by whoever made it; the sink only reads it. */
typedef struct dlsh_table {
    const char *title; /* may be NULL */
    int ncols, nrows, cap;
    const dlsh_column *cols; /* borrowed: usually static const */
    dlsh_value *cells;
} dlsh_table;

/* Appends a row of ncols values, taking them all, also on failure. */
dl_status dlsh_table_row(dlsh_table *t, const dlsh_value *cells);
void dlsh_table_clear(dlsh_table *t);

/* A long action under way. The sink decides how often to draw: at a terminal a line redrawn in place, else nothing
 * until `done`. Call it as often as you like. */
typedef struct dlsh_progress {
    const char *label; /* "epoch 2/5" */
    long at, total;    /* total 0: unknown */
    int done;          /* the last call: leave the line standing */
    int nmetrics;
    const char *const *names; /* "loss", "it/s" */
    const double *values;
} dlsh_progress;

/* Curves, bars or pictures; drawn by the view (gnuplot, or text). */
typedef struct dlsh_curve {
    const char *label;
    long n;
    const double *x, *y; /* x NULL: 0, 1, 2, ... */
} dlsh_curve;
typedef struct dlsh_plot {
    const char *title, *xlabel, *ylabel, *file; /* file NULL: shown; else the ending chooses png, svg, txt */
    int ncurves;
    const dlsh_curve *curves;
    int bars, logy;
} dlsh_plot;

/* An error placed in its source. Strings are borrowed; all but message may be empty, never NULL. */
typedef struct dlsh_diag {
    const char *file;     /* "train.dlsh", "<c>", "<3>" */
    int line, col;        /* from 1; 0: unknown */
    const char *severity; /* "error", "warning", "note" */
    const char *message, *hint;
    const char *source; /* the line of the program, without its newline */
    int width;          /* bytes the caret underlines, at least 1 */
    const char *kind;   /* "shape error" */
    const char *trace;  /* the calls that led here, one a line */
} dlsh_diag;

/* How a sink shows things, for those who lay out text themselves or choose between text and data. */
typedef enum dlsh_mode { DLSH_MODE_TABLE, DLSH_MODE_CSV, DLSH_MODE_JSON } dlsh_mode;
typedef struct dlsh_look {
    dlsh_mode mode; /* TABLE: for people. CSV, JSON: give values and tables; text is only for what is no data */
    int width;      /* columns; 0: unlimited, as in a pipe */
    int colour;     /* escape sequences for colours are welcome */
    int live;       /* a terminal: a line can be redrawn */
    int unicode;    /* blocks and Greek letters can be shown */
} dlsh_look;

typedef struct dlsh_sink dlsh_sink;
typedef struct dlsh_sink_ops {
    void (*text)(dlsh_sink *s, const char *bytes, size_t n); /* what print and reports write */
    dl_status (*value)(dlsh_sink *s, dlsh_value v);          /* the value of an expression statement */
    dl_status (*table)(dlsh_sink *s, const dlsh_table *t);
    void (*error)(dlsh_sink *s, const dlsh_diag *d);
    void (*progress)(dlsh_sink *s, const dlsh_progress *p); /* may be NULL */
    dl_status (*plot)(dlsh_sink *s, const dlsh_plot *p);    /* may be NULL: plots are refused */
    /* A picture or document beside its text form: "image/png", "image/svg+xml", "text/html". May be NULL. */
    dl_status (*mime)(dlsh_sink *s, const char *type, const void *data, size_t n, const char *text);
    void (*flush)(dlsh_sink *s);
    void (*look)(dlsh_sink *s, dlsh_look *out); /* may be NULL: plain text of unlimited width */
} dlsh_sink_ops;

/* A sink begins with its operations; its maker puts its state behind. */
struct dlsh_sink {
    const dlsh_sink_ops *ops;
};

/* printf into the text of a sink. */
void dlsh_put(dlsh_sink *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* How it shows things now; asked anew each time, because windows change their size. */
dlsh_look dlsh_sink_look(dlsh_sink *s);

#endif
