/* Text files, folders, paths and the environment. */
#define _GNU_SOURCE /* memrchr, GLOB_TILDE, nftw */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lang/eval/args.h"

enum { MOST_BYTES = 1 << 30, MOST_OF_DEVICE = 1 << 20 };
#define LARGE "is larger than 2^30 bytes"

#define PATH_PARAM                                                                                                     \
    { .name = "path", .want = "string", .doc = "a file", .complete = "file" }

static const dlsh_param only_path[] = {PATH_PARAM, {0}};
static const dlsh_param only_folder[] = {{.name = "path", .want = "string", .doc = "a folder", .complete = "file"},
                                         {0}};
static const dlsh_param from_to[] = {
    PATH_PARAM, {.name = "to", .want = "string", .doc = "the new path", .complete = "file"}, {0}};

/* ---------------------------------------------------------------- text */

static dl_status cannot(const dlsh_args *a, const char *what) {
    int err = errno;
    char hint[240];
    const char *path = dlsh_arg_str(a, "path");
    dl_file_remedy(path, err, hint, sizeof hint);
    return dlsh_arg_fail(a, "path", DL_ERR_IO, hint, "cannot %s '%.200s': %s", what, path, strerror(err));
}

static dl_status refuse(const dlsh_args *a, const char *what, const char *hint) {
    return dlsh_arg_fail(a, "path", DL_ERR_VALUE, hint, "'%.200s' %s", dlsh_arg_str(a, "path"), what);
}

/* Waits until a pipe, FIFO or device has something, or has ended; Ctrl-C ends the wait. */
static dl_status await_input(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (!dlsh_interrupted() && poll(&p, 1, 100) <= 0) {}
    return dlsh_check_interrupt();
}

/* What is open as fd, to its end. A device may have none. */
static dl_status read_open(const dlsh_args *a, int fd, dlsh_buf *b) {
    char piece[65536];
    struct stat info;
    ssize_t n = 1;
    if (fstat(fd, &info)) return cannot(a, "read");
    if (S_ISDIR(info.st_mode)) return refuse(a, "is a folder", "list_dir(PATH) lists what is in it");
    if (S_ISREG(info.st_mode) && info.st_size > MOST_BYTES) return refuse(a, LARGE, NULL);
    while (n > 0 && !b->failed) {
        DLSH_TRY(S_ISREG(info.st_mode) ? dlsh_check_interrupt() : await_input(fd));
        n = read(fd, piece, sizeof piece);
        if (n < 0 && errno != EINTR && errno != EAGAIN) return cannot(a, "read");
        if (n > 0) dlsh_buf_add(b, piece, (size_t)n);
        n = n ? 1 : 0;
        if (b->n > MOST_OF_DEVICE && S_ISCHR(info.st_mode) && !isatty(fd))
            return refuse(a, "is a device without an end", "head -c 1000 DEVICE > FILE copies a part of it");
        if (b->n > MOST_BYTES) return refuse(a, LARGE, NULL);
    }
    return b->failed ? DL_ERR_MEMORY : DL_OK;
}

dl_status dlsh_arg_file(const dlsh_args *a, dlsh_buf *b) {
    /* opening a FIFO would wait for a writer */
    int fd = open(dlsh_arg_str(a, "path"), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return cannot(a, "read");
    dl_status st = read_open(a, fd, b);
    close(fd);
    return st;
}

static dl_status read_text_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_buf b = {0};
    dl_status st = dlsh_arg_file(a, &b);
    if (!st) return dlsh_give(dlsh_buf_string(&b), result);
    dlsh_buf_free(&b);
    return st;
}

/* Without the ends of the lines, \n or \r\n; one at the end of the file begins no line. */
static dl_status read_lines_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_BUF b = {0};
    dlsh_value list = dlsh_new_list(0);
    dl_status st = dlsh_arg_file(a, &b);
    for (size_t from = 0; !st && from < b.n && !dlsh_interrupted_at((long)from);) {
        const char *end = memchr(b.s + from, '\n', b.n - from);
        size_t to = end ? (size_t)(end - b.s) : b.n, len = to - from;
        if (len && b.s[to - 1] == '\r') len--;
        st = dlsh_append(list, dlsh_string_n(b.s + from, len));
        from = to + 1;
    }
    return dlsh_give_filled(st, list, result);
}

