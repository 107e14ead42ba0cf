/* The active time of runs: which time counts, and how much is recorded when a process is killed. */
#include "track/support.h"

#include "track/store.h"

#include <sys/syscall.h>
#include <time.h>

enum { UNIT_MS = 300 };

/* In place of libc's: the clock that people set can be set here. */
static int64_t set_by_s; /* atomic */
int clock_gettime(clockid_t clock, struct timespec *t) {
    int rc = (int)syscall(SYS_clock_gettime, clock, t);
    if (clock == CLOCK_REALTIME) t->tv_sec += __atomic_load_n(&set_by_s, __ATOMIC_RELAXED);
    return rc;
}

static void set_clock(int64_t by_s) { __atomic_store_n(&set_by_s, by_s, __ATOMIC_RELAXED); }

static double now_s(void) {
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void work(void) { usleep(UNIT_MS * 1000); }
static void wait_idle(void) {
    dl_idle(1);
    usleep(UNIT_MS * 3000);
    dl_idle(0);
}

/* Waits for a commit of the writer, longer than 0.5 s only where others have the disk. */
static void await(const char *sql) {
    for (int i = 0; i < 30 && ask(sql) != 1; i++) usleep(100000);
    assert_int_equal(ask(sql), 1);
}

static double seconds_of(dl_store *s, long id) {
    dl_run_list *l = dl_run_show(s, id);
    has(l);
    double t = l->runs->seconds;
    dl_run_list_free(l);
    return t;
}

/* Units of work, and nothing of the idle ones among all that passed since `began`. */
static void assert_units(double seconds, int n, double began, int idle) {
    double unit = UNIT_MS / 1e3, most = now_s() - began - idle * unit + 0.05;
    if (seconds < n * unit - 0.15 || seconds > most)
        fail_msg("%d units of %g s are told as %g s; there were %g s", n, unit, seconds, most);
}

static long idle_run(dl_store *s, dl_run **out) {
    dl_run *r = *out = dl_run_begin(s, NULL);
    has(r);
    work();
    wait_idle();
    wait_idle();
    work();
    return dl_run_id(r);
}

static void idle_time_does_not_count(void **state) {
    (void)state;
    dl_run *r;
    dl_store *s = dl_store_open(db_path);
    double began = now_s();
    long id = idle_run(s, &r);
    assert_units(seconds_of(s, id), 2, began, 6);
    char where[80];
    snprintf(where, sizeof where, "seconds < %g and seconds > 0.4", now_s() - began - 6 * UNIT_MS / 1e3 + 1);
    dl_run_list *l = dl_run_query_list(s, &(dl_run_query){.where = where});
    has(l);
    assert_int_equal(l->n, 1);
    dl_run_list_free(l);
    /* a row as others see it is right within a commit of the writer, at work and while idle */
    await("select active_since_us is not null from run");
    dl_idle(1);
    await("select active_since_us is null from run");
    assert_units(ask("select active_us / 1e6 from run"), 2, began, 6);
    dl_idle(0);
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    assert_units(seconds_of(s, id), 2, began, 6);
    assert_true(ask("select (ended_us - started_us) / 1e6 from run") > 8 * UNIT_MS / 1e3);
    /* and runs again when it is resumed */
    usleep(UNIT_MS * 3000);
    has(r = dl_run_resume(s, id, 0, 0));
    work();
    wait_idle();
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    assert_units(seconds_of(s, id), 3, began, 12);
    ok(dl_store_close(s));
}

/* All time counts for a program that never tells. */
static void work_counts_without_a_shell(void **state) {
    (void)state;
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    work();
    work();
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    double wall = ask("select (ended_us - started_us) / 1e6 from run");
    assert_true(fabs(seconds_of(s, 1) - wall) < 0.05);
    ok(dl_store_close(s));
}

static void killed_runs_keep_theirs(void **state) {
    (void)state;
    for (int at_work = 0; at_work < 2; at_work++) {
        int fd[2];
        char c = 0;
        double began = now_s();
        assert_int_equal(pipe(fd), 0);
        pid_t pid = fork();
        if (!pid) {
            dl_run *r;
            idle_run(dl_store_open(db_path), &r);
            dl_idle(!at_work);
            usleep(400000);
            if (dl_metric(r, "loss", 0, 1) || write(fd[1], &c, 1) != 1) _exit(1);
            pause();
        }
        assert_int_equal(read(fd[0], &c, 1), 1);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(fd[0]);
        close(fd[1]);
        dl_store *s = dl_store_open(db_path);
        assert_units(seconds_of(s, at_work + 1), 2 + at_work, began, 6);
        assert_int_equal(ask("select count(*) from run where status = 'killed' and active_since_us is null"),
                         at_work + 1);
        ok(dl_store_close(s));
    }
}

/* A store of version 1, as the first migration makes it. */
static void make_first_version(void) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(db_path, &db), 0);
    ok(dl_db_migrate(db, db_path, dl_migrations, 1));
    sqlite3_close(db);
    alter("insert into run(uuid, name, status, started_us, ended_us, heartbeat_us, host, boot_id, pid, pid_start)"
          " values('u', 'old', 'finished', 1000000, 8000000, 8000000, 'h', 'b', 1, 2)");
}

