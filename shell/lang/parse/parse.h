/* Text to tree. */
#pragma once

#include "lang/command.h"

/* A syntax error with its place. at_end: the text ended too early; with more text it may be right. */
typedef struct dlsh_syntax_error {
    dl_status code; /* DL_ERR_SYNTAX, or DL_ERR_MEMORY; DL_OK: none */
    dlsh_span span;
    int at_end;
    char message[256];
    char hint[256];
    const char *command; /* a word, of the unit, where a command may stand, but which is none; NULL */
} dlsh_syntax_error;

/* Parses the unit's text into unit->root. `find` tells the commands; with NULL there are none. Returns err->code. */
dl_status dlsh_parse(dlsh_unit *unit, dlsh_command_lookup *find, void *ctx, dlsh_syntax_error *err);

/* The lookup of a session's commands that start statements; its context is the session. */
dlsh_command_lookup *dlsh_command_finder(void);
