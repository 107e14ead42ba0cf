/* Standard output and standard error of the process as pipes, so that what C code and child processes print comes to
 * the notebook. What the session prints goes the same way, so all of it is in order. Between stdout and stderr the
 * order is kept of what goes through stdio; what is written to the descriptors themselves comes as it is found. */
#pragma once

#include <sys/types.h>

enum { JUP_STDOUT, JUP_STDERR, JUP_STREAMS };

/* Puts the pipes in place; standard input becomes empty. Returns 0 after a message to standard error. */
int jup_stdio_capture(void);
/* Gives the process its own streams back. */
void jup_stdio_release(void);
/* The end of a pipe to be read, non-blocking. */
int jup_stdio_fd(int stream);
/* Columns of the terminal that shows the log, which is that of a client there; 0 when it is none. */
int jup_stdio_width(void);
/* Everything printed so far is in the pipes. */
void jup_stdio_flush(void);
/* While a cell runs, what stands in the buffer of stdout is moved on every tenth of a second. */
void jup_stdio_watch(int running);
/* A line to the server's log: the standard error the process came with. */
void jup_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
