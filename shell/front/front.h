/* The front ends of a session: scripts, the prompt, and notebooks. */
#pragma once

#include "front/options.h"
#include "lang/session.h"

enum dlsh_exit { DLSH_EXIT_OK = 0, DLSH_EXIT_ERROR = 1, DLSH_EXIT_USAGE = 2, DLSH_EXIT_INTERRUPTED = 130 };

/* Everything main() does; returns the exit status. */
int dlsh_main(int argc, char **argv);

/* Runs the code, the script or standard input; returns the exit status. */
int dlsh_batch(dlsh_session *s, const dlsh_options *o);
/* Reads a whole file, "-" for standard input; NULL after a message to standard error. To be freed. */
char *dlsh_slurp(const char *path, size_t *len);
/* Runs a text and reports its failure; returns the exit status. */
int dlsh_run_text(dlsh_session *s, const char *name, const char *text, size_t len);

/* The prompt, until end of input or quit; returns the exit status. */
int dlsh_repl(dlsh_session *s, const dlsh_options *o);
/* Installs completion of names, options and files into readline. `entry` (borrowed): the lines before the one edited.
 */
void dlsh_complete_setup(dlsh_session *s, const dlsh_buf *entry);
/* What may stand at the end of text[0, len): options with a `=` after them, then names, a `(` after functions; each
 * sorted. Returns how many; they replace the text from *start on and are valid until the next call. */
int dlsh_complete(dlsh_session *s, const char *text, size_t len, size_t *start, char *const **names);
/* The value of the chain of names (x, m.conv0.weight) that ends at text + len. Returns 0 when there is none; *out is
 * owned. */
int dlsh_chain_value(dlsh_session *s, const char *text, size_t len, dlsh_value *out);

/* `dlsh kernel ...` apart from running one: install, help. Returns the exit status, or -1 when *connection_file shall
 * be served. */
int dlsh_kernel_command(const dlsh_options *o, const char **connection_file);
/* The kernel's handlers of signals, instead of dlsh_signals_setup; before anything runs. */
void dlsh_kernel_signals(void);
/* Lets interrupts reach the statements of a session that is to serve notebooks. */
void dlsh_kernel_serve(dlsh_services *to);
/* Serves notebooks until they ask for the end or the launcher is gone; returns the exit status. */
int dlsh_kernel_run(dlsh_session *s, const char *connection_file);

/* A session is one process. When a launcher such as mpirun started several, all but rank 0 are to stop here: a message
 * is written to standard error and the exit status returned; -1: continue. The status is 0, because launchers end all
 * processes, rank 0 among them, when one reports a failure. DLSH_RANKS=independent lets every rank continue. */
int dlsh_launch_stops(void);

/* Forgets presses of Ctrl-C; to be called before a text runs. */
void dlsh_signals_reset(void);
/* Whether Ctrl-C was pressed since. */
int dlsh_signals_pressed(void);