static void older_stores_are_brought_up(void **state) {
    (void)state;
    make_first_version();
    dl_store *s = dl_store_open(db_path);
    has(s);
    assert_true(seconds_of(s, 1) == 7);
    assert_int_equal(ask("pragma user_version"), 4);
    ok(dl_store_close(s));
}

static void older_stores_can_be_read(void **state) {
    (void)state;
    make_first_version();
    sqlite3 *db;
    int64_t n = 0;
    ok(dl_db_open(&db, db_path, DL_DB_READ));
    ok(dl_db_check_version(db, db_path, dl_migrations, dl_migration_count, DL_DB_OLDEST_READ));
    ok(dl_db_int(db, &n, "select active_us from run as r where r.id = 1 and r.active_since_us is null", ""));
    assert_int_equal(n, 7000000);
    assert_int_equal(dl_db_run(db, "update run set name = 'x'", ""), DL_ERR_STORE);
    sqlite3_close(db);
    assert_int_equal(ask("pragma user_version"), 1);
}

/* The clock is set back in mid-run, and further before the run is resumed. */
static void clocks_that_are_set_change_no_times(void **state) {
    (void)state;
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    has(r);
    long id = dl_run_id(r);
    for (long i = 0; i < 10; i++) {
        if (i == 5) set_clock(-3600);
        ok(dl_metric(r, "loss", i, (double)i));
    }
    ok(dl_run_event(r, 5, "note", "", NULL));
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    set_clock(-7200);
    has(r = dl_run_resume(s, id, 10, 0));
    for (long i = 10; i < 20; i++) ok(dl_metric(r, "loss", i, (double)i));
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    ok(dl_store_close(s));
    set_clock(0);
    assert_int_equal(ask("select count(*) from metric"), 20);
    assert_int_equal(
        ask("select count(*) from metric as a join metric as b on b.step = a.step + 1 and b.t_us < a.t_us"), 0);
    assert_true(ask("select (max(t_us) - min(t_us)) / 1e6 from metric") < 60);
    assert_int_equal(ask("select min(t_us) >= (select started_us from run) from metric"), 1);
    assert_int_equal(ask("select ended_us >= (select max(t_us) from metric) from run"), 1);
    assert_true(ask("select abs(max(t_us) - (select max(t_us) from metric)) / 1e6 from event") < 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(idle_time_does_not_count, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(work_counts_without_a_shell, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(killed_runs_keep_theirs, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(clocks_that_are_set_change_no_times, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(older_stores_are_brought_up, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(older_stores_can_be_read, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
