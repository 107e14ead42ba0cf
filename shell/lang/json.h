/* JSON values that a block owns: DLSH_ENDED(json_decref) json_t *j = ... */
#ifndef DLSH_LANG_JSON_H
#define DLSH_LANG_JSON_H

#include <jansson.h>

#include "lang/value.h"

DLSH_ENDS(json_decref, json_t)

#endif
