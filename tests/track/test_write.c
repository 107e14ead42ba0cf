/* Recording: the figures of a run, points and their statistics, resume, several runs in one process. */
#include "track/support.h"

#include <pthread.h>
#include <time.h>
#include "track/store.h"

static const dl_run_spec spec = {
    .name = "first",
    .script_path = "a.dlsh",
    .script_text = "train t\n",
    .script_args = "epochs=5",
    .cmdline = "dlsh a.dlsh epochs=5",
    .device = "cpu",
    .seed = 42,
    .model_name = "m",
    .model_text = "linear 10",
    .n_params = 7850,
    .dataset = "digits",
    .data_fingerprint = "abc",
    .params = (const char *const[]){"lr", "1e-3", "opt", "adam", NULL},
    .env = (const char *const[]){"driver", "570.1", NULL},
};

static void records_surroundings(void **state) {
    (void)state;
    dl_store *s = dl_store_open(db_path);
    has(s);
    assert_int_not_equal(access(db_path, F_OK), 0); /* made by the first run, not before */
    dl_run *r = dl_run_begin(s, &spec);
    has(r);
    assert_int_equal(dl_run_id(r), 1);
    assert_string_equal(ask_text("select status from run"), "running");
    assert_int_equal(ask("select pid from run"), getpid());
    assert_string_equal(
        ask_text("select name || seed || device || n_params || dataset || data_fp || cmdline || script_args"
                 " from run"),
        "first42cpu7850digitsabcdlsh a.dlsh epochs=5epochs=5");
    assert_string_equal(ask_text("select b.data from run r join blob b on b.sha = r.script_sha"), "train t\n");
    assert_string_equal(ask_text("select json_extract(env_json, '$.driver') from run"), "570.1");
    assert_string_equal(ask_text("select json_extract(env_json, '$.sqlite') from run"), sqlite3_libversion());
    assert_true(ask("select num from param where key = 'lr'") == 1e-3);
    assert_true(isnan(ask("select num from param where key = 'opt'")));
    char cwd[4096];
    assert_string_equal(ask_text("select cwd from run"), getcwd(cwd, sizeof cwd));
    assert_int_equal(ask("select length(boot_id) from run"), 36);
    assert_true(ask("select pid_start from run") > 0);
    ok(dl_run_end(r, DL_RUN_FAILED, "boom"));
    assert_string_equal(ask_text("select status || error || (ended_us >= started_us) from run"), "failedboom1");
    ok(dl_store_close(s));
    assert_int_equal(count_files(""), 1); /* neither ring nor WAL is left */
}

static void finds_command_line(void **state) {
    (void)state;
    char *line = dl_cmdline();
    has(line);
    assert_non_null(strstr(line, "test_track_write"));
    free(line);
}

/* In a folder with a fresh repository, with the working directory put back afterwards. */
static void asks_git(void **state) {
    (void)state;
    char old[4096], cmd[1024];
    dl_git_state g;
    assert_non_null(getcwd(old, sizeof old));
    assert_int_equal(chdir(dir), 0);
    dl_git_read_state(&g); /* the temporary folder is in no work tree */
    assert_string_equal(g.commit, "");
    int have_git = !system("git --version >/dev/null 2>&1");
    if (have_git) {
        snprintf(
            cmd, sizeof cmd,
            "git init -q . && echo a > f && git add f && git -c user.name=x -c user.email=x@example.org commit -qm m");
        assert_int_equal(system(cmd), 0);
        dl_git_read_state(&g);
        assert_int_equal(strlen(g.commit), 40);
        assert_string_equal(g.diff_sha, "");
        assert_int_equal(system("echo b >> f"), 0);
        dl_git_read_state(&g);
        assert_int_equal(strlen(g.diff_sha), 64);
        free(g.diff);
        assert_int_equal(system("rm -rf .git f"), 0);
    }
    assert_int_equal(chdir(old), 0);
    if (!have_git) skip();
}

