/* The code of a run as files, running it again, going on with it: history/restore.c, history/rerun.c,
 * history/take_up.c. */
#pragma once

#include "commands/history/history.h"

/* Makes the folders on the way to a file. */
dl_status dlsh_make_folders(const char *path);
/* Writes the script and the files that it read. A file P of the run goes to root + P without `prefix`; P is absolute,
 * and files that are not below the prefix are left out. The script's path is added to `script` (NULL: not wanted). */
dl_status dlsh_restore_texts(dl_store *store, const dl_run_info *r, const char *root, const char *prefix,
                             dlsh_buf *script);
/* Warns of each of these files that is another one now, or gone. */
dl_status dlsh_warn_of_changes(const dlsh_args *a, dl_store *store, const dl_run_info *r);
/* Runs a program and waits for it; *code is its exit status, 128 + N for signal N. Its folder is `folder`. */
dl_status dlsh_run_program(const char *path, char *const *argv, const char *folder, int *code);
/* What `run diff` prints of two runs; with `again` without commit and path of the script, as the second ran in a folder
 * of its own. */
dl_status dlsh_diff_show(const dlsh_args *a, dl_store *store, long before, long after, int again);

/* The variable by which `run resume` tells a process to go on with a run: how many runs of its own the process begins
 * before it, the newest run there was, the run, the step of the checkpoint of a loop written by hand (-1: it is a
 * trainer's), and the checkpoint, with colons between them. */
#define DLSH_RESUME "DLSH_RESUME"
/* The kind of the event that tells the first of these of a run that went on in another process. */
#define DLSH_PLACE "place"
/* The kind of the event that tells the arguments of the script, where a run went on with others than before. */
#define DLSH_ARGUMENTS "arguments"
/* The arguments of the script of a run, as they were last. */
const char *dlsh_arguments_of(const dl_run_info *r);
/* The name of the artifacts that are checkpoints of loops written by hand. */
#define DLSH_BY_HAND "state"
/* The checkpoint from which a loop written by hand is to go on; NULL: none. */
const char *dlsh_resumed(void);
/* For a run of such a loop that is about to begin: the run that goes on instead; NULL: none, or failed. *step is the
 * last that it had logged before the checkpoint. */
dl_status dlsh_take_up_run(const dlsh_args *a, dl_store *store, dl_run **run, long *step);
/* Saves a record; where the run of a loop written by hand is at work, a state to go on from is noted in it (record.c).
 */
dl_status dlsh_save_state(dlsh_record *state, const char *path);
/* A number from the store. */
dl_status dlsh_ask(dl_store *store, const char *sql, long *out);
/* Before a trainer trains, for so many epochs or steps: in a process that is to go on with a run, the trainer of that
 * run takes up its checkpoint, and epochs and steps become what is left of those since its beginning; both 0: nothing.
 */
dl_status dlsh_take_up(const dlsh_args *a, dl_trainer *t, long *epochs, long *steps);

dl_status dlsh_rerun_run(const dlsh_args *a, dlsh_value *result);
dl_status dlsh_resume_run(const dlsh_args *a, dlsh_value *result);
dl_status dlsh_restore_code_run(const dlsh_args *a);
