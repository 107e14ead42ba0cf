/* Running the trials of a sweep: workers start processes, each of which runs one trial. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "commands/history/sweep.h"
#include "view/text.h"

extern char **environ;

/* ---------------------------------------------------------------- the process of one trial */

typedef struct words {
    char **at;
    int n;
} words;

/* Takes the text. */
static dl_status add_word(words *w, dlsh_buf *text) {
    char *copy = strdup(dlsh_buf_text(text));
    dlsh_buf_free(text);
    if (!copy) return dlsh_no_memory("the arguments of a trial");
    w->at[w->n++] = copy;
    return DL_OK;
}

/* "lr=0.01", ... for the script, and the same as JSON for readers of the store. */
static dl_status make_words(const dl_trial *t, dlsh_value space, int seeded, words *w, dlsh_buf *json) {
    const char *name;
    dlsh_buf_puts(json, "{");
    for (int i = 0; (name = dlsh_space_name(space, i)); i++) {
        dlsh_buf word = {0};
        DLSH_DROPPED dlsh_value v = dlsh_void();
        if (i >= t->ndim) return dlsh_fail(DL_ERR_STORE, NULL, "the trial in the store is damaged");
        DLSH_TRY(dlsh_space_value(space, i, t->point[i], &v));
        dlsh_buf_printf(json, "%s\"%s\":", i ? "," : "", name);
        dl_status st = dlsh_json(json, v);
        dlsh_buf_printf(&word, "%s=", name);
        if (!st) st = dlsh_text(&word, v);
        DLSH_TRY(st);
        DLSH_TRY(add_word(w, &word));
    }
    if (t->seeded) {
        DLSH_SCOPED_BUF word = {0};
        dlsh_buf_printf(json, "%s\"seed\":%ld", w->n ? "," : "", t->seed);
        dlsh_buf_printf(&word, "seed=%ld", t->seed);
        if (seeded) DLSH_TRY(add_word(w, &word));
    }
    dlsh_buf_puts(json, "}");
    return DL_OK;
}

/* Does the script declare an argument `seed`? The check at the beginning of the sweep has read it whole. */
static int declares_seed(const char *script) {
    const char *line = strstr(script, "args ");
    size_t n = line ? strcspn(line, "\n;") : 0;
    const char *seed = line ? strstr(line, "seed=") : NULL;
    return seed && seed < line + n && (seed[-1] == ' ' || seed[-1] == '\t');
}

static dl_status enter(const dlsh_args *a, dl_store *store, const dlsh_sweep *w, const dl_trial *t, words *args) {
    DLSH_SCOPED_BUF json = {0}, joined = {0};
    DLSH_DROPPED dlsh_value space = dlsh_void();
    DLSH_TRY(dlsh_space_parse(dlsh_arg_session(a), w->text, &space));
    DLSH_TRY(make_words(t, space, declares_seed(w->script), args, &json));
    DLSH_TRY(dl_trial_describe(store, t->id, dlsh_buf_text(&json)));
    if (*w->cwd && chdir(w->cwd))
        dlsh_warn(dlsh_arg_session(a), NULL, "the folder of the sweep, %s, is not here: %s", w->cwd, strerror(errno));
    for (int i = 0; i < args->n; i++) dlsh_buf_printf(&joined, "%s%s", i ? " " : "", args->at[i]);
    DLSH_TRY(dlsh_origin_set(&(dlsh_origin){w->script_path, w->script, dlsh_buf_text(&joined)}));
    dlsh_script_args *given = dlsh_script_args_get();
    given->n = args->n, given->words = args->at;
    if (t->seeded) dl_seed((unsigned long)t->seed);
    dl_trial_enter(t);
    return DL_OK;
}

/* The runs of trainers and of variables end. */
static void drop_variables(dlsh_session *s) {
    for (int i = dlsh_global_count(s); i-- > 0;) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(s, i, &v);
        if (v && dlsh_unset(s, name)) dl_error_clear();
    }
}

/* What a script that has ended leaves: how, and why. */
static dl_status settle(const dlsh_args *a, dl_store *store, const dl_trial *t, dl_status ran) {
    int paused = dl_trial_paused(), code = 0;
    const int exited = !ran && dlsh_exiting(dlsh_arg_session(a), &code) && code;
    dl_trial_end_kind how = paused                    ? DL_TRIAL_PAUSED
                            : exited                  ? DL_TRIAL_FAILED
                            : !ran                    ? DL_TRIAL_FINISHED
                            : ran == DL_ERR_INTERRUPT ? DL_TRIAL_GIVEN_BACK
                                                      : DL_TRIAL_FAILED;
    DLSH_SCOPED_BUF why = {0};
    if (ran) dlsh_failure_take(dlsh_arg_session(a), &why);
    if (exited) dlsh_buf_printf(&why, "exit %d", code);
    dl_trial_enter(&(dl_trial){.sweep = t->sweep}); /* what is left to be pushed has no limit */
    dl_interrupt_set(0);
    if (how == DL_TRIAL_FAILED || how == DL_TRIAL_GIVEN_BACK) dlsh_end_by(dlsh_buf_text(&why));
    drop_variables(dlsh_arg_session(a));
    dlsh_end_by(NULL);
    DLSH_TRY(dl_store_flush(store));
    return dl_trial_end(store, t->id, how, how == DL_TRIAL_FAILED ? dlsh_buf_text(&why) : NULL);
}

