/* `run restore-code`: the code of a run as files: commit, uncommitted changes, script and what it read. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands/history/redo.h"

/* ---------------------------------------------------------------- files */

dl_status dlsh_make_folders(const char *path) {
    DLSH_SCOPED_BUF b = {0};
    for (const char *c = path; *c; c++) {
        if (*c == '/' && c > path && mkdir(dlsh_buf_text(&b), 0777) && errno != EEXIST)
            return dlsh_fail(DL_ERR_IO, NULL, "the folder %s cannot be made: %s", dlsh_buf_text(&b), strerror(errno));
        dlsh_buf_printf(&b, "%c", *c);
    }
    return DL_OK;
}

static dl_status write_file(const char *path, const char *text) {
    DLSH_TRY(dlsh_make_folders(path));
    FILE *f = fopen(path, "w");
    int bad = !f || fputs(text, f) < 0;
    if (f) bad |= fclose(f) != 0;
    return bad ? dlsh_fail(DL_ERR_IO, NULL, "%s cannot be written: %s", path, strerror(errno)) : DL_OK;
}

/* The path as an absolute one, without "." and "..". */
static void absolute(const dl_run_info *r, const char *path, dlsh_buf *out) {
    DLSH_SCOPED_BUF all = {0};
    if (*path != '/') dlsh_buf_printf(&all, "%s/", r->cwd);
    dlsh_buf_puts(&all, path);
    for (const char *c = dlsh_buf_text(&all); *c;) {
        size_t n = strcspn(c, "/");
        if (n == 2 && !strncmp(c, "..", 2)) {
            while (out->n && out->s[out->n - 1] != '/') out->s[--out->n] = 0;
            if (out->n) out->s[--out->n] = 0;
        } else if (n && !(n == 1 && *c == '.'))
            dlsh_buf_printf(out, "/%.*s", (int)n, c);
        c += n + (c[n] == '/');
    }
}

/* Calls `each` with every text of the run and its absolute path; the script comes first. */
typedef dl_status visitor(void *ctx, const char *path, const char *text, int script);
static dl_status each_text(dl_store *store, const dl_run_info *r, visitor *each, void *ctx) {
    if (*r->script_path) {
        DLSH_SCOPED_BUF path = {0};
        absolute(r, r->script_path, &path);
        DLSH_TRY(each(ctx, dlsh_buf_text(&path), r->script_text, 1));
    }
    for (long i = 0; i < r->nartifact; i++) {
        if (strcmp(r->artifacts[i].kind, "source")) continue;
        DLSH_SCOPED_BUF path = {0};
        absolute(r, r->artifacts[i].name, &path);
        DLSH_ENDED(dl_text_free) char *text = dl_run_text(store, r->id, r->artifacts[i].name);
        DLSH_TRY(text ? each(ctx, dlsh_buf_text(&path), text, 0) : dl_failed());
    }
    return DL_OK;
}

typedef struct target {
    const char *root, *prefix;
    dlsh_buf *script;
} target;

static dl_status restore_text(void *ctx, const char *path, const char *text, int script) {
    const target *t = ctx;
    DLSH_SCOPED_BUF to = {0};
    size_t n = strlen(t->prefix);
    int below = !strncmp(path, t->prefix, n) && (!n || path[n] == '/');
    if (!below && !script) return DL_OK;
    dlsh_buf_printf(&to, "%s%s", t->root, below ? path + n : strrchr(path, '/'));
    if (script && t->script) dlsh_buf_puts(t->script, dlsh_buf_text(&to));
    return write_file(dlsh_buf_text(&to), text);
}

dl_status dlsh_restore_texts(dl_store *store, const dl_run_info *r, const char *root, const char *prefix,
                             dlsh_buf *script) {
    target t = {root, prefix, script};
    return each_text(store, r, restore_text, &t);
}

static dl_status warn_of_text(void *ctx, const char *path, const char *text, DLSH_UNUSED int script) {
    const dlsh_args *a = ctx;
    FILE *f = fopen(path, "r");
    if (!f) {
        dlsh_warn(dlsh_arg_session(a), NULL, "%s is gone since; the text that the run keeps is taken", path);
        return DL_OK;
    }
    size_t n = strlen(text);
    DLSH_FREED char *now = malloc(n + 2);
    size_t got = now ? fread(now, 1, n + 1, f) : 0;
    int same = got == n && now && !memcmp(now, text, n);
    fclose(f);
    if (!same) dlsh_warn(dlsh_arg_session(a), NULL, "%s has changed since; the text that the run keeps is taken", path);
    return DL_OK;
}

dl_status dlsh_warn_of_changes(const dlsh_args *a, dl_store *store, const dl_run_info *r) {
    return each_text(store, r, warn_of_text, (void *)a);
}

/* ---------------------------------------------------------------- programs */

