/* libzmq, loaded when a kernel starts: it and the libraries it brings would double the start of every script. */
#pragma once

#include <zmq.h>

#define JUP_ZMQ(X)                                                                                                     \
    X(ctx_new)                                                                                                         \
    X(ctx_term)                                                                                                        \
    X(socket)                                                                                                          \
    X(close)                                                                                                           \
    X(setsockopt)                                                                                                      \
    X(bind) X(msg_init) X(msg_recv) X(msg_data) X(msg_size) X(msg_more) X(msg_close) X(send) X(poll) X(strerror)

#define JUP_ZMQ_FIELD(name) __typeof__(zmq_##name) *name;
typedef struct jup_zmq {
    JUP_ZMQ(JUP_ZMQ_FIELD)
} jup_zmq;
#undef JUP_ZMQ_FIELD

/* The functions; NULL after a message to standard error when the library is not there. */
const jup_zmq *jup_zmq_load(void);
