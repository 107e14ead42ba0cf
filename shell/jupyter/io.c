/* The thread of the sockets: queues in both directions, streams, control, heartbeat, subscriptions. */
#include "jupyter/io.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "jupyter/kernel.h"
#include "jupyter/stdio.h"
#include "jupyter/zmq.h"
#include "lang/value.h"
#include "view/console.h"

enum {
    MAX_MESSAGE = 64 << 20, /* bytes of a frame; who sends more is disconnected */
    MAX_FRAMES = 1024,
    MAX_WAITING = 10000, /* messages queued for a slow subscriber before the kernel waits for it */
    MORE_WAITING = 100,  /* by which this limit is raised when the subscriber reads nothing */
    CHUNK = 64 << 10,    /* bytes of a stream in one message */
    LINGER = 1000,       /* ms for the last messages when the kernel ends */
};
#define GATHER 0.03      /* seconds for which short pieces of a stream are collected */
#define GRACE 3.0        /* seconds that a running cell has to end when the kernel ends */
#define PARENT_CHECK 1.0 /* seconds between two looks at the launcher's process */
#define STALLED 0.1      /* seconds for which the kernel waits for a slow subscriber */
#define MAX_GRANTED 1e9  /* bytes by which the queue of a subscriber may grow while a cell runs */

/* An entry of the queue: a message, or what is to be done between messages. */
typedef struct out {
    struct out *next;
    enum { MESSAGE, PARENT, SYNC, STOP } kind;
    int channel, silent;
    jup_request *request;
    const char *type;
    jup_frame content, metadata;
} out;

static struct {
    const jup_zmq *zmq;
    jup_connection connection;
    void *context, *socket[JUP_CHANNELS];
    jup_signer *signer;
    jup_writer writer;
    pthread_t thread;
    int wake; /* eventfd */

    pthread_mutex_t lock; /* of what follows up to the gap */
    pthread_cond_t change;
    out *first, **last;
    jup_request *waiting, **newest, *answer;
    long sync_posted, sync_reached; /* SYNC entries of the queue */
    int ending;                     /* atomic */

    /* of the thread alone */
    jup_request *parent;                       /* of the streams */
    int silent, blocked, stopping, high_water; /* high_water: messages queued for one subscriber at most */
    double blocked_since, granted;
    size_t blocked_size;    /* of the message that waits */
    double forced, checked; /* when the process ends by force; when the parent was looked at */
    pid_t launcher, ppid;
    struct {
        dlsh_buf buf;
        double due;
    } stream[JUP_STREAMS];
} io = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static void wake(void) {
    uint64_t one = 1;
    if (write(io.wake, &one, sizeof one) < 0) return; /* it is awake already */
}

static int ending(void) { return __atomic_load_n(&io.ending, __ATOMIC_ACQUIRE); }

const char *jup_session_id(void) { return io.writer.session; }

/* ---------------------------------------------------------------- sending */

/* Sends the frames after an address (identities or topic). Returns 0 when a subscriber is too far behind. */
static int send_frames(int channel, const jup_frame *address, int n, const jup_frame *frames, int m) {
    for (int i = 0; i < n + m; i++) {
        const jup_frame *f = i < n ? &address[i] : &frames[i - n];
        int flags = ZMQ_DONTWAIT | (i + 1 < n + m ? ZMQ_SNDMORE : 0);
        if (io.zmq->send(io.socket[channel], f->s, f->n, flags) >= 0) continue;
        if (errno == EAGAIN && i == 0 && channel == JUP_IOPUB) {
            io.blocked_size = frames[m - 1].n;
            return 0;
        }
        jup_log("dlsh: a message could not be sent: %s", io.zmq->strerror(errno));
        return 1;
    }
    return 1;
}

