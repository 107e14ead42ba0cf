/* The thread that owns the kernel's sockets. Requests of the shell channel wait in a queue for the session's thread;
 * control, heartbeat and subscriptions are answered here, also while a cell runs. What the session sends is posted to a
 * second queue and leaves in that order, together with what the process prints. */
#pragma once

#include "jupyter/wire.h"

/* Binds the sockets and starts the thread. Returns 0 after a message to standard error. */
int jup_io_start(const jup_connection *c);
/* Sends what is still there (a second at most) and ends the thread. */
void jup_io_stop(void);

/* The next request for the session's thread, owned; NULL: the kernel shall end. */
jup_request *jup_next(void);
/* The next debug_request for a session that stands still, owned; NULL: it shall go on. */
jup_request *jup_next_debug(void);
/* Marks the waiting execute requests as aborted: an earlier cell failed. */
void jup_abort_waiting(void);
/* Asks the kernel to end: for the session's thread and for signal handlers. */
void jup_end(void);

/* ---- to be called from the session's thread */

/* Posts a message; takes content and metadata (NULL: {}). On JUP_SHELL and JUP_STDIN it goes to whom the request came
 * from. */
void jup_post(int channel, jup_request *parent, const char *type, json_t *content, json_t *metadata);
/* From now on output of the process belongs to this request; silent: it is dropped. */
void jup_post_parent(jup_request *parent, int silent);
/* Waits until everything printed so far has become messages: to be called before a message that must stand after it.
 */
void jup_sync(void);
/* The same for what has left the buffers of stdio; any thread. */
void jup_drain(void);
/* The answer to an input_request of this request; NULL when interrupted or ending. Owned. */
jup_request *jup_input_reply(void);
/* Drops an answer to an earlier question. */
void jup_input_forget(void);

/* The ports of the connection file, as connect_request has them. */
json_t *jup_ports(jup_request *r);
/* The id of the kernel's session, for names of displays. */
const char *jup_session_id(void);
