/* `run rerun`: the script of a run once more, from what the store keeps of it; `run resume`: on from a checkpoint. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/history/redo.h"

/* ---------------------------------------------------------------- words of its command line */

enum { MOST_WORDS = 128 };
typedef struct words {
    char *at[MOST_WORDS + 1];
    int n;
} words;

static dl_status add(words *w, const char *text, size_t n) {
    if (w->n == MOST_WORDS) return dlsh_fail(DL_ERR_VALUE, NULL, "a script takes at most %d arguments", MOST_WORDS);
    if (!(w->at[w->n] = strndup(text, n))) return dlsh_no_memory("the arguments of a script");
    w->n++;
    return DL_OK;
}

static void words_free(words *w) {
    while (w->n) free(w->at[--w->n]);
}

static size_t name_length(const char *c) {
    size_t n = strspn(c, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return c[n] == '=' ? n : 0;
}

static int is_given(const dlsh_args *a, const char *word) {
    const char *name;
    const dlsh_value *v;
    for (int i = 0; (name = dlsh_arg_extra(a, i, &v)); i++)
        if (strlen(name) == name_length(word) && !strncmp(word, name, strlen(name))) return 1;
    return 0;
}

static const dl_param_info *param_of(const dl_run_info *r, const char *word) {
    size_t n = name_length(word);
    for (long i = 0; n && i < r->nparam; i++)
        if (strlen(r->params[i].key) == n && !strncmp(r->params[i].key, word, n)) return &r->params[i];
    return NULL;
}

/* Where a recorded argument ends. Its value may have spaces, and words that look like arguments: the run has it as a
 * parameter, too. Where that was set to something else since, the next argument begins with the name of one. */
static const char *end_of(const dl_run_info *r, const char *c) {
    const dl_param_info *p = param_of(r, c);
    size_t n = p ? strlen(p->value) : 0;
    const char *value = c + name_length(c) + 1, *end = p && !strncmp(value, p->value, n) ? value + n : NULL;
    if (end && (!*end || (*end == ' ' && param_of(r, end + 1)))) return end;
    for (end = c; (end = strchr(end + 1, ' ')) && !param_of(r, end + 1);) continue;
    return end ? end : c + strlen(c);
}

static const char *last_event(const dl_run_info *r, const char *kind) {
    for (long i = r->nevent - 1; i >= 0; i--)
        if (!strcmp(r->events[i].kind, kind)) return r->events[i].text;
    return NULL;
}

const char *dlsh_arguments_of(const dl_run_info *r) {
    const char *later = last_event(r, DLSH_ARGUMENTS);
    return later ? later : r->script_args;
}

/* The recorded arguments but those that are given anew. */
static dl_status add_arguments(const dlsh_args *a, const dl_run_info *r, words *w) {
    const char *name, *c = dlsh_arguments_of(r);
    const dlsh_value *v;
    while (*c) {
        const char *end = end_of(r, c);
        if (!is_given(a, c)) DLSH_TRY(add(w, c, (size_t)(end - c)));
        c = *end ? end + 1 : end;
    }
    for (int i = 0; (name = dlsh_arg_extra(a, i, &v)); i++) {
        DLSH_SCOPED_BUF word = {0};
        dlsh_buf_printf(&word, "%s=", name);
        DLSH_TRY(dlsh_text(&word, *v));
        DLSH_TRY(add(w, dlsh_buf_text(&word), word.n));
    }
    return DL_OK;
}

/* Where it runs: the folder of then below a root of its own, and the script there; and what the process is told. */
typedef struct scratch {
    dlsh_buf root, folder, script, orders;
} scratch;

/* The seed that the process began with: that of its command line, or of the trial of a sweep. The script may set
 * another one. */
static unsigned long first_seed(const dl_run_info *r) {
    const char *option = strstr(r->cmdline, " --seed");
    if (r->sweep) return r->seed;
    return option ? strtoul(option + 8, NULL, 10) : 0;
}

static dl_status make_words(const dlsh_args *a, dl_store *store, const dl_run_info *r, scratch *x, words *w) {
    char seed[24], db[4096], self[4096];
    const char *script = *r->script_path == '/' ? dlsh_buf_text(&x->script) : r->script_path;
    if (x->orders.n) script = r->script_path;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) return dlsh_fail(DL_ERR_IO, NULL, "the program is not found: %s", strerror(errno));
    self[n] = 0;
    DLSH_SCOPED_BUF root = {0}, lent = {0};
    dlsh_buf_printf(&root, "DLSH_RERUN_ROOT=%s", dlsh_buf_text(&x->root));
    dlsh_buf_printf(&lent, "DLCORE_LENT=%s", dlsh_buf_text(&x->root));
    if (!x->orders.n) dlsh_buf_puts(&x->orders, DLSH_RESUME "=");
    snprintf(seed, sizeof seed, "%lu", first_seed(r));
    if (!realpath(dl_store_path(store), db)) return dlsh_fail(DL_ERR_IO, NULL, "the store is gone");
    const char *first[] = {"env",
                           dlsh_buf_text(&root),
                           dlsh_buf_text(&lent),
                           dlsh_buf_text(&x->orders),
                           self,
                           "-n",
                           "-q",
                           "--db",
                           db,
                           "--seed",
                           seed,
                           "--device",
                           strncmp(r->device, "cuda", 4) ? "cpu" : "cuda",
                           script};
    for (size_t i = 0; i < DLSH_COUNT(first); i++) DLSH_TRY(add(w, first[i], strlen(first[i])));
    return add_arguments(a, r, w);
}

