/* Failures of the system about a file. */
#ifndef DL_IO_NEAR_H
#define DL_IO_NEAR_H

#include "core/error.h"

/* Records "cannot WHAT 'PATH': ..." by errno, with the remedy that dl_file_remedy knows. */
dl_status dl_fail_file(const char *what, const char *path);

#endif