static dl_status run_trial(const dlsh_args *a, dl_store *store, const dl_trial *t, words *args) {
    char ref[24];
    DLSH_SCOPED_SWEEP w = {0};
    snprintf(ref, sizeof ref, "%ld", t->sweep);
    DLSH_TRY(dlsh_sweep_find(a, store, ref, &w));
    dl_status st = enter(a, store, &w, t, args);
    if (!st)
        st = dlsh_run(dlsh_arg_session(a), *w.script_path ? w.script_path : w.name, w.script, strlen(w.script), NULL);
    return settle(a, store, t, st);
}

dl_status dlsh_sweep_trial(const dlsh_args *a, dl_store *store, long id) {
    dl_trial t;
    char *at[DL_SWEEP_DIMS + 1];
    words args = {at, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* with its worker: another one runs the trial then */
    DLSH_TRY(dl_trial_take(store, id, &t));
    dl_status st = run_trial(a, store, &t, &args);
    dlsh_script_args_get()->n = 0;
    while (args.n) free(at[--args.n]);
    dlsh_exit(dlsh_arg_session(a), 0);
    return st;
}

/* ---------------------------------------------------------------- workers */

typedef struct job {
    pid_t pid;
    long trial;
    double beat; /* when the last heartbeat was sent */
} job;

typedef struct crew {
    const dlsh_args *a;
    dl_store *store;
    const dlsh_sweep *w;
    job *jobs;
    long n, most;
    int done, stopping;
} crew;

static double clock_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static dl_status start(crew *c, const dl_trial *t) {
    char id[24], path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0) return dlsh_fail(DL_ERR_IO, NULL, "the program is not found: %s", strerror(errno));
    path[n] = 0;
    snprintf(id, sizeof id, "%ld", t->id);
    char *argv[12] = {(char *)"dlsh", (char *)"-q", (char *)"--db", (char *)dl_store_path(c->store)};
    int k = 4;
    if (!dlsh_default_device()) argv[k++] = (char *)"--device", argv[k++] = (char *)"cpu";
    argv[k++] = (char *)"sweep", argv[k++] = (char *)"trial", argv[k++] = id;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0); /* runs keep what is printed */
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    job *j = &c->jobs[c->n];
    int failed = posix_spawn(&j->pid, path, &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed) {
        dl_trial_lost(c->store, t->id, getpid(), NULL);
        return dlsh_fail(DL_ERR_IO, NULL, "no process can be started: %s", strerror(failed));
    }
    j->trial = t->id;
    j->beat = clock_s();
    c->n++;
    return DL_OK;
}

/* The parameters of a trial, JSON in the store, as they are written: lr=0.01 opt=adam. */
static void put_params(dlsh_buf *b, const char *text) {
    json_t *all = json_loads(text, 0, NULL), *one;
    const char *name;
    json_object_foreach(all, name, one) {
        char *value =
            json_is_string(one) ? NULL : json_dumps(one, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12));
        dlsh_buf_printf(b, "  %s=%s", name, json_is_string(one) ? json_string_value(one) : value ? value : "");
        free(value);
    }
    json_decref(all);
}

/* A line about a trial that has ended. */
static void say(const crew *c, long trial) {
    char sql[400];
    snprintf(
        sql, sizeof sql,
        "select number, coalesce(params, ''), status, value, (ended_us - started_us) / 1e6, coalesce(error, '') from"
        " trial where id = %ld and status not in ('waiting', 'running')",
        trial);
    dl_rows *r = dl_store_sql(c->store, sql);
    if (r && dl_rows_next(r) == 1) {
        DLSH_SCOPED_BUF b = {0};
        dlsh_buf_printf(&b, "trial %ld of %ld", dl_rows_int(r, 0), c->w->trials);
        put_params(&b, dl_rows_text(r, 1));
        dlsh_buf_printf(&b, "  %s", dl_rows_text(r, 2));
        if (dl_rows_type(r, 3) != 'n') dlsh_buf_printf(&b, "  %.6g", dl_rows_float(r, 3));
        dlsh_buf_puts(&b, "  ");
        dlsh_duration(&b, dl_rows_float(r, 4));
        if (*dl_rows_text(r, 5)) dlsh_buf_printf(&b, "  %s", dl_rows_text(r, 5));
        dlsh_one_line(b.s, b.n);
        dlsh_put(dlsh_arg_sink(c->a), "%s\n", dlsh_buf_text(&b));
        dlsh_arg_sink(c->a)->ops->flush(dlsh_arg_sink(c->a));
    }
    dl_rows_free(r);
    dl_error_clear();
}