/* ---------------------------------------------------------------- the scratch folder */

#define SCRATCH "dlsh-rerun-"
enum { MOST_LINKS = 20000 /* then folders are linked, not made anew */ };

/* Links the files of a folder of then into that of now, but repositories and stores: the script finds its data. Folders
 * in it are made anew, so that what is written there does not reach those of then. */
static dl_status link_entries(const char *from, const char *to, int *links) {
    DIR *d = opendir(from);
    dl_status st = DL_OK;
    for (struct dirent *e; !st && d && (e = readdir(d));) {
        DLSH_SCOPED_BUF x = {0}, y = {0};
        struct stat s;
        const char *store = strstr(e->d_name, ".db");
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, ".git")) continue;
        if ((store && (!store[3] || store[3] == '-')) || !strncmp(e->d_name, SCRATCH, strlen(SCRATCH))) continue;
        dlsh_buf_printf(&x, "%s/%s", from, e->d_name);
        dlsh_buf_printf(&y, "%s/%s", to, e->d_name);
        const char *there = dlsh_buf_text(&x), *here = dlsh_buf_text(&y);
        const int folder = ++*links < MOST_LINKS && !lstat(there, &s) && S_ISDIR(s.st_mode);
        if ((folder ? mkdir(here, 0777) : symlink(there, here)) && errno != EEXIST)
            st = dlsh_fail(DL_ERR_IO, NULL, "%s: %s", here, strerror(errno));
        else if (folder)
            st = link_entries(there, here, links);
    }
    if (d) closedir(d);
    return st;
}

