/* What can go wrong with a store, each with an error that says so, and nothing lost: damaged and foreign files,
 * versions, full disks, read-only folders, locks, several processes. */
#include "track/support.h"

#include <sys/mount.h>
#include <sys/resource.h>
#include "track/store.h"

static void put_file(const char *path, const char *text, size_t n) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

static void make_store(int points) {
    dl_store *s = dl_store_open(db_path);
    has(s);
    dl_run *r = dl_run_begin(s, NULL);
    has(r);
    for (int i = 0; i < points; i++) ok(dl_metric(r, "loss", i, i));
    ok(dl_store_close(s));
}

/* ---------------------------------------------------------------- files that are not what they should be */

static void refuses_other_files(void **state) {
    (void)state;
    char junk[8192];
    memset(junk, 'x', sizeof junk);
    put_file(db_path, junk, sizeof junk);
    assert_null(dl_store_open(db_path));
    assert_int_equal(dl_failed(), DL_ERR_STORE);
    error_says("not a database");
    assert_true(dl_error_last()->hint[0]);
    unlink(db_path);
    alter("create table theirs(x); insert into theirs values(1)");
    assert_null(dl_store_open(db_path));
    error_says("database of another program");
    assert_string_equal(ask_text("pragma journal_mode"), "delete"); /* and it was left as it was */
    assert_null(dl_store_open(dir));
    error_says("is not a file");
    assert_null(dl_store_open("/no/such/folder/x.db"));
    assert_int_equal(dl_failed(), DL_ERR_IO);
    unlink(db_path);
    put_file(db_path, "", 0); /* an empty file is as good as none */
    make_store(3);
    assert_int_equal(ask("select count(*) from metric"), 3);
}

static void says_what_is_damaged(void **state) {
    (void)state;
    char junk[4096];
    make_store(20000);
    memset(junk, 0x5a, sizeof junk);
    int fd = open(db_path, O_RDWR);
    struct stat st;
    fstat(fd, &st);
    assert_true(st.st_size > 40 * 4096);
    for (off_t at = 30 * 4096; at < st.st_size; at += 4096) assert_int_equal(pwrite(fd, junk, sizeof junk, at), 4096);
    close(fd);
    dl_store *s = dl_store_open(db_path);
    has(s); /* the list of tables can be read */
    assert_null(dl_series_points(s, 1, "loss", 0));
    assert_int_equal(dl_failed(), DL_ERR_STORE);
    error_says("the file is damaged");
    assert_non_null(strstr(dl_error_last()->hint, ".recover"));
    dl_run_list *l = dl_run_query_list(s, NULL); /* undamaged parts can still be read */
    has(l);
    assert_int_equal(l->runs[0].series[0].n, 20000);
    dl_run_list_free(l);
    dl_store_close(s);
}

/* A later schema may have added columns: what is known is read, and nothing written. */
static void reads_newer_versions(void **state) {
    (void)state;
    char text[400];
    make_store(1);
    alter("alter table run add column later text");
    alter("pragma user_version = 99");
    dl_store *s = dl_store_open(db_path);
    has(s);
    assert_true(dl_store_warning(s, text, sizeof text));
    assert_non_null(strstr(text, "schema version 99"));
    dl_run_list *l = dl_run_query_list(s, NULL);
    has(l);
    assert_int_equal(l->n, 1);
    dl_run_list_free(l);
    assert_null(dl_run_begin(s, &(dl_run_spec){.name = "no"}));
    error_says("written by a newer dlsh (schema version 99)");
    dl_store_close(s);
    assert_int_equal(ask("pragma user_version"), 99);
    assert_int_equal(ask("select count(*) from run"), 1);
}

/* ---------------------------------------------------------------- migration */

static const dl_migration steps[] = {
    {1, "create table a(x); insert into a values(1)", NULL},
    {2, "alter table a add column y; update a set y = x + 1", NULL},
    {4, "create table b as select y from a", NULL},
    {5, "insert into nosuch values(1)", NULL},
};

