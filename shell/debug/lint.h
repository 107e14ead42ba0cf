/* Mistakes of training that the text alone shows. */
#ifndef DLSH_DEBUG_LINT_H
#define DLSH_DEBUG_LINT_H

#include "lang/session.h"

/* Warns at their places; the text is about to run. */
void dlsh_lint(dlsh_session *s, const dlsh_unit *unit);

#endif
