/* What the commands of one process share: the experiment store, the script that runs, the device for new objects, the
 * settings. The front fills it in from the command line. */
#pragma once

#include <stdio.h>

#include "lang/session.h"

/* ---------------------------------------------------------------- the experiment store (context.c) */

/* The store that runs are recorded in and read from, opened on first use; borrowed. The file is the one chosen, else
 * DLSH_DB, else experiments.db in the current folder. Its warnings go to the session's sink (s may be NULL: they stay
 * unread). NULL, error recorded, when it cannot be opened. */
dl_store *dlsh_store(dlsh_session *s);
/* Chooses the file, "none" for a store that keeps nothing; closes the one open before. A trainer goes
 * on recording where it began. */
dl_status dlsh_store_choose(const char *path);
/* The file as chosen, whether open or not. */
const char *dlsh_store_file(void);
/* The same as it may be shown, without a password; static. */
const char *dlsh_store_shown(void);
/* Is there a store? Asking for one must not make it. */
int dlsh_store_there(void);
/* Shows warnings the store has meanwhile; the front calls it after each statement. */
void dlsh_store_warnings(dlsh_session *s);
/* Who is told that a call waits for another process; NULL: the console. */
void dlsh_store_told_to(dlsh_session *s);
/* Commits and closes, if it was opened; after the session is gone, so that trainers could end their runs. */
dl_status dlsh_store_close(void);

/* The error that ends the session, for runs that are still open; NULL when it ends well. The front sets it before
 * it drops the variables. */
const char *dlsh_ended_by(void);
/* Copies the text; NULL: none. */
void dlsh_end_by(const char *error);

/* The folder in which TensorBoard follows runs that begin from now on; "none": none. Copies. */
const char *dlsh_tensorboard(void);
dl_status dlsh_tensorboard_choose(const char *folder);

/* ---------------------------------------------------------------- what is recorded about the script */

/* Text is "" where there is none (at the prompt). */
typedef struct dlsh_origin {
    const char *path; /* of the script */
    const char *text;
    const char *args; /* "epochs=5 seed=0" */
} dlsh_origin;
const dlsh_origin *dlsh_origin_get(void);
/* Copies. NULLs count as "". */
dl_status dlsh_origin_set(const dlsh_origin *o);

/* Options of every row that begins a run, beside its name. */
#define DLSH_RUN_OPTIONS                                                                                               \
    {"experiment", DLSH_OPT_STRING, NULL, "experiment the run belongs to", NULL, NULL},                                \
        {"group", DLSH_OPT_STRING, NULL, "group of runs within it", NULL, NULL},                                       \
        {"parent", DLSH_OPT_VALUE,   NULL, "run that it is a part of: a run, a trainer or a number",                   \
         NULL,     "run|trainer|int"},                                                                                 \
        {"note", DLSH_OPT_STRING, NULL, "a note kept with the run", NULL, NULL}, {                                     \
        "tensorboard", DLSH_OPT_STRING, NULL, "a folder in which TensorBoard follows the run; else set tensorboard",   \
            NULL, NULL                                                                                                 \
    }
/* The description of a run from these options and the script (record.c). Borrowed. */
dl_run_spec dlsh_run_spec(const dlsh_args *a);

/* name=value words after the script's name, for `args`. Borrowed; n may be 0. */
typedef struct dlsh_script_args {
    int n;
    char *const *words;
    int list;      /* --help: `args` prints its table and the script ends */
    int seen;      /* the script had an `args` statement */
    int wrong;     /* `args` refused the words given: wrong usage, not an error of the script */
    char **values; /* what `args` declared: name, value as text, ..., NULL; NULL: nothing */
} dlsh_script_args;
dlsh_script_args *dlsh_script_args_get(void);

/* The text of the script that a parameter names; its failure stands there. */
dl_status dlsh_script_text(const dlsh_args *a, const char *param, dlsh_buf *out);
/* Opens a script. One that `run rerun` or `run resume` runs again is taken, like what it reads, from below the folder
 * $DLSH_RERUN_ROOT, where it is as it was then. NULL: as fopen. */
FILE *dlsh_script_open(const char *path);

/* ---------------------------------------------------------------- files of the user (state.c) */

/* The path of a file that outlives sessions, for this user: $XDG_STATE_HOME/dlsh/NAME, ~/.local/state/dlsh/NAME where
 * that folder is in use, else ~/.dlsh_NAME; its folder is made. NULL: there is no place. To be freed. */
char *dlsh_state_file(const char *name);

/* ---------------------------------------------------------------- device */

/* Chooses the default device by name: `device`, --device. DL_ERR_DEVICE names the valid ones. */
dl_status dlsh_device_choose(const char *name);