static void keeps_statistics(void **state) {
    (void)state;
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    has(r);
    assert_string_equal(ask_text("select name from run"), "run-1");
    const double v[] = {3, NAN, -2, INFINITY, 5};
    for (int round = 0; round < 5; round++) {
        ok(dl_metric(r, "loss", round, v[round]));
        ok(dl_store_flush(s)); /* a transaction each, so that merging is tested */
    }
    assert_int_equal(ask("select count(*) from series where key = 'train/loss'"), 1);
    assert_string_equal(ask_text("select printf('%d %d %g %d %g %d %g %d %g %d', n, n_nan, first, first_step, last,"
                                 " last_step, min, min_step, max, max_step) from series"),
                        "5 1 3 0 5 4 -2 2 Inf 3");
    assert_true(isnan(ask("select value from metric where step = 1")));
    assert_true(isinf(ask("select value from metric where step = 3")));
    /* earlier steps, and a step again: the latest value counts */
    ok(dl_metric(r, "loss", -1, 9));
    ok(dl_metric(r, "loss", 3, 1));
    ok(dl_metric(r, "loss", 7, 4));
    ok(dl_metric(r, "loss", 7, 6));
    ok(dl_store_flush(s));
    assert_string_equal(ask_text("select printf('%d %d %g %g %d %g %d %g %d %g %d', n, n_nan, sum, first, first_step,"
                                 " last, last_step, min, min_step, max, max_step) from series"),
                        "7 1 22 9 -1 6 7 -2 2 9 -1");
    assert_int_equal(ask("select count(*) from metrics where run = 1 and key = 'train/loss'"), 7);
    assert_true(fabs(ask("select max(ts) from metrics") - (double)time(NULL)) < 60);
    /* all NaN */
    ok(dl_metric(r, "test/acc", 0, NAN));
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    assert_string_equal(
        ask_text("select printf('%d %d', n, n_nan) || typeof(min) || typeof(last) from series where key ="
                 " 'test/acc'"),
        "1 1nullnull");
    ok(dl_store_close(s));
    assert_sound();
}

/* Statistics kept step by step equal those computed from all points. */
static void merges_like_rebuild(void **state) {
    (void)state;
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    unsigned x = 12345;
    for (int i = 0; i < 4000; i++) {
        x = x * 1664525u + 1013904223u;
        double v = (x >> 8) % 17 == 0 ? NAN : (double)((x >> 12) % 1000) - 500;
        ok(dl_metric(r, i % 3 ? "a" : "b", (long)((x >> 4) % 1500), v));
        if (i % 97 == 0) ok(dl_store_flush(s));
    }
    ok(dl_store_flush(s));
    char before[4096];
    const char *all = "select group_concat(printf('%d %d %g %g %d %g %d %g %g', n, n_nan, sum, first, first_step, last,"
                      " last_step, min, max), ';') from series order by id";
    snprintf(before, sizeof before, "%s", ask_text(all));
    ok(dl_store_write_lock(s));
    ok(dl_series_rebuild(s->w, 1));
    ok(dl_series_rebuild(s->w, 2));
    dl_store_write_unlock(s, DL_OK);
    assert_string_equal(ask_text(all), before);
    assert_int_equal(
        ask("select count(*) from series s where min != (select value from metric where series_id = s.id and"
            " step = min_step) or max != (select value from metric where series_id = s.id and step ="
            " max_step)"),
        0);
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    ok(dl_store_close(s));
}

static void resumes(void **state) {
    (void)state;
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    for (int i = 0; i < 100; i++) {
        ok(dl_metric(r, "loss", i, 100 - i));
        if (i >= 60) ok(dl_metric(r, "late", i, i));
    }
    assert_null(dl_run_resume(s, 1, 50, 0));
    error_says("still running");
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    assert_null(dl_run_resume(s, 7, 50, 0));
    error_says("no run 7");
    has(r = dl_run_resume(s, 1, 50, 0));
    assert_int_equal(dl_run_id(r), 1);
    assert_string_equal(ask_text("select status || typeof(ended_us) from run"), "runningnull");
    assert_string_equal(
        ask_text("select printf('%d %g %d %g %d', n, last, last_step, min, min_step) from series where key ="
                 " 'train/loss'"),
        "50 51 49 51 49");
    assert_int_equal(ask("select n from series where key = 'late'"), 0);
    assert_string_equal(ask_text("select kind || step from event"), "resume50");
    for (int i = 50; i < 55; i++) ok(dl_metric(r, "loss", i, 1));
    ok(dl_run_rewind(r, 52, 0));
    ok(dl_metric(r, "late", 52, 8));
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    assert_int_equal(ask("select n from series where key = 'train/loss'"), 52);
    assert_int_equal(ask("select n from series where key = 'late'"), 1);
    assert_int_equal(ask("select count(*) from metric"), 53);
    ok(dl_store_close(s));
}

