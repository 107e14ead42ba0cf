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

/* A run begins in another file, in the folder for temporary files, of which one warning tells. Closes the store. */
static int begins_elsewhere(dl_store *s, const char *why) {
    char text[512], path[4096];
    sqlite3 *db;
    sqlite3_stmt *st;
    dl_run *r = dl_run_begin(s, NULL), *second = dl_run_begin(s, &(dl_run_spec){.name = "second"});
    if (!r || !second) return fprintf(stderr, "%s\n", dl_errmsg()), 10;
    if (!dl_store_warning(s, text, sizeof text)) return 11;
    if (!strstr(text, why) || !strstr(text, "runs are recorded in")) return fprintf(stderr, "%s\n", text), 12;
    if (dl_store_warning(s, text, sizeof text)) return 13;
    for (int i = 0; i < 1000; i++)
        if (dl_metric(r, "loss", i, i) != DL_OK) return 14;
    if (dl_run_end(r, DL_RUN_FINISHED, NULL) != DL_OK) return 15;
    snprintf(path, sizeof path, "%s", dl_store_path(dl_store_in_use(s)));
    if (!strcmp(path, db_path) || dl_store_close(s) != DL_OK) return 16;
    if (sqlite3_open(path, &db) || sqlite3_prepare_v2(db,
                                                      "select count(*) from metrics m, run r where r.status ="
                                                      " 'finished' and r.id = 1",
                                                      -1, &st, NULL))
        return 17;
    int found = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int(st, 0) : 0;
    sqlite3_finalize(st);
    sqlite3_close(db);
    unlink(path);
    return found == 1000 ? 0 : 18;
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
    assert_int_equal(begins_elsewhere(s, "written by a newer dlsh (schema version 99)"), 0);
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
    if (dl_run_tag(s, 1, "x", 1) != DL_ERR_STORE) return 6;
    return begins_elsewhere(s, "cannot be written");
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
    return begins_elsewhere(s, db_path);
}

static void begins_where_it_can_write(void **state) {
    (void)state;
    assert_int_equal(chmod(dir, 0555), 0);
    int rc = as_user(no_place_body);
    chmod(dir, 0755);
    assert_int_equal(rc, 0);
}

static int unreadable_body(void) {
    dl_store *s = dl_store_open(db_path);
    if (!s) return fprintf(stderr, "%s\n", dl_errmsg()), 1;
    if (dl_run_query_list(s, NULL) || !strstr(dl_errmsg(), "cannot open")) return 2;
    dl_error_clear();
    return begins_elsewhere(s, "cannot be written");
}

static void begins_beside_a_file_that_is_closed_to_it(void **state) {
    (void)state;
    make_store(1);
    assert_int_equal(chmod(db_path, 0600), 0);
    if (geteuid()) assert_int_equal(chmod(db_path, 0), 0);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(as_user(unreadable_body), 0);
    chmod(db_path, 0600);
}