/* Has another process of this worker the trial by now? It was claimed again before the end of the first was seen. */
static int is_again(const crew *c, long trial) {
    for (long i = 0; i < c->n; i++)
        if (c->jobs[i].trial == trial) return 1;
    return 0;
}

static dl_status ended(crew *c, const job *j, int status) {
    int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0, code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    int killed = sig == SIGKILL || sig == SIGTERM || sig == SIGHUP || sig == SIGINT || code == 130 || c->stopping;
    char why[120];
    if (sig)
        snprintf(why, sizeof why, "its process crashed: %s", strsignal(sig));
    else
        snprintf(why, sizeof why, "its process ended with status %d", code);
    DLSH_TRY(dl_trial_lost(c->store, j->trial, j->pid, killed ? NULL : why));
    if (!is_again(c, j->trial)) /* it had not yet taken it over */
        DLSH_TRY(dl_trial_lost(c->store, j->trial, getpid(), killed ? NULL : why));
    say(c, j->trial);
    return DL_OK;
}

/* Children that have ended; heartbeats of the others. Returns how many have ended, -1: failed. */
static int reap(crew *c) {
    int gone = 0;
    for (long i = 0; i < c->n;) {
        job *j = &c->jobs[i];
        int status = 0;
        pid_t pid = waitpid(j->pid, &status, WNOHANG);
        if (!pid) {
            if (clock_s() - j->beat > 15) j->beat = clock_s(), dl_trial_beat(c->store, j->trial);
            i++;
            continue;
        }
        job was = *j;
        *j = c->jobs[--c->n];
        gone++;
        if (ended(c, &was, status)) return -1;
    }
    return gone;
}

static dl_status claim(crew *c) {
    dl_trial t;
    dl_claim got = DL_CLAIM_GOT;
    while (c->n < c->most && !c->stopping && got == DL_CLAIM_GOT) {
        DLSH_TRY(dl_trial_claim(c->store, c->w->id, &t, &got));
        if (got == DL_CLAIM_GOT) DLSH_TRY(start(c, &t));
    }
    c->done = got == DL_CLAIM_DONE;
    return DL_OK;
}

static void stop(crew *c, int sig) {
    c->stopping = 1;
    for (long i = 0; i < c->n; i++) kill(c->jobs[i].pid, sig);
}

static dl_status supervise(crew *c) {
    DLSH_TRY(claim(c));
    double asked = clock_s();
    while (c->n || !(c->done || c->stopping)) {
        usleep(2000);
        int gone = reap(c);
        if (gone < 0) return dl_failed();
        if (dlsh_interrupted() && !c->stopping) stop(c, SIGINT);
        /* others may end, or be killed: then there is more to do */
        if (!gone && clock_s() - asked <= 0.3) continue;
        DLSH_TRY(claim(c));
        asked = clock_s();
    }
    return DL_OK;
}

/* Threads of the processes share the processors, unless the user has chosen. */
static void share_processors(long jobs) {
    char threads[24];
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(threads, sizeof threads, "%ld", all > jobs ? all / jobs : 1);
    if (jobs > 1) setenv("OMP_NUM_THREADS", threads, 0);
}

dl_status dlsh_sweep_work(const dlsh_args *a, dl_store *store, const dlsh_sweep *w, long jobs) {
    crew c = {.a = a, .store = store, .w = w, .most = jobs, .jobs = calloc((size_t)jobs, sizeof(job))};
    if (!c.jobs) return dlsh_no_memory("the processes of a sweep");
    int chosen = getenv("OMP_NUM_THREADS") != NULL;
    share_processors(jobs);
    dl_status st = supervise(&c);
    if (!chosen) unsetenv("OMP_NUM_THREADS");
    if (c.n) { /* after a failure */
        dl_error e = dlsh_taken_error();
        stop(&c, SIGINT);
        while (c.n && reap(&c) >= 0) usleep(2000);
        st = dl_error_put(&e);
    }
    free(c.jobs);
    if (st || !c.stopping) return st;
    return dlsh_fail(DL_ERR_INTERRUPT, NULL, "the sweep was interrupted; sweep resume %ld goes on", w->id);
}