static int send_message(int channel, const jup_request *r, const char *type, jup_frame metadata, jup_frame content) {
    jup_frame frames[JUP_OUT_FRAMES], topic;
    char text[96];
    jup_write(&io.writer, r, type, metadata, content, frames);
    if (channel != JUP_IOPUB) return !r || send_frames(channel, r->frames, r->nids, frames, JUP_OUT_FRAMES);
    topic = (jup_frame){text, (size_t)snprintf(text, sizeof text, "kernel.%s.%s", io.writer.session, type)};
    return send_frames(channel, &topic, 1, frames, JUP_OUT_FRAMES);
}

/* ---------------------------------------------------------------- the queue of what goes out */

static void out_free(out *o) {
    if (!o) return;
    jup_request_unref(o->request);
    free(o->content.s);
    free(o->metadata.s);
    free(o);
}

static out *out_new(int kind, jup_request *r) {
    out *o = calloc(1, sizeof *o);
    if (o) *o = (out){.kind = kind, .request = jup_request_ref(r)};
    return o;
}

static void enqueue(out *o) {
    pthread_mutex_lock(&io.lock);
    *io.last = o;
    io.last = &o->next;
    pthread_mutex_unlock(&io.lock);
    wake();
}

static jup_frame dumped(json_t *j) {
    char *s = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    return (jup_frame){s, s ? strlen(s) : 0};
}

void jup_post(int channel, jup_request *parent, const char *type, json_t *content, json_t *metadata) {
    out *o = out_new(MESSAGE, parent);
    jup_frame body = dumped(content), data = dumped(metadata);
    if (!o || !body.s) {
        jup_log("dlsh: no memory for a message of type %s", type);
        free(body.s);
        free(data.s);
        out_free(o);
        return;
    }
    o->channel = channel;
    o->type = type;
    o->content = body;
    o->metadata = data;
    enqueue(o);
}

void jup_post_parent(jup_request *parent, int silent) {
    out *o = out_new(PARENT, parent);
    if (!o) return;
    o->silent = silent;
    enqueue(o);
}

void jup_sync(void) {
    jup_stdio_flush();
    jup_drain();
}

void jup_drain(void) {
    out *o = pthread_equal(pthread_self(), io.thread) ? NULL : out_new(SYNC, NULL);
    if (!o) return;
    pthread_mutex_lock(&io.lock);
    long number = ++io.sync_posted;
    *io.last = o;
    io.last = &o->next;
    wake();
    while (io.sync_reached < number) pthread_cond_wait(&io.change, &io.lock);
    pthread_mutex_unlock(&io.lock);
}

/* ---------------------------------------------------------------- streams */

static int publish_stream(int i, int whole) {
    static const char *const names[JUP_STREAMS] = {"stdout", "stderr"};
    dlsh_buf *b = &io.stream[i].buf;
    size_t rest = whole ? 0 : jup_text_unfinished(b->s, b->n), n = b->n - rest;
    if (!n) io.stream[i].due = 0; /* the rest of the character is waited for */
    if (!n) return 1;
    if (!io.silent) {
        jup_frame content = dumped(json_pack("{s:s, s:o?}", "name", names[i], "text", jup_text(b->s, n)));
        int sent = !content.s || send_message(JUP_IOPUB, io.parent, "stream", (jup_frame){0}, content);
        free(content.s);
        if (!sent) {
            io.blocked = 1;
            return 0;
        }
    }
    memmove(b->s, b->s + n, rest);
    b->n = rest;
    io.stream[i].due = 0;
    return 1;
}

/* Reads the oldest piece from the two pipes into its stream. Returns 0 when there is none, or a subscriber is too far
 * behind. A write to stderr waits until the pipe of stdout is empty (jupyter/stdio.c), so what the pipe of stderr holds
 * is older than what the pipe of stdout held before. */