static dl_status write_text_run(const dlsh_args *a) {
    const dlsh_str *text = dlsh_arg(a, "text")->as.str;
    if (!dlsh_arg_bool(a, "append")) {
        DLSH_SCOPED_BUF b = {0};
        dlsh_buf_add(&b, text->s, text->len);
        return dlsh_buf_write(&b, dlsh_arg_str(a, "path"));
    }
    const char *path = dlsh_arg_str(a, "path");
    struct stat s;
    /* a link that only lends its file becomes a copy of it */
    if (getenv("DLCORE_LENT") && !lstat(path, &s) && S_ISLNK(s.st_mode) && !access(path, R_OK))
        DLSH_TRY(dl_file_copy(path, path));
    FILE *f = fopen(path, "ab");
    if (!f) return cannot(a, "write");
    int bad = fwrite(text->s, 1, text->len, f) != text->len;
    bad |= fclose(f) != 0;
    return bad ? cannot(a, "write") : DL_OK;
}

/* ---------------------------------------------------------------- folders and whole files */

static dl_status make_dir_run(const dlsh_args *a) {
    DLSH_SCOPED_BUF b = {0};
    struct stat info;
    dlsh_buf_puts(&b, dlsh_arg_str(a, "path"));
    if (b.failed) return DL_ERR_MEMORY;
    for (size_t i = 1; i <= b.n; i++) { /* each folder on the way */
        char c = b.s[i];
        if (c && c != '/') continue;
        b.s[i] = 0;
        if (mkdir(b.s, 0777) && errno != EEXIST) return cannot(a, "make");
        b.s[i] = c;
    }
    if (!b.n || stat(b.s, &info)) return errno = ENOENT, cannot(a, "make");
    return S_ISDIR(info.st_mode) ? DL_OK : refuse(a, "is a file already", NULL);
}

static dl_status list_dir_run(const dlsh_args *a, dlsh_value *result) {
    struct dirent **entry;
    const char *path = dlsh_arg_str(a, "path");
    int n = scandir(path ? path : ".", &entry, NULL, alphasort);
    if (n < 0) return cannot(a, "list");
    dlsh_value list = dlsh_new_list(n);
    dl_status st = dlsh_failed(list) ? dl_failed() : DL_OK;
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name;
        if (!st && strcmp(name, ".") && strcmp(name, "..")) st = dlsh_append(list, dlsh_string(name));
        free(entry[i]);
    }
    free(entry);
    return dlsh_give_filled(st, list, result);
}

static dl_status remove_file_run(const dlsh_args *a) {
    struct stat info;
    if (!lstat(dlsh_arg_str(a, "path"), &info) && S_ISDIR(info.st_mode))
        return refuse(a, "is a folder", "remove_dir(PATH) removes an empty one");
    return unlink(dlsh_arg_str(a, "path")) ? cannot(a, "remove") : DL_OK;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at) {
    (void)info, (void)kind, (void)at;
    return dlsh_interrupted() || remove(path);
}

static dl_status remove_dir_run(const dlsh_args *a) {
    struct stat info;
    const char *path = dlsh_arg_str(a, "path");
    if (lstat(path, &info)) return cannot(a, "remove");
    if (!S_ISDIR(info.st_mode)) return refuse(a, "is not a folder", "remove_file(PATH) removes a file");
    int failed = dlsh_arg_bool(a, "all") ? nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS) : rmdir(path);
    DLSH_TRY(dlsh_check_interrupt());
    if (failed && errno == ENOTEMPTY)
        return refuse(a, "is not empty", "remove_dir(PATH, all=true) removes it with all that is in it");
    return failed ? cannot(a, "remove") : DL_OK;
}

static dl_status rename_file_run(const dlsh_args *a) {
    const char *to = dlsh_arg_str(a, "to");
    if (!rename(dlsh_arg_str(a, "path"), to)) return DL_OK;
    int err = errno;
    char hint[240];
    dl_file_remedy(access(dlsh_arg_str(a, "path"), F_OK) ? dlsh_arg_str(a, "path") : to, err, hint, sizeof hint);
    return dlsh_arg_fail(a, "path", DL_ERR_IO, err == EXDEV ? "copy_file(FROM, TO), then remove_file(FROM)" : hint,
                         "cannot rename '%.100s' to '%.100s': %s", dlsh_arg_str(a, "path"), to, strerror(err));
}