/* The file becomes read-only while a run is recorded: SQLite refuses to write. */
static void goes_on_when_it_becomes_read_only(void **state) {
    (void)state;
    char text[512];
    for (int close_first = 0; close_first < 2; close_first++) {
        dl_store *s = dl_store_open(db_path);
        s->capacity = 1 << 12;
        dl_run *r = dl_run_begin(s, NULL);
        has(r);
        ok(dl_store_flush(s));
        pthread_mutex_lock(&s->wlock);
        assert_int_equal(sqlite3_exec(s->w, "pragma query_only = 1", NULL, NULL, NULL), 0);
        pthread_mutex_unlock(&s->wlock);
        for (long i = 0; i < 30000; i++) ok(dl_metric(r, "loss", i, (double)i));
        dl_run *second = dl_run_begin(s, NULL); /* elsewhere */
        has(second);
        ok(dl_metric(second, "loss", 1, 1));
        ok(dl_run_end(r, DL_RUN_DIVERGED, NULL));
        if (!dl_store_warning(s, text, sizeof text) || !strstr(text, "written")) fail_msg("%s", text);
        snprintf(text, sizeof text, "%.500s", dl_store_path(dl_store_in_use(s)));
        if (!close_first) {
            pthread_mutex_lock(&s->wlock);
            sqlite3_exec(s->w, "pragma query_only = 0", NULL, NULL, NULL);
            pthread_mutex_unlock(&s->wlock);
            for (int i = 0; i < 50 && dl_store_flush(s) != DL_OK; i++) usleep(100000);
            ok(dl_store_close(s));
        } else {
            assert_int_equal(dl_store_close(s), DL_ERR_STORE);
            error_says("are not committed yet");
            has(s = dl_store_open(db_path));
            ok(dl_store_close(s));
        }
        unlink(text);
        assert_int_equal(ask("select count(*) from metric"), 30000);
        assert_string_equal(ask_text("select status from run"), "diverged");
        assert_int_equal(ask("select ended_us >= started_us and active_since_us is null from run"), 1);
        assert_int_equal(count_files("-ring-"), 0);
        assert_sound();
        unlink(db_path);
    }
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
    /* the ring fills up: points go to a file elsewhere, and nothing waits for the writer */
    int64_t begin = dl_now_us();
    for (long i = 0; i < 20000; i++) ok(dl_metric(r, "over", i, (double)i));
    assert_true(dl_now_us() - begin < 1500000);
    assert_int_equal(s->ring.spill.file[0].size, 0);
    assert_int_equal(access(s->ring.spill.file[1].path, F_OK), 0);
    /* and when there is no room anywhere they are counted and reported */
    struct rlimit before, none = {0, RLIM_INFINITY};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none.rlim_max = before.rlim_max;
    dl_series *late = dl_series_of(r, "refused");
    has(late);
    while (s->ring.spill.file[1].size & 0xfffff) ok(dl_metric(r, "limit", 0, 1));
    setrlimit(RLIMIT_FSIZE, &none);
    long refused = 0;
    for (long i = 0; i < 100; i++) refused += dl_series_push(late, i, (double)i) != DL_OK;
    assert_int_equal(refused, 100);
    error_says("the ring is full");
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(dl_store_warning(s, text, sizeof text), 1);
    if (!strstr(text, "points are being dropped")) fail_msg("%s", text);
    dl_store_stats stats;
    dl_store_stats_get(s, &stats);
    assert_int_equal(stats.dropped, refused);
    dl_run *second = dl_run_begin(s, NULL);
    has(second);
    snprintf(text, sizeof text, "%.500s", dl_store_path(dl_store_in_use(s)));
    assert_string_not_equal(text, db_path);
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
    unlink(text);
    assert_int_equal(ask("select count(*) from metrics where key = 'train/loss'"), 20000);
    assert_int_equal(ask("select count(*) from metrics where key = 'over'"), 20000);
    assert_int_equal(ask("select count(*) from metrics where key = 'refused'"), 0);
    assert_int_equal(count_files("-ring-"), 0);
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
    char text[512];
    pid_t pid = fork();
    if (!pid) {
        struct rlimit limit = {1 << 20, 1 << 20};
        setrlimit(RLIMIT_FSIZE, &limit);
        dl_store *s = dl_store_open(db_path);
        if (!s) _exit(1);
        dl_run *r = dl_run_begin(s, NULL); /* that nobody records */
        if (!r || dl_metric(r, "loss", 0, 0) != DL_OK || dl_run_end(r, DL_RUN_FINISHED, NULL) != DL_OK) _exit(2);
        if (!dl_store_warning(s, text, sizeof text) || !strstr(text, "files of this process may have") ||
            !strstr(text, "not recorded"))
            _exit(3);
        _exit(dl_store_warning(s, text, sizeof text) || dl_store_close(s) != DL_OK);
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
    assert_int_equal(ask("select count(*) from metrics where key not like 'system/%'"), PROCESSES * EACH);
    assert_int_equal(ask("select count(*) from run where status = 'finished'"), PROCESSES);
    assert_int_equal(ask("select count(*) from (select run from metrics where key not like 'system/%' group by run "
                         "having count(distinct value) = 1)"),
                     PROCESSES);
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
        T(begins_where_it_can_write),
        T(begins_beside_a_file_that_is_closed_to_it),
        T(goes_on_when_it_becomes_read_only),
        T(survives_removal),
        T(survives_replacement),
        cmocka_unit_test_setup_teardown(survives_a_full_disk, small_disk, remove_small_disk),
        cmocka_unit_test_setup_teardown(closes_on_a_full_disk, small_disk, remove_small_disk),
        T(respects_file_size_limits),
        T(many_processes_write),
        T(knows_network_file_systems),
        T(checkpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