static int read_piece(void) {
    char chunk[CHUNK];
    int held[JUP_STREAMS] = {0};
    ioctl(jup_stdio_fd(JUP_STDOUT), FIONREAD, &held[JUP_STDOUT]);
    ioctl(jup_stdio_fd(JUP_STDERR), FIONREAD, &held[JUP_STDERR]);
    int i = held[JUP_STDERR] > 0 ? JUP_STDERR : JUP_STDOUT, other = i == JUP_STDERR ? JUP_STDOUT : JUP_STDERR;
    if (held[i] <= 0 || !publish_stream(other, 0)) return 0;
    if (io.stream[i].buf.n >= CHUNK && !publish_stream(i, 0)) return 0;
    ssize_t n = read(jup_stdio_fd(i), chunk, held[i] < CHUNK ? (size_t)held[i] : CHUNK);
    if (n <= 0) return n < 0 && errno == EINTR;
    if (io.stream[i].due <= 0) io.stream[i].due = dl_seconds() + GATHER;
    dlsh_buf_add(&io.stream[i].buf, chunk, (size_t)n);
    return 1;
}

/* Publishes the contents of pipes and buffers. Returns 0 when a subscriber is too far behind. */
static int drain_streams(void) {
    io.blocked = 0;
    while (read_piece()) {}
    for (int i = 0; i < JUP_STREAMS && !io.blocked; i++) publish_stream(i, 1);
    return !io.blocked;
}

/* ---------------------------------------------------------------- emptying the queue */

/* Carries out an entry of the queue. Returns 0 when it has to wait for a subscriber. */
static int perform(out *o) {
    switch (o->kind) {
    case MESSAGE: return send_message(o->channel, o->request, o->type, o->metadata, o->content);
    case PARENT:
        jup_request_unref(io.parent);
        io.parent = jup_request_ref(o->request);
        io.silent = o->silent;
        return 1;
    case SYNC:
        if (!drain_streams()) return 0;
        pthread_mutex_lock(&io.lock);
        io.sync_reached++;
        pthread_cond_broadcast(&io.change);
        pthread_mutex_unlock(&io.lock);
        return 1;
    case STOP: io.stopping = 1; return 1;
    }
    return 1;
}

static void empty_queue(void) {
    io.blocked = 0;
    for (;;) {
        pthread_mutex_lock(&io.lock);
        out *o = io.first;
        pthread_mutex_unlock(&io.lock);
        if (!o) return;
        if (!perform(o)) {
            io.blocked = 1;
            return;
        }
        pthread_mutex_lock(&io.lock);
        io.first = o->next;
        if (!io.first) io.last = &io.first;
        pthread_mutex_unlock(&io.lock);
        out_free(o);
    }
}

/* The session posts only when the pipes are empty, so what they hold is newer than the queue: read, empty the queue,
 * publish. */
static void serve_streams(void) {
    read_piece();
    empty_queue();
    double t = dl_seconds();
    for (int i = 0; i < JUP_STREAMS && !io.blocked; i++)
        if (io.stream[i].buf.n >= CHUNK || (io.stream[i].due > 0 && t >= io.stream[i].due)) publish_stream(i, 0);
}

/* ---------------------------------------------------------------- receiving */

static void free_frames(jup_frame *frames, int n) {
    for (int i = 0; i < n; i++) free(frames[i].s);
    free(frames);
}

/* All frames of one message; NULL when none is there (*n is 0) or it was dropped (*n is -1). */
static jup_frame *receive(int channel, int *n) {
    jup_frame *frames = NULL;
    int cap = 0, more = 1, bad = 0;
    for (*n = 0; more;) {
        zmq_msg_t msg;
        io.zmq->msg_init(&msg);
        if (io.zmq->msg_recv(&msg, io.socket[channel], ZMQ_DONTWAIT) < 0) {
            io.zmq->msg_close(&msg);
            break;
        }
        more = io.zmq->msg_more(&msg);
        size_t size = io.zmq->msg_size(&msg);
        if (*n == cap && *n < MAX_FRAMES) {
            jup_frame *grown = realloc(frames, sizeof *grown * (size_t)(cap = cap ? 2 * cap : 8));
            if (grown) frames = grown;
            bad |= !grown;
        }
        char *copy = *n < MAX_FRAMES && !bad ? malloc(size + 1) : NULL;
        bad |= !copy;
        if (copy) {
            memcpy(copy, io.zmq->msg_data(&msg), size);
            copy[size] = 0;
            frames[(*n)++] = (jup_frame){copy, size};
        }
        io.zmq->msg_close(&msg);
    }
    if (!bad) return frames;
    free_frames(frames, *n);
    *n = -1;
    return NULL;
}

