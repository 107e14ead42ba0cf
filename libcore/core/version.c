/* The version of the library, as the build knows it. */
#include "dlcore.h"

const char *dl_version(void) { return DL_VERSION; }
