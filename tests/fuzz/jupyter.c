/* Fuzz target: any message gets an answer that is well-formed, or is dropped. The first line is the message's type, the
 * rest its content; or, after a first line `frames`, each line is a frame. The thread of the sockets is played here. */
#include <assert.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "front/front.h"
#include "jupyter/kernel.h"
#include "view/console.h"

static jup_request *next_request;
static int busy, replies;

/* ---------------------------------------------------------------- the other side of jupyter_io.h */

int jup_io_start(const jup_connection *c) { return (void)c, 1; }
void jup_io_stop(void) {}
jup_request *jup_next(void) {
    jup_request *r = next_request;
    next_request = NULL;
    return r;
}
jup_request *jup_next_debug(void) { return NULL; }
void jup_abort_waiting(void) {}
void jup_end(void) {}
void jup_post_parent(jup_request *parent, int silent) { (void)parent, (void)silent; }
void jup_sync(void) { fflush(stdout); }
void jup_drain(void) {}
jup_request *jup_input_reply(void) { return NULL; }
void jup_input_forget(void) {}
json_t *jup_ports(jup_request *r) { return (void)r, json_object(); }
const char *jup_session_id(void) { return "0"; }

void jup_post(int channel, jup_request *parent, const char *type, json_t *content, json_t *metadata) {
    char *text = json_dumps(content, JSON_COMPACT); /* NULL for invalid UTF-8 or NaN */
    assert(parent && text && json_is_object(content));
    if (channel == JUP_IOPUB && !strcmp(type, "status")) {
        int on = !strcmp(json_string_value(json_object_get(content, "execution_state")), "busy");
        assert(on != busy);
        busy = on;
    } else {
        assert(busy); /* nothing before busy or after idle */
    }
    if (channel == JUP_SHELL && ++replies)
        assert(json_is_string(json_object_get(content, "status")) && strlen(type) > 6 &&
               !strcmp(type + strlen(type) - 6, "_reply"));
    free(text);
    json_decref(content);
    json_decref(metadata);
}

/* ---------------------------------------------------------------- messages */

static jup_frame copy(const char *s, size_t n) {
    jup_frame f = {malloc(n + 1), n};
    assert(f.s);
    memcpy(f.s, s, n);
    f.s[n] = 0;
    return f;
}

/* Makes a frame of each line. */
static jup_frame *split(const char *s, size_t n, int *count) {
    jup_frame *frames = malloc(sizeof *frames * (n + 1));
    assert(frames);
    for (*count = 0;; s++) {
        const char *end = memchr(s, '\n', n);
        size_t len = end ? (size_t)(end - s) : n;
        frames[(*count)++] = copy(s, len);
        if (!end) return frames;
        s = end;
        n -= len + 1;
    }
}

static jup_frame *message(const char *type, size_t type_len, const char *content, size_t n, int *count) {
    jup_frame *frames = malloc(sizeof *frames * 6);
    json_t *header = json_pack("{s:s, s:o?}", "msg_id", "1", "msg_type", jup_text(type, type_len));
    char *text = json_dumps(header, 0);
    assert(frames && text);
    frames[0] = copy("<IDS|MSG>", 9);
    frames[1] = copy("", 0);
    frames[2] = copy(text, strlen(text));
    frames[3] = copy("{}", 2);
    frames[4] = copy("{}", 2);
    frames[5] = copy(content, n);
    *count = 6;
    free(text);
    json_decref(header);
    return frames;
}

static void on_alarm(int sig) { (void)sig, dlsh_interrupt(); }

/* A connection file with ports on which no process listens; made once. */
static const char *connection_file(void) {
    static char path[] = "/tmp/dlsh-fuzz-XXXXXX";
    static int made;
    if (made++) return path;
    FILE *f = fdopen(mkstemp(path), "w");
    assert(f);
    fputs("{\"shell_port\":1,\"control_port\":2,\"stdin_port\":3,\"hb_port\":4,\"iopub_port\":5}", f);
    fclose(f);
    unsetenv("HOME"); /* no history */
    unsetenv("XDG_STATE_HOME");
    signal(SIGALRM, on_alarm);
    if (!freopen("/dev/null", "w", stdout)) abort();
    return path;
}

static void remove_file(void) { unlink(connection_file()); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct itimerval soon = {{0, 100000}, {0, 100000}}, off = {{0, 0}, {0, 0}};
    const char *s = (const char *)data, *line = memchr(s, '\n', size), *why, *file = connection_file();
    static int registered;
    if (!registered++) atexit(remove_file);
    size_t first = line ? (size_t)(line - s) : size, rest = line ? size - first - 1 : 0;
    int n;
    jup_frame *frames = first == 6 && !memcmp(s, "frames", 6) ? split(s + size - rest, rest, &n)
                                                              : message(s, first, s + size - rest, rest, &n);
    jup_signer *signer = jup_signer_new("sha256", "");
    next_request = jup_request_read(signer, JUP_SHELL, frames, n, &why);
    jup_signer_free(signer);
    if (!next_request) return 0;
    dlsh_services services = {0};
    dlsh_kernel_serve(&services);
    dlsh_session *session = dlsh_session_new(dlsh_console(), &services);
    assert(session);
    setitimer(ITIMER_REAL, &soon, NULL);
    dlsh_kernel_run(session, file);
    setitimer(ITIMER_REAL, &off, NULL);
    dl_interrupt_set(0);
    assert(!busy);
    dlsh_session_free(session);
    return 0;
}
