/* JSON values that a block owns: DLSH_ENDED(json_decref) json_t *j = ... */
#pragma once

#include <jansson.h>

#include "lang/value.h"

DLSH_ENDS(json_decref, json_t)
