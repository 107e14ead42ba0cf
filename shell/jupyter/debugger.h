/* The debug adapter: what its two files share. */
#pragma once

#include "jupyter/kernel.h"

/* The body of an answer, NULL after jup_debug_fail. */
typedef json_t *jup_debug_answer(const json_t *arguments);
json_t *jup_debug_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The file as which clients know a text of the session; "" none. */
const char *jup_debug_path(const char *unit);
/* Does the session stand still? Of the session's thread. */
int jup_debug_stopped(void);

/* ---- answers about values (jupyter/debug_values.c), of the session's thread */
jup_debug_answer jup_debug_stack, jup_debug_scopes, jup_debug_variables, jup_debug_evaluate, jup_debug_globals,
    jup_debug_rich, jup_debug_copy;
/* The numbers that stood for values mean nothing any more. */
void jup_debug_forget(void);
