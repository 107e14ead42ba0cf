/* The debugger of statements: breakpoints at lines, steps, a pause. A client that shows files drives it, perhaps from
 * another thread; while the session stands still the client's function runs in the session's thread. */
#pragma once

#include "lang/session.h"

/* How the session goes on. */
typedef enum dlsh_step {
    DLSH_STEP_RUN,     /* to the next breakpoint */
    DLSH_STEP_INTO,    /* to the next statement; of `backward` into its nodes */
    DLSH_STEP_OVER,    /* to the next one outside of functions that this one calls */
    DLSH_STEP_OUT,     /* out of the function, or the layer */
    DLSH_STEP_BACK,    /* a node back */
    DLSH_STEP_REVERSE, /* back to a breakpoint, or the first node */
} dlsh_step;

typedef struct dlsh_stepper_client {
    /* The file as which the client knows a text of the session; "" when it does not: it is passed over. Borrowed until
     * the next statement. */
    const char *(*path)(const char *unit);
    /* The session stands still: why is "breakpoint", "step", "pause" or "exception", then after a statement that
     * failed, whose error dlsh_stepper_error is. */
    dlsh_step (*stopped)(dlsh_session *s, const char *why);
} dlsh_stepper_client;

void dlsh_stepper_services(dlsh_services *to);

/* ---- from any thread */
/* A client attaches, or NULL: it leaves, and the session runs on. */
void dlsh_stepper_attach(dlsh_session *s, const dlsh_stepper_client *client);
/* The client; NULL: there is none. */
const dlsh_stepper_client *dlsh_stepper_attached(void);
/* The breakpoints of a file are these; conditions may be NULL. */
dl_status dlsh_stepper_break(const char *path, int n, const int *lines, const char *const *conditions);
/* Calls fn for each breakpoint; it must not call these functions. */
void dlsh_stepper_each(void (*fn)(const char *path, int line, void *to), void *to);
/* Stops after statements that fail: all of them, or those within no `try`. */
void dlsh_stepper_exceptions(int all, int uncaught);
/* Stops before the next statement. */
void dlsh_stepper_pause(void);

/* ---- of the session's thread */
/* The error at which the session stands still; NULL: it does not, or for another reason. */
const dl_error *dlsh_stepper_error(void);
/* Has the client stepped into what runs now? */
int dlsh_stepper_into(void);
/* Stops at a node of a walk: the client's next command, a word of `dbg`. */
const char *dlsh_stepper_word(dlsh_session *s);