/* One request; 0 when none is there. *out stays NULL for a bad one. */
static int receive_request(int channel, jup_request **out_request) {
    int n;
    const char *why;
    jup_frame *frames = receive(channel, &n);
    *out_request = NULL;
    if (!n) return 0;
    if (n < 0) {
        jup_log("dlsh: a message of more than %d frames was dropped", MAX_FRAMES);
        return 1;
    }
    *out_request = jup_request_read(io.signer, channel, frames, n, &why);
    if (!*out_request) jup_log("dlsh: a message was dropped: %s", why);
    return 1;
}

/* ---------------------------------------------------------------- requests for the session */

static void queue_last(jup_request *r) {
    pthread_mutex_lock(&io.lock);
    *io.newest = r;
    io.newest = &r->next;
    pthread_cond_broadcast(&io.change);
    pthread_mutex_unlock(&io.lock);
}

/* Before the requests of the shell channel, after earlier ones of the control channel. */
static void queue_first(jup_request *r) {
    pthread_mutex_lock(&io.lock);
    jup_request **at = &io.waiting;
    while (*at && (*at)->channel == JUP_CONTROL) at = &(*at)->next;
    r->next = *at;
    *at = r;
    if (io.newest == at) io.newest = &r->next;
    pthread_cond_broadcast(&io.change);
    pthread_mutex_unlock(&io.lock);
}

static void serve_shell(void) {
    jup_request *r;
    while (receive_request(JUP_SHELL, &r))
        if (r) queue_last(r);
}

jup_request *jup_next(void) {
    pthread_mutex_lock(&io.lock);
    while (!io.waiting && !ending()) pthread_cond_wait(&io.change, &io.lock);
    jup_request *r = ending() ? NULL : io.waiting;
    if (r) {
        io.waiting = r->next;
        if (!io.waiting) io.newest = &io.waiting;
        r->next = NULL;
    }
    pthread_mutex_unlock(&io.lock);
    return r;
}

/* Waits until something happens, at most a moment: a signal may come to any thread and wakes nobody. */
static void wait_a_moment(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 50000000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&io.change, &io.lock, &t);
}

static jup_request *take_debug_request(void) {
    for (jup_request **at = &io.waiting, *r; (r = *at); at = &r->next) {
        if (strcmp(r->type, "debug_request") != 0) continue;
        *at = r->next;
        if (io.newest == &r->next) io.newest = at;
        r->next = NULL;
        return r;
    }
    return NULL;
}

jup_request *jup_next_debug(void) {
    jup_request *r = NULL;
    pthread_mutex_lock(&io.lock);
    while (!ending() && !jup_interrupted() && !jup_debug_left() && !(r = take_debug_request())) wait_a_moment();
    pthread_mutex_unlock(&io.lock);
    return r;
}

void jup_abort_waiting(void) {
    pthread_mutex_lock(&io.lock);
    for (jup_request *r = io.waiting; r; r = r->next)
        if (r->channel == JUP_SHELL && !strcmp(r->type, "execute_request")) r->aborted = 1;
    pthread_mutex_unlock(&io.lock);
}

/* Replaces the answer that waits for jup_input_reply; NULL: none. */
static void set_answer(jup_request *r) {
    pthread_mutex_lock(&io.lock);
    jup_request_unref(io.answer);
    io.answer = r;
    pthread_cond_broadcast(&io.change);
    pthread_mutex_unlock(&io.lock);
}

void jup_input_forget(void) { set_answer(NULL); }

