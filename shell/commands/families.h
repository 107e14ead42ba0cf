/* The tables of the command families, declared from their list. */
#pragma once

#include "lang/command.h"
#include "lang/session.h"

#define FAMILY(name) extern const dlsh_command name##_commands[];
#define FAMILY_MADE(name) extern dlsh_command name##_commands[];
#include "commands/families.def"
#undef FAMILY

/* Adds them all to a session. */
dl_status dlsh_add_families(dlsh_session *s);

/* The classes of handles that help and the manual describe; ends with NULL (help.c). */
extern const dlsh_class *const dlsh_types[];
extern const dlsh_class dlsh_hook_class;   /* debug/hooks.c */
extern const dlsh_class dlsh_custom_class; /* commands/custom.c */

/* A call of an autograd_function whose history is alive, by the number that its parts have on the tape. */
typedef struct dlsh_custom_call {
    int nargs, differentiated[8]; /* how many arguments; those of them that need a gradient, in their order */
    int n;                        /* so many of these */
    const dlsh_value *args;       /* borrowed; VOID: one that needs a gradient */
} dlsh_custom_call;
/* False: there is none. */
int dlsh_custom_call_of(unsigned long number, dlsh_custom_call *out);
/* The same function with these arguments. */
dl_status dlsh_custom_again(unsigned long number, const dlsh_callargs *args, dlsh_value *out);
