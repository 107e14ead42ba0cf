/* Capturing standard output and standard error. */
#define _GNU_SOURCE // pipe2, F_SETPIPE_SZ, fopencookie
#include "jupyter/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "ffi/call/guard.h"
#include "jupyter/io.h"

enum { PIPE_SIZE = 1 << 20, BUFFER = 1 << 16 };

static struct {
    int read[JUP_STREAMS], original[JUP_STREAMS], write[JUP_STREAMS];
    pthread_t flusher;
    pthread_mutex_t lock;
    pthread_cond_t change;
    int running, end, started;
    FILE *errors, *own_errors; /* stderr, and as it was before */
    pthread_t session;
    pid_t process;
} stdio = {.read = {-1, -1},
           .original = {-1, STDERR_FILENO},
           .write = {-1, -1},
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .change = PTHREAD_COND_INITIALIZER};

static const int streams[JUP_STREAMS] = {STDOUT_FILENO, STDERR_FILENO};

void jup_log(const char *fmt, ...) {
    char line[512];
    int n;
    DLSH_FORMATTED(fmt, n = vsnprintf(line, sizeof line - 1, fmt, ap));
    if (n < 0) return;
    if ((size_t)n > sizeof line - 2) n = sizeof line - 2;
    line[n] = '\n';
    if (write(stdio.original[JUP_STDERR], line, (size_t)n + 1) < 0) return; /* nobody reads the log */
}

/* ---------------------------------------------------------------- the flusher */

/* C code may print and then compute for minutes, with its text in the buffer of stdout. A thread of its own flushes it:
 * the flush may wait for the pipe, so the thread that reads the pipe cannot do it. */
static void *flush_now_and_then(DLSH_UNUSED void *arg) {
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

/* Opens stdout and stderr again where C code has closed them, before another file gets the number. */
static void restore_streams(void) {
    for (int i = 0; i < JUP_STREAMS; i++)
        if (stdio.write[i] >= 0 && fcntl(streams[i], F_GETFD) < 0 && errno == EBADF) dup2(stdio.write[i], streams[i]);
}

void jup_stdio_watch(int running) {
    restore_streams();
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

/* ---------------------------------------------------------------- stderr */

static void behind_stdout(void) {
    int waiting = 0;
    if (getpid() != stdio.process) return; /* a child that C forked: who reads the pipe is not here */
    fflush(stdout);
    ioctl(stdio.read[JUP_STDOUT], FIONREAD, &waiting);
    if (waiting > 0) jup_drain();
}

/* Keeps the order between the two pipes: text for stderr waits until the pipe of stdout is empty (see read_piece). The
 * guard of C calls is off meanwhile, so that no interrupt leaves this function by longjmp. */
static ssize_t write_errors(DLSH_UNUSED void *cookie, const char *bytes, size_t size) {
    int guarded = pthread_equal(pthread_self(), stdio.session), last = errno;
    size_t done = 0;
    if (guarded) dlsh_guard_leave();
    if (stdio.read[JUP_STDOUT] >= 0) behind_stdout();
    while (done < size) {
        ssize_t n = write(STDERR_FILENO, bytes + done, size - done);
        if (n < 0 && errno != EINTR) break;
        if (n > 0) done += (size_t)n;
    }
    if (guarded) dlsh_guard_enter();
    if (done == size) errno = last;
    return (ssize_t)done;
}

static int replace_stderr(void) {
    stdio.session = pthread_self();
    stdio.process = getpid();
    stdio.errors = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_errors});
    if (!stdio.errors) return 0;
    setvbuf(stdio.errors, NULL, _IONBF, 0);
    stdio.errors->_fileno = STDERR_FILENO; /* C code may ask for it; nothing else reads it here */
    stdio.own_errors = stderr;
    stderr = stdio.errors;
    return 1;
}

/* ---------------------------------------------------------------- pipes */

static int capture(int stream, int fd) {
    int ends[2], keep = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (keep < 0 || pipe2(ends, O_CLOEXEC)) return 0;
    stdio.original[stream] = keep;
    stdio.write[stream] = fcntl(ends[1], F_DUPFD_CLOEXEC, 3); /* also keeps the reader from an end of file */
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
    good = good && capture(JUP_STDOUT, STDOUT_FILENO) && capture(JUP_STDERR, STDERR_FILENO) && replace_stderr();
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
    if (stdio.started) {
        pthread_mutex_lock(&stdio.lock);
        stdio.end = 1;
        pthread_cond_signal(&stdio.change);
        pthread_mutex_unlock(&stdio.lock);
        pthread_join(stdio.flusher, NULL);
        stdio.started = 0;
    }
    /* not closed: libraries loaded meanwhile may use the stream until the process ends, as C++'s cerr does */
    if (stdio.errors) stderr = stdio.own_errors;
    for (int i = 0; i < JUP_STREAMS; i++) {
        if (stdio.read[i] < 0) continue;
        dup2(stdio.original[i], streams[i]);
        close(stdio.original[i]);
        close(stdio.read[i]);
        if (stdio.write[i] >= 0) close(stdio.write[i]);
        stdio.read[i] = stdio.write[i] = -1;
        stdio.original[i] = streams[i];
    }
}

int jup_stdio_width(void) {
    struct winsize size;
    return ioctl(stdio.original[JUP_STDERR], TIOCGWINSZ, &size) ? 0 : size.ws_col;
}

int jup_stdio_fd(int stream) { return stdio.read[stream]; }

void jup_stdio_flush(void) {
    fflush(stdout);
    fflush(stderr);
}