static void serve_stdin(void) {
    jup_request *r;
    while (receive_request(JUP_STDIN, &r))
        if (r) set_answer(r);
}

jup_request *jup_input_reply(void) {
    pthread_mutex_lock(&io.lock);
    while (!io.answer && !ending() && !jup_interrupted()) wait_a_moment();
    jup_request *r = io.answer;
    io.answer = NULL;
    pthread_mutex_unlock(&io.lock);
    return r;
}

/* ---------------------------------------------------------------- the end */

void jup_end(void) {
    __atomic_store_n(&io.ending, 1, __ATOMIC_RELEASE);
    wake();
}

/* Interrupts the running cell, which has GRACE seconds to end. */
static void begin_end(void) {
    if (io.forced > 0) return;
    io.forced = dl_seconds() + GRACE;
    pthread_mutex_lock(&io.lock);
    __atomic_store_n(&io.ending, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&io.change);
    pthread_mutex_unlock(&io.lock);
    jup_interrupt();
}

/* The launcher is gone: its process id is free or is no longer our parent's. */
static int orphaned(void) {
    if (!io.launcher) return 0;
    if (kill(io.launcher, 0) && errno == ESRCH) return 1;
    return io.ppid == io.launcher && getppid() != io.ppid;
}

/* Some clients read the output of a cell only after its reply: a subscriber that reads nothing gets a longer queue in
 * steps, so that the cell continues. */
static void grant_more(double t) {
    if (!io.blocked || io.blocked_since <= 0) {
        io.blocked_since = io.blocked ? t : 0;
        return;
    }
    if (t - io.blocked_since < STALLED || (io.granted > MAX_GRANTED && !jup_interrupted())) return;
    io.blocked_since = t;
    io.granted += (double)MORE_WAITING * (double)io.blocked_size;
    io.high_water += MORE_WAITING;
    io.zmq->setsockopt(io.socket[JUP_IOPUB], ZMQ_SNDHWM, &io.high_water, sizeof io.high_water);
}

/* What is due between two polls: slow subscribers, the end, the launcher's process. */
static void check_state(void) {
    double t = dl_seconds();
    grant_more(t);
    if (ending()) begin_end();
    if (t - io.checked >= PARENT_CHECK) {
        io.checked = t;
        if (orphaned()) {
            if (jup_is_running()) jup_log("dlsh: the process that started this kernel is gone");
            begin_end();
        }
    }
    if (io.forced > 0 && t > io.forced && !io.stopping) {
        jup_log("dlsh: the running cell did not end; the kernel ends without it");
        io.stopping = 2;
    }
}

/* ---------------------------------------------------------------- control */

static void control_status(jup_request *r, const char *state) {
    jup_post(JUP_IOPUB, r, "status", json_pack("{s:s}", "execution_state", state), NULL);
}

static json_t *control_interrupt(DLSH_UNUSED jup_request *r) {
    jup_interrupt();
    return json_pack("{s:s}", "status", "ok");
}

json_t *jup_ports(DLSH_UNUSED jup_request *r) {
    const int *port = io.connection.port;
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "status", "ok", "shell_port", port[JUP_SHELL], "iopub_port",
                     port[JUP_IOPUB], "stdin_port", port[JUP_STDIN], "hb_port", port[JUP_HEARTBEAT], "control_port",
                     port[JUP_CONTROL]);
}

static const struct {
    const char *request, *reply;
    json_t *(*answer)(jup_request *r);
} controls[] = {{"interrupt_request", "interrupt_reply", control_interrupt},
                {"shutdown_request", "shutdown_reply", jup_shutdown},
                {"kernel_info_request", "kernel_info_reply", jup_kernel_info},
                {"debug_request", "debug_reply", jup_debug}};

