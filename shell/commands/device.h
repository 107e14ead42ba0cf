/* `show devices` and `show memory`. */
#ifndef DLSH_COMMANDS_DEVICE_H
#define DLSH_COMMANDS_DEVICE_H

#include "commands/context.h"

dl_status dlsh_show_devices(dlsh_session *s, dlsh_sink *sink);
dl_status dlsh_show_memory(dlsh_session *s, dlsh_sink *sink);

#endif