static dl_status make_root(scratch *x) {
    const char *tmp = getenv("TMPDIR");
    char root[4096];
    snprintf(root, sizeof root, "%s/" SCRATCH "XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(root)) return dlsh_fail(DL_ERR_IO, NULL, "a folder %s cannot be made: %s", root, strerror(errno));
    dlsh_buf_puts(&x->root, root);
    return DL_OK;
}

static void remove_root(scratch *x) {
    int code;
    char *argv[] = {(char *)"rm", (char *)"-rf", (char *)dlsh_buf_text(&x->root), NULL};
    dl_error before;
    dl_status had = dl_error_take(&before);
    if (dlsh_run_program("rm", argv, NULL, &code)) dl_error_clear();
    if (had) dl_error_put(&before);
}

/* A folder with the script and what it read, at the paths that they had below the root, and links to the data. */
static dl_status make_scratch(dl_store *store, const dl_run_info *r, scratch *x) {
    DLSH_TRY(make_root(x));
    const char *root = dlsh_buf_text(&x->root);
    dlsh_buf_printf(&x->folder, "%s%s/", root, r->cwd);
    DLSH_TRY(dlsh_make_folders(dlsh_buf_text(&x->folder)));
    DLSH_TRY(dlsh_restore_texts(store, r, root, "", &x->script));
    int links = 0;
    return link_entries(r->cwd, dlsh_buf_text(&x->folder), &links);
}

/* ---------------------------------------------------------------- the run that it gives */

dl_status dlsh_ask(dl_store *store, const char *sql, long *out) {
    DLSH_ENDED(dl_rows_free) dl_rows *q = dl_store_sql(store, sql);
    int found = q ? dl_rows_next(q) : -1;
    *out = found == 1 ? dl_rows_int(q, 0) : -1;
    return found < 0 ? dl_failed() : DL_OK;
}

static long ask(dl_store *store, const char *sql) {
    long n;
    dlsh_ask(store, sql, &n);
    return n;
}

/* A process may have several runs: how many it had begun before this one. */
static long place_of(dl_store *store, const dl_run_info *r) {
    char sql[400];
    for (long i = r->nevent - 1; i >= 0; i--)
        if (!strcmp(r->events[i].kind, DLSH_PLACE)) return strtol(r->events[i].text, NULL, 10);
    snprintf(sql, sizeof sql,
             "select count(*) from run a, run b where b.id = %ld and a.id < b.id and a.host = b.host and a.boot_id ="
             " b.boot_id and a.pid = b.pid and a.pid_start = b.pid_start",
             r->id);
    return ask(store, sql);
}

static long newest_run(dl_store *store) { return ask(store, "select coalesce(max(id), 0) from run"); }

/* The new run that has the place that `r` had. */
static long counterpart(dl_store *store, const dl_run_info *r, long newest) {
    char sql[200];
    snprintf(sql, sizeof sql,
             "select id from run where id > %ld and cwd like '%%" SCRATCH "%%' order by id limit 1 offset %ld", newest,
             place_of(store, r));
    return ask(store, sql);
}

static const char *weights_of(const dl_run_info *r) { return last_event(r, "weights"); }

static dl_status say_result(const dlsh_args *a, dl_store *store, const dl_run_info *r, long id) {
    char tag[40];
    snprintf(tag, sizeof tag, "rerun=%ld", r->id);
    DLSH_TRY(dl_run_tag(store, id, tag, 1));
    DLSH_ENDED(dl_run_list_free) dl_run_list *l = dl_run_show(store, id);
    if (!l) return dl_failed();
    const char *was = weights_of(r), *is = weights_of(l->runs);
    dlsh_sink *sink = dlsh_arg_sink(a);
    dlsh_put(sink, "run %ld is run %ld again: %s", id, r->id, dl_run_status_name(l->runs->status));
    if (was && is) dlsh_put(sink, ", %s weights %.12s", strcmp(was, is) ? "other" : "the same", is);
    dlsh_put(sink, "\n");
    return dlsh_diff_show(a, store, r->id, id, 1);
}

static dl_status rerun_in(const dlsh_args *a, dl_store *store, const dl_run_info *r, scratch *x) {
    const char *folder = dlsh_buf_text(&x->folder);
    words w = {0};
    int code = 0;
    long newest = newest_run(store);
    dl_status st = make_words(a, store, r, x, &w);
    dlsh_put(dlsh_arg_sink(a), "in %s\n", folder);
    dlsh_arg_sink(a)->ops->flush(dlsh_arg_sink(a));
    if (!st) st = dlsh_run_program("env", w.at, folder, &code);
    words_free(&w);
    DLSH_TRY(st);
    long id = counterpart(store, r, newest);
    if (id > 0) DLSH_TRY(say_result(a, store, r, id));
    if (code)
        return dlsh_arg_fail(a, "run", code == 130 ? DL_ERR_INTERRUPT : DL_ERR_STATE, NULL,
                             "the script of run %ld ended with status %d", r->id, code);
    if (id > 0) return DL_OK;
    return dlsh_arg_fail(a, "run", DL_ERR_STATE, NULL, "the script of run %ld began fewer runs than then", r->id);
}

static dl_status check_script(const dlsh_args *a, const dl_run_info *r) {
    if (*r->script_path) return DL_OK;
    return dlsh_arg_fail(a, "run", DL_ERR_STATE, "runs of scripts can be run again: dlsh train.dlsh",
                         "run %ld has no script: it was made at the prompt", r->id);
}

static void scratch_free(scratch *x) {
    dlsh_buf_free(&x->root);
    dlsh_buf_free(&x->folder);
    dlsh_buf_free(&x->script);
    dlsh_buf_free(&x->orders);
}

static dl_status rerun(const dlsh_args *a, dl_store *store, const dl_run_info *r) {
    DLSH_TRY(check_script(a, r));
    DLSH_TRY(dlsh_warn_of_changes(a, store, r));
    DLSH_SCOPED(scratch_free) scratch x = {0};
    DLSH_TRY(make_scratch(store, r, &x));
    return rerun_in(a, store, r, &x);
}

/* ---------------------------------------------------------------- on from a checkpoint */

/* The newest checkpoint that is still as it was written, of step `step` unless that is -1. NULL: none. */
static const dl_artifact_info *checkpoint_of(const dl_run_info *r, long step) {
    const dl_artifact_info *best = NULL;
    char sha[65];
    for (long i = 0; i < r->nartifact; i++) {
        const dl_artifact_info *c = &r->artifacts[i];
        if (strcmp(c->kind, "checkpoint") || !*c->path || (step >= 0 && c->step != step)) continue;
        if (best && c->step < best->step) continue;
        if (dl_artifact_sha(c->path, sha))
            dl_error_clear();
        else if (!strcmp(sha, c->sha))
            best = c;
    }
    return best;
}

static dl_status no_checkpoint(const dlsh_args *a, const dl_run_info *r, long step) {
    const dl_artifact_info *newest = checkpoint_of(r, -1);
    char hint[200];
    if (newest)
        snprintf(hint, sizeof hint, "the newest is that of step %ld", newest->step);
    else
        snprintf(hint, sizeof hint,
                 "trainer(..., checkpoint=\"t.safetensors\") writes them, and save record(m=m, o=o, rng=rng_state(), "
                 "step=i) FILE in a loop; run rerun %ld begins anew",
                 r->id);
    return step >= 0
               ? dlsh_arg_fail(a, "step", DL_ERR_STATE, hint,
                               "run %ld has no checkpoint of step %ld that is still as it was written", r->id, step)
               : dlsh_arg_fail(a, "run", DL_ERR_STATE, hint,
                               "run %ld has no checkpoint that is still as it was written", r->id);
}

/* How often a run has been taken up. */
static long times_resumed(dl_store *store, long id) {
    char sql[100];
    snprintf(sql, sizeof sql, "select count(*) from event where run_id = %ld and kind = 'resume'", id);
    return ask(store, sql);
}

static dl_status resume_in(const dlsh_args *a, dl_store *store, const dl_run_info *r, scratch *x) {
    words w = {0};
    int code = 0;
    const long before = times_resumed(store, r->id);
    dl_status st = make_words(a, store, r, x, &w);
    dlsh_arg_sink(a)->ops->flush(dlsh_arg_sink(a));
    if (!st) st = dlsh_run_program("env", w.at, r->cwd, &code);
    words_free(&w);
    DLSH_TRY(st);
    if (code)
        return dlsh_arg_fail(a, "run", code == 130 ? DL_ERR_INTERRUPT : DL_ERR_STATE, NULL,
                             "the script of run %ld ended with status %d", r->id, code);
    if (times_resumed(store, r->id) == before)
        return dlsh_arg_fail(a, "run", DL_ERR_STATE,
                             "train and step go on with the run of a trainer, start_run with that of a loop by hand",
                             "the script has not gone on with run %ld", r->id);
    DLSH_ENDED(dl_run_list_free) dl_run_list *l = dl_run_show(store, r->id);
    if (!l) return dl_failed();
    const char *weights = weights_of(l->runs);
    dlsh_put(dlsh_arg_sink(a), "run %ld: %s%s%.12s\n", r->id, dl_run_status_name(l->runs->status),
             weights ? ", weights " : "", weights ? weights : "");
    return DL_OK;
}

static dl_status check_resumable(const dlsh_args *a, const dl_run_info *r) {
    DLSH_TRY(check_script(a, r));
    if (r->status == DL_RUN_RUNNING || r->status == DL_RUN_PAUSED)
        return dlsh_arg_fail(a, "run", DL_ERR_STATE, "it can be resumed when its process has ended",
                             "run %ld is going on in process %ld", r->id, r->pid);
    if (access(r->cwd, X_OK))
        return dlsh_arg_fail(a, "run", DL_ERR_IO, NULL, "the folder of run %ld, %s: %s", r->id, r->cwd,
                             strerror(errno));
    if (!strstr(r->env_json, dl_version()))
        dlsh_warn(dlsh_arg_session(a), NULL, "run %ld was begun with another version of dlsh than %s", r->id,
                  dl_version());
    return DL_OK;
}

/* A loop by hand goes on only where its script asks for the checkpoint. */
static dl_status check_by_hand(const dlsh_args *a, dl_store *store, const dl_run_info *r) {
    char sql[300];
    long asks;
    snprintf(
        sql, sizeof sql,
        "select count(*) from artifact a join blob b on b.sha = a.sha where a.run_id = %ld and a.kind in ('script',"
        " 'source') and instr(b.data, 'resumed(') > 0",
        r->id);
    DLSH_TRY(dlsh_ask(store, sql, &asks));
    if (asks) return DL_OK;
    return dlsh_arg_fail(a, "run", DL_ERR_STATE, "if resumed() { load(state, resumed()); }, before the loop",
                         "the script of run %ld does not call resumed(), so its loop cannot go on", r->id);
}

static dl_status resume(const dlsh_args *a, dl_store *store, const dl_run_info *r) {
    const long step = dlsh_given(a, "step") ? dlsh_arg_int(a, "step") : -1;
    DLSH_TRY(check_resumable(a, r));
    const dl_artifact_info *from = checkpoint_of(r, step);
    if (!from) return no_checkpoint(a, r, step);
    DLSH_TRY(dlsh_warn_of_changes(a, store, r));
    const int by_hand = !strcmp(from->name, DLSH_BY_HAND);
    if (by_hand) DLSH_TRY(check_by_hand(a, store, r));
    DLSH_SCOPED(scratch_free) scratch x = {0};
    dlsh_buf_printf(&x.orders, DLSH_RESUME "=%ld:%ld:%ld:%ld:%s", place_of(store, r), newest_run(store), r->id,
                    by_hand ? from->step : -1, from->path);
    dl_status st = make_root(&x);
    if (!st) st = dlsh_restore_texts(store, r, dlsh_buf_text(&x.root), "", &x.script);
    if (!st) st = resume_in(a, store, r, &x);
    if (x.root.n) remove_root(&x);
    return st;
}

static dl_status with_run(const dlsh_args *a, dl_status (*act)(const dlsh_args *, dl_store *, const dl_run_info *)) {
    dl_store *store;
    DLSH_ENDED(dl_run_list_free) dl_run_list *l = dlsh_named_run(a, &store);
    if (!l) return dl_failed();
    return act(a, store, l->runs);
}

dl_status dlsh_rerun_run(const dlsh_args *a, dlsh_value *result) { return (void)result, with_run(a, rerun); }
dl_status dlsh_resume_run(const dlsh_args *a, dlsh_value *result) { return (void)result, with_run(a, resume); }
