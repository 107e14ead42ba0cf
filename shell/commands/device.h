/* `show devices` and `show memory`. */
#pragma once

#include "commands/context.h"

dl_status dlsh_show_devices(dlsh_session *s, dlsh_sink *sink);
dl_status dlsh_show_memory(dlsh_session *s, dlsh_sink *sink);