static dl_status copy_file_run(const dlsh_args *a) {
    return dl_file_copy(dlsh_arg_str(a, "path"), dlsh_arg_str(a, "to"));
}

static dl_status file_size_run(const dlsh_args *a, dlsh_value *result) {
    struct stat info;
    if (stat(dlsh_arg_str(a, "path"), &info)) return cannot(a, "read");
    *result = dlsh_int(info.st_size);
    return DL_OK;
}

/* ---------------------------------------------------------------- paths */

/* The folders of a pattern, which may be very many, end with an interrupt. */
static void *open_folder(const char *path) { return dlsh_interrupted() ? NULL : opendir(path); }
static void close_folder(void *folder) { closedir(folder); }
static struct dirent *next_entry(void *folder) { return dlsh_interrupted() ? NULL : readdir(folder); }

static dl_status glob_run(const dlsh_args *a, dlsh_value *result) {
    glob_t found = {.gl_opendir = open_folder,
                    .gl_closedir = close_folder,
                    .gl_readdir = next_entry,
                    .gl_stat = stat,
                    .gl_lstat = lstat};
    dlsh_value list = dlsh_new_list(0);
    int r = glob(dlsh_arg_str(a, "pattern"), GLOB_TILDE | GLOB_ALTDIRFUNC, NULL, &found);
    dl_status st = r == GLOB_NOSPACE ? dlsh_no_memory("the names of files") : dlsh_check_interrupt();
    for (size_t i = 0; !r && !st && i < found.gl_pathc; i++) st = dlsh_append(list, dlsh_string(found.gl_pathv[i]));
    globfree(&found);
    return dlsh_give_filled(st, list, result);
}

/* exists; is_dir where data is set. */
static dl_status exists_run(const dlsh_args *a, dlsh_value *result) {
    struct stat info;
    int there = !stat(dlsh_arg_str(a, "path"), &info);
    *result = dlsh_bool(there && (!dlsh_arg_data(a) || S_ISDIR(info.st_mode)));
    return DL_OK;
}

/* basename: after the last slash; dirname, where data is set: before it. */
static dl_status basename_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_str *path = dlsh_arg(a, "path")->as.str;
    const char *slash = memrchr(path->s, '/', path->len);
    size_t at = slash ? (size_t)(slash - path->s) : 0;
    if (!dlsh_arg_data(a)) at = slash ? at + 1 : 0;
    if (dlsh_arg_data(a)) return dlsh_give(dlsh_string_n(path->s, slash && !at ? 1 : at), result);
    return dlsh_give(dlsh_string_n(path->s + at, path->len - at), result);
}

/* Parts with a slash between; one that begins with a slash starts again. */
static dl_status path_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_buf b = {0};
    for (int i = 0; i < dlsh_arg_count(a, "parts"); i++) {
        const dlsh_str *part = dlsh_arg_at(a, "parts", i)->as.str;
        if (part->s[0] == '/')
            b.n = 0;
        else if (b.n && b.s[b.n - 1] != '/')
            dlsh_buf_puts(&b, "/");
        dlsh_buf_add(&b, part->s, part->len);
    }
    return dlsh_give(dlsh_buf_string(&b), result);
}

/* ---------------------------------------------------------------- the environment */

static dl_status env_run(const dlsh_args *a, dlsh_value *result) {
    const char *value = getenv(dlsh_arg_str(a, "name"));
    const dlsh_value *other = dlsh_arg(a, "otherwise");
    return dlsh_give(value ? dlsh_string(value) : other ? dlsh_ref(*other) : dlsh_none(), result);
}

static dl_status set_env_run(const dlsh_args *a) {
    if (!setenv(dlsh_arg_str(a, "name"), dlsh_arg_str(a, "value"), 1)) return DL_OK;
    return dlsh_arg_fail(a, "name", DL_ERR_VALUE, NULL, "'%.100s' is not a name of a variable of the environment",
                         dlsh_arg_str(a, "name"));
}