static void migrates_with_backup(void **state) {
    (void)state;
    char bak[400];
    sqlite3 *db;
    assert_int_equal(sqlite3_open(db_path, &db), 0);
    ok(dl_db_migrate(db, db_path, steps, 1));
    assert_int_equal(ask("pragma user_version"), 1);
    assert_int_equal(ask("pragma application_id"), DL_DB_APPLICATION);
    assert_int_equal(count_files(".bak"), 0);
    ok(dl_db_migrate(db, db_path, steps, 3));
    assert_int_equal(ask("pragma user_version"), 4);
    assert_int_equal(ask("select y from b"), 2);
    ok(dl_db_migrate(db, db_path, steps, 3)); /* nothing to do */
    assert_int_equal(count_files(".bak"), 1);
    /* a step that fails leaves the store as it was */
    assert_int_equal(dl_db_migrate(db, db_path, steps, 4), DL_ERR_STORE);
    error_says("migrate the store");
    assert_int_equal(ask("pragma user_version"), 4);
    assert_int_equal(dl_db_check_version(db, db_path, steps, 4, 5), DL_ERR_STORE);
    error_says("must be brought to 5, but cannot be written");
    ok(dl_db_check_version(db, db_path, steps, 4, 4));
    sqlite3_close(db);
    snprintf(bak, sizeof bak, "%s.v1.bak", db_path);
    assert_int_equal(rename(bak, db_path), 0);
    assert_int_equal(ask("pragma user_version"), 1);
    assert_int_equal(ask("select x from a"), 1);
}

