/* Where the way between a loss and a parameter ends. */
#pragma once

#include "lang/session.h"

typedef struct dlsh_place {
    const char *op, *file; /* op: "" where it is not known; file NULL: nothing was found */
    int line;
} dlsh_place;

/* The op that passed nothing on towards a parameter, in a pass that the journal has. */
dlsh_place dlsh_path_blocked(dlsh_session *s, const dl_tensor *x);
/* The line that cuts the history of the last loss off, as the text has it. */
dlsh_place dlsh_path_cut(dlsh_session *s);
