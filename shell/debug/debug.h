/* The debugger of autograd: what its files share. */
#ifndef DLSH_DEBUG_DEBUG_H
#define DLSH_DEBUG_DEBUG_H

#include "lang/session.h"

/* The session is told of each NaN that its statements make. */
void dlsh_debug_serve(dlsh_session *s);

/* `why nan`: the call that first made one, and what holds one now. */
dl_status dlsh_why_nan(const dlsh_args *a);

#endif
