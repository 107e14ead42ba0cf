/* `dlsh kernel`: the kernelspec that makes the kernel known to Jupyter. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "front/front.h"
#include "jupyter/highlight.h"
#include "view/console.h"

static const char usage[] =
    "usage: dlsh kernel install [--user | --prefix P | --sys-prefix]\n"
    "       dlsh [options] kernel run CONNECTION_FILE\n\n"
    "install  makes this dlsh known to Jupyter as the kernel \"dlsh\":\n"
    "  --user         for you alone, in ~/.local/share/jupyter (the default)\n"
    "  --prefix P     below P/share/jupyter\n"
    "  --sys-prefix   in the active virtual or conda environment, else where the command jupyter is installed\n"
    "run      is what Jupyter calls.\n";

static int complain(const char *what, const char *detail) {
    dlsh_console_say("%s%s; dlsh kernel --help tells more", what, detail);
    return DLSH_EXIT_USAGE;
}

/* ---------------------------------------------------------------- where */

static int user_folder(char *out, size_t size) {
    const char *data = getenv("JUPYTER_DATA_DIR"), *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && *data) return snprintf(out, size, "%s", data);
    if (xdg && *xdg) return snprintf(out, size, "%s/jupyter", xdg);
    if (home && *home) return snprintf(out, size, "%s/.local/share/jupyter", home);
    return 0;
}

/* The prefix of the command `jupyter`: /usr of /usr/bin/jupyter. */
static int jupyter_prefix(char *out, size_t size) {
    const char *path = getenv("PATH");
    while (path && *path) {
        int n = (int)strcspn(path, ":");
        char file[PATH_MAX], folder[PATH_MAX];
        snprintf(file, sizeof file, "%.*s/jupyter", n, path);
        snprintf(folder, sizeof folder, "%.*s", n, path);
        char *slash = strrchr(folder, '/');
        if (!access(file, X_OK) && slash) {
            *slash = 0;
            return snprintf(out, size, "%s/share/jupyter", folder);
        }
        path += n + (path[n] == ':');
    }
    return 0;
}

static int environment_folder(char *out, size_t size) {
    static const char *const names[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    for (int i = 0; i < 2; i++) {
        const char *prefix = getenv(names[i]);
        if (prefix && *prefix) return snprintf(out, size, "%s/share/jupyter", prefix);
    }
    return jupyter_prefix(out, size);
}

/* ---------------------------------------------------------------- writing */

static int make_folders(char *path) {
    for (char *p = path + 1;; p++) {
        if (*p && *p != '/') continue;
        char c = *p;
        *p = 0;
        int failed = mkdir(path, 0755) && errno != EEXIST;
        *p = c;
        if (failed) return 0;
        if (!c) return 1;
    }
}

static int write_file(const char *folder, const char *name, const char *text) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path)
        return !dl_file_write(path, text, strlen(text));
    errno = ENAMETOOLONG;
    return 0;
}