static const char *epochs(void) {
    return ask_text("select printf('%d %g %d', n, last, last_step) from series where key = 'epoch/acc'");
}

/* Series that count something else than steps go back by the time at which the state was taken. */
static void resumes_by_time(void **state) {
    (void)state;
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    assert_int_equal(strlen(dl_run_uuid(r)), 36);
    long taken[4];
    for (int i = 0; i < 4; i++) {
        ok(dl_metric(r, "loss", 10 * i, i));
        ok(dl_metric(r, "epoch/acc", i, i));
        ok(dl_store_flush(s));
        const struct timespec moment = {.tv_nsec = 2000000};
        nanosleep(&moment, NULL);
        taken[i] = (long)dl_now_us();
        nanosleep(&moment, NULL);
    }
    ok(dl_run_end(r, DL_RUN_KILLED, NULL));
    has(r = dl_run_resume(s, 1, 21, taken[2]));
    assert_string_equal(epochs(), "3 2 2");
    ok(dl_metric(r, "epoch/acc", 3, 33));
    ok(dl_run_rewind(r, 11, taken[1]));
    assert_string_equal(epochs(), "2 1 1");
    ok(dl_metric(r, "epoch/acc", 2, 22));
    ok(dl_run_rewind(r, 21, taken[2])); /* this state is of before the last return: what is newer may belong to it */
    assert_string_equal(epochs(), "3 22 2");
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    ok(dl_store_close(s));
}

static void notes_things(void **state) {
    (void)state;
    dl_store *s = dl_store_open(db_path);
    assert_int_equal(dl_run_tag(s, 1, "good", 1), DL_ERR_NAME);
    assert_int_equal(count_files(""), 0);
    dl_run *r = dl_run_begin(s, NULL);
    ok(dl_run_param(r, "batch", "64"));
    ok(dl_run_event(r, 10, "lr", "halved", "{\"lr\":0.5}"));
    ok(dl_run_artifact(r, "w", 1, "weights", "data", 4));
    ok(dl_run_artifact(r, "w", 2, "weights", "data", 4));
    ok(dl_run_artifact(r, "nothing", 0, "text", NULL, 0));
    ok(dl_run_artifact_file(r, "db", 0, "file", "/etc/hostname"));
    assert_int_equal(dl_run_artifact_file(r, "db", 0, "file", "/no/such"), DL_ERR_IO);
    assert_int_equal(ask("select count(*) from artifact where kind <> 'diff'"), 4);
    assert_int_equal(ask("select count(*) from blob where sha not in (select sha from artifact where kind = 'diff')"),
                     2); /* the same contents are kept once */
    assert_string_equal(ask_text("select sha from artifact where name = 'w' and step = 1"),
                        "3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7");
    ok(dl_run_tag(s, 1, "good", 1));
    ok(dl_run_tag(s, 1, "good", 1));
    ok(dl_run_tag(s, 1, "bad", 1));
    ok(dl_run_tag(s, 1, "bad", 0));
    assert_string_equal(ask_text("select group_concat(tag) from tag"), "good");
    ok(dl_run_note(s, 1, "a note"));
    ok(dl_run_rename(s, 1, "better"));
    assert_string_equal(ask_text("select name || note from run"), "bettera note");
    ok(dl_run_pause(r, 1));
    assert_string_equal(ask_text("select status from run"), "paused");
    ok(dl_run_pause(r, 0));
    ok(dl_run_delete(s, 1, 1));
    assert_int_equal(ask("select deleted_us > 0 from run"), 1);
    ok(dl_run_delete(s, 1, 0));
    assert_int_equal(ask("select deleted_us is null from run"), 1);
    assert_int_equal(dl_run_note(s, 2, "x"), DL_ERR_NAME);
    assert_int_equal(dl_sweep_begin(s, &(dl_sweep_spec){.method = "grid", .metric = "test/loss"}), 1);
    ok(dl_store_close(s)); /* ends the run */
    assert_string_equal(ask_text("select status from run"), "finished");
}

