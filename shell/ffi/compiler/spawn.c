/* Runs a program and reads its output. */
#define _GNU_SOURCE
#include "ffi/compiler/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lang/session.h"

extern char **environ;

int dlsh_spawn_find(const char *name, char *path, size_t size) {
    const char *list = strchr(name, '/') ? "" : getenv("PATH");
    for (const char *p = list ? list : "/usr/bin:/bin";; p++) {
        size_t n = strcspn(p, ":");
        int used = snprintf(path, size, "%.*s%s%s", (int)n, p, n ? "/" : "", name);
        struct stat st;
        if (used > 0 && (size_t)used < size && !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK)) return 1;
        p += n;
        if (!*p) return 0;
    }
}

char **dlsh_spawn_environment(const char *setting) {
    size_t n = 0, k = 0, name = strcspn(setting, "=") + 1;
    while (environ[n]) n++;
    char **env = malloc((n + 2) * sizeof *env);
    if (!env) return dlsh_no_memory("the environment of a process"), NULL;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], setting, name)) env[k++] = environ[i];
    env[k++] = (char *)setting;
    env[k] = NULL;
    return env;
}

static void append(dlsh_output *said, const char *s, size_t n) {
    size_t had = said->text.n, room = !said->limit ? n : said->limit > had ? said->limit - had : 0;
    dlsh_buf_add(&said->text, s, n < room ? n : room);
    if (n > room) said->left_out += n - room;
}

dl_status dlsh_spawn_read(const char *path, char *const *argv, int errors, dlsh_output *said, int *status) {
    int out[2];
    pid_t pid;
    posix_spawn_file_actions_t files;
    char **env = dlsh_spawn_environment("LC_ALL=C"), buf[8192]; /* a program reads the messages: in English */
    if (!env) return DL_ERR_MEMORY;
    if (pipe2(out, O_CLOEXEC)) {
        free(env);
        return dlsh_fail(DL_ERR_IO, NULL, "no pipe for %s: %s", path, strerror(errno));
    }
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out[1], 1);
    if (errors)
        posix_spawn_file_actions_adddup2(&files, out[1], 2);
    else
        posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawn(&pid, path, &files, NULL, argv, env);
    posix_spawn_file_actions_destroy(&files);
    close(out[1]);
    free(env);
    for (ssize_t n; !failed && ((n = read(out[0], buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR));)
        if (n > 0) append(said, buf, (size_t)n);
    close(out[0]);
    if (failed) return dlsh_fail(DL_ERR_IO, NULL, "%s cannot be started: %s", path, strerror(failed));
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {}
    return DL_OK;
}
