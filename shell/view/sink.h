/* The one output sink: everything the shell shows goes through it, as text or MIME. The front end makes it; the
 * language and the commands only call it. A sink may ignore what it cannot show, except text, values and errors.
 *
 * Commands hand over what they mean (a value, a table, a plot, progress) and the sink chooses its form. What has a
 * picture or a document of its own is handed over as a bundle, one thing in several forms of which the front end shows
 * the best it can; it always has a text:
 *
 *     dlsh_bundle b = {0};
 *     dlsh_buf_printf(&b.text, "a histogram of %ld values\n", n);        // always; what a terminal shows
 *     if (dlsh_sink_look(sink).rich)                                     // forms that cost time: only for a notebook
 *         status = draw_svg(x, &b.form[DLSH_SVG]);
 *     if (!status) status = dlsh_display(sink, &b);                      // the sink copies what it keeps
 *     dlsh_bundle_free(&b);
 *
 * A display that changes while an action runs is a bundle with an id: `b.id = dlsh_display_id()` and dlsh_display shows
 * it; later bundles with the same id and `update` set replace it where it stands, from other statements and cells too.
 * Each update is a message: ten a second are plenty. A terminal shows the text of the first and ignores updates, so for
 * progress call the sink's `progress`, which every front end draws in its own way.
 *
 * Values, tables, plots and progress of a notebook are made bundles by view/rich/rich.h; that is the place for how they
 * look there. The kernel decides what is an execute_result (the last expression of a cell) and what is display_data. */
#pragma once

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
    const int *rank; /* of the columns, for narrow terminals: the lowest is left out first; NULL: the last one */
    int keys;        /* or columns stand in several blocks, each with the first `keys` columns; 0: none is repeated */
} dlsh_table;

