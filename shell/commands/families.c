/* The command families of a session. */
#include "commands/families.h"

dl_status dlsh_add_families(dlsh_session *s) {
    static const dlsh_command *const families[] = {
#define FAMILY(name) name##_commands,
#include "commands/families.def"
#undef FAMILY
    };
    for (size_t i = 0; i < DLSH_COUNT(families); i++) DLSH_TRY(dlsh_add_commands(s, families[i]));
    return DL_OK;
}
