/* Calls C in a helper process, so that this one cannot be damaged. The helper is a new process of this program; it gets
 * the loaded blocks or the library, the arguments, and the tensors in shared memory, makes the one call and ends. */
#pragma once

#include "ffi/ffi.h"

/* Calls f there. Tensors that C wrote to are written here, too. DL_ERR_CRASH: the helper died; DL_ERR_TYPE: a value
 * that cannot go to another process. */
dl_status dlsh_isolate(dlsh_session *s, dlsh_cfunc *f, const dlsh_callargs *args, dlsh_value *out);
/* The helper's side: when the environment says that this process is one, makes the call and gives its exit status,
 * else -1. `s` is a fresh session. */
int dlsh_isolate_serve(dlsh_session *s);
/* Is this process to be a helper? */
int dlsh_isolate_asked(void);
