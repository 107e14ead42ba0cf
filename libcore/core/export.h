/* Included before every source file of libdlcore, which is compiled with hidden visibility: what the public header
 * declares, and nothing else, is exported. This keeps dlcore.h free of macros. */
#pragma once

#pragma GCC visibility push(default)
#include "dlcore.h"
#pragma GCC visibility pop
