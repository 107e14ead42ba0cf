/* Failures of the system about a file. */
#pragma once

#include "core/error.h"

/* Records "cannot WHAT 'PATH': ..." by errno, with the remedy that dl_file_remedy knows. */
dl_status dl_fail_file(const char *what, const char *path);