static void keeps_nothing(void **state) {
    (void)state;
    dl_store *s = dl_store_open("none");
    has(s);
    assert_string_equal(dl_store_path(s), "");
    dl_run *r = dl_run_begin(s, &spec);
    has(r);
    assert_int_equal(dl_run_id(r), 0);
    for (int i = 0; i < 1000; i++) ok(dl_metric(r, "loss", i, i));
    ok(dl_run_param(r, "a", "b"));
    ok(dl_run_event(r, 1, "k", NULL, NULL));
    ok(dl_store_flush(s));
    assert_int_equal(dl_run_tag(s, 1, "t", 1), DL_ERR_STATE);
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    ok(dl_store_close(s));
    assert_int_equal(count_files(""), 0);
}

static void is_shared_in_a_process(void **state) {
    (void)state;
    char same[400];
    snprintf(same, sizeof same, "%s/./experiments.db", dir);
    dl_store *a = dl_store_open(db_path), *b = dl_store_open(same);
    assert_ptr_equal(a, b);
    ok(dl_store_close(b));
    has(dl_run_begin(a, NULL));
    ok(dl_store_close(a));
}

typedef struct pusher {
    dl_run *run;
    int id;
} pusher;

static void *push_many(void *arg) {
    pusher *p = arg;
    char key[32];
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "t%d/k%d", p->id, i % 7);
        if (dl_metric(p->run, key, i, i) != DL_OK) return "push failed";
        if (dl_metric(p->run, "shared", p->id * 20000L + i, i) != DL_OK) return "push failed";
    }
    return NULL;
}

/* Two trainers, two threads each; the small ring goes round many times. */
static void runs_in_parallel(void **state) {
    (void)state;
    dl_store *s = dl_store_open(db_path);
    s->capacity = 4096;
    dl_run *a = dl_run_begin(s, NULL), *b = dl_run_begin(s, NULL);
    pusher p[4] = {{a, 0}, {a, 1}, {b, 2}, {b, 3}};
    pthread_t t[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, push_many, &p[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *why;
        pthread_join(t[i], &why);
        assert_null(why);
    }
    ok(dl_run_end(a, DL_RUN_FINISHED, NULL));
    ok(dl_run_end(b, DL_RUN_DIVERGED, NULL));
    dl_store_stats stats;
    dl_store_stats_get(s, &stats);
    assert_true(stats.pushed >= 160000); /* the use of the machine as well, where it takes long */
    assert_int_equal(stats.committed, stats.pushed);
    assert_int_equal(stats.dropped, 0);
    ok(dl_store_close(s));
    assert_int_equal(ask("select count(*) from metric"), stats.pushed);
    assert_int_equal(ask("select count(*) from metrics where key not like 'system/%'"), 160000);
    assert_int_equal(ask("select count(*) from series where key = 'shared' and n = 40000"), 2);
    assert_int_equal(ask("select count(*) from series where key like 't%' and run_id = 1"), 14);
    assert_int_equal(ask("select count(*) from metrics where key like 't%' and step != value"), 0);
    assert_string_equal(ask_text("select group_concat(status) from run"), "finished,diverged");
    assert_sound();
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        T(records_surroundings),   T(finds_command_line),  T(asks_git),
        T(keeps_statistics),       T(merges_like_rebuild), T(resumes),
        T(resumes_by_time),        T(notes_things),        T(keeps_nothing),
        T(is_shared_in_a_process), T(runs_in_parallel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