const dlsh_command dlsh_file_rows[] = {
    DLSH_FN_ROW("read_text", read_text_run, "read_text(PATH)", "The contents of a file as a string.",
                .params = only_path, .examples = "text = read_text(\"names.txt\")"),
    DLSH_FN_ROW("read_lines", read_lines_run, "read_lines(PATH)", "The lines of a file as a list of strings.",
                .params = only_path, .examples = "for line in read_lines(\"names.txt\") { print(line) }"),
    DLSH_ACT_ROW("write_text", write_text_run, "write_text(PATH, TEXT, append=false)",
                 "Writes a string as a file, which appears whole or not at all.",
                 DLSH_PARAMS(PATH_PARAM, {"text", .want = "string", .flags = DLSH_BYTES, .doc = "the contents"}),
                 DLSH_OPTIONS({"append", DLSH_OPT_BOOL, "false", .doc = "at the end of what the file has"}),
                 .examples = "write_text(\"notes.txt\", \"lr 0.1\\n\")"),
    DLSH_ACT_ROW("make_dir", make_dir_run, "make_dir(PATH)",
                 "Makes a folder and the missing folders above it. An existing folder is left as it is.",
                 .params = only_folder, .examples = "make_dir(\"out/plots\")"),
    DLSH_FN_ROW("list_dir", list_dir_run, "list_dir([PATH])", "The names of the files and folders in a folder, sorted.",
                DLSH_PARAMS({"path", .want = "string", .flags = DLSH_OPTIONAL, .doc = "the folder (the current one)",
                             .complete = "file"}),
                .examples = "for name in list_dir(\"data\") { print(name) }"),
    DLSH_ACT_ROW("remove_file", remove_file_run, "remove_file(PATH)", "Removes a file.", .params = only_path),
    DLSH_ACT_ROW("remove_dir", remove_dir_run, "remove_dir(PATH, all=false)", "Removes an empty folder.",
                 .params = only_folder,
                 DLSH_OPTIONS({"all", DLSH_OPT_BOOL, "false", .doc = "with all files and folders in it"})),
    DLSH_ACT_ROW("rename_file", rename_file_run, "rename_file(FROM, TO)",
                 "Gives a file or folder another name or place. An existing file is replaced.", .params = from_to,
                 .examples = "rename_file(\"new.csv\", \"old/data.csv\")"),
    DLSH_ACT_ROW("copy_file", copy_file_run, "copy_file(FROM, TO)",
                 "Copies a file. The copy appears whole or not at all; an existing file is replaced.",
                 .params = from_to),
    DLSH_FN_ROW("file_size", file_size_run, "file_size(PATH)", "The size of a file in bytes.", .params = only_path),
    DLSH_FN_ROW("glob", glob_run, "glob(PATTERN)", "The files whose paths fit a pattern, in order.",
                DLSH_PARAMS({"pattern", .want = "string", .doc = "* and ? stand for any characters, ~ for home",
                             .complete = "file"}),
                .examples = "glob(\"data/*.png\")"),
    DLSH_FN_ROW("exists", exists_run, "exists(PATH)", "Is there such a file or folder?", .params = only_path),
    DLSH_FN_ROW("is_dir", exists_run, "is_dir(PATH)", "Is it a folder?", .params = only_path, .data = "dir"),
    DLSH_PURE_ROW("basename", basename_run, "basename(PATH)", "The part of a path after the last slash.",
                  .params = only_path),
    DLSH_PURE_ROW("dirname", basename_run, "dirname(PATH)", "The part of a path before the last slash.",
                  .params = only_path, .data = "dir"),
    DLSH_PURE_ROW("path", path_run, "path(PART, ...)", "Parts of a path joined by slashes.",
                  DLSH_PARAMS({"parts", .want = "string", .flags = DLSH_VARIADIC, .doc = "folders and a file"}),
                  .examples = "path(\"data\", \"mnist\", \"train.gz\")"),
    DLSH_FN_ROW("env", env_run, "env(NAME [, OTHERWISE])", "An environment variable, or a default when it is not set.",
                DLSH_PARAMS({"name", .want = "string", .doc = "name of the variable"},
                            {"otherwise", .flags = DLSH_OPTIONAL, .doc = "result when it is not set (none)"}),
                .examples = "env(\"HOME\")"),
    DLSH_ACT_ROW("set_env", set_env_run, "set_env(NAME, VALUE)", "Sets a variable of the environment of this process.",
                 DLSH_PARAMS({"name", .want = "string", .doc = "name of the variable"},
                             {"value", .want = "string", .doc = "its value"})),
    {0}};
