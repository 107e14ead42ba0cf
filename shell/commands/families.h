/* The tables of the command families, declared from their list. */
#ifndef DLSH_COMMANDS_FAMILIES_H
#define DLSH_COMMANDS_FAMILIES_H

#include "lang/command.h"

#define FAMILY(name) extern const dlsh_command name##_commands[];
#include "commands/families.def"
#undef FAMILY

#endif