dl_status dlsh_run_program(const char *path, char *const *argv, const char *folder, int *code) {
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) return dlsh_fail(DL_ERR_IO, NULL, "no process can be started: %s", strerror(errno));
    if (!pid) {
        signal(SIGINT, SIG_DFL);
        if (folder && chdir(folder)) _exit(127);
        execvp(path, argv);
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return dlsh_fail(DL_ERR_IO, NULL, "waiting for a process: %s", strerror(errno));
    *code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return DL_OK;
}

/* ---------------------------------------------------------------- run restore-code */

/* Arguments: folder of the run, commit, absolute folder to fill. Prints the top of the work tree. */
static const char checkout[] =
    "top=$(git -C \"$1\" rev-parse --show-toplevel) || exit 1\n"
    "export GIT_INDEX_FILE=\"$3/.index-of-restore\"\n"
    "git -C \"$top\" read-tree \"$2\" && git -C \"$top\" checkout-index -a --prefix=\"$3/\"\n"
    "rc=$?; rm -f \"$GIT_INDEX_FILE\"; [ $rc = 0 ] && printf %s \"$top\" > \"$3/.top\"\n";
/* The recorded changes, for which the folder is not part of a repository around it. */
static const char apply[] = "cd \"$1\" && GIT_CEILING_DIRECTORIES=$(dirname \"$1\") git apply --whitespace=nowarn "
                            ".changes\n";

static dl_status shell(const char *script, const char *a, const char *b, const char *c, int *code) {
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)script, (char *)"sh", (char *)a, (char *)b, (char *)c, NULL};
    return dlsh_run_program("sh", argv, NULL, code);
}

/* Takes the text of a file that is for this command alone, and removes it. */
static char *take_file(const char *path) {
    char text[4096];
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    unlink(path);
    text[n] = 0;
    return strdup(text);
}

static dl_status apply_changes(const dlsh_args *a, dl_store *store, const dl_run_info *r, const char *to) {
    int code = 0;
    char *changes = dl_run_text(store, r->id, "changes");
    if (!changes) return dl_failed();
    DLSH_SCOPED_BUF file = {0};
    dlsh_buf_printf(&file, "%s/.changes", to);
    dl_status st = *changes ? write_file(dlsh_buf_text(&file), changes) : DL_OK;
    if (!st && *changes) st = shell(apply, to, NULL, NULL, &code);
    dl_text_free(changes);
    unlink(dlsh_buf_text(&file));
    if (st || !code) return st;
    return dlsh_arg_fail(a, "run", DL_ERR_STORE, "run show ID changes prints them",
                         "git cannot apply the changes that run %ld keeps", r->id);
}

/* The commit and the changes; *top is the work tree of then, which the caller frees. */
static dl_status restore_commit(const dlsh_args *a, dl_store *store, const dl_run_info *r, const char *to, char **top) {
    int code;
    DLSH_SCOPED_BUF file = {0};
    DLSH_TRY(shell(checkout, r->cwd, r->git_commit, to, &code));
    if (code)
        return dlsh_arg_fail(a, "run", DL_ERR_IO, "git fetch brings commits that are missing",
                             "git cannot check out the commit %s in %s", r->git_commit, r->cwd);
    dlsh_buf_printf(&file, "%s/.top", to);
    if (!(*top = take_file(dlsh_buf_text(&file)))) return dlsh_no_memory("the folder of a work tree");
    return apply_changes(a, store, r, to);
}

static dl_status restore_code(const dlsh_args *a, dl_store *store, const dl_run_info *r) {
    char to[4096];
    DLSH_FREED char *top = NULL;
    const char *dir = dlsh_arg_str(a, "dir");
    if (!*r->git_commit && !*r->script_path)
        return dlsh_arg_fail(a, "run", DL_ERR_STATE, "run show prints what is kept of it",
                             "run %ld keeps neither a commit nor a script: it was made at the prompt", r->id);
    if (mkdir(dir, 0777))
        return dlsh_arg_fail(a, "dir", DL_ERR_IO, errno == EEXIST ? "give the name of a new folder" : NULL,
                             "the folder %s cannot be made: %s", dir, strerror(errno));
    if (!realpath(dir, to)) return dlsh_arg_fail(a, "dir", DL_ERR_IO, NULL, "%s: %s", dir, strerror(errno));
    DLSH_TRY(*r->git_commit ? restore_commit(a, store, r, to, &top) : DL_OK);
    DLSH_TRY(dlsh_restore_texts(store, r, to, top ? top : r->cwd, NULL));
    dlsh_put(dlsh_arg_sink(a), "wrote %s: %s%s%s\n", dir, *r->git_commit ? "commit " : "",
             *r->git_commit ? r->git_commit : "the script and what it read",
             *r->git_diff_sha ? " with its changes" : "");
    return DL_OK;
}

dl_status dlsh_restore_code_run(const dlsh_args *a) {
    dl_store *store;
    DLSH_ENDED(dl_run_list_free) dl_run_list *l = dlsh_named_run(a, &store);
    if (!l) return dl_failed();
    return restore_code(a, store, l->runs);
}
