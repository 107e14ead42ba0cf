/* The tables of the command families, declared from their list. */
#ifndef DLSH_COMMANDS_FAMILIES_H
#define DLSH_COMMANDS_FAMILIES_H

#include "lang/command.h"
#include "lang/value.h"

#define FAMILY(name) extern const dlsh_command name##_commands[];
#define FAMILY_MADE(name) extern dlsh_command name##_commands[];
#include "commands/families.def"
#undef FAMILY

/* The kinds of handles that have fields and methods to be told of; ends with NULL (help.c). */
extern const dlsh_class *const dlsh_types[];

#endif