/* A little net of three layers. */
static const char logo[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 64 64\" width=\"64\" height=\"64\">"
                           "<rect width=\"64\" height=\"64\" rx=\"12\" fill=\"#1f3a5f\"/>"
                           "<path d=\"M14 20 32 12M14 20 32 32M14 20 32 52M14 44 32 12M14 44 32 32M14 44 32 52M32 12 "
                           "50 32M32 32h18M32 52 50 32\""
                           " stroke=\"#7fb2e5\" stroke-width=\"2\"/>"
                           "<g fill=\"#fff\"><circle cx=\"14\" cy=\"20\" r=\"5\"/><circle cx=\"14\" cy=\"44\" r=\"5\"/>"
                           "<circle cx=\"32\" cy=\"12\" r=\"5\"/><circle cx=\"32\" cy=\"32\" r=\"5\"/><circle "
                           "cx=\"32\" cy=\"52\" r=\"5\"/></g>"
                           "<circle cx=\"50\" cy=\"32\" r=\"6\" fill=\"#ffb347\"/></svg>\n";

/* Highlighting for the classic Notebook. */
static const char script[] =
#include "kernel.in.js.inc"
    ;

/* The same for JupyterLab 4 and Notebook 7: an extension of theirs. */
static const char extension[] =
#include "labextension.in.js.inc"
    ;

/* The same for Pygments: a Python package, and what tells Pygments of it. */
static const char lexer[] =
#include "__init__.py.inc"
    ;
static const char metadata[] =
#include "METADATA.inc"
    ;
static const char entry_points[] =
#include "entry_points.txt.inc"
    ;

static int write_highlighting(const char *folder, const char *name, const char *text) {
    DLSH_SCOPED_BUF b = {0};
    int good = !dlsh_highlight(text, &b);
    if (!good) errno = ENOMEM;
    good = good && write_file(folder, name, dlsh_buf_text(&b));
    return good;
}

/* In the folder `pygments`, which is one for PYTHONPATH. */
static int write_lexer(const char *folder) {
    char package[PATH_MAX], info[PATH_MAX];
    if (snprintf(package, sizeof package, "%s/pygments/pygments_dlsh", folder) >= (int)sizeof package ||
        snprintf(info, sizeof info, "%s-1.0.dist-info", package) >= (int)sizeof info) {
        errno = ENAMETOOLONG;
        return 0;
    }
    return make_folders(package) && make_folders(info) && write_highlighting(package, "__init__.py", lexer) &&
           write_file(info, "METADATA", metadata) && write_file(info, "entry_points.txt", entry_points);
}

static int write_json(const char *folder, const char *name, json_t *j) {
    DLSH_FREED char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
    int good = text && write_file(folder, name, text);
    json_decref(j);
    return good;
}

static int write_kernel(char *folder, const char *program) {
    return make_folders(folder) && write_file(folder, "logo-svg.svg", logo) &&
           write_highlighting(folder, "kernel.js", script) && write_lexer(folder) &&
           write_json(folder, "kernel.json",
                      json_pack("{s:[s,s,s,s], s:s, s:s, s:s, s:{s:b}}", "argv", program, "kernel", "run",
                                "{connection_file}", "display_name", "dlsh", "language", "dlsh", "interrupt_mode",
                                "message", "metadata", "debugger", 1));
}

/* The name of the script changes with the version: browsers keep it. */
static int write_extension(char *folder) {
    char file[64];
    snprintf(file, sizeof file, "dlsh-%s.js", dl_version());
    return make_folders(folder) && write_highlighting(folder, file, extension) &&
           write_json(folder, "package.json",
                      json_pack("{s:s, s:s, s:s, s:s, s:{s:s}, s:{s:b, s:{s:s, s:s}}}", "name", "dlsh", "version",
                                dl_version(), "description", "Highlighting of dlsh", "license", "MIT", "dependencies",
                                "@jupyterlab/codemirror", "^4.0.0", "jupyterlab", "extension", 1, "_build", "load",
                                file, "extension", "./extension"));
}

static int install(const char *data) {
    char folder[PATH_MAX], extra[PATH_MAX], program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0) return complain("the path of this program is not known", "");
    program[n] = 0;
    if (snprintf(folder, sizeof folder, "%s/kernels/dlsh", data) >= (int)sizeof folder ||
        snprintf(extra, sizeof extra, "%s/labextensions/dlsh", data) >= (int)sizeof extra)
        return complain("the path is too long: ", data);
    int good = write_kernel(folder, program);
    if (!good || !write_extension(extra)) {
        dlsh_console_say("the kernel cannot be installed in %s: %s", good ? extra : folder, strerror(errno));
        return DLSH_EXIT_ERROR;
    }
    printf("Installed the kernel \"dlsh\" in %s\n", folder);
    return fflush(stdout) ? DLSH_EXIT_ERROR : DLSH_EXIT_OK;
}

static int install_command(int n, char **words) {
    char data[PATH_MAX] = "";
    int have = 0, where = n > 0 ? 1 : 0;
    if (!n || !strcmp(words[0], "--user")) {
        have = user_folder(data, sizeof data);
        if (!have) return complain("there is no home folder to install in", "");
    } else if (!strcmp(words[0], "--sys-prefix")) {
        have = environment_folder(data, sizeof data);
        if (!have) return complain("there is no environment and no command jupyter; name the --prefix", "");
    } else if (!strncmp(words[0], "--prefix", 8) && (words[0][8] == '=' || !words[0][8])) {
        const char *prefix = words[0][8] ? words[0] + 9 : n > 1 ? words[where++] : "";
        if (!*prefix) return complain("--prefix needs a folder", "");
        have = snprintf(data, sizeof data, "%s/share/jupyter", prefix);
    } else {
        return complain("there is no such option: ", words[0]);
    }
    if (have >= (int)sizeof data) return complain("the path is too long", "");
    return where < n ? complain("one place is enough, got also ", words[where]) : install(data);
}

int dlsh_kernel_command(const dlsh_options *o, const char **connection_file) {
    const char *verb = o->nwords ? o->words[0] : "";
    if (!strcmp(verb, "run")) {
        if (o->nwords < 2) return complain("kernel run needs the connection file", "");
        *connection_file = o->words[1]; /* launchers may append words of their own */
        return -1;
    }
    for (int i = 0; i < o->nwords; i++)
        if (!strcmp(o->words[i], "--help") || !strcmp(o->words[i], "-h")) verb = "--help";
    if (!strcmp(verb, "install")) return install_command(o->nwords - 1, o->words + 1);
    if (!strcmp(verb, "--help")) {
        fputs(usage, stdout);
        return fflush(stdout) ? DLSH_EXIT_ERROR : DLSH_EXIT_OK;
    }
    return *verb ? complain("dlsh kernel does not know ", verb) : complain("dlsh kernel install, or run", "");
}
