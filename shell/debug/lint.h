/* Mistakes of training that the text alone shows. */
#pragma once

#include "lang/session.h"

/* Warns at their places; the text is about to run. */
void dlsh_lint(dlsh_session *s, const dlsh_unit *unit);