/* Two processes find the same old store at the same moment. */
static void migrates_once(void **state) {
    (void)state;
    sqlite3 *db;
    assert_int_equal(sqlite3_open(db_path, &db), 0);
    ok(dl_db_migrate(db, db_path, steps, 1));
    sqlite3_close(db);
    pid_t pids[3];
    for (int i = 0; i < 3; i++)
        if (!(pids[i] = fork())) {
            sqlite3_open(db_path, &db);
            sqlite3_busy_timeout(db, 20000);
            int st = dl_db_migrate(db, db_path, steps, 3);
            if (st) fprintf(stderr, "%s\n", dl_errmsg());
            _exit(st);
        }
    for (int i = 0; i < 3; i++) {
        int status;
        waitpid(pids[i], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(ask("select count(*) from b"), 1);
    assert_int_equal(ask("pragma user_version"), 4);
}

/* ---------------------------------------------------------------- disks and rights */

/* As user "nobody" when the tests run as root, whom no file mode stops. Returns the exit status. */
static int as_user(int (*body)(void)) {
    pid_t pid = fork();
    if (!pid) {
        if (!geteuid() && (setgid(65534) || setuid(65534))) _exit(99);
        _exit(body());
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static int read_only_body(void) {
    dl_store *s = dl_store_open(db_path);
    if (!s) return fprintf(stderr, "%s\n", dl_errmsg()), 1;
    dl_run_list *l = dl_run_query_list(s, NULL);
    if (!l || l->n != 1 || l->runs[0].series[0].n != 50) return fprintf(stderr, "%s\n", dl_errmsg()), 2;
    if (l->runs[0].status != DL_RUN_KILLED)
        return 3; /* its process has ended, although the database cannot be written */
    dl_run_list_free(l);
    dl_rows *q = dl_store_sql(s, "select count(*) from metrics");
    if (!q || dl_rows_next(q) != 1 || dl_rows_int(q, 0) != 50) return 4;
    dl_rows_free(q);
    if (dl_run_begin(s, NULL) || !strstr(dl_errmsg(), "cannot be written")) return 5;
    if (dl_run_tag(s, 1, "x", 1) != DL_ERR_STORE) return 6;
    return dl_store_close(s) ? 7 : 0;
}

static void reads_read_only_folders(void **state) {
    (void)state;
    make_store(50);
    alter("update run set status = 'running', pid = 1, pid_start = 7");
    assert_int_equal(chmod(db_path, 0444), 0);
    assert_int_equal(chmod(dir, 0555), 0);
    int rc = as_user(read_only_body);
    chmod(dir, 0755);
    assert_int_equal(rc, 0);
    assert_int_equal(count_files(""), 1);
}

static int no_place_body(void) {
    dl_store *s = dl_store_open(db_path);
    if (!s) return 1;
    if (dl_run_begin(s, NULL)) return 2;
    if (dl_failed() != DL_ERR_STORE || !strstr(dl_errmsg(), "cannot be opened")) return 3;
    if (!strstr(dl_errmsg(), db_path)) return 5;
    return dl_store_close(s) ? 4 : 0;
}

static void says_where_it_cannot_write(void **state) {
    (void)state;
    assert_int_equal(chmod(dir, 0555), 0);
    int rc = as_user(no_place_body);
    chmod(dir, 0755);
    assert_int_equal(rc, 0);
}

/* Fills the free space of the file system with one file; returns its path. */
static const char *stuff(size_t leave) {
    static char path[400], block[4096];
    snprintf(path, sizeof path, "%s/stuffing", dir);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    off_t size = 0;
    while (write(fd, block, sizeof block) == (ssize_t)sizeof block) size += (off_t)sizeof block;
    assert_int_equal(ftruncate(fd, size > (off_t)leave ? size - (off_t)leave : 0), 0);
    close(fd);
    return path;
}

static void disk_full_body(void) {
    char text[512];
    dl_store *s = dl_store_open(db_path);
    has(s);
    s->capacity = 1 << 15;
    dl_run *r = dl_run_begin(s, NULL);
    has(r);
    ok(dl_metric(r, "loss", 0, 0));
    ok(dl_store_flush(s));
    const char *stuffing = stuff(0);
    long pushed = 1; /* more than what the WAL has room for in its last page */
    for (; pushed < 20000; pushed++) ok(dl_metric(r, "loss", pushed, (double)pushed));
    assert_int_equal(dl_store_flush(s), DL_ERR_STORE);
    error_says("disk");
    assert_int_equal(dl_store_warning(s, text, sizeof text), 1);
    assert_non_null(strstr(text, "points wait in the ring"));
    /* the ring fills up: points are counted and reported as lost, and nothing waits for the writer */
    int64_t begin = dl_now_us();
    long refused = 0;
    for (long i = 0; i < 20000; i++) {
        dl_status st = dl_metric(r, "over", i, (double)i);
        refused += st != DL_OK;
    }
    assert_true(refused > 0 && refused < 20000);
    assert_true(dl_now_us() - begin < 1500000);
    error_says("the ring is full");
    dl_store_stats stats;
    dl_store_stats_get(s, &stats);
    assert_int_equal(stats.dropped, refused);
    assert_null(dl_run_begin(s, NULL));
    /* reading still works; and with room again everything else does, too */
    dl_run_list *l = dl_run_query_list(s, NULL);
    has(l);
    dl_run_list_free(l);
    unlink(stuffing);
    dl_status st = DL_ERR_STORE;
    for (int i = 0; i < 50 && st != DL_OK; i++) {
        usleep(100000);
        st = dl_store_flush(s);
    }
    ok(st);
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    ok(dl_store_close(s));
    assert_int_equal(ask("select count(*) from metrics where key = 'train/loss'"), 20000);
    assert_int_equal(ask("select count(*) from metrics where key = 'over'"), 20000 - refused);
    assert_sound();
}

static void survives_a_full_disk(void **state) {
    if (!*state) skip();
    disk_full_body();
}

/* Closing while the disk is full keeps the points in the ring for the next one. */
static void closes_on_a_full_disk(void **state) {
    if (!*state) skip();
    dl_store *s = dl_store_open(db_path);
    s->capacity = 1 << 15;
    dl_run *r = dl_run_begin(s, NULL);
    has(r);
    ok(dl_series_of(r, "loss") ? DL_OK : DL_ERR_STORE);
    const char *stuffing = stuff(0);
    for (long i = 0; i < 10000; i++) ok(dl_metric(r, "loss", i, (double)i));
    assert_int_equal(dl_store_close(s), DL_ERR_STORE);
    assert_int_equal(count_files("-ring-"), 1);
    unlink(stuffing);
    s = dl_store_open(db_path);
    has(s);
    dl_store_stats stats;
    dl_store_stats_get(s, &stats);
    assert_int_equal(stats.recovered, 10000);
    ok(dl_store_close(s));
    assert_int_equal(ask("select count(*) from metric"), 10000);
    assert_int_equal(count_files("-ring-"), 0);
}

/* A limit of file sizes kills a process that writes beyond it, unless it looks first. */
static void respects_file_size_limits(void **state) {
    (void)state;
    pid_t pid = fork();
    if (!pid) {
        struct rlimit limit = {1 << 20, 1 << 20};
        setrlimit(RLIMIT_FSIZE, &limit);
        dl_store *s = dl_store_open(db_path);
        if (!s) _exit(1);
        if (dl_run_begin(s, NULL)) _exit(2);
        if (!strstr(dl_errmsg(), "files of this process may have")) _exit(3);
        dl_store_close(s);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

/* ---------------------------------------------------------------- a file that goes away */

/* Removed, and removed with all that lies beside it: what was in it and what comes are in the file of its name. */
static void survives_removal(void **state) {
    (void)state;
    char text[512], side[400];
    for (int all = 0; all < 2; all++) {
        dl_store *s = dl_store_open(db_path);
        dl_run *r = dl_run_begin(s, NULL);
        has(r);
        for (int i = 0; i < 100; i++) ok(dl_metric(r, "loss", i, i));
        ok(dl_store_flush(s));
        assert_int_equal(unlink(db_path), 0);
        for (int i = 0; all && i < 2; i++) {
            snprintf(side, sizeof side, "%s%s", db_path, i ? "-shm" : "-wal");
            unlink(side);
        }
        for (int i = 100; i < 200; i++) ok(dl_metric(r, "loss", i, i));
        for (int i = 0; i < 50 && access(db_path, F_OK); i++) usleep(20000);
        ok(dl_store_flush(s));
        assert_int_equal(ask("select count(*) from metrics"), 200);
        assert_int_equal(dl_store_warning(s, text, sizeof text), 1);
        if (!strstr(text, "was removed while it was in use")) fail_msg("%s", text);
        assert_int_equal(dl_store_warning(s, text, sizeof text), 0);
        ok(dl_metric(r, "loss", 200, 200));
        ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
        dl_run_list *l = dl_run_query_list(s, NULL);
        has(l);
        assert_int_equal(l->n, 1);
        dl_run_list_free(l);
        ok(dl_store_close(s));
        assert_int_equal(ask("select count(*) from metrics"), 201);
        assert_int_equal(ask("select count(*) from run where status = 'finished'"), 1);
        assert_int_equal(count_files("-ring-"), 0);
        assert_sound();
        unlink(db_path);
    }
}

/* Another file in its place is left alone. */
static void survives_replacement(void **state) {
    (void)state;
    char text[512], moved[400];
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    has(r);
    for (int i = 0; i < 100; i++) ok(dl_metric(r, "loss", i, i));
    ok(dl_store_flush(s));
    snprintf(moved, sizeof moved, "%s.old", db_path);
    assert_int_equal(rename(db_path, moved), 0);
    FILE *f = fopen(db_path, "w");
    fputs("mine", f);
    fclose(f);
    for (int i = 100; i < 200; i++) ok(dl_metric(r, "loss", i, i));
    for (int i = 0; i < 50 && !count_files(".rescued-"); i++) usleep(20000);
    ok(dl_store_flush(s));
    assert_int_equal(dl_store_warning(s, text, sizeof text), 1);
    if (!strstr(text, "was replaced by another file")) fail_msg("%s", text);
    snprintf(db_path, sizeof db_path, "%s", dl_store_path(s));
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    ok(dl_store_close(s));
    assert_int_equal(ask("select count(*) from metrics"), 200);
    assert_sound();
}

/* ---------------------------------------------------------------- several processes */

static void waits_for_locks(void **state) {
    (void)state;
    sqlite3 *other;
    make_store(1);
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    assert_int_equal(sqlite3_open(db_path, &other), 0);
    assert_int_equal(sqlite3_exec(other, "begin immediate", NULL, NULL, NULL), 0);
    int64_t begin = dl_now_us();
    for (int i = 0; i < 1000; i++) ok(dl_metric(r, "loss", i, i)); /* a push does not care */
    assert_true(dl_now_us() - begin < 200000);
    usleep(300000);
    assert_int_equal(ask("select count(*) from metric"), 1);
    assert_int_equal(sqlite3_exec(other, "commit", NULL, NULL, NULL), 0);
    ok(dl_store_flush(s));
    assert_int_equal(ask("select count(*) from metric"), 1001);
    sqlite3_close(other);
    ok(dl_store_close(s));
}

enum { PROCESSES = 3, EACH = 30000 };

static void many_processes_write(void **state) {
    (void)state;
    pid_t pids[PROCESSES];
    for (int p = 0; p < PROCESSES; p++)
        if (!(pids[p] = fork())) {
            dl_store *s = dl_store_open(db_path);
            dl_run *r = dl_run_begin(s, NULL); /* all make the file at once */
            if (!r) _exit((fprintf(stderr, "%s\n", dl_errmsg()), 1));
            for (int i = 0; i < EACH; i++) {
                if (dl_metric(r, i & 1 ? "loss" : "acc", i, p) != DL_OK)
                    _exit((fprintf(stderr, "%s\n", dl_errmsg()), 2));
                if (i % 5000 == 0 && dl_store_flush(s) != DL_OK) _exit(3);
                if (i % 7000 == 0 && dl_run_event(r, i, "e", NULL, NULL) != DL_OK) _exit(4);
                if (i % 9000 == 0) dl_run_list_free(dl_run_query_list(s, NULL));
            }
            if (dl_run_end(r, DL_RUN_FINISHED, NULL) != DL_OK || dl_store_close(s) != DL_OK) _exit(5);
            _exit(0);
        }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        waitpid(pids[p], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_files("-"), 0);
    assert_int_equal(ask("select count(*) from metric"), PROCESSES * EACH);
    assert_int_equal(ask("select count(*) from run where status = 'finished'"), PROCESSES);
    assert_int_equal(
        ask("select count(*) from (select run from metrics group by run having count(distinct value) = 1)"), PROCESSES);
    assert_sound();
}

static void knows_network_file_systems(void **state) {
    (void)state;
    assert_true(dl_db_network_type(0x6969) && dl_db_network_type(0xff534d42) && dl_db_network_type(0x0bd00bd0));
    assert_true(dl_db_network_type((unsigned long)(int)0xff534d42)); /* f_type is signed on some systems */
    assert_false(dl_db_network_type(0xef53) || dl_db_network_type(0x01021994) || dl_db_network_type(0x9123683e));
    /* with the other journal all works as well, and it is said once */
    char text[512];
    dl_store *s = dl_store_open(db_path);
    s->network = 1;
    dl_run *r = dl_run_begin(s, NULL);
    has(r);
    assert_string_equal(ask_text("pragma journal_mode"), "delete");
    assert_int_equal(dl_store_warning(s, text, sizeof text), 1);
    assert_non_null(strstr(text, "network file system"));
    assert_int_equal(dl_store_warning(s, text, sizeof text), 0);
    for (int i = 0; i < 1000; i++) ok(dl_metric(r, "loss", i, i));
    ok(dl_store_close(s));
    assert_int_equal(ask("select count(*) from metric"), 1000);
}

/* A long commit log shrinks again: the one connection that checkpoints does. */
static void checkpoints(void **state) {
    (void)state;
    char wal[400];
    struct stat st;
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 20000; i++) ok(dl_metric(r, "loss", round * 20000L + i, i));
        ok(dl_store_flush(s));
    }
    snprintf(wal, sizeof wal, "%s-wal", db_path);
    assert_int_equal(stat(wal, &st), 0);
    assert_true(st.st_size < 3L * DL_DB_CHECKPOINT_PAGES * 4096);
    ok(dl_store_close(s));
    assert_int_not_equal(stat(wal, &st), 0);
    stat(db_path, &st);
    assert_true(st.st_size / 800000 < 40); /* bytes a point */
}

/* A file system of eight megabytes in place of the folder. */
static int small_disk(void **state) {
    if (make_dir(state)) return -1;
    *state = mount("tmpfs", dir, "tmpfs", 0, "size=8m") ? NULL : dir; /* needs root */
    return 0;
}

static int remove_small_disk(void **state) {
    void *mounted = *state;
    if (mounted) {
        remove_dir(state); /* its files; the folder itself is busy */
        umount(dir);
    }
    return remove_dir(state);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        T(refuses_other_files),
        T(says_what_is_damaged),
        T(reads_newer_versions),
        T(migrates_with_backup),
        T(migrates_once),
        T(reads_read_only_folders),
        T(says_where_it_cannot_write),
        T(survives_removal),
        T(survives_replacement),
        cmocka_unit_test_setup_teardown(survives_a_full_disk, small_disk, remove_small_disk),
        cmocka_unit_test_setup_teardown(closes_on_a_full_disk, small_disk, remove_small_disk),
        T(respects_file_size_limits),
        T(waits_for_locks),
        T(many_processes_write),
        T(knows_network_file_systems),
        T(checkpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