/* Answers what needs no session; returns 0 for other requests. */
static int answer_control(jup_request *r) {
    if (jup_debug_needs_session(r)) return 0;
    for (size_t i = 0; i < DLSH_COUNT(controls); i++) {
        if (strcmp(r->type, controls[i].request)) continue;
        control_status(r, "busy");
        empty_queue();
        jup_frame reply = dumped(controls[i].answer(r));
        if (reply.s) send_message(JUP_CONTROL, r, controls[i].reply, (jup_frame){0}, reply);
        free(reply.s);
        control_status(r, "idle");
        return 1;
    }
    return 0;
}

/* Requests that need the session go to its queue, before those of the shell channel. */
static void serve_control(void) {
    jup_request *r;
    while (receive_request(JUP_CONTROL, &r)) {
        if (!r) continue;
        if (answer_control(r))
            jup_request_unref(r);
        else
            queue_first(r);
    }
}

/* ---------------------------------------------------------------- heartbeat, subscriptions */

static void serve_heartbeat(void) {
    int n;
    jup_frame *frames = receive(JUP_HEARTBEAT, &n);
    if (n > 0) send_frames(JUP_HEARTBEAT, frames, n, NULL, 0);
    free_frames(frames, n);
}

/* A new subscriber is welcomed, as JEP 65 says: from then on it misses no message. */
static void serve_subscriptions(void) {
    int n;
    jup_frame *frames;
    while ((frames = receive(JUP_IOPUB, &n)), n) {
        if (n > 0 && frames[0].n && frames[0].s[0] == 1) {
            jup_frame out_frames[JUP_OUT_FRAMES], topic = {frames[0].s + 1, frames[0].n - 1};
            jup_frame content = dumped(json_pack("{s:o?}", "subscription", jup_text(topic.s, topic.n)));
            if (content.s) {
                jup_write(&io.writer, NULL, "iopub_welcome", (jup_frame){0}, content, out_frames);
                send_frames(JUP_IOPUB, &topic, 1, out_frames, JUP_OUT_FRAMES);
            }
            free(content.s);
        }
        free_frames(frames, n);
    }
}

/* ---------------------------------------------------------------- the thread */

/* ms until something is due. */
static long poll_timeout(void) {
    double t = dl_seconds(), until = io.checked + PARENT_CHECK;
    if (io.blocked) return 5;
    for (int i = 0; i < JUP_STREAMS; i++)
        if (io.stream[i].buf.n && io.stream[i].due > 0 && io.stream[i].due < until) until = io.stream[i].due;
    if (io.forced > 0 && io.forced < until) until = io.forced;
    return until > t ? (long)((until - t) * 1e3) + 1 : 0;
}

static void *serve(DLSH_UNUSED void *arg) {
    enum { WAKE = JUP_CHANNELS, PIPES, ITEMS = PIPES + JUP_STREAMS };
    static void (*const server[JUP_CHANNELS])(void) = {serve_shell, serve_control, serve_stdin, serve_heartbeat,
                                                       serve_subscriptions};
    static const int order[JUP_CHANNELS] = {JUP_CONTROL, JUP_HEARTBEAT, JUP_IOPUB, JUP_STDIN, JUP_SHELL};
    zmq_pollitem_t items[ITEMS] = {[WAKE] = {NULL, io.wake, ZMQ_POLLIN, 0}};
    for (int i = 0; i < JUP_CHANNELS; i++) items[i] = (zmq_pollitem_t){io.socket[i], 0, ZMQ_POLLIN, 0};
    for (int i = 0; i < JUP_STREAMS; i++) items[PIPES + i] = (zmq_pollitem_t){NULL, jup_stdio_fd(i), ZMQ_POLLIN, 0};
    while (!io.stopping) {
        /* while a subscriber is too far behind, only the sockets are looked after */
        if (io.zmq->poll(items, io.blocked ? WAKE : ITEMS, poll_timeout()) < 0 && errno != EINTR) {
            jup_log("dlsh: the kernel's sockets failed: %s", io.zmq->strerror(errno));
            io.stopping = 2;
        }
        uint64_t count;
        if (items[WAKE].revents && read(io.wake, &count, sizeof count) < 0) count = 0; /* posted again, or not yet */
        for (int i = 0; i < JUP_CHANNELS; i++)
            if (items[order[i]].revents) server[order[i]]();
        serve_streams();
        check_state();
    }
    for (int i = 0; i < JUP_CHANNELS; i++) io.zmq->close(io.socket[i]);
    io.zmq->ctx_term(io.context);
    if (io.stopping == 2) _exit(EXIT_SUCCESS); /* the session's thread cannot be asked */
    return NULL;
}

