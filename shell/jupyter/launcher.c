/* Which client started the kernel: clients at a terminal do not show updates of displays. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jupyter/kernel.h"

enum { WORDS = 3 }; /* python3 -m jupyter_console */

static const struct {
    const char *program;
    jup_progress shows;
} launchers[] = {{"jupyter-console", JUP_REDRAWS},
                 {"jupyter_console", JUP_REDRAWS},
                 {"jupyter-run", JUP_LINES},
                 {"jupyter-qtconsole", JUP_LINES}};

static jup_progress shown_by(const char *words, size_t n) {
    const char *word = words;
    for (int i = 0; i < WORDS && word < words + n; i++, word += strlen(word) + 1) {
        const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;
        for (size_t k = 0; k < DLSH_COUNT(launchers); k++)
            if (!strcmp(name, launchers[k].program)) return launchers[k].shows;
    }
    return JUP_DISPLAYS;
}

jup_progress jup_launcher_shows(void) {
    char path[64], words[1024];
    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)getppid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return JUP_DISPLAYS;
    ssize_t n = read(fd, words, sizeof words - 1);
    close(fd);
    if (n <= 0) return JUP_DISPLAYS;
    words[n] = 0;
    return shown_by(words, (size_t)n);
}
