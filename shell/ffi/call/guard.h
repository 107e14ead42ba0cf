/* Calls of foreign C that may crash or never return. A signal such as SIGSEGV, or Ctrl-C, inside a guarded call ends
 * the call and becomes an error that names function and source line. What the call had half done stays half done, so
 * from then on the session counts as damaged. */
#pragma once

#include "ffi/ffi.h"

/* Runs fn(arg). `name` is the C function that is called, for messages. DL_ERR_CRASH or DL_ERR_INTERRUPT recorded when
 * it did not return, or when a thread that C has started crashed meanwhile: that thread is stopped for good. Nothing
 * that the call allocated is released then. Any thread. */
dl_status dlsh_guard_run(const char *name, void (*fn)(void *), void *arg);

/* The same for a call of f, and for loading a library, whose constructors run then. */
dl_status dlsh_guard_call(const dlsh_cfunc *f, void (*fn)(void *), void *arg);
dl_status dlsh_guard_load(const char *what, void (*fn)(void *), void *arg);

/* Around the language's part of a callback, where signals are not C's. Calls nest. */
void dlsh_guard_leave(void);
void dlsh_guard_enter(void);

/* Has a thread that C once started crashed since, while no call was under way? DL_ERR_CRASH recorded, once. */
dl_status dlsh_guard_check(void);

/* The C function that runs, by the name it was called with; NULL when none does. Also in signal handlers. */
const char *dlsh_guard_running(void);

/* How often a guarded call did not return; the last failure's one line. */
int dlsh_damaged(const char **what);

/* ---- within (crash.c) */

enum { DLSH_CRASH_FRAMES = 32 };
typedef struct dlsh_crash {
    int signal, code;
    int thread;    /* its number, when it is none of the shell's; else 0 */
    void *address; /* that was accessed */
    void *pc, *sp;
    void *frames[DLSH_CRASH_FRAMES]; /* return addresses, the innermost first; [0] is pc */
    int n;
} dlsh_crash;
/* Records what happened, with places as far as they can be found. */
dl_status dlsh_crash_tell(const dlsh_crash *c, const char *name, char *line, int size);
