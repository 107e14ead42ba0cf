/* Capturing standard output and standard error. */
#define _GNU_SOURCE // pipe2, F_SETPIPE_SZ
#include "front/jupyter_stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIPE_SIZE = 1 << 20, BUFFER = 1 << 16 };

static struct {
    int read[JUP_STREAMS], original[JUP_STREAMS];
    pthread_t flusher;
    pthread_mutex_t lock;
    pthread_cond_t change;
    int running, end, started;
} stdio = {.read = {-1, -1},
           .original = {-1, STDERR_FILENO},
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .change = PTHREAD_COND_INITIALIZER};

void jup_log(const char *fmt, ...) {
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    if (n < 0) return;
    if ((size_t)n > sizeof line - 2) n = sizeof line - 2;
    line[n] = '\n';
    if (write(stdio.original[JUP_STDERR], line, (size_t)n + 1) < 0) return; /* nobody reads the log */
}

/* ---------------------------------------------------------------- the flusher */

/* C code that prints and then computes for minutes has its text in the buffer of stdout. A thread of its own moves it
 * on: it may have to wait for the pipe, and whoever reads the pipe must not. */
static void *flush_now_and_then(void *arg) {
    (void)arg;
    pthread_mutex_lock(&stdio.lock);
    while (!stdio.end) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += 100000000;
        if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
        if (!stdio.running) {
            pthread_cond_wait(&stdio.change, &stdio.lock);
            continue;
        }
        if (pthread_cond_timedwait(&stdio.change, &stdio.lock, &t) != ETIMEDOUT) continue;
        pthread_mutex_unlock(&stdio.lock);
        /* not when the owner was stopped in the midst of printing and still holds the lock */
        if (!ftrylockfile(stdout)) {
            fflush_unlocked(stdout);
            funlockfile(stdout);
        }
        pthread_mutex_lock(&stdio.lock);
    }
    pthread_mutex_unlock(&stdio.lock);
    return NULL;
}

void jup_stdio_watch(int running) {
    pthread_mutex_lock(&stdio.lock);
    stdio.running = running;
    pthread_cond_signal(&stdio.change);
    pthread_mutex_unlock(&stdio.lock);
}

static void start_flusher(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the thread of the session */
    stdio.started = !pthread_create(&stdio.flusher, NULL, flush_now_and_then, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---------------------------------------------------------------- pipes */

static int capture(int stream, int fd) {
    int ends[2], keep = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (keep < 0 || pipe2(ends, O_CLOEXEC)) return 0;
    stdio.original[stream] = keep;
    stdio.read[stream] = ends[0];
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[1], F_SETPIPE_SZ, PIPE_SIZE); /* a smaller one does as well */
    int good = dup2(ends[1], fd) == fd;
    close(ends[1]);
    return good;
}

int jup_stdio_capture(void) {
    fflush(stdout);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int good = null >= 0 && dup2(null, STDIN_FILENO) == STDIN_FILENO;
    if (null >= 0) close(null);
    good = good && capture(JUP_STDOUT, STDOUT_FILENO) && capture(JUP_STDERR, STDERR_FILENO);
    if (!good) {
        jup_log("dlsh: standard output cannot be captured: %s", strerror(errno));
        jup_stdio_release();
        return 0;
    }
    setvbuf(stdout, NULL, _IOFBF, BUFFER);
    start_flusher();
    return 1;
}

void jup_stdio_release(void) {
    static const int fds[JUP_STREAMS] = {STDOUT_FILENO, STDERR_FILENO};
    if (stdio.started) {
        pthread_mutex_lock(&stdio.lock);
        stdio.end = 1;
        pthread_cond_signal(&stdio.change);
        pthread_mutex_unlock(&stdio.lock);
        pthread_join(stdio.flusher, NULL);
        stdio.started = 0;
    }
    for (int i = 0; i < JUP_STREAMS; i++) {
        if (stdio.read[i] < 0) continue;
        dup2(stdio.original[i], fds[i]);
        close(stdio.original[i]);
        close(stdio.read[i]);
        stdio.read[i] = -1;
        stdio.original[i] = fds[i];
    }
}

int jup_stdio_fd(int stream) { return stdio.read[stream]; }

void jup_stdio_flush(void) {
    fflush(stdout);
    fflush(stderr);
}
