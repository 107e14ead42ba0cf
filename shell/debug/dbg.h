/* The debugger that runs: its state, and what its files share. */
#pragma once

#include "debug/walk.h"
#include "lang/command.h"
#include "view/table.h"

enum { DLSH_DBG_POINTS = 32, DLSH_DBG_TEXT = 200, DLSH_DBG_PATH = 256 };

typedef enum dlsh_point_kind {
    DLSH_AT_CONDITION,
    DLSH_AT_OP,
    DLSH_AT_LINE,
    DLSH_AT_LAYER,
    DLSH_AT_NODE,
    DLSH_AT_CHANGE,
} dlsh_point_kind;

/* A breakpoint or a watch. */
typedef struct dlsh_point {
    dlsh_point_kind kind;
    char text[DLSH_DBG_TEXT]; /* of the condition, op, layer or watched expression */
    char file[DLSH_DBG_TEXT]; /* AT_LINE: the end of the file's name; "" any */
    char when[16];            /* AT_CHANGE: change, nan, inf, zero */
    long line, ignore, hits;  /* line: AT_NODE: the number of the node, from 1 */
    int number, everywhere; /* everywhere: the condition names the node, so each place counts, not the first of a row */
    int training;           /* of a training (training.h) */
} dlsh_point;

/* There is one at a time. */
typedef struct dlsh_debugger {
    int active, quit, stepped; /* stepped: by a client of debug/stepper.h */
    dlsh_nodewalk walk;
    dlsh_point points[DLSH_DBG_POINTS];
    char shown[DLSH_DBG_POINTS][DLSH_DBG_TEXT];
    int npoints, nshown;
    char inside[DLSH_DBG_PATH]; /* path of the layer in which `next` takes parts one by one; "" the outermost */
    int *former;                /* places that next and step left, for back */
    int nformer, formercap;
    dl_trainer *trainer;
    int begun;        /* a step of the trainer that is not updated yet */
    long steps;       /* of the trainer, still to come */
    dl_source source; /* of the dbg statement */
} dlsh_debugger;

extern dlsh_debugger dlsh_dbg;

/* Walks over the nodes of a loss; commands come from a client or the prompt (dbg.c). */
dl_status dlsh_dbg_walk(dlsh_session *s, dl_tensor *loss);

/* ---- layers and composite ops (dbg.c, dbg_parts.c) */
/* How many nodes of the pass the composite op has that a place is a part of, 1: it is of none; *first: its first place.
 */
int dlsh_dbg_parts(int place, int *first);
/* Is the place the first of several of a composite op? */
int dlsh_dbg_begins(int place);
/* Is the place the first of a composite op that `step` has not led into? Then the op is shown as one node. */
int dlsh_dbg_closed(int place);
/* The composite op that begins at a place, as one node. */
dl_status dlsh_dbg_show_composite(dlsh_session *s, struct dlsh_sink *sink);

/* ---- showing (dbg_show.c) */
/* A row of the table of a node: figures of a tensor; NULL: it was not kept. */
dl_status dlsh_dbg_put_tensor(dlsh_table *t, const char *key, dl_tensor *x);
dl_status dlsh_dbg_show(dlsh_session *s, struct dlsh_sink *sink);
dl_status dlsh_dbg_list(struct dlsh_sink *sink, int near);
/* "FILE:LINE", and the text of the line where the file is a text that runs. */
dlsh_value dlsh_dbg_line(dlsh_session *s, const char *file, int line);

/* ---- values at the place (dbg_points.c) */
/* A variable of the function in which the debugger's words stand, and that function; the value is borrowed. */
int dlsh_dbg_own_variable(const dlsh_session *s, const char *name, dlsh_value *v, dlsh_running *of);
/* With `quiet` an expression that fails is VOID. */
dl_status dlsh_dbg_value(dlsh_session *s, const char *text, int quiet, dlsh_value *v);
int dlsh_dbg_is_true(dlsh_session *s, const char *text);
/* Begins to note which conditions are asked; says which of them failed wherever they were. */
void dlsh_dbg_ask_anew(void);
void dlsh_dbg_tell_unknown(struct dlsh_sink *sink);
/* The names of layers that `dlsh_dbg_value` bound are free again. */
void dlsh_dbg_unbind(dlsh_session *s);
/* Do breakpoints or watches stop here? Says which. */
int dlsh_dbg_stops(dlsh_session *s, struct dlsh_sink *sink);
/* Appends the numbers of the breakpoints of the place, which is a node; those of conditions and watches have none. */
void dlsh_dbg_marks(int place, dlsh_buf *out);

/* m.*.grad: the net's name, and the pattern of paths; 0: the text is not a pattern. */
int dlsh_dbg_pattern(const char *text, char net[DLSH_DBG_TEXT], char paths[DLSH_DBG_TEXT]);

dl_status dlsh_dbg_break(const dlsh_args *a);
dl_status dlsh_dbg_watch(const dlsh_args *a);
dl_status dlsh_dbg_delete(const dlsh_args *a);

dl_status dlsh_dbg_need(const dlsh_args *a);

/* ---- stopping at errors (at_error.c) */
/* mode: "" those that no try takes, "all", "off". */
dl_status dlsh_at_error_break(const dlsh_args *a, const char *mode);
/* "uncaught", "all"; NULL: off. */
const char *dlsh_at_error_mode(void);
/* Does the session stand still at an error? Then continue, quit and where are about it. */
int dlsh_at_error_stands(void);
/* The frame that is looked at there; 0 elsewhere. */
int dlsh_at_error_frame(const dlsh_session *s);
dl_status dlsh_at_error_go_on(void);
dl_status dlsh_at_error_where(void);
dl_status dlsh_at_error_up(const dlsh_args *a);
dl_status dlsh_at_error_down(const dlsh_args *a);
dl_status dlsh_at_error_variables(const dlsh_args *a);
