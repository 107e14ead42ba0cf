/* Asking git for the state of the work tree. git runs through posix_spawn: a fork would copy the mappings of the
 * process, which may be most of the memory, and of a GPU context. */
#define _GNU_SOURCE /* pipe2 */
#include "track/whoami.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { GIT_TIMEOUT_MS = 3000 };

/* The environment with git's own lock taking switched off, so that looking changes nothing. */
static char **quiet_environment(void) {
    size_t n = 0;
    while (environ[n]) n++;
    char **e = malloc((n + 3) * sizeof *e);
    if (!e) return NULL;
    memcpy(e, environ, n * sizeof *e);
    e[n++] = "GIT_OPTIONAL_LOCKS=0";
    e[n++] = "GIT_TERMINAL_PROMPT=0";
    e[n] = NULL;
    return e;
}

/* Starts git with standard output in *fd. Returns its pid, -1 when there is none. */
static pid_t start(char *const argv[], int *fd) {
    int pipe_fd[2];
    pid_t pid = -1;
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t attr;
    sigset_t none;
    if (pipe2(pipe_fd, O_CLOEXEC)) return -1;
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setpgroup(&attr, 0); /* Ctrl-C is for us */
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&fa, pipe_fd[1], 1);
    posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
    char **env = quiet_environment();
    if (!env || posix_spawnp(&pid, argv[0], &fa, &attr, argv, env)) pid = -1;
    free(env);
    posix_spawn_file_actions_destroy(&fa);
    posix_spawnattr_destroy(&attr);
    close(pipe_fd[1]);
    if (pid < 0) close(pipe_fd[0]);
    *fd = pipe_fd[0];
    return pid;
}

/* Runs git, gives its output to take(). Returns 1 when it ended well in time. */
static int git(char *const argv[], void (*take)(void *ctx, const char *data, size_t n), void *ctx) {
    int fd, status = -1, in_time = 1; /* status stays -1 when somebody else reaps it */
    pid_t pid = start(argv, &fd);
    if (pid < 0) return 0;
    int64_t deadline = dl_now_us() + GIT_TIMEOUT_MS * 1000L;
    for (;;) {
        char buf[1 << 14];
        int64_t left = (deadline - dl_now_us()) / 1000;
        struct pollfd p = {fd, POLLIN, 0};
        in_time = left > 0;
        if (!in_time) break;
        int ready = poll(&p, 1, (int)left);
        if (ready < 0) continue; /* a signal */
        ssize_t n = ready ? read(fd, buf, sizeof buf) : 0;
        if (ready && n <= 0) break;
        if (n > 0) take(ctx, buf, (size_t)n);
    }
    if (!in_time) kill(-pid, SIGKILL);
    close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void take_text(void *ctx, const char *data, size_t n) {
    char *out = ctx;
    size_t at = strlen(out), room = sizeof((dl_git_state *)0)->commit - 1 - at;
    if (n > room) n = room;
    memcpy(out + at, data, n);
    out[at + n] = 0;
}

typedef struct digest {
    EVP_MD_CTX *md;
    size_t bytes;
} digest;

static void take_digest(void *ctx, const char *data, size_t n) {
    digest *d = ctx;
    d->bytes += n;
    EVP_DigestUpdate(d->md, data, n);
}

void dl_git_look(dl_git_state *out) {
    /* -c: a repository's own settings must not start programs here */
    static char *const head[] = {"git", "rev-parse", "--verify", "-q", "HEAD", NULL};
    static char *const diff[] = {
        "git",      "-c", "core.fsmonitor=false", "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color",
        "--binary", NULL};
    *out = (dl_git_state){0};
    if (!git(head, take_text, out->commit)) out->commit[0] = 0;
    out->commit[strcspn(out->commit, "\n")] = 0;
    if (!out->commit[0]) return;
    digest d = {EVP_MD_CTX_new(), 0};
    if (d.md && EVP_DigestInit_ex(d.md, EVP_sha256(), NULL) && git(diff, take_digest, &d) && d.bytes) {
        unsigned char bytes[EVP_MAX_MD_SIZE];
        unsigned n = 0;
        EVP_DigestFinal_ex(d.md, bytes, &n);
        for (unsigned i = 0; i < n; i++) sprintf(out->diff_sha + 2 * i, "%02x", bytes[i]);
    }
    EVP_MD_CTX_free(d.md);
}
