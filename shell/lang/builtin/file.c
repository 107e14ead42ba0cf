/* Text files, paths and the environment. */
#define _GNU_SOURCE /* memrchr, GLOB_TILDE */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lang/eval/args.h"

enum { MOST_BYTES = 1 << 30 };

#define PATH_PARAM                                                                                                     \
    { .name = "path", .want = "string", .doc = "a file", .complete = "file" }

static const dlsh_param only_path[] = {PATH_PARAM, {0}};

/* ---------------------------------------------------------------- text */

static dl_status cannot(const dlsh_args *a, const char *what) {
    return dlsh_arg_fail(a, "path", DL_ERR_IO, NULL, "cannot %s '%.200s': %s", what, dlsh_arg_str(a, "path"),
                         strerror(errno));
}

static dl_status read_all(const dlsh_args *a, dlsh_buf *b) {
    char piece[65536];
    size_t n;
    const char *path = dlsh_arg_str(a, "path");
    struct stat info;
    FILE *f = fopen(path, "rb");
    if (!f) return cannot(a, "read");
    if (!fstat(fileno(f), &info) && S_ISDIR(info.st_mode))
        errno = EISDIR;
    else
        errno = 0;
    while (!errno && !dlsh_interrupted() && b->n <= MOST_BYTES && (n = fread(piece, 1, sizeof piece, f)) > 0)
        dlsh_buf_add(b, piece, n);
    dl_status st = errno ? cannot(a, "read") : dlsh_check_interrupt();
    if (!st && b->n > MOST_BYTES)
        st = dlsh_arg_fail(a, "path", DL_ERR_VALUE, NULL, "'%.200s' is larger than 2^30 bytes", path);
    fclose(f);
    return st;
}

static dl_status read_text_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_buf b = {0};
    dl_status st = read_all(a, &b);
    if (!st) return dlsh_give(dlsh_buf_string(&b), result);
    dlsh_buf_free(&b);
    return st;
}

/* Without the ends of the lines, \n or \r\n; one at the end of the file begins no line. */
static dl_status read_lines_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_BUF b = {0};
    dlsh_value list = dlsh_new_list(0);
    dl_status st = read_all(a, &b);
    for (size_t from = 0; !st && from < b.n && !dlsh_interrupted_at((long)from);) {
        const char *end = memchr(b.s + from, '\n', b.n - from);
        size_t to = end ? (size_t)(end - b.s) : b.n, len = to - from;
        if (len && b.s[to - 1] == '\r') len--;
        st = dlsh_append(list, dlsh_string_n(b.s + from, len));
        from = to + 1;
    }
    return dlsh_give_filled(st, list, result);
}

static dl_status write_text_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_str *text = dlsh_arg(a, "text")->as.str;
    (void)result;
    if (!dlsh_arg_bool(a, "append")) {
        DLSH_SCOPED_BUF b = {0};
        dlsh_buf_add(&b, text->s, text->len);
        return dlsh_buf_write(&b, dlsh_arg_str(a, "path"));
    }
    FILE *f = fopen(dlsh_arg_str(a, "path"), "ab");
    if (!f) return cannot(a, "write");
    int bad = fwrite(text->s, 1, text->len, f) != text->len;
    bad |= fclose(f) != 0;
    return bad ? cannot(a, "write") : DL_OK;
}

/* ---------------------------------------------------------------- paths */

static dl_status glob_run(const dlsh_args *a, dlsh_value *result) {
    glob_t found = {0};
    dlsh_value list = dlsh_new_list(0);
    int r = glob(dlsh_arg_str(a, "pattern"), GLOB_TILDE, NULL, &found);
    dl_status st = r == GLOB_NOSPACE ? dlsh_no_memory("the names of files") : DL_OK;
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

/* basename: behind the last slash; dirname, where data is set: before it. */
static dl_status basename_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_str *path = dlsh_arg(a, "path")->as.str;
    const char *slash = memrchr(path->s, '/', path->len);
    size_t at = slash ? (size_t)(slash - path->s) : 0;
    if (!dlsh_arg_data(a)) at = slash ? at + 1 : 0;
    if (dlsh_arg_data(a)) return dlsh_give(dlsh_string_n(path->s, slash && !at ? 1 : at), result);
    return dlsh_give(dlsh_string_n(path->s + at, path->len - at), result);
}

/* Parts with a slash between; one that begins with a slash starts anew. */
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

static dl_status set_env_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    if (!setenv(dlsh_arg_str(a, "name"), dlsh_arg_str(a, "value"), 1)) return DL_OK;
    return dlsh_arg_fail(a, "name", DL_ERR_VALUE, NULL, "'%.100s' is no name of a variable of the environment",
                         dlsh_arg_str(a, "name"));
}

const dlsh_command dlsh_file_rows[] = {
    DLSH_FN_ROW("read_text", read_text_run, "read_text(PATH)", "The contents of a file as a string.",
                .params = only_path, .examples = "text = read_text(\"names.txt\")"),
    DLSH_FN_ROW("read_lines", read_lines_run, "read_lines(PATH)", "The lines of a file as a list of strings.",
                .params = only_path, .examples = "for line in read_lines(\"names.txt\") { print(line) }"),
    DLSH_ACT_ROW("write_text", write_text_run, "write_text(PATH, TEXT, append=false)",
                 "Writes a string as a file, which appears whole or not at all.",
                 DLSH_PARAMS(PATH_PARAM, {"text", .want = "string", .doc = "the contents"}),
                 DLSH_OPTIONS({"append", DLSH_OPT_BOOL, "false", .doc = "at the end of what the file has"}),
                 .examples = "write_text(\"notes.txt\", \"lr 0.1\\n\")"),
    DLSH_FN_ROW("glob", glob_run, "glob(PATTERN)", "The files whose paths fit a pattern, in order.",
                DLSH_PARAMS({"pattern", .want = "string", .doc = "* and ? stand for any characters, ~ for home",
                             .complete = "file"}),
                .examples = "glob(\"data/*.png\")"),
    DLSH_FN_ROW("exists", exists_run, "exists(PATH)", "Is there such a file or folder?", .params = only_path),
    DLSH_FN_ROW("is_dir", exists_run, "is_dir(PATH)", "Is it a folder?", .params = only_path, .data = "dir"),
    DLSH_PURE_ROW("basename", basename_run, "basename(PATH)", "What stands behind the last slash of a path.",
                  .params = only_path),
    DLSH_PURE_ROW("dirname", basename_run, "dirname(PATH)", "What stands before the last slash of a path.",
                  .params = only_path, .data = "dir"),
    DLSH_PURE_ROW("path", path_run, "path(PART, ...)", "Parts of a path joined by slashes.",
                  DLSH_PARAMS({"parts", .want = "string", .flags = DLSH_VARIADIC, .doc = "folders and a file"}),
                  .examples = "path(\"data\", \"mnist\", \"train.gz\")"),
    DLSH_FN_ROW("env", env_run, "env(NAME [, OTHERWISE])", "A variable of the environment, or something else.",
                DLSH_PARAMS({"name", .want = "string", .doc = "name of the variable"},
                            {"otherwise", .flags = DLSH_OPTIONAL, .doc = "result when it is not set (none)"}),
                .examples = "env(\"HOME\")"),
    DLSH_ACT_ROW("set_env", set_env_run, "set_env(NAME, VALUE)", "Sets a variable of the environment of this process.",
                 DLSH_PARAMS({"name", .want = "string", .doc = "name of the variable"},
                             {"value", .want = "string", .doc = "its value"})),
    {0}};