/* ---------------------------------------------------------------- start and stop */

static int open_socket(int channel) {
    static const int types[JUP_CHANNELS] = {ZMQ_ROUTER, ZMQ_ROUTER, ZMQ_ROUTER, ZMQ_REP, ZMQ_XPUB};
    const int linger = LINGER, one = 1, handover = 1;
    const int64_t largest = MAX_MESSAGE;
    char address[256];
    void *s = io.socket[channel] = io.zmq->socket(io.context, types[channel]);
    if (!s) return 0;
    io.zmq->setsockopt(s, ZMQ_LINGER, &linger, sizeof linger);
    io.zmq->setsockopt(s, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
    io.zmq->setsockopt(s, ZMQ_SNDHWM, &io.high_water, sizeof io.high_water);
    if (channel == JUP_IOPUB) {
        io.zmq->setsockopt(s, ZMQ_XPUB_VERBOSE, &one, sizeof one); /* every subscriber is welcomed */
        io.zmq->setsockopt(s, ZMQ_XPUB_NODROP, &one, sizeof one);
    } else if (types[channel] == ZMQ_ROUTER) {
        io.zmq->setsockopt(s, ZMQ_ROUTER_HANDOVER, &handover, sizeof handover);
    }
    jup_connection_address(&io.connection, channel, address, sizeof address);
    io.zmq->setsockopt(s, ZMQ_IPV6, &one, sizeof one);
    if (!io.zmq->bind(s, address)) return 1;
    dlsh_console_say("cannot listen on %s: %s", address, io.zmq->strerror(errno));
    return 0;
}

int jup_io_start(const jup_connection *c) {
    const char *launcher = getenv("JPY_PARENT_PID");
    io.zmq = jup_zmq_load();
    if (!io.zmq) return 0;
    io.connection = *c;
    io.signer = jup_signer_new(c->digest, c->key);
    if (!io.signer) return 0;
    jup_writer_init(&io.writer, io.signer);
    io.last = &io.first;
    io.newest = &io.waiting;
    io.launcher = launcher ? (pid_t)strtol(launcher, NULL, 10) : 0;
    io.ppid = getppid();
    io.checked = dl_seconds();
    io.high_water = MAX_WAITING;
    io.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    io.context = io.zmq->ctx_new();
    if (io.wake < 0 || !io.context) return 0;
    for (int i = 0; i < JUP_CHANNELS; i++)
        if (!open_socket(i)) return 0;
    if (!jup_stdio_capture()) return 0;
    jup_post(JUP_IOPUB, NULL, "status", json_pack("{s:s}", "execution_state", "starting"), NULL);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the session's thread */
    int failed = pthread_create(&io.thread, NULL, serve, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) jup_log("dlsh: no thread for the sockets: %s", strerror(failed));
    return !failed;
}

void jup_io_stop(void) {
    out *o = out_new(STOP, NULL);
    if (!o) _exit(EXIT_FAILURE);
    enqueue(o);
    pthread_join(io.thread, NULL);
    jup_stdio_release();
    while ((o = io.first)) {
        io.first = o->next;
        out_free(o);
    }
    for (jup_request *r = io.waiting, *next; r; r = next) {
        next = r->next;
        jup_request_unref(r);
    }
    jup_request_unref(io.answer);
    jup_request_unref(io.parent);
    for (int i = 0; i < JUP_STREAMS; i++) dlsh_buf_free(&io.stream[i].buf);
    jup_signer_free(io.signer);
    close(io.wake);
}
