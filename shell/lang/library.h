/* Libraries that few programs need. They are loaded by what needs them first, because they bring others with them that
 * would make every start slower. */
#pragma once

#include "dlcore.h"

/* Of a list CALLS(X) of functions: members of a struct that point to them, and their names. */
#define DLSH_LIBRARY_MEMBER(name) __typeof__(name) *name;
#define DLSH_LIBRARY_NAME(name) #name,

/* Loads a library ("libsixel.so.1") and looks up the functions of these names, which end with NULL, into `into`, which
 * is of as many pointers. DL_ERR_UNSUPPORTED: "NEEDS libsixel.so.1: ...", with the hint. */
dl_status dlsh_library_open(const char *library, const char *needs, const char *hint, const char *const *names,
                            void **into);