/* Appends a row of ncols values, taking them all, also on failure. */
dl_status dlsh_table_row(dlsh_table *t, const dlsh_value *cells);
#define DLSH_TABLE_ROW(t, ...) dlsh_table_row(t, (dlsh_value[]){__VA_ARGS__})
/* Appends rows of two cells, a key and a value, leaving out those with key NULL. Takes the values, also on failure. */
dl_status dlsh_table_entries(dlsh_table *t, const dlsh_entry *rows, int n);
void dlsh_table_clear(dlsh_table *t);
#define DLSH_SCOPED_TABLE DLSH_SCOPED(dlsh_table_clear) dlsh_table
/* A table of these columns: dlsh_table t = DLSH_TABLE({"run", 'r', ""}, ...). */
#define DLSH_TABLE(...)                                                                                                \
    {                                                                                                                  \
        .ncols = (int)(sizeof((const dlsh_column[]){__VA_ARGS__}) / sizeof(dlsh_column)),                              \
        .cols = (const dlsh_column[]) {                                                                                \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

/* A long action under way. The sink decides how often to draw: at a terminal a line redrawn in place, else nothing
 * until `done`. Call it as often as you like. */
typedef struct dlsh_progress {
    const char *label;      /* "epoch 2/5" */
    long at, total;         /* total 0: unknown */
    int done;               /* the last call of this line: leave it standing */
    int more;               /* with done: another line of the same action follows, "epoch 3/5" */
    long job_at, job_total; /* of all lines of the action together; job_total 0: as at and total */
    int nmetrics;
    const char *const *names; /* "loss", "it/s" */
    const double *values;
    const int *ranks;   /* 0 to 7: a narrow line leaves out the lowest first; NULL: the last one */
    const char *detail; /* stands after the count: "batch 3/40"; NULL or "": nothing */
    double seconds; /* since the line began, and the turns since then, where the caller knows; 0: measured from the */
    double turns;   /* first call with this label */
    /* For front ends with pictures; both may be left out. */
    const char *curve; /* "loss": `point` is its value at this call */
    double point;
    const char *unit; /* "samples/s" of `rate` */
    double rate;
    /* The action has ended before its end: "interrupted after step 12"; the rest as in the call before. */
    const char *stopped;
    int failed; /* with stopped: by an error */
} dlsh_progress;

/* Curves, bars or pictures; drawn by the view (gnuplot, or text). */
typedef struct dlsh_curve {
    const char *label;
    long n;
    const double *x, *y;      /* x NULL: 0, 1, 2, ... */
    const double *low, *high; /* a band around it; NULL: none */
    int points;               /* points without lines between them */
} dlsh_curve;
typedef struct dlsh_plot {
    const char *title, *xlabel, *ylabel, *file; /* file NULL: shown; else the ending chooses png, svg, txt */
    int ncurves;
    const dlsh_curve *curves;
    int bars, logy, logx;
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

/* One thing in several forms. Zero-initialise; dlsh_bundle_free. */
enum dlsh_form { DLSH_HTML, DLSH_PNG, DLSH_SVG, DLSH_JSON, DLSH_MARKDOWN, DLSH_LATEX, DLSH_FORMS };
typedef struct dlsh_bundle {
    dlsh_buf text;             /* for people without pictures; with colours if the look has them */
    dlsh_buf form[DLSH_FORMS]; /* empty: not there. PNG as it stands in a file; JSON one value as text; others UTF-8 */
    dlsh_buf alt;              /* of the PNG: what stands for it where it cannot be seen. SVG says so itself */
    int width, height;         /* at which the picture is shown, in pixels; 0: its own size */
    long id;                   /* 0: shown once and for all; else of dlsh_display_id */
    int update;                /* replaces what was shown under this id */
} dlsh_bundle;

void dlsh_bundle_free(dlsh_bundle *b);
/* "image/png" */
const char *dlsh_form_type(int form);
/* Puts `more` below what b shows: texts follow each other, and so do the HTML forms if either has one (then what has
 * none stands there as text, pictures as <img>). Other forms stay only when b was empty. */
void dlsh_bundle_join(dlsh_bundle *b, const dlsh_bundle *more);
/* Appends text as HTML, in contents and in attributes: made visible, and special characters written as entities. */
void dlsh_html_escape(dlsh_buf *b, const char *s, size_t n);
/* Appends data as base64, without line breaks. */
void dlsh_base64(dlsh_buf *b, const void *data, size_t n);

/* How a sink shows things, for those who lay out text themselves or choose between text and data. */
typedef enum dlsh_mode { DLSH_MODE_TABLE, DLSH_MODE_CSV, DLSH_MODE_JSON } dlsh_mode;
typedef struct dlsh_look {
    dlsh_mode mode; /* TABLE: for people. CSV, JSON: give values and tables; text is only for what is no data */
    int width;      /* columns; 0: unlimited, as in a pipe */
    int colour;     /* escape sequences for colours are welcome */
    int live;       /* a terminal: a line can be redrawn */
    int unicode;    /* blocks and Greek letters can be shown */
    int rich;       /* a notebook: HTML and pictures are shown, and displays can be updated */
    int pixels;     /* its width; 0: unknown */
} dlsh_look;

typedef struct dlsh_sink dlsh_sink;
typedef struct dlsh_sink_ops {
    void (*text)(dlsh_sink *s, const char *bytes, size_t n);     /* what print and reports write */
    void (*complain)(dlsh_sink *s, const char *bytes, size_t n); /* text for standard error; may be NULL: as text */
    dl_status (*value)(dlsh_sink *s, dlsh_value v);              /* the value of an expression statement */
    dl_status (*table)(dlsh_sink *s, const dlsh_table *t);
    void (*error)(dlsh_sink *s, const dlsh_diag *d);
    void (*progress)(dlsh_sink *s, const dlsh_progress *p);   /* may be NULL */
    dl_status (*plot)(dlsh_sink *s, const dlsh_plot *p);      /* may be NULL: plots are refused */
    dl_status (*display)(dlsh_sink *s, const dlsh_bundle *b); /* may be NULL: its text is shown */
    void (*clear)(dlsh_sink *s, int wait);                    /* may be NULL: nothing can be cleared */
    void (*page)(dlsh_sink *s, const char *text, size_t n);   /* a manual page; may be NULL: shown as text */
    /* Asks the user for a line; appends it without its newline. May be NULL: nobody can be asked. */
    dl_status (*input)(dlsh_sink *s, const char *prompt, int secret, dlsh_buf *out);
    void (*flush)(dlsh_sink *s);
    void (*look)(dlsh_sink *s, dlsh_look *out); /* may be NULL: plain text of unlimited width */
    int (*pictures)(dlsh_sink *s);              /* does a terminal show the PNG of bundles? may be NULL: not */
} dlsh_sink_ops;

/* A sink begins with its operations; its maker puts its state after them. */
struct dlsh_sink {
    const dlsh_sink_ops *ops;
};

/* printf into the text of a sink. What would steer a terminal is written out (dlsh_buf_visible); colours go by values,
 * tables and bundles. */
void dlsh_put(dlsh_sink *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Shows and clears a table, unless building it failed with `st`, and returns the first failure. Where there are no rows
 * and people read, `empty` stands for it, if that is not NULL. */
dl_status dlsh_table_show(dlsh_sink *s, dlsh_table *t, dl_status st, const char *empty);
/* Shows a bundle (borrowed); its text where the sink shows no others. */
dl_status dlsh_display(dlsh_sink *s, const dlsh_bundle *b);
/* A number for a display that is to be updated; never the same twice in a process. */
long dlsh_display_id(void);
/* Text for standard error. */
void dlsh_complain(dlsh_sink *s, const char *bytes, size_t n);
/* Takes away what was shown: by the cell so far, or the screen. wait: when the next thing is shown, against flicker. */
void dlsh_clear(dlsh_sink *s, int wait);
/* Shows a page of the manual: in the pager of a notebook, elsewhere as text. */
void dlsh_page(dlsh_sink *s, const char *text, size_t n);
/* Asks for a line of text; DL_ERR_UNSUPPORTED where nobody can be asked, DL_ERR_IO at the end of input. */
dl_status dlsh_input(dlsh_sink *s, const char *prompt, int secret, dlsh_buf *out);
/* How it shows things now; asked again each time, because windows change their size. */
dlsh_look dlsh_sink_look(dlsh_sink *s);
/* Does it show the PNG of bundles? A terminal may be asked, which can take a moment: not a matter of the look. */
int dlsh_sink_pictures(dlsh_sink *s);
