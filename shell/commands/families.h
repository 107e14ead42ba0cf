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
